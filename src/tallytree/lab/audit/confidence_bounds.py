"""Lower bounds on a privacy loss from how often an event happened under two neighboring data sets.

They hold for any event. With p the event's probability under one data set and q under the other:

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

from tallytree.support.arrays import FloatArray

ORDERS = np.array([1.0, 1.1, 1.25, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64])
"""Rényi orders at which ρ is bounded; every one is valid, the largest bound counts."""

MIN_ALPHA = 1e-100
"""SciPy's incomplete beta function is exact for larger ones; an audit needs 1e-20."""

_SLACK = 1e-9
"""Relative to alpha: above the error of SciPy's incomplete beta function, far below the width of any bound."""


def clopper_pearson(successes: int, trials: int, alpha: float) -> tuple[float, float]:
    """A lower and an upper bound of a probability, each wrong with probability at most `alpha` (Clopper, Pearson 1934).

    Args:
        successes: how often the event happened.
        trials: in how many independent runs, at least 1.
        alpha: from 1e-100 to below 1; of each bound alone, so both hold together with probability at least 1 − 2·alpha.
    """
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(f"successes: {successes} of {trials} trials is not possible")
    if not MIN_ALPHA <= alpha < 1:
        raise ValueError(f"alpha: {alpha} must be at least {MIN_ALPHA} and less than 1")
    return _lower(successes, trials, alpha), 1.0 - _lower(trials - successes, trials, alpha)


def wilson(successes: npt.ArrayLike, trials: int, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Approximate bounds for arrays of outcomes, to choose an event; never to state a result (Wilson 1927)."""
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
    """The largest p at which `successes` or more have probability at most `alpha`: I_p(k, n − k + 1) = alpha.

    Never above it: the equation is solved for a slightly smaller alpha, and the solution is lowered until the computed
    probability is at most that. Nor above the observed share, which only matters for an alpha above 1/2.
    """
    if successes == 0:
        return 0.0
    from scipy.special import betainc, betaincinv  # 0.2 s: only where it is needed

    aim, rest = alpha * (1 - _SLACK), trials - successes + 1
    bound = min(float(betaincinv(successes, rest, aim)), successes / trials)
    while betainc(successes, rest, bound) > aim:
        bound = math.nextafter(bound, 0.0)
    return bound
