"""Bands: the parts that a tree is cut into where a release does not fit in memory.

A tree is cut at one level. A *band* is some consecutive nodes of that level, with everything below them. "Consecutive"
is about the descent order: root first, then family after family, level by level, as `Tree.children` lists them. So the
descendants of a band are consecutive in the descent order of every lower level too, and what is made band by band, put
one after the other, is what is made of the whole level at once. In a `Hierarchy` the descent order is that of the node
numbers; in a `Product` it is not.

The work on a band depends on the band alone: on its true statistics, on what was released of its nodes at the cut
level, and on the noise, which is a function of the key and the cell. So no released number depends on the cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tallytree.hierarchy import Hierarchy, Tree
from tallytree.support.arrays import IntArray, chunks

MAX_CUT_NODES = 2**20
"""Nodes of the level at which a tree is cut, at most; it is held in memory with all levels above it."""

Bytes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ForcedCut:
    """A cut that a test wants, in place of one that is chosen by memory.

    Attributes:
        depth: the level, at most the one above the leaves.
        bands: how many bands, of about equally many nodes; at most as many as the level has nodes.
        rows: how many rows of files are in memory at once; None: as many as the memory given allows.
    """

    depth: int
    bands: int
    rows: int | None = None


@dataclass(frozen=True, eq=False)
class Band:
    """Consecutive nodes of the cut level, in descent order, with everything below them.

    Attributes:
        tree: the public tree.
        depth: the cut level.
        nodes: int64 (n,), the band's nodes there, in descent order.
    """

    tree: Tree
    depth: int
    nodes: IntArray

    def nodes_at(self, depth: int) -> IntArray:
        """The band's nodes at its own level or a lower one, in descent order; of a sparse product they may be many."""
        nodes = self.nodes
        for above in range(self.depth, depth):
            nodes = self.tree.children(above, nodes)[0]
        return nodes

    def span(self, depth: int) -> tuple[int, int]:
        """Of a `Hierarchy`: its nodes at its own level or a lower one are span[0] … span[1] − 1.

        Raises:
            TypeError: of another tree, where they need not be consecutive numbers.
        """
        tree = self.hierarchy
        start, stop = int(self.nodes[0]), int(self.nodes[-1]) + 1
        for above in range(self.depth, depth):
            first_child = tree.first_child[above]
            start, stop = int(first_child[start]), int(first_child[stop])
        return start, stop

    def first_child(self, depth: int) -> IntArray:
        """Of a `Hierarchy`: where the families of its nodes at `depth` begin among its nodes at `depth` + 1.

        Returns:
            int64 (n + 1,) for the n nodes of `span(depth)`; the first is 0.
        """
        start, stop = self.span(depth)
        first_child = self.hierarchy.first_child[depth][start : stop + 1]
        return np.asarray(first_child - first_child[0], dtype=np.int64)

    @property
    def hierarchy(self) -> Hierarchy:
        """The tree, where the nodes of a band are consecutive numbers at every level.

        Raises:
            TypeError: it is another tree, where they need not be.
        """
        if not isinstance(self.tree, Hierarchy):
            raise TypeError("band: its nodes are consecutive numbers in a Hierarchy only")
        return self.tree


@dataclass(frozen=True, eq=False)
class Cut:
    """Where a tree is cut.

    Attributes:
        tree: the public tree.
        depth: the level.
        nodes: int64 (n,), all nodes of the level in descent order.
        parts: the bands, as slices of `nodes`.
    """

    tree: Tree
    depth: int
    nodes: IntArray
    parts: Sequence[slice]

    @property
    def bands(self) -> list[Band]:
        """The bands, in descent order."""
        return [self.band(number) for number in range(len(self.parts))]

    def band(self, number: int) -> Band:
        """One of the bands."""
        return Band(self.tree, self.depth, self.nodes[self.parts[number]])

    def band_of(self, nodes: IntArray) -> IntArray:
        """Which band each of some nodes of the cut level is in: int64 (n,)."""
        number = np.empty(self.tree.size(self.depth), dtype=np.int64)  # impossible nodes are in no band
        for i, part in enumerate(self.parts):
            number[self.nodes[part]] = i
        return number[nodes]


def descent_order(tree: Tree, depth: int) -> IntArray:
    """All nodes of a level in descent order: int64."""
    nodes = np.zeros(1, dtype=np.int64)
    for above in range(depth):
        nodes = tree.children(above, nodes)[0]
    return nodes


def all_leaves_below(tree: Hierarchy, depth: int) -> IntArray:
    """How many leaves, with records or without, each node of a level has below it: int64 (n,)."""
    first = np.arange(tree.size(depth) + 1, dtype=np.int64)
    for level in range(depth, len(tree.levels) - 1):
        first = tree.first_child[level][first]
    return np.diff(first)


def chosen_cut(
    tree: Tree, weights: Callable[[int, IntArray], Bytes], limit: int, forced: ForcedCut | None = None
) -> Cut:
    """The highest level at which every subtree fits, cut into bands as large as fit.

    Args:
        tree: the public tree.
        weights: from a level and its nodes, in descent order, to the bytes that the work on the subtree of each takes,
            int64 (n,). They may depend on true statistics: which cut is chosen is seen nowhere.
        limit: bytes that a band may take. Where no level will do, the level whose largest subtree is smallest is taken,
            and the work takes more; this is not told, since it may depend on true statistics.
        forced: a cut that is taken whatever it weighs; for tests.
    """
    if forced is not None:
        nodes = descent_order(tree, forced.depth)
        ends = np.linspace(0, len(nodes), min(forced.bands, len(nodes)) + 1).astype(int)
        return Cut(tree, forced.depth, nodes, [slice(int(a), int(b)) for a, b in pairwise(ends)])
    least, cut = 2**63, Cut(tree, 0, np.zeros(1, dtype=np.int64), [slice(0, 1)])
    for depth in range(max(len(tree.levels) - 1, 1)):
        if tree.size(depth) > MAX_CUT_NODES or least <= limit:
            break
        nodes = descent_order(tree, depth)
        found = weights(depth, nodes)
        if int(found.max()) < least:
            least, cut = int(found.max()), Cut(tree, depth, nodes, list(chunks(found, limit)))
    return cut
