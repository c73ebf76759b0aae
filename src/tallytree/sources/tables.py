"""Every table argument is read the same way: a path or glob, pandas, polars, pyarrow, or a DuckDB relation.

Files stay files here (`Files`), so that the engine can scan private records itself; anything in memory becomes Arrow.
Public tables (the leaves of a hierarchy, the groups per leaf) are read whole with `read_public`.
"""

from __future__ import annotations

import csv
import glob
import gzip
import io
import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

FileFormat = Literal["parquet", "csv"]

_BOM = "\ufeff".encode()

_MAY_MEET_QUOTE = np.isin(np.arange(256), list(b',\r\n"'))

_CSV_BLOCK = 1 << 23
"""Bytes of CSV parsed at once; no row may be longer."""


TABLE_FORMATS = ("_delta_log", "metadata/*.metadata.json", ".hoodie")
"""What gives away a Delta Lake, Iceberg or Hudi table."""


@dataclass(frozen=True)
class Files:
    """The files of one table, not opened yet."""

    paths: tuple[str, ...]
    format: FileFormat


Source: TypeAlias = Files | pa.Table | pa.RecordBatchReader
"""A located table: files, Arrow in memory, or a stream that can be read once."""


def locate(table: Any, argument: str) -> Source:
    """Find out what `table` is and where its rows are, without reading private rows from a file.

    Args:
        table: a path or glob (Parquet or CSV), a pandas (its index is ignored) or polars frame, a pyarrow table or
            record batch, or a DuckDB relation.
        argument: its name in messages.

    Raises:
        ValueError: no file matches, or the format is not known.
        TypeError: it is none of the kinds above.
    """
    if isinstance(table, str | os.PathLike):
        return _files(os.fspath(table), argument)
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table])
    if isinstance(table, pa.Table | pa.RecordBatchReader):
        return table
    library = type(table).__module__.partition(".")[0]
    if library == "pandas" and hasattr(table, "columns"):
        return _from_pandas(table, argument)
    # What a library says when a conversion fails may quote a value of a record. So here and below the error is raised
    # outside the `except`: then the library's is neither printed with it nor to be found in its `__context__`.
    if library == "polars" and type(table).__name__ == "LazyFrame":
        raise TypeError(f"{argument}: a polars LazyFrame is a query, not a table; give .collect() of it")
    if type(table).__name__ == "Series":
        raise TypeError(f"{argument}: a Series is one column, not a table; give a data frame")
    try:
        if library == "polars" and hasattr(table, "columns") and hasattr(table, "to_arrow"):
            return table.to_arrow()
        if hasattr(table, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(table)
        known = False
    except Exception:  # noqa: BLE001 (every library has exceptions of its own)
        known = True
    if known:
        raise TypeError(
            f"{argument}: this {type(table).__name__} cannot be read as Arrow; its query may fail, its connection may "
            "be busy with another result, or a column may have a type that Arrow does not know"
        )
    raise TypeError(
        f"{argument}: {type(table).__name__} is not a table; give a path or glob (Parquet, CSV), a pandas or polars "
        "data frame, a pyarrow table, or a DuckDB relation"
    )


def _files(path: str, argument: str) -> Files:
    matches = [path] if Path(path).exists() else sorted(glob.glob(path, recursive=True))  # noqa: PTH207 (Path.glob takes no absolute pattern)
    if len(matches) == 1 and Path(matches[0]).is_dir():
        matches = _in_folder(Path(matches[0]), argument)
        if not matches:
            raise ValueError(f"{argument}: the folder {path!r} holds no .parquet file; for CSV give '{path}/*.csv'")
    matches = _without_repeats(matches)
    if not matches:
        raise ValueError(f"{argument}: no file at {path!r}; give the path or glob of Parquet or CSV files")
    formats = {_format_of(name) for name in matches}
    if len(formats) != 1 or None in formats:
        raise ValueError(f"{argument}: {path!r} must name .parquet files, or .csv (.csv.gz) files, and not both")
    return Files(tuple(matches), formats.pop() or "parquet")


def _in_folder(folder: Path, argument: str) -> list[str]:
    """The Parquet files of a folder, as Spark and Arrow see it: what begins with `_` or `.` is not data."""
    for marker in TABLE_FORMATS:
        if any(folder.glob(marker)):
            raise ValueError(
                f"{argument}: {str(folder)!r} is a table with a log ({marker}), some of whose files may be out of "
                "date; export its current rows to Parquet"
            )
    files = (file.relative_to(folder) for file in folder.rglob("*.parquet"))
    return sorted(str(folder / file) for file in files if not any(part[0] in "_." for part in file.parts))


def _without_repeats(paths: list[str]) -> list[str]:
    """Each file once, however many ways lead to it: a record that is read twice is protected half as well."""
    seen: set[tuple[int, int]] = set()
    kept = []
    for path in paths:
        status = Path(path).stat()
        if (status.st_dev, status.st_ino) not in seen:
            seen.add((status.st_dev, status.st_ino))
            kept.append(path)
    return kept


def _format_of(name: str) -> FileFormat | None:
    lowered = name.lower()
    if lowered.endswith((".parquet", ".pq")):
        return "parquet"
    if lowered.endswith((".csv", ".csv.gz")):
        return "csv"
    return None


def _from_pandas(frame: Any, argument: str) -> pa.Table:
    if not frame.columns.is_unique:
        repeated = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"{argument}: two columns are named {repeated!r}; give each column its own name")
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        culprit = next((name for name in frame.columns if not _fits_arrow(frame[name])), None)
    raise TypeError(
        f"{argument}: column {culprit!r} of the pandas frame mixes types or has one that Arrow does not know; "
        "give it one type (for instance with .astype(str)) or leave it out"
    )


