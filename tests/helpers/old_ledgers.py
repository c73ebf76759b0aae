"""Ledgers of format 1, made as tallytree 0.1 made them."""

import sqlite3
from contextlib import closing
from importlib import resources

APPLICATION_ID = 0x54546C67


def old_ledger(path, *, datasets, limits=(), releases=()):
    """Make a file of format 1; its definitions are held against existing files in `tests/ledger/test_database.py`.

    Args:
        path: where.
        datasets: (name, relation, contribution bound, unit).
        limits: (name, time, epsilon, delta, rho).
        releases: (name, time, statistic, mechanism, epsilon, delta, rho, state, version).
    """
    definitions = resources.files("tallytree.ledger").joinpath("schema_1.sql").read_text(encoding="utf-8")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        marks = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1;"
        connection.executescript(f"BEGIN; {marks} {definitions} COMMIT;")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO datasets VALUES (?, ?, ?, ?)", datasets)
        connection.executemany(
            "INSERT INTO limits (dataset, set_at, epsilon, delta, rho) VALUES (?, ?, ?, ?, ?)", limits
        )
        connection.executemany(
            "INSERT INTO releases (dataset, recorded_at, statistic, mechanism, epsilon, delta, rho, state, version) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            releases,
        )
        connection.execute("COMMIT")


def some_old_ledger(path):
    """A file of format 1 with every kind of row."""
    old_ledger(
        path,
        datasets=[
            ("people", "add_remove", 1, "record"),
            ("trips", "change_one", 3, "trip"),
            ("later", "add_remove", 2, None),
        ],
        limits=[
            ("people", "2026-01-01T00:00:00Z", "1", None, None),
            ("people", "2026-01-03T00:00:00Z", "5/2", None, None),
            ("later", "2026-01-05T00:00:00Z", None, None, "1/8"),
        ],
        releases=[
            ("people", "2026-01-02T00:00:00Z", "counts", "TopDown", "1/2", "0", "1/8", "finished", "0.1.0"),
            ("trips", "2026-01-02T00:00:00Z", "flows", "TopDown", None, None, "1/3", "started", "0.1.0"),
            ("people", "2026-01-03T00:00:00Z", "counts", "LeastSquares", "1", "0", "1/2", "started", "0.1.1"),
            ("trips", "2026-01-04T00:00:00Z", "flows", "TopDown", "1", "1/1000", "1/9", "finished", "0.1.1"),
        ],
    )  # fmt: skip
