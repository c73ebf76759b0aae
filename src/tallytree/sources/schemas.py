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
        raise PermissionError(f"{argument}: permission to read {files.named(path)!r} is denied")
    raise ValueError(
        f"{argument}: {files.named(path)!r} cannot be read as {files.format}; is it complete, and does it have a "
        "header?"
    )


def require_columns(names: Iterable[str], wanted: Sequence[str], argument: str, *, public: bool) -> None:
    """Raise a `ValueError` that names the first of `wanted` that is missing or ambiguous among `names`.

    Names of columns are the schema. But where a file has no header, its first record stands in place of the names, so
    what is shown of them depends on how sure it is that they are names (decision 0057).

    Args:
        names: of the table's columns.
        wanted: the columns that are needed.
        argument: the table's name in messages.
        public: whether the table is a public one.
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
            shown = _all_shown(present) if _may_show_all(present, wanted, public=public) else None
            hint = _csv_hint(present)
            known = shown or f"{_columns(len(present))}{hint}"
            near = _near(column, present) if shown or _may_show_near(present, wanted) else []
            guess = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
            withheld = "" if shown or near or hint else _WITHHELD
            raise ValueError(f"{argument}: column {column!r} is missing; the table has {known}{guess or withheld}")
        if found > 1:
            raise ValueError(f"{argument}: column {column!r} appears {found} times; give each column its own name")


MOST_SHOWN = 30
"""Names of columns in a message. A private table with more has perhaps a column for each person."""
_LONGEST = 64
"""Letters; nothing that is longer is a name."""
_WITHHELD = "; look at its header (names are shown only where they cannot be a record)"


def _may_show_all(present: Sequence[str], wanted: Sequence[str], *, public: bool) -> bool:
    """Whether all names may be shown.

    Of a private table, where at least two wanted columns are there and no name looks like a value. Of a public one,
    where one of the two holds: else it has no header, or is a private table that is given by mistake.
    """
    recognized, names = _recognized(present, wanted), all(map(_could_be_a_name, present))
    return names or recognized > 0 if public else names and recognized > 1 and len(present) <= MOST_SHOWN


def _may_show_near(present: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether names much like a wanted one may be shown: a wanted one is there, and none looks like a value."""
    return _recognized(present, wanted) > 0 and all(map(_could_be_a_name, present))


def _recognized(present: Sequence[str], wanted: Sequence[str]) -> int:
    """How many wanted columns are there, but for capitals, blanks and marks between words."""
    return len(set(map(_plain, wanted)) & set(map(_plain, present)))


def _could_be_a_name(text: str) -> bool:
    """Whether a text looks like the name of a column, and not like a number, a date, an address or an empty cell."""
    return len(text) <= _LONGEST and _plain(text).isidentifier()


def _columns(number: int) -> str:
    return f"{number} column{'' if number == 1 else 's'}"


def _all_shown(names: Sequence[str]) -> str:
    more = len(names) - MOST_SHOWN
    listed = ", ".join(repr(name[:_LONGEST]) for name in names[:MOST_SHOWN])
    and_more = f" and {more} more" if more > 0 else ""
    return f"the column{'' if len(names) == 1 else 's'} {listed}{and_more}"


def _near(wanted: str, present: Sequence[str]) -> list[str]:
    """The columns that are most like the wanted one, at most three, the likeliest first."""
    plain = {_plain(name): name for name in reversed(present)}
    if _plain(wanted) in plain:
        return [plain[_plain(wanted)]]
    return [plain[each] for each in difflib.get_close_matches(_plain(wanted), list(plain))]


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
