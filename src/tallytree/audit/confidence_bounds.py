"""Lower bounds on a privacy loss from how often an event happened under two neighbouring data sets.

Nothing here knows what the event is. With p the event's probability under one data set and q under the other:

* (ε, δ)-differential privacy means p ≤ e^ε·q + δ, so ε ≥ ln((p − δ)/q).
* ρ-zero-concentrated differential privacy means D_α ≤ α·ρ for the Rényi divergence of every order α > 1 (Bun and
  Steinke 2016), also of order 1, its limit. Divergences do not grow when outputs are reduced to whether the event
  happened, so ρ ≥ D_α(Bernoulli(p) ‖ Bernoulli(q))/α at every order. For Gaussian noise this sees far more than
  (ε, δ) with a small δ, which only concerns events too rare to be counted.

Both grow with p and fall with q where p > q, so a lower bound of p and an upper bound of q give a lower bound.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from tallytree.compute.arrays import FloatArray

ORDERS = np.array([1.0, 1.1, 1.25, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64])
"""Rényi orders at which ρ is bounded; every one is valid, the largest bound counts."""

_BISECTIONS = 100
_SLACK = 1e-9
"""Relative; above the error of the incomplete beta function, far below any bound's width."""


def clopper_pearson(successes: int, trials: int, alpha: float) -> tuple[float, float]:
    """A lower and an upper bound of a probability, each wrong with probability at most `alpha` (Clopper, Pearson 1934).

    Args:
        successes: how often the event happened.
        trials: in how many independent runs, at least 1.
        alpha: in (0, 1); of each bound alone, so both hold together with probability at least 1 − 2·alpha.
    """
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(f"successes: {successes} of {trials} trials is not possible")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha: {alpha} must lie strictly between 0 and 1")
    return _lower(successes, trials, alpha), 1.0 - _lower(trials - successes, trials, alpha)


def wilson(successes: npt.ArrayLike, trials: int, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Approximate bounds for whole arrays, to choose an event with; never to state a result (Wilson 1927)."""
    z = NormalDist().inv_cdf(1 - alpha)
    p = np.asarray(successes, dtype=np.float64) / trials
    centre = p + z * z / (2 * trials)
    half = z * np.sqrt(p * (1 - p) / trials + z * z / (4 * trials * trials))
    shrink = 1 + z * z / trials
    return np.clip((centre - half) / shrink, 0, 1), np.clip((centre + half) / shrink, 0, 1)


def epsilon_at_least(p: npt.ArrayLike, q: npt.ArrayLike, delta: float) -> FloatArray:
    """The least ε ≥ 0 with p ≤ e^ε·q + δ."""
    p, q = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.asarray(np.maximum(np.log(np.maximum(p - delta, 0)) - np.log(q), 0.0))


def rho_at_least(p: npt.ArrayLike, q: npt.ArrayLike) -> FloatArray:
    """The least ρ ≥ 0 that allows p and q, over `ORDERS`; 0 where p ≤ q."""
    p, q = np.broadcast_arrays(np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64))
    best = np.zeros(p.shape)
    apart = p > q
    if not apart.any():
        return best
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(p[apart]), np.log(q[apart])
        log_not_p, log_not_q = np.log1p(-p[apart]), np.log1p(-q[apart])
    # 0·ln 0 = 0: where p = 1 the second term of either sum vanishes.
    certain = np.isneginf(log_not_p)
    kept = np.where(certain, 0.0, log_not_p)
    divergence = p[apart] * (log_p - log_q) + (1 - p[apart]) * np.where(certain, 0.0, kept - log_not_q)
    found = divergence
    for order in ORDERS[1:]:
        happens = order * log_p + (1 - order) * log_q
        fails = np.where(certain, -np.inf, order * kept + (1 - order) * log_not_q)
        found = np.maximum(found, np.logaddexp(happens, fails) / ((order - 1) * order))
    best[apart] = np.maximum(found, 0.0)
    return best


def _lower(successes: int, trials: int, alpha: float) -> float:
    """The largest p at which `successes` or more have probability at most `alpha`: I_p(k, n − k + 1) = alpha."""
    low, high = 0.0, successes / trials
    for _ in range(_BISECTIONS if successes else 0):
        middle = (low + high) / 2
        if incomplete_beta(successes, trials - successes + 1, middle) > alpha * (1 - _SLACK):
            high = middle
        else:
            low = middle
    return low


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b), by its continued fraction (Lentz's method).

    The fraction converges fast below the mean of the distribution, about a/(a + b); above it the symmetry
    I_x(a, b) = 1 − I_(1−x)(b, a) is used.
    """
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x < (a + 1) / (a + b + 2):
        return math.exp(log_front) * _beta_fraction(a, b, x) / a
    return 1.0 - math.exp(log_front) * _beta_fraction(b, a, 1 - x) / b


def _beta_fraction(a: float, b: float, x: float) -> float:
    tiny = 1e-300
    c, d = 1.0, 1.0 / _away_from_zero(1 - (a + b) * x / (a + 1), tiny)
    fraction = d
    m = 0
    change = 0.0
    while abs(change - 1) > 1e-15 and m < 100_000:
        m += 1
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _away_from_zero(1 + term * d, tiny)
            c = _away_from_zero(1 + term / c, tiny)
            change = c * d
            fraction *= change
    return fraction


def _away_from_zero(value: float, tiny: float) -> float:
    return value if abs(value) > tiny else tiny
