"""Every table argument is read the same way: a path or glob, pandas, polars, pyarrow, or a DuckDB relation.

Files stay files here (`Files`), so that the engine can scan private records itself; what is in memory becomes Arrow.
"""

from __future__ import annotations

import glob
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from tallytree.sources.data_frames import arrow_of_frame, is_frame

FileFormat = Literal["parquet", "csv"]

TABLE_FORMATS = ("_delta_log", "metadata/*.metadata.json", ".hoodie")
"""The files by which a Delta Lake, Iceberg or Hudi table is recognised."""


MAX_ENTRIES = 1_000_000
"""Files and folders below a folder that is given as a table; more are not one table (the root of a disk, a home)."""


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
        return _files(_file_name(os.fspath(table), argument), argument)
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


def _file_name(path: str | bytes, argument: str) -> str:
    """A path that can be looked for; of text that is none, such as the content of a file, nothing is shown."""
    if isinstance(path, bytes):
        raise TypeError(f"{argument}: bytes must be the path as text")
    if not path:
        raise ValueError(f"{argument}: '' is empty; give the path or glob of Parquet or CSV files")
    if any(letter in path for letter in "\0\r\n") or len(path) > 4_000:
        raise ValueError(
            f"{argument}: the text that is given is no path (it has a line break or a NUL, or is too long); give "
            "a path, or a table in memory"
        )
    _refuse_other_encodings(path, argument)
    return path


def _refuse_other_encodings(path: str, argument: str) -> None:
    # Python writes the bytes of a file name that are not UTF-8 as lone surrogates; no other reader of ours takes them.
    if any("\ud800" <= letter <= "\udfff" for letter in path):
        raise ValueError(f"{argument}: the file name {path!r} is not UTF-8; rename the file")


def _matches(path: str, argument: str) -> list[str]:
    """The files, or the one folder, that a path or pattern is about."""
    fixed = path.partition("*")[0].partition("?")[0].partition("[")[0]
    begins = fixed[: fixed.rfind("/") + 1] if "**" in path else path
    if begins and os.path.realpath(begins) == os.path.realpath(os.sep):
        raise ValueError(f"{argument}: {path!r} is the whole file system; give the folder of the table")
    if Path(path).exists():
        return [path]
    return sorted(glob.glob(path, recursive=True))  # noqa: PTH207 (Path.glob takes no absolute pattern)


def _files(path: str, argument: str) -> Files:
    try:
        matches = _matches(path, argument)
        problem = None
    except OSError as error:  # a name that is too long, a loop of links
        problem = error.strerror
    if problem is not None:
        raise ValueError(f"{argument}: {path!r} cannot be looked for: {problem}")
    if len(matches) == 1 and Path(matches[0]).is_dir():
        matches = _in_folder(Path(matches[0]), argument)
        if not matches:
            raise ValueError(f"{argument}: the folder {path!r} holds no .parquet file; for CSV give '{path}/*.csv'")
    matches = _without_repeats(matches, argument)
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
    found, entries = [], 0
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name[0] not in "_."]
        entries += len(folders) + len(files)
        if entries > MAX_ENTRIES:
            raise ValueError(
                f"{argument}: the folder {str(folder)!r} holds more than {MAX_ENTRIES:,} files; give the folder of the "
                "table"
            )
        found += [str(Path(place) / name) for name in files if name.endswith(".parquet") and name[0] not in "_."]
    return sorted(found)


def _without_repeats(paths: list[str], argument: str) -> list[str]:
    """Each file once, also where several paths lead to it: a record that is read twice has half the protection.

    Raises:
        ValueError: something is no file: reading from a pipe, for instance, may never end.
    """
    seen: set[tuple[int, int]] = set()
    kept = []
    for path in paths:
        _refuse_other_encodings(path, argument)
        try:
            status = Path(path).stat()
        except OSError as error:
            status, problem = None, error.strerror
        if status is None:
            raise ValueError(f"{argument}: {path!r} cannot be opened: {problem}")
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{argument}: {path!r} is {_kind_of_file(status.st_mode)}, not a file; give files alone")
        if (status.st_dev, status.st_ino) not in seen:
            seen.add((status.st_dev, status.st_ino))
            kept.append(path)
    return kept


def _kind_of_file(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return next((name for test, name in kinds if test(mode)), "a device")


def _format_of(name: str) -> FileFormat | None:
    lowered = name.lower()
    if lowered.endswith((".parquet", ".pq")):
        return "parquet"
    if lowered.endswith((".csv", ".csv.gz")):
        return "csv"
    return None
