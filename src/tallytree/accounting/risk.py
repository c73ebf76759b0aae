"""What a release lets an attacker find out of one person at most, in plain numbers: rates of right and wrong guesses.

**The attack.** The attacker knows everything but one neighboring change: every other record, the public facts, and the
two data sets that are possible. From all that the release publishes they guess which of the two it was made from. The
*false-positive rate* is the probability of guessing the second where it is the first; the *true-positive rate* is that
of guessing the second where it is. A coin that ignores the release has equal rates. What is bounded here is the
greatest true-positive rate at a given false-positive rate α, over all attacks and all neighboring data sets: 1 − f(α)
with f the trade-off function of the release (Dong, Roth and Su 2022; Wasserman and Zhou 2010).

**The bounds**, each of which holds by itself, so the least of them does. Let P and Q be the distributions of what is
published, in either order, and let a test have the rates α under Q and t under P.

* *(ε, δ)*: t ≤ e^ε·α + δ, and, from the events that the test rejects, 1 − α ≤ e^ε·(1 − t) + δ. With δ = 0 these are
  those of pure ε.
* *Privacy-loss distribution*: the same two, for every ε ≥ 0 with its δ(ε), which `pld` computes, allowances included.
  A grid of ε is searched, so what is found holds and is a little above the least.
* *ρ*: the Rényi divergences of order a of P from Q and of Q from P are at most a·ρ for every a > 1, and so are those of
  the two outcomes of the test (data processing): t^a·α^(1−a) + (1−t)^a·(1−α)^(1−a) ≤ exp(a(a−1)ρ), and the same with
  t and α exchanged (Bun and Steinke 2016, Lemma 2.2). A grid of orders is searched. It holds for every mechanism with
  this ρ, so it is above what discrete Gaussian noise allows (at ρ = 0.5 and α = 5 %: 34 % instead of 26 %).

What is stated is rounded up to a millionth. `riskcal` (Kulynych et al. 2024) is the oracle of the tests; it is not used
here, since a statement must not depend on whether an optional package is installed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tallytree.accounting import NoisePlan, Plan, pld
from tallytree.accounting.losses import Loss, float_up
from tallytree.support.arrays import FloatArray

FALSE_POSITIVE_RATES = (0.01, 0.05)
"""At which the greatest true-positive rate is stated."""

_MILLION = 10**6
_ROUNDING = 1e-9
"""Relative and absolute; what is added for float arithmetic, which errs by less than 1e-12 here."""
_CANCELLED = 1e-14
"""What float arithmetic may take off a moment, beside the relative part."""
_GRID = 9
_SECTIONS = 16
_GOLDEN = (math.sqrt(5) - 1) / 2
_MAX_EPSILON = 50.0
"""Of a grid: e^50 times any stated rate is above 1."""


@dataclass(frozen=True)
class AttackRate:
    """The greatest true-positive rate at a false-positive rate.

    Attributes:
        false_positive_rate: α in (0, 1).
        true_positive_rate: at most this, whatever the attack; from α to 1.
    """

    false_positive_rate: float
    true_positive_rate: float


def attack_rates(plan: Plan) -> tuple[AttackRate, ...]:
    """The greatest true-positive rate of an attack on a release with this plan, at `FALSE_POSITIVE_RATES`."""
    return tuple(AttackRate(each, most_true_positives(plan, each)) for each in FALSE_POSITIVE_RATES)


def most_true_positives(plan: Plan, alpha: float) -> float:
    """The greatest true-positive rate at the false-positive rate `alpha`; see the module's docstring.

    Args:
        plan: how every level is measured.
        alpha: in (0, 1).

    Raises:
        ValueError: an alpha out of range.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha: {alpha!r} must lie strictly between 0 and 1, for instance 0.05")
    if not plan.measured:
        return alpha
    loss, found = Loss.of(plan), [1.0]
    if loss.epsilon is not None and loss.delta is not None:
        found.append(by_epsilon_delta(float_up(loss.epsilon), float_up(loss.delta), alpha))
    if loss.rho is not None:
        found.append(by_rho(float_up(loss.rho), alpha))
    if isinstance(plan, NoisePlan) and plan.accounting == "pld":
        found.append(by_losses(plan, alpha))
    return rounded_up(max(alpha, min(found)))


def by_epsilon_delta(epsilon: float, delta: float, alpha: float) -> float:
    """The bound of (ε, δ)."""
    few = math.exp(epsilon) * alpha + delta if epsilon < _MAX_EPSILON else 1.0
    return min(1.0, few, 1 - math.exp(-epsilon) * max(0.0, 1 - alpha - delta))


def by_losses(plan: NoisePlan, alpha: float) -> float:
    """The bound of the plan's privacy-loss distribution.

    Raises:
        ValueError: a level whose shifts are not known, or a plan without δ.
    """
    mechanisms = pld.curves((each.sensitivity, each.noise) for each in plan.measured)
    if plan.budget.delta is None:
        raise ValueError(f"plan: {plan.budget!r} has no delta, so it is not accounted for by losses")
    delta = pld.profile(mechanisms, plan.budget.delta)
    mean = math.sqrt(sum(times * shift**2 / float(scale) ** 2 for scale, shift, times in mechanisms))

    def bound(epsilon: FloatArray) -> FloatArray:
        deltas = delta(epsilon)
        few = np.exp(epsilon) * alpha + deltas
        many = 1 - np.exp(-epsilon) * np.maximum(0.0, 1 - alpha - deltas)
        least: FloatArray = np.minimum(few, many)
        return least

    return _least(bound, 0.0, min(mean * mean / 2 + 8 * mean, _MAX_EPSILON))


@lru_cache(maxsize=64)
def by_rho(rho: float, alpha: float) -> float:
    """The bound of ρ-zCDP; each order's equation is solved by bisection, from above."""
    orders = 1 + np.logspace(-3, 6, 1_000)
    limit = orders * (orders - 1) * rho * (1 + _ROUNDING) + _CANCELLED
    low, high = np.full(len(orders), alpha), np.ones(len(orders))
    for _ in range(60):
        middle = (low + high) / 2
        fits = np.maximum(_log_moment(middle, alpha, orders), _log_moment(alpha, middle, orders)) <= limit
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return float(high.min())


def rounded_up(rate: float) -> float:
    """A rate rounded up to a millionth, at most 1."""
    return min(1.0, math.ceil((rate * (1 + _ROUNDING) + _ROUNDING) * _MILLION) / _MILLION)


def _log_moment(t: Any, alpha: Any, orders: FloatArray) -> FloatArray:
    """log(t^a·α^(1−a) + (1−t)^a·(1−α)^(1−a)) for every order a."""
    with np.errstate(divide="ignore"):
        yes = orders * np.log(t) + (1 - orders) * np.log(alpha)
        no = orders * np.log1p(-t) + (1 - orders) * np.log1p(-np.asarray(alpha))
    found: FloatArray = np.logaddexp(yes, no)
    return found


def _least(bound: Callable[[FloatArray], FloatArray], low: float, high: float) -> float:
    """About the least value on an interval, of a function with one valley: on a grid, then by golden sections.

    Any value of the bound holds, so what is missed of the least makes the result larger and never wrong.
    """
    grid = np.linspace(low, high, _GRID)
    found = bound(grid)
    best = int(np.argmin(found))
    low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, _GRID - 1)])
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = bound(np.array([left, right]))
    for _ in range(_SECTIONS):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = bound(np.array([left]))[0]
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = bound(np.array([right]))[0]
    return float(min(found[best], at_left, at_right))
