"""How every level is measured within a budget. What holds is checked of the scales as they are drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import cast, get_args

from tallytree.accounting import pld
from tallytree.accounting.conversions import epsilon_from_rho, rho_from_epsilon
from tallytree.accounting.pld import kept_in
from tallytree.accounting.scales import MIN_SCALE, Grid, gaussian_for, laplace_for, privacy_cost, representable
from tallytree.accounting.sensitivity import Sensitivity
from tallytree.budget import Budget, BudgetSplit, shares
from tallytree.errors import BudgetExceeded
from tallytree.kinds.measurements import BESIDE_THE_LEVELS, Noise, Statistic
from tallytree.kinds.terms import Accounting
from tallytree.support.validate import safe_text, text


@dataclass(frozen=True)
class Asked:
    """What is to be measured at a level.

    Attributes:
        level: its name.
        statistic: what is measured.
        sensitivity: of the level, all its nodes together, for one neighboring change.
        share: its share of the budget.
    """

    level: str
    statistic: Statistic
    sensitivity: Sensitivity
    share: Fraction


@dataclass(frozen=True)
class LevelPlan:
    """How one level is measured.

    Attributes:
        level: its name.
        statistic: what is measured.
        share: its share of the budget.
        sensitivity: of the level, all its nodes together, for one neighboring change.
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
        accounting: how (ε, δ) is accounted for; None for a pure budget or one of ρ.
        levels: the measured levels by name, root first.
        beside: how what is measured beside the levels is measured, in order, before them.
        chosen: whether this is one of several plans with the same shares, of which noisy answers choose one
            (`with_sensitivities`). Then all of the budget counts as spent, since that holds whichever is chosen.
    """

    budget: Budget
    accounting: Accounting | None
    levels: Mapping[str, LevelPlan]
    beside: tuple[LevelPlan, ...] = ()
    chosen: bool = False

    def __post_init__(self) -> None:
        """Refuse to exist where more than the budget would be spent; the levels are sealed.

        Raises:
            BudgetExceeded: it would be.
            ValueError: what is measured beside the levels is not of that kind, or the same thing twice: both would have
                the same noise.
        """
        object.__setattr__(self, "levels", MappingProxyType(dict(self.levels)))
        object.__setattr__(self, "beside", tuple(self.beside))
        statistics = [each.statistic for each in self.beside]
        if len(set(statistics)) < len(statistics) or not set(statistics) <= set(BESIDE_THE_LEVELS):
            raise ValueError(f"beside: {statistics} must be distinct, and among {', '.join(BESIDE_THE_LEVELS)}")
        law = "discrete_laplace" if self.budget.kind == "pure" else "discrete_gaussian"
        for each in self.measured:
            if each.noise.distribution != law or each.noise.scale < MIN_SCALE:
                raise BudgetExceeded(
                    f"budget: {self.budget!r} is accounted for with {law} noise of a scale of at least "
                    f"{float(MIN_SCALE)}, but {each.statistic!r} at {each.level!r} would have {each.noise!r}"
                )
        epsilon, delta = self.budget.epsilon, self.budget.delta
        if self.accounting == "pld" and epsilon is not None and delta is not None:
            if self.chosen:
                raise BudgetExceeded('accounting: "pld" is not proven for noise that is chosen; choose "zcdp"')
            if not pld.implied(self._curves, epsilon, delta):
                raise BudgetExceeded(f"budget: the levels would spend more than {self.budget!r}")
            return
        limit = composable_budget(self.budget, self.accounting)
        if self._total_cost > limit:
            raise BudgetExceeded(f"budget: the levels would spend {float(self._total_cost)} of {float(limit)}")

    @property
    def spent(self) -> dict[str, Fraction]:
        """What the plan spends, in the budget's own terms (never more than it; scales are rounded up)."""
        total = composable_budget(self.budget, self.accounting) if self.chosen else self._total_cost
        if self.budget.kind == "pure":
            return {"epsilon": total}
        if self.budget.epsilon is None or self.budget.delta is None or self.accounting is None:
            return {"rho": total}
        if total == 0:
            return {"epsilon": Fraction(0), "delta": Fraction(0), "rho": Fraction(0)}
        if self.accounting == "pld":
            epsilon = pld.epsilon_spent(self._curves, self.budget.epsilon, self.budget.delta)
            return {"epsilon": epsilon, "delta": self.budget.delta, "rho": total}
        # The plan's total is within the budget's rho, which implies the budget's epsilon: so the lesser holds.
        epsilon = self.budget.epsilon
        if not self.chosen:
            epsilon = min(epsilon_from_rho(total, self.budget.delta, self.accounting), epsilon)
        return {"epsilon": epsilon, "delta": self.budget.delta, "rho": total}

    def check_without_kept(self) -> None:
        """Refuse a plan whose loss is understated by a number that was kept on the disk (`pld`).

        Such a number has a digest, and is near the continuous Gaussian's; within that, a damaged one could still
        understate δ by a ninth. What a ledger is charged is computed by the process that pays, once per plan.

        Raises:
            BudgetExceeded: the plan is not known to have the loss that it states.
        """
        spent, delta = self.spent, self.budget.delta
        if self.accounting != "pld" or delta is None:
            return
        if not pld.implied_without_kept(self._curves, spent["epsilon"], delta):
            raise BudgetExceeded(
                f"accounting: a number of this plan that an earlier process kept ({kept_in()}) is wrong, so the plan "
                "would spend more than it states; remove that folder, and run the release again"
            )

    @property
    def measured(self) -> tuple[LevelPlan, ...]:
        """All that is measured and has to be paid for, in order."""
        return self.beside + tuple(self.levels.values())

    @property
    def maximum(self) -> LevelPlan | None:
        """How the largest size is measured; None where it is public, or of no interest."""
        return self._measured_beside("largest_size")

    @property
    def contributions(self) -> LevelPlan | None:
        """How people are counted by their number of records; None where they are not."""
        return self._measured_beside("contributions")

    @property
    def rho_of_each(self) -> tuple[Fraction, ...]:
        """A ρ for each measurement, such that they add up to one of the release; see `accounting.losses`.

        Where the plan is one of several, they are those of the shares, which no plan exceeds.
        """
        pure = self.budget.kind == "pure"
        costs = tuple(each.cost for each in self.measured)
        if self.chosen:
            granted = composable_budget(self.budget, self.accounting)
            costs = tuple(granted * each.share for each in self.measured)
        return tuple(cost**2 / 2 for cost in costs) if pure else costs

    def with_sensitivities(self, sensitivity_of: Callable[[LevelPlan], Sensitivity], grid: Grid) -> NoisePlan:
        """The plan with the same shares of the same budget, where each measurement has another sensitivity.

        For what is measured after a choice that noisy answers make (`run.auto_bound`). No measurement
        spends more than its share, whatever its sensitivity: its noise is scaled to it. So whichever plan is chosen, no
        measurement spends more than its share, and adaptive composition adds up the shares.

        Args:
            sensitivity_of: from a measurement of this plan to its sensitivity in the other one.
            grid: rounds a scale up to one that the noise source draws.

        Raises:
            ValueError: an accounting by which measurements do not simply add up, or a scale that is not drawn.
        """
        granted = composable_budget(self.budget, self.accounting)
        noise_for = laplace_for if self.budget.kind == "pure" else gaussian_for

        def again(each: LevelPlan) -> LevelPlan:
            bound = sensitivity_of(each)
            return replace(each, sensitivity=bound, noise=noise_for(bound, granted * each.share, grid))

        levels = {level: again(each) for level, each in self.levels.items()}
        return NoisePlan(self.budget, self.accounting, levels, tuple(map(again, self.beside)), chosen=True)

    def planned(self, level: str, statistic: str) -> LevelPlan | None:
        """How this statistic of a level is measured; None where it is not."""
        found = self._measured_beside(statistic) if statistic in BESIDE_THE_LEVELS else self.levels.get(level)
        return found if found is not None and (found.level, found.statistic) == (level, statistic) else None

    def planned_stable(self, level: str) -> None:
        """Nothing is measured above a threshold."""

    def _measured_beside(self, statistic: str) -> LevelPlan | None:
        return next((each for each in self.beside if each.statistic == statistic), None)

    @property
    def _curves(self) -> pld.Curves:
        return pld.curves((each.sensitivity, each.noise) for each in self.measured)

    @property
    def _total_cost(self) -> Fraction:
        return sum((each.cost for each in self.measured), Fraction(0))


