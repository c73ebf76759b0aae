"""The books: what the events of a ledger add up to, within a transaction; or listed, with every release."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tallytree.accounting.spending import DataSet, Entry, Standing
from tallytree.ledger.chain import BEFORE_ALL, Head, append, read_digest, read_text
from tallytree.ledger.events import read_entry, read_event
from tallytree.ledger.running import Running

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

    @property
    def last(self) -> Head:
        """The last event."""
        return self.running.head

    def has(self, event: Head) -> bool:
        """Whether the file has an event; any has `BEFORE_ALL`."""
        return event == BEFORE_ALL or read_digest(self.connection, event.number) == event.digest

    @property
    def strict(self) -> bool:
        """Whether releases of data sets without a limit are refused."""
        return self.running.strict

    @property
    def datasets(self) -> Mapping[str, Standing]:
        """The data sets by name."""
        return self.running.datasets

    @property
    def last_number(self) -> int:
        """That of the last release; 0 without one."""
        return self.running.last_number

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
        return read_entry(text, position, self.datasets[facts["dataset"]].neighboring, finished, inputs)

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
        return Books(running.head.number, running.head.digest, self.strict, running.listed(), self.last_number)
