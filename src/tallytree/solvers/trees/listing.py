"""Numbers that are listed because their noisy measurement was large enough: from which measurement on, and intervals.

**Intervals.** A number θ ≥ 0 is measured as y = θ + noise, and is listed only if y ≥ t. Given that it is listed, noise
that lowers it is missing: y ± q·σ misses θ too often, above all where θ is small. The interval of all θ for which

    P(Y ≥ y | Y ≥ t) > α/2   and   P(Y ≤ y | Y ≥ t) > α/2

misses θ with probability α given that it is listed, whatever θ is (Fithian, Sun and Taylor 2014, Optimal inference
after model selection; Weinstein, Fithian and Benjamini 2013, JASA 108). Numbers are integers; y itself counts half on
either side (mid-p), and tails are those of the continuous law half a unit further out.

**The least measurement** at which a node of a measured tree would be listed, all other measurements as they are. A node
is listed where its own measurement is large enough. So the noise of listed nodes is larger than noise is, and an
interval that does not know this misses too often. What it has to know is the least measurement at which the node would
be listed.

The model is that of `solvers.trees.sparse_posterior`. Let K be the odds that all but the node's own measurement y give
it, and N(a, w) what they say of its value x if it is not 0. With v the variance of the noise, s = 1/(1/v + 1/w) and m =
s·(y/v + a/w),

    log odds(y) = K + m²/(2s) + log Φ(m/√s) + a constant,

which grows with y, and x is N(m, s) given that it is above 0. A leaf is exponential with mean μ too; y alone makes it
N(z, u), as there, and odds and value are those that the passes there compute from these.
"""

from __future__ import annotations

import math

import numpy as np

from tallytree.solvers.trees.sparse_posterior import LOG_ROOT_2PI, leaf_posterior, log_cdf, log_normal
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.kernels import inlined, kernel

CERTAIN = 1e-9
"""A node that is 0 with a smaller probability is taken not to be 0 whatever its own measurement is."""
_HALVINGS = 12
"""From a few standard deviations to a thousandth of one."""
_HALVINGS_OF_QUANTILE = 24


def least_listed(
    noisy: FloatArray,
    variances: FloatArray,
    probability: FloatArray,
    around: FloatArray,
    around_variance: FloatArray,
    means: FloatArray,
    least_probability: FloatArray,
    least_median: float,
    reach: float = 40.0,
) -> FloatArray:
    """The least own measurement at which each node is listed, if it is near its measurement.

    Args:
        noisy: float64 (n,), the measurements of the nodes, all of which are listed.
        variances: float64 (n,), of their noise, > 0.
        probability: float64 (n,), that each is not 0, given all measurements.
        around: float64 (n,), a: what all other measurements say of its value.
        around_variance: float64 (n,), w > 0; infinite where they say nothing.
        means: float64 (n,), μ > 0; infinite for nodes whose value has no prior of its own.
        least_probability: float64 (n,), a node is listed that is not 0 with at least this probability.
        least_median: and whose median count is at least this; 0 where that does not matter.
        reach: no threshold is looked for further below the measurement, in standard deviations of the noise.

    Returns:
        Float64 (n,), at most `noisy`; −inf where the node would be listed with any measurement within reach.

    Example:
        One leaf with noise of standard deviation 5, which all else gives odds of 1 : 100:

        >>> one = np.ones(1)
        >>> chance = one / (1 + 100 * np.exp(-11.0))  # with a measurement of 30, about
        >>> least_listed(30 * one, 25 * one, chance, 0 * one, np.inf * one, 20 * one, 0.5 * one, 0).round(1).tolist()
        [17.6]
    """
    return _least_listed(
        noisy, variances, probability, around, around_variance, means, least_probability, float(least_median), reach
    )


@kernel
def _gain(y: float, variance: float, around: float, width: float, mean: float) -> tuple[float, float, float]:
    """What y adds to the log odds, but for a constant; and the mean and variance of the node if it is not 0."""
    if mean < np.inf:
        evidence, z, u = leaf_posterior(y, variance, mean)
        if width == np.inf:
            return evidence, z, u
        s = 1 / (1 / u + 1 / width)
        return evidence + log_normal(around - z, width + u), s * (z / u + around / width), s
    s = 1 / (1 / variance + 1 / width)
    m = s * (y / variance + around / width)
    r = m / math.sqrt(s)
    below = log_cdf(r)
    ratio = math.exp(-0.5 * r * r - LOG_ROOT_2PI - below)
    return 0.5 * r * r + below, m + math.sqrt(s) * ratio, s * max(1 - ratio * (r + ratio), 1e-3)


@inlined
def _quantile(p: float) -> float:
    """The standard normal quantile for p in [0, ½], by bisection; used for medians, which need no digits."""
    low, high = -9.0, 0.0
    for _ in range(_HALVINGS_OF_QUANTILE):
        middle = (low + high) / 2
        if 0.5 * math.erfc(-middle / math.sqrt(2)) < p:
            low = middle
        else:
            high = middle
    return high


@inlined
def _is_listed(log_odds: float, mean: float, variance: float, least: float, least_median: float) -> bool:
    p = 1 / (1 + math.exp(-log_odds)) if log_odds > -700 else 0.0
    if p < least:
        return False
    if least_median <= 0:
        return True
    return p > 0.5 and mean + math.sqrt(variance) * _quantile(1 - 0.5 / p) >= least_median


