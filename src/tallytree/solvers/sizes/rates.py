"""How many groups of each size to expect in a node, and how far the numbers scatter, from its noisy tail counts.

Source: ours; the likelihood is that of a Kalman filter.

**Rates that are estimates.** How much larger the errors of tail counts are because the rates that are expected are
estimates, too.

A posterior (`state_chain.posterior`) takes its rates μ as known. Here they are not: in the Gaussian chain of
`gaussian_chain`, the mean of drop r is μ_r·(1 + `DOUBT`·ξ_r). ξ has mean 0 and variance 1, and its values at the sizes
s < t have the correlation exp(−log(t / s) / `REACH`). With (x_r, ξ_r) as its state this is a Markov chain again, so
posterior variances come from a Kalman filter and the smoother of Rauch, Tung and Striebel (1965). They depend on the
noise, on μ and on κ, not on the noisy values.

Their ratio to the variances with known rates is 1 where a node's own cells tell its counts, and more where the rates
do. It is applied to posteriors of integers too, which have no such closed form.

Source: ours.
"""

from __future__ import annotations

import math

import numpy as np

from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.kernel_arrays import put
from tallytree.support.kernels import inlined, kernel

WINDOW = 0.25
"""Rates are averages over sizes that differ by at most this share."""
MIN_RATE = 1e-6
BLOCK_RATIO = 1.5
"""Sizes within a block, over which the dispersion is constant, differ by at most this factor."""
TOGETHER = 16
"""Spreads whose logarithm is computed at once."""
ROUNDING = 1e-8
"""A difference of log-likelihoods of more than this part of them is not due to rounding: it is some forty times what
2^20 cells, the most that a node may have, could cause."""
CHANGE_COST = 1.0
"""Log-likelihood that a block must gain for each step on the list of dispersions from that of all blocks."""

DISPERSIONS = np.array([0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0, 1e3, 1e4, 1e6, 1e9])
"""κ to choose from, the variance of a drop over its rate: 1 for Poisson numbers; the last hardly smooths."""


def size_blocks(cells: int, first_size: int) -> IntArray:
    """The block of each cell: int64 (cells,), from 0."""
    sizes = np.arange(cells, dtype=np.float64) + max(first_size, 1)
    return np.asarray(np.log(sizes / max(first_size, 1)) / np.log(BLOCK_RATIO), dtype=np.int64)


@kernel
def local_rates(fit: FloatArray, first_size: int, extra: float, mu: FloatArray) -> None:
    """μ_r, r = 1 … n − 1: the drops of `fit` per size, averaged over the sizes within `WINDOW`; mu[0] = mu[n] = 0.

    Drop r is the number of groups of size first_size + r − 1. `extra` groups are added to each window, so that no rate
    is 0.
    """
    n = len(fit)
    mu[0] = mu[n] = 0.0
    for r in range(1, n):
        reach = max(2, int(WINDOW * (first_size + r - 1)))
        low, high = max(r - 1 - reach, 0), min(r + reach, n - 1)
        mu[r] = max((fit[low] - fit[high] + extra) / (high - low), MIN_RATE)


