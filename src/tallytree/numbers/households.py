"""Persons are put into the households of their leaf at random; who lives with whom carries no information.

What is published of a leaf is how many persons of each kind live in households, and how many households of each size
there are. Any assignment that keeps both is as good as another. So the persons of a leaf are shuffled, and dealt to its
households one after the other. The shuffle is public: it follows from a seed, which is no secret and no noise key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tallytree.support.arrays import IntArray, offsets_of

RANDOM_HOUSEHOLDS = (
    "Who lives with whom carries no information: the persons of a leaf were put into its households at random. The "
    "column {!r} numbers the households of this file; it is made up, and empty for persons in none."
)


@dataclass(frozen=True, eq=False)
class HouseholdSizes:
    """The households of some leaves by size, with those of the last class as "K or more".

    Attributes:
        leaf: int64 (n,), the leaf of each row, ascending.
        size: int64 (n,), ≥ 1 and at most `largest`.
        households: int64 (n,), how many there are.
        largest: K.
        persons_in_largest: int64 (leaves,), how many persons live in households of K or more, by leaf.
    """

    leaf: IntArray
    size: IntArray
    households: IntArray
    largest: int
    persons_in_largest: IntArray

    def of_leaves(self, part: slice) -> HouseholdSizes:
        """The same of some leaves that follow each other, which are numbered from 0 on."""
        rows = slice(*np.searchsorted(self.leaf, [part.start, part.stop]).tolist())
        leaf, size, households = self.leaf[rows] - part.start, self.size[rows], self.households[rows]
        return HouseholdSizes(leaf, size, households, self.largest, self.persons_in_largest[part])

    def each(self) -> tuple[IntArray, IntArray]:
        """The leaf of every household, in order, and its size: int64 (households,) each.

        The persons of "K or more" are divided among its households as evenly as can be: with q persons left over, the
        first q of these households in a leaf have one more than the others.

        Raises:
            ValueError: a leaf has fewer persons in them than K each, or persons without such a household.
        """
        leaf, size = np.repeat(self.leaf, self.households), np.repeat(self.size, self.households)
        last = np.flatnonzero(size == self.largest)
        number = np.bincount(leaf[last], minlength=len(self.persons_in_largest))
        excess = self.persons_in_largest - self.largest * number
        wrong = np.flatnonzero((excess < 0) | ((number == 0) & (excess > 0)))
        if len(wrong):
            one = int(wrong[0])
            raise ValueError(
                f"households: the leaf {one} has {int(self.persons_in_largest[one])} persons in {int(number[one])} "
                f"households of {self.largest} or more, which cannot be; take a fresh copy of the release"
            )
        place = np.arange(len(last)) - offsets_of(number)[leaf[last]]
        share, left = np.divmod(excess, np.maximum(number, 1))
        size[last] += share[leaf[last]] + (place < left[leaf[last]])
        return leaf, size


def seed_of(statement: Mapping[str, Any]) -> int:
    """The seed that follows from a release: of the sha256 of its statement, as canonical JSON."""
    text = json.dumps(statement, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16])


def put_into_households(persons: IntArray, sizes: HouseholdSizes, random: np.random.Philox) -> IntArray:
    """The household of every person of some leaves.

    Args:
        persons: int64 (leaves,), how many persons in households each leaf has; the records of a leaf follow each other,
            and the leaves too.
        sizes: the households of these leaves. Per leaf their persons add up to `persons`.
        random: shuffles the persons of a leaf; it is drawn from once for each person, so that leaves in several calls
            get the same households as in one.

    Returns:
        int64 (persons,), the number of each person's household, from 0 on: leaf by leaf, by size as the rows of `sizes`
        are, those of "K or more" last.

    Raises:
        ValueError: the households of a leaf have more or fewer persons than the leaf.
    """
    leaf, size = sizes.each()
    in_households = np.bincount(leaf, weights=size, minlength=len(persons)).astype(np.int64)
    wrong = np.flatnonzero(in_households != persons)
    if len(wrong):
        one = int(wrong[0])
        raise ValueError(
            f"households: the leaf {one} has {int(persons[one])} persons in households by its tables, and "
            f"{int(in_households[one])} by the sizes of its households; take a fresh copy of the release"
        )
    keys = random.random_raw(int(persons.sum()))
    order = np.lexsort((keys, np.repeat(np.arange(len(persons)), persons)))
    found = np.empty(len(order), dtype=np.int64)
    found[order] = np.repeat(np.arange(len(size)), size)
    return found
