"""Parquet files with a description of each column in the schema, and a data dictionary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from tallytree.support.whole_files import flush
from tallytree.views.export.dictionary import about_text
from tallytree.views.export.metadata_files import write_data_package
from tallytree.views.export.tables import ExportedTable


def write_parquet_files(tables: Sequence[ExportedTable], folder: Path) -> None:
    """Write a Parquet file for each table, and `datapackage.json`.

    Args:
        tables: what to write.
        folder: where to, an empty folder.
    """
    files = {}
    for table in tables:
        path = f"{table.stem}.parquet"
        with pyarrow.parquet.ParquetWriter(folder / path, described_schema(table), compression="zstd") as writer:
            for rows in table.slices():
                writer.write_table(rows.cast(writer.schema))
        flush(folder / path)
        files[path] = table
    write_data_package(folder, files, tables[0].statement, kind="parquet")


def described_schema(table: ExportedTable) -> pa.Schema:
    """The columns of a table, each with its description, and with that of the release."""
    fields = [
        field.with_metadata({"description": column.description, "unit": column.unit})
        for field, column in zip(table.schema, table.columns, strict=True)
    ]
    return pa.schema(fields, metadata={"title": table.name, "description": about_text(table.statement)})
