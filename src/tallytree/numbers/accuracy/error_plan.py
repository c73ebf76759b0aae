"""`tallytree.plan`: the expected error of every level and the risk of a spec, for several budgets and mechanisms.

Nothing private is opened, nothing is drawn from a release's key, and nothing is spent. Options of the run (ledger,
secret, seed) have no part in it.
"""

from __future__ import annotations

import math
import secrets
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import pyarrow as pa

from tallytree.accounting import StabilityPlan
from tallytree.accounting.risk import attack_rates
from tallytree.budget import Amount, Budget
from tallytree.errors import BudgetExceeded
from tallytree.kinds.mechanism import Mechanism
from tallytree.kinds.registry import kind_of
from tallytree.numbers.accuracy.advice import FACTOR, Advice, advised, least_amount
from tallytree.numbers.accuracy.expected_errors import (
    LEARNS,
    ExpectedError,
    LevelLaw,
    expected_errors,
    has_closed_form,
    shown,
    shown_laws,
    shown_levels,
    unreliable_below,
)
from tallytree.numbers.accuracy.simulated_errors import simulated_errors
from tallytree.numbers.accuracy.targets import (
    Target,
    amount_of,
    checked_target,
    least_budget,
    least_budget_of_tables,
    with_amount,
)
from tallytree.release.counted_unit import bound_sentence
from tallytree.release.risk_statement import risk_statement, weak_protection
from tallytree.run import Planned, PlannedCounts, PlannedHouseholds, PlannedTables
from tallytree.run.options import SharedArguments
from tallytree.run.plan_tables import wishes_of
from tallytree.support.markup import html_table
from tallytree.support.validate import safe_text, text
from tallytree.tables.choosing import follows
from tallytree.tables.layout import levels_of, shown_tables

LADDER = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
"""The budgets beside that of the spec, as parts of it."""

AWAY_FROM_ZERO = (
    "Closed forms are of counts that are large compared to their noise, as are those of their siblings. The errors of "
    "counts near 0 are smaller. A count among many that are 0 is on average too small, and a coarser one, of areas "
    "that mostly have 0, can be off by more than is shown: a public stand-in (like) simulates it."
)
NO_CLOSED_FORM = (
    "{} has no closed form, so nothing public but a stand-in tells the errors of its numbers: give public data such as "
    "last year's release or its records (like=…, --like PATH), on which they are simulated."
)
ON_A_STAND_IN = (
    "Simulated on a stand-in, {} replicates: std_dev and half_width are of its cells that are not 0, the expected "
    "maximum is of all cells."
)
IF_NOTHING_CHANGED = (
    "Of a revision: std dev and moved say how far, and how many, numbers move from those of the release that is "
    "revised if no record changed. Where records changed they also move by that."
)
ABOVE_A_THRESHOLD = (
    "StabilityHistogram: the figures are of the counts of {} that are published; noisy counts below {:,} are left out, "
    "and nothing public tells how much all sums lack."
)
COVERS = "The figures cover the privacy noise, not errors in the records, nor records that are left out."


@dataclass(frozen=True, eq=False, repr=False)
class ErrorPlan:
    """What a spec will publish, in errors and in risk, before it is paid for.

    Attributes:
        table: one row per budget, mechanism and level: `epsilon`, `delta`, `rho` (null where the budget has none),
            `mechanism`, `level`, `nodes`, `std_dev`, `half_width` (of a 90 % interval), `expected_maximum` (over the
            level), `basis`, `least_usable` (from which number on a number is not unreliable), `unreliable` (the share
            of numbers that will be, on a stand-in) and `moved` (the share that is not the stand-in's). Null where
            nothing is known.
        risk: one row per budget and false-positive rate of an attacker: `epsilon`, `delta`, `rho`,
            `false_positive_rate` and `true_positive_rate`, at most.
        statement: the risk at the budget of the plan, as the statement of the release will have it.
        spec: the spec with the budget of the plan, for `load_spec` and `Spec.release`; with a target of tables whose
            shares are chosen, also with the `precision` that gives it.
        budget: that of the spec, or the least that gives the target.
        mechanism: the name of the spec's mechanism.
        notes: sentences on what the figures are.
        advice: a coarser level, or the least budget, with which at most 10 % of the numbers will be unreliable; None
            without a stand-in, or where no level has more.
        precision: of tables, by the levels of each, the wishes whose shares give the target; None where the shares are
            the spec's.
    """

    table: pa.Table
    risk: pa.Table
    statement: Mapping[str, Any]
    spec: Mapping[str, Any]
    budget: Budget
    mechanism: str
    notes: tuple[str, ...]
    advice: Advice | None = None
    precision: Mapping[str, float] | None = None

    def __repr__(self) -> str:
        """The budget, and the standard deviations of the spec's own mechanism."""
        errors = ", ".join(f"{each['level']} {shown(each['std_dev']) or 'not known'}" for each in self.levels)
        return f"ErrorPlan({self.mechanism}, {self.budget!r}, std_dev: {errors})"

    def _repr_html_(self) -> str:
        """The expected errors of the spec's own mechanism as a table, for notebooks."""
        columns = ("level", "nodes", "std_dev", "half_width", "expected_maximum", "basis")
        rows = [[row[column] for column in columns] for row in self.levels]
        return html_table(f"Plan: {self.mechanism}, {self.budget!r}", columns, rows, " ".join(self.notes))

    @property
    def levels(self) -> list[dict[str, Any]]:
        """The rows of the table for the budget of the plan and the spec's mechanism, root first."""
        amounts = amounts_of(self.budget)
        wanted = {**amounts, "mechanism": self.mechanism}
        return [row for row in self.table.to_pylist() if all(row[name] == value for name, value in wanted.items())]


