"""Public tables (the leaves of a hierarchy, the groups per leaf), read into memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from tallytree.sources.csv_files import open_csv
from tallytree.sources.locate import FileFormat, Files, locate
from tallytree.sources.schemas import column_names, require_columns


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


_HINTS: dict[FileFormat, str] = {
    "parquet": "is it complete?",
    "csv": "is it complete, in UTF-8, quoted as in RFC 4180, with as many cells in every row as in the header?",
}


def _read_file(path: str, file_format: FileFormat, columns: Sequence[str], argument: str) -> pa.Table:
    require_columns(column_names(Files((path,), file_format), argument), columns, argument)
    try:
        if file_format == "parquet":
            return pa.parquet.read_table(path, columns=list(columns)).select(list(columns))
        with open_csv(path, columns) as reader:
            return reader.read_all()
    except (pa.ArrowException, OSError):
        # What the reader says may quote a row, and the table may be a private one, given by mistake.
        hint = _HINTS[file_format]
    raise ValueError(f"{argument}: {path!r} cannot be read as {file_format}; {hint}")
