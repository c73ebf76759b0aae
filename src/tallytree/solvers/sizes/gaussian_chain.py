"""The posterior of a node's tail counts by a Gaussian chain, with all the information of Laplace noise.

A chain x_0 … x_(n−1) with drops d_r = x_(r−1) − x_r ~ N(μ_r, κ_r μ_r) is observed with noise in every cell. The
Laplace likelihood enters by pseudo-observations, one step of Fisher scoring a cell and sweep (Masreliez 1975): so a
wide average has half the variance that least squares would give it, as a median has.

Source: ours.
"""

from __future__ import annotations

import math

from tallytree.solvers.sizes.rates import MIN_RATE, noise_variance
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.kernels import inlined, kernel

SWEEPS = 3
"""Rounds of pseudo-observations; one more changes no result noticeably."""
FAR = 6.0
"""A residual of more standard deviations than this means that the model is wrong there: the raw value is used."""


@inlined
def erfcx(a: float) -> float:
    """exp(a²)·erfc(a), which is capped at a = −25."""
    if a < -25.0:
        return 2.0 * math.exp(625.0)
    if a < 5.0:
        return math.exp(a * a) * math.erfc(a)
    i = 1.0 / (a * a)
    return (1.0 - 0.5 * i * (1.0 - 1.5 * i * (1.0 - 2.5 * i * (1.0 - 3.5 * i)))) / (a * math.sqrt(math.pi))


@inlined
def laplace_score(residual: float, scale: float, variance: float) -> float:
    """Derivative of the log density of Laplace(scale) + N(0, variance) with its sign turned, at `residual`."""
    s = math.sqrt(2.0 * variance)
    above = erfcx((variance / scale - residual) / s)
    below = erfcx((variance / scale + residual) / s)
    return (above - below) / (scale * (above + below))


@inlined
def effective_variance(scale: float, variance: float) -> float:
    """1/I − variance, with I the Fisher information of Laplace(scale) + N(0, variance): scale² to 2 scale².

    A fit to numerical integrals, within 1.5 %.
    """
    q = variance / (scale * scale)
    return scale * scale * (2.0 - math.exp(-1.12 * math.sqrt(q) - 0.125 * q))


@inlined
def chain_posterior(
    natural: FloatArray,
    information: FloatArray,
    mu: FloatArray,
    precision: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    pivot: FloatArray,
) -> None:
    """Posterior means and variances of a chain; precision[r] = 1/(κ_r μ_r) of drop r, 0 where it is not modelled.

    Elimination of the tridiagonal precision matrix; it is diagonally dominant. The first and last drop (from what is
    before the chain, to what is after it) must have precision 0.
    """
    n = len(natural)
    filtered = 0.0  # the information on x_r of the cells up to r: pivot[r] less precision[r + 1], without cancellation
    for r in range(n):
        right = natural[r] + precision[r + 1] * mu[r + 1] - precision[r] * mu[r]
        if r > 0:
            k = precision[r] / pivot[r - 1]
            filtered = information[r] + k * filtered
            right += k * mean[r - 1]
        else:
            filtered = information[r]
        pivot[r] = filtered + precision[r + 1]
        mean[r] = right
    mean[n - 1] /= pivot[n - 1]
    variance[n - 1] = 1.0 / pivot[n - 1]
    for r in range(n - 2, -1, -1):
        k = precision[r + 1] / pivot[r]
        mean[r] = mean[r] / pivot[r] + k * mean[r + 1]
        variance[r] = 1.0 / pivot[r] + k * k * variance[r + 1]


@kernel
def smooth(
    values: IntArray,
    scale: float,
    laplace: bool,
    mu: FloatArray,
    dispersion: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    scratch: FloatArray,
) -> None:
    """Posterior of a chain with Gaussian drops; the Laplace likelihood enters by pseudo-observations.

    Args:
        values: (n,) noisy tail counts.
        scale: of their noise.
        laplace: whether it is Laplace; Gaussian otherwise.
        mu: (n + 1,) rates of the drops.
        dispersion: (n + 1,) κ of each drop; infinite where it is not modelled.
        mean: (n,) out.
        variance: (n,) out.
        scratch: (5, >= n + 1)
    """
    n = len(values)
    precision, own, information, natural, pivot = (
        scratch[0, : n + 1],
        scratch[1],
        scratch[2, :n],
        scratch[3, :n],
        scratch[4],
    )
    raw = 1.0 / noise_variance(scale, laplace)
    precision[0] = precision[n] = 0.0
    for r in range(n):
        own[r] = values[r]
        information[r] = raw
        if r > 0:
            precision[r] = 1.0 / (dispersion[r] * max(mu[r], MIN_RATE))
    sweep = 0
    while True:
        for r in range(n):
            natural[r] = own[r] * information[r]
        chain_posterior(natural, information, mu, precision, mean, variance, pivot)
        if not laplace or sweep == SWEEPS:
            break
        for r in range(n):
            rest = 1.0 / variance[r] - information[r]  # the information of all other cells on this one
            centre_natural = mean[r] / variance[r] - natural[r]
            own[r], information[r] = float(values[r]), raw
            if rest > 1e-9 * raw:
                spread = 1.0 / rest
                centre = centre_natural * spread
                residual = values[r] - centre
                if abs(residual) <= FAR * math.sqrt(spread + 1.0 / raw):
                    effective = effective_variance(scale, spread)
                    own[r] = centre + laplace_score(residual, scale, spread) * (spread + effective)
                    information[r] = 1.0 / effective
        sweep += 1
