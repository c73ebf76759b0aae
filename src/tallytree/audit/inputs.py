"""Small neighbouring inputs: checked, tabulated with the library's own statistics, and enumerated."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tallytree.arrays import IntArray
from tallytree.hierarchy import Hierarchy
from tallytree.measure import TrueStatistics
from tallytree.privacy.sensitivity import Neighboring
from tallytree.product import Product
from tallytree.sizes import SizesDomain
from tallytree.tabulate.levels import CountLevels, SizeLevels

MOST_PLACES = 10_000
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


def counts_inputs(tree: Hierarchy | Product) -> Inputs:
    """Data sets of counts: int (n_leaves,), records per leaf."""
    leaves = tree.size(len(tree.levels) - 1)
    _check_small(leaves, "leaves")

    def tabulate(records: IntArray) -> CountLevels:
        present = np.flatnonzero(records)
        return CountLevels(tree, present, records[present])

    def parse(given: Any, argument: str) -> IntArray:
        records = _whole_numbers(given, argument)
        if records.shape != (leaves,):
            raise ValueError(f"{argument}: {len(records)} counts were given, but the tree has {leaves} leaves")
        return records

    return Inputs(leaves, tabulate, parse)


def sizes_inputs(domain: SizesDomain) -> Inputs:
    """Data sets of group sizes: for every leaf the sizes of its groups; group i is the same one in all data sets."""
    per_leaf = domain.groups[-1]
    places = int(per_leaf.sum())
    _check_small(places, "groups")
    leaves = np.repeat(np.arange(len(per_leaf), dtype=np.int64), per_leaf)

    def tabulate(members: IntArray) -> SizeLevels:
        sizes = np.clip(members, domain.smallest, domain.largest)
        ones = np.ones(places, dtype=np.int64)
        return SizeLevels(domain.hierarchy, leaves, sizes, ones, domain.groups, domain.smallest, domain.largest)

    def parse(given: Any, argument: str) -> IntArray:
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise TypeError(f"{argument}: {given!r} must be a list with the list of group sizes of every leaf")
        if len(given) != len(per_leaf):
            raise ValueError(f"{argument}: it lists {len(given)} leaves, but the hierarchy has {len(per_leaf)}")
        lists = [_whole_numbers(sizes, f"{argument}[{leaf}]") for leaf, sizes in enumerate(given)]
        for leaf, (sizes, groups) in enumerate(zip(lists, per_leaf, strict=True)):
            if len(sizes) != groups:
                raise ValueError(
                    f"{argument}: leaf {leaf} has {len(sizes)} sizes, but {groups} groups, whose number is public"
                )
        return np.concatenate(lists)

    return Inputs(places, tabulate, parse)


def check_neighbors(before: IntArray, after: IntArray, relation: Neighboring, m: int, *, total_is_public: bool) -> None:
    """Refuse two data sets that one neighbouring change does not turn into each other.

    Raises:
        ValueError: they are equal, or further apart than one person with at most m records.
    """
    change = after - before
    gained, lost = int(change[change > 0].sum()), int(-change[change < 0].sum())
    if gained == lost == 0:
        raise ValueError("neighbor: it equals data, so there is nothing to tell apart; move, add or remove a record")
    shift = f"neighbor: it has {gained} records more and {lost} fewer than data"
    if max(gained, lost) > m:
        raise ValueError(f"{shift}, but one person has at most max_contributions={m}")
    if relation == "add_remove" and gained and lost:
        raise ValueError(f'{shift}; under "add_remove" one person is added or removed, not both')
    if total_is_public and gained != lost:
        raise ValueError(f"{shift}, but under change_one with one record each the total is public: move a record")


def neighbors(records: IntArray, relation: Neighboring, m: int, *, total_is_public: bool) -> Iterator[IntArray]:
    """Every neighbour of a data set: at most m records leave and, under change_one, at most m others come."""
    ways = _contributions(len(records), m)
    coming = ways if relation == "change_one" else ways[:1]
    for going in ways:
        if (records < going).any():
            continue
        for come in coming:
            if (come != going).any() and (not total_is_public or come.sum() == going.sum()):
                yield records - going + come


def _contributions(places: int, m: int) -> list[IntArray]:
    """Every way in which at most m records fall on the places, nothing first."""
    chosen = (
        places_of
        for count in range(m + 1)
        for places_of in itertools.combinations_with_replacement(range(places), count)
    )
    return [np.bincount(np.array(each, dtype=np.int64), minlength=places).astype(np.int64) for each in chosen]


def _whole_numbers(given: Any, argument: str) -> IntArray:
    array = np.asarray(given)
    if array.size == 0 and array.ndim == 1:
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"{argument}: an array of {array.dtype} with shape {array.shape} must be a list of integers")
    if array.min() < 0:
        raise ValueError(f"{argument}: {int(array.min())} must be at least 0; records are counted")
    return array.astype(np.int64)


def _check_small(places: int, what: str) -> None:
    if not 0 < places <= MOST_PLACES:
        raise ValueError(f"tree: {places:,} {what} are not between 1 and {MOST_PLACES:,}; audit on a small input")