def composable_budget(budget: Budget, accounting: Accounting | None) -> Fraction:
    """The budget in the terms in which levels add up: ε where it is pure, else ρ.

    Raises:
        ValueError: an accounting by which levels do not simply add up.
    """
    if budget.rho is not None:
        return budget.rho
    if budget.epsilon is None:
        raise ValueError(f"budget: {budget!r} has neither epsilon nor rho")
    if budget.delta is None:
        return budget.epsilon
    if accounting is None or accounting == "pld":
        raise ValueError(f"accounting: {accounting!r} converts no (epsilon, delta) to a rho that adds up over levels")
    return rho_from_epsilon(budget.epsilon, budget.delta, accounting)


def plan_noise(
    budget: Budget,
    statistics: Mapping[str, tuple[Statistic, Sensitivity]],
    budget_split: BudgetSplit = None,
    accounting: str | None = None,
    grid: Grid = representable,
    beside: Sequence[Asked] = (),
) -> NoisePlan:
    """How much noise every measured level gets.

    Args:
        budget: what may be spent in all. Pure: discrete Laplace noise; with δ or ρ: discrete Gaussian noise.
        statistics: for each measured level, root first, what is measured there and its sensitivity.
        budget_split: see `tallytree.budget.shares`; shares are of ε, or of ρ, or of what `beside` leaves of it.
        accounting: `"pld"`, `"zcdp"` or `"paper"`, for a budget with δ only; by default `"pld"` where it is proven for
            these levels and within reach of its arithmetic, else `"zcdp"`.
        grid: rounds a scale up to one that the noise source draws.
        beside: what is measured beside the levels, before them, each with its share of the budget.

    Raises:
        ValueError: an accounting that does not go with the budget or the levels, or a split that does not fit them.
        TypeError: a budget that is not a `Budget`.
    """
    if not isinstance(budget, Budget):
        raise TypeError(f"budget: {safe_text(budget)} must be a tallytree.Budget, for instance Budget(epsilon=1.0)")
    split = shares(budget_split, list(statistics)) if statistics else {}
    rest = 1 - sum((each.share for each in beside), Fraction(0))
    levels = [Asked(level, what, bound, rest * split[level]) for level, (what, bound) in statistics.items()]
    asked = [*beside, *levels]
    method = _accounting_for(budget, accounting, asked)
    noise_for = laplace_for if budget.kind == "pure" else gaussian_for
    if method == "pld":
        parts = tuple((each.sensitivity, each.share) for each in asked)
        granted = _rho_by_pld(budget, parts, grid) if parts else Fraction(0)
    else:
        granted = composable_budget(budget, method)

    def planned(each: Asked) -> LevelPlan:
        noise = noise_for(each.sensitivity, granted * each.share, grid)
        return LevelPlan(each.level, each.statistic, each.share, each.sensitivity, noise)

    return NoisePlan(
        budget,
        method,
        {each.level: planned(each) for each in levels},
        tuple(planned(each) for each in beside),
    )


