"""Intervals for numbers that are listed because their noisy measurement was large enough.

A number θ ≥ 0 is measured as y = θ + noise, and is listed only if y ≥ t. Given that it is listed, noise that lowers it
is missing: y ± q·σ misses θ too often, above all where θ is small. The interval of all θ for which

    P(Y ≥ y | Y ≥ t) > α/2   and   P(Y ≤ y | Y ≥ t) > α/2

misses θ with probability α given that it is listed, whatever θ is (Fithian, Sun and Taylor 2014, Optimal inference
after model selection; Weinstein, Fithian and Benjamini 2013, JASA 108). Numbers are integers; y itself counts half on
either side (mid-p), and tails are those of the continuous law half a unit further out.
"""

from __future__ import annotations

import math

import numpy as np

from tallytree.solvers.normal_law import LOG_ROOT_2PI, log_cdf
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.kernels import kernel

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


def listing_bias(theta: FloatArray, std_devs: FloatArray, least: FloatArray, *, laplace: bool) -> FloatArray:
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
    return _listing_bias(theta, std_devs, least, laplace)


@kernel
def _listing_bias(theta: FloatArray, std_devs: FloatArray, least: FloatArray, laplace: bool) -> FloatArray:
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
