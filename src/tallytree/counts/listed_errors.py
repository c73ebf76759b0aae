"""What is known of the errors of listed nodes, where nodes are listed because their measurements were large.

A node is listed if its own measurement is at least some number, given all other measurements: its noise is larger than
noise is. Where that can matter, its interval is made from its own measurement and that number
(`solvers.trees.listed_intervals`), which holds whatever the model of the data is. Where it cannot, because the node
would be listed with nearly any measurement, the unbiased least-squares estimate of all measurements is nearer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tallytree.counts.auto_sparsity import Known
from tallytree.counts.fitting import combined, estimated
from tallytree.counts.measured_level import MeasuredLevel
from tallytree.counts.released_counts import ListedErrors
from tallytree.solvers.trees.least_positive import least_positive
from tallytree.solvers.trees.listing import least_listed
from tallytree.solvers.trees.null_share import recalibrated
from tallytree.support.arrays import FloatArray, IntArray

FAR = 10.0
"""Standard deviations beyond which no node is left out."""
OF_LAPLACE = 0.6
"""The power of the odds of being 0 with Laplace noise, of which the model is too sure. Chosen on made-up data."""
MOST_CHANCE = 0.5
"""Beyond, the model says little: cells that it holds for 0 are small as often. ½ stands for ½ or more."""
SAFE = 4.0
"""A node is listed anyway if its measurement is so many standard deviations above the least that lists it."""


@dataclass(frozen=True, eq=False)
class Rule:
    """Which nodes are listed of those that IntOpt left positive.

    Attributes:
        known: what the measurements say of the nodes.
        least_probability: float64 (n,), a node is listed if it is not 0 with this probability …
        least_median: … and its median is this; or
        sure: if its measurement is so many standard deviations.
    """

    known: Known
    least_probability: FloatArray
    least_median: float = 0.0
    sure: float = np.inf

    def least(self) -> FloatArray:
        """The least measurement at which each node is listed, float64 (n,)."""
        known, tree = self.known, self.known.tree
        around, width = _of_others(known)
        deviations = np.sqrt(np.maximum(tree.variances, 1e-9))
        found = least_listed(
            tree.noisy.astype(np.float64),
            deviations**2,
            known.posterior.probability,
            around,
            width,
            np.where(tree.inner, np.inf, known.means),
            self.least_probability,
            self.least_median,
            SAFE,
        )
        return np.minimum(np.ceil(found), np.ceil(self.sure * deviations))


def listed_errors(
    levels: Sequence[MeasuredLevel], rule: Rule | None = None, *, chances: Known | None = None
) -> list[ListedErrors]:
    """What is known of the error of every node of the measured levels, if it is listed.

    Args:
        levels: the measured levels, root first, with what was left out.
        rule: which nodes are listed; None for all.
        chances: what gives the probability of each to be 0. None where that is not known: where many leaves are not 0,
            nothing tells small numbers from 0.
    """
    ends = np.cumsum([0, *(len(level.nodes) for level in levels)])
    least = np.full(ends[-1], -np.inf) if rule is None else rule.least()
    variances = combined(levels).nodes
    estimates = estimated(levels).nodes
    found = []
    for place, (level, variance, estimate) in enumerate(zip(levels, variances, estimates, strict=True)):
        deviation = np.sqrt(max(level.variance, 1e-9))
        part = slice(ends[place], ends[place + 1])
        from_here = least[part]
        if place:
            from_here = np.maximum(from_here, _least_kept(level, levels[place - 1].counts, deviation))
        from_here = np.minimum(from_here, level.noisy)
        chosen = level.noisy - from_here < SAFE * deviation
        found.append(
            ListedErrors(
                np.where(chosen, level.noisy, estimate),
                np.where(chosen, deviation, np.sqrt(variance)),
                np.where(chosen, from_here, -np.inf),
                None if chances is None else _chance_of_zero(level, 1 - chances.posterior.probability[part], deviation),
                level.laplace,
            )
        )
    return found


def _chance_of_zero(level: MeasuredLevel, zero: FloatArray, deviation: float) -> FloatArray:
    """The probability of each node to be 0, at most `MOST_CHANCE`."""
    found = recalibrated(level.noisy, zero, level.others.noisy, deviation, laplace=level.laplace)
    if level.laplace:
        found = found**OF_LAPLACE / (found**OF_LAPLACE + (1 - found) ** OF_LAPLACE)
    return np.minimum(found, MOST_CHANCE)


def _of_others(known: Known) -> tuple[FloatArray, FloatArray]:
    """What all measurements but a node's own say of its value, if it is not 0: mean and variance, float64 (n,)."""
    posterior, tree = known.posterior, known.tree
    inner = tree.inner
    own = np.maximum(tree.variances, 1e-9)
    precision = np.where(inner, 1 / posterior.variance - 1 / own, 1 / posterior.outside_variance)
    told = precision > 1e-9 / own
    width = np.where(told, 1 / np.where(told, precision, 1.0), np.inf)
    summed = posterior.mean / posterior.variance - tree.noisy / own
    around = np.where(inner, np.where(told, summed * np.where(told, width, 0.0), 0.0), posterior.outside)
    return around, width


def _least_kept(level: MeasuredLevel, totals: IntArray, deviation: float) -> FloatArray:
    """The least measurement with which each node has a positive count from IntOpt, which leaves the others out.

    Not of nodes far above 0 and above their siblings that were left out.
    """
    left = level.others
    starts = np.searchsorted(left.parents, np.arange(len(level.families) + 1)).astype(np.int64)
    largest = np.zeros(len(level.families), dtype=np.int64)
    np.maximum.at(largest, left.parents, left.noisy)
    near = level.noisy < largest[level.parents] + FAR * deviation
    reach = math.ceil(SAFE * deviation) + 1
    return least_positive(level.noisy, level.offsets, left.noisy, starts, totals, near, reach)
