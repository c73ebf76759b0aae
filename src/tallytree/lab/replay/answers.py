"""The same noisy answers for two data sets: noise is chosen so that true value plus noise is what was answered before.

All that a release shows is computed from its noisy answers and from public facts. So if two neighboring data sets get
the same answers, everything published must be equal, byte for byte. Whatever is not has come another way.

The answers are forced in the `Measurer`, through which alone a mechanism sees private statistics. While `forced` is
active, its true statistics and its noise source are wrapped: the first run notes every answer, the second gets these.
No code of a release knows of it.

In both runs the noise is drawn too, and the subkey it is drawn with is noted: noise is a function of a subkey and the
number of a cell. So one and the same noise must not be added to two true values, nor to cells of two statistics, in
either run or in both: whoever sees both answers would know their difference. The sampler is noted as well: it is that
of the scale that was asked for.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import numpy as np

from tallytree.lab._internals import (
    ForcedCut,
    Measurer,
    Noise,
    Planned,
    Statistic,
    discrete,
    entropy,
    order,
    rehearsal,
    representable,
)
from tallytree.support.arrays import IntArray

Address = tuple[str | int, ...]
KEY, ID = (hashlib.sha256(what).digest() for what in (b"key", b"id"))
"""What both runs draw from the operating system: release keys, by which the records that count are chosen; and ids."""
NO_KEYS = ("id", "statistics", "inputs")
"""What is derived from a key and is none: the id of a release, and what a ledger keeps."""
_ONE_AT_A_TIME = threading.Lock()


@dataclass
class Run:
    """What was measured of one data set.

    Attributes:
        true: by address and cell, the true value.
        places: by address and the number of a cell, its node and its place there.
        noise: by address, the noise that was asked for.
        present: by level, the nodes that have records, where counts above a threshold are published.
        threshold: by address, the least noisy count that is published, where there is one.
        faults: what no measurement may do, in words.
    """

    true: dict[Address, dict[int, int]] = field(default_factory=dict)
    places: dict[Address, dict[int, tuple[int, int]]] = field(default_factory=dict)
    noise: dict[Address, Noise] = field(default_factory=dict)
    present: dict[str, set[int]] = field(default_factory=dict)
    threshold: dict[Address, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


@dataclass
class Book:
    """The answers of the first run, and the run that goes on.

    Attributes:
        answers: by address and cell, true value plus noise.
        present: by level, the nodes that have records in both data sets; others are answered just below the threshold.
        run: the run that goes on.
        first: whether it is the first one, which makes the answers.
        cut: where the run that goes on cuts the tree, if it has `memory`; as deep as the tree allows.
        used: by subkey and the number of a cell, the true value and the address of that cell, of both runs.
        rehearsing: whether a mechanism from outside is being tried on made-up statistics, which nothing is forced of.
        drawn_with: the subkeys of the noise that is being drawn, with its samplers.
        keys: all keys and subkeys of both runs.
    """

    answers: dict[Address, dict[int, int]] = field(default_factory=dict)
    present: dict[str, set[int]] = field(default_factory=dict)
    run: Run = field(default_factory=Run)
    first: bool = True
    cut: ForcedCut | None = None
    used: dict[bytes, dict[int, tuple[int, Address]]] = field(default_factory=dict)
    rehearsing: bool = False
    drawn_with: list[tuple[bytes, Any]] = field(default_factory=list)
    keys: set[bytes] = field(default_factory=lambda: {KEY})


@contextmanager
def forced(book: Book) -> Iterator[Run]:
    """Runs within get the answers of the book, or write them if they are the first; all have the same release key.

    Only this thread is concerned: a release that another thread makes at the same time has its own key and noise. One
    thread at a time can force answers, so that what is put in place is taken away in the reverse order.
    """
    book.run, owner = Run(), threading.get_ident()
    made, ran, drawn, named = Measurer.__init__, order.make_release, secrets.token_bytes, secrets.token_hex
    rehearsed, derived = rehearsal.rehearse, entropy.derive
    filled = discrete._filled  # where every keyed noise is drawn, whatever its source

    def wrapped(measurer: Measurer, statistics: Any, plan: Any, source: Any, *rest: Any, **more: Any) -> None:
        if threading.get_ident() != owner or book.rehearsing:
            made(measurer, statistics, plan, source, *rest, **more)
            return
        seen = _SeenStatistics(statistics, book.run)
        made(measurer, seen, plan, _ForcedNoise(source, seen, plan, book), *rest, **more)

    def cut_run(planned: Planned[Any, Any], *, forced: ForcedCut | None = None) -> Any:
        if threading.get_ident() == owner and book.cut is not None:
            forced = replace(book.cut, depth=min(book.cut.depth, max(len(planned.tree.levels) - 2, 0)))
        return ran(planned, forced=forced)

    def rehearse(planned: Any) -> None:
        book.rehearsing = threading.get_ident() == owner
        try:
            rehearsed(planned)
        finally:
            book.rehearsing = False

    def token_bytes(size: int | None = None) -> bytes:
        return KEY[:size] if threading.get_ident() == owner else drawn(size)

    def token_hex(size: int | None = None) -> str:
        return ID[:size].hex() if threading.get_ident() == owner else named(size)

    def derive(key: bytes, *address: str | int) -> bytes:
        made = derived(key, *address)
        if threading.get_ident() == owner and address[0] not in NO_KEYS:
            book.keys.add(made)
        return made

    def filled_with(sampler: Any, subkey: bytes, *rest: Any) -> IntArray:
        if threading.get_ident() == owner:
            book.drawn_with.append((subkey, sampler))
            book.keys.add(subkey)
        return filled(sampler, subkey, *rest)

    with (
        _ONE_AT_A_TIME,
        mock.patch.object(Measurer, "__init__", wrapped),
        mock.patch.object(order, "make_release", cut_run),
        mock.patch.object(rehearsal, "rehearse", rehearse),
        mock.patch.object(discrete, "_filled", filled_with),
        mock.patch.object(entropy, "derive", derive),
        mock.patch.object(secrets, "token_bytes", token_bytes),
        mock.patch.object(secrets, "token_hex", token_hex),
    ):
        yield book.run


class _SeenStatistics:
    """True statistics that remember what was last asked of them, and check that a cell has a number of its own."""

    def __init__(self, statistics: Any, run: Run) -> None:
        self._statistics, self._run = statistics, run
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
        known = self._run.places.setdefault((level, statistic), {})
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

    def __init__(self, source: Any, seen: _SeenStatistics, plan: Any, book: Book) -> None:
        self._source, self._seen, self._plan, self._book = source, seen, plan, book

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
        drawn = self._drawn(noise, address, cells, true)
        if address[-1] == "stable_counts":
            return self._stable(address, cells, true, drawn)
        known = book.answers.setdefault(address, {})
        if book.first:
            known.update(zip(cells.tolist(), (true + drawn).tolist(), strict=True))
            return drawn
        return np.array([self._answer(address, known, cell) for cell in cells.tolist()], dtype=np.int64) - true

    def _drawn(self, noise: Noise, address: Address, cells: IntArray, true: IntArray) -> IntArray:
        """The release's own noise; its subkeys are noted, with what it would be added to."""
        book = self._book
        book.drawn_with.clear()
        drawn = np.asarray(self._source.draw(noise, address, cells), dtype=np.int64)
        sampler_of, argument = discrete._SAMPLERS[noise.distribution]
        for subkey, sampler in book.drawn_with:
            if sampler is not sampler_of(representable(noise.scale, argument)):
                book.run.faults.append(f"the cells below {address} have noise of another scale than was asked for")
            used = book.used.setdefault(subkey, {})
            for cell, value in zip(cells.tolist(), true.tolist(), strict=True):
                if used.setdefault(cell, (value, address)) != (value, address):
                    book.run.faults.append(f"the noise of cell {cell} below {address} is that of another cell or value")
        return drawn

    def _note(self, address: Address, cells: IntArray, true: IntArray) -> None:
        """Parts of a tree may measure a cell again, which must have the same value: it gets the same noise."""
        known = self._book.run.true.setdefault(address, {})
        for cell, value in zip(cells.tolist(), true.tolist(), strict=True):
            if known.setdefault(cell, value) != value:
                self._book.run.faults.append(f"cell {cell} below {address} has two true values and the same noise")

    def _answer(self, address: Address, known: Mapping[int, int], cell: int) -> int:
        if cell not in known:
            self._book.run.faults.append(f"cell {cell} below {address} is measured of one of the data sets only")
            return 0
        return known[cell]

    def _stable(self, address: Address, cells: IntArray, true: IntArray, drawn: IntArray) -> IntArray:
        """Nodes that only one data set has miss the threshold by 1; that they can pass it is what δ pays for."""
        threshold = self._plan.planned_stable(address[0]).threshold
        self._book.run.threshold[address] = threshold
        known, both = self._book.answers.setdefault(address, {}), self._book.present.get(str(address[0]), set())
        answers = []
        for place, (cell, value) in enumerate(zip(cells.tolist(), true.tolist(), strict=True)):
            if cell not in both:
                answers.append(threshold - 1)
            else:
                if self._book.first:
                    known[cell] = value + int(drawn[place])
                answers.append(self._answer(address, known, cell))
        return np.array(answers, dtype=np.int64) - true