def _fits_arrow(series: Any) -> bool:
    try:
        pa.Array.from_pandas(series)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True


def column_names(source: Source, argument: str) -> list[str]:
    """The names of a located table's columns; only headers and footers of files are read."""
    return list(schemas(source, argument)[0][1].names)


def schemas(source: Source, argument: str) -> list[tuple[tuple[str, ...], pa.Schema]]:
    """The distinct schemas of a located table, each with the files that have it; no row is read.

    CSV columns are text. A table that is not in files has one schema, and no files.

    Raises:
        ValueError: a file cannot be read.
    """
    if not isinstance(source, Files):
        return [((), source.schema)]
    files_of: dict[pa.Schema, list[str]] = {}
    for path in source.paths:
        files_of.setdefault(_schema_of_file(path, source.format, argument), []).append(path)
    return [(tuple(paths), schema) for schema, paths in files_of.items()]


def _schema_of_file(path: str, file_format: FileFormat, argument: str) -> pa.Schema:
    try:
        if file_format == "parquet":
            return pa.parquet.read_schema(path).remove_metadata()
        return pa.schema([(name, pa.string()) for name in _csv_header(path)])
    except PermissionError:
        denied = True
    except (pa.ArrowException, OSError, EOFError, zlib.error, csv.Error, StopIteration):
        denied = False
    if denied:
        raise PermissionError(f"{argument}: permission to read {path!r} is denied")
    raise ValueError(f"{argument}: {path!r} cannot be read as {file_format}; is it whole, and does it have a header?")


