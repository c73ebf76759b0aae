"""Every table argument is read the same way: a path or glob, pandas, polars, pyarrow, or a DuckDB relation.

Files stay files here (`Files`), so that the engine can scan private records itself; what is in memory becomes Arrow.
"""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from tallytree.sources.data_frames import arrow_of_frame, is_frame

FileFormat = Literal["parquet", "csv"]

TABLE_FORMATS = ("_delta_log", "metadata/*.metadata.json", ".hoodie")
"""The files by which a Delta Lake, Iceberg or Hudi table is recognised."""


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
        ValueError: no file matches, or the format is not known; two columns of a frame have one name.
        TypeError: it is none of the kinds above, or a column of a frame has no Arrow type.
    """
    if isinstance(table, str | os.PathLike):
        return _files(os.fspath(table), argument)
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table])
    if isinstance(table, pa.Table | pa.RecordBatchReader):
        return table
    if type(table).__module__.partition(".")[0] == "polars" and type(table).__name__ == "LazyFrame":
        raise TypeError(f"{argument}: a polars LazyFrame is a query, not a table; give .collect() of it")
    if type(table).__name__ == "Series":
        raise TypeError(f"{argument}: a Series is one column, not a table; give a data frame")
    if is_frame(table):
        return arrow_of_frame(table, argument)
    # What a library says when a conversion fails may quote a value of a record. So here and elsewhere the error is
    # raised outside the `except`: then the library's is neither printed with it nor found in its `__context__`.
    try:
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
    """Each file once, also where several paths lead to it: a record that is read twice has half the protection."""
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
