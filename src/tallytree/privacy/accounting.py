"""What noise costs, and how much noise a budget asks for. Every rounding is towards more privacy.

Levels compose by adding up; the nodes of one level share one bound, because `sensitivity` is that of the whole level.

* Discrete Laplace with scale b on a statistic of L1 sensitivity Δ costs ε = Δ/b (Ghosh, Roughgarden and
  Sundararajan 2012).
* Discrete Gaussian with parameter σ on a statistic of L2 sensitivity Δ costs ρ = Δ²/(2σ²) in zero-concentrated
  differential privacy (Canonne, Kamath, Steinke 2020, Theorem 14).
* An (ε, δ) budget is turned into ρ, by one of two conversions:
  `"zcdp"`, the tight one (Canonne, Kamath, Steinke 2020, Corollary 13): for every α > 1,
  ε = αρ + (ln(1/δ) − ln α)/(α − 1) + ln(1 − 1/α) is valid, and the best α is searched for;
  `"paper"`, Lemma 3 of Boninsegna and Silvestri 2025 (Bun and Steinke 2016): ε = ρ + 2√(ρ ln(1/δ)).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Literal, cast, get_args

from tallytree.budget import Budget, BudgetSplit, shares
from tallytree.errors import BudgetExceeded
from tallytree.measurements import Noise, Statistic
from tallytree.privacy.scales import LARGEST_SCALE, SMALLEST_SCALE, representable
from tallytree.privacy.sensitivity import Sensitivity

Accounting = Literal["zcdp", "paper"]

Grid = Callable[[Fraction], Fraction]
"""Rounds a scale up to one that a noise source draws: `scales.representable` or `scales.next_float`."""

_DIGITS = 60
_MARGIN = Decimal(10) ** -40
"""Relative; far above the error of 60-digit arithmetic and far below anything that matters."""


@dataclass(frozen=True)
class LevelPlan:
    """How one level is measured.

    Attributes:
        level: its name.
        statistic: what is measured.
        share: its share of the budget.
        sensitivity: of the whole level, for one neighbouring change.
        noise: the noise added to every cell.
    """

    level: str
    statistic: Statistic
    share: Fraction
    sensitivity: Sensitivity
    noise: Noise

    @property
    def cost(self) -> Fraction:
        """What measuring the level spends, exactly: ε with Laplace noise, ρ with Gaussian noise."""
        return privacy_cost(self.sensitivity, self.noise)


@dataclass(frozen=True)
class NoisePlan:
    """How every measured level is measured, and what that spends of the budget.

    Attributes:
        budget: what was granted.
        accounting: the conversion between (ε, δ) and ρ; None where nothing is converted.
        levels: the measured levels by name, root first.
    """

    budget: Budget
    accounting: Accounting | None
    levels: Mapping[str, LevelPlan]

    def __post_init__(self) -> None:
        """Refuse to exist where more than the budget would be spent."""
        limit = composable_budget(self.budget, self.accounting)
        if self._total_cost > limit:
            raise BudgetExceeded(f"budget: the levels would spend {float(self._total_cost)} of {float(limit)}")

    @property
    def spent(self) -> dict[str, Fraction]:
        """What the plan spends, in the budget's own terms (never more than it; scales are rounded up)."""
        total = self._total_cost
        if self.budget.kind == "pure":
            return {"epsilon": total}
        if self.budget.epsilon is None or self.budget.delta is None or self.accounting is None:
            return {"rho": total}
        if total == 0:
            return {"epsilon": Fraction(0), "delta": Fraction(0), "rho": Fraction(0)}
        # The plan's total is within the budget's rho, which implies the budget's epsilon: so the lesser holds.
        epsilon = min(epsilon_from_rho(total, self.budget.delta, self.accounting), self.budget.epsilon)
        return {"epsilon": epsilon, "delta": self.budget.delta, "rho": total}

    @property
    def _total_cost(self) -> Fraction:
        return sum((level.cost for level in self.levels.values()), Fraction(0))


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
    if scale > LARGEST_SCALE:
        raise ValueError(
            f"budget: it asks for noise of scale {float(scale):.3g} at a level, more than the "
            f"{float(LARGEST_SCALE):.0e} that is drawn; grant more, or measure fewer levels"
        )
    return grid(max(scale, SMALLEST_SCALE))


