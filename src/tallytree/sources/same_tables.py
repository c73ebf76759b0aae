"""Whether two table arguments are the same table, so that a private one is not taken for a public one."""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tallytree.sources.addresses import CLOUD, DATABASES, scheme_of
from tallytree.sources.kinds import CSV, DuckDB, Parquet, PostgreSQL

_FAMILIES = {"s3": "s3", "gcs": "gs", "abfs": "az", "hdfs": "hdfs"}
"""Arrow's file systems elsewhere, by the names that Arrow gives them."""

MOST_FILES = 10_000
"""A folder with more files is no table."""


def refuse_private(public: Any, argument: str, private: Any, private_argument: str) -> None:
    """Refuse the private table in place of a public one: its rows would be published as they are.

    Files are compared by what they are, whatever they are called (links, patterns, lists, URLs), tables of databases by
    the database and their name, tables in memory by identity. A copy, and a view of a table, is another one.

    Raises:
        ValueError: they are the same, or have a file in common.
    """
    if same_table(public, private):
        raise ValueError(
            f"{argument}: it is the private table that is given as {private_argument}, and what it says would be "
            "published without noise; give a public table"
        )


def same_table(one: Any, other: Any) -> bool:
    """Whether two arguments are the same table, or have a file in common."""
    if one is None or other is None:
        return False
    return one is other or bool(identities(one) & identities(other))


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
    files = getattr(table, "files", None)  # a data set of Arrow
    if isinstance(files, list) and type(table).__module__.startswith("pyarrow"):
        family = _FAMILIES.get(getattr(getattr(table, "filesystem", None), "type_name", ""))
        of_file = table_files if family is None else lambda path: {(family, path.strip("/"))}
        return set().union(*(of_file(each) for each in files if isinstance(each, str)))
    return set()


def _elsewhere(url: str) -> Iterator[tuple[str, ...]]:
    """The URL, and the objects that it names, as far as its server says."""
    family = CLOUD.get(scheme_of(url) or "", "postgresql")
    yield family, url.partition("://")[2].strip("/")
    if family == "postgresql":
        return
    from tallytree.sources import cloud

    # What cannot be found is refused where it is read.
    for file_format in ("parquet", "csv"):
        with contextlib.suppress(ValueError, OSError, ModuleNotFoundError):
            place, found = cloud.files_at(url, "", file_format, "")
            yield from ((place.family, path.strip("/")) for path in found)


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
