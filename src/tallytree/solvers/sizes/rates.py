"""How many groups of each size to expect in a node, and how far the numbers scatter, from its noisy tail counts.

Source: ours; the likelihood is that of a Kalman filter.
"""

from __future__ import annotations

import numpy as np

from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.copying import put
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
