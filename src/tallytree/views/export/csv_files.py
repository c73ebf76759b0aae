"""CSV files as RFC 4180 has them, with data dictionaries.

A label is written as it is, so that a program reads back what was published. A spreadsheet takes a cell that begins
with = + - @, a tab or a carriage return for a formula, in quotes too, and `10-14`, `00123` or `1E5` for a date or
another number. With `for_spreadsheets` such labels get an apostrophe before them, and the dictionaries say so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from tallytree.support.whole_files import flush
from tallytree.views.export.metadata_files import write_csvw, write_data_package
from tallytree.views.export.tables import ExportedTable

_ESCAPED = (
    "Labels that begin with =, +, -, @, a tab or a line break, and those that spreadsheets take for a date, a time or "
    "another number (10-14, 00123, 1E5), have an apostrophe before them in these files, so that spreadsheets take them "
    "for text; the published labels have none."
)
_FORMULA = r"^\s*[=+\-@＝＋－＠]|^[\t\r\n]"
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_CHANGED = (
    r"(?i)^\s*(true|false|[\d\s.,:/'()%$€£¥-]*\d[\d\s.,:/'()%$€£¥-]*(e[+-]?\d+|[ap]m?)?"
    rf"|\d*[\s.,/-]*{_MONTH}[\s.,/-]*\d+([\s.,/:-]+\d+)*|\d+[\s.,/-]*{_MONTH})\s*$"
)
"""What a spreadsheet may show otherwise, in some language, as far as it has digits or English names of months."""
_WHOLE = r"^(0|[1-9]\d{0,14})$"
"""Numbers that a spreadsheet shows as they are."""


def write_csv_files(tables: Sequence[ExportedTable], folder: Path, *, for_spreadsheets: bool) -> None:
    """Write a CSV file for each table, `datapackage.json`, and `csv-metadata.json`.

    Args:
        tables: what to write.
        folder: where to, an empty folder.
        for_spreadsheets: put an apostrophe before labels that a spreadsheet would not take for the same text.
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
    """The rows with an apostrophe before every label that a spreadsheet would not take for the same text."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_large_string(field.type) or pa.types.is_string(field.type):
            labels = rows.column(place)
            marked = pc.binary_join_element_wise(pa.scalar("'", field.type), labels, pa.scalar("", field.type))
            formula, changed, whole = (pc.match_substring_regex(labels, each) for each in (_FORMULA, _CHANGED, _WHOLE))
            column = pc.if_else(pc.or_(formula, pc.and_not(changed, whole)), marked, labels)
            rows = rows.set_column(place, field, column)
    return rows
