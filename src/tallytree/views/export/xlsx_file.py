"""An Excel workbook: a sheet of notes, one of columns, and one for each table. No cell is a formula or a link."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tallytree.support.whole_files import flush
from tallytree.views.export.dictionary import about_all, title_of
from tallytree.views.export.naming import sheet_names
from tallytree.views.export.tables import ExportedTable

MAX_ROWS = 1_048_576
"""Rows of a sheet, with that of the headings."""
MAX_TEXT = 32_767
"""Characters of a cell."""
MAX_EXACT = 10**15
"""Excel has numbers as floating point with 15 digits; a larger integer is written as text."""
_NOTES = ("Notes", "Columns")
_ROWS_AT_ONCE = 50_000


def refuse_what_no_sheet_holds(tables: Sequence[ExportedTable]) -> None:
    """Refuse tables with more rows than a sheet.

    Raises:
        ValueError: one has; the message names it and the remedy.
    """
    for table in tables:
        if table.num_rows >= MAX_ROWS:
            raise ValueError(
                f"to: 'xlsx' holds {MAX_ROWS - 1:,} rows in a sheet, but {table.name!r} has {table.num_rows:,}; "
                "leave it out (name the others in tables), or export to csv, parquet or duckdb"
            )


def write_xlsx_file(tables: Sequence[ExportedTable], path: Path) -> None:
    """Write the workbook.

    Args:
        tables: what to write.
        path: of the file to make.

    Raises:
        ValueError: a table has more rows than a sheet, or a label more characters than a cell.
        OSError: it cannot be written.
    """
    import xlsxwriter
    from xlsxwriter.exceptions import FileCreateError

    refuse_what_no_sheet_holds(tables)
    options = {
        "constant_memory": True,
        "strings_to_formulas": False,
        "strings_to_urls": False,
        "strings_to_numbers": False,
        "tmpdir": str(path.parent),
    }
    # The sheets are in files of their own. A ZipFile that cannot write its end prints a traceback when it is deleted.
    # So it writes to memory, and is deleted first.
    made, failure = io.BytesIO(), None
    try:
        with xlsxwriter.Workbook(made, options) as book:
            bold, wrapped = book.add_format({"bold": True}), book.add_format({"text_wrap": True, "valign": "top"})
            sheets = sheet_names((table.title for table in tables), taken=_NOTES)
            _write_notes(book.add_worksheet(_NOTES[0]), tables, sheets, bold, wrapped)
            _write_columns(book.add_worksheet(_NOTES[1]), tables, sheets, bold, wrapped)
            for name, table in zip(sheets, tables, strict=True):
                _write_table(book.add_worksheet(name), table, bold)
    except FileCreateError as error:
        failure = OSError(getattr(error.args[0], "errno", None), "the workbook cannot be written", str(path.parent))
    if failure is not None:  # raised here: what holds the library's ZipFile is gone by now
        raise failure
    path.write_bytes(made.getbuffer())
    flush(path)


def _write_notes(sheet: Any, tables: Sequence[ExportedTable], sheets: list[str], bold: Any, wrapped: Any) -> None:
    sheet.set_column(0, 0, 28)
    sheet.set_column(1, 1, 100)
    rows = [*dict.fromkeys((title_of(table.statement), "") for table in tables), *about_all(tables)]
    rows += [(f"Sheet {name}", table.text) for name, table in zip(sheets, tables, strict=True)]
    for row, (heading, text) in enumerate(rows):
        sheet.write_string(row, 0, heading, bold)
        sheet.write_string(row, 1, text[:MAX_TEXT], wrapped)


def _write_columns(sheet: Any, tables: Sequence[ExportedTable], sheets: list[str], bold: Any, wrapped: Any) -> None:
    sheet.set_column(0, 1, 20)
    sheet.set_column(3, 3, 100)
    for place, heading in enumerate(("sheet", "column", "unit", "meaning")):
        sheet.write_string(0, place, heading, bold)
    row = 1
    for name, table in zip(sheets, tables, strict=True):
        for column in table.columns:
            for place, text in enumerate((name, column.name, column.unit, column.description)):
                sheet.write_string(row, place, text, wrapped)
            row += 1


def _write_table(sheet: Any, table: ExportedTable, bold: Any) -> None:
    sheet.freeze_panes(1, 0)
    sheet.ignore_errors({"number_stored_as_text": f"A1:XFD{MAX_ROWS}"})  # labels such as 007 are text on purpose
    sheet.set_column(0, len(table.columns) - 1, 16)
    for place, name in enumerate(table.schema.names):
        sheet.write_string(0, place, name, bold)
    row = 1
    for rows in table.slices(_ROWS_AT_ONCE):
        # Row by row, as xlsxwriter needs it to keep one row in memory; a sheet has a million at most.
        for cells in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            for place, cell in enumerate(cells):
                _write_cell(sheet, row, place, cell, table)
            row += 1


def _write_cell(sheet: Any, row: int, place: int, cell: object, table: ExportedTable) -> None:
    if isinstance(cell, str):
        if len(cell) > MAX_TEXT:
            raise ValueError(
                f"to: 'xlsx' holds {MAX_TEXT:,} characters in a cell, but a label of {table.schema.names[place]!r} has "
                f"{len(cell):,}; export to csv, parquet or duckdb"
            )
        sheet.write_string(row, place, cell)
    elif isinstance(cell, int | float) and math.isfinite(cell) and abs(cell) < MAX_EXACT:
        sheet.write_number(row, place, cell)
    elif cell is not None:
        sheet.write_string(row, place, str(cell))