@lru_cache(maxsize=64)
def _rho_by_pld(budget: Budget, parts: tuple[tuple[Sensitivity, Fraction], ...], grid: Grid) -> Fraction:
    """The total ρ for which levels with these sensitivities and shares spend the budget, by their composition."""
    epsilon, delta = cast(Fraction, budget.epsilon), cast(Fraction, budget.delta)

    def mechanisms_at(rho: Fraction) -> pld.Curves:
        return pld.curves((bound, gaussian_for(bound, rho * share, grid)) for bound, share in parts)

    return pld.largest_rho(mechanisms_at, epsilon, delta, known=composable_budget(budget, "zcdp"))


def _accounting_for(budget: Budget, accounting: str | None, asked: Sequence[Asked]) -> Accounting | None:
    if accounting is not None and text(accounting, "accounting", '"pld", "zcdp" or "paper"') not in get_args(
        Accounting
    ):
        raise ValueError(
            f'accounting: {accounting!r} is not known; choose "pld" (tight), "zcdp" (tight for rho) or "paper"'
        )
    if accounting is not None and budget.kind != "approximate":
        raise ValueError(
            f"accounting: {accounting!r} is about (epsilon, delta), but {budget!r} needs no conversion; leave it out"
        )
    if budget.kind != "approximate":
        return None
    if accounting in ("zcdp", "paper"):
        return cast(Accounting, accounting)
    obstacle = _obstacle_to_pld(budget, asked)
    if obstacle is None:
        return "pld"
    if accounting is None:
        return "zcdp"
    raise ValueError(f'accounting: "pld" {obstacle}; choose "zcdp"')


def _obstacle_to_pld(budget: Budget, asked: Sequence[Asked]) -> str | None:
    """Why the composition of privacy-loss distributions is not valid, or not within reach; None if it is both."""
    if cast(Fraction, budget.delta) < pld.MIN_DELTA:
        return f"is computed in floats, which {budget!r} is too fine for: delta must be at least 1e-12"
    for each in asked:
        if not each.sensitivity.shifts:
            beyond = ""
            if each.statistic not in ("counts", "total"):
                beyond = (
                    " (with quantities not for sorted sizes or the largest size, nor for over a thousand cells that "
                    "move at once)"
                )
            return (
                f"is proven for max_contributions=1 only{beyond}: how the cells of {each.statistic!r} at "
                f"{each.level!r} move most is not proven"
            )
        if len(each.sensitivity.shifts) > 1:
            return (
                f"has no proof for {each.statistic!r} at {each.level!r}: of the ways its cells move, none is the worst"
            )
    cells = sum(len(each.sensitivity.shifts[0]) for each in asked)
    if cells > pld.MAX_SHIFTED_CELLS:
        return (
            f"is computed for at most {pld.MAX_SHIFTED_CELLS} cells that one person moves, and these levels have "
            f"{cells}"
        )
    rho = composable_budget(budget, "zcdp")
    for each in asked:
        scale = gaussian_for(each.sensitivity, rho * each.share).scale
        what = BESIDE_THE_LEVELS.get(each.statistic) or repr(each.level)
        if not pld.MIN_SIGMA <= scale <= pld.MAX_SIGMA:
            return (
                f"is computed for noise of scale {float(pld.MIN_SIGMA):g} to {float(pld.MAX_SIGMA):g}, "
                f"but {what} needs about {float(scale):.3g}"
            )
    return None
