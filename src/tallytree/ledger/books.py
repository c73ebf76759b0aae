"""The books: what the events of a ledger add up to, carried on from event to event; or listed, with every release.

`Running` has what a release is checked against, and no text: the head, the terms and limits of each data set, the exact
sums of its releases, and which entries a run has. 1,000,000 releases, each of a run of its own, take about 350 MB, most
of it the names of runs; without names, 60 MB. `OpenBooks` is that state within a transaction.
"""

from __future__ import annotations

import hashlib
import sqlite3
from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tallytree.accounting.periods import ALL_TIME, Period, Window
from tallytree.accounting.spending import (
    DataSet,
    Entry,
    LimitEntry,
    Loss,
    LossSums,
    Standing,
    admits_more,
    protects_all_records,
)
from tallytree.ledger.chain import BEFORE_ALL, Facts, Head, altered, append, read_digest, read_text
from tallytree.ledger.events import approval_of, budget_of, loss_of, period_of, read_entry, read_event

_DIGEST = 32
"""Bytes of a digest."""

_SAME = ("statistic", "mechanism", "max_contributions", "unit", "epsilon", "delta", "rho", "period", "revises")
"""What two entries of one run and one plan share."""


@dataclass(slots=True)
class _Run:
    """The entries of one run: the last, and, of every other plan and loss, the last one with that.

    Attributes:
        last: the index of the last entry.
        terms: 24 bytes of its plan (8) and of what it spent (16).
        before: the indices of the others, by the same 24 bytes.
    """

    last: int
    terms: bytes
    before: dict[bytes, int] | None = None

    def follow(self, index: int, terms: bytes) -> None:
        """Take in a later entry."""
        if terms != self.terms:
            self.before = self.before or {}
            self.before.pop(terms, None)
            self.before[self.terms] = self.last
        self.last, self.terms = index, terms

    def of_plan(self, plan: str | None) -> list[int]:
        """The indices of those with this plan, and of the last one, in order."""
        wanted = _terms_of_plan(plan)
        found = [index for terms, index in (self.before or {}).items() if terms.startswith(wanted)]
        return [*sorted(found), self.last]


def _terms_of_plan(plan: str | None) -> bytes:
    return hashlib.blake2b(repr(plan).encode(), digest_size=8).digest()


@dataclass
class _Account:
    """A data set, as far as its events were taken in."""

    terms: dict[str, Any]
    limits: list[LimitEntry] = field(default_factory=list)
    sums: LossSums = field(default_factory=LossSums)
    dated: dict[Period | None, LossSums] = field(default_factory=dict)
    least_bound: int | None = None
    most_bounds: dict[str, int] = field(default_factory=dict)
    runs: dict[str, _Run] = field(default_factory=dict)
    new: dict[Period | None, dict[tuple[str | None, ...], tuple[Loss, int]]] = field(default_factory=dict)

    def take_release(self, facts: Facts, index: int) -> None:
        amounts = (facts["epsilon"], facts["delta"], facts["rho"])
        of_period = self.new.setdefault(period_of(facts), {})
        loss, times = of_period.get(amounts) or (loss_of(*amounts), 0)
        of_period[amounts] = loss, times + 1
        bound, statistic = facts["max_contributions"], facts["statistic"]
        if not protects_all_records(statistic):
            self.least_bound = bound if self.least_bound is None else min(bound, self.least_bound)
        self.most_bounds[statistic] = max(bound, self.most_bounds.get(statistic, 0))
        if facts["run"] is not None:
            self._take_run(facts, index)

    def _take_run(self, facts: Facts, index: int) -> None:
        spent = repr([facts[name] for name in _SAME]).encode()
        terms = _terms_of_plan(facts["plan"]) + hashlib.blake2b(spent, digest_size=16).digest()
        known = self.runs.get(facts["run"])
        if known is None:
            self.runs[facts["run"]] = _Run(index, terms)
        else:
            known.follow(index, terms)

    def standing(self, name: str) -> Standing:
        """Add up what is new."""
        for period, losses in self.new.items():
            more = LossSums.of(losses.values())
            self.sums += more
            self.dated[period] = self.dated.get(period, LossSums()) + more
        self.new.clear()
        return Standing(
            name=name,
            **self.terms,
            limits=tuple(self.limits),
            sums=self.sums,
            dated=dict(self.dated),
            least_bound=self.least_bound,
            most_bounds=dict(self.most_bounds),
        )


