"""`CountsMechanism`: the base of the mechanisms for counts, what several share, and how they go over the tree.

A mechanism of the library works in one of two ways, in memory and in bands alike (`tallytree.trees.bands`). One that
goes down (`GoesDown`) makes each level from the level above, so the work below a node depends on the node's released
count and on what is measured below it. One that adds up (`AddsUp`) makes the leaves, some after others, and the levels
above are their sums.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from tallytree.counts.expected_variances import ExpectedVariances
from tallytree.counts.released_counts import ReleasedCounts, published_levels, sum_over_tree
from tallytree.hierarchy import Tree
from tallytree.kinds.measurements import Measurement, Measures, Noise, Statistic
from tallytree.kinds.mechanism import Mechanism
from tallytree.support.arrays import IntArray
from tallytree.support.validate import safe_text


class CountsMechanism(Mechanism):
    """Computes released counts from noisy measurements; the base of the mechanisms of `tallytree.counts`.

    Where every person counts at most once in a leaf, the leaf level's `"counts"` are measured as `"distinct_counts"`:
    see `in_place_of_counts`.

    Attributes:
        corrects_upward: whether the measurements of a node's descendants correct the node's count.
            `budget_split="auto"` then gives the upper levels less.
        keeps_total: whether a public total is the released count of the root.
    """

    package: ClassVar[str] = "tallytree.counts"
    corrects_upward: ClassVar[bool] = False
    keeps_total: ClassVar[bool] = True

    @abstractmethod
    def statistics(self, tree: Tree, *, total_is_public: bool) -> dict[str, Statistic]:
        """The levels to be measured, root first, and the statistic that is measured at each."""

    def expected_variances(self, tree: Tree, noise: Mapping[str, Noise]) -> Sequence[ExpectedVariances | None] | None:
        """The variance of every node's error, level by level, root first, for counts that are not near 0.

        Args:
            tree: the public tree.
            noise: of every measured level.

        Returns:
            None where there is no closed form; None in place of a level that has none.
        """
        return None

    @property
    def rounding(self) -> float:
        """The variance that rounding to integers that add up has beside `expected_variances`, about."""
        return 0.0

    def takes_prior(self, tree: Tree) -> bool:
        """Whether `reconcile_and_tell` has an argument `prior`, a `PriorOfCounts`, for this tree."""
        return False

    @abstractmethod
    def reconcile(self, tree: Tree, total: int | None, measurer: Measures) -> Sequence[ReleasedCounts]:
        """Measure, and compute the counts of every level, root first; `total` is None where it is private."""

    def reconcile_and_tell(
        self, tree: Tree, total: int | None, measurer: Measures
    ) -> tuple[Sequence[ReleasedCounts], Mapping[str, Any]]:
        """`reconcile`, and what the statement says of how the counts were made, by its keys.

        These facts are functions of the noisy measurements and of public facts, as the counts are. They are known after
        the noise is drawn, so no noise depends on them.
        """
        return self.reconcile(tree, total, measurer), {}


def statistics_of_counts(tree: Tree, *, total_is_public: bool) -> dict[str, Statistic]:
    """The levels to be measured: not a root that is public, and no level that repeats the level above it."""
    root: dict[str, Statistic] = {} if total_is_public else {tree.levels[0]: "total"}
    depths = range(1, len(tree.levels))
    return root | {tree.levels[depth]: "counts" for depth in depths if not tree.only_children(depth)}


DISTINCT: Mapping[Statistic, Statistic] = {"counts": "distinct_counts"}
"""What is measured of the leaf level in place of what a mechanism asks for, where a person counts once in a leaf: its
sensitivity is smaller. Above the leaf level it would not be: several leaves of one person may lie in one node."""


def in_place_of_counts(asked: Mapping[str, Statistic], tree: Tree, *, distinct: bool) -> dict[str, Statistic]:
    """What is measured at each level where a mechanism asks for `asked`; with `distinct` see `DISTINCT`."""
    leaf_level = tree.levels[-1] if distinct else None
    return {level: DISTINCT.get(each, each) if level == leaf_level else each for level, each in asked.items()}


@dataclass(frozen=True, eq=False)
class MeasuresInPlace:
    """Implements `Measures` for a mechanism that asks for counts, where a person counts once in a leaf: see `DISTINCT`.

    It need not know the difference: both are counts of nodes with noise of a stated scale.

    Attributes:
        measurer: measures what is asked for.
        leaf_level: the level whose counts are of distinct people.
    """

    measurer: Measures
    leaf_level: str

    def measure(
        self, level: str, nodes: IntArray, statistic: Statistic, cells: tuple[int, int] | None = None
    ) -> Measurement:
        """See `tallytree.kinds.measurements.Measures`."""
        measured = DISTINCT.get(statistic, statistic) if level == self.leaf_level else statistic
        return self.measurer.measure(level, nodes, measured, cells)

    def measure_stable(self, level: str) -> Measurement:
        """See `tallytree.kinds.measurements.Measures`."""
        return self.measurer.measure_stable(level)


def checked_sparsity(given: Any, *, or_auto: bool = False) -> float:
    """The option `sparsity` as a float: a threshold in standard deviations of the noise.

    Args:
        given: what was given.
        or_auto: whether messages name `"auto"` as another choice.

    Raises:
        ValueError: it is negative, infinite or NaN.
        TypeError: it is not a number (a bool is not a number).
    """
    if isinstance(given, bool) or not isinstance(given, int | float):
        other = ', or "auto"' if or_auto else ""
        raise TypeError(
            f"sparsity: {safe_text(given)} must be a number of standard deviations, for instance 3.0{other}"
        )
    if not (math.isfinite(given) and given >= 0):
        raise ValueError(f"sparsity: {given!r} must be at least 0 and finite, for instance 3.0; 0 keeps everything")
    return float(given)


@dataclass(frozen=True, eq=False)
class Begun:
    """The first levels of a release, root first.

    Attributes:
        levels: the nodes that are not 0, in descent order; all nodes where `dense`.
        measured_below: whether the level below them was measured already.
        dense: whether they are as they are published.
        facts: what the statement says of how they were made, see `CountsMechanism.reconcile_and_tell`.
    """

    levels: list[ReleasedCounts]
    measured_below: bool = False
    dense: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)


class GoesDown(CountsMechanism):
    """A mechanism that makes each level from the level above, family by family."""

    @abstractmethod
    def begin(self, tree: Tree, total: int | None, measurer: Measures, *, whole: bool) -> Begun:
        """The root, or some of the first levels, of the whole tree.

        Args:
            tree: the public tree.
            total: of all records; None where it is private.
            measurer: measures any node.
            whole: whether the whole tree is in memory, so that the mechanism may begin with all levels.
        """

    @abstractmethod
    def descend(self, tree: Tree, depth: int, above: ReleasedCounts, measurer: Measures) -> ReleasedCounts:
        """The nodes that are not 0 of the level `depth` whose parents are in `above`, in descent order."""

    def bytes_at_once(self, tree: Tree) -> int:
        """What `begin` takes in memory, at most; from public facts. By default next to nothing."""
        return 0

    def why_whole(self) -> str:
        """Why `begin` takes that, and what to do about it, for a message."""
        return ""

    def reconcile(self, tree: Tree, total: int | None, measurer: Measures) -> Sequence[ReleasedCounts]:
        """See `CountsMechanism.reconcile`."""
        begun = self.begin(tree, total, measurer, whole=True)
        levels = [*begun.levels]
        while len(levels) < len(tree.levels):
            levels.append(self.descend(tree, len(levels), levels[-1], measurer))
        return levels if begun.dense else published_levels(tree, levels)


class AddsUp(CountsMechanism):
    """A mechanism that makes the leaves, and releases their sums at the levels above."""

    @abstractmethod
    def leaves(self, tree: Tree, first: int, stop: int, measurer: Measures) -> Iterator[ReleasedCounts]:
        """The leaves first … stop − 1 that are not 0, ascending, in pieces; the measurer measures these leaves."""

    def reconcile(self, tree: Tree, total: int | None, measurer: Measures) -> Sequence[ReleasedCounts]:
        """See `CountsMechanism.reconcile`; `total` is not used."""
        pieces = [*self.leaves(tree, 0, tree.size(len(tree.levels) - 1), measurer)]
        nodes, counts = (
            np.concatenate(parts) for parts in zip(*((each.nodes, each.counts) for each in pieces), strict=True)
        )
        return published_levels(tree, sum_over_tree(tree, ReleasedCounts(nodes, counts)))
