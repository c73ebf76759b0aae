"""Between ρ of zero-concentrated differential privacy and (ε, δ), rounded towards more privacy.

* `"zcdp"`, the tight conversion (Canonne, Kamath, Steinke 2020, Corollary 13): for every α > 1,
  ε = αρ + (ln(1/δ) − ln α)/(α − 1) + ln(1 − 1/α) is valid, and the best α is searched for.
* `"paper"`, Lemma 3 of Boninsegna and Silvestri 2025 (Bun and Steinke 2016): ε = ρ + 2√(ρ ln(1/δ)).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Literal

Conversion = Literal["zcdp", "paper"]

_DIGITS = 60
_MARGIN = Decimal(10) ** -40
"""Relative; far above the error of 60-digit arithmetic and far below anything that matters."""


def rho_from_epsilon(epsilon: Fraction, delta: Fraction, conversion: Conversion) -> Fraction:
    """The largest ρ known to imply (ε, δ)-differential privacy by the chosen conversion, rounded down."""
    with localcontext(Context(prec=_DIGITS)):
        loss, ln_inverse_delta = _decimal(epsilon), -_decimal(delta).ln()
        if conversion == "paper":
            rho = (loss / ((ln_inverse_delta + loss).sqrt() + ln_inverse_delta.sqrt())) ** 2
        else:
            rho = _rho_at(_best_order(float(epsilon), float(ln_inverse_delta)), loss, ln_inverse_delta)
        rho -= abs(rho) * _MARGIN
        if rho <= 0:
            raise ValueError(
                f"budget: epsilon={float(epsilon)} with delta={float(delta)} is too small to be met with noise"
            )
        return Fraction(rho)


def epsilon_from_rho(rho: Fraction, delta: Fraction, conversion: Conversion) -> Fraction:
    """The ε for which ρ-zCDP implies (ε, δ)-differential privacy by the chosen conversion, rounded up."""
    with localcontext(Context(prec=_DIGITS)):
        cost, ln_inverse_delta = _decimal(rho), -_decimal(delta).ln()
        if conversion == "paper":
            loss = cost + 2 * (cost * ln_inverse_delta).sqrt()
        else:
            loss = _least_epsilon(cost, ln_inverse_delta)
        return Fraction(max(loss, Decimal(0)) * (1 + _MARGIN / 2))


def _rho_at(order: Decimal, loss: Decimal, ln_inverse_delta: Decimal) -> Decimal:
    """The conversion at one order α, solved for ρ; valid at every α > 1."""
    return (loss - _offset(order, ln_inverse_delta)) / order


def _offset(order: Decimal, ln_inverse_delta: Decimal) -> Decimal:
    return (ln_inverse_delta - order.ln()) / (order - 1) + (1 - 1 / order).ln()


def _best_order(epsilon: float, ln_inverse_delta: float) -> Decimal:
    """The order α that gives the largest ρ, to float precision; every α is valid, so little hangs on it."""

    def negative_rho(log_order_minus_1: float) -> float:
        excess = math.exp(log_order_minus_1)
        order = 1 + excess
        offset = (ln_inverse_delta - math.log1p(excess)) / excess + math.log(excess) - math.log1p(excess)
        return -(epsilon - offset) / order

    return 1 + Decimal(math.exp(_minimise(negative_rho)))


def _least_epsilon(cost: Decimal, ln_inverse_delta: Decimal) -> Decimal:
    rho, ln_inv = float(cost), float(ln_inverse_delta)

    def epsilon(log_order_minus_1: float) -> float:
        excess = math.exp(log_order_minus_1)
        return (1 + excess) * rho + (ln_inv - math.log1p(excess)) / excess + log_order_minus_1 - math.log1p(excess)

    order = 1 + Decimal(math.exp(_minimise(epsilon)))
    return order * cost + _offset(order, ln_inverse_delta)


def _minimise(function: Callable[[float], float], low: float = -18.0, high: float = 40.0) -> float:
    """A minimum on a grid, refined by golden section within its two grid neighbors."""
    steps = 1_160
    grid = [low + (high - low) * i / steps for i in range(steps + 1)]
    best = min(range(steps + 1), key=lambda i: function(grid[i]))
    left, right = grid[max(best - 1, 0)], grid[min(best + 1, steps)]
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(80):
        inner_left, inner_right = right - ratio * (right - left), left + ratio * (right - left)
        if function(inner_left) <= function(inner_right):
            right = inner_right
        else:
            left = inner_left
    return (left + right) / 2


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)
