"""How probable it is that a node of a measured tree is not zero: a mixture with mass at 0, given the path.

The model: below a node that is not zero, each child is not zero with a probability of its level, independently, given
that one of them is not; a leaf that is not zero is exponentially distributed. All measured nodes take part: those of
the tree that is given, and their siblings that were left out. The latter have no descendants here (these were never
measured), and are exponentially distributed too, with the mean of their level.

The sums of children are approximated by normal distributions (moments are matched where several cases meet), once
upward and once downward, in O(n). So this is expectation propagation with one round, exact but for the normal sums.

The normal distribution is used in logarithms: tails stay exact where they underflow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import check_integers, check_offsets
from tallytree.support.arrays import BoolArray, FloatArray, IntArray
from tallytree.support.kernels import inlined, kernel

LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)


@kernel
def log_cdf(x: float) -> float:
    """The logarithm of Φ(x): the probability that a standard normal variable is at most x."""
    if x > -8:
        return math.log(0.5 * math.erfc(-x / math.sqrt(2)))
    # Mills' ratio, where erfc underflows or nearly
    return -0.5 * x * x - math.log(-x) - LOG_ROOT_2PI + math.log1p(-1 / (x * x))


MAX_LOG_ODDS = 30.0
"""Beyond, a probability is 1 in floats."""

LEAST_VARIANCE = 1e-9
"""Of the normal distributions, so that none is a point but that of a given root."""


@dataclass(frozen=True, eq=False)
class MeasuredTree:
    """A measured tree, or several of them, and what was measured beside their nodes.

    Attributes:
        first_child: int64 (n + 1,), the children of node i are first_child[i] … first_child[i + 1] − 1; parents come
            before children, the roots come first.
        noisy: int64 (n,), the measurements.
        variances: float64 (n,), of their noise, > 0; 0 at a root whose value is given. Siblings have the same.
        families: int64 (n,), how many children of each node were measured, those left out included.
        left_out: int64 (m,), the measurements of children that were left out, by parent.
        left_out_parents: int64 (m,), ascending, their parents; these have children in the tree too.
        roots: how many trees there are.
    """

    first_child: IntArray
    noisy: IntArray
    variances: FloatArray
    families: IntArray
    left_out: IntArray
    left_out_parents: IntArray
    roots: int = 1

    @property
    def inner(self) -> BoolArray:
        """Which nodes have children in the tree: bool (n,)."""
        found: BoolArray = self.first_child[1:] > self.first_child[:-1]
        return found

    def __post_init__(self) -> None:
        """Check what the kernels rely on.

        Raises:
            TypeError: for anything but numbers.
            ValueError: for offsets that are no tree, arrays of other lengths, variances that are not positive and
                finite, families smaller than their children, or left-out children of a node without children.
        """
        n = len(check_integers("noisy", self.noisy))
        cuts = check_integers("first_child", self.first_child)
        if len(cuts) != n + 1:
            raise ValueError(f"first_child has {len(cuts)} entries; noisy has {n}, so it must have {n + 1}")
        if not 1 <= self.roots <= n:
            raise ValueError(f"roots={self.roots} must be 1 … {n}, the number of nodes")
        check_offsets("first_child", cuts - self.roots, "nodes below the roots", n - self.roots)
        if (cuts[:-1] <= np.arange(n)).any():
            raise ValueError("first_child: a node has children that come before it; number parents before children")
        spread = np.asarray(self.variances)
        if spread.shape != (n,) or not np.isfinite(spread).all() or (spread[1:] <= 0).any() or spread[0] < 0:
            raise ValueError(f"variances must be {n} positive and finite numbers (that of the first root may be 0)")
        families = check_integers("families", self.families)
        if families.shape != (n,):
            raise ValueError(f"families has shape {families.shape}; it must have that of noisy, ({n},)")
        parents = check_integers("left_out_parents", self.left_out_parents)
        if len(check_integers("left_out", self.left_out)) != len(parents):
            raise ValueError(f"left_out has {len(self.left_out)} entries; left_out_parents has {len(parents)}")
        if len(parents) and ((np.diff(parents) < 0).any() or parents[0] < 0 or parents[-1] >= n):
            raise ValueError(f"left_out_parents must ascend and be nodes, 0 … {n - 1}")
        children = np.diff(cuts)
        if (children[parents] == 0).any():
            raise ValueError("left_out_parents: a parent has no children in the tree; leave its children out too")
        least = children + np.bincount(parents, minlength=n)
        if (families < least).any():
            raise ValueError("families: a node has fewer measured children than are given")


@dataclass(frozen=True, eq=False)
class Posterior:
    """What the measurements say under a prior.

    Attributes:
        evidence: float64 (n,), the logarithm of how much more probable the measurements of a node and its descendants
            are if it is not zero than if it is.
        probability: float64 (n,), that a node is not zero, given all measurements and that the roots are not.
        mean: float64 (n,), of a node that is not zero, given all measurements.
        variance: float64 (n,), of it.
        outside: float64 (n,), its mean by what all but the node and its descendants say, given that it is not zero.
        outside_variance: float64 (n,), of that; infinite where they say nothing.
    """

    evidence: FloatArray
    probability: FloatArray
    mean: FloatArray
    variance: FloatArray
    outside: FloatArray
    outside_variance: FloatArray


def log_evidence(tree: MeasuredTree, probabilities: npt.ArrayLike, means: npt.ArrayLike) -> FloatArray:
    """`Posterior.evidence` alone, from the upward pass; arguments as for `posterior`."""
    return _up(*_arrays(tree, probabilities, means))[0]


def posterior(tree: MeasuredTree, probabilities: npt.ArrayLike, means: npt.ArrayLike) -> Posterior:
    """The probability of every node to be not zero.

    Args:
        tree: what was measured.
        probabilities: (n,) in (0, 1], that a node is not zero given that its parent is not (and before it is known that
            one of its siblings or it is not); siblings have the same.
        means: (n,) > 0, of a node that is not zero; siblings have the same. Only leaves and left-out nodes use them.

    Returns:
        Evidence and probabilities. O(n + m).

    Raises:
        ValueError: a probability outside (0, 1], a mean that is not positive and finite, or another number of them.

    Example:
        Two leaves below a root of 40, with noise of variance 25:

        >>> none = np.empty(0, np.int64)
        >>> two = MeasuredTree(np.array([1, 3, 3, 3]), np.array([40, 39, 3]), np.array([0.0, 25.0, 25.0]),
        ...                    np.array([2, 0, 0]), none, none)
        >>> posterior(two, [1.0, 0.1, 0.1], [20.0, 20.0, 20.0]).probability.round(2).tolist()
        [1.0, 1.0, 0.04]
    """
    arrays = _arrays(tree, probabilities, means)
    evidence, z, u, left_out = _up(*arrays)
    first_child, noisy, variances, log_odds = arrays[0], arrays[1], arrays[2], arrays[6]
    probability, cavity, width = _down(first_child, noisy, variances, log_odds, evidence, z, u, left_out)
    variance = 1 / (1 / u + 1 / width)
    mean = variance * (z / u + cavity / width)
    return Posterior(evidence, probability, mean, variance, cavity, width)


@kernel
def probable(first_child: IntArray, probability: FloatArray, least: float) -> BoolArray:
    """The nodes of a tree that are not zero with probability `least`, with their ancestors, and a child of every one.

    Args:
        first_child: as of a `MeasuredTree` with one root.
        probability: float64 (n,).
        least: what a node must reach; of the children of a kept node, the most probable one is kept whatever it has.

    Returns:
        (n,) bool; the root is kept.

    Example:
        >>> probable(np.array([1, 3, 3, 4, 4]), np.array([1.0, 0.1, 0.4, 0.3]), 0.5).tolist()
        [True, False, True, True]
    """
    # Invariant: of the children of all nodes up to i, it is known which are kept.
    kept = np.zeros(len(probability), np.bool_)
    kept[0] = True
    for i in range(len(probability)):
        a, b = first_child[i], first_child[i + 1]
        if not kept[i] or a == b:
            continue
        kept[a + np.argmax(probability[a:b])] = True
        for c in range(a, b):
            kept[c] |= probability[c] >= least
    return kept


def _arrays(
    tree: MeasuredTree, probabilities: npt.ArrayLike, means: npt.ArrayLike
) -> tuple[IntArray, FloatArray, FloatArray, IntArray, FloatArray, IntArray, FloatArray, FloatArray]:
    """What the kernels take."""
    n = len(tree.noisy)
    chance, mean = np.asarray(probabilities, np.float64), np.asarray(means, np.float64)
    if chance.shape != (n,) or not ((chance > 0) & (chance <= 1)).all():
        raise ValueError(f"probabilities must be {n} numbers above 0 and at most 1")
    if mean.shape != (n,) or not ((mean > 0) & np.isfinite(mean)).all():
        raise ValueError(f"means must be {n} positive and finite numbers")
    with np.errstate(divide="ignore"):
        log_odds = np.minimum(np.log(chance) - np.log1p(-chance), MAX_LOG_ODDS)
    starts = np.searchsorted(tree.left_out_parents, np.arange(n + 1)).astype(np.int64)
    return (
        tree.first_child.astype(np.int64),
        tree.noisy.astype(np.float64),
        tree.variances.astype(np.float64),
        tree.families.astype(np.int64),
        tree.left_out.astype(np.float64),
        starts,
        log_odds,
        mean,
    )


_NEVER = -math.inf


@kernel
def _sum_logs(a: float, b: float) -> float:
    """log(eᵃ + eᵇ)."""
    if a < b:
        a, b = b, a
    return a if b == _NEVER else a + math.log1p(math.exp(b - a))


@kernel
def _mixed(
    a: float, mean_a: float, variance_a: float, b: float, mean_b: float, variance_b: float
) -> tuple[float, float, float]:
    """The normal distribution with the moments of two weighted ones, and the logarithm of its weight."""
    if a == _NEVER:
        return b, mean_b, variance_b
    if b == _NEVER:
        return a, mean_a, variance_a
    both = _sum_logs(a, b)
    share = math.exp(a - both)
    apart = mean_a - mean_b
    mean = mean_b + share * apart
    return both, mean, share * variance_a + (1 - share) * (variance_b + share * apart * apart)


@kernel
def _joined(weight: float, mean: float, variance: float, odds: float, z: float, u: float) -> tuple[float, float, float]:
    """The sum of some siblings and one more, given that it is not zero.

    Weights are logarithms, relative to that of no sibling. The new sibling has the log-odds `odds`; it is N(z, u) if it
    is not zero.
    """
    both = _mixed(odds, z, u, weight + odds, mean + z, variance + u)
    return _mixed(weight, mean, variance, both[0], both[1], both[2])


@inlined
def log_normal(off: float, variance: float) -> float:
    """The logarithm of a normal density, without its constant."""
    return -0.5 * (off * off / variance + math.log(variance))


@inlined
def leaf_posterior(y: float, variance: float, mean: float) -> tuple[float, float, float]:
    """An exponential value with normal noise: its evidence against 0, and the mean and variance of its posterior."""
    spread = math.sqrt(variance)
    shift = y / spread - spread / mean
    below = log_cdf(shift)
    evidence = math.log(spread / mean) + 0.5 * shift * shift + LOG_ROOT_2PI + below
    ratio = math.exp(-0.5 * shift * shift - LOG_ROOT_2PI - below)
    scale = 1 - shift * ratio - ratio * ratio
    return evidence, spread * (shift + ratio), variance * max(scale, 1e-3)


@inlined
def _left_out_sum(noisy: FloatArray, variance: float, mean: float, odds: float) -> tuple[float, float, float]:
    """The sum of the children that were left out, given that one is not zero, and the log of its weight."""
    weight, total, spread = 0.0, 0.0, 0.0
    for i in range(len(noisy)):
        evidence, z, u = leaf_posterior(noisy[i], variance, mean)
        evidence += odds
        weight += _sum_logs(0.0, evidence)
        share = 1 / (1 + math.exp(-evidence)) if evidence > -700 else 0.0
        total += share * z
        spread += share * (u + z * z) - share * share * z * z
    if weight <= 0:
        return _NEVER, 0.0, 1.0
    some = -math.expm1(-weight)
    mean_of_some = total / some
    variance_of_some = (spread + total * total) / some - mean_of_some * mean_of_some
    return weight + math.log(some), mean_of_some, max(variance_of_some, LEAST_VARIANCE)


@kernel
def _up(
    first_child: IntArray,
    y: FloatArray,
    variance: FloatArray,
    families: IntArray,
    left_out: FloatArray,
    starts: IntArray,
    log_odds: FloatArray,
    mean: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Invariant: all nodes after i have their evidence, and N(z, u) of their value given their descendants and them.

    Of a family, the child with most evidence is joined last, beside the sum of the others, and each of the three cases
    is weighted by what was measured of the parent. So a family of two is exact but for the normal distributions.
    """
    n = len(y)
    evidence, z, u = np.empty(n), np.empty(n), np.empty(n)
    outside = np.empty((n, 3))
    for i in range(n - 1, -1, -1):
        a, b = first_child[i], first_child[i + 1]
        if a == b:
            evidence[i], z[i], u[i] = leaf_posterior(y[i], variance[i], mean[i])
            continue
        odds = log_odds[a]
        first = a + np.argmax(evidence[a:b])
        weight, total, spread = _left_out_sum(left_out[starts[i] : starts[i + 1]], variance[a], mean[a], odds)
        outside[i, 0], outside[i, 1], outside[i, 2] = weight, total, spread
        for c in range(a, b):
            if c != first:
                weight, total, spread = _joined(weight, total, spread, odds + evidence[c], z[c], u[c])
        v, alone = variance[i], odds + evidence[first]
        found, z[i], u[i] = _NEVER, 0.0, 1.0
        for case in range(3):
            if case == 0:
                w, m, s = alone, z[first], u[first]
            elif case == 1:
                w, m, s = weight, total, spread
            else:
                w, m, s = weight + alone, total + z[first], spread + u[first]
            if w == _NEVER:
                continue
            w += log_normal(y[i] - m, s + v)
            gain = s / (s + v)
            found, z[i], u[i] = _mixed(found, z[i], u[i], w, m + gain * (y[i] - m), s * v / (s + v))
        u[i] = max(u[i], LEAST_VARIANCE)
        if v > 0:
            found -= log_normal(y[i], v)
        # Of the prior weight of all cases, relative to that of no child: ∏ (1 + odds) − 1.
        some = families[i] * _sum_logs(0.0, odds)
        evidence[i] = found - (some if some > 40 else math.log(math.expm1(some)))
    return evidence, z, u, outside


