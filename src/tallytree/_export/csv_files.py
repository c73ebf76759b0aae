"""CSV files as RFC 4180 has them, with data dictionaries.

A label is written as it is, so that a program reads back what was published. A spreadsheet takes a cell that begins
with = + - @, a tab or a carriage return for a formula, in quotes too. With `for_spreadsheets` such labels get an
apostrophe before them, and the dictionaries say so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from tallytree._compute.whole_files import flush
from tallytree._export.metadata_files import write_csvw, write_data_package
from tallytree._export.tables import ExportedTable

_ESCAPED = (
    "Labels that begin with =, +, -, @, a tab or a line break have an apostrophe before them in these files, so "
    "that spreadsheets take them for text; the published labels have none."
)
_FORMULA = r"^\s*[=+\-@＝＋－＠]|^[\t\r\n]"


def write_csv_files(tables: Sequence[ExportedTable], folder: Path, *, for_spreadsheets: bool) -> None:
    """Write a CSV file for each table, `datapackage.json`, and `csv-metadata.json`.

    Args:
        tables: what to write.
        folder: where to, an empty folder.
        for_spreadsheets: put an apostrophe before labels that a spreadsheet would take for a formula.
    """
    files = {}
    for table in tables:
        if for_spreadsheets:
            refuse_marked_headers(table.schema.names)
        path = f"{table.stem}.csv"
        with pyarrow.csv.CSVWriter(folder / path, table.schema) as writer:
            for rows in table.slices():
                writer.write_table(as_text(rows) if for_spreadsheets else rows)
        flush(folder / path)
        files[path] = table
    notes = (_ESCAPED,) if for_spreadsheets else ()
    statement = tables[0].statement
    write_data_package(folder, files, statement, kind="csv", notes=notes)
    write_csvw(folder, files, statement, notes=notes)


def refuse_marked_headers(names: Sequence[str]) -> None:
    """Refuse columns whose names a spreadsheet would take for formulas.

    Raises:
        ValueError: there is one.
    """
    marked = next((name for name in names if re.search(_FORMULA, name)), None)
    if marked is not None:
        raise ValueError(
            f"for_spreadsheets: the column {marked!r} is named like a formula, and a header cannot be marked; rename "
            "the level, or export to xlsx"
        )


def as_text(rows: pa.Table) -> pa.Table:
    """The rows with an apostrophe before every label that a spreadsheet would take for a formula."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_large_string(field.type) or pa.types.is_string(field.type):
            labels = rows.column(place)
            marked = pc.binary_join_element_wise(pa.scalar("'", field.type), labels, pa.scalar("", field.type))
            column = pc.if_else(pc.match_substring_regex(labels, _FORMULA), marked, labels)
            rows = rows.set_column(place, field, column)
    return rows
