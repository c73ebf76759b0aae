"""How many groups of each size to expect in a node, and how far the numbers scatter, from its noisy tail counts.

Source: ours; the likelihood is that of a Kalman filter.
"""

from __future__ import annotations

import math

import numpy as np

from tallytree.compute.arrays import FloatArray, IntArray
from tallytree.compute.kernels import kernel

WINDOW = 0.25
"""Rates are averages over sizes that differ by at most this share."""
MIN_RATE = 1e-6
BLOCK_RATIO = 1.5
"""Sizes within a block, over which the dispersion is constant, differ by at most this factor."""
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
    information: FloatArray,
    mu: FloatArray,
    block: IntArray,
    dispersions: FloatArray,
    out: FloatArray,
) -> None:
    """Add log p(value_r | value_0 … value_(r−1)) to out[k, block[r]] for each κ_k (Kalman filter, r ≥ 1).

    Blocks are runs of cells. The filters of all κ go forward side by side: their divisions do not wait for one another,
    and each filter's operations and additions are in the order of its cells.
    """
    n = len(dispersions)
    mean, variance = np.full(n, value[0]), np.full(n, 1.0 / information[0])
    spread, surprise, total = np.empty(n), np.empty(n), np.empty(n)
    here = -1
    for r in range(1, len(value)):
        if block[r] != here:
            if here >= 0:
                out[:, here] = total
            here = block[r]
            total[:] = out[:, here]
        noise = 1.0 / information[r]
        for k in range(n):
            mean[k] -= mu[r]
            variance[k] += dispersions[k] * mu[r]
            spread[k] = variance[k] + noise
            innovation = value[r] - mean[k]
            surprise[k] = innovation * innovation / spread[k]
            gain = variance[k] / spread[k]
            mean[k] += gain * innovation
            variance[k] *= 1.0 - gain
        for k in range(n):
            total[k] -= 0.5 * (math.log(spread[k]) + surprise[k])
    if here >= 0:
        out[:, here] = total


@kernel
def noise_variance(scale: float, laplace: bool) -> float:
    """Of the noise in a raw cell, about."""
    return 2.0 * scale * scale if laplace else scale * scale


@kernel
def likeliest_dispersions(
    likelihood: FloatArray, block: IntArray, dispersions: FloatArray, dispersion: FloatArray
) -> None:
    """The κ of each drop r = 0 … len(block) − 1, which is that of its block.

    A block's κ is that of greatest likelihood, less `CHANGE_COST` per step from that of all blocks together.
    """
    choice = np.zeros(likelihood.shape[1], np.int64)
    n, blocks = likelihood.shape
    best = 0
    top = -np.inf
    for k in range(n):
        total = 0.0
        for b in range(blocks):
            total += likelihood[k, b]
        if total > top:
            top, best = total, k
    for b in range(blocks):
        top = -np.inf
        for k in range(n):
            worth = likelihood[k, b] - CHANGE_COST * abs(k - best)
            if worth > top:
                top = worth
                choice[b] = k
    for r in range(len(block)):
        dispersion[r] = dispersions[choice[block[r]]]


@kernel
def choose_dispersion(
    values: IntArray, raw: float, mu: FloatArray, block: IntArray, dispersions: FloatArray, dispersion: FloatArray
) -> None:
    """κ of each drop, by blocks, from the likelihood of the noisy values; its first and last are infinite."""
    n = len(values)
    likelihood = np.zeros((len(dispersions), block[n - 1] + 1))
    if len(dispersions) > 1:
        log_likelihoods(values.astype(np.float64), np.full(n, raw), mu, block, dispersions, likelihood)
    likeliest_dispersions(likelihood, block, dispersions, dispersion)
    dispersion[0] = dispersion[n] = np.inf
