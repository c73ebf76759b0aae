"""The scales that the samplers draw exactly, what noise of them costs, and how much noise a cost asks for.

* Discrete Laplace with scale b on a statistic of L1 sensitivity Δ costs ε = Δ/b (Ghosh, Roughgarden and
  Sundararajan 2012).
* Discrete Gaussian with parameter σ on a statistic of L2 sensitivity Δ costs ρ = Δ²/(2σ²) in zero-concentrated
  differential privacy (Canonne, Kamath, Steinke 2020, Theorem 14).

Public arithmetic: no noise and no key is in reach of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from math import inf, nextafter
from numbers import Rational

import numpy as np

from tallytree.accounting.sensitivity import Sensitivity
from tallytree.kinds.measurements import Noise

Number = int | float | Decimal | Fraction

MIN_SCALE = Fraction(1, 1000)
MAX_SCALE = Fraction(10**9)

MAX_PART = 2**40
"""Bound of numerator and denominator: scales stay short in addresses and statements, and near what was asked for."""

MAX_NOISE = 2**62 - 1
"""No draw is larger, so a count of up to 2^62 plus its noise fits an int64. Less than exp(-10^9) of a law is beyond."""


def shown(value: object) -> str:
    """A value for a message; of what could be a key in the wrong place, the type only."""
    plain = value is None or isinstance(value, str | int | float | complex | Fraction | Decimal)
    return repr(value) if plain else f"a {type(value).__name__}"


def representable(scale: Number, argument: str = "scale") -> Fraction:
    """Round a scale (or sigma) up to the one that the keyed samplers use, which is the one to publish.

    It is the smallest p/q >= scale with p, q <= 2^40: at most 2^-30 too large, relatively, and exact for every simple
    fraction.

    Raises:
        TypeError: `scale` is not an int, float, Decimal or Fraction.
        ValueError: `scale` is not finite, or outside [0.001, 10^9].
    """
    exact = _checked_scale(scale, argument)
    # Numerators up to the bound are denominators up to bound/scale, so one Farey sequence holds the candidates.
    largest_denominator = min(MAX_PART, int(MAX_PART / exact))
    nearest = exact.limit_denominator(largest_denominator)
    if nearest >= exact:
        return nearest
    # The next Farey fraction is nearest + 1/(its denominator · denominator), where they are inverse modulo `modulus`.
    modulus = nearest.denominator
    inverse = pow(-nearest.numerator, -1, modulus)
    denominator = inverse + (largest_denominator - inverse) // modulus * modulus
    return nearest + Fraction(1, modulus * denominator)


def next_float(scale: Number, argument: str = "scale") -> Fraction:
    """Round a scale (or sigma) up to the next float, which is the one that OpenDP uses and the one to publish.

    Raises:
        TypeError: `scale` is not an int, float, Decimal or Fraction.
        ValueError: `scale` is not finite, or outside [0.001, 10^9].
    """
    exact = _checked_scale(scale, argument)
    nearest = float(exact)
    return Fraction(nearest if Fraction(nearest) >= exact else nextafter(nearest, inf))


def _checked_scale(scale: Number, argument: str) -> Fraction:
    exact = _as_fraction(argument, scale)
    if not MIN_SCALE <= exact <= MAX_SCALE:
        raise ValueError(
            f"{argument} must lie between {float(MIN_SCALE)} and {float(MAX_SCALE):.0e}, got {scale}; "
            "change the budget or the unit that is counted"
        )
    return exact


def _as_fraction(argument: str, scale: Number) -> Fraction:
    if isinstance(scale, (bool, np.bool_)) or not isinstance(scale, (Rational, float, Decimal)):
        raise TypeError(f"{argument} must be an int, float, Decimal or Fraction, got {shown(scale)}")
    try:
        exact = Fraction(scale)
    except (ValueError, OverflowError):
        exact = Fraction(0)
    if exact <= 0:
        raise ValueError(f"{argument} must be positive and finite, got {scale}; noise without a scale is no noise")
    return Fraction(int(exact.numerator), int(exact.denominator))  # a NumPy integer's parts would overflow


Grid = Callable[[Fraction], Fraction]
"""Rounds a scale up to one that a noise source draws: `scales.representable` or `scales.next_float`."""


def privacy_cost(sensitivity: Sensitivity, noise: Noise) -> Fraction:
    """What one measurement of a level spends, exactly: ε with Laplace noise, ρ with Gaussian noise."""
    if noise.distribution == "discrete_laplace":
        return sensitivity.l1 / noise.scale
    return sensitivity.l2_squared / (2 * noise.scale**2)


def laplace_for(sensitivity: Sensitivity, epsilon: Fraction, grid: Grid = representable) -> Noise:
    """The discrete Laplace noise that spends at most `epsilon`; its scale is rounded up."""
    return Noise("discrete_laplace", _scale_up(sensitivity.l1 / epsilon, grid))


def gaussian_for(sensitivity: Sensitivity, rho: Fraction, grid: Grid = representable) -> Noise:
    """The discrete Gaussian noise that spends at most `rho`; its parameter is rounded up."""
    return Noise("discrete_gaussian", _scale_up(_root_up(sensitivity.l2_squared / (2 * rho)), grid))


def _scale_up(scale: Fraction, grid: Grid) -> Fraction:
    """The least scale on the grid that is not below `scale`."""
    if scale > MAX_SCALE:
        raise ValueError(
            f"budget: it asks for noise of scale {float(scale):.3g} at a level, more than the "
            f"{float(MAX_SCALE):.0e} that is drawn; grant more, or measure fewer levels"
        )
    return grid(max(scale, MIN_SCALE))


def _root_up(square: Fraction) -> Fraction:
    """A rational ≥ √square, with a relative error below 2^-60."""
    shift = 2 ** max(
        0, 64 - (square.numerator // square.denominator).bit_length() // 2 + square.denominator.bit_length()
    )
    scaled = square * shift * shift
    ceiling = -(-scaled.numerator // scaled.denominator)
    root = math.isqrt(ceiling)
    return Fraction(root if root * root >= ceiling else root + 1, shift)
