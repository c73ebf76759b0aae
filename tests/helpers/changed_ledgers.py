"""Ledger files that somebody else changes."""

import sqlite3
from contextlib import closing


def changed(path, *statements):
    """Change a ledger as somebody with SQLite would, who takes the triggers away and puts them back."""
    with closing(sqlite3.connect(path)) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(*((statement,) if isinstance(statement, str) else statement))
        for _, definition in triggers:
            connection.execute(definition)
        connection.commit()
