"""Files of this machine: what a path, a folder or a glob names, each file once; and the formats that names say."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

FileFormat = Literal["parquet", "csv"]

_ELSE = {
    (".xlsx", ".xls", ".xlsm", ".ods"): "; a workbook is not read, save its sheet as CSV",
    (".tsv", ".tab", ".txt"): r"; name the separator: tt.sources.CSV(path, separator='\t'), in a spec "
    r'{csv: path, separator: "\t"}',
    (".duckdb", ".ddb", ".db"): "; of a database name the table: tt.sources.DuckDB(path, table=…), in a spec "
    "{duckdb: path, table: …}",
}


def format_of(name: str) -> FileFormat | None:
    """The format that a file's name says."""
    lowered = name.lower()
    if lowered.endswith((".parquet", ".pq")):
        return "parquet"
    if lowered.endswith((".csv", ".csv.gz")):
        return "csv"
    return None


def common_format(names: Iterable[str], said: str, argument: str) -> FileFormat:
    """The one format of several files.

    Raises:
        ValueError: they have none in common that is known.
    """
    listed = list(names)
    formats = {format_of(name) for name in listed}
    if len(formats) != 1 or None in formats:
        hints = (hint for ends, hint in _ELSE.items() if any(name.lower().endswith(ends) for name in listed))
        raise ValueError(
            f"{argument}: {said} must name .parquet files, or .csv (.csv.gz) files, and not both{next(hints, '')}"
        )
    return formats.pop() or "parquet"


def is_data(name: str) -> bool:
    """Whether a file or folder holds data, as Spark and Arrow see it; `_part=a` is a partition."""
    return name[0] not in "_." or (name[0] == "_" and "=" in name)


TABLE_FORMATS = ("_delta_log", "metadata/*.metadata.json", ".hoodie")
"""The files by which a Delta Lake, Iceberg or Hudi table is recognised."""

MAX_ENTRIES = 1_000_000
"""Files and folders below a folder that is given as a table; more are not one table (the root of a disk, a home)."""


def files_at(path: str, said: str, file_format: FileFormat | None, argument: str) -> list[str]:
    """The files at a path or glob, or in a folder; some may be there twice, by two paths.

    Args:
        path: what is given.
        said: how messages name it.
        file_format: the one that is asked for; None: that which the names say, which of a folder is Parquet.
        argument: the table's name in messages.

    Raises:
        ValueError: there is none, or the place is no place of a table.
    """
    try:
        matches = _matches(path, said, argument)
        problem = None
    except OSError as error:  # a name that is too long, a loop of links
        problem = error.strerror
    if problem is not None:
        raise ValueError(f"{argument}: {said} cannot be looked for: {problem}")
    if len(matches) == 1 and Path(matches[0]).is_dir():
        matches = _in_folder(Path(matches[0]), path, file_format or "parquet", argument)
        if not matches:
            hint = "" if file_format else f"; for CSV give '{path}/*.csv'"
            raise ValueError(f"{argument}: the folder {path!r} holds no .{file_format or 'parquet'} file{hint}")
    return matches


def _matches(path: str, said: str, argument: str) -> list[str]:
    """The files, or the one folder, that a path or pattern is about."""
    fixed = path.partition("*")[0].partition("?")[0].partition("[")[0]
    begins = fixed[: fixed.rfind("/") + 1] if "**" in path else path
    if begins and os.path.realpath(begins) == os.path.realpath(os.sep):
        raise ValueError(f"{argument}: {said} is the whole file system; give the folder of the table")
    if Path(path).exists():
        return [path]
    return sorted(glob.glob(path, recursive=True))  # noqa: PTH207 (Path.glob takes no absolute pattern)


def _in_folder(folder: Path, given: str, file_format: FileFormat, argument: str) -> list[str]:
    """The files of a folder, as Spark and Arrow see it: what begins with `_` or `.` is not data.

    Messages name what was given: a pattern may have found a folder whose name is private.
    """
    for marker in TABLE_FORMATS:
        if any(folder.glob(marker)):
            raise ValueError(
                f"{argument}: {given!r} is a table with a log ({marker}), some of whose files may be out of "
                "date; export its current rows to Parquet"
            )
    found, entries = [], 0
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if is_data(name)]
        entries += len(folders) + len(files)
        if entries > MAX_ENTRIES:
            raise too_many(given, argument)
        endings = (".parquet",) if file_format == "parquet" else (".csv", ".csv.gz")
        found += [str(Path(place) / name) for name in files if name.lower().endswith(endings) and is_data(name)]
    return sorted(found)


def too_many(folder: str, argument: str) -> ValueError:
    """The error of a folder that holds more than a table does."""
    return ValueError(
        f"{argument}: the folder {folder!r} holds more than {MAX_ENTRIES:,} files; give the folder of the table"
    )


def without_repeats(named: Mapping[str, str], argument: str) -> list[str]:
    """Each file once, also where several paths lead to it: a record that is read twice has half the protection.

    Args:
        named: paths, each with how messages name it.
        argument: the table's name in messages.

    Raises:
        ValueError: something is no file: reading from a pipe, for instance, may never end.
    """
    seen: set[tuple[int, int]] = set()
    kept = []
    for path, name in named.items():
        refuse_other_encodings(path, name, argument)
        try:
            status = Path(path).stat()
        except OSError as error:
            status, problem = None, error.strerror
        if status is None:
            raise ValueError(f"{argument}: {name!r} cannot be opened: {problem}")
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{argument}: {name!r} is {_kind_of_file(status.st_mode)}, not a file; give files alone")
        if (status.st_dev, status.st_ino) not in seen:
            seen.add((status.st_dev, status.st_ino))
            kept.append(path)
    return kept


def refuse_other_encodings(path: str, named: str, argument: str) -> None:
    """Refuse a file name that is not UTF-8; messages name it `named`.

    Raises:
        ValueError: it is such a name.
    """
    # Python writes the bytes of a file name that are not UTF-8 as lone surrogates; no other reader of ours takes them.
    if any("\ud800" <= letter <= "\udfff" for letter in path):
        raise ValueError(f"{argument}: the file name {named!r} is not UTF-8; rename the file")


def _kind_of_file(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return next((name for test, name in kinds if test(mode)), "a device")
