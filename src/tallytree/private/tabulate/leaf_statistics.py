"""True statistics of the leaves, and of people, as an engine tabulates them; and the digest of arrays of them.

Private: no value may reach a message, a log or an output without noise. Only a `Measurer` may hold them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from tallytree.kinds.measurements import Statistic
from tallytree.support.arrays import IntArray
from tallytree.support.file_arrays import FileArray


def array_digest(arrays: Iterable[IntArray | FileArray]) -> bytes:
    """32 bytes that depend on every value, on the length of every array and on their order; never published.

    An array in a file has the digest of the same array in memory: the noise does not depend on where it lay.
    """
    digest = hashlib.blake2b(digest_size=32)
    for array in arrays:
        digest.update(len(array).to_bytes(8, "little"))
        for block in array.blocks() if isinstance(array, FileArray) else (array,):
            digest.update(np.ascontiguousarray(block).tobytes())
    return digest.digest()


MAX_TOTAL = 2**62
"""No statistic adds up to more, so that sums (and noise added to them) stay within 64 bits."""


@dataclass(frozen=True, eq=False, repr=False)
class LeafCounts:
    """Records per combination of leaves; a combination without records has no row.

    Attributes:
        parts: per key, int64 (n,): the leaf's number in the key's hierarchy. Rows are sorted by them and distinct.
        counts: int64 (n,): records, all > 0; their sum is at most 2^62.
        people: int64: how many people have 1, 2, … records, where that was asked for (`ContributionBound`).
        fingerprint: int64 (2,): of all records that could count, where that was asked for.

    Raises:
        ValueError: the arrays break what is said above.
    """

    parts: tuple[IntArray, ...]
    counts: IntArray
    people: IntArray | None = None
    fingerprint: IntArray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(_sealed(part) for part in self.parts))
        object.__setattr__(self, "counts", _sealed(self.counts))
        _refuse_disorder(self.parts, self.counts, "LeafCounts")

    def __repr__(self) -> str:
        """No values: they are private."""
        return "LeafCounts(<private>)"


@dataclass(frozen=True, eq=False, repr=False)
class LeafGroups:
    """Groups per leaf and size; a size that no group of the leaf has, has no row.

    Attributes:
        leaves: int64 (n,): the leaf's number in its hierarchy. Rows are sorted by (leaf, size) and distinct.
        sizes: int64 (n,): members of a group, ≥ 0.
        groups: int64 (n,): groups of that size in that leaf, all > 0; their sum is at most 2^62.
        people: int64: how many people have 1, 2, … memberships, where that was asked for (`ContributionBound`).
        fingerprint: int64 (2,): of all memberships that could count, where that was asked for.

    Raises:
        ValueError: the arrays break what is said above.
    """

    leaves: IntArray
    sizes: IntArray
    groups: IntArray
    people: IntArray | None = None
    fingerprint: IntArray | None = None

    def __post_init__(self) -> None:
        for name in ("leaves", "sizes", "groups"):
            object.__setattr__(self, name, _sealed(getattr(self, name)))
        _refuse_disorder((self.leaves, self.sizes), self.groups, "LeafGroups")

    def __repr__(self) -> str:
        """No values: they are private."""
        return "LeafGroups(<private>)"


@dataclass(frozen=True, eq=False, repr=False)
class LeafHouseholds:
    """Persons and households of the same records.

    Attributes:
        persons: per combination of leaves; the last part is 0 for persons in households, and 1 for the others.
        households: per leaf of the first hierarchy and number of members, ≥ 1.
    """

    persons: LeafCounts
    households: LeafGroups

    def __repr__(self) -> str:
        """No values: they are private."""
        return "LeafHouseholds(<private>)"


def _sealed(values: npt.ArrayLike) -> IntArray:
    """An int64 view that cannot be written through."""
    array = np.asarray(values).view()
    if array.dtype != np.int64 or array.ndim != 1:
        raise ValueError("statistics are one-dimensional int64 arrays")
    array.flags.writeable = False
    return cast(IntArray, array)


def _refuse_disorder(address: Sequence[IntArray], amounts: IntArray, name: str) -> None:
    if not address or any(len(column) != len(amounts) for column in address):
        raise ValueError(f"{name}: one array per key, all as long as the amounts")
    if any((column < 0).any() for column in address) or (amounts <= 0).any():
        raise ValueError(f"{name}: leaves and sizes must be ≥ 0 and amounts > 0")
    later = np.zeros(max(len(amounts) - 1, 0), dtype=np.bool_)
    for column in reversed(address):
        later = (column[1:] > column[:-1]) | ((column[1:] == column[:-1]) & later)
    if not later.all():
        raise ValueError(f"{name}: rows must be sorted and distinct")


class DenseStatistics:
    """Statistics of every node of some levels, each of which has as many cells as the others of its level.

    Args:
        tables: per level, the statistic that is measured, and the cells of all nodes, int64 (nodes, cells). No other
            statistic is answered: noise is planned for this one.
    """

    def __init__(self, tables: Mapping[str, tuple[Statistic, IntArray]]) -> None:
        self._tables = dict(tables)

    def __repr__(self) -> str:
        """The kind; nothing of the cells."""
        return f"{type(self).__name__}(<private>)"

    def size(self, level: str) -> int:
        """How many nodes the level has."""
        return len(self._tables[level][1]) if level in self._tables else 0

    def width(self, level: str, node: int, statistic: Statistic) -> int:
        """How many cells a node has."""
        return int(self._tables[level][1].shape[1])

    def cells(
        self, level: str, nodes: IntArray, statistic: Statistic, part: tuple[int, int] | None = None
    ) -> tuple[IntArray, IntArray, IntArray]:
        """The cells of each of some nodes, numbered within the level; with a `part`, the cells part[0] … part[1] − 1.

        Raises:
            ValueError: another statistic, or a level that is not here.
        """
        measured, table = self._tables.get(level, (None, np.empty((0, 0), dtype=np.int64)))
        if statistic != measured:
            raise ValueError(f"statistic: {statistic!r} of {level!r} is not what is measured there")
        width = table.shape[1]
        first, stop = (0, width) if part is None else part
        numbers = ((nodes * width)[:, None] + np.arange(first, stop, dtype=np.int64)).ravel()
        return table.ravel()[numbers], np.arange(len(nodes) + 1, dtype=np.int64) * (stop - first), numbers


class TrueContributions(DenseStatistics):
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
        sums = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(people)])
        counted = np.array([sums[last] - sums[first - 1] for first, last in bins], dtype=np.int64)
        super().__init__({root: ("contributions", counted[None, :])})
        self._digest = array_digest([counted, *(() if fingerprint is None else (fingerprint,))])

    def digest(self) -> bytes:
        """A digest of all bins, for the derivation of the noise key; never published."""
        return self._digest


def digest_with(digest: bytes, contributions: TrueContributions | None) -> bytes:
    """A digest of other statistics and of these; the former alone where there are none of these."""
    if contributions is None:
        return digest
    return array_digest([np.frombuffer(each, dtype=np.int64) for each in (digest, contributions.digest())])
