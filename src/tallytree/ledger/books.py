"""The books: the data sets, limits and releases that the events of a ledger add up to."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tallytree.accounting.spending import DataSet, LimitEntry, admits_more
from tallytree.ledger import format_1
from tallytree.ledger.chain import START, Chain, Facts, append, read_chain
from tallytree.ledger.events import approval_of, budget_of, read_entry, read_event
from tallytree.ledger.schema import FORMAT_VERSION
from tallytree.ledger.sqlite_errors import altered


@dataclass(frozen=True)
class Books:
    """What a ledger holds.

    Attributes:
        chain: its events; those of a ledger of format 1 are in no chain yet, so their head is `START`.
        strict: whether it refuses releases of data sets without a limit.
        datasets: the data sets by name, in the order of their names.
        last_number: that of the last release; 0 without one.
    """

    chain: Chain
    strict: bool
    datasets: dict[str, DataSet]
    last_number: int

    def known(self, name: str, path: Path) -> DataSet:
        """A data set.

        Raises:
            ValueError: the ledger at `path` does not have it.
        """
        if name not in self.datasets:
            known = ", ".join(map(repr, self.datasets)) or "none yet"
            raise ValueError(f"dataset: the ledger {str(path)!r} has no {name!r}; it has {known}")
        return self.datasets[name]


def read_books(connection: sqlite3.Connection, path: Path) -> Books:
    """Read a ledger of any format, within a transaction; every event is checked.

    Raises:
        ValueError: the file was changed, or is damaged.
    """
    if _version(connection) == FORMAT_VERSION:
        return _added_up(read_chain(connection, path), path)
    try:
        texts = format_1.events(connection)
    except (ValueError, TypeError, KeyError) as error:
        raise altered(path, "a row has a value that none may have") from error
    return _added_up(Chain(texts, START), path)


def write_events(connection: sqlite3.Connection, books: Books, texts: Sequence[bytes]) -> None:
    """Add events, within a transaction that has read the books and has the write lock.

    A ledger of format 1 gets the present format first, in the same transaction, so that a crash leaves it as it was.
    """
    chain = books.chain
    if texts and _version(connection) != FORMAT_VERSION:
        format_1.replace_tables(connection)
        chain = append(connection, Chain((), START), chain.texts)
    append(connection, chain, texts)


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _added_up(chain: Chain, path: Path) -> Books:
    """The books that events add up to.

    Raises:
        ValueError: an event cannot follow those before it, or has a fact that none may have.
    """
    found, position = _Found(), 0
    try:
        for position, text in enumerate(chain.texts, 1):
            found.take(read_event(text), position, text)
        return Books(chain, found.strict, found.datasets(), found.last_number)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise altered(path, f"event {position} cannot be one of a ledger") from error


@dataclass
class _Found:
    """What was found in the events so far: the terms, limits and releases by data set, and the releases by number."""

    strict: bool = False
    last_number: int = 0
    terms: dict[str, dict[str, Any]] = field(default_factory=dict)
    limits: dict[str, list[LimitEntry]] = field(default_factory=lambda: defaultdict(list))
    releases: dict[str, list[tuple[int, int, bytes]]] = field(default_factory=lambda: defaultdict(list))
    states: dict[int, bool] = field(default_factory=dict)

    def take(self, facts: Facts, position: int, text: bytes) -> None:
        """Take in the next event.

        Raises:
            ValueError: it cannot follow those before it; KeyError where it is about a data set that is not there.
        """
        match facts["event"]:
            case "release":
                self._take_release(facts, position, text)
            case "finish":
                if self.states[facts["number"]]:
                    raise ValueError("a release is finished once")
                self.states[facts["number"]] = True
            case "dataset":
                if facts["dataset"] in self.terms:
                    raise ValueError("a data set is made once")
                self.terms[facts["dataset"]] = {
                    name: facts[name] for name in ("neighboring", "max_contributions", "unit")
                }
            case "terms":
                self._take_terms(facts)
            case "limit":
                self._take_limit(facts, position)
            case _:
                if (facts["event"] == "ledger") != (position == 1):
                    raise ValueError("a ledger is made once")
                self.strict = facts["strict"]

    def _take_release(self, facts: Facts, position: int, text: bytes) -> None:
        number, terms = facts["number"], self.terms[facts["dataset"]]
        if number <= self.last_number:
            raise ValueError("releases are numbered in their order")
        terms["unit"] = terms["unit"] or facts["unit"]
        self.releases[facts["dataset"]].append((position, number, text))
        self.states[number] = False
        self.last_number = number

    def _take_terms(self, facts: Facts) -> None:
        terms = self.terms[facts["dataset"]]
        for name in ("max_contributions", "unit"):
            if facts[name] is not None and terms[name] not in (None, facts[name]):
                raise ValueError("a data set keeps its terms")
            terms[name] = terms[name] or facts[name]

    def _take_limit(self, facts: Facts, position: int) -> None:
        if facts["dataset"] not in self.terms:
            raise ValueError("a limit is one of a data set")
        limit, before = budget_of(facts), self.limits[facts["dataset"]]
        entry = LimitEntry(
            set_at=facts["at"],
            limit=limit,
            raised=bool(before) and admits_more(limit, before[-1].limit),
            approval=approval_of(facts),
            position=position,
        )
        before.append(entry)

    def datasets(self) -> dict[str, DataSet]:
        """The data sets by name, in the order of their names."""
        return {
            name: DataSet(
                name=name,
                **terms,
                limits=tuple(self.limits[name]),
                entries=tuple(
                    read_entry(text, position, terms["neighboring"], self.states[number])
                    for position, number, text in self.releases[name]
                ),
            )
            for name, terms in sorted(self.terms.items())
        }
