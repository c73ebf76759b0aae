"""The exact posterior of a node's tail counts as whole numbers, a hidden Markov chain, where few groups have one size.

Source: ours; forward and backward recursions of hidden Markov models (Rabiner 1989).
"""

from __future__ import annotations

import math

import numpy as np

from tallytree.compute.arrays import FloatArray, IntArray
from tallytree.compute.kernels import kernel
from tallytree.solvers.gaussian_chain import smooth

NEGLIGIBLE = 1e-9
MAX_POISSON = 32.0
"""Above this dispersion, drops are modelled as rare jumps of any height."""
MAX_SCALE_OF_JUMPS = 64.0
MAX_DROPS = 1024
MAX_VARIANCE = 1000.0
"""Drops with a variance up to this are taken as whole numbers."""
MAX_SCALE = 256.0
"""With noise of a greater scale whole numbers are not told apart."""
MIN_VARIANCE = 1e-5
"""Of a posterior. What is all but certain in a leaf must stay so when many leaves are added up."""


@kernel
def drop_masses(rate: float, dispersion: float, masses: FloatArray) -> int:
    """Probabilities of 0, 1, 2, … groups: Poisson, or negative binomial where the dispersion is above 1.

    Returns how many matter; at most len(masses).
    """
    if rate <= 0:
        masses[0] = 1.0
        return 1
    if dispersion > 1.001:
        r, q = rate / (dispersion - 1.0), 1.0 - 1.0 / dispersion
        masses[0] = math.exp(-r * math.log(dispersion))
    else:
        r, q = 0.0, rate
        masses[0] = math.exp(-rate)
    j = 0
    while j + 1 < len(masses):
        masses[j + 1] = masses[j] * ((r + j) * q / (j + 1) if r > 0 else q / (j + 1))
        j += 1
        if j > rate and masses[j] < NEGLIGIBLE:
            break
    return j + 1


@kernel
def jump_masses(rate: float, dispersion: float) -> tuple[float, float]:
    """π and q of a drop that is 0 with probability 1 − π, else geometric, P(j) = (1 − q) q^j, with this rate and κ."""
    height = 0.5 * dispersion
    chance = min(max(rate / height, 1e-4), 0.5)
    height = max(height, rate / chance)
    return chance, height / (1.0 + height)


@kernel
def fall_off(gap: int, nearest: int, scale: float, laplace: bool, falls: FloatArray) -> float:
    """The likelihood of a gap between value and state, over that of the nearest state; falls[i] = exp(−i / scale)."""
    if laplace:
        return falls[gap - nearest] if gap - nearest < len(falls) else 0.0
    return math.exp(0.5 * (nearest - gap) * (nearest + gap) / (scale * scale))


