"""How probable it is that listed nodes are 0, corrected by how often noise alone gives such measurements.

A model of the data gives each node a probability q of being 0. How many measurements of nodes that are 0 lie in a range
is known without a model: the number of these nodes times the probability of the noise. In ranges of the measurement
all odds q/(1 − q) are multiplied by the factor with which their sum is that number. Where it is known to within √n of a
few, the factor is drawn to 1. (Efron 2004, Large-scale simultaneous hypothesis testing, has the ratio of the two
densities, without the model.)
"""

from __future__ import annotations

import math

import numpy as np

from tallytree.solvers.normal_law import log_cdf
from tallytree.support.arrays import FloatArray, IntArray

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
