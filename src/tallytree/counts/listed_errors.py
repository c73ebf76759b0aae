"""What is known of every node of sparse data, and of the errors of nodes that are listed for a large measurement.

**How sparse the data are.** An empirical-Bayes mixture: each node is 0, or it is not. How many are not (the prior,
`solvers.trees.sparse_prior`) is what makes the measurements most probable; with it, every node has a probability of
being not 0 given all measurements (`solvers.trees.sparse_posterior`). All of this is post-processing, and the same in
every run: nothing is drawn.

**Errors of listed nodes.** A node is listed if its own measurement is at least some number, given all other
measurements: its noise is larger than noise is. Where that can matter, its interval is made from its own measurement
and that number (`solvers.trees.listing`), which holds whatever the model of the data is. Where it cannot,
because the node would be listed with nearly any measurement, the unbiased least-squares estimate of all measurements is
nearer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from tallytree.counts.measured_level import LeftOut, MeasuredLevel, combined, estimated, first_children
from tallytree.counts.released_counts import ListedErrors
from tallytree.solvers.trees.families import least_positive
from tallytree.solvers.trees.listing import least_listed
from tallytree.solvers.trees.sparse_posterior import MeasuredTree, Posterior, log_evidence, posterior
from tallytree.solvers.trees.sparse_prior import LevelPrior, Occupancy, most_probable, prior_of, recalibrated
from tallytree.support.arrays import BoolArray, FloatArray, IntArray

MAX_SHARE = 0.1
"""Nothing is dropped where more of the leaves are estimated to be not 0; chosen on generated data.