@kernel
def count_states(
    values: IntArray,
    scale: float,
    laplace: bool,
    mu: FloatArray,
    dispersion: FloatArray,
    cap: float,
    mean: FloatArray,
    variance: FloatArray,
) -> None:
    """Exact posterior of whole numbers where drops are rare; overwrites mean and variance there.

    A hidden Markov chain from the last cell to the first: x_(r−1) = x_r + d_r, d_r as `drop_masses`. Drops whose
    variance is above `MAX_VARIANCE` break the chain; cells between two breaks are left as they are. States that are
    `NEGLIGIBLE` beside the likeliest are dropped, so a cell costs (states kept) × (drops that matter).
    """
    if scale > MAX_SCALE:
        return
    n = len(values)
    reach = int(30.0 * scale) + 2
    low, size, place = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n + 1, np.int64)
    kept = np.empty(64 * 1024)
    masses = np.empty(MAX_DROPS)
    room = 4 * reach + 4 * MAX_DROPS + 64
    work, other, sums = np.empty(room), np.empty(room), np.empty(room)
    falls = np.exp(-np.arange(4 * reach) / scale)
    used = 0
    place[n] = 0
    broken = np.empty(n + 1, np.bool_)  # broken[r]: drop r is not modelled
    broken[0] = broken[n] = True
    for r in range(1, n):
        spread = dispersion[r] * mu[r]
        most = mu[r] + 6.0 * math.sqrt(spread) + 20.0 * max(dispersion[r] - 1.0, 1.0)
        if dispersion[r] > MAX_POISSON:
            broken[r] = scale > MAX_SCALE_OF_JUMPS or math.isinf(dispersion[r])
        else:
            broken[r] = spread > MAX_VARIANCE or most > MAX_DROPS
    # Forward, from the right: kept[place[r] : place[r] + size[r]] ~ p(x_r, y_r … y_(n−1)), states low[r], low[r] + 1, …
    for r in range(n - 1, -1, -1):
        if broken[r] and broken[r + 1]:
            low[r], size[r], place[r] = 0, 0, used
            continue
        if broken[r + 1]:
            first = max(int(values[r]) - reach, 0)
            last = max(int(min(float(max(int(values[r]) + reach, 0)), cap)), 0)
            first = min(first, last)
            width = last - first + 1
            for k in range(width):
                work[k] = 1.0
        elif dispersion[r + 1] > MAX_POISSON:
            chance, ratio = jump_masses(mu[r + 1], dispersion[r + 1])
            at, bottom, top_state = place[r + 1], low[r + 1], low[r + 1] + size[r + 1] - 1
            first = min(max(bottom, int(values[r]) - reach), top_state + int(values[r]) + reach)
            first = max(min(first, int(min(cap, 9e15))), bottom)
            last = int(min(float(max(top_state, int(values[r]) + reach)), cap))
            width = max(last - first + 1, 1)
            carried = 0.0  # chance · (1 − ratio) · Σ_j kept[j] ratio^(state − j), so far
            for j in range(min(first - bottom, size[r + 1])):
                carried = carried * ratio + kept[at + j]
            if first - bottom > size[r + 1]:
                carried *= ratio ** float(first - bottom - size[r + 1])
            for k in range(width):
                j = first + k - bottom
                here = kept[at + j] if j < size[r + 1] else 0.0
                carried = carried * ratio + here
                work[k] = (1.0 - chance) * here + chance * (1.0 - ratio) * carried
        else:
            many = drop_masses(mu[r + 1], dispersion[r + 1], masses)
            first = low[r + 1]
            width = size[r + 1] + many - 1
            if first + width - 1 > cap:
                width = max(int(cap) - first + 1, 1)
            at = place[r + 1]
            for k in range(width):
                work[k] = 0.0
            for j in range(many):
                mass = masses[j]
                for k in range(min(size[r + 1], width - j)):
                    work[k + j] += mass * kept[at + k]
        nearest = max(first - values[r], values[r] - (first + width - 1), 0)
        top = 0.0
        for k in range(width):
            work[k] *= fall_off(abs(values[r] - (first + k)), nearest, scale, laplace, falls)
            top = max(top, work[k])
        if top <= 0.0:
            top = 1e-300
        start, stop = 0, width
        while start < stop - 1 and work[start] < NEGLIGIBLE * top:
            start += 1
        while stop - 1 > start and work[stop - 1] < NEGLIGIBLE * top:
            stop -= 1
        if used + stop - start > len(kept):
            larger = np.empty(2 * (used + stop - start))
            larger[:used] = kept[:used]
            kept = larger
        low[r], size[r], place[r] = first + start, stop - start, used
        for k in range(start, stop):
            kept[used] = work[k] / top
            used += 1
    # Backward, from the left: work[k] ~ p(y_0 … y_(r−1) | x_r = low[r] + k).
    for r in range(n):
        if broken[r] and broken[r + 1]:
            continue
        if broken[r]:
            for k in range(size[r]):
                work[k] = 1.0
        elif dispersion[r] > MAX_POISSON:
            chance, ratio = jump_masses(mu[r], dispersion[r])
            for i in range(size[r - 1] - 2, -1, -1):  # tail sums Σ_j ratio^j other[i + j]
                sums[i] = other[i] + ratio * (sums[i + 1] if i + 1 < size[r - 1] - 1 else other[i + 1])
            sums[size[r - 1] - 1] = other[size[r - 1] - 1]
            top = 0.0
            for k in range(size[r]):
                i = low[r] + k - low[r - 1]
                if i < 0:
                    work[k] = chance * (1.0 - ratio) * sums[0] * ratio ** float(-i)
                elif i < size[r - 1]:
                    work[k] = (1.0 - chance) * other[i] + chance * (1.0 - ratio) * sums[i]
                else:
                    work[k] = 0.0
                top = max(top, work[k])
            if top <= 0.0:
                for k in range(size[r]):
                    work[k] = 1.0
                top = 1.0
            for k in range(size[r]):
                work[k] /= top
        else:
            many = drop_masses(mu[r], dispersion[r], masses)
            # other[k] = likelihood of y_(r−1) times the message of r − 1, on the states of r − 1
            top = 0.0
            for k in range(size[r]):
                total = 0.0
                for j in range(many):
                    i = low[r] + k + j - low[r - 1]
                    if 0 <= i < size[r - 1]:
                        total += masses[j] * other[i]
                work[k] = total
                top = max(top, total)
            if top <= 0.0:
                for k in range(size[r]):
                    work[k] = 1.0
                top = 1.0
            for k in range(size[r]):
                work[k] /= top
        at = place[r]
        total = average = square = 0.0
        for k in range(size[r]):
            p = kept[at + k] * work[k]
            total += p
            average += p * k
            square += p * k * k
        if total > 0.0:
            average /= total
            mean[r] = low[r] + average
            variance[r] = max(square / total - average * average, 0.0)
        nearest = max(low[r] - values[r], values[r] - (low[r] + size[r] - 1), 0)
        for k in range(size[r]):
            other[k] = work[k] * fall_off(abs(values[r] - (low[r] + k)), nearest, scale, laplace, falls)


@kernel
def posterior(
    values: IntArray,
    scale: float,
    laplace: bool,
    cap: float,
    mu: FloatArray,
    dispersion: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    scratch: FloatArray,
) -> None:
    """Posterior mean and variance of every cell, whole numbers where drops are rare, Gaussian elsewhere."""
    smooth(values, scale, laplace, mu, dispersion, mean, variance, scratch)
    count_states(values, scale, laplace, mu, dispersion, cap, mean, variance)
    for r in range(len(values)):
        variance[r] = max(variance[r], MIN_VARIANCE)