def composable_budget(budget: Budget, accounting: Accounting | None) -> Fraction:
    """The budget in the terms in which levels add up: ε where it is pure, else ρ."""
    if budget.rho is not None:
        return budget.rho
    if budget.epsilon is None:
        raise ValueError(f"budget: {budget!r} has neither epsilon nor rho")
    if budget.delta is None:
        return budget.epsilon
    return rho_from_epsilon(budget.epsilon, budget.delta, accounting or "zcdp")


def plan_noise(
    budget: Budget,
    statistics: Mapping[str, tuple[Statistic, Sensitivity]],
    budget_split: BudgetSplit = None,
    accounting: str | None = None,
    grid: Grid = representable,
) -> NoisePlan:
    """How much noise every measured level gets.

    Args:
        budget: what may be spent in all. Pure: discrete Laplace noise; with δ or ρ: discrete Gaussian noise.
        statistics: for each measured level, root first, what is measured there and its sensitivity.
        budget_split: see `tallytree.budget.shares`; shares are of ε, or of ρ.
        accounting: `"zcdp"` (the default) or `"paper"`, for a budget with δ only.
        grid: rounds a scale up to one that the noise source draws.

    Raises:
        ValueError: an accounting that does not go with the budget, or a split that does not fit the levels.
        TypeError: a budget that is not a `Budget`.
    """
    if not isinstance(budget, Budget):
        raise TypeError(f"budget: {budget!r} must be a tallytree.Budget, for instance Budget(epsilon=1.0)")
    method = _accounting_for(budget, accounting)
    granted = composable_budget(budget, method)
    noise_for = laplace_for if budget.kind == "pure" else gaussian_for
    split = shares(budget_split, list(statistics)) if statistics else {}
    return NoisePlan(
        budget,
        method,
        {
            level: LevelPlan(level, statistic, split[level], bound, noise_for(bound, granted * split[level], grid))
            for level, (statistic, bound) in statistics.items()
        },
    )


def _accounting_for(budget: Budget, accounting: str | None) -> Accounting | None:
    if accounting is None:
        return "zcdp" if budget.kind == "approximate" else None
    if accounting not in get_args(Accounting):
        raise ValueError(f'accounting: {accounting!r} is not known; choose "zcdp" (tight) or "paper"')
    if budget.kind != "approximate":
        raise ValueError(
            f"accounting: {accounting!r} converts between (epsilon, delta) and rho, but {budget!r} needs no "
            "conversion; leave it out"
        )
    return cast(Accounting, accounting)


def rho_from_epsilon(epsilon: Fraction, delta: Fraction, accounting: Accounting) -> Fraction:
    """The largest ρ known to imply (ε, δ)-differential privacy by the chosen conversion, rounded down."""
    with localcontext(Context(prec=_DIGITS)):
        loss, ln_inverse_delta = _decimal(epsilon), -_decimal(delta).ln()
        if accounting == "paper":
            rho = (loss / ((ln_inverse_delta + loss).sqrt() + ln_inverse_delta.sqrt())) ** 2
        else:
            rho = _rho_at(_best_order(float(epsilon), float(ln_inverse_delta)), loss, ln_inverse_delta)
        rho -= abs(rho) * _MARGIN
        if rho <= 0:
            raise ValueError(
                f"budget: epsilon={float(epsilon)} with delta={float(delta)} is too small to be met with noise"
            )
        return Fraction(rho)


def epsilon_from_rho(rho: Fraction, delta: Fraction, accounting: Accounting) -> Fraction:
    """The ε for which ρ-zCDP implies (ε, δ)-differential privacy by the chosen conversion, rounded up."""
    with localcontext(Context(prec=_DIGITS)):
        cost, ln_inverse_delta = _decimal(rho), -_decimal(delta).ln()
        if accounting == "paper":
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
    """A minimum on a grid, refined by golden section within its two grid neighbours."""
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


def _root_up(square: Fraction) -> Fraction:
    """A rational ≥ √square, with a relative error below 2^-60."""
    shift = 2 ** max(
        0, 64 - (square.numerator // square.denominator).bit_length() // 2 + square.denominator.bit_length()
    )
    scaled = square * shift * shift
    ceiling = -(-scaled.numerator // scaled.denominator)
    root = math.isqrt(ceiling)
    return Fraction(root if root * root >= ceiling else root + 1, shift)
