"""`replay`: pairs of releases with the same noisy answers, and what they show that is not the same."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.ledger import Ledger
from tallytree.release import Release
from tallytree.replay.answers import Book, Run, forced
from tallytree.replay.configurations import NEW_LEDGER, Pair, random_pair
from tallytree.replay.published import differences, refused, shown_by
from tallytree.replay.stated import contradictions
from tallytree.validate import integer

DEFAULT_PAIRS = 500
KEYED_DIGEST = re.compile(rb"statistics='[0-9a-f]{64}'")
TIMES = re.compile(rb"\d{4}-\d\d-\d\d[T ][\d:.]+(Z|[+-]\d\d:\d\d)?")


@dataclass(frozen=True)
class Replay:
    """What a replay of many pairs found.

    Attributes:
        pairs: how many pairs of releases were compared.
        refused: how many more configurations the library refused, alike for both data sets.
        faults: what is not as it must be, one sentence each; empty where everything is.
    """

    pairs: int
    refused: int
    faults: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing was found."""
        return not self.faults


def replay(pairs: int = DEFAULT_PAIRS, *, seed: int = 0, begin: Callable[[int], None] = lambda number: None) -> Replay:
    """Give neighboring data sets the same noisy answers, and compare all that their releases show, byte for byte.

    Random small data sets are released through the public functions, with random options of every statistic. The noise
    of the second release is chosen so that its noisy answers are those of the first. What is shown must then be equal:
    tables, measurements, statement, all files, warnings, log lines and the ledger's entry. The noise must have the
    stated scales. What it took must lie within the stated sensitivities, and cost no more than the stated budget.

    Args:
        pairs: how many pairs to compare, ≥ 1.
        seed: of data and options, ≥ 0. Equal seeds give equal pairs.
        begin: called with the number of each pair.

    Raises:
        ValueError, TypeError: no such number.
    """
    integer(pairs, "pairs", least=1)
    rng = np.random.default_rng(integer(seed, "seed", least=0))
    compared = not_made = 0
    faults: list[str] = []
    while compared < pairs:
        begin(compared)
        pair = random_pair(rng)
        found, was_refused = compare_pair(pair)
        faults += [f"pair {compared}: {fault}; {pair}" for fault in found]
        compared, not_made = compared + (not was_refused), not_made + was_refused
    return Replay(compared, not_made, tuple(faults))


def compare_pair(pair: Pair) -> tuple[list[str], bool]:
    """What is not as it must be, and whether the library refused both releases."""
    book = Book()
    with tempfile.TemporaryDirectory() as place:
        book.present = _present_in_both(pair, Path(place))
        statements: list[dict[str, Any]] = []
        book.cut = pair.cuts[0]
        first, one = _shown(pair, pair.first, book, Path(place) / "1", statements)
        book.first, book.cut = False, pair.cuts[1]
        second, other = _shown(pair, pair.second, book, Path(place) / "2", statements)
    found = differences(first, second)
    if refused(first) or refused(second):
        return found, True
    return [*found, *one.faults, *other.faults, *contradictions(statements[0], one, other)], False


def _shown(
    pair: Pair, private: pa.Table, book: Book, folder: Path, statements: list[dict[str, Any]]
) -> tuple[dict[str, bytes], Run]:
    folder.mkdir()

    def make() -> Release:
        release = pair.release(private, folder)
        statements.append(dict(release.statement))
        return release

    with forced(book) as run:
        shown = shown_by(make)
        if pair.options.get("ledger") == NEW_LEDGER and (folder / "ledger.db").exists():
            shown["ledger"] = _entries(folder / "ledger.db")
    return {name: TIMES.sub(b"", text.replace(str(folder).encode(), b"")) for name, text in shown.items()}, run


def _entries(file: Path) -> bytes:
    """What the ledger has; but for the keyed digest of a named run, which follows from the records by design.

    Nobody can test a guess against it without the secret, and it is never published; see `pipeline.release_keys`.
    """
    return KEYED_DIGEST.sub(b"", repr(Ledger(file).entries()).encode())


def _present_in_both(pair: Pair, place: Path) -> dict[str, set[int]]:
    """By level, the nodes with records in both data sets, where counts above a threshold are published."""
    if type(pair.options.get("mechanism")).__name__ != "StabilityHistogram":
        return {}
    runs = []
    for number, private in enumerate((pair.first, pair.second)):
        folder = place / f"present{number}"
        folder.mkdir()
        with forced(Book()) as run:
            shown_by(partial(pair.release, private, folder))
        runs.append(run.present)
    return {level: nodes & runs[1].get(level, set()) for level, nodes in runs[0].items()}
