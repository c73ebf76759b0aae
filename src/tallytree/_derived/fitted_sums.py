"""The variance of the sums of areas in the fit of `counts.LeastSquares`, from what a release published.

The mechanism keeps the nodes with a positive count, and measures the children of those. So the published counts show
which nodes were kept and which were measured, and the statement has the variances: no measurement is read. A node that
was pruned enters the fit as a measured node without descendants, as in the `std_dev` of the tables. An area that has a
part of the leaves below a pruned node is taken to have all of them, since nothing tells the parts apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tallytree._compute.arrays import FloatArray, IntArray, chunks, sum_by_key
from tallytree._derived.areas import Areas
from tallytree._derived.published_values import PublishedLevel
from tallytree._measurements import Noise, Statistic
from tallytree._solvers.trees.sums import InSums, sum_variances
from tallytree.counts.least_squares import MIN_VARIANCE
from tallytree.hierarchy import Tree

CELLS_AT_ONCE = 4_000_000
"""Measured children are listed in chunks of about this many, which bounds the memory."""

_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class _Level:
    """The nodes of one measured level that were kept, family after family.

    Attributes:
        depth: the level.
        nodes: int64 (n,).
        ascending: int64 (n,), the places of the nodes in the order of their numbers.
        first_child: of the measured level above, see `_solvers.trees.sums`.
        parents_at: int64 (n above,), the measured level's kept nodes above, as nodes of the level `depth` − 1.
        others: int64 (n above,), how many children of each were measured and not kept.
    """

    depth: int
    nodes: IntArray
    ascending: IntArray
    first_child: IntArray
    parents_at: IntArray
    others: IntArray

    def place(self, nodes: IntArray) -> IntArray:
        """Where each node is among those that were kept; −1 for one that was not: int64 (n,)."""
        if not len(self.nodes):
            return np.full(len(nodes), -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.nodes, nodes, sorter=self.ascending), len(self.nodes) - 1)
        found = self.ascending[at]
        return np.where(self.nodes[found] == nodes, found, -1)


def fitted_variances(
    areas: Areas, noise: Mapping[str, tuple[Statistic, Noise]], published: Sequence[PublishedLevel]
) -> FloatArray:
    """The variance of the error of every area's count, float64 (areas,).

    Args:
        areas: the areas.
        noise: statistic and noise of every measured level; without the root where the total is public.
        published: the counts of every level, root first.
    """
    tree = areas.tree
    depths = [depth for depth in range(len(tree.levels)) if depth == 0 or not tree.only_children(depth)]
    laws = [noise.get(tree.levels[depth]) for depth in depths]
    own = [0.0 if law is None else max(law[1].variance, MIN_VARIANCE) for law in laws]
    levels = [_root(published[0])]
    if not len(levels[0].nodes):  # nothing but the root was measured
        return np.full(len(areas), own[0])
    for depth in depths[1:]:
        levels.append(_kept(tree, depth, levels[-1], published[depth]))
    inside = [_inside(areas, levels, place) for place in range(len(levels))]
    return sum_variances([e.first_child for e in levels[1:]], own, [e.others for e in levels[1:]], inside, len(areas))


def _root(published: PublishedLevel) -> _Level:
    nodes = published.nodes[published.numbers > 0]
    return _Level(0, nodes, np.arange(len(nodes)), _NONE, _NONE, _NONE)


def _kept(tree: Tree, depth: int, above: _Level, published: PublishedLevel) -> _Level:
    """The kept nodes of a measured level, and how many of their siblings were not kept."""
    nodes = published.nodes[published.numbers > 0]
    parents = nodes
    for level in range(depth, above.depth, -1):
        parents = tree.parents(level, parents)
    places = above.place(parents)
    order = np.lexsort((nodes, places))
    first_child = np.searchsorted(places[order], np.arange(len(above.nodes) + 1)).astype(np.int64)
    parents_at = above.nodes
    for level in range(above.depth, depth - 1):  # in between every node has one child
        parents_at = tree.children(level, parents_at)[0]
    others = tree.child_counts(depth - 1, parents_at) - np.diff(first_child)
    return _Level(depth, nodes[order], np.argsort(nodes[order]), first_child, parents_at, others)


def _inside(areas: Areas, levels: Sequence[_Level], place: int) -> InSums:
    """What of a level lies in which area: kept nodes that end there, and nodes that were not kept."""
    level = levels[place]
    below = levels[place + 1].depth if place + 1 < len(levels) else len(areas.tree.levels)
    ending = [block for block in areas.blocks if level.depth <= block.depth < below]
    whole = [(_NONE, _NONE), *(areas.members(block, level.depth, level.nodes) for block in ending)]
    nodes, sums = (np.concatenate(each) for each in zip(*whole, strict=True))
    return InSums(sums, nodes, *(_others(areas, level) if place else (_NONE, _NONE, _NONE)))


def _others(areas: Areas, level: _Level) -> tuple[IntArray, IntArray, IntArray]:
    """Areas, parents, and how many measured children of each parent were not kept and have leaves in the area."""
    tree, depth = areas.tree, level.depth
    blocks = [block for block in areas.blocks if block.depth >= depth]
    reached = np.zeros(len(level.parents_at), dtype=np.bool_)
    for block in blocks:
        reached[areas.members(block, depth - 1, level.parents_at)[0]] = True
    parents = np.flatnonzero(reached & (level.others > 0))
    keys, numbers = [_NONE], [_NONE]
    for chunk in chunks(tree.child_counts(depth - 1, level.parents_at[parents]), CELLS_AT_ONCE):
        nodes, offsets = tree.children(depth - 1, level.parents_at[parents[chunk]])
        of_child = np.repeat(parents[chunk], np.diff(offsets))
        pruned = level.place(nodes) < 0
        nodes, of_child = nodes[pruned], of_child[pruned]
        pairs = [areas.members(block, depth, nodes) for block in blocks]
        # A node that two rows of an area share is in it once.
        once = np.unique(np.concatenate([sums * len(nodes) + child for child, sums in pairs] or [_NONE]))
        sums, child = np.divmod(once, max(len(nodes), 1))
        found = sums * len(level.parents_at) + of_child[child]
        found, times = np.unique(found, return_counts=True)
        keys.append(found)
        numbers.append(times.astype(np.int64))
    key, number = sum_by_key(np.concatenate(keys), np.concatenate(numbers))
    sums, parent = np.divmod(key, max(len(level.parents_at), 1))
    return sums, parent, number
