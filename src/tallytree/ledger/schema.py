"""The tables of a ledger file: `schema.sql`, and the check that a file has exactly these tables."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from importlib import resources
from pathlib import Path

from tallytree.ledger.sqlite_errors import damaged

APPLICATION_ID = 0x54546C67
FORMAT_VERSION = 1


def create_tables(connection: sqlite3.Connection) -> None:
    """Make an empty database a ledger, in one transaction."""
    marks = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT_VERSION};"
    connection.executescript(f"BEGIN; {marks} {_definitions()} COMMIT;")


def check_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that is not a ledger, is damaged, or comes from another version.

    Raises:
        ValueError: it is one of these; `path` names it in the message.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID:
        raise ValueError(f"ledger: {str(path)!r} is not a tallytree ledger; give the path of one")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != FORMAT_VERSION:
        raise ValueError(f"ledger: {str(path)!r} has format version {version}; this tallytree reads {FORMAT_VERSION}")
    intact = connection.execute("PRAGMA quick_check(1)").fetchall() == [("ok",)]
    if not intact or _tables(connection) != expected_tables():
        raise damaged(path)


@cache
def expected_tables() -> dict[str, str]:
    """The definitions of a ledger's tables and triggers, by name."""
    with closing(sqlite3.connect(":memory:")) as connection:
        create_tables(connection)
        return _tables(connection)


@cache
def _definitions() -> str:
    return resources.files("tallytree.ledger").joinpath("schema.sql").read_text(encoding="utf-8")


def _tables(connection: sqlite3.Connection) -> dict[str, str]:
    """The definitions of tables and triggers by name, without those of SQLite itself."""
    return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"))
