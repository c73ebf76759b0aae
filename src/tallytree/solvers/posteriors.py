"""What is expected of a true number, given its noisy estimate and a law of how far numbers lie from what is expected.

`laws` defines y, s, M and laws, and learns them. Here is what a law consists of, and its posteriors.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.kernels import inlined, kernel

LOG_RANGE = 20.0
"""The logarithm of the range of an outlier's size."""
MOST_MOVED = 2.0
"""No estimate is moved by more than so many standard deviations."""
POWERS = (-8, 30)
"""M below or above these powers of two is in the first or the last stratum."""
NEGLIGIBLE = 1e-7
"""A part of a law with less weight is left out of posteriors."""
ALIKE = (0.05, 0.01)
"""Parts are taken as one if their means are at most the first, in units of s, and their variances the second, of s²."""


class Parts(NamedTuple):
    """The parts of a law but the outlier: x is about r·M, with the variance own·r·M + (width·r·M)² + (near·s)².

    Attributes:
        ratio: float64 (parts,), r.
        own: (parts,), 1 for the variance of a count.
        width: (parts,).
        near: (parts,).
        begin: (parts + 1,), the weights where EM begins, last that of an outlier.
        prior: how many cells these count as, beside those that a law is learned from.
        steps: the sizes beside those of all ratios that are guarded: M and so many s; (0,) for none.
    """

    ratio: FloatArray
    own: FloatArray
    width: FloatArray
    near: FloatArray
    begin: FloatArray
    prior: float
    steps: FloatArray

    def no_nearer_than(self, near: float) -> Parts:
        """The parts, of which those about M have this deviation besides, in units of s."""
        return self._replace(near=np.where(self.near > 0, np.hypot(self.near, near), 0.0))


@inlined
def power_of_two(expected: float) -> int:
    """The power of two of M, from 0 for the least."""
    return min(max(math.frexp(expected)[1] - 1, POWERS[0]), POWERS[1]) - POWERS[0]


@inlined
def near_ratio(y: float, mean: float, variance: float) -> float:
    """The density of y, up to 1/√(2π), where x is near r·M; `variance` is of y."""
    return math.exp(-0.5 * (y - mean) ** 2 / variance) / math.sqrt(variance)


@inlined
def outlying(y: float, s: float) -> float:
    """The density of y of an outlier, in the same unit: 1/x about y, as far as x ≥ 0."""
    return 2.5066282746310002 * 0.5 * math.erfc(-y / s * 0.7071067811865476) / (LOG_RANGE * max(y, s))


@inlined
def own_variance(parts: Parts, k: int, mean: float, s: float) -> float:
    """The variance of x by a part of a law, about its mean r·M."""
    found: float = parts.own[k] * mean + (parts.width[k] * mean) ** 2 + (parts.near[k] * s) ** 2
    return found


@inlined
def _alike(ratio: FloatArray, many: int, most: float) -> int:
    """How many of the first so many ratios, which ascend, are at most a number."""
    low, high = 0, many
    while low < high:
        middle = (low + high) // 2
        if ratio[middle] <= most:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _first_moments(weights: FloatArray, of: Parts) -> FloatArray:
    """Of the first parts of each law, 0, 1, …: float64 (strata, parts, 4): Σw, Σwr, Σw·own·r and Σwr²(1 + width²)."""
    found = np.zeros((len(weights), len(of.ratio) + 1, 4))
    for k in range(len(weights)):
        for j in range(len(of.ratio)):
            w, r = weights[k, j], of.ratio[j]
            found[k, j + 1] = found[k, j]
            found[k, j + 1, 0] += w
            found[k, j + 1, 1] += w * r
            found[k, j + 1, 2] += w * of.own[j] * r
            found[k, j + 1, 3] += w * r * r * (1.0 + of.width[j] ** 2)
    return found


@inlined
def _of_part(z: float, middle: float, own: float, s: float) -> tuple[float, float, float]:
    """Of a part of a law: the density of y = z, the mean of x counted from z, and its variance.

    Squares of large numbers would leave no digits for variances; so x is counted from z.
    """
    of_y = s * s + own
    return near_ratio(z, middle, of_y), (middle - z) * (s * s / of_y), own * s * s / of_y


