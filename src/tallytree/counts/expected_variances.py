"""The variance of every node's error before any budget is spent, from the public tree and the noise alone.

It is that of the estimate without the constraint x ≥ 0, over the whole tree: nothing is pruned. It holds for counts
that are large compared to their noise, as are those of their siblings. Near 0 errors are smaller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tallytree.hierarchy import Tree
from tallytree.kinds.measurements import Noise
from tallytree.solvers.trees.linear import combined_variances, downward_variances, mean_family_variances
from tallytree.support.arrays import FloatArray, IntArray

MAX_NODES = 2**23
"""Of a tree whose nodes are all computed, with some 100 bytes each; beyond, families have their level's mean size."""

LEAST_VARIANCE = 1e-12
"""Of noise so narrow that floats have no variance of it: it is measured all the same, and not public."""


@dataclass(frozen=True, eq=False)
class ExpectedVariances:
    """The variances of one level's errors.

    Attributes:
        nodes: float64 (n,), of every node; of one node that stands for all where families have the mean size.
        single: float64 (n,), the part of each that one noise alone contributes: the level's own, or a leaf's where
            leaves are added up.
        exact: whether every node was computed.
    """

    nodes: FloatArray
    single: FloatArray
    exact: bool = True


def fitted_variances(
    tree: Tree, noise: Mapping[str, Noise], *, upward: bool, max_nodes: int = MAX_NODES
) -> list[ExpectedVariances]:
    """Of mechanisms that measure every level, and fit each family's counts to its parent's count.

    Args:
        tree: the public tree.
        noise: of the measured levels; a root that is not among them is public.
        upward: whether the measurements of a node's descendants correct the node (`LeastSquares`), or not (`TopDown`).
        max_nodes: see `MAX_NODES`.

    Returns:
        One per level, root first. A level whose nodes have no siblings repeats the one above.
    """
    measured = [depth for depth in range(len(tree.levels)) if not tree.only_children(depth)]
    names = [tree.levels[depth] for depth in measured]
    own = [max(noise[name].variance, LEAST_VARIANCE) if name in noise else 0.0 for name in names]
    exact = sum(tree.size(depth) for depth in measured) <= max_nodes
    families = whole_tree(tree) if exact else []
    if exact:
        found = combined_variances(families, own).nodes if upward else downward_variances(families, own)
    else:
        means = mean_family_variances([tree.size(depth) for depth in measured], own, upward=upward)
        found = [np.array([each]) for each in means]
    levels: list[ExpectedVariances] = []
    for depth in range(len(tree.levels)):
        if depth in measured:
            place = measured.index(depth)
            weight = _own_weight(found[place], own[place]) if upward or not place else _less_the_mean(families, place)
            levels.append(ExpectedVariances(found[place], weight**2 * own[place], exact))
        else:
            levels.append(levels[-1])
    return levels


def _own_weight(variances: FloatArray, own: float) -> FloatArray:
    """The weight of a node's own measurement in its least-squares estimate: u/w, since u is their covariance."""
    return variances / own if own > 0 else np.zeros(len(variances))


def _less_the_mean(families: list[IntArray], place: int) -> FloatArray:
    """The weight 1 − 1/b of a node's own measurement where a family of b shares out what is missing evenly."""
    if not families:
        return np.ones(1)
    children = np.diff(families[place - 1])
    return np.repeat(1 - 1 / children, children)


def summed_variances(tree: Tree, noise: Noise) -> list[ExpectedVariances]:
    """Of mechanisms that measure the leaves alone and add them up: the noise of a node's leaves.

    Every node of a level is computed where the tree is small enough; else all have the mean number of leaves.
    """
    depth = len(tree.levels) - 1
    exact = tree.size(depth) <= MAX_NODES
    leaves = [np.ones(tree.size(depth) if exact else 1)]
    if exact:
        for offsets in reversed(whole_tree(tree, every_level=True)):
            leaves.append(np.add.reduceat(leaves[-1], offsets[:-1]))
    else:
        leaves += [np.array([tree.size(depth) / tree.size(above)]) for above in range(depth - 1, -1, -1)]
    one = noise.variance
    return [ExpectedVariances(each * one, np.full(len(each), one), exact) for each in reversed(leaves)]


def whole_tree(tree: Tree, *, every_level: bool = False) -> list[IntArray]:
    """Where the families of every level begin, family after family: int64 (n + 1,) per level but the last.

    Args:
        tree: the public tree.
        every_level: also of levels whose nodes have no siblings; otherwise these are left out.
    """
    nodes, found = np.zeros(1, dtype=np.int64), []
    for depth in range(len(tree.levels) - 1):
        nodes, offsets = tree.children(depth, nodes)
        if every_level or not tree.only_children(depth + 1):
            found.append(offsets)
    return found
