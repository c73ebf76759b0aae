"""The columns of located tables, without a row; their rows, in batches of wanted columns; public tables, as a whole.

Each file is opened, read to its end, and closed.
"""

from __future__ import annotations

import csv
import difflib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from tallytree.sources.csv_files import csv_header, is_gzip, open_csv
from tallytree.sources.failures import SourceError, Withheld
from tallytree.sources.locate import FileFormat, Files, Scan, Source, locate
from tallytree.sources.partitions import require_agreement, with_partitions
from tallytree.sources.scans import BATCH_ROWS, Batches
from tallytree.support.arrays import IntArray

if TYPE_CHECKING:
    from tallytree.sources.cloud import CloudPlace


def schema_of_file(files: Files, path: str) -> pa.Schema:
    """The columns that a file itself has; CSV columns are text. Only its header or footer is read.

    Raises:
        ArrowException, OSError, EOFError, zlib.error, csv.Error, StopIteration: it cannot be read.
    """
    place = files.place
    if files.format == "parquet":
        if place is None:
            return pa.parquet.read_schema(path).remove_metadata()
        with place.system.open_input_file(path) as file:
            return pa.parquet.read_schema(file).remove_metadata()
    source = None if place is None else place.system.open_input_file(path)
    return pa.schema([(name, pa.string()) for name in csv_header(path, files.dialect, source)])


def file_batches(files: Files, path: str, columns: Sequence[str], argument: str) -> Batches:
    """The rows of a file, with the wanted columns in their order; those of its folders' names are text.

    Raises:
        SourceError: a file elsewhere changed, is gone or is cut short; a partition column disagrees with the file's.
        ArrowException, OSError: a file cannot be read.
    """
    values = dict(files.partition_values(path))
    own = set(schema_of_file(files, path).names) if values else set(columns)
    read = [name for name in columns if name in own]
    rows = _parquet(files, path, read, argument) if files.format == "parquet" else _csv(files, path, read, argument)
    with closing(rows):
        for batch in rows:
            arrays = []
            for name in columns:
                if name not in own:
                    arrays.append(_repeated(values[name], batch.num_rows))
                    continue
                arrays.append(batch.column(name))
                if name in values:
                    require_agreement(arrays[-1], values[name], files.named(path), name, argument)
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _repeated(value: str | None, number: int) -> pa.Array:
    return pa.nulls(number, pa.string()) if value is None else pa.repeat(pa.scalar(value, pa.string()), number)


def _parquet(files: Files, path: str, columns: Sequence[str], argument: str) -> Batches:
    """Row group by row group: of one only, the wanted columns are in memory."""
    with _opened(files.place, path, argument) as (file, asked):
        table = asked(lambda: pa.parquet.ParquetFile(file, pre_buffer=True))
        for group in range(table.num_row_groups):
            if not columns:  # the rows alone
                yield pa.record_batch({"": pa.nulls(table.metadata.row_group(group).num_rows)})
                continue
            batches = table.iter_batches(BATCH_ROWS, row_groups=[group], columns=list(columns))
            yield from _each(batches, asked)


def _csv(files: Files, path: str, columns: Sequence[str], argument: str) -> Batches:
    columns = columns or schema_of_file(files, path).names[:1]  # the rows alone
    place = files.place
    if place is None:
        with open_csv(path, columns, files.dialect) as reader:
            yield from reader
        return
    with _opened(place, path, argument) as (file, asked):
        opened: list[Any] = []

        def source() -> Any:
            opened.append(place.system.open_input_file(path))
            return opened[-1]

        with asked(lambda: open_csv(path, columns, files.dialect, source)) as reader:
            yield from _each(reader, asked)
            cut = not is_gzip(path) and opened[-1].tell() != file.size()
        if cut:
            raise SourceError(f"{argument}: {files.named(path)!r} was not read to its end; try again")


def _each(batches: Any, asked: Callable[[Callable[[], Any]], Any]) -> Iterator[pa.RecordBatch]:
    waiting = iter(batches)
    while (batch := asked(lambda: next(waiting, None))) is not None:
        yield batch


@contextmanager
def _opened(
    place: CloudPlace | None, path: str, argument: str
) -> Iterator[tuple[Any, Callable[[Callable[[], Any]], Any]]]:
    """A file to read from, and what asks its server; at the end it is still the file that was found.

    Raises:
        SourceError: it is not, or it cannot be read.
    """
    if place is None:
        yield path, lambda work: work()
        return
    file = place.run(lambda: place.system.open_input_file(path), path, argument)
    with file:
        tag = place.tag(file)
        yield file, lambda work: place.run(work, path, argument)
        place.require_same(path, file.size(), tag, argument)


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


def read_public(table: Any, columns: Sequence[str], argument: str) -> pa.Table:
    """Read some columns of a *public* table into memory; CSV cells are read as text.

    Raises:
        ValueError: a column is missing, or a file cannot be read.
        TypeError: `table` is not a table.
        OSError: a server or a database cannot be read.
    """
    source = table if isinstance(table, Files | Scan) else locate(table, argument, columns, public=True)
    if isinstance(source, Files):
        found = schemas(source, argument)
        for _, schema in found:
            require_columns(schema.names, columns, argument, public=True)
        schema_of = {path: schema for paths, schema in found for path in paths}
        return pa.concat_tables(_read_file(source, path, schema_of[path], columns, argument) for path in source.paths)
    require_columns(column_names(source, argument), columns, argument, public=True)
    if isinstance(source, Scan):
        return _read_scan(source, columns, argument)
    if isinstance(source, pa.RecordBatchReader):
        source = source.read_all()
    return source.select(list(columns))


def refuse_repeated(times: IntArray, labels: Mapping[str, pa.Array], what: str, remedy: str) -> None:
    """Refuse a public table that lists something twice, since what it says is published as exact.

    `times` is how often each thing is listed, and `labels` are those of each, by column; a message begins with `what`.
    """
    if len(times) and times.max() > 1:
        place = int(np.argmax(times > 1))
        path = ", ".join(f"{name}={column[place].as_py()!r}" for name, column in labels.items())
        raise ValueError(f"{what} {path} is listed twice; {remedy}")


_HINTS: dict[FileFormat, str] = {
    "parquet": "is it complete?",
    "csv": "is it complete, in UTF-8 (else name it: tt.sources.CSV(path, encoding='latin-1'), in a spec {csv: path, "
    "encoding: latin-1}), quoted as in RFC 4180, with as many cells in every row as in the header?",
}


def _read_file(files: Files, path: str, schema: pa.Schema, columns: Sequence[str], argument: str) -> pa.Table:
    distinct = list(dict.fromkeys(columns))
    of_columns = pa.schema([(name, schema.field(name).type) for name in distinct])
    with Withheld(pa.ArrowException, OSError):  # the table may be a private one, given by mistake
        return pa.Table.from_batches(file_batches(files, path, distinct, argument), of_columns).select(list(columns))
    raise ValueError(f"{argument}: {files.named(path)!r} cannot be read as {files.format}; {_HINTS[files.format]}")


def _read_scan(source: Scan, columns: Sequence[str], argument: str) -> pa.Table:
    distinct = list(dict.fromkeys(columns))
    of_columns = pa.schema([(name, source.schema.field(name).type) for name in distinct])
    with Withheld(Exception):  # every library has exceptions of its own
        return pa.Table.from_batches(source.batches(distinct, argument), of_columns).select(list(columns))
    raise ValueError(f"{argument}: the table cannot be read to its end; does its query fail?")
