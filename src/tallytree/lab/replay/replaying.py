"""`replay`: pairs of releases with the same noisy answers, and what they show that is not the same."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.counts import CountsMechanism
from tallytree.engines import Engine
from tallytree.lab.replay.answers import Book, Run, forced
from tallytree.lab.replay.choice import Choice
from tallytree.lab.replay.configurations import random_pair
from tallytree.lab.replay.pair import NEW_LEDGER, Pair
from tallytree.lab.replay.published import differences, keys_shown, shown_by
from tallytree.lab.replay.stated import contradictions
from tallytree.ledger import Ledger
from tallytree.release import Release
from tallytree.sizes import SizesMechanism
from tallytree.support.validate import integer
from tallytree.tables import TablesMechanism

DEFAULT_PAIRS = 500
CANDIDATES = 8
"""Of so many random pairs, one is compared."""
MOST_REFUSED = 20
"""So many times as many pairs as are to be compared may be refused."""
WIDELY = 16
"""Of one pair in so many, the report and the exports are compared."""
KEYED_DIGEST = re.compile(rb"statistics='[0-9a-f]{64}'")
TIMES = re.compile(rb"\d{4}-\d\d-\d\d[T ][\d:.]+(Z|[+-]\d\d:\d\d)?")


@dataclass(frozen=True)
class Replay:
    """What a replay of many pairs found.

    Attributes:
        pairs: how many pairs of releases were compared.
        refused: how many more configurations the library refused, alike for both data sets.
        faults: what is not as it must be, one sentence each; empty where everything is.
        covered: for every value of every option of every statistic that can be released, in how many pairs it was.
    """

    pairs: int
    refused: int
    faults: tuple[str, ...]
    covered: Mapping[str, int]

    @property
    def passed(self) -> bool:
        """Whether nothing was found."""
        return not self.faults

    @property
    def least(self) -> int:
        """In how many pairs every value was, at least."""
        return min(self.covered.values(), default=0)

    def found_with(self, share: float) -> float:
        """With which probability a fault is found, at least, that shows in such a share of the pairs with a value."""
        return 1 - (1 - share) ** self.least


def replay(
    pairs: int = DEFAULT_PAIRS,
    *,
    seed: int = 0,
    engines: Sequence[Engine] = (),
    mechanisms: Sequence[CountsMechanism | SizesMechanism | TablesMechanism] = (),
    begin: Callable[[int], None] = lambda number: None,
) -> Replay:
    """Give neighboring data sets the same noisy answers, and compare all that their releases show, byte for byte.

    Small data sets are released through the public functions, with options of every statistic. Pairs are chosen such
    that every value of every option is in as many as possible; the last quarter is random. The noise of the second
    release is chosen so that its noisy answers are those of the first. What is shown must then be equal: tables,
    measurements, statement, all files with their modes and times, warnings, log lines with their attributes and the
    ledger's entry; of one pair in `WIDELY`, also the report and the exports. None of it may hold a piece of a key, or
    of a subkey: a key is the same in both releases. The noise must have the stated scales.
    What it took must lie within the stated sensitivities, and cost no more than the stated budget.

    Args:
        pairs: how many pairs to compare, ≥ 1.
        seed: of data and options, ≥ 0. Equal seeds give equal pairs.
        engines: what tabulates the records, in place of DuckDB, such as `tallytree.engines.Spark`.
        mechanisms: what makes the releases, in place of the library's own: a mechanism from outside, for instance.
        begin: called with the number of each pair.

    Raises:
        ValueError, TypeError: no such number; or mechanisms that nearly all random releases refuse.
    """
    integer(pairs, "pairs", least=1)
    rng = np.random.default_rng(integer(seed, "seed", least=0))
    choice = Choice([random_pair(rng, engines, mechanisms) for _ in range(CANDIDATES * pairs)])
    compared = not_made = 0
    faults: list[str] = []
    while compared < pairs:
        begin(compared)
        pair = choice.next() if choice.left and 4 * compared < 3 * pairs else random_pair(rng, engines, mechanisms)
        found, was_refused = compare_pair(pair, widely=compared % WIDELY == 0)
        faults += [f"pair {compared}: {fault}; {pair}" for fault in found]
        choice.note(pair, was_refused)
        compared, not_made = compared + (not was_refused), not_made + was_refused
        if not_made > MOST_REFUSED * (pairs + compared):
            raise ValueError(
                f"mechanisms: {not_made} of {not_made + compared} random releases were refused; give mechanisms that "
                "go with most trees, whose levels are a0, a1, …"
            )
    return Replay(compared, not_made, tuple(faults), choice.covered())


def compare_pair(pair: Pair, *, widely: bool = False) -> tuple[list[str], bool]:
    """What is not as it must be, and whether the library refused both releases; `widely`: see `shown_by`."""
    book = Book()
    with tempfile.TemporaryDirectory() as place:
        book.present = _present_in_both(pair, Path(place))
        statements: list[dict[str, Any]] = []
        book.cut = pair.cuts[0]
        first, one = _shown(pair, pair.first, book, Path(place) / "1", statements, widely=widely)
        book.first, book.cut = False, pair.cuts[1]
        second, other = _shown(pair, pair.second, book, Path(place) / "2", statements, widely=widely)
    found = [*differences(first, second), *keys_shown(first, book.keys), *keys_shown(second, book.keys)]
    if "error" in {*first, *second}:
        return found, True
    return [*found, *one.faults, *other.faults, *contradictions(statements[0], one, other)], False


def _shown(
    pair: Pair, private: pa.Table, book: Book, folder: Path, statements: list[dict[str, Any]], *, widely: bool
) -> tuple[dict[str, bytes], Run]:
    folder.mkdir()

    def make() -> Release:
        release = pair.release(private, folder)
        statements.append(dict(release.statement))
        return release

    with forced(book) as run:
        shown = shown_by(make, widely=widely)
        if pair.options.get("ledger") == NEW_LEDGER and (folder / "ledger.db").exists():
            shown["ledger"] = _entries(folder / "ledger.db")
    return {name: TIMES.sub(b"", text.replace(str(folder).encode(), b"")) for name, text in shown.items()}, run


def _entries(file: Path) -> bytes:
    """What the ledger has; but for the keyed digest of a named run, which follows from the records by design.

    Nobody can test a guess against it without the secret, and it is never published; see `run.release_keys`.
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
