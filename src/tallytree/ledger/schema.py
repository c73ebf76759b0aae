"""The tables of a ledger file: `schema.sql`, and the check that a file has exactly these tables."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from importlib import resources
from pathlib import Path

from tallytree.ledger.sqlite_errors import damaged

APPLICATION_ID = 0x54546C67
FORMAT_VERSION = 2


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables and triggers of a ledger, within a transaction that the caller has begun."""
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
    for statement in _statements():
        connection.execute(statement)


def check_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that is not a ledger, has other tables, or comes from another version.

    Raises:
        ValueError: it is one of these; `path` names it in the message.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID:
        raise ValueError(f"ledger: {str(path)!r} is not a tallytree ledger; give the path of one")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != FORMAT_VERSION:
        raise ValueError(
            f"ledger: {str(path)!r} has format version {version}; this tallytree reads {FORMAT_VERSION}; read it with "
            "the version that wrote it, and set the limits of a new ledger to what is left"
        )
    if _tables(connection) != expected_tables():
        raise damaged(path)


def check_pages(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file in which SQLite's own structure is damaged; its time grows with the file.

    Raises:
        ValueError: it is; `path` names it in the message.
    """
    if connection.execute("PRAGMA quick_check(1)").fetchall() != [("ok",)]:
        raise damaged(path)


@cache
def expected_tables() -> dict[str, str]:
    """The definitions of the tables and triggers, by name."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for statement in _statements():
            connection.execute(statement)
        return _tables(connection)


@cache
def _statements() -> tuple[str, ...]:
    """The statements of the file of definitions, one by one: a script would commit the transaction that it runs in."""
    text = resources.files("tallytree.ledger").joinpath("schema.sql").read_text(encoding="utf-8")
    found, statement = [], ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            found.append(statement)
            statement = ""
    return tuple(found)


def _tables(connection: sqlite3.Connection) -> dict[str, str]:
    """The definitions of tables and triggers by name, without those of SQLite itself."""
    return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"))