def _csv_header(path: str) -> list[str]:
    opened = gzip.open if path.lower().endswith(".gz") else open
    # Rows that come with the header's block are no concern of this: what is not UTF-8 in them is replaced.
    with opened(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as lines:
        return next(row for row in csv.reader(lines) if row)


def require_columns(names: Iterable[str], wanted: Sequence[str], argument: str) -> None:
    """Raise a `ValueError` that names the first of `wanted` that is missing or ambiguous among `names`."""
    present = list(names)
    for column in wanted:
        found = present.count(column)
        if found == 0:
            has = ", ".join(map(repr, present)) + _csv_hint(present)
            raise ValueError(f"{argument}: column {column!r} is missing; the table has {has}")
        if found > 1:
            raise ValueError(f"{argument}: column {column!r} appears {found} times; give each column its own name")


def _csv_hint(names: Sequence[str]) -> str:
    """What is probably wrong with a CSV file whose header looks like this."""
    if any("\N{REPLACEMENT CHARACTER}" in name for name in names):
        return " (the file is not UTF-8; convert it)"
    if len(names) == 1 and any(separator in names[0] for separator in ";\t|"):
        return " (cells must be separated by commas)"
    return ""


def read_public(table: Any, columns: Sequence[str], argument: str) -> pa.Table:
    """Read some columns of a *public* table into memory; CSV cells are read as text.

    Raises:
        ValueError: a column is missing, or a file cannot be read.
        TypeError: `table` is not a table.
    """
    source = locate(table, argument)
    if isinstance(source, Files):
        return pa.concat_tables([_read_file(path, source.format, columns, argument) for path in source.paths])
    require_columns(source.schema.names, columns, argument)
    if isinstance(source, pa.RecordBatchReader):
        source = source.read_all()
    return source.select(list(columns))


def _read_file(path: str, file_format: FileFormat, columns: Sequence[str], argument: str) -> pa.Table:
    require_columns(column_names(Files((path,), file_format), argument), columns, argument)
    try:
        if file_format == "parquet":
            return pa.parquet.read_table(path, columns=list(columns)).select(list(columns))
        with open_csv(path, columns) as reader:
            return reader.read_all()
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{argument}: {path!r} cannot be read as {file_format}: {error}") from None


def open_csv(path: str, columns: Sequence[str]) -> pa.csv.CSVStreamingReader:
    """A stream of some columns of a CSV file (gzip where the name says so): text as it is written, empty cells null."""
    return pa.csv.open_csv(
        pa.PythonFile(_StrictQuotes(path), mode="r"),
        read_options=pa.csv.ReadOptions(block_size=_CSV_BLOCK),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            include_columns=list(dict.fromkeys(columns)),
            column_types=dict.fromkeys(columns, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
        ),
    )


class _StrictQuotes(io.RawIOBase):
    """The bytes of a CSV file, refused where a quote stands that RFC 4180 does not allow.

    Arrow's reader takes a quote that is never closed, or closed in another row, for text; the rows between would vanish
    in one cell without a word.
    """

    def __init__(self, path: str) -> None:
        self._file = pa.input_stream(path, compression="detect")
        self._last = b"\n"
        self._quotes_before = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes, checked."""
        block: bytes = self._file.read(None if size < 0 else size)
        self._check(block)
        return block

    def close(self) -> None:
        self._file.close()
        super().close()

    def _check(self, block: bytes) -> None:
        # In a sound file quotes alternate: an opening one (or the second of a doubled pair) follows a comma, a line end
        # or a quote; a closing one (or the first of a pair) precedes one. The last byte is kept for its successor.
        text = np.frombuffer(self._last + block.removeprefix(_BOM if self._last == b"\n" else b""), dtype=np.uint8)
        quotes = np.flatnonzero(text == ord('"'))
        opening, closing = (quotes[(self._quotes_before + i) % 2 :: 2] for i in (0, 1))
        followed = closing[closing < len(text) - 1] + 1
        preceded = opening[opening > 0] - 1
        at_end = not block
        if not _MAY_MEET_QUOTE[text[np.concatenate([followed, preceded])]].all() or (
            at_end and (self._quotes_before + len(quotes)) % 2
        ):
            raise pa.ArrowInvalid("CSV: a quote is not closed, or stands where RFC 4180 does not allow one")
        self._quotes_before += int(np.count_nonzero(quotes < len(text) - 1))
        self._last = text[-1:].tobytes()


def text_column(table: pa.Table, column: str, argument: str) -> pa.Array:
    """A key column as one array of strings: text as it is, integers as decimal text.

    Raises:
        ValueError: a key is null (or an empty CSV cell).
        TypeError: the column holds neither text nor integers.
    """
    values = table.column(column)
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if not is_text_type(kind) and not pa.types.is_integer(kind):
        raise TypeError(
            f"{argument}: column {column!r} holds {kind}; keys must be strings or integers (cast the column first)"
        )
    text = pa.concat_arrays(values.cast(kind).cast(pa.large_string()).chunks or [pa.array([], pa.large_string())])
    if text.null_count:
        raise ValueError(f"{argument}: column {column!r} has null keys; drop or fill those rows")
    return text


def is_text_type(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
