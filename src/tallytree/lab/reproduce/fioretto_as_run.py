"""What the published figures of Fioretto et al. 2021 show was run, on arrays.

* **ε for each level.** The errors in Table 7 fit noise of scale 2/ε at each level, 3ε in all, and not ε in all.
* **TopDown** fits the root by itself before it fits the states: its root has the error of one histogram.
* **M_H^r** is a convex program whose optimum is found here exactly, in real numbers, and rounded. The published errors
  of its root do not depend on ε, so they are not of optima of that program.
* **M_c^dp and M_c^r** measure cumulative counts. The library measures tail counts, whose sensitivity is the same in
  every regime. The cumulative counts of groups of size s are the tail counts of groups of size N + 1 − s.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tallytree.lab._internals import Noise, simplex
from tallytree.lab._internals import project as tree
from tallytree.lab.reproduce.kuo_as_run import geometric_noise, nodes_of_rows
from tallytree.lab.reproduce.kuo_data import Groups
from tallytree.sizes.nearest_consistent import forest_weights, size_forest
from tallytree.sizes.noisy import NoisyLevel, children_offsets, leaf_offsets
from tallytree.support.arrays import IntArray


def mirrored(groups: Groups) -> Groups:
    """Groups of size N + 1 − s in place of s (1 ≤ s ≤ N), whose tail counts are the cumulative counts c_N … c_1."""
    column = groups.rows.column_names.index("size")
    sizes = groups.largest + 1 - groups.rows["size"].to_numpy()
    return dataclasses.replace(groups, rows=groups.rows.set_column(column, "size", pa.array(sizes)))


def true_histograms(groups: Groups) -> list[IntArray]:
    """The groups of size 1 … N of every node, root first: int64 (nodes, N) each."""
    size, number = groups.rows["size"].to_numpy(), groups.rows["groups"].to_numpy()
    found = []
    for depth, node in enumerate(nodes_of_rows(groups)):
        histogram = np.zeros((groups.hierarchy.size(depth), groups.largest), dtype=np.int64)
        np.add.at(histogram, (node, size - 1), number)
        found.append(histogram)
    return found


def noisy_levels(groups: Groups, true: Sequence[IntArray], noise: Noise, seed: int) -> list[NoisyLevel]:
    """The histograms with double-geometric noise in every cell."""
    found = []
    for depth, histogram in enumerate(true):
        drawn = geometric_noise(histogram.size, float(noise.scale), [seed, depth]).reshape(histogram.shape)
        found.append(NoisyLevel(depth, histogram + drawn, leaf_offsets(groups.hierarchy, depth), noise))
    return found


def top_down(noisy: Sequence[NoisyLevel], total: int) -> list[IntArray]:
    """The root's nearest histogram with the total, then each level's nearest ones, given those of the level above."""
    width = noisy[0].values.shape[1]
    root = simplex.euclidean_families(noisy[0].values[0], np.array([0, width]), np.array([total]))
    fitted = [root[None, :]]
    for above, level in pairwise(noisy):
        children = len(level.values)
        families = children_offsets(above.first_leaf, level.first_leaf)
        offsets = np.append((np.arange(width)[:, None] * children + families[:-1]).ravel(), width * children)
        found = simplex.euclidean_families(level.values.T.ravel(), offsets, fitted[-1].T.ravel())
        fitted.append(np.ascontiguousarray(found.reshape(width, children).T))
    return fitted


def relaxed(noisy: Sequence[NoisyLevel], total: int) -> list[IntArray]:
    """M_H^r: the real optimum of M_H's program, every number rounded by itself."""
    parent, values = size_forest(noisy)
    real = tree.project(parent, values, forest_weights(noisy), total=total, integer=False)
    by_node = np.rint(np.maximum(real[:-1], 0)).astype(np.int64).reshape(noisy[0].values.shape[1], -1).T
    ends = np.cumsum([len(level.values) for level in noisy])
    return [np.ascontiguousarray(part) for part in np.split(by_node, ends[:-1])]


def violations(noisy: Sequence[NoisyLevel], fitted: Sequence[IntArray]) -> int:
    """How many cells of a parent are not the sum of its children's."""
    broken = 0
    for (above, level), (parents, children) in zip(pairwise(noisy), pairwise(fitted), strict=True):
        families = children_offsets(above.first_leaf, level.first_leaf)
        broken += int((np.add.reduceat(children, families[:-1], axis=0) != parents).sum())
    return broken


def l1_errors(fitted: Sequence[IntArray], true: Sequence[IntArray]) -> list[float]:
    """Σ|fitted − true| of each level."""
    return [float(np.abs(one - other).sum()) for one, other in zip(fitted, true, strict=True)]
