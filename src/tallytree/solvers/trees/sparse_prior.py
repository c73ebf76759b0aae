"""How many nodes of a tree are not zero, from noisy measurements: a prior, and a correction of posteriors.

**Prior**, for `sparse_posterior`. The prior has two parameters. `share` is the part of the leaves that are not zero,
and `clustering` says how they lie together: of the nodes with k leaves, 1 − (1 − share)^(k^(1 − clustering)) are not
zero. With 0, leaves lie anywhere, independently; the nearer to 1, the fewer nodes above hold them.

**Correction**, by how often noise alone gives such measurements. A model of the data gives each node a probability q of
being 0. How many measurements of nodes that are 0 lie in a range is known without a model: the number of these nodes
times the probability of the noise. In ranges of the measurement all odds q/(1 − q) are multiplied by the factor with
which their sum is that number. Where it is known to within √n of a few, the factor is drawn to 1. (Efron 2004,
Large-scale simultaneous hypothesis testing, has the ratio of the two densities, without the model.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tallytree.solvers.trees.sparse_posterior import log_cdf
from tallytree.support.arrays import FloatArray, IntArray

MAX_CLUSTERING = 0.8
"""Beyond, inner nodes would tell nothing of the leaves below them."""

LEAST_MEAN = 0.5
"""Of nodes that are not zero: integers are at least 1, so the mean of an exponential law is about this or more."""

_BISECTIONS = 60


@dataclass(frozen=True)
class Occupancy:
    """How many nodes are not zero.

    Attributes:
        share: of the leaves, in (0, 1].
        clustering: 0 … `MAX_CLUSTERING`.
    """

    share: float
    clustering: float = 0.0

    def of_nodes(self, leaves: FloatArray) -> FloatArray:
        """The share of the nodes with so many leaves that are not zero."""
        if self.share >= 1:
            return np.ones(len(leaves))
        found: FloatArray = -np.expm1(leaves ** (1 - self.clustering) * np.log1p(-self.share))
        return found


@dataclass(frozen=True, eq=False)
class LevelPrior:
    """What the prior says of every level, root first.

    Attributes:
        marginal: float64 (levels,), that a node is not zero.
        given_parent: float64 (levels,), that a child is not zero where its parent is not, before it is known that one
            of the siblings is not; 1 at the root.
        mean: float64 (levels,), of a node that is not zero.
    """

    marginal: FloatArray
    given_parent: FloatArray
    mean: FloatArray


def prior_of(occupancy: Occupancy, sizes: Sequence[int], total: float) -> LevelPrior:
    """The prior of every level of a tree.

    Args:
        occupancy: how many nodes are not zero.
        sizes: the number of nodes of every level, root first, ascending.
        total: of all leaves, > 0.

    Returns:
        Families are taken to have their level's mean size.

    Example:
        >>> prior = prior_of(Occupancy(0.5), [1, 2, 4], 100.0)
        >>> prior.given_parent.round(3).tolist(), prior.mean.round(1).tolist()
        ([1.0, 0.75, 0.5], [100.0, 62.5, 46.9])
    """
    nodes = np.asarray(sizes, np.float64)
    marginal = occupancy.of_nodes(nodes[-1] / nodes)
    found = nodes * marginal / marginal[0]
    given = np.ones(len(nodes))
    for level in range(1, len(nodes)):
        given[level] = _chance(nodes[level] / nodes[level - 1], found[level] / found[level - 1])
    return LevelPrior(marginal, given, np.maximum(total / found, LEAST_MEAN))


def _chance(size: float, expected: float) -> float:
    """The p with `expected` children that are not zero in a family of `size`: size·p / (1 − (1 − p)^size)."""
    if expected >= size:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        p = (low + high) / 2
        if size * p > expected * (1 - (1 - p) ** size):
            high = p
        else:
            low = p
    return high


def most_probable(evidence: Callable[[Occupancy], float], leaves: int) -> Occupancy:
    """The occupancy with most evidence, about: grids of shares, and from the best of each a compass search of both.

    There may be two optima: many leaves anywhere, or fewer that lie together. So each kind has a grid.

    Args:
        evidence: a log-likelihood.
        leaves: how many there are; the share is that of one leaf, or more.

    Returns:
        The share to about 10 %, the clustering to about 0.05. Some 60 to 80 evaluations.
    """
    known: dict[tuple[float, float], float] = {}
    lowest = -round(float(np.log(max(leaves, 2))), 6)

    def of(point: tuple[float, float]) -> float:
        if not (lowest <= point[0] <= 0 and 0 <= point[1] <= MAX_CLUSTERING):
            return -np.inf
        if point not in known:
            known[point] = evidence(Occupancy(float(np.exp(point[0])), point[1]))
        return known[point]

    def climbed(best: tuple[float, float]) -> tuple[float, float]:
        steps = -lowest / (_GRID - 1) / 2, 0.2
        while steps[0] > _LAST_STEP:
            a, b = steps
            around = [(best[0] - a, best[1]), (best[0] + a, best[1]), (best[0], best[1] - b), (best[0], best[1] + b)]
            # A more clustered prior with fewer leaves resembles a less clustered one with more.
            around += [(best[0] + a, best[1] + b), (best[0] - a, best[1] - b), (best[0] - a, best[1] + b)]
            around = [(round(min(x, 0.0), 6), round(min(max(y, 0.0), MAX_CLUSTERING), 6)) for x, y in around]
            better = max(around, key=of)
            if of(better) > of(best):
                best = better
            else:
                steps = a / 2, b / 2
        return best

    shares = [round(float(each), 6) for each in np.linspace(lowest, 0, _GRID)]
    starts = [max(((share, clustering) for share in shares), key=of) for clustering in _CLUSTERINGS]
    best = max(map(climbed, starts), key=of)
    return Occupancy(float(np.exp(best[0])), best[1])


_CLUSTERINGS = (0.0, 0.3)
"""Of the grids."""

_GRID = 9
"""Shares that are tried first, from one leaf to all."""

_LAST_STEP = 0.1
"""Of the logarithm of the share."""


FEWEST = 50.0
"""A range has at least so many expected measurements of nodes that are 0."""
FURTHEST, NEAREST, STEP = 6.0, 0.5, 0.125
"""Ranges begin somewhere between these, in standard deviations of the noise, on a grid."""
MOST_BESIDE = 0.5
"""A range is used if the nodes that were left out are at most so much of what is expected: not all of them are 0."""
FURTHEST_NORMAL = 8.0
"""In standard deviations; where normal noise has a probability that floats do not hold."""
LIKELY = 0.5
"""The standard deviation of the logarithm of a factor before anything is known of it."""
_HALVINGS = 50


def recalibrated(
    noisy: IntArray, zero: FloatArray, left_out: IntArray, deviation: float, *, laplace: bool
) -> FloatArray:
    """The probability that each node is 0, float64 (n,).

    Args:
        noisy: int64 (n,), the measurements of nodes of one level.
        zero: float64 (n,), the probability of each to be 0, by a model.
        left_out: int64 (m,), the measurements of their siblings that were left out, which are taken to be 0.
        deviation: the standard deviation of the noise, > 0.
        laplace: whether it is Laplace noise.
    """
    zeros = float(zero.sum()) + len(left_out)
    if laplace:
        zero = _of_laplace_noise(zero, noisy / deviation)
    starts, expected = _ranges(zeros, deviation, laplace)
    if not len(starts) or not len(noisy):
        return zero
    range_of = np.searchsorted(starts, noisy, side="right") - 1
    beside = np.bincount(np.searchsorted(starts, left_out, side="right"), minlength=len(starts) + 1)[1:]
    logs, middles = [], []
    for place, count in enumerate(expected):
        here = range_of == place
        if not here.any() or beside[place] > MOST_BESIDE * count:
            continue
        wanted = float(np.clip(count - beside[place], 0.02 * here.sum(), 0.98 * here.sum()))
        error = math.sqrt(count) / max(wanted, 1.0)
        drawn = LIKELY**2 / (LIKELY**2 + error**2)
        logs.append(drawn * _log_factor(zero[here], wanted))
        middles.append(min(float(noisy[here].mean()), starts[place] + deviation))
    return _with_factor(zero, np.interp(noisy, middles, logs)) if logs else zero


def _with_factor(zero: FloatArray, logs: FloatArray) -> FloatArray:
    """Probabilities whose odds are multiplied."""
    odds, factor = np.clip(zero, 1e-16, 1 - 1e-16), np.exp(logs)
    found: FloatArray = odds * factor / (odds * factor + 1 - odds)
    return found


def _of_laplace_noise(zero: FloatArray, z: FloatArray) -> FloatArray:
    """What a model with normal noise says, corrected by the ratio of the two densities at 0."""
    z = np.clip(z, 0.0, FURTHEST_NORMAL)
    logs = 0.5 * z * z - math.sqrt(2) * z + 0.5 * math.log(math.pi)
    return _with_factor(zero, np.maximum(logs, 0.0))


def _ranges(zeros: float, deviation: float, laplace: bool) -> tuple[FloatArray, FloatArray]:
    """Where ranges of measurements begin, ascending, and how many measurements of 0 are expected in each."""
    starts: list[float] = []
    expected: list[float] = []
    beyond = 0.0
    for step in np.arange(FURTHEST, NEAREST, -STEP):
        start = math.ceil(step * deviation)
        x = (start - 0.5) / deviation
        tail = 0.5 * math.exp(-x * math.sqrt(2)) if laplace else math.exp(log_cdf(-x))
        if x > 0 and zeros * tail - beyond >= FEWEST and (not starts or start < starts[-1]):
            starts.append(float(start))
            expected.append(zeros * tail - beyond)
            beyond = zeros * tail
    return np.array(starts[::-1]), np.array(expected[::-1])


def _log_factor(zero: FloatArray, wanted: float) -> float:
    """The logarithm of the factor of all odds with which the probabilities add up to what is wanted."""
    q = np.clip(zero, 1e-12, 1 - 1e-12)
    low, high = -12.0, 12.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        odds = q * math.exp(middle)
        if float((odds / (odds + 1 - q)).sum()) < wanted:
            low = middle
        else:
            high = middle
    return (low + high) / 2
