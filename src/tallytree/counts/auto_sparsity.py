"""How sparse the data are, and what is known of every node, from the noisy measurements and the public tree alone.

An empirical-Bayes mixture: each node is 0, or it is not. How many are not (the prior, `solvers.trees.sparse_prior`) is
what makes the measurements most probable; with it, every node has a probability of being not 0 given all measurements
(`solvers.trees.sparse_posterior`). All of this is post-processing, and the same in every run: nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from tallytree.counts.measured_level import LeftOut, MeasuredLevel, first_children
from tallytree.solvers.trees.sparse_posterior import MeasuredTree, Posterior, log_evidence, posterior
from tallytree.solvers.trees.sparse_prior import LevelPrior, Occupancy, most_probable, prior_of
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
