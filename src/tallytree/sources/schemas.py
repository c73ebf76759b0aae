"""The columns of located tables; no row is read."""

from __future__ import annotations

import csv
import difflib
import zlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from tallytree.sources.failures import SourceError
from tallytree.sources.locate import Files, Source
from tallytree.sources.partitions import with_partitions
from tallytree.sources.reading import schema_of_file


def column_names(source: Source, argument: str) -> list[str]:
    """The names of a located table's columns; only headers and footers of files are read."""
    return list(schemas(source, argument)[0][1].names)


def schemas(source: Source, argument: str) -> list[tuple[tuple[str, ...], pa.Schema]]:
    """The distinct schemas of a located table, each with the files that have it; no row is read.

    CSV columns are text. Columns in the names of folders follow those of the files (see `partitions`). A table that is
    not in files has one schema, and no files.

    Raises:
        ValueError: a file cannot be read.
        OSError: a file may not be read, or a server does not give it.
    """
    if not isinstance(source, Files):
        return [((), source.schema)]
    files_of: dict[pa.Schema, list[str]] = {}
    for path, schema in zip(source.paths, _schemas_of_files(source, argument), strict=True):
        files_of.setdefault(with_partitions(schema, source.partition_values(path)), []).append(path)
    return [(tuple(paths), schema) for schema, paths in files_of.items()]


MANY = 16
"""How many files elsewhere are opened at once: each takes some time to answer, and next to no work."""


def _schemas_of_files(files: Files, argument: str) -> Iterable[pa.Schema]:
    if files.place is None or len(files.paths) == 1:
        return [_schema_of_file(files, path, argument) for path in files.paths]
    with ThreadPoolExecutor(MANY) as pool:
        return list(pool.map(lambda path: _schema_of_file(files, path, argument), files.paths))


def _schema_of_file(files: Files, path: str, argument: str) -> pa.Schema:
    place = files.place
    try:
        if place is None:
            return schema_of_file(files, path)
        return place.run(lambda: schema_of_file(files, path), path, argument)
    except (SourceError, MemoryError):  # Arrow's error of memory is one of its own, too
        raise
    except PermissionError:
        denied = True
    except (pa.ArrowException, OSError, EOFError, zlib.error, csv.Error, StopIteration, UnicodeError):
        denied = False
    if denied:
        raise PermissionError(f"{argument}: permission to read {path!r} is denied")
    raise ValueError(
        f"{argument}: {files.named(path)!r} cannot be read as {files.format}; is it complete, and does it have a "
        "header?"
    )


def require_columns(names: Iterable[str], wanted: Sequence[str], argument: str) -> None:
    """Raise a `ValueError` that names the first of `wanted` that is missing or ambiguous among `names`.

    Of the table's own names it shows at most one, and only one that is nearly the wanted name: where a CSV file has no
    header, its names are the first record.
    """
    present = list(names)
    distinct = len(set(wanted))
    if distinct > len(present) and not set(wanted) & set(present):  # a private column in place of the names, perhaps
        raise ValueError(
            f"{argument}: {_columns(distinct)} are wanted, but the table has {_columns(len(present))}"
            f"{_csv_hint(present)}; it must have one for each of them"
        )
    for column in wanted:
        found = present.count(column)
        if found == 0:
            near = _nearly(column, present)
            guess = "" if near is None else f"; did you mean {near!r}?"
            raise ValueError(
                f"{argument}: column {column!r} is missing; the table has {_columns(len(present))}"
                f"{_csv_hint(present)}{guess}"
            )
        if found > 1:
            raise ValueError(f"{argument}: column {column!r} appears {found} times; give each column its own name")


NEAR = 0.9
"""How near to a wanted name (difflib's ratio) a column of the table must be to be shown: one letter in ten."""


def _columns(number: int) -> str:
    return f"{number} column{'' if number == 1 else 's'}"


def _nearly(wanted: str, present: Sequence[str]) -> str | None:
    """The column that is the wanted one but for capitals, blanks and marks between words, or a letter; else None."""
    plain = {_plain(name): name for name in reversed(present)}
    if _plain(wanted) in plain:
        return plain[_plain(wanted)]
    near = difflib.get_close_matches(_plain(wanted), list(plain), n=1, cutoff=NEAR)
    return plain[near[0]] if near else None


def _plain(name: str) -> str:
    return name[:200].casefold().replace("_", "").replace("-", "").replace(" ", "").strip("\t\ufeff\xa0")


def _csv_hint(names: Sequence[str]) -> str:
    """What is probably wrong with a CSV file whose header looks like this."""
    if any("\N{REPLACEMENT CHARACTER}" in name for name in names):
        return " (the file is not UTF-8; convert it, or name its encoding: tt.sources.CSV(path, encoding=…))"
    if len(names) == 1 and any(separator in names[0] for separator in ";\t|"):
        return (
            " (cells must be separated by commas, or name what separates them: tt.sources.CSV(path, separator=…), "
            "in a spec {csv: path, separator: …})"
        )
    return ""
