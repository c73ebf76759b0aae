"""True statistics of the leaves. Private: no value may reach a message, a log or an output without noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from tallytree.support.arrays import IntArray

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