@kernel
def _down(
    first_child: IntArray,
    y: FloatArray,
    variance: FloatArray,
    log_odds: FloatArray,
    evidence: FloatArray,
    z: FloatArray,
    u: FloatArray,
    left_out: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Invariant: of all nodes up to i, the probability and N(cavity, width) of what all but their subtree say."""
    n = len(y)
    probability, cavity, width = np.ones(n), np.zeros(n), np.full(n, np.inf)
    before = np.empty((n, 3))
    for i in range(n):
        a, b = first_child[i], first_child[i + 1]
        if a == b:
            continue
        s = 1 / (1 / variance[i] + 1 / width[i]) if variance[i] > 0 else 0.0
        x = s * (y[i] / variance[i] + cavity[i] / width[i]) if variance[i] > 0 else y[i]
        weight, total, spread = left_out[i, 0], left_out[i, 1], left_out[i, 2]
        for c in range(a, b):
            before[c, 0], before[c, 1], before[c, 2] = weight, total, spread
            weight, total, spread = _joined(weight, total, spread, log_odds[a] + evidence[c], z[c], u[c])
        weight, total, spread = _NEVER, 0.0, 1.0
        for c in range(b - 1, a - 1, -1):
            odds = log_odds[a] + evidence[c]
            there, absent, around, breadth = _NEVER, _NEVER, 0.0, 1.0
            for case in range(4):
                w, m, r = 0.0, 0.0, 0.0
                if case % 2:
                    w, m, r = w + before[c, 0], m + before[c, 1], r + before[c, 2]
                if case >= 2:
                    w, m, r = w + weight, m + total, r + spread
                if w == _NEVER:
                    continue
                if case > 0:
                    absent = _sum_logs(absent, w + log_normal(x - m, s + r))
                here = odds + w + log_normal(x - m - z[c], s + r + u[c])
                there, around, breadth = _mixed(there, around, breadth, here, x - m, s + r)
            probability[c] = probability[i] * math.exp(there - _sum_logs(there, absent))
            cavity[c], width[c] = around, max(breadth, LEAST_VARIANCE)
            weight, total, spread = _joined(weight, total, spread, odds, z[c], u[c])
    return probability, cavity, width