@kernel
def log_likelihoods(
    value: FloatArray,
    information: float,
    mu: FloatArray,
    block: IntArray,
    dispersions: FloatArray,
    out: FloatArray,
    together: int | np.int64,
) -> None:
    """Add log p(value_r | value_0 … value_(r−1)) to out[k, block[r]] for each κ_k (Kalman filter, r ≥ 1).

    Blocks are runs of cells. The filters of all κ go forward side by side. Most of the time would go into logarithms,
    so the logarithm of so many spreads `together`, within a block, is that of their product. With more than one, sums
    are rounded otherwise, and a product may overflow: `likeliest_dispersions` says whether that can matter. A literal 1
    would be compiled once more; np.int64(1) is not.
    """
    n = len(dispersions)
    noise = 1.0 / information
    mean, variance, total = np.full(n, value[0]), np.full(n, noise), np.empty(n)
    spreads, surprise = np.ones(n), np.zeros(n)
    here, held = -1, 0
    for r in range(1, len(value)):
        if held == together or (held > 0 and block[r] != here):
            for k in range(n):
                total[k] -= 0.5 * (np.log(spreads[k]) + surprise[k])
                spreads[k], surprise[k] = 1.0, 0.0
            held = 0
        if block[r] != here:
            if here >= 0:
                put(total, out[:, here])
            here = block[r]
            put(out[:, here], total)
        held += 1
        drop, given = mu[r], value[r]
        for k in range(n):  # `np.divide` does not test for a zero, so the loop is vectorised; a spread is > 0
            expected = mean[k] - drop
            before = variance[k] + dispersions[k] * drop
            spread = before + noise
            innovation = given - expected
            spreads[k] *= spread
            surprise[k] += np.divide(innovation * innovation, spread)
            gain = np.divide(before, spread)
            mean[k] = expected + gain * innovation
            variance[k] = before * (1.0 - gain)
    if held > 0:
        for k in range(n):
            total[k] -= 0.5 * (np.log(spreads[k]) + surprise[k])
    if here >= 0:
        put(total, out[:, here])


@inlined
def noise_variance(scale: float, laplace: bool) -> float:
    """Of the noise in a raw cell, about."""
    return 2.0 * scale * scale if laplace else scale * scale


@kernel
def likeliest_dispersions(
    likelihood: FloatArray, block: IntArray, dispersions: FloatArray, dispersion: FloatArray
) -> bool:
    """The κ of each drop r = 0 … len(block) − 1, which is that of its block.

    A block's κ is that of greatest likelihood, less `CHANGE_COST` per step from that of all blocks together.

    Returns:
        Whether each choice is better than all others by more than sums that are rounded otherwise could differ.
    """
    choice = np.zeros(likelihood.shape[1], np.int64)
    n, blocks = likelihood.shape
    best = 0
    top = -np.inf
    worth, size = np.empty(n), np.empty(n)
    for k in range(n):
        worth[k] = size[k] = 0.0
        for b in range(blocks):
            worth[k] += likelihood[k, b]
            size[k] += abs(likelihood[k, b])
        if worth[k] > top:
            top, best = worth[k], k
    clear = _stands_out(worth, size, best)
    for b in range(blocks):
        top = -np.inf
        for k in range(n):
            worth[k] = likelihood[k, b] - CHANGE_COST * abs(k - best)
            size[k] = abs(likelihood[k, b])
            if worth[k] > top:
                top = worth[k]
                choice[b] = k
        clear = clear and _stands_out(worth, size, choice[b])
    for r in range(len(block)):
        dispersion[r] = dispersions[choice[block[r]]]
    return clear


@inlined
def _stands_out(worth: FloatArray, size: FloatArray, best: int) -> bool:
    """Whether the best is better than all others by more than `ROUNDING` of what they were added up from."""
    for k in range(len(worth)):
        # Written so that what is not a number does not stand out.
        if k != best and not worth[best] - worth[k] > ROUNDING * (size[best] + size[k] + len(worth)):
            return False
    return True


@inlined
def choose_dispersion(
    values: IntArray, raw: float, mu: FloatArray, block: IntArray, dispersions: FloatArray, dispersion: FloatArray
) -> None:
    """κ of each drop, by blocks, from the likelihood of the noisy values; its first and last are infinite."""
    n = len(values)
    likelihood = np.zeros((len(dispersions), block[n - 1] + 1))
    for together in (TOGETHER, 1):
        if len(dispersions) > 1:
            likelihood[:] = 0.0
            log_likelihoods(values.astype(np.float64), raw, mu, block, dispersions, likelihood, together)
        if likeliest_dispersions(likelihood, block, dispersions, dispersion):
            break
    dispersion[0] = dispersion[n] = np.inf


DOUBT = 2.0
"""The standard deviation of a rate about its estimate, as a part of it: a node may have no groups of some sizes, or
several times as many as expected. Where noise hides them, no data can tell; 0.5 and 1 are not enough on real data."""
REACH = 0.5
"""The distance in log(size) at which the correlation of such deviations is 1/e. Rates are averages over half of that in
either direction, so they can follow deviations that are much longer."""
UNBOUNDED = 1e200
"""The variance of a drop that is not modelled."""


