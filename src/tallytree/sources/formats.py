"""Formats of files, by their names."""

from __future__ import annotations

from collections.abc import Iterable
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
