"""What a mechanism for counts is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from tallytree.arrays import IntArray
from tallytree.hierarchy import Tree
from tallytree.measurements import Measurement, Measures, Statistic


@dataclass(frozen=True, eq=False)
class LevelCounts:
    """Released counts of one level.

    Attributes:
        nodes: int64 (n,), node numbers in the tree's order; the level's other nodes are 0.
        counts: int64 (n,).
    """

    nodes: IntArray
    counts: IntArray


@runtime_checkable
class CountsMechanism(Protocol):
    """Turns noisy measurements into consistent counts; implemented by `TopDown`.

    It gets a door to the noisy measurements and public facts, nothing else. Where every person counts at most once in
    a leaf, what it asks for as `"counts"` of the leaves is measured as `"distinct_counts"`: see `in_place_of_counts`.
    """

    def statistics(self, tree: Tree, *, total_is_public: bool) -> dict[str, Statistic]:
        """The levels to be measured, root first, and what is measured there."""

    def release_counts(self, tree: Tree, total: int | None, measurer: Measures) -> Sequence[LevelCounts]:
        """Counts per level, root first; `total` where it is public, else None."""


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


def whole_level(tree: Tree, depth: int, released: LevelCounts) -> LevelCounts:
    """Every node of an enumerated level in order, zeros included."""
    counts = np.zeros(tree.size(depth), dtype=np.int64)
    counts[released.nodes] = released.counts
    return LevelCounts(np.arange(tree.size(depth), dtype=np.int64), counts)
