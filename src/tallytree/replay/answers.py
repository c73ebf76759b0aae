"""The same noisy answers for two data sets: noise is chosen so that true value plus noise is what was answered before.

All that a release shows is computed from its noisy answers and from public facts. So if two neighboring data sets get
the same answers, everything published must be equal, byte for byte. Whatever is not has come another way.

The answers are forced in the `Measurer`, through which alone a mechanism sees private statistics. While `forced` is
active, its true statistics and its noise source are wrapped: the first run notes every answer, the second gets these.
No code of a release knows of it.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np

from tallytree.compute.arrays import IntArray
from tallytree.measurements import Noise, Statistic
from tallytree.private.measurer import Measurer

Address = tuple[str | int, ...]
KEY = bytes(range(32))
"""What both runs draw from the operating system: release keys, by which the records that count are chosen, and ids."""
BELOW_ANY_THRESHOLD = 10**12
_ONE_AT_A_TIME = threading.Lock()


@dataclass
class Run:
    """What was measured of one data set.

    Attributes:
        true: by address and cell, the true value.
        noise: by address, the noise that was asked for.
        present: by level, the nodes that have records, where counts above a threshold are published.
        faults: what no measurement may do, in words.
    """

    true: dict[Address, dict[int, int]] = field(default_factory=dict)
    noise: dict[Address, Noise] = field(default_factory=dict)
    present: dict[str, set[int]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


@dataclass
class Book:
    """The answers of the first run, and the run that goes on.

    Attributes:
        answers: by address and cell, true value plus noise.
        present: by level, the nodes that have records in both data sets; others are answered below any threshold.
        run: the run that goes on.
        first: whether it is the first one, which makes the answers.
    """

    answers: dict[Address, dict[int, int]] = field(default_factory=dict)
    present: dict[str, set[int]] = field(default_factory=dict)
    run: Run = field(default_factory=Run)
    first: bool = True


@contextmanager
def forced(book: Book) -> Iterator[Run]:
    """Runs within get the answers of the book, or write them if they are the first; all have the same release key.

    Only this thread is concerned: a release that another thread makes at the same time has its own key and noise. One
    thread at a time can force answers, so that what is put in place is taken away in the reverse order.
    """
    book.run, owner = Run(), threading.get_ident()
    made, drawn, named = Measurer.__init__, secrets.token_bytes, secrets.token_hex

    def wrapped(measurer: Measurer, statistics: Any, plan: Any, source: Any, *rest: Any, **more: Any) -> None:
        if threading.get_ident() != owner:
            made(measurer, statistics, plan, source, *rest, **more)
            return
        seen = _SeenStatistics(statistics, book.run)
        made(measurer, seen, plan, _ForcedNoise(source, seen, book), *rest, **more)

    def token_bytes(size: int | None = None) -> bytes:
        return KEY[:size] if threading.get_ident() == owner else drawn(size)

    def token_hex(size: int | None = None) -> str:
        return KEY[:size].hex() if threading.get_ident() == owner else named(size)

    with (
        _ONE_AT_A_TIME,
        mock.patch.object(Measurer, "__init__", wrapped),
        mock.patch.object(secrets, "token_bytes", token_bytes),
        mock.patch.object(secrets, "token_hex", token_hex),
    ):
        yield book.run


class _SeenStatistics:
    """True statistics that remember what was last asked of them, and check that a cell has a number of its own."""

    def __init__(self, statistics: Any, run: Run) -> None:
        self._statistics, self._run = statistics, run
        self._of_number: dict[tuple[str, Statistic], dict[int, tuple[int, int]]] = {}
        self.last: IntArray = np.zeros(0, dtype=np.int64)

    def __getattr__(self, name: str) -> Any:
        """All else is asked of the true statistics themselves."""
        return getattr(self._statistics, name)

    def cells(
        self, level: str, nodes: IntArray, statistic: Statistic, part: tuple[int, int] | None = None
    ) -> tuple[IntArray, IntArray, IntArray]:
        """See `TrueStatistics.cells`."""
        true, offsets, numbers = self._statistics.cells(level, nodes, statistic, part)
        self.last = true
        node = np.repeat(nodes, np.diff(offsets))
        cell = np.arange(len(true)) - np.repeat(offsets[:-1], np.diff(offsets)) + (part[0] if part else 0)
        known = self._of_number.setdefault((level, statistic), {})
        for number, place in zip(numbers.tolist(), zip(node.tolist(), cell.tolist(), strict=True), strict=True):
            if known.setdefault(number, place) != place:
                self._run.faults.append(f"two cells of {level!r} have the number {number}, so they have the same noise")
        return true, offsets, numbers

    def present(self, level: str) -> tuple[IntArray, IntArray]:
        """See `HasPresent.present`."""
        nodes, counts = self._statistics.present(level)
        self.last = counts
        self._run.present[level] = {int(node) for node in nodes}
        return nodes, counts


class _ForcedNoise:
    """Noise that makes the answers those of the book; in the first run it is the release's own."""

    def __init__(self, source: Any, seen: _SeenStatistics, book: Book) -> None:
        self._source, self._seen, self._book = source, seen, book

    def draw(self, noise: Noise, address: Address, cells: IntArray) -> IntArray:
        """Noise for `cells` below `address`."""
        book, true = self._book, self._seen.last
        if len(true) != len(cells):
            book.run.faults.append(f"{len(cells)} cells of {address} get noise, where {len(true)} are measured")
            return np.zeros(len(cells), dtype=np.int64)
        if len(np.unique(cells)) < len(cells):
            book.run.faults.append(f"two cells below {address} have the same number, so they have the same noise")
        if book.run.noise.setdefault(address, noise) != noise:
            book.run.faults.append(f"the cells below {address} have noise of two scales, which shows the true value")
        self._note(address, cells, true)
        if address[-1] == "stable_counts":
            return self._stable(noise, address, cells, true)
        known = book.answers.setdefault(address, {})
        if book.first:
            drawn = np.asarray(self._source.draw(noise, address, cells), dtype=np.int64)
            known.update(zip(cells.tolist(), (true + drawn).tolist(), strict=True))
            return drawn
        return np.array([self._answer(address, known, cell) for cell in cells.tolist()], dtype=np.int64) - true

    def _note(self, address: Address, cells: IntArray, true: IntArray) -> None:
        self._book.run.true.setdefault(address, {}).update(zip(cells.tolist(), true.tolist(), strict=True))

    def _answer(self, address: Address, known: Mapping[int, int], cell: int) -> int:
        if cell not in known:
            self._book.run.faults.append(f"cell {cell} below {address} is measured of one of the data sets only")
            return 0
        return known[cell]

    def _stable(self, noise: Noise, address: Address, cells: IntArray, true: IntArray) -> IntArray:
        """Nodes that only one data set has are left out, which the δ of the threshold pays for."""
        known, both = self._book.answers.setdefault(address, {}), self._book.present.get(str(address[0]), set())
        drawn = np.asarray(self._source.draw(noise, address, cells), dtype=np.int64) if self._book.first else None
        answers = []
        for place, (cell, value) in enumerate(zip(cells.tolist(), true.tolist(), strict=True)):
            if cell not in both:
                answers.append(-BELOW_ANY_THRESHOLD)
            else:
                if drawn is not None:
                    known[cell] = value + int(drawn[place])
                answers.append(self._answer(address, known, cell))
        return np.array(answers, dtype=np.int64) - true


@dataclass(frozen=True)
class Moved:
    """How far the true values of one measured statistic of a level are apart.

    Attributes:
        address: level and statistic.
        l1: Σ|difference|.
        squared: Σ difference².
        noise: of every cell.
    """

    address: Address
    l1: int
    squared: int
    noise: Noise

    @property
    def cost(self) -> Fraction:
        """ε of Laplace noise, ρ of Gaussian noise."""
        if self.noise.distribution == "discrete_laplace":
            return self.l1 / self.noise.scale
        return self.squared / (2 * self.noise.scale**2)


def moved(first: Run, second: Run) -> list[Moved]:
    """The differences between two runs, for everything that was measured in both."""
    found = []
    for address, noise in first.noise.items():
        if address[-1] == "stable_counts":
            continue  # which cells are compared is private; see `accounting.stability`
        one, other = first.true[address], second.true.get(address, {})
        differences = [one.get(cell, 0) - other.get(cell, 0) for cell in {*one, *other}]
        found.append(Moved(address, sum(map(abs, differences)), sum(each * each for each in differences), noise))
    return found