class Running:
    """What the events of a ledger add up to, up to `head`.

    Args:
        keep: whether the texts of the releases are kept, so that all entries can be listed.

    Attributes:
        first: the digest of the first event; None before it was taken in.
        head: the last event that was taken in.
        strict: whether the ledger refuses releases of data sets without a limit.
        last_number: that of the last release; 0 without one.
        datasets: the data sets by name.
        texts: those of the releases, where they are kept.
        inputs: by the number of a release that was made again from other files, the keyed digest of these.
    """

    def __init__(self, *, keep: bool = False) -> None:
        self.first: str | None = None
        self.head = Head()
        self.strict = False
        self.last_number = 0
        self.datasets: dict[str, Standing] = {}
        self.texts: list[bytes] | None = [] if keep else None
        self.inputs: dict[int, str] = {}
        self._accounts: dict[str, _Account] = {}
        # Of every release, in order: its number, the place of its event, the event's digest, whether it is finished.
        self._numbers, self._positions = array("q"), array("q")
        self._digests, self._finished = bytearray(), bytearray()

    def take(self, links: Sequence[tuple[bytes, str]], path: Path) -> None:
        """Take in the next events, with their digests, which are those of the chain after `head`.

        After an error the state is of no use.

        Raises:
            ValueError: an event cannot follow those before it, or has a fact that none may have.
        """
        before, position = self.head.number, 0
        touched: set[str] = set()
        try:
            for position, (text, digest) in enumerate(links, before + 1):
                facts = read_event(text)
                self._take(facts, text, position, digest)
                if "dataset" in facts:
                    touched.add(facts["dataset"])
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
            raise altered(path, f"event {position} cannot be one of a ledger") from error
        for name in touched:
            self.datasets[name] = self._accounts[name].standing(name)
        if links:
            self.first = self.first or links[0][1]
            self.head = Head(position, links[-1][1])

    def _take(self, facts: Facts, text: bytes, position: int, digest: str) -> None:
        """Take in one event.

        Raises:
            ValueError: it cannot follow those before it; KeyError where it is about a data set that is not there.
        """
        if (facts["event"] == "ledger") != (position == 1):
            raise ValueError("the first event makes the ledger, and no other does")
        match facts["event"]:
            case "release":
                self._take_release(facts, text, position, digest)
            case "finish":
                index = self.index(facts["number"])
                if self._finished[index]:
                    raise ValueError("a release is finished once")
                self._finished[index] = True
            case "inputs":
                self.index(facts["number"])
                self.inputs[facts["number"]] = facts["inputs"]
            case "dataset":
                if facts["dataset"] in self._accounts:
                    raise ValueError("a data set is made once")
                terms = {name: facts[name] for name in ("neighboring", "max_contributions", "unit")}
                self._accounts[facts["dataset"]] = _Account(terms)
            case "terms":
                self._take_terms(facts)
            case "limit":
                self._take_limit(facts, position)
            case _:
                self.strict = facts["strict"]

    def _take_release(self, facts: Facts, text: bytes, position: int, digest: str) -> None:
        number, account = facts["number"], self._accounts[facts["dataset"]]
        if number <= self.last_number:
            raise ValueError("releases are numbered in their order")
        approval_of(facts)
        account.terms["unit"] = account.terms["unit"] or facts["unit"]
        account.take_release(facts, len(self._numbers))
        self._numbers.append(number)
        self._positions.append(position)
        self._digests += bytes.fromhex(digest)
        self._finished.append(False)
        if self.texts is not None:
            self.texts.append(text)
        self.last_number = number

    def _take_terms(self, facts: Facts) -> None:
        terms = self._accounts[facts["dataset"]].terms
        for name in ("max_contributions", "unit"):
            if facts[name] is not None and terms[name] not in (None, facts[name]):
                raise ValueError("a data set keeps its terms")
            terms[name] = terms[name] or facts[name]

    def _take_limit(self, facts: Facts, position: int) -> None:
        limit, limits = budget_of(facts), self._accounts[facts["dataset"]].limits
        window = ALL_TIME if facts["window"] is None else Window.parse(facts["window"])
        before = [each.limit for each in limits if each.window == window]
        entry = LimitEntry(
            set_at=facts["at"],
            limit=limit,
            raised=bool(before) and admits_more(limit, before[-1]),
            approval=approval_of(facts),
            position=position,
            window=window,
        )
        limits.append(entry)

    def index(self, number: int) -> int:
        """The index of a release among all releases.

        Raises:
            KeyError: no release has this number.
        """
        index = bisect_left(self._numbers, number)
        if index == len(self._numbers) or self._numbers[index] != number:
            raise KeyError(number)
        return index

    def place(self, index: int) -> tuple[Head, bool]:
        """The event of a release, and whether the release is finished."""
        digest = self._digests[_DIGEST * index : _DIGEST * (index + 1)].hex()
        return Head(self._positions[index], digest), bool(self._finished[index])

    def of_run(self, dataset: str, run: str, plan: str | None) -> list[int]:
        """The indices of a run's entries with this plan, one for each loss, and of its last entry, in order."""
        account = self._accounts.get(dataset)
        known = None if account is None else account.runs.get(run)
        return [] if known is None else known.of_plan(plan)

    def listed(self) -> dict[str, DataSet]:
        """The data sets, in the order of their names, with every release; its texts have to be kept."""
        entries: dict[str, list[Entry]] = {name: [] for name in sorted(self.datasets)}
        for index, text in enumerate(self.texts or ()):
            (position, _), finished = self.place(index)
            facts = read_event(text)
            dataset, inputs = facts["dataset"], self.inputs.get(facts["number"])
            entries[dataset].append(read_entry(text, position, self.datasets[dataset].neighboring, finished, inputs))
        return {name: self._with_entries(name, found) for name, found in entries.items()}

    def _with_entries(self, name: str, entries: Sequence[Entry]) -> DataSet:
        account = self._accounts[name]
        return DataSet(name=name, **account.terms, limits=tuple(account.limits), entries=tuple(entries))


