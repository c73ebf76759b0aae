"""What a mechanism for counts is."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tallytree.compute.arrays import IntArray
from tallytree.counts.released_counts import ReleasedCounts
from tallytree.hierarchy import Tree
from tallytree.measurements import Measurement, Measures, Statistic
from tallytree.mechanism import Mechanism


class CountsMechanism(Mechanism):
    """Turns noisy measurements into consistent counts; the base of the classes of `tallytree.counts`.

    Where every person counts at most once in a leaf, what it asks for as `"counts"` of the leaves is measured as
    `"distinct_counts"`: see `in_place_of_counts`.

    Attributes:
        corrects_upward: whether what is measured of a node's descendants corrects the node. `budget_split="auto"` then
            gives the upper levels less.
        keeps_total: whether a total that is public is kept, and so published exactly.
    """

    corrects_upward: ClassVar[bool] = False
    keeps_total: ClassVar[bool] = True

    @abstractmethod
    def statistics(self, tree: Tree, *, total_is_public: bool) -> dict[str, Statistic]:
        """The levels to be measured, root first, and what is measured there."""

    @abstractmethod
    def reconcile(self, tree: Tree, total: int | None, measurer: Measures) -> Sequence[ReleasedCounts]:
        """Counts per level, root first; `total` where it is public, else None."""


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
