"""Counts of cells that have records, above a threshold: (ε, δ) by a proof of its own, which nothing is composed with.

**Mechanism.** A cell with c ≥ 1 records is published as c + X if c + X ≥ t, and left out otherwise; X is discrete
Laplace noise of scale b. A cell without records is left out. (Stability-based histogram: Bun, Nissim and Stemmer 2019;
Boninsegna and Silvestri 2025, Theorem 8; here for m records per person, integer noise and its exact tail.)

**Neighbors.** From D to D' cells lose at most m records in all and gain at most m, and under `"add_remove"` one or the
other does not happen; so counts move by at most Δ in all, Δ = m or 2m, which is the L1 sensitivity. Fewer records on
either side, such as one that lies outside the hierarchy and is dropped, move counts by less: nothing below needs equal
gains and losses, or all m of them.

**Claim.** With q = exp(−1/b) and p(c) = P(c + X ≥ t) = q^(t−c)/(1 + q), for c ≤ t, it is (ε, δ)-private if t ≥ m and

1. b ≥ Δ/ε;
2. 1 − (1 − p(1))^m ≤ δ and p(m) ≤ δ;
3. p(1) ≤ 1 − q and p(m) ≤ 1 − q^m.

The proof is that of Lemma 10 in `docs/explanation/proofs.md`. With B, the event that a cell which D has and D' has not
is published, everything in B is impossible under D'; the bound of P(B) in condition 2 is attained.

Condition 3 is not tight, but 2 implies it unless δ is about as large as 1/b. It is not zero-concentrated for any ρ: B
is impossible under D'. Which cells have records is not to be seen before the threshold; so noise and threshold are the
Measurer's, and this plan lets it answer nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import cast

from tallytree.accounting.laws import Enclosure, exp_minus, one_minus, over, times
from tallytree.accounting.scales import MIN_SCALE, Grid, laplace_for, representable
from tallytree.accounting.sensitivity import Sensitivity
from tallytree.budget import Budget
from tallytree.errors import BudgetExceeded
from tallytree.kinds.measurements import Noise, Statistic
from tallytree.support.validate import safe_text, text

_SPARE_BITS = 128
"""Beyond what tells δ, 1/m and 1/scale from 0; enclosures that are too wide would raise the threshold, not lower it."""


@dataclass(frozen=True)
class StableLevel:
    """How the level is measured.

    Attributes:
        level: its name.
        sensitivity: of the level, all its nodes together, for one neighboring change.
        most_lost: m, the most records that one neighboring change takes away.
        noise: the noise added to every cell that has records.
        threshold: t, the least noisy count that is published.
    """

    level: str
    sensitivity: Sensitivity
    most_lost: int
    noise: Noise
    threshold: int

    @property
    def statistic(self) -> Statistic:
        """What is measured."""
        return "stable_counts"

    @property
    def share(self) -> Fraction:
        """All of the budget."""
        return Fraction(1)

    @property
    def cost(self) -> Fraction:
        """ε, exactly."""
        return self.sensitivity.l1 / self.noise.scale


@dataclass(frozen=True)
class StabilityPlan:
    """The one level that is measured, and the (ε, δ) that covers it.

    Attributes:
        budget: what was granted, in (ε, δ).
        stable: the level.
    """

    budget: Budget
    stable: StableLevel
    accounting: None = None
    maximum: None = None
    contributions: None = None
    beside: tuple[()] = ()

    def __post_init__(self) -> None:
        """Refuse to exist where more than the budget would be spent."""
        epsilon, delta, stable = self.budget.epsilon, self.budget.delta, self.stable
        if epsilon is None or delta is None:
            raise BudgetExceeded(f"budget: {self.budget!r} has no (epsilon, delta), which a threshold spends")
        if stable.noise.distribution != "discrete_laplace" or stable.noise.scale < MIN_SCALE:
            raise BudgetExceeded(f"budget: a threshold goes with discrete Laplace noise, not with {stable.noise!r}")
        if type(stable.threshold) is not int or not 1 <= stable.most_lost <= stable.sensitivity.l1:
            raise BudgetExceeded(f"budget: {stable!r} is no plan of a level: what one change moves does not add up")
        if stable.cost > epsilon:
            raise BudgetExceeded(f"budget: {stable.noise!r} would spend {float(stable.cost)} of {float(epsilon)}")
        if not suffices(stable.threshold, stable.noise.scale, stable.most_lost, delta):
            raise BudgetExceeded(
                f"budget: a threshold of {stable.threshold} would spend more than delta = {float(delta)}; it must be "
                f"at least {least_threshold(stable.noise.scale, stable.most_lost, delta)}"
            )

    @property
    def levels(self) -> Mapping[str, StableLevel]:
        """The measured level by its name."""
        return MappingProxyType({self.stable.level: self.stable})

    @property
    def measured(self) -> tuple[StableLevel, ...]:
        """All that is measured."""
        return (self.stable,)

    def planned(self, level: str, statistic: str) -> None:
        """Nothing is measured without the threshold."""

    def planned_stable(self, level: str) -> StableLevel | None:
        """How the level is measured; None for any other."""
        return self.stable if level == self.stable.level else None

    @property
    def spent(self) -> dict[str, Fraction]:
        """What the plan spends, never more than the budget; there is no ρ."""
        return {"epsilon": self.stable.cost, "delta": cast(Fraction, self.budget.delta)}


def plan_stability(
    budget: Budget,
    level: str,
    sensitivity: Sensitivity,
    most_lost: int,
    accounting: str | None = None,
    grid: Grid = representable,
) -> StabilityPlan:
    """How much noise, and which threshold.

    Args:
        budget: what may be spent, with ε and δ.
        level: the name of the level.
        sensitivity: of its counts.
        most_lost: m, the most records that one neighboring change takes away.
        accounting: must be None: there is one proof.
        grid: rounds a scale up to one that the noise source draws.

    Raises:
        ValueError: a budget without δ, or an accounting.
        TypeError: a budget that is not a `Budget`.
    """
    if not isinstance(budget, Budget):
        raise TypeError(
            f"budget: {safe_text(budget)} must be a tallytree.Budget, for instance Budget(epsilon=1, delta=1e-8)"
        )
    if budget.epsilon is None or budget.delta is None:
        raise ValueError(
            f"budget: {budget!r} has no delta, but StabilityHistogram leaves cells without records out, and so shows a "
            "lone record with a small probability; give epsilon and delta, for instance Budget(epsilon=1, delta=1e-8)"
        )
    if accounting is not None:
        text(accounting, "accounting")
        raise ValueError(
            f"accounting: {accounting!r} composes the noise of levels, but StabilityHistogram measures one level, and "
            "its epsilon and delta are proven of that; leave it out"
        )
    noise = laplace_for(sensitivity, budget.epsilon, grid)
    threshold = least_threshold(noise.scale, most_lost, budget.delta)
    return StabilityPlan(budget, StableLevel(level, sensitivity, most_lost, noise, threshold))


def least_threshold(scale: Fraction, most_lost: int, delta: Fraction) -> int:
    """The least t that conditions 2 and 3 of the module's docstring, and t ≥ m, are shown to hold for.

    Both hold for all larger t if for one, since p falls. A t at which they cannot be decided counts as too small.

    Args:
        scale: b, as it is drawn.
        most_lost: m.
        delta: δ in (0, 1).
    """
    too_small, step = most_lost - 1, 1
    while not suffices(too_small + step, scale, most_lost, delta):
        too_small, step = too_small + step, 2 * step
    enough = too_small + step
    while enough - too_small > 1:
        middle = (too_small + enough) // 2
        if suffices(middle, scale, most_lost, delta):
            enough = middle
        else:
            too_small = middle
    return enough


def suffices(threshold: int, scale: Fraction, most_lost: int, delta: Fraction) -> bool:
    """Whether conditions 2 and 3 of the module's docstring, and t ≥ m, are shown to hold."""
    if threshold < most_lost:
        return False
    bits = _SPARE_BITS + int(1 / delta).bit_length() + int(scale).bit_length() + 2 * most_lost.bit_length()
    one = 1 << bits
    q, q_all = exp_minus(1 / scale, bits), exp_minus(most_lost / scale, bits)

    def shown(count: int) -> Enclosure:
        """p(count)."""
        power = exp_minus((threshold - count) / scale, bits)
        return over(power, (one + q[0], one + q[1]), bits)

    single, together = shown(1), shown(most_lost)
    some_single = one_minus(_power(one_minus(single, bits), most_lost, bits), bits)
    most = max(some_single[1], together[1])
    vanish = most * delta.denominator <= delta.numerator << bits
    return vanish and single[1] + q[1] <= one and together[1] + q_all[1] <= one


def _power(base: Enclosure, exponent: int, bits: int) -> Enclosure:
    """A number in [0, 1] to a power ≥ 1, by squaring: each step at most doubles an error and adds a unit."""
    result = (1 << bits, 1 << bits)
    for digit in bin(exponent)[2:]:
        result = times(result, result, bits)
        if digit == "1":
            result = times(result, base, bits)
    return result
