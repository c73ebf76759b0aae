"""The arguments that every kind of release shares, and what they plan: noise, an account, an engine."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from tallytree.accounting import Asked, NoisePlan, Plan, composable_budget, plan_noise
from tallytree.accounting.scales import next_float, representable
from tallytree.accounting.sensitivity import Sensitivity, largest_size_sensitivity, level_sensitivities
from tallytree.accounting.spending import Loss, Posting
from tallytree.budget import Budget, BudgetSplit, shares
from tallytree.counts import CountsMechanism
from tallytree.hierarchy import Tree, nodes_per_level
from tallytree.ledger import Account, Ledger, checked_name
from tallytree.measurements import Statistic
from tallytree.private.engines.engine import Engine
from tallytree.private.engines.local import Local
from tallytree.sizes import SizesMechanism
from tallytree.terms import UNITS, Terms, checked_terms


@dataclass(frozen=True, kw_only=True)
class Options:
    """The arguments that every kind of release shares, as they were given; see `tallytree.release_counts`."""

    neighboring: str
    max_contributions: int = 1
    mechanism: CountsMechanism | SizesMechanism | None = None
    budget_split: BudgetSplit = None
    accounting: str | None = None
    on_unknown: str = "error"
    seed: int | None = None
    noise: str = "keyed"
    engine: Engine | None = None
    progress: bool = False
    ledger: Ledger | str | os.PathLike[str] | None = None
    dataset: str | None = None
    person: str | None = None
    distinct: bool = False

    def terms(self) -> Terms:
        """Those that say what is protected, validated."""
        return checked_terms(
            self.neighboring,
            self.max_contributions,
            self.on_unknown,
            self.noise,
            self.seed,
            self.person,
            self.distinct,
        )

    def plan(
        self,
        budget: Budget,
        statistics: Mapping[str, Statistic],
        terms: Terms,
        tree: Tree,
        *,
        max_quantity: int = 1,
        understatement: Mapping[str, int] | None = None,
        maximum_share: Fraction | None = None,
        auto_split: Callable[[Mapping[str, float], bool], BudgetSplit] | None = None,
    ) -> NoisePlan:
        """The noise of every measured level, with the sensitivity of what is measured there.

        The largest size is measured where there is a share for it.

        `auto_split` is what `budget_split="auto"` means: from each level's noise (std_dev) if it had all of the budget,
        and whether shares are of ρ, to shares.

        Where a mechanism's published calibration understates the loss of levels by factors, the plan has the noise that
        was published, and the budget which that truly spends.
        """
        grid = next_float if terms.noise == "opendp" else representable
        bounds = level_sensitivities(
            statistics,
            terms.neighboring,
            terms.max_contributions,
            max_quantity=max_quantity,
            nodes=nodes_per_level(tree),
        )
        maximum = None
        if maximum_share is not None:
            bound = largest_size_sensitivity(terms.neighboring, terms.max_contributions, max_quantity=max_quantity)
            maximum = Asked(tree.levels[0], "largest_size", bound, maximum_share)
        split = self.budget_split
        if split == "auto" and auto_split is not None and isinstance(budget, Budget):
            split = auto_split(
                {level: _std_dev_alone(budget, bound) for level, (_, bound) in bounds.items()}, budget.kind != "pure"
            )
        if not understatement:
            return plan_noise(budget, bounds, split, self.accounting, grid, maximum)
        if not isinstance(budget, Budget) or budget.epsilon is None or budget.delta is not None:
            raise ValueError(f'budget: {budget!r} must be pure with calibration="as_published", as the paper\'s is')
        share = shares(split, list(statistics))
        rest = budget.epsilon * (1 - (maximum_share or 0))
        true = {level: rest * share[level] * understatement[level] for level in statistics}
        total = budget.epsilon - rest + sum(true.values(), Fraction(0))
        if maximum is not None:
            maximum = replace(maximum, share=(budget.epsilon - rest) / total)
        return plan_noise(Budget(epsilon=total), bounds, true, self.accounting, grid, maximum)

    def account(self, statistic: str, mechanism: object, plan: Plan, terms: Terms) -> Account | None:
        """Where the release is recorded; the ledger is not opened yet."""
        if self.ledger is None and self.dataset is None:
            return None
        if self.ledger is None:
            raise ValueError(f"dataset: {self.dataset!r} is a name in a ledger; give the ledger too, or leave it out")
        if self.dataset is None:
            raise ValueError(
                f"dataset: the ledger {_ledger(self.ledger).path.name!r} keeps what is spent by data set; name the one "
                "that the records belong to, and keep to that name whenever its people are released again"
            )
        if terms.seed is not None:
            raise ValueError(
                f"seed: {terms.seed} makes a release that is not private, so no ledger takes it; leave the seed out to "
                "publish, or the ledger to experiment"
            )
        posting = Posting(
            dataset=checked_name(self.dataset),
            statistic=statistic,
            mechanism=type(mechanism).__name__,
            neighboring=terms.neighboring,
            max_contributions=terms.max_contributions,
            unit=UNITS[statistic],
            loss=Loss.of(plan),
        )
        return Account(_ledger(self.ledger), posting)


def check_statistics(mechanism: Any, wanted: Mapping[str, Statistic], allowed: Mapping[str, Set[Statistic]]) -> None:
    """Refuse a mechanism that wants something measured where its sensitivity would not hold."""
    for level, statistic in wanted.items():
        if statistic not in allowed.get(level, ()):
            raise ValueError(
                f"mechanism: {type(mechanism).__name__} wants {statistic!r} measured at {level!r}; "
                f"what can be measured there is {' or '.join(sorted(allowed.get(level, ()))) or 'nothing'}"
            )


def chosen_engine(given: Any) -> Engine:
    """The engine that was given, or the default.

    Raises:
        TypeError: not an engine.
    """
    if given is None:
        return Local()
    if not isinstance(given, Engine):
        raise TypeError(f"engine: {given!r} must be one of tallytree.engines, for instance Local()")
    return given


def checked_column(name: str | None, argument: str) -> str | None:
    """The name of a column, if one is given.

    Raises:
        TypeError: not a name.
    """
    if name is not None and not isinstance(name, str):
        raise TypeError(f"{argument}: {name!r} must be the name of a column")
    return name


def _ledger(given: Ledger | str | os.PathLike[str]) -> Ledger:
    return given if isinstance(given, Ledger) else Ledger(given)


def _std_dev_alone(budget: Budget, bound: Sensitivity) -> float:
    """The standard deviation of a cell's noise, about, if a level had all of the budget."""
    if budget.epsilon is not None and budget.delta is None:
        return math.sqrt(2) * bound.l1 / float(budget.epsilon)
    return math.sqrt(bound.l2_squared / (2 * float(composable_budget(budget, "zcdp"))))
