"""Ledgers of format 1, whose rows were in no chain: read as events, and given the present format.

They are read as they are. The first writing replaces their tables by the events that were read from them, in its own
transaction. Nothing is lost: format 1 had no more than these facts. What it did not have stays unknown: release ids,
runs, approvals, and when a release was finished. Of a limit and a release in the same second, the limit comes first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from tallytree.ledger.chain import Facts, encoded
from tallytree.ledger.events import FACTS, LATER, utc_now
from tallytree.ledger.schema import create_tables

NO_RHO = "none"
"""In place of a ρ where none holds."""

_TABLES = ("limits", "releases", "datasets")  # in an order in which no row refers to one that is gone


def events(connection: sqlite3.Connection) -> tuple[bytes, ...]:
    """The texts of the events that lead to a ledger of format 1, within a transaction.

    Raises:
        ValueError, TypeError, KeyError: a row has a value that none may have, or refers to a data set that is not
            there.
    """
    connection.text_factory = bytes.decode  # so that damaged text is a ValueError
    try:
        limits = _rows(connection, "SELECT dataset, set_at AS at, epsilon, delta, rho FROM limits ORDER BY number")
        releases = _rows(
            connection,
            "SELECT number, dataset, recorded_at AS at, statistic, mechanism, epsilon, delta, rho, state, version "
            "FROM releases ORDER BY number",
        )
        datasets = _rows(connection, "SELECT name AS dataset, neighboring, max_contributions, unit FROM datasets")
    finally:
        connection.text_factory = str
    start = min((row["at"] for row in (*limits, *releases)), default=utc_now())
    found = [_event("ledger", at=start, strict=False, made_from_format=1)]
    found += [_event("dataset", at=start, **terms) for terms in datasets]
    terms = {each["dataset"]: each for each in datasets}
    for row in _in_order(limits, releases):
        found += _release(row, terms[row["dataset"]]) if "number" in row else [_event("limit", **row)]
    return tuple(encoded(facts) for facts in found)


def replace_tables(connection: sqlite3.Connection) -> None:
    """Drop the tables of format 1 and make those of the present format, within a transaction."""
    for table in _TABLES:
        connection.execute(f"DROP TABLE {table}")
    create_tables(connection)


def _event(kind: str, **facts: Any) -> Facts:
    """An event in which every fact that format 1 did not have is absent."""
    absent = {"version": ""} if "version" in FACTS[kind] else {}
    return {"event": kind} | dict.fromkeys(FACTS[kind].keys() - LATER) | absent | facts


def _release(row: dict[str, Any], terms: Facts) -> list[Facts]:
    """A release, and where it was handed over, that it was."""
    state, rho = row.pop("state"), row.pop("rho")
    if state not in ("started", "finished") or rho is None:
        raise ValueError("a release has no state, or an amount is missing")
    shared = {name: terms[name] for name in ("max_contributions", "unit")}
    release = _event("release", **row, **shared, rho=None if rho == NO_RHO else rho)
    finish = [_event("finish", number=row["number"])] if state == "finished" else []
    return [release, *finish]


def _rows(connection: sqlite3.Connection, query: str) -> list[dict[str, Any]]:
    cursor = connection.execute(query)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def _in_order(limits: Sequence[dict[str, Any]], releases: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Limits and releases by time; each of the two lists keeps its order."""
    waiting = list(reversed(limits))
    for release in releases:
        while waiting and waiting[-1]["at"] <= release["at"]:
            yield waiting.pop()
        yield release
    yield from reversed(waiting)