@inlined
def _of_first(
    z: float, m: float, s: float, w: float, wr: float, own: float, square: float
) -> tuple[float, float, float]:
    """`_of_part` of several parts as one, with their mean and variance; the density is times their weight."""
    if w <= 0.0:
        return 0.0, 0.0, 0.0
    mean = wr / w
    like, step, left = _of_part(z, m * mean, m * own / w + m * m * max(square / w - mean * mean, 0.0), s)
    return like * w, step, left


@kernel
def posteriors(
    y: FloatArray,
    expected: FloatArray,
    deviations: FloatArray,
    stratum: IntArray,
    weights: FloatArray,
    careful: FloatArray,
    of: Parts,
    mean: FloatArray,
    variance: FloatArray,
    held: FloatArray,
) -> None:
    """Write what is expected of each true number, given its estimate and the law, and the variance of that.

    Where M is small beside s, parts of small ratios say the same of y. They are taken as one (`ALIKE`).

    Args:
        y: (areas, cells).
        expected: (areas, cells), M.
        deviations: (areas,), s.
        stratum: of each power of two.
        weights: (strata, parts + 1).
        careful: (strata, parts + 1), guarded.
        of: the parts of the laws.
        mean: (areas, cells), written: what is expected by the guarded law, no further from y than `MOST_MOVED` standard
            deviations, but ≥ 0.
        variance: (areas, cells), written. Both are 0 where M is 0; where s is 0, the mean is y.
        held: (areas, cells), written: by how much that is more than what is expected by the law.
    """
    parts, plain = len(of.begin), 0
    while plain < len(of.near) and of.near[plain] == 0.0:
        plain += 1
    moments, moments_careful = _first_moments(weights, of), _first_moments(careful, of)
    for c in range(len(y)):
        s = deviations[c]
        reach = min(ALIKE[0] * s, ALIKE[1] * s * s)
        for g in range(y.shape[1]):
            m = expected[c, g]
            mean[c, g], variance[c, g], held[c, g] = max(y[c, g], 0.0) if m > 0.0 else 0.0, 0.0, 0.0
            if m <= 0.0 or s <= 0.0:
                continue
            k = stratum[power_of_two(m)]
            z = y[c, g]
            merged = _alike(of.ratio, plain, reach / m)
            like, step, square = _of_first(
                z, m, s, moments[k, merged, 0], moments[k, merged, 1], moments[k, merged, 2], moments[k, merged, 3]
            )
            whole, first, second = like, like * step, like * (step * step + square)
            like, step, square = _of_first(
                z,
                m,
                s,
                moments_careful[k, merged, 0],
                moments_careful[k, merged, 1],
                moments_careful[k, merged, 2],
                moments_careful[k, merged, 3],
            )
            whole_careful, first_careful = like, like * step
            for j in range(merged, parts):
                if careful[k, j] < NEGLIGIBLE:
                    continue
                if j < parts - 1:
                    middle = of.ratio[j] * m
                    own = of.own[j] * middle + (of.width[j] * middle) ** 2 + (of.near[j] * s) ** 2
                    like, step, square = _of_part(z, middle, own, s)
                else:
                    like, step, square = outlying(z, s), max(-z, 0.0), s * s
                whole += weights[k, j] * like
                first += weights[k, j] * like * step
                second += weights[k, j] * like * (step * step + square)
                whole_careful += careful[k, j] * like
                first_careful += careful[k, j] * like * step
            if whole <= 0.0:  # so far below 0 that nothing explains it
                variance[c, g] = s * s
                continue
            found = first / whole  # steps from z: their squares do not lose the variance of a large number
            near = max(z + max(min(first_careful / whole_careful, MOST_MOVED * s), -MOST_MOVED * s), 0.0)
            mean[c, g], held[c, g] = near, near - z - found
            variance[c, g] = max(second / whole - found * found, 0.0)
