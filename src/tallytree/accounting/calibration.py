"""What one level's noise costs in the terms in which levels add up, and how much noise a cost asks for.

* Discrete Laplace with scale b on a statistic of L1 sensitivity Δ costs ε = Δ/b (Ghosh, Roughgarden and
  Sundararajan 2012).
* Discrete Gaussian with parameter σ on a statistic of L2 sensitivity Δ costs ρ = Δ²/(2σ²) in zero-concentrated
  differential privacy (Canonne, Kamath, Steinke 2020, Theorem 14).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from tallytree.accounting.scales import MAX_SCALE, MIN_SCALE, representable
from tallytree.accounting.sensitivity import Sensitivity
from tallytree.kinds.measurements import Noise

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
