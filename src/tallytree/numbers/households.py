"""What persons and households of one release tell together: the mean household, and who may live in which.

Of a leaf is published how many persons of each kind live in households, and how many households of each size there are.
Any assignment that keeps both is as good as another; who lives with whom carries no information. So the persons of a
leaf are shuffled, and dealt to its households one after the other. The shuffle is public: it follows from a seed, which
is no secret and no noise key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import TOTAL, Hierarchy
from tallytree.release import HouseholdsRelease, beside_paths
from tallytree.release.households_release import area_tables
from tallytree.release.intervals import checked_alpha, quantile
from tallytree.release.view.release_view import ReleaseView, published_level
from tallytree.sources.leaf_paths import decoded
from tallytree.support.arrays import FloatArray, IntArray, offsets_of
from tallytree.tables.layout import table_of

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
    household = np.empty(len(order), dtype=np.int64)
    household[order] = np.repeat(np.arange(len(size)), size)
    return household


def mean_of_households(release: HouseholdsRelease, level: str, alpha: float) -> pa.Table:
    """`HouseholdsRelease.mean`, which documents the arguments."""
    reach = quantile(checked_alpha(alpha), None)
    view = ReleaseView(release.households)
    areas = view.known_tree
    name = release.households._name((areas.levels[0] if level == TOTAL else level,))
    depth = release.households.levels.index(name)
    if not isinstance(areas, Hierarchy):
        raise ValueError("level: the tree of this release is none of areas; take a fresh copy of the release")
    size = areas.size(depth)
    persons, of_persons = _in_households(ReleaseView(release.persons), depth)
    listed, rows = published_level(release.households.level_tables[name], areas, depth), view.whole(name)
    households, of_households = np.zeros(size, dtype=np.int64), np.zeros(size)
    np.add.at(households, listed.nodes, listed.numbers)
    of_households[listed.nodes] = rows.column("households_std_dev").to_numpy()
    none = households == 0
    number = np.maximum(households, 1)
    mean = persons / number
    part = np.minimum(1 / ((view.largest_size or 0) + 1), 1 / np.maximum(mean, 1))
    variance = (mean * of_households) ** 2 + of_persons**2 * (1 - 2 * mean * part)
    std_dev = np.sqrt(np.maximum(variance, 0.0)) / number
    ends = np.maximum(mean - reach * std_dev, np.minimum(mean, 1.0)), mean + reach * std_dev
    columns = {"persons": pa.array(persons), "households": pa.array(households)}
    for column, values in zip(("mean", "std_dev", "ci_lower", "ci_upper"), (mean, std_dev, *ends), strict=True):
        columns[column] = pa.array(values, mask=none)
    return decoded(beside_paths(areas, depth, np.arange(size, dtype=np.int64), pa.table(columns)))


def _in_households(view: ReleaseView, depth: int) -> tuple[IntArray, FloatArray]:
    """Of every area of a level, the published persons in households and the standard deviation, (areas,) each."""
    place = table_of_persons(view, depth, "level")
    numbers, level = view.cells_of_table(place), view.published(place)
    std_dev = np.zeros(numbers.size)
    std_dev[level.nodes] = view.column(view.levels[place], "std_dev")
    return numbers[:, 0], std_dev[::2]


def table_of_persons(view: ReleaseView, depth: int, argument: str) -> int:
    """The place of the table of persons in households and outside, of the areas of a level.

    Args:
        view: of the tables of persons.
        depth: the level.
        argument: what it is wanted for, for the message.

    Raises:
        ValueError: there is none.
    """
    product = view.layout.product
    place = view.layout.place(table_of(product, area_tables(product.attributes[0])[depth], argument))
    if place is None:
        raise ValueError(f"{argument}: the persons of this level are not in the release; take a fresh copy of it")
    return place
