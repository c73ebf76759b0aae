"""How mechanisms for counts go over the tree, so that a release need not fit in memory; see `tallytree.trees.bands`.

A mechanism works in one of two ways, in memory and in bands alike. One that goes down (`GoesDown`) makes each level
from the level above, so the work below a node depends on the node's released count and on what is measured below it.
One that adds up (`AddsUp`) makes the leaves, some after others, and the levels above are their sums.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tallytree.counts.mechanism import CountsMechanism
from tallytree.counts.released_counts import ReleasedCounts, published_levels, sum_over_tree
from tallytree.hierarchy import Tree
from tallytree.kinds.measurements import Measures


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
