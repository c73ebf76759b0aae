"""Public tables (the leaves of a hierarchy, the groups per leaf), read into memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.sources.failures import Withheld
from tallytree.sources.locate import FileFormat, Files, Scan, locate
from tallytree.sources.reading import file_batches
from tallytree.sources.schemas import column_names, require_columns, schemas
from tallytree.support.arrays import IntArray


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
