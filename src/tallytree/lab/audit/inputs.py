"""Small neighboring inputs: checked, tabulated with the library's own statistics, and enumerated."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tallytree.hierarchy import Hierarchy
from tallytree.lab._internals import (
    LeafCounts,
    Neighboring,
    PlannedTables,
    TrueCounts,
    TrueSizes,
    TrueStatistics,
    TrueTables,
)
from tallytree.product import Product
from tallytree.sizes import SizesDomain
from tallytree.support.arrays import IntArray
from tallytree.support.validate import safe_text

MAX_PLACES = 10_000
"""An audit draws every cell in every run, so its inputs must be small."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """What data sets look like: so many records in each of some places, which are leaves, or groups.

    Attributes:
        places: how many there are.
        tabulate: from records per place, int64 (places,), to the statistics of every level.
        parse: from what the caller gave, and its argument's name, to records per place.
    """

    places: int
    tabulate: Callable[[IntArray], TrueStatistics]
    parse: Callable[[Any, str], IntArray]


def counts_inputs(tree: Hierarchy | Product, *, distinct: bool = False) -> Inputs:
    """Data sets of counts: int (n_leaves,), records per leaf; people per leaf, where each counts once in a leaf."""
    leaves = tree.size(len(tree.levels) - 1)
    _check_small(leaves, "leaves")

    def tabulate(records: IntArray) -> TrueCounts:
        present = np.flatnonzero(records)
        return TrueCounts(tree, present, records[present], distinct=distinct)

    return Inputs(leaves, tabulate, _counts_parser(leaves, "leaves"))


def tables_inputs(planned: PlannedTables) -> Inputs:
    """Data sets of tables: records per combination of leaves, int (combinations,), the last hierarchy's fastest."""
    leaves = tuple(side.hierarchy.n_leaves for side in planned.layout.product.attributes)
    combinations = math.prod(leaves)
    _check_small(combinations, "combinations of leaves")

    def tabulate(records: IntArray) -> TrueTables:
        present = np.flatnonzero(records)
        parts = tuple(np.asarray(part, dtype=np.int64) for part in np.unravel_index(present, leaves))
        counts = LeafCounts(parts, records[present])
        return TrueTables(planned.layout, counts, planned.statistics, totals=planned.totals)

    return Inputs(combinations, tabulate, _counts_parser(combinations, "combinations of leaves"))


def _counts_parser(places: int, what: str) -> Callable[[Any, str], IntArray]:
    """Checks that somebody gave so many counts."""

    def parse(given: Any, argument: str) -> IntArray:
        records = _integers(given, argument)
        if records.shape != (places,):
            raise ValueError(f"{argument}: {len(records)} counts were given, but the tree has {places} {what}")
        return records

    return parse


def sizes_inputs(domain: SizesDomain, groups_per_leaf: IntArray | None = None) -> Inputs:
    """Data sets of group sizes: for every leaf the sizes of its groups; group i is the same one in all data sets.

    Args:
        domain: the public facts.
        groups_per_leaf: where numbers of groups are private, how many groups a leaf can have; those without members are
            not there.
    """
    public = domain.groups[-1]
    per_leaf = public if groups_per_leaf is None else groups_per_leaf
    if per_leaf is None:
        raise ValueError("groups_per_leaf: the numbers of groups are private, so say how many a leaf can have")
    places = int(per_leaf.sum())
    _check_small(places, "groups")
    leaves = np.repeat(np.arange(len(per_leaf), dtype=np.int64), per_leaf)

    def tabulate(members: IntArray) -> TrueSizes:
        there = np.ones(places, dtype=np.bool_) if domain.groups_are_public else members > 0
        sizes = np.clip(members[there], domain.smallest, domain.largest)
        ones = np.ones(len(sizes), dtype=np.int64)
        return TrueSizes(domain.hierarchy, leaves[there], sizes, ones, domain.groups, domain.smallest, domain.largest)

    def parse(given: Any, argument: str) -> IntArray:
        lists = group_lists(given, argument, domain)
        for leaf, (sizes, groups) in enumerate(zip(lists, per_leaf, strict=True)):
            if len(sizes) != groups:
                raise ValueError(
                    f"{argument}: leaf {leaf} has {len(sizes)} sizes, but {groups} groups"
                    + (", whose number is public" if domain.groups_are_public else "; a group that is not there has 0")
                )
        return np.concatenate(lists)

    return Inputs(places, tabulate, parse)


def group_lists(given: Any, argument: str, domain: SizesDomain) -> list[IntArray]:
    """For every leaf the sizes of its groups.

    Raises:
        ValueError: another number of leaves than the hierarchy has, or sizes that are not integers ≥ 0.
        TypeError: not a list of lists of integers.
    """
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise TypeError(f"{argument}: {safe_text(given)} must be a list with the list of group sizes of every leaf")
    if len(given) != domain.hierarchy.n_leaves:
        raise ValueError(f"{argument}: it lists {len(given)} leaves, but the hierarchy has {domain.hierarchy.n_leaves}")
    return [_integers(sizes, f"{argument}[{leaf}]") for leaf, sizes in enumerate(given)]


