"""Released group sizes by the papers' own solvers, for comparison on small inputs.

All levels have the same weight, and at most the total number of groups is public. Only a mechanism whose option
`solver` chooses one of them imports this module.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tallytree.sizes.mechanism import ReleasedSizes, SizesDomain
from tallytree.sizes.nearest_consistent import leaves_of_forest, region_parents, released, released_level, size_forest
from tallytree.sizes.noisy import NoisyLevel, tails_of_every_size
from tallytree.solvers.papers import cost_table
from tallytree.solvers.papers.tree_programs import (
    tails_mip,
    tails_relaxed,
    tree_constraint_program,
    tree_mip,
    tree_relaxed,
)
from tallytree.support.arrays import IntArray


def release_histograms(
    domain: SizesDomain, noisy: Sequence[NoisyLevel], solver: str, delta: int | None, time_limit: float
) -> Sequence[ReleasedSizes]:
    """Model 1 of Fioretto et al. 2021, on noisy histograms, by one of the paper's solvers."""
    if solver in ("cost_table", "constraint_program"):
        half = delta if delta is not None else _published_delta(noisy)
        return released(domain, _by_dynamic_program(domain.total, noisy, solver, half, time_limit))
    parent, values = size_forest(noisy)
    weights = np.append(np.ones(len(parent) - 1), 0.0)
    if solver == "mip":
        found = tree_mip(parent, values, weights, total=domain.total, time_limit=time_limit)
        return released(domain, leaves_of_forest(noisy, found))
    real = tree_relaxed(parent, values, weights, total=domain.total, time_limit=time_limit)
    return _rounded_levels(domain, noisy, real[:-1].reshape(domain.width, -1).T)


def _by_dynamic_program(
    total: int | None, noisy: Sequence[NoisyLevel], solver: str, delta: int, time_limit: float
) -> IntArray:
    """The histograms of the leaves by the paper's dynamic program: by cost tables, or by constraint programs."""

    def solve(parent: IntArray, values: IntArray) -> IntArray:
        if solver == "cost_table":
            return cost_table.project(parent, values, delta=delta, total=total).x
        return tree_constraint_program(parent, values, delta=delta, total=total, time_limit=time_limit)

    parent, values = size_forest(noisy)
    if total is not None:
        return leaves_of_forest(noisy, solve(parent, values))
    # Without a public total the sizes are independent: the root above them was not measured. Each is a tree by itself.
    regions = region_parents([level.first_leaf for level in noisy])
    trees = [solve(regions, of_one_size) for of_one_size in values[:-1].reshape(-1, len(regions))]
    return leaves_of_forest(noisy, np.append(np.concatenate(trees), 0))


def release_tails(
    domain: SizesDomain, noisy: Sequence[NoisyLevel], solver: str, time_limit: float
) -> Sequence[ReleasedSizes]:
    """Model 2 of Fioretto et al. 2021, stated in tail counts, by one of the paper's solvers."""
    values = np.concatenate([tails_of_every_size(domain, level) for level in noisy])
    parent = region_parents([level.first_leaf for level in noisy])
    solve = tails_relaxed if solver == "relaxed" else tails_mip
    tails = np.asarray(solve(parent, values, total=domain.total, time_limit=time_limit))
    rounded = np.rint(tails).astype(np.int64)
    histograms = rounded - np.pad(rounded[:, 1:], ((0, 0), (0, 1)))
    return _rounded_levels(domain, noisy, histograms)


def _published_delta(noisy: Sequence[NoisyLevel]) -> int:
    """3·⌈2λ²⌉ (section 11.2, footnote 2), with the variance of the discrete noise for 2λ², which is nearly equal."""
    return 3 * max(1, math.ceil(max(level.noise.variance for level in noisy)))


def _rounded_levels(
    domain: SizesDomain, noisy: Sequence[NoisyLevel], values: npt.NDArray[np.float64] | IntArray
) -> Sequence[ReleasedSizes]:
    """Every level by itself: the rounded values of each node, so that children need not add up to their parents."""
    rounded = np.maximum(np.rint(values).astype(np.int64), 0)
    tables = dict(zip([level.depth for level in noisy], np.split(rounded, _ends(noisy)), strict=True))
    levels: list[ReleasedSizes] = []
    for depth in range(len(domain.hierarchy.levels)):
        table = tables.get(depth)
        if table is None:  # every node is its parent's only child
            levels.append(levels[-1])
            continue
        levels.append(released_level(domain, table))
    return levels


def _ends(noisy: Sequence[NoisyLevel]) -> list[int]:
    return [int(end) for end in np.cumsum([len(level.values) for level in noisy])[:-1]]
