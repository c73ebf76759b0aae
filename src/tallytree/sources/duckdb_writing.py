"""DuckDB database files, written from Arrow tables in slices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa


@dataclass(frozen=True)
class DatabaseTable:
    """A table to write.

    Attributes:
        name: of the table.
        schema: its columns, of which no two have the same name but for capitals.
        comment: what it holds.
        comments: what each column means.
        slices: its rows.
    """

    name: str
    schema: pa.Schema
    comment: str
    comments: Sequence[str]
    slices: Iterable[pa.Table]


def write_database(path: Path, tables: Iterable[DatabaseTable]) -> None:
    """Make a DuckDB database with these tables, each with its comments.

    Args:
        path: of the file; it must not exist.
        tables: what to write; slice by slice, so that memory holds one slice.

    Raises:
        OSError: it cannot be written.
    """
    try:
        _write(path, tables)
    except (duckdb.IOException, duckdb.FatalException) as error:
        # What is written is published, so DuckDB's words may be shown.
        raise OSError(f"out: {path.name!r} could not be written: {str(error).splitlines()[0]}") from error


def _write(path: Path, tables: Iterable[DatabaseTable]) -> None:
    with duckdb.connect(str(path), config={"autoinstall_known_extensions": "false"}) as database:
        for table in tables:
            name = _quoted(table.name)
            database.register("rows_to_write", table.schema.empty_table())
            database.execute(f"CREATE TABLE {name} AS FROM rows_to_write")
            for rows in table.slices:
                database.register("rows_to_write", rows)
                database.execute(f"INSERT INTO {name} FROM rows_to_write")
            database.unregister("rows_to_write")
            database.execute(f"COMMENT ON TABLE {name} IS {_text(table.comment)}")
            for column, comment in zip(table.schema.names, table.comments, strict=True):
                database.execute(f"COMMENT ON COLUMN {name}.{_quoted(column)} IS {_text(comment)}")
        database.execute("CHECKPOINT")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
