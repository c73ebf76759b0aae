"""Whether two table arguments are the same table, and what tells that the files of a table were replaced since.

So a private table is not taken for a public one. Files that were replaced have other sizes, times or tags of servers.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tallytree.sources.addresses import CLOUD, DATABASES, scheme_of
from tallytree.sources.kinds import CSV, DuckDB, Parquet, PostgreSQL
from tallytree.sources.libraries import is_lazy_frame, is_query, paths_of_query
from tallytree.sources.locate import Files, locate

_FAMILIES = {"s3": "s3", "gcs": "gs", "abfs": "az", "hdfs": "hdfs"}
"""Arrow's file systems elsewhere, by the names that Arrow gives them."""

MOST_FILES = 10_000
"""A folder with more files is no table."""


def refuse_private(public: Any, argument: str, private: Any, private_argument: str) -> None:
    """Refuse the private table in place of a public one: its rows would be published as they are.

    What is recognized is listed in docs/how-to/sources.md. A copy is another table.

    Raises:
        ValueError: they are the same, or have a file in common.
    """
    if same_table(public, private):
        raise ValueError(
            f"{argument}: it is the private table that is given as {private_argument}, and what it says would be "
            "published without noise; give a public table"
        )


def same_table(public: Any, private: Any) -> bool:
    """Whether two arguments are the same table, have a file in common, or the public one is a query of the private one.

    Files are compared by what they are, whatever they are called (links, patterns, lists, URLs); tables of PostgreSQL
    by what the server says they are; tables in memory by identity.

    A private query of several tables (a join) may read a public one, too. So it is recognized only in a public table
    that reads all of them.
    """
    if public is None or private is None:
        return False
    if public is private or _reads_all(_sources(public), _sources(private)):
        return True
    if isinstance(public, PostgreSQL) and isinstance(private, PostgreSQL):
        from tallytree.sources.postgresql import relations

        return _reads_all([relations(public)], [{each} for each in relations(private)])
    return False


def _reads_all(public: Iterable[set[Any]], private: list[set[Any]]) -> bool:
    read: set[Any] = set().union(*public)
    return bool(private) and all(read & each for each in private)


def _sources(table: Any) -> list[set[Any]]:
    """What a table is, as sets of which two have an element in common where they are the same; a set for each scan."""
    if is_query(table):
        named = identities if is_lazy_frame(table) else _named_in_sql
        scans = [
            set().union(*(named(path.removeprefix("file://")) for path in paths)) for paths in paths_of_query(table)
        ]
        return [each for each in scans if each]
    found = identities(table)
    return [found] if found else []


def _named_in_sql(path: str) -> set[Any]:
    """The files that a text in SQL names. Most texts are no paths, so folders and patterns such as `*` are left out."""
    if scheme_of(path) in CLOUD:
        return identities(path)
    pattern = glob.has_magic(path) and any(mark in path for mark in "/.")
    with contextlib.suppress(ValueError, OSError):
        if pattern or Path(path).is_file():
            return table_files(path)
    return set()


def identities(table: Any) -> set[Any]:
    """What two arguments have in common where they are the same table; nothing for a table in memory."""
    if isinstance(table, list | tuple):
        return set().union(*(identities(each) for each in table if isinstance(each, str | os.PathLike)))
    if isinstance(table, Parquet | CSV):
        return identities(table.path)
    if isinstance(table, PostgreSQL):
        from tallytree.sources.postgresql import identity as of_database

        return set(of_database(table))
    if isinstance(table, DuckDB):
        from tallytree.sources.duckdb_files import identity, table_name

        return set(identity(os.fspath(table.path), table_name(table.table)))
    if isinstance(table, str | os.PathLike):
        path = os.fspath(table)
        scheme = scheme_of(path) if isinstance(path, str) else None
        return set(_elsewhere(path)) if scheme in CLOUD or scheme in DATABASES else table_files(path)
    if type(table).__module__.startswith("pyarrow"):
        return _files_of_dataset(table)
    return set()