Known = TypeVar("Known", bound=Standing)


def known_dataset(datasets: Mapping[str, Known], name: str, path: Path) -> Known:
    """A data set.

    Raises:
        ValueError: the ledger at `path` does not have it.
    """
    if name not in datasets:
        known = ", ".join(map(repr, sorted(datasets))) or "none yet"
        raise ValueError(f"dataset: the ledger {str(path)!r} has no {name!r}; it has {known}")
    return datasets[name]


@dataclass(frozen=True)
class Books:
    """All that a ledger holds.

    Attributes:
        events: how many.
        head: the digest of the last one.
        strict: whether it refuses releases of data sets without a limit.
        datasets: the data sets by name, in the order of their names, with every release.
        last_number: that of the last release; 0 without one.
    """

    events: int
    head: str
    strict: bool
    datasets: dict[str, DataSet]
    last_number: int

    def known(self, name: str, path: Path) -> DataSet:
        """See `known_dataset`."""
        return known_dataset(self.datasets, name, path)


@dataclass
class OpenBooks:
    """What a ledger holds, within a transaction that has verified it; entries are read one by one.

    Attributes:
        connection: to the ledger.
        path: its file.
        running: what its events add up to.
        written: the texts and digests of the events that were added.
        written_after: the last event before them.
    """

    connection: sqlite3.Connection
    path: Path
    running: Running
    written: list[tuple[bytes, str]] = field(default_factory=list)
    written_after: Head = BEFORE_ALL

    def has(self, event: Head) -> bool:
        """Whether the file has an event; any has `BEFORE_ALL`."""
        return event == BEFORE_ALL or read_digest(self.connection, event.number) == event.digest

    def entry(self, number: int) -> Entry:
        """A release by its number.

        Raises:
            ValueError: there is none; or its text is no longer what was verified.
        """
        try:
            return self._entry(self.running.index(number))
        except KeyError:
            raise ValueError(f"number: the ledger {str(self.path)!r} has no entry {number}") from None

    def of_run(self, dataset: str, run: str | None, plan: str | None = None) -> list[Entry]:
        """The entries of a run that decide what becomes of its next one, in order.

        Returns:
            Those with this plan (of several with the same loss, the last one), and the last entry of the run, which is
            the last here; none where the run is not known.

        Raises:
            ValueError: a text is no longer what was verified.
        """
        found = [] if run is None else self.running.of_run(dataset, run, plan)
        return [self._entry(index) for index in found]

    def _entry(self, index: int) -> Entry:
        (position, digest), finished = self.running.place(index)
        kept = self.running.texts
        text = read_text(self.connection, self.path, position, digest) if kept is None else kept[index]
        facts = read_event(text)
        inputs = self.running.inputs.get(facts["number"])
        return read_entry(text, position, self.running.datasets[facts["dataset"]].neighboring, finished, inputs)

    def write(self, texts: Sequence[bytes]) -> None:
        """Add events, where the transaction has the write lock."""
        self.written_after = self.running.head
        self.written = [*zip(texts, append(self.connection, self.written_after, texts), strict=True)]

    def try_to_write(self, texts: Sequence[bytes]) -> None:
        """Add events, and undo it."""
        self.write(texts)
        self.written = []
        self.connection.rollback()

    def listed(self) -> Books:
        """All of it; the texts of its releases have to be kept."""
        running = self.running
        return Books(running.head.number, running.head.digest, running.strict, running.listed(), running.last_number)
