"""The rows of a ledger: data sets, limits and releases, read and inserted within a transaction."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction
from importlib import metadata
from pathlib import Path
from typing import cast

from tallytree.accounting.spending import DataSet, Entry, Loss, Posting
from tallytree.budget import Budget
from tallytree.ledger.dataset_names import checked_name
from tallytree.terms import Neighboring, Unit

NO_RHO = "none"
"""In place of a ρ where none holds. Versions of tallytree without such releases refuse the ledger as damaged."""

_RATIONAL = re.compile(r"[0-9]+(/[1-9][0-9]*)?")


def read_data_set(connection: sqlite3.Connection, name: str) -> DataSet | None:
    """A data set with its limit and its releases; None if the ledger does not have it."""
    terms = connection.execute(
        "SELECT neighboring, max_contributions, unit FROM datasets WHERE name = ?", (name,)
    ).fetchone()
    if terms is None:
        return None
    neighboring, max_contributions, unit = terms
    rows = connection.execute(
        "SELECT epsilon, delta, rho FROM limits WHERE dataset = ? ORDER BY number DESC LIMIT 1", (name,)
    )
    limit = next((Budget(**dict(zip(("epsilon", "delta", "rho"), _rationals(row), strict=True))) for row in rows), None)
    entries = tuple(
        Entry(
            dataset=name,
            neighboring=neighboring,
            max_contributions=max_contributions,
            unit=unit,
            number=number,
            recorded_at=recorded_at,
            statistic=statistic,
            mechanism=mechanism,
            loss=_loss(amounts),
            state=state,
        )
        for number, recorded_at, statistic, mechanism, state, *amounts in connection.execute(
            "SELECT number, recorded_at, statistic, mechanism, state, epsilon, delta, rho FROM releases "
            "WHERE dataset = ? ORDER BY number",
            (name,),
        )
    )
    return DataSet(
        name=name,
        neighboring=neighboring,
        max_contributions=max_contributions,
        unit=unit,
        limit=limit,
        entries=entries,
    )


def known_data_set(connection: sqlite3.Connection, name: str, path: Path) -> DataSet:
    """A data set with its limit and its releases.

    Raises:
        ValueError: the ledger at `path` does not have it.
    """
    found = read_data_set(connection, name)
    if found is None:
        known = [repr(other) for (other,) in connection.execute("SELECT name FROM datasets ORDER BY name")]
        raise ValueError(f"dataset: the ledger {str(path)!r} has no {name!r}; it has {', '.join(known) or 'none yet'}")
    return found


def register_data_set(
    connection: sqlite3.Connection,
    known: DataSet | None,
    name: str,
    neighboring: Neighboring,
    max_contributions: int,
    unit: Unit | None,
) -> None:
    """Insert a new data set with its terms, or check that a known one has the same terms.

    Raises:
        ValueError: the known one has others.
    """
    if known is None:
        connection.execute("INSERT INTO datasets VALUES (?, ?, ?, ?)", (name, neighboring, max_contributions, unit))
        return
    known.check_terms(neighboring, max_contributions, unit)
    if known.unit is None and unit is not None:
        connection.execute("UPDATE datasets SET unit = ? WHERE name = ?", (unit, name))


def insert_limit(connection: sqlite3.Connection, name: str, budget: Budget) -> None:
    """Insert a limit of a data set; the latest one counts."""
    connection.execute(
        "INSERT INTO limits (dataset, set_at, epsilon, delta, rho) VALUES (?, ?, ?, ?, ?)",
        (name, _utc_now(), _text(budget.epsilon), _text(budget.delta), _text(budget.rho)),
    )


def insert_release(connection: sqlite3.Connection, posting: Posting, path: Path) -> tuple[int, DataSet]:
    """Insert a release that its data set has room for; its number, and the data set without it.

    Raises:
        BudgetExceeded: the data set's limit has no room for it.
        ValueError: other terms than the data set has, or a loss that the limit cannot count.
    """
    checked_name(posting.dataset)
    known = read_data_set(connection, posting.dataset)
    register_data_set(connection, known, posting.dataset, posting.neighboring, posting.max_contributions, posting.unit)
    before = known_data_set(connection, posting.dataset, path)
    before.check_room(posting.loss)
    cursor = connection.execute(
        "INSERT INTO releases (dataset, recorded_at, statistic, mechanism, epsilon, delta, rho, state, version) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, 'started', ?)",
        (
            posting.dataset,
            _utc_now(),
            posting.statistic,
            posting.mechanism,
            _text(posting.loss.epsilon),
            _text(posting.loss.delta),
            _text(posting.loss.rho) or NO_RHO,
            metadata.version("tallytree"),
        ),
    )
    return cast(int, cursor.lastrowid), before


def _text(amount: Fraction | None) -> str | None:
    return None if amount is None else str(amount)


def _rationals(row: Sequence[str | None]) -> list[Fraction | None]:
    for text in row:
        if text is not None and not _RATIONAL.fullmatch(text):
            raise sqlite3.DatabaseError(f"{text!r} is not an amount")
    return [None if text is None else Fraction(text) for text in row]


def _loss(row: Sequence[str | None]) -> Loss:
    *known, last = row
    epsilon, delta, rho = _rationals([*known, None if last == NO_RHO else last])
    if last is None or (epsilon is None) != (delta is None) or (rho is None and not delta):
        raise sqlite3.DatabaseError("an amount is missing")
    return Loss(epsilon, delta, rho)


def _utc_now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
