"""People by their number of records. Private: only a `Measurer` may hold them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tallytree.kinds.measurements import Statistic
from tallytree.private.tabulate.array_digest import array_digest
from tallytree.support.arrays import IntArray


class TrueContributions:
    """How many people have a number of records in each bin: cells of the root, and no other statistic.

    Args:
        root: the root's level.
        bins: first and last number of records of each bin, ascending; they cover 1 … len(people).
        people: int64 (n,), how many people have 1, 2, … records; the last, so many or more.
        fingerprint: of all records that could count, where there is one; part of the digest, and not measured.
    """

    def __init__(
        self, root: str, bins: Sequence[tuple[int, int]], people: IntArray, fingerprint: IntArray | None = None
    ) -> None:
        self._root = root
        self._fingerprint = fingerprint
        sums = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(people)])
        self._people = np.array([sums[last] - sums[first - 1] for first, last in bins], dtype=np.int64)

    def __repr__(self) -> str:
        """Nothing of the people."""
        return "TrueContributions(<private>)"

    def digest(self) -> bytes:
        """A digest of all bins, for the derivation of the noise key; never published."""
        return array_digest([self._people, *(() if self._fingerprint is None else (self._fingerprint,))])

    def size(self, level: str) -> int:
        """How many nodes the level has: the root."""
        return int(level == self._root)

    def width(self, level: str, node: int, statistic: Statistic) -> int:
        """How many bins there are."""
        return len(self._people)

    def cells(
        self, level: str, nodes: IntArray, statistic: Statistic, part: tuple[int, int] | None = None
    ) -> tuple[IntArray, IntArray, IntArray]:
        """The people of every bin, for the root; with a `part`, of the bins part[0] … part[1] − 1."""
        if statistic != "contributions" or level != self._root:
            raise ValueError(f"statistic: {statistic!r} of {level!r} is not the people by number of records")
        first, stop = (0, len(self._people)) if part is None else part
        width = stop - first if len(nodes) else 0
        values = np.tile(self._people[first:stop], len(nodes))
        numbers = np.tile(np.arange(first, stop, dtype=np.int64), len(nodes))
        return values, np.arange(len(nodes) + 1, dtype=np.int64) * width, numbers


def digest_with(digest: bytes, contributions: TrueContributions | None) -> bytes:
    """A digest of other statistics and of these; the former alone where there are none of these."""
    if contributions is None:
        return digest
    return array_digest([np.frombuffer(each, dtype=np.int64) for each in (digest, contributions.digest())])
