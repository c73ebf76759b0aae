"""What a mechanism for counts is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tallytree.arrays import FloatArray, IntArray, sum_by_key
from tallytree.hierarchy import Tree
from tallytree.measurements import Measurement, Measures, Statistic

NODES_AT_ONCE = 4_000_000
"""Nodes whose parents are looked up at once."""


@dataclass(frozen=True, eq=False)
class LevelCounts:
    """Released counts of one level.

    Attributes:
        nodes: int64 (n,), node numbers in the tree's order; the level's other nodes are 0.
        counts: int64 (n,).
        std_dev: float64 (n,), the standard deviation of each count's error, where the mechanism knows it.
    """

    nodes: IntArray
    counts: IntArray
    std_dev: FloatArray | None = None


@runtime_checkable
class CountsMechanism(Protocol):
    """Turns noisy measurements into consistent counts; implemented by the classes of `tallytree.counts`.

    It gets a door to the noisy measurements and public facts, nothing else. Where every person counts at most once in
    a leaf, what it asks for as `"counts"` of the leaves is measured as `"distinct_counts"`: see `in_place_of_counts`.
    """

    def statistics(self, tree: Tree, *, total_is_public: bool) -> dict[str, Statistic]:
        """The levels to be measured, root first, and what is measured there."""

    def release_counts(self, tree: Tree, total: int | None, measurer: Measures) -> Sequence[LevelCounts]:
        """Counts per level, root first; `total` where it is public, else None."""


@runtime_checkable
class CorrectsUpward(Protocol):
    """A mechanism for counts in which what is measured of a node's descendants corrects the node."""

    @property
    def corrects_upward(self) -> bool:
        """Whether it does; `budget_split="auto"` then gives the upper levels less."""


@runtime_checkable
class IgnoresTotal(Protocol):
    """A mechanism that does not keep a public total, so that its releases do not publish it exactly."""

    @property
    def ignores_total(self) -> bool:
        """Whether it is so."""


def keeps_total(mechanism: object) -> bool:
    """Whether a total that is public is published exactly."""
    return not (isinstance(mechanism, IgnoresTotal) and mechanism.ignores_total)


def leaf_statistics(tree: Tree, statistic: Statistic) -> dict[str, Statistic]:
    """The leaf level alone; where that is the root, `"counts"` is the `"total"`."""
    alone = len(tree.levels) == 1 and statistic == "counts"
    return {tree.levels[-1]: "total" if alone else statistic}


def statistics_of_counts(tree: Tree, *, total_is_public: bool) -> dict[str, Statistic]:
    """The levels that have something to measure: not a public root, and no level that repeats the one above it."""
    root: dict[str, Statistic] = {} if total_is_public else {tree.levels[0]: "total"}
    depths = range(1, len(tree.levels))
    return root | {tree.levels[depth]: "counts" for depth in depths if not tree.only_children(depth)}


def in_place_of_counts(statistics: Mapping[str, Statistic], tree: Tree, *, distinct: bool) -> dict[str, Statistic]:
    """What is measured where a mechanism asks for `statistics`: distinct people at the leaves, if so they are counted.

    Only there does their smaller sensitivity hold, and only of the leaf level itself: above it one person's distinct
    leaves may lie in one node.
    """
    leaf_level = tree.levels[-1]
    if not distinct or statistics.get(leaf_level) != "counts":
        return dict(statistics)
    return {**statistics, leaf_level: "distinct_counts"}


@dataclass(frozen=True, eq=False)
class MeasuresInPlace:
    """A door at which `"counts"` of the leaf level are answered with distinct people; implements `Measures`.

    To a mechanism both are counts of a level's nodes with noise of a stated scale, so none has to know the difference.

    Attributes:
        measurer: the door behind it.
        leaf_level: the level that counts distinct people.
    """

    measurer: Measures
    leaf_level: str

    def measure(
        self, level: str, nodes: IntArray, statistic: Statistic, cells: tuple[int, int] | None = None
    ) -> Measurement:
        """See `tallytree.measurements.Measures`."""
        distinct = level == self.leaf_level and statistic == "counts"
        return self.measurer.measure(level, nodes, "distinct_counts" if distinct else statistic, cells)

    def measure_stable(self, level: str) -> Measurement:
        """See `tallytree.measurements.Measures`."""
        return self.measurer.measure_stable(level)


def whole_level(tree: Tree, depth: int, released: LevelCounts) -> LevelCounts:
    """Every node of an enumerated level in order, zeros included."""
    counts = np.zeros(tree.size(depth), dtype=np.int64)
    counts[released.nodes] = released.counts
    return LevelCounts(np.arange(tree.size(depth), dtype=np.int64), counts)


def checked_sparsity(given: Any) -> float:
    """The threshold of sparse mechanisms, in standard deviations.

    Raises:
        ValueError: negative, infinite or NaN.
        TypeError: not a number (a bool is none).
    """
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise TypeError(f"sparsity: {given!r} must be a number of standard deviations, for instance 3.0")
    if not (math.isfinite(given) and given >= 0):
        raise ValueError(f"sparsity: {given!r} must be at least 0 and finite, for instance 3.0; 0 keeps everything")
    return float(given)


def whole_levels(tree: Tree, levels: Sequence[LevelCounts]) -> list[LevelCounts]:
    """What is published of the non-zero nodes of every level: all nodes where the tree enumerates them."""
    if not tree.enumerated:
        return list(levels)
    return [whole_level(tree, depth, released) for depth, released in enumerate(levels)]


def sum_over_tree(tree: Tree, leaves: LevelCounts) -> list[LevelCounts]:
    """The non-zero nodes of every level, root first, from those of the leaf level."""
    levels = [leaves]
    for depth in range(len(tree.levels) - 1, 0, -1):
        levels.append(_sums_of_children(tree, depth, levels[-1]))
    return levels[::-1]


def count_negative(levels: Sequence[LevelCounts]) -> int:
    """How many nodes, of all levels, have a negative count."""
    return sum(int(np.count_nonzero(level.counts < 0)) for level in levels)


def count_violations(tree: Tree, levels: Sequence[LevelCounts]) -> int:
    """How many nodes have another count than their children add up to."""
    violations = 0
    for depth in range(1, len(levels)):
        above, summed = levels[depth - 1], _sums_of_children(tree, depth, levels[depth])
        nodes = np.concatenate([above.nodes, summed.nodes])
        _, rest = sum_by_key(nodes, np.concatenate([above.counts, -summed.counts]))
        violations += int(np.count_nonzero(rest))
    return violations


def _sums_of_children(tree: Tree, depth: int, level: LevelCounts) -> LevelCounts:
    """The nodes above `depth` whose children's counts do not add up to 0, and what they add up to.

    A level that is hardly larger than what is added up is held whole, which saves sorting.
    """
    parents = tree.size(depth - 1)
    if parents > max(len(level.nodes), NODES_AT_ONCE):
        nodes, sums = sum_by_key(tree.parents(depth, level.nodes), level.counts)
        kept = sums != 0
        return LevelCounts(nodes[kept], sums[kept])
    whole = np.zeros(parents, dtype=np.int64)
    for start in range(0, len(level.nodes), NODES_AT_ONCE):
        part = slice(start, start + NODES_AT_ONCE)
        np.add.at(whole, tree.parents(depth, level.nodes[part]), level.counts[part])
    nodes = np.flatnonzero(whole)
    return LevelCounts(nodes, whole[nodes])