@kernel
def widen(
    noise: float,
    mu: FloatArray,
    dispersion: FloatArray,
    first_size: int,
    wide: FloatArray,
    factor: FloatArray,
    scratch: FloatArray,
) -> None:
    """Posterior variances of a chain with uncertain rates, and their ratios to those with known rates.

    A covariance of (x, ξ) is written (a, b, c): of x, of both, of ξ.

    Args:
        noise: the variance of the noise in a cell.
        mu: (>= n,) rates of the drops; that of cell 0 is not used.
        dispersion: (>= n,) κ of each drop.
        first_size: the size of cell 0.
        wide: (n,) out, variances with uncertain rates.
        factor: (n,) out, ≥ 1.
        scratch: (9, >= n)
    """
    n = len(wide)
    a_after, b_after, c_after, a_before, b_before, c_before = (
        scratch[0],
        scratch[1],
        scratch[2],
        scratch[3],
        scratch[4],
        scratch[5],
    )
    area, known_after, known_before = scratch[6], scratch[7], scratch[8]
    a, b, c, known = noise, 0.0, 1.0, noise
    a_after[0], b_after[0], c_after[0], known_after[0] = a, b, c, known
    for r in range(1, n):
        stay, slope, spread = _step(r, mu, dispersion, first_size)
        # ξ goes on first. The determinant is computed before x takes over part of ξ, which cancels digits.
        b, c = stay * b, stay * stay * c + 1.0 - stay * stay
        area[r] = max(a * c - b * b, 0.0) + spread * c
        a, b = a - 2.0 * slope * b + slope * slope * c + spread, b - slope * c
        known += spread
        a_before[r], b_before[r], c_before[r], known_before[r] = a, b, c, known
        total = a + noise
        c = (area[r] + noise * c) / total
        a, b = a * (noise / total), b * (noise / total)
        known *= noise / (known + noise)
        a_after[r], b_after[r], c_after[r], known_after[r] = a, b, c, known
    wide[n - 1], factor[n - 1] = a, max(a / known, 1.0)
    for r in range(n - 2, -1, -1):
        stay, slope, _ = _step(r + 1, mu, dispersion, first_size)
        # The gain is (covariance of this state and the next) · (inverse of the covariance before of the next).
        x_x, x_xi = a_after[r] - slope * stay * b_after[r], stay * b_after[r]
        xi_x, xi_xi = b_after[r] - slope * stay * c_after[r], stay * c_after[r]
        p, q, s = c_before[r + 1] / area[r + 1], -b_before[r + 1] / area[r + 1], a_before[r + 1] / area[r + 1]
        g00, g01, g10, g11 = x_x * p + x_xi * q, x_x * q + x_xi * s, xi_x * p + xi_xi * q, xi_x * q + xi_xi * s
        da, db, dc = a - a_before[r + 1], b - b_before[r + 1], c - c_before[r + 1]
        h00, h01, h10, h11 = g00 * da + g01 * db, g00 * db + g01 * dc, g10 * da + g11 * db, g10 * db + g11 * dc
        a = a_after[r] + h00 * g00 + h01 * g01
        b = b_after[r] + h00 * g10 + h01 * g11
        c = c_after[r] + h10 * g10 + h11 * g11
        gain = known_after[r] / known_before[r + 1]
        known = known_after[r] + gain * (gain * (known - known_before[r + 1]))
        # Rounding may leave these bounds where the noise is tiny beside the rates.
        a = min(max(a, known), a_after[r])
        wide[r], factor[r] = a, a / known


@inlined
def _step(r: int, mu: FloatArray, dispersion: FloatArray, first_size: int) -> tuple[float, float, float]:
    """From cell r − 1 to r: how much of ξ stays, what ξ = 1 adds to the drop, and the drop's own variance."""
    rate = max(mu[r], MIN_RATE)
    stay = math.exp(-1.0 / (REACH * max(first_size + r, 1)))
    return stay, DOUBT * rate, min(dispersion[r] * rate, UNBOUNDED)