@dataclass(frozen=True)
class PlannedSpec:
    """A spec that is planned with several budgets and mechanisms.

    Attributes:
        arguments: that it gives.
        plan_of: from such arguments to the planned release.
        with_budget: from the name of an amount and the amount to the spec with that budget.
        mechanisms: those of its statistic, by name.
        like: see `tallytree.plan`, as of the others.
        replicates: of a simulation.
        seed: of a simulation.
        progress: show a progress bar on standard error.
        budget_of_plan: the least that gives the target; None for that of the spec.
        precision: wished standard deviations by table, in place of the spec's, whose shares give the target.
    """

    arguments: SharedArguments
    plan_of: Callable[[SharedArguments], Planned[Any, Any]]
    with_budget: Callable[[str, Fraction], Mapping[str, Any]]
    mechanisms: Mapping[str, type[Mechanism]]
    like: Any
    replicates: int
    seed: int | None
    progress: bool
    budget_of_plan: Budget | None = None
    precision: Mapping[str, float] | None = None

    def error_plan(
        self, target: Target | None, epsilons: Sequence[Amount] | None, mechanisms: Sequence[str] | None
    ) -> ErrorPlan:
        """The plan; see `tallytree.plan` for the arguments.

        All simulations of a plan draw from one seed, so that budgets and mechanisms differ by more than chance.
        """
        if self.like is not None and self.seed is None:
            return replace(self, seed=secrets.randbits(63)).error_plan(target, epsilons, mechanisms)
        own = self.planned(self.budget)
        if target is None:
            return self.compared(own, epsilons, mechanisms)
        wanted = checked_target(target, _by_level(own), type(own.mechanism).__name__)
        tables = _tables_of(own)
        if tables is not None and tables.arguments.budget_split == "auto":
            chosen = self._with_shares_for(wanted, tables)
        else:
            budget = least_budget(self.budget, wanted, lambda each: _by_level(self.planned(each)))
            chosen = replace(self, budget_of_plan=budget)
        return chosen.compared(chosen.planned(chosen.budget), epsilons, mechanisms)

    def _with_shares_for(self, wanted: Mapping[str, float], own: PlannedTables) -> PlannedSpec:
        """The least budget for targets of tables whose shares are chosen, and the precision that chooses them.

        Raises:
            ValueError: a target of a table that is measured only to help others.
        """
        named = wishes_of(own.arguments, own.layout)
        wishes = dict(zip(shown_tables([*named]), named.values(), strict=True))
        for name in wanted:
            if name not in wishes:
                raise ValueError(
                    f"target: {name!r} is measured only where it helps the tables that are asked for; list it in tables"
                )

        def laws_at(budget: Budget, precision: Mapping[str, float]) -> Mapping[str, LevelLaw]:
            return _by_level(replace(self, precision=precision).planned(budget))

        budget, precision = least_budget_of_tables(self.budget, wanted, wishes, laws_at)
        return replace(self, budget_of_plan=budget, precision=precision)

    @property
    def budget(self) -> Budget:
        """That of the plan: the spec's, or the least that gives the target."""
        of_spec: Budget = self.arguments.budget  # type: ignore[attr-defined]
        return of_spec if self.budget_of_plan is None else self.budget_of_plan

    def planned(self, budget: Budget, mechanism: Mechanism | None = None) -> Planned[Any, Any]:
        """The release with this budget; the hierarchy is that which was read once."""
        changed: dict[str, Any] = {"budget": budget} | ({} if mechanism is None else {"mechanism": mechanism})
        if self.precision is not None:
            changed["precision"] = {levels_of(name): wish for name, wish in self.precision.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a caution is about releases, and nothing is published here
            return self.plan_of(replace(self.arguments, **changed))

    def compared(
        self, own: Planned[Any, Any], epsilons: Sequence[Amount] | None, names: Sequence[str] | None
    ) -> ErrorPlan:
        """The spec's mechanism with every budget, and the other mechanisms with that of the plan."""
        mechanism = type(own.mechanism).__name__
        rows: list[dict[str, Any]] = []
        risks: list[dict[str, Any]] = []
        notes: list[str] = []
        by_amount: dict[Fraction, list[ExpectedError]] = {}
        for budget in self._budgets(epsilons):
            planned = own if budget == self.budget else self.planned(budget)
            errors = by_amount[amount_of(budget)] = self._errors(planned)
            rows += _rows(planned, errors)
            risks += [{**amounts_of(budget), **vars(rate)} for rate in attack_rates(planned.plan)]
        bound = bound_sentence(own.statement)
        notes += [each for each in (bound, own.expected_work) if each]
        for planned, of_other in ((own, None), *self._others(own, names, notes)):
            rows += [] if of_other is None else _rows(planned, of_other)
            if isinstance(planned.plan, StabilityPlan):
                notes.append(ABOVE_A_THRESHOLD.format(planned.plan.stable.level, planned.plan.stable.threshold))
        spec = self.with_budget("rho" if self.budget.kind == "zcdp" else "epsilon", amount_of(self.budget))
        precision = None
        if self.precision is not None:
            precision = {", ".join(levels_of(name)): wish for name, wish in self.precision.items()}
        risk = risk_statement(own.plan, own.statement)
        return ErrorPlan(
            pa.Table.from_pylist(rows, _ROWS),
            pa.Table.from_pylist(risks, _RISKS),
            weak_protection({**own.statement, "risk": risk}) | risk,
            spec if precision is None else {**spec, "precision": precision},
            self.budget,
            mechanism,
            (*self._about(own, rows, by_amount[amount_of(self.budget)]), *notes, COVERS),
            self._advice(own, by_amount),
            precision,
        )

    def _advice(self, own: Planned[Any, Any], by_amount: Mapping[Fraction, Sequence[ExpectedError]]) -> Advice | None:
        """What to publish instead where many numbers will be unreliable; see `advice`."""
        amount, name = amount_of(self.budget), "rho" if self.budget.kind == "zcdp" else "epsilon"

        def amount_for(level: str) -> Fraction | None:
            known = {each: _share(errors, level) for each, errors in by_amount.items()}
            return least_amount(lambda each: self._share_at(each, level), known, amount, FACTOR[name])

        names, tables = shown_levels(own), _tables_of(own)
        others = () if tables is None else names[tables.tree.asked : len(tables.tree.levels)]
        published = [name for name in names if name not in others]
        errors = [each for each in by_amount[amount] if each.level in published]
        return advised(errors, partial(_coarser, own), name, amount_for)

    def _share_at(self, amount: Fraction, level: str) -> float | None:
        """The share of unreliable numbers of a level with another amount; None where there is no such plan."""
        try:
            planned = self.planned(with_amount(self.budget, amount))
        except (ValueError, BudgetExceeded) as error:
            if not str(error).startswith("budget:"):
                raise
            return None  # so much that no noise is as narrow
        return _share(self._errors(planned), level)

    def _budgets(self, epsilons: Sequence[Amount] | None) -> list[Budget]:
        """The budgets to compare, ascending; that of the plan is among them."""
        amount = amount_of(self.budget)
        if epsilons is None:
            return [with_amount(self.budget, part * amount) for part in LADDER]
        if not isinstance(epsilons, list | tuple):
            raise TypeError(f"epsilons: {safe_text(epsilons)} must be a list of numbers, such as (0.5, 1, 2)")
        if self.budget.kind == "zcdp":
            raise ValueError(f"epsilons: {self.budget!r} is in rho, so no epsilon fits the spec; leave epsilons out")
        budgets = [Budget(epsilon=each, delta=self.budget.delta) for each in epsilons]
        return sorted({amount_of(each): each for each in (*budgets, self.budget)}.values(), key=amount_of)

    def _errors(self, planned: Planned[Any, Any]) -> list[ExpectedError]:
        if self.like is None:
            return expected_errors(planned)
        return simulated_errors(planned, self.like, replicates=self.replicates, seed=self.seed, progress=self.progress)

    def _others(
        self, own: Planned[Any, Any], names: Sequence[str] | None, notes: list[str]
    ) -> Iterator[tuple[Planned[Any, Any], list[ExpectedError]]]:
        """The release by other mechanisms, with their errors; why one is left out is added to the notes."""
        known = self.mechanisms
        if isinstance(names, str):
            raise TypeError(f"mechanisms: {safe_text(names)} must be a list of names")
        for name in names or ():
            if text(name, "mechanisms", "the name of a mechanism") not in known:
                raise ValueError(f"mechanisms: {name!r} is not known; choose among {', '.join(known)}")
        for name in known if names is None else names:
            mechanism = known[name]()
            if name == type(own.mechanism).__name__ or (names is None and mechanism.caution is not None):
                continue
            try:
                planned = self.planned(self.budget, mechanism)
            except (ValueError, BudgetExceeded, ModuleNotFoundError) as error:
                if names is not None:
                    raise
                notes.append(f"{name} does not fit this spec: {error}")
                continue
            errors = self._errors(planned)
            if names is not None or has_closed_form(errors):
                yield planned, errors

    def _about(
        self, own: Planned[Any, Any], rows: Sequence[Mapping[str, Any]], of_own: Sequence[ExpectedError]
    ) -> Iterator[str]:
        """What the figures are, and what follows from them for readers."""
        mechanism = type(own.mechanism).__name__
        usable = unreliable_below(of_own)
        bases = {row["basis"] for row in rows}
        if self.like is not None:
            yield ON_A_STAND_IN.format(self.replicates)
        if own.prior is not None and own.prior.revised:
            yield IF_NOTHING_CHANGED
        elif all(row["std_dev"] is None for row in rows if row["mechanism"] == mechanism):
            yield NO_CLOSED_FORM.format(mechanism)
        elif isinstance(own, PlannedHouseholds):
            yield NO_CLOSED_FORM.format("The fit of households by size")
        if bases & {"closed form", "mean families"}:
            yield AWAY_FROM_ZERO
            if isinstance(own, PlannedCounts):
                yield from _worth_its_noise(
                    of_own, ", or use unlisted: remainder" if kind_of(own.statistic).sides else ""
                )
        if "mean families" in bases:
            yield "The tree is too large for every node to be computed: families have their level's mean size."
        if usable:
            yield usable
        if "closed form" in bases and _tables_of(own) is not None:
            yield LEARNS


def _worth_its_noise(errors: Sequence[ExpectedError], other: str) -> Iterator[str]:
    """How many records a level needs so that its counts say more than zeros would: what its errors add up to."""
    sums = [
        (each.level, math.sqrt(2 / math.pi) * each.nodes * each.std_dev)
        for each in errors
        if each.nodes > 1 and each.std_dev
    ]
    if sums:
        each = ", ".join(f"{shown(total)} at {level}" for level, total in sums)
        yield (
            f"If no count were near 0, the errors of a level would add up to about {each}. A level with fewer records "
            f"than that is mostly noise: publish a coarser one{other}."
        )


_AMOUNTS = [("epsilon", pa.float64()), ("delta", pa.float64()), ("rho", pa.float64())]
_ROWS = pa.schema(
    [
        *_AMOUNTS,
        ("mechanism", pa.string()),
        ("level", pa.string()),
        ("nodes", pa.int64()),
        ("std_dev", pa.float64()),
        ("half_width", pa.float64()),
        ("expected_maximum", pa.float64()),
        ("basis", pa.string()),
        ("least_usable", pa.float64()),
        ("unreliable", pa.float64()),
        ("moved", pa.float64()),
    ]
)
_RISKS = pa.schema([*_AMOUNTS, ("false_positive_rate", pa.float64()), ("true_positive_rate", pa.float64())])


def amounts_of(budget: Budget) -> dict[str, float | None]:
    """The amounts of a budget by name, as the tables have them."""
    amounts = {"epsilon": budget.epsilon, "delta": budget.delta, "rho": budget.rho}
    return {name: None if amount is None else float(amount) for name, amount in amounts.items()}


def _rows(planned: Planned[Any, Any], errors: Sequence[ExpectedError]) -> list[dict[str, Any]]:
    about = {**amounts_of(planned.plan.budget), "mechanism": type(planned.mechanism).__name__}
    return [{**about, **vars(each), "least_usable": each.least_usable} for each in errors]


def _share(errors: Sequence[ExpectedError], level: str) -> float | None:
    return next((each.unreliable for each in errors if each.level == level), None)


def _coarser(own: Planned[Any, Any], level: str) -> Collection[str]:
    """The levels, or tables, whose numbers are sums of those of a level."""
    names, of_tables = shown_levels(own), _tables_of(own)
    place = names.index(level)
    if of_tables is None:
        return names[:place]
    layout = of_tables.layout
    if place >= len(layout.levels):
        return names[len(layout.levels) : place]
    finer, tables = layout.tables[place], zip(names, layout.tables, strict=False)
    return [name for name, each in tables if each != finer and follows(layout.product, each, finer)]


def _tables_of(own: Planned[Any, Any]) -> PlannedTables | None:
    """The planned tables: all of the release, or its tables of persons; None where it has none."""
    tables = own.persons if isinstance(own, PlannedHouseholds) else own
    return tables if isinstance(tables, PlannedTables) else None


def _by_level(planned: Planned[Any, Any]) -> dict[str, LevelLaw]:
    return {each.level: each for each in shown_laws(planned)}
