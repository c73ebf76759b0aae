"""Noisy measurements of dense levels, one row per node, for the mechanisms that optimise over all levels at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tallytree.hierarchy import Hierarchy
from tallytree.kinds.measurements import Measures, Noise, Statistic
from tallytree.sizes.mechanism import SizesDomain
from tallytree.support.arrays import IntArray, chunks

CELLS_AT_ONCE = 4_000_000
"""Nodes are measured in chunks of about this many cells, which bounds the memory of a step."""

MAX_WEIGHT = 2**16
"""The largest ratio of two levels' weights. At this ratio the better measured level is practically fixed."""

_WEIGHT_STEPS = 16


@dataclass(frozen=True, eq=False)
class NoisyLevel:
    """The noisy measurements of a dense level.

    Attributes:
        depth: the level.
        values: int64 (n, cells), a row per node.
        first_leaf: int64 (n + 1,), the leaves below node i are first_leaf[i] … first_leaf[i + 1] − 1.
        noise: the distribution of the noise in every cell.
    """

    depth: int
    values: IntArray
    first_leaf: IntArray
    noise: Noise


def measure_levels(domain: SizesDomain, measurer: Measures, statistic: Statistic) -> list[NoisyLevel]:
    """Measure every node of every measured level, root first; all nodes of a level have the same number of cells."""
    return [measure_level(domain, depth, measurer, statistic) for depth in domain.measured_depths]


def measure_level(
    domain: SizesDomain, depth: int, measurer: Measures, statistic: Statistic, span: tuple[int, int] | None = None
) -> NoisyLevel:
    """Measure every node of a level, or the nodes span[0] … span[1] − 1, in chunks."""
    hierarchy = domain.hierarchy
    first, stop = (0, hierarchy.size(depth)) if span is None else span
    values: IntArray = np.empty((stop - first, 0), dtype=np.int64)
    done = 0
    for chunk in chunks(np.full(stop - first, domain.width, dtype=np.int64), CELLS_AT_ONCE):
        nodes = np.arange(first + chunk.start, first + chunk.stop, dtype=np.int64)
        measured = measurer.measure(hierarchy.levels[depth], nodes, statistic)
        part = measured.values.reshape(len(nodes), -1)
        if len(nodes) == stop - first:
            values = part
        else:  # written in place, since the parts and the whole together would take twice the memory
            if done == 0:
                values = np.empty((stop - first, part.shape[1]), dtype=np.int64)
            values[done : done + len(part)] = part
            done += len(part)
    return NoisyLevel(depth, values, leaf_offsets(hierarchy, depth, (first, stop)), measured.noise)


def leaf_offsets(hierarchy: Hierarchy, depth: int, span: tuple[int, int] | None = None) -> IntArray:
    """The leaves below each node of a level (or of its nodes in the span), int64 (n + 1,): see `NoisyLevel`."""
    first, stop = (0, hierarchy.size(depth)) if span is None else span
    offsets = np.arange(first, stop + 1, dtype=np.int64)
    for below in range(depth, len(hierarchy.levels) - 1):
        offsets = hierarchy.first_child[below][offsets]
    return offsets


def children_offsets(above: IntArray, below: IntArray) -> IntArray:
    """The nodes of a level below each node of an upper level, int64 (n + 1,), from the first leaves of both."""
    return np.searchsorted(below, above).astype(np.int64)


def tails_of_every_size(domain: SizesDomain, level: NoisyLevel) -> IntArray:
    """The tail counts of every size, int64 (n, sizes). Public numbers of groups are the first column, not measured."""
    groups = domain.groups[level.depth]  # public at the root alone, or everywhere; all of the level was measured
    return level.values if groups is None else np.column_stack([groups, level.values])


def level_weights(levels: Sequence[NoisyLevel]) -> list[int]:
    """Weights of levels, proportional to 1/variance of their noise; see `inverse_weights`."""
    return inverse_weights([level.noise.variance for level in levels])


def inverse_weights(variances: Sequence[float]) -> list[int]:
    """Weights proportional to 1/variance; integers, so that sums with them are exact; all 1 for equal variances."""
    variances = [max(variance, 1e-12) for variance in variances]
    ratios = [min(max(variances) / variance, MAX_WEIGHT) for variance in variances]
    if all(abs(ratio - round(ratio)) < 1e-9 * ratio for ratio in ratios):
        return [round(ratio) for ratio in ratios]
    return [round(_WEIGHT_STEPS * ratio) for ratio in ratios]