def _files_of_dataset(table: Any) -> set[Any]:
    """The files of a data set of Arrow, and of those that it joins."""
    found = set().union(*map(_files_of_dataset, getattr(table, "children", ())))
    files: Any = getattr(table, "files", None)
    system: Any = getattr(table, "filesystem", None)
    if not isinstance(files, list):
        return found
    names = [each for each in files if isinstance(each, str)]
    while getattr(system, "type_name", "") == "subtree":  # a folder of another file system
        names = [f"{system.base_path.rstrip('/')}/{each.lstrip('/')}" for each in names]
        system = system.base_fs
    family = _FAMILIES.get(getattr(system, "type_name", ""))
    if family is None:
        return found.union(*map(table_files, names))
    return found | {_of_object(family, _account(system) if family == "az" else "", path) for path in names}


def _account(system: Any) -> str:
    """The storage account of Arrow's file system of Azure; it tells it only to who copies it."""
    with contextlib.suppress(Exception):
        return str(system.__reduce__()[1][0]["account_name"])
    return ""


def _of_object(family: str, account: str, path: str) -> tuple[str, ...]:
    """An object elsewhere: buckets have one name for all, containers of Azure are those of an account."""
    return (family, *([account] if family == "az" else []), path.strip("/"))


def _elsewhere(url: str) -> Iterator[tuple[str, ...]]:
    """The URL, and the objects that it names, as far as its server says."""
    family = CLOUD.get(scheme_of(url) or "", "postgresql")
    yield family, url.partition("://")[2].strip("/")
    if family == "postgresql":
        return
    from tallytree.sources import cloud

    # What cannot be found is refused where it is read.
    with contextlib.suppress(ValueError, OSError, ModuleNotFoundError):
        place, path = cloud.place_of(url, "")
        yield _of_object(place.family, place.account, path)
    for file_format in ("parquet", "csv"):
        with contextlib.suppress(ValueError, OSError, ModuleNotFoundError):
            place, found = cloud.files_at(url, "", file_format, "")
            yield from (_of_object(place.family, place.account, path) for path in found)


def table_files(given: str | os.PathLike[str]) -> set[Any]:
    """The files that a path, a folder or a pattern names: where each is, and which file it is, whatever its name."""
    path = os.fspath(given)
    found: set[Any] = set()
    with contextlib.suppress(ValueError, RuntimeError):  # what no file can be named is refused where it is read
        for each in map(Path, [path, *glob.glob(path, recursive=True)]):  # noqa: PTH207 (a pattern, maybe absolute)
            inside = list(islice(each.rglob("*"), MOST_FILES + 1)) if each.is_dir() else []
            for one in (each, *(inside if len(inside) <= MOST_FILES else ())):
                found.add(one.resolve())  # it may not exist
                with contextlib.suppress(OSError):
                    about = one.stat()
                    found.add((about.st_dev, about.st_ino))
    return found


def stamps_of(table: Any, argument: str) -> str | None:
    """The stamps of all files of a table, as one text that does not depend on their order, names and folders.

    Of each file: its size in bytes; when it was written (ns); the server's tag of its content, where it has one; and
    the columns in the names of its folders, which are a part of its content.

    Args:
        table: any table; see `tallytree.sources.locate.locate`. No row is read.
        argument: its name in messages.

    Returns:
        None of a database, a query, or a table in memory: nothing tells whether these have changed. Also where a file
        is not there any more, or its server does not answer.
    """
    if not isinstance(table, str | os.PathLike | list | tuple | Parquet | CSV):
        return None
    try:
        found = locate(table, argument)
        if not isinstance(found, Files):
            return None
        return json.dumps(sorted(json.dumps(_stamp(found, path, argument)) for path in found.paths))
    except (ValueError, OSError, ModuleNotFoundError):  # what cannot be read is refused where it is read
        return None


def _stamp(files: Files, path: str, argument: str) -> list[Any]:
    """The stamp of one file."""
    place = files.place
    if place is None:
        about = Path(path).stat()
        return [about.st_size, about.st_mtime_ns, None, files.partition_values(path)]
    with place.run(lambda: place.system.open_input_file(path), path, argument) as file:
        tag = place.tag(file)
    stamp = place.stamps[path]
    return [stamp.size, stamp.written, None if tag is None else tag.decode("latin-1"), files.partition_values(path)]
