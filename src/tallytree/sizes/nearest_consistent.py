"""Consistent group sizes that keep the public numbers of groups, from noisy histograms of all levels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tallytree.sizes.mechanism import ReleasedSizes, SizesDomain, sum_over_tree
from tallytree.sizes.noisy import NoisyLevel, inverse_weights, leaf_offsets, level_weights
from tallytree.solvers.sizes import margins
from tallytree.solvers.trees import project as tree
from tallytree.support.arrays import IntArray, NumberArray

MAX_WEIGHT_OF_SUMS = 100
"""At this weight the sums of a level are practically kept; a larger one makes the fit slower only."""


def nearest_consistent(domain: SizesDomain, noisy: Sequence[NoisyLevel]) -> Sequence[ReleasedSizes]:
    """The consistent non-negative integers nearest to the histograms of all levels, in L2, weighted by 1/variance.

    Where at most the total number of groups is public, this is the exact integer optimum of Model 1. Where that of
    every leaf is public, it is the exact real optimum, rounded, and no count changes by 1 or more.
    """
    groups = domain.groups[-1]
    if groups is not None:
        tables, first_leaf = [level.values for level in noisy], [level.first_leaf for level in noisy]
        leaves = margins.project(tables, first_leaf, groups, weights=level_weights(noisy))
        return released(domain, leaves)
    parent, values = size_forest(noisy)
    solution = tree.project(parent, values, forest_weights(noisy), total=domain.total)
    return released(domain, leaves_of_forest(noisy, solution))


def keep_public_groups(domain: SizesDomain, noisy: Sequence[NoisyLevel], leaves: IntArray) -> Sequence[ReleasedSizes]:
    """Group sizes from histograms of the leaves (leaves, sizes), fitted to public numbers of groups of the leaves."""
    groups = domain.groups[-1]
    if groups is not None:
        # The fit includes the sums of every level, weighted by 1/variance of its noise. Without them, the noise of the
        # leaves would add up in the levels above.
        first_leaf = [level.first_leaf for level in noisy]
        sums = [np.add.reduceat(leaves, begins[:-1], axis=0) for begins in first_leaf]
        weights = [min(weight, MAX_WEIGHT_OF_SUMS) for weight in level_weights(noisy)]
        leaves = margins.project(sums, first_leaf, groups, weights=weights)
    return released(domain, leaves)


def released(domain: SizesDomain, leaves: IntArray) -> Sequence[ReleasedSizes]:
    """Group sizes of all levels from the histograms of the leaves, int64 (leaves, sizes)."""
    return sum_over_tree(domain.hierarchy, released_level(domain, leaves), domain.largest)


def released_level(domain: SizesDomain, table: NumberArray) -> ReleasedSizes:
    """Group sizes of one level from its histograms (nodes, sizes)."""
    nodes, sizes = np.nonzero(table)
    return ReleasedSizes(nodes.astype(np.int64), sizes + domain.smallest, table[nodes, sizes])


def project_group_numbers(
    domain: SizesDomain, depths: Sequence[int], numbers: Sequence[IntArray], variances: Sequence[float]
) -> list[IntArray]:
    """Numbers of groups that add up and keep the public ones, nearest to the estimates of every measured level.

    Args:
        domain: the public facts.
        depths: the levels that were measured, root first; the root need not be among them.
        numbers: per measured level, int64, the estimate (or the public number) of each node.
        variances: per measured level, the variance of an estimate.

    Returns:
        Per measured level, int64, the number of groups of each node.
    """
    first_leaf = [leaf_offsets(domain.hierarchy, depth) for depth in depths]
    weights = [np.full(len(here), w) for here, w in zip(numbers, inverse_weights(variances), strict=True)]
    if depths[0] > 0:  # a tree needs a root; it has no weight, but the total where that is public
        first_leaf.insert(0, leaf_offsets(domain.hierarchy, 0))
        unmeasured = np.zeros(1, dtype=np.int64)
        numbers, weights = [unmeasured, *numbers], [unmeasured, *weights]
    parent = region_parents(first_leaf)
    solution = tree.project(parent, np.concatenate(numbers), np.concatenate(weights), total=domain.total)
    by_level = np.split(solution, np.cumsum([len(here) for here in numbers])[:-1])
    return by_level[-len(depths) :]


def region_parents(first_leaf: Sequence[IntArray]) -> IntArray:
    """The parent of every node of the measured levels, root level first; −1 for the root (see `NoisyLevel`)."""
    begins = np.cumsum([0, *(len(cuts) - 1 for cuts in first_leaf)])
    parent = np.full(begins[-1], -1, dtype=np.int64)
    for i in range(1, len(first_leaf)):
        above = np.searchsorted(first_leaf[i - 1], first_leaf[i][:-1], "right") - 1
        parent[begins[i] : begins[i + 1]] = begins[i - 1] + above
    return parent


def size_forest(noisy: Sequence[NoisyLevel]) -> tuple[IntArray, IntArray]:
    """The paper's tree of all sizes: a subtree per size, each with the nodes of all levels, and a root above them.

    Node (size, i-th node of all levels, root level first) has the number size · nodes + i; the root is the last.

    Returns:
        The parent of every node (−1 for the root), and the noisy value of every node (0 for the root).
    """
    above = region_parents([level.first_leaf for level in noisy])
    nodes, width = len(above), noisy[0].values.shape[1]
    parent = above + np.arange(width, dtype=np.int64)[:, None] * nodes
    parent[:, above < 0] = width * nodes
    values = np.concatenate([level.values for level in noisy]).T
    return np.append(parent.reshape(-1), -1), np.append(values.reshape(-1), 0)


def forest_weights(noisy: Sequence[NoisyLevel]) -> IntArray:
    """The weight of every node of `size_forest`; 0 for the root, which was not measured."""
    weights = np.repeat(level_weights(noisy), [len(level.values) for level in noisy])
    return np.append(np.tile(weights, noisy[0].values.shape[1]), 0)


def leaves_of_forest(noisy: Sequence[NoisyLevel], solution: IntArray) -> IntArray:
    """The histograms of the leaves, int64 (leaves, sizes), of a solution on `size_forest`."""
    leaves, width = noisy[-1].values.shape
    return np.ascontiguousarray(solution[:-1].reshape(width, -1)[:, -leaves:].T)
