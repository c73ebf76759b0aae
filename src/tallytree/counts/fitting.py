"""Fits of measured levels by least squares, and which of their nodes are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tallytree.counts.measured_level import MeasuredLevel, first_children, without
from tallytree.solvers.trees.estimates import Estimates, combined_estimates
from tallytree.solvers.trees.project import project
from tallytree.solvers.trees.simplex import chebyshev_families
from tallytree.solvers.trees.sparse_support import support
from tallytree.solvers.trees.variance import Combined, combined_variances
from tallytree.support.arrays import BoolArray, FloatArray, IntArray, offsets_of


def reprojected(levels: Sequence[MeasuredLevel]) -> list[MeasuredLevel]:
    """New counts by IntOpt, from the root down; nodes with a count of 0 are removed."""
    found = [levels[0]]
    for level in levels[1:]:
        found.append(replace(level, counts=chebyshev_families(level.noisy, level.offsets, found[-1].counts)))
    return without(found, [level.counts > 0 for level in found])


def fitted(
    levels: Sequence[MeasuredLevel],
    targets: Sequence[IntArray] | None = None,
    factors: Sequence[FloatArray] | None = None,
) -> list[MeasuredLevel]:
    """New counts by the least-squares fit of all levels; nodes with a count of 0 are removed.

    Args:
        levels: the measured levels, root first.
        targets: per level, what each node's count is fitted to, int64 (n,); by default its measurement.
        factors: per level, what the weight of each node is multiplied by, float64 (n,) > 0; by default 1.
    """
    if not len(levels[0].nodes):
        return list(levels)
    starts = offsets_of(np.array([len(level.nodes) for level in levels]))
    parent = np.concatenate([levels[0].parents - 1, *(b.parents + s for b, s in zip(levels[1:], starts, strict=False))])
    least = min((level.variance for level in levels if level.variance > 0), default=1.0)
    weights = [np.full(len(level.nodes), least / level.variance if level.variance else np.inf) for level in levels]
    if factors is not None:
        weights = [weight * factor for weight, factor in zip(weights, factors, strict=True)]
    wanted = np.concatenate([level.noisy for level in levels] if targets is None else targets)
    order = _order(levels)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    above = parent[order]
    above[above >= 0] = place[above[above >= 0]]
    x = np.empty(len(order), dtype=np.int64)
    x[order] = project(above, wanted[order], np.concatenate(weights)[order])
    found = [
        replace(level, counts=x[start : start + len(level.nodes)]) for level, start in zip(levels, starts, strict=False)
    ]
    return without(found, [level.counts > 0 for level in found])


def _order(levels: Sequence[MeasuredLevel]) -> IntArray:
    """An order of all nodes, level by level and family by family, with siblings in the order of `sibling_keys`."""
    found, start = [], 0
    for level in levels:
        found.append(start + np.lexsort((sibling_keys(level.depth, level.nodes), level.parents)))
        start += len(level.nodes)
    return np.concatenate(found)


def sibling_keys(depth: int, nodes: IntArray) -> npt.NDArray[np.uint64]:
    """What siblings are ordered by in a fit: a mix of the bits of their numbers (SplitMix64), uint64 (n,).

    Of two siblings that may get a unit at the same cost the first one gets it. Measurements are integers, so that is
    common. In the tree's order first children would be too large and last ones too small, and a sum over areas of all
    first children would add that up. The order is a function of public numbers alone.
    """
    mixed = nodes.astype(np.uint64) + np.uint64((depth + 1) * 0x9E3779B97F4A7C15 % 2**64)
    for factor in (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(30))) * factor
    return mixed ^ (mixed >> np.uint64(31))


def supported(levels: Sequence[MeasuredLevel], penalty: float) -> list[BoolArray]:
    """Per level, which nodes are kept by `solvers.trees.sparse_support`."""
    sizes = np.array([len(level.nodes) for level in levels])
    noisy = np.concatenate([level.noisy for level in levels])
    kept = support(first_children(levels), noisy, np.repeat([level.variance for level in levels], sizes), penalty)
    return np.split(kept, np.cumsum(sizes)[:-1])


def combined(levels: Sequence[MeasuredLevel]) -> Combined:
    """The variance of every node that was kept. Pruned nodes enter as measured nodes without descendants."""
    if not len(levels[0].nodes):
        return Combined([np.full(len(level.nodes), level.variance) for level in levels], [])
    return combined_variances(
        [level.offsets for level in levels[1:]],
        [level.variance for level in levels],
        [level.families - np.diff(level.offsets) for level in levels[1:]],
    )


def estimated(levels: Sequence[MeasuredLevel]) -> Estimates:
    """The unbiased estimate of every node, from all measurements, those of nodes that were left out too."""
    return combined_estimates(
        [level.offsets for level in levels[1:]],
        [level.variance for level in levels],
        [level.noisy for level in levels],
        [level.families - np.diff(level.offsets) for level in levels[1:]],
        [level.others.sums(len(level.families)) for level in levels[1:]],
    )
