"""How many nodes of a tree are not zero, from noisy measurements: an empirical prior for `sparse_posterior`.

The prior has two parameters. `share` is the part of the leaves that are not zero, and `clustering` says how they lie
together: of the nodes with k leaves, 1 − (1 − share)^(k^(1 − clustering)) are not zero. With 0, leaves lie anywhere,
independently; the nearer to 1, the fewer nodes above hold them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tallytree.support.arrays import FloatArray

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