@kernel
def _least_listed(
    noisy: FloatArray,
    variances: FloatArray,
    probability: FloatArray,
    around: FloatArray,
    around_variance: FloatArray,
    means: FloatArray,
    least_probability: FloatArray,
    least_median: float,
    reach: float,
) -> FloatArray:
    """Invariant of the bisection: the node is not listed at `low`, and is listed at `high`."""
    found = np.full(len(noisy), -np.inf)
    for i in range(len(noisy)):
        p, v = probability[i], variances[i]
        certain = 1 - p < CERTAIN
        if p <= 0 or (certain and least_median <= 0):
            continue
        gain, _, _ = _gain(noisy[i], v, around[i], around_variance[i], means[i])
        others = np.inf if certain else math.log(p / (1 - p)) - gain
        low, high = noisy[i] - reach * math.sqrt(v), noisy[i]
        gain, mean, variance = _gain(low, v, around[i], around_variance[i], means[i])
        if _is_listed(others + gain, mean, variance, least_probability[i], least_median):
            continue
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            gain, mean, variance = _gain(middle, v, around[i], around_variance[i], means[i])
            if _is_listed(others + gain, mean, variance, least_probability[i], least_median):
                high = middle
            else:
                low = middle
        found[i] = high
    return found


REACH = 50.0
"""In standard deviations, beyond any quantile at the least α that is allowed."""


def listed_intervals(
    noisy: FloatArray, std_devs: FloatArray, least: FloatArray, alpha: float, *, laplace: bool
) -> tuple[IntArray, IntArray]:
    """Lower and upper ends for numbers that are listed because of their measurements: two int64 (n,).

    Args:
        noisy: float64 (n,), the measurements.
        std_devs: float64 (n,), of their noise, > 0.
        least: float64 (n,), the least measurement at which each is listed; −inf where it is listed anyway.
        alpha: an interval is to miss its number with this probability.
        laplace: whether the noise is Laplace noise, and not normal.

    Returns:
        Integers ≥ 0.

    Example:
        Listed anyway; listed from 15 on, which 16 has reached narrowly:

        >>> y, one = np.array([16.0, 16.0]), np.ones(2)
        >>> [each.tolist() for each in listed_intervals(y, 5 * one, np.array([-np.inf, 15]), 0.1, laplace=False)]
        [[8, 0], [24, 22]]
    """
    return _listed_intervals(noisy, std_devs, least, alpha / 2, laplace)


@kernel
def listing_bias(theta: FloatArray, std_devs: FloatArray, least: FloatArray, laplace: bool) -> FloatArray:
    """By how much the noise of a listed number is larger than 0 on average: E[Y − θ | Y ≥ t], float64 (n,).

    Args:
        theta: float64 (n,), the true numbers.
        std_devs: float64 (n,), of the noise, > 0.
        least: float64 (n,), t; −inf gives 0.
        laplace: whether the noise is Laplace noise, and not normal.

    Example:
        >>> listing_bias(np.zeros(2), np.ones(2), np.array([0.5, -np.inf]), laplace=False).round(4).tolist()
        [0.7979, 0.0]
    """
    found = np.zeros(len(theta))
    for i in range(len(theta)):
        if least[i] == -np.inf:
            continue
        s = (least[i] - 0.5 - theta[i]) / std_devs[i]
        if not laplace:
            found[i] = std_devs[i] * math.exp(-0.5 * s * s - LOG_ROOT_2PI - log_cdf(-s))
            continue
        b = 1 / math.sqrt(2)
        below = 0.5 * math.exp(min(s, 0.0) / b)
        found[i] = std_devs[i] * (s + b if s >= 0 else below * (b - s) / (1 - below))
    return found


@kernel
def _log_tail(x: float, laplace: bool) -> float:
    """The logarithm of the probability that noise of standard deviation 1 exceeds x."""
    if not laplace:
        return log_cdf(-x)
    x *= math.sqrt(2)
    return math.log(0.5) - x if x > 0 else math.log1p(-0.5 * math.exp(x))


@kernel
def _above(y: float, theta: float, deviation: float, least: float, laplace: bool) -> float:
    """P(Y > y) + ½·P(Y = y), given Y ≥ least."""
    given = 0.0 if least == -np.inf else _log_tail((least - 0.5 - theta) / deviation, laplace)
    found = 0.0
    for side in (-0.5, 0.5):
        found += 0.5 * math.exp(min(_log_tail((y + side - theta) / deviation, laplace) - given, 0.0))
    return found


@kernel
def _listed_intervals(
    noisy: FloatArray, std_devs: FloatArray, least: FloatArray, tail: float, laplace: bool
) -> tuple[IntArray, IntArray]:
    """Invariant: `low` and `high` are on either side of the end that is looked for; tails are monotone in θ."""
    n = len(noisy)
    lower, upper = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for i in range(n):
        y, deviation, t = noisy[i], std_devs[i], min(least[i], noisy[i])
        top = math.ceil(max(y, 0.0) + REACH * deviation) + 1
        low, high = -1, top  # P(Y ≥ y) ≤ tail below the lower end
        while high - low > 1:
            middle = (low + high) // 2
            if _above(y, middle, deviation, t, laplace) > tail:
                high = middle
            else:
                low = middle
        lower[i] = high
        low, high = 0, top + 1  # P(Y ≤ y) ≤ tail above the upper end
        while high - low > 1:
            middle = (low + high) // 2
            if 1 - _above(y, middle, deviation, t, laplace) > tail:
                low = middle
            else:
                high = middle
        upper[i] = max(low, lower[i])
    return lower, upper
