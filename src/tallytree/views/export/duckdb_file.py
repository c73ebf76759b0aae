"""A DuckDB database with a table for each table of the release, and comments on tables and columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from tallytree.sources.duckdb_files import DatabaseTable, write_database
from tallytree.support.whole_files import flush
from tallytree.views.export.dictionary import about_all
from tallytree.views.export.naming import unique_names
from tallytree.views.export.tables import ExportedTable

ABOUT = "tallytree_about"
COLUMNS = "tallytree_columns"


def write_duckdb_file(tables: Sequence[ExportedTable], path: Path) -> None:
    """Write the database.

    Beside the tables it has `tallytree_about` (what is to be known of the release) and `tallytree_columns` (what every
    column means). DuckDB takes names that differ in capitals alone for the same; the later one gets a number.

    Args:
        tables: what to write.
        path: of the file to make.
    """
    write_database(path, _database_tables(tables))
    flush(path)


def _database_tables(tables: Sequence[ExportedTable]) -> Iterator[DatabaseTable]:
    names = unique_names((table.title for table in tables), taken=(ABOUT, COLUMNS))
    known = about_all(tables)
    facts = pa.table({"subject": [subject for subject, _ in known], "text": [text for _, text in known]})
    yield DatabaseTable(ABOUT, facts.schema, "What is to be known of the release.", ("", ""), [facts])
    described: dict[str, list[str]] = {key: [] for key in ("table", "column", "published_as", "unit", "description")}
    for name, table in zip(names, tables, strict=True):
        columns = unique_names(table.schema.names)
        for made, column in zip(columns, table.columns, strict=True):
            for key, value in zip(described, (name, made, column.name, column.unit, column.description), strict=True):
                described[key].append(value)
        schema = table.schema.empty_table().rename_columns(columns).schema
        slices = (rows.rename_columns(columns) for rows in table.slices())
        yield DatabaseTable(name, schema, table.text, [each.description for each in table.columns], slices)
    dictionary = pa.table(described)
    yield DatabaseTable(COLUMNS, dictionary.schema, "What every column means.", [""] * len(described), [dictionary])