`docs/methods/counts.md` has the figures.
"""

SAMPLE = 2**14
"""The prior is chosen on about this many measurements: those of subtrees below some nodes of one level."""

FEWEST_SUBTREES = 16
"""A sample has at least so many subtrees, where a level has enough nodes."""


@dataclass(frozen=True)
class Sparsity:
    """What the measurements say of how sparse the data are.

    Attributes:
        occupancy: how many leaves are not 0, and how they lie together.
    """

    occupancy: Occupancy

    @property
    def few(self) -> bool:
        """Whether few leaves are not 0."""
        return self.occupancy.share <= MAX_SHARE

    def facts(self) -> dict[str, Any]:
        """What the statement says of it."""
        share, clustering = self.occupancy.share, self.occupancy.clustering
        return {"leaves_not_zero": float(f"{share:.3g}"), "clustering": round(clustering, 3)}


@dataclass(frozen=True, eq=False)
class Known:
    """What the measurements say of every node of the measured levels, level by level, root first.

    Attributes:
        tree: the nodes as one tree.
        posterior: of each.
        means: float64 (n,), of each node's level, of the nodes that are not 0.
        levels: which part of all nodes each level is.
    """

    tree: MeasuredTree
    posterior: Posterior
    means: FloatArray
    levels: Sequence[slice]

    @property
    def zero(self) -> FloatArray:
        """The probability that each node is 0, float64 (n,)."""
        return 1 - self.posterior.probability


def sparsity_of(levels: Sequence[MeasuredLevel], sizes: Sequence[int]) -> Sparsity:
    """How sparse the data are.

    Args:
        levels: all measured levels, root first, with what was left out; the root's count is not 0.
        sizes: the number of nodes of each of them in the public tree.
    """
    total = float(levels[0].counts[0])
    sample = _Sample.of(levels)

    def evidence(occupancy: Occupancy) -> float:
        return sample.evidence(prior_of(occupancy, sizes, total))

    return Sparsity(most_probable(evidence, sizes[-1]))


def known_of(levels: Sequence[MeasuredLevel], sizes: Sequence[int], sparsity: Sparsity) -> Known:
    """What the measurements say of every node; arguments as for `sparsity_of`."""
    tree = _forest(levels)
    prior = prior_of(sparsity.occupancy, sizes, float(levels[0].counts[0]))
    per_level = [len(level.nodes) for level in levels]
    means = np.repeat(prior.mean, per_level)
    ends = np.cumsum([0, *per_level]).tolist()
    parts = [slice(start, stop) for start, stop in pairwise(ends)]
    return Known(tree, posterior(tree, np.repeat(prior.given_parent, per_level), means), means, parts)


@dataclass(frozen=True, eq=False)
class _Sample:
    """Some subtrees, whose evidence is compared under different priors.

    Attributes:
        cut: the place of their roots' level among the measured levels.
        forest: the subtrees.
        per_level: the number of nodes of each of their levels.
        alone: siblings of the roots that were left out; None where there are none.
    """

    cut: int
    forest: MeasuredTree
    per_level: IntArray
    alone: MeasuredTree | None

    @classmethod
    def of(cls, levels: Sequence[MeasuredLevel]) -> _Sample:
        """Every k-th subtree below one level, and every k-th node that was left out of that level."""
        measured = sum(len(level.nodes) + len(level.others.noisy) for level in levels)
        step = -(-measured // SAMPLE)
        if step == 1:
            return cls(0, _forest(levels), np.array([len(level.nodes) for level in levels]), None)
        enough = [len(level.nodes) >= FEWEST_SUBTREES * step for level in levels[1:-1]]
        cut = 1 + enough.index(True) if any(enough) else len(levels) - 1
        found, above = [], np.arange(len(levels[cut].nodes)) % step == 0
        for place, level in enumerate(levels[cut:]):
            these = above[level.parents] if place else above
            found.append(level.kept(these, above) if place else _roots(level, these))
            above = these
        others = levels[cut].others.noisy[::step]
        alone = None if not len(others) else _single_nodes(others, levels[cut].variance)
        return cls(cut, _forest(found), np.array([len(level.nodes) for level in found]), alone)

    def evidence(self, prior: LevelPrior) -> float:
        """The log-likelihood of the sampled measurements, but for a constant."""
        given, mean = (np.repeat(each[self.cut :], self.per_level) for each in (prior.given_parent, prior.mean))
        found = log_evidence(self.forest, given, mean)[: self.per_level[0]]
        if self.cut == 0:
            return float(found[0])  # the root is not 0
        if self.alone is not None:
            n = len(self.alone.noisy)
            found = np.concatenate([found, log_evidence(self.alone, np.ones(n), np.full(n, prior.mean[self.cut]))])
        return _of_mixture(found, prior.marginal[self.cut])


def _of_mixture(evidence: FloatArray, marginal: float) -> float:
    """The log-likelihood of nodes that are not 0 with this probability, relative to all being 0."""
    with np.errstate(divide="ignore"):
        return float(np.logaddexp(np.log1p(-marginal), np.log(marginal) + evidence).sum())


def _forest(levels: Sequence[MeasuredLevel]) -> MeasuredTree:
    """All nodes of the levels, the first level's as roots, and what was left out below them."""
    per_level = [len(level.nodes) for level in levels]
    starts = np.concatenate([[0], np.cumsum(per_level)])
    return MeasuredTree(
        first_children(levels),
        np.concatenate([level.noisy for level in levels]),
        np.repeat([level.variance for level in levels], per_level),
        np.concatenate([*(level.families for level in levels[1:]), np.zeros(per_level[-1], np.int64)]),
        np.concatenate([_NONE, *(level.others.noisy for level in levels[1:])]),
        np.concatenate(
            [_NONE, *(level.others.parents + start for level, start in zip(levels[1:], starts, strict=False))]
        ),
        per_level[0],
    )


def _roots(level: MeasuredLevel, these: BoolArray) -> MeasuredLevel:
    """Some nodes of a level, with nothing above them."""
    alone = replace(level, parents=np.arange(len(level.nodes)), families=np.ones(len(level.nodes), np.int64))
    return replace(alone, left_out=LeftOut()).kept(these, these)


def _single_nodes(noisy: IntArray, variance: float) -> MeasuredTree:
    """Nodes that were measured, and nothing below them."""
    n = len(noisy)
    return MeasuredTree(np.full(n + 1, n), noisy, np.full(n, variance), np.zeros(n, np.int64), _NONE, _NONE, n)


_NONE = np.empty(0, np.int64)


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
    levels: Sequence[MeasuredLevel], least: FloatArray | None = None, *, zero: FloatArray | None = None
) -> list[ListedErrors]:
    """What is known of the error of every node of the measured levels, if it is listed.

    Args:
        levels: the measured levels, root first, with what was left out.
        least: float64 (nodes of all levels,), the least measurement at which each node is listed; None for all.
        zero: float64 (nodes of all levels,), the probability of each to be 0. None where that is not known: where many
            leaves are not 0, nothing tells small numbers from 0.
    """
    ends = np.cumsum([0, *(len(level.nodes) for level in levels)])
    if least is None:
        least = np.full(ends[-1], -np.inf)
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
                None if zero is None else _chance_of_zero(level, zero[part], deviation),
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