@dataclass(frozen=True)
class Neighborhood:
    """What turns a data set into its neighbors: one person, with at most so much in so many places.

    Attributes:
        relation: the neighboring relation.
        max_contributions: m, the most records of one person.
        max_quantity: z, the most that one record adds to its group.
        same_records: whether neighbors have equally many records, because their number is public.
        groups: how many groups with members every data set has, where that alone is public of their numbers.
        distinct: whether a person counts at most once in a place.
    """

    relation: Neighboring
    max_contributions: int = 1
    max_quantity: int = 1
    same_records: bool = False
    groups: int | None = None
    distinct: bool = False

    def check(self, before: IntArray, after: IntArray) -> None:
        """Refuse two data sets that one neighboring change does not turn into each other.

        Raises:
            ValueError: they are equal, or further apart than one person can make them, or without the public number of
                groups.
        """
        m, z = self.max_contributions, self.max_quantity
        change = after - before
        gains, losses = np.maximum(change, 0), np.maximum(-change, 0)
        gained, lost = int(gains.sum()), int(losses.sum())
        if gained == lost == 0:
            raise ValueError(
                "neighbor: it equals data, so there is nothing to tell apart; move, add or remove a record"
            )
        shift = f"neighbor: it has {gained} {'records' if z == 1 else 'members'} more and {lost} fewer than data"
        # A record changes one place by at most z, so each place takes its change over z, rounded up.
        needed = max(int((-(-amounts // z)).sum()) for amounts in (gains, losses))
        if needed > m:
            takes = "" if z == 1 else f", which takes {needed} records of at most max_quantity={z}"
            raise ValueError(f"{shift}{takes}, but one person has at most max_contributions={m}")
        if self.distinct and max(gains.max(), losses.max()) > 1:
            raise ValueError(f"{shift}, some of them in one leaf, but with distinct a person counts once in a leaf")
        if self.relation == "add_remove" and gained and lost:
            raise ValueError(f'{shift}; under "add_remove" one person is added or removed, not both')
        if self.same_records and gained != lost:
            raise ValueError(f"{shift}, but under change_one with one record each the total is public: move a record")
        for argument, members in (("data", before), ("neighbor", after)):
            if not self._have_public_groups(members[None, :])[0]:
                raise ValueError(
                    f"{argument}: it has {int((members > 0).sum())} groups with members, but the tree says that there "
                    f"are {self.groups}, and publishes it; keep to that number, or audit a SizesDomain with "
                    'invariants="none"'
                )

    def of(self, records: IntArray) -> IntArray:
        """Every neighbor of a data set, int64 (neighbors, places).

        At most m records leave and, under change_one, at most m others come. Adding is the mirror image of removing.
        """
        ways = self._contributions(len(records))
        going = ways[(ways <= records).all(axis=1)]
        coming = ways if self.relation == "change_one" else ways[:1]
        change = coming[None, :, :] - going[:, None, :]
        moved = (change != 0).any(axis=2)
        if self.same_records:
            moved &= change.sum(axis=2) == 0
        after = records + np.unique(change[moved], axis=0)
        kept = self._have_public_groups(records[None, :]) & self._have_public_groups(after)
        return np.asarray(after[kept], dtype=np.int64)

    def _have_public_groups(self, members: IntArray) -> npt.NDArray[np.bool_]:
        """Whether each data set, int64 (n, places), has the public number of groups, if there is one."""
        if self.groups is None:
            return np.ones(len(members), dtype=np.bool_)
        return np.asarray((members > 0).sum(axis=1) == self.groups)

    def _contributions(self, places: int) -> IntArray:
        """Every way in which at most m records of at most z fall on the places, int64 (ways, places), nothing first."""
        chosen_from = itertools.combinations if self.distinct else itertools.combinations_with_replacement
        records = list(itertools.product(range(places), range(1, self.max_quantity + 1)))
        chosen = (
            np.array(each, dtype=np.int64).reshape(-1, 2)
            for count in range(self.max_contributions + 1)
            for each in chosen_from(records, count)
        )
        # Sums of a few integers, exact as floats.
        amounts = [np.bincount(each[:, 0], weights=each[:, 1], minlength=places) for each in chosen]
        return np.unique(np.array(amounts).astype(np.int64), axis=0)


def _integers(given: Any, argument: str) -> IntArray:
    array = np.asarray(given)
    if array.size == 0 and array.ndim == 1:
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"{argument}: an array of {array.dtype} with shape {array.shape} must be a list of integers")
    if array.min() < 0:
        raise ValueError(f"{argument}: {int(array.min())} must be at least 0; records are counted")
    return array.astype(np.int64)


def _check_small(places: int, what: str) -> None:
    if not 0 < places <= MAX_PLACES:
        raise ValueError(f"tree: {places:,} {what} are not between 1 and {MAX_PLACES:,}; audit on a small input")
