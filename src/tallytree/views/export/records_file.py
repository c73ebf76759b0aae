"""The records of a release as one file, Parquet or CSV by its ending, with a data dictionary beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from tallytree.numbers.records import MadeUpRecords
from tallytree.release.files import TableWriter
from tallytree.sources.leaf_paths import decoded
from tallytree.support.whole_files import flush
from tallytree.views.export.csv_files import as_text, refuse_marked_headers
from tallytree.views.export.dictionary import Column, about_text, title_of
from tallytree.views.export.metadata_files import write_data_package

_TITLE = "Made-up records"


@dataclass(frozen=True)
class _Described:
    """See `metadata_files.Described`."""

    name: str
    text: str
    columns: Sequence[Column]


def dictionary_name(file: Path) -> str:
    """The name of the data dictionary of a file: `records.parquet.datapackage.json` of `records.parquet`."""
    return f"{file.name}.datapackage.json"


def write_records(records: MadeUpRecords, path: Path, *, for_spreadsheets: bool) -> None:
    """Write the records, and their data dictionary beside them.

    Args:
        records: the records.
        path: the file to make.
        for_spreadsheets: in CSV, put an apostrophe before labels that a spreadsheet would not take for the same text.
    """
    columns = _columns(records)
    csv = path.suffix.lower() == ".csv"
    if csv:
        _write_csv(records, path, for_spreadsheets=for_spreadsheets)
    else:
        _write_parquet(records, columns, path)
    flush(path)
    described = _Described("records", " ".join(records.sentences), columns)
    write_data_package(
        path.parent,
        {path.name: described},
        records.statement,
        kind="csv" if csv else "parquet",
        file=dictionary_name(path),
        first=(_TITLE, *records.sentences),
    )


def _write_csv(records: MadeUpRecords, path: Path, *, for_spreadsheets: bool) -> None:
    schema = decoded(records.schema.empty_table()).schema
    if for_spreadsheets:
        refuse_marked_headers(schema.names)
    with pa.csv.CSVWriter(path, schema.remove_metadata()) as writer:
        for rows in map(decoded, records.slices()):
            writer.write_table(as_text(rows) if for_spreadsheets else rows)


def _write_parquet(records: MadeUpRecords, columns: Sequence[Column], path: Path) -> None:
    statement = records.statement
    metadata = {
        "title": f"{_TITLE}. {title_of(statement)}",
        "records": " ".join(records.sentences),
        "description": about_text(statement),
        "columns": json.dumps({column.name: column.description for column in columns}, ensure_ascii=False),
    }
    schema = records.schema.with_metadata(metadata)
    with TableWriter(path, schema) as writer:
        for rows in records.slices():
            writer.write(rows.replace_schema_metadata(metadata))


def _columns(records: MadeUpRecords) -> tuple[Column, ...]:
    made = []
    for name in records.schema.names:
        if records.made_up is not None and name == records.made_up[0]:
            _, role, said = records.made_up
            made.append(Column(name, "integer", role, "", said))
            continue
        of = records.codes.get(name, name)
        said = "The code of the leaf" if name in records.codes else "The label"
        made.append(Column(name, "string", "label", "", f"{said} at the level {of!r} of a public hierarchy."))
    return tuple(made)
