"""What all plans of releases share: the noise of every level, the place in a ledger, the engine."""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from fractions import Fraction
from typing import Any, cast

from tallytree.accounting import Asked, NoisePlan, Plan, composable_budget, plan_noise
from tallytree.accounting.scales import next_float, representable
from tallytree.accounting.sensitivity import Sensitivity, level_sensitivities, sensitivity
from tallytree.accounting.spending import Approval, Loss, Posting
from tallytree.budget import Budget, BudgetSplit, shares
from tallytree.engines import Engine, Local
from tallytree.hierarchy import Levels, nodes_per_level, stored_level
from tallytree.kinds.measurements import Statistic
from tallytree.kinds.registry import kind_of
from tallytree.kinds.terms import NoiseTerms, Unit
from tallytree.ledger import Account, Ledger
from tallytree.private import read_secret
from tallytree.run.options import SharedArguments
from tallytree.run.workspace import limited
from tallytree.support.machine import described_bytes, machine_bytes
from tallytree.support.validate import safe_text

AutoSplit = Callable[[Mapping[str, float], bool], BudgetSplit]
"""What `budget_split="auto"` means: from each level's noise (std_dev) if it had all of the budget, and whether shares
are of ρ, to weights."""


def noise_plan(
    terms: NoiseTerms,
    budget: Budget,
    statistics: Mapping[str, Statistic],
    tree: Levels,
    *,
    auto_split: AutoSplit,
    max_quantity: int = 1,
    understatement: Mapping[str, int] | None = None,
    beside: Mapping[Statistic, Fraction] | None = None,
) -> NoisePlan:
    """The noise of every measured level, with the sensitivity of what is measured there.

    Args:
        terms: the neighboring relation, the contribution bound, and how the budget is split and accounted for.
        budget: what may be spent.
        statistics: what is measured at each measured level, root first.
        tree: the public tree.
        auto_split: the rule of `budget_split="auto"`.
        max_quantity: the most that one record adds to a group's size.
        understatement: by which factors a published calibration understates the loss of the levels. The plan then has
            the noise that was published, and the budget which that truly spends.
        beside: what is measured beside the levels, before them, with the share of the budget that measures it.
    """
    grid = next_float if terms.noise == "opendp" else representable
    relation, m = terms.relation, terms.bound
    bounds = level_sensitivities(statistics, relation, m, max_quantity=max_quantity, nodes=nodes_per_level(tree))
    first = tuple(
        Asked(tree.levels[0], statistic, sensitivity(statistic, relation, m, max_quantity=max_quantity), share)
        for statistic, share in (beside or {}).items()
    )
    split = terms.budget_split
    if isinstance(split, Mapping):
        named = [stored_level(level, tree.levels[0]) for level in split]
        if len(set(named)) < len(named):
            raise ValueError("budget_split: it has two weights for the total; give one")
        split = dict(zip(named, split.values(), strict=True))
    if split == "auto" and isinstance(budget, Budget):
        std_devs = {level: std_dev_alone(budget, bound) for level, (_, bound) in bounds.items()}
        split = auto_split(std_devs, budget.kind != "pure")
    if not understatement:
        return plan_noise(budget, bounds, split, terms.accounting, grid, first)
    if not isinstance(budget, Budget) or budget.epsilon is None or budget.delta is not None:
        raise ValueError(f'budget: {budget!r} must be pure with calibration="as_published", as the paper\'s is')
    share = shares(split, list(statistics))
    rest = budget.epsilon * (1 - sum((each.share for each in first), Fraction(0)))
    true = {level: rest * share[level] * understatement[level] for level in statistics}
    total = budget.epsilon - rest + sum(true.values(), Fraction(0))
    first = tuple(replace(each, share=each.share * budget.epsilon / total) for each in first)
    return plan_noise(Budget(epsilon=total), bounds, true, terms.accounting, grid, first)


def check_run(arguments: SharedArguments) -> None:
    """Refuse options of a run that do not go together, and a secret that would have no effect or cannot be read.

    Raises:
        ValueError: they do not go together, or the file holds no secret.
        OSError: the secret cannot be read.
    """
    if arguments.on_changed == "charge" and arguments.run is None:
        raise ValueError('on_changed: "charge" is about a run that is repeated; name it with run, or leave it out')
    for name in ("approved_by", "reason", "ticket"):
        if getattr(arguments, name) is not None and arguments.ledger is None:
            raise ValueError(f"{name}: it is kept in the ledger; give the ledger too, or leave it out")
    if arguments.secret is None:
        return
    if arguments.seed is not None:
        raise ValueError("secret: a seed makes a release that is not private; give the secret or the seed")
    if arguments.noise == "opendp":
        raise ValueError('secret: OpenDP draws from the operating system and takes no key; use noise="keyed"')
    for name in ("run", "ledger", "dataset"):
        if getattr(arguments, name) is None:
            raise ValueError(f"secret: it makes a run repeatable, which needs {name}; give it, or leave secret out")
    read_secret(arguments.secret)


def account(
    arguments: SharedArguments, statistic: str, mechanism: object, plan: Plan, *, unit: Unit | None = None
) -> Account | None:
    """The place of a release in the ledger that is named; None without one. The ledger is not opened yet.

    Args:
        arguments: the ledger, the data set and what is protected.
        statistic: what is released.
        mechanism: the mechanism.
        plan: what is spent.
        unit: what a person has so many of; by default that of the statistic.

    Raises:
        ValueError: a ledger without the name of a data set or the other way round, or a seed beside a ledger.
        TypeError: a name that is no text.
    """
    check_run(arguments)
    if arguments.ledger is None and arguments.dataset is None:
        return None
    if arguments.dataset is not None and not isinstance(arguments.dataset, str):
        raise TypeError(f"dataset: {safe_text(arguments.dataset)} must be the name of the data set in the ledger")
    if arguments.ledger is None:
        raise ValueError(f"dataset: {arguments.dataset!r} is a name in a ledger; give the ledger too, or leave it out")
    if arguments.dataset is None:
        raise ValueError(
            f"dataset: the ledger {_ledger(arguments.ledger).path.name!r} keeps what is spent by data set; name the "
            "one that the records belong to, and keep to that name whenever its people are released again"
        )
    if arguments.seed is not None:
        raise ValueError(
            f"seed: {arguments.seed} makes a release that is not private, so no ledger takes it; leave the seed out to "
            "publish, or the ledger to experiment"
        )
    entry = posting(arguments, statistic, mechanism, plan, unit=unit or kind_of(statistic).unit)
    assumed = arguments.person_column is None
    return Account(_ledger(arguments.ledger), entry, on_changed=arguments.on_changed, bound_is_assumed=assumed)


def posting(
    arguments: SharedArguments,
    statistic: str,
    mechanism: object,
    plan: Plan,
    *,
    unit: Unit,
    plan_digest: str | None = None,
    parts: Mapping[str, str] | None = None,
    prior: Mapping[str, str] | None = None,
) -> Posting:
    """The entry of a release in a ledger; see `account`."""
    return Posting(
        dataset=str(arguments.dataset),
        statistic=statistic,
        mechanism=type(mechanism).__name__,
        neighboring=arguments.relation,
        max_contributions=arguments.bound,
        unit=unit,
        loss=Loss.of(plan),
        run=arguments.run,
        plan=plan_digest,
        approval=Approval(approved_by=arguments.approved_by, reason=arguments.reason, ticket=arguments.ticket),
        period=arguments.days,
        revises=None if arguments.revised is None else arguments.revised.release_id,
        parts=parts,
        prior=prior,
    )


def exact_statistics(wanted: Mapping[str, Statistic]) -> dict[str, Statistic]:
    """What a mechanism wants measured, in plain texts: one of another type could be equal to two statistics.

    Raises:
        TypeError: not all are texts.
    """
    try:
        return {str.__str__(level): cast(Statistic, str.__str__(statistic)) for level, statistic in wanted.items()}
    except (TypeError, AttributeError):
        raise TypeError(
            'mechanism: its statistics must be a mapping from levels to texts such as {"county": "counts"}; correct '
            "`statistics` of its class"
        ) from None


def check_statistics(mechanism: Any, wanted: Mapping[str, Statistic], allowed: Mapping[str, Set[Statistic]]) -> None:
    """Refuse a mechanism that wants something measured where its sensitivity would not hold."""
    for level, statistic in wanted.items():
        if statistic not in allowed.get(level, ()):
            raise ValueError(
                f"mechanism: {type(mechanism).__name__} wants {statistic!r} measured at {level!r}; "
                f"what can be measured there is {' or '.join(sorted(allowed.get(level, ()))) or 'nothing'}"
            )


def chosen_engine(given: object, memory: str | None = None) -> Engine:
    """The engine that was given, or the default; with a limit of its memory that follows from that of the run.

    Raises:
        TypeError: not an engine.
    """
    if given is None:
        return limited(Local(), memory)
    if isinstance(given, type):
        raise TypeError(f"engine: {given.__name__} is a class; write {given.__name__}()")
    if not isinstance(given, Engine):
        raise TypeError(f"engine: {type(given).__name__} must be one of tallytree.engines, for instance Local()")
    return limited(given, memory)


def warn_caller(message: str) -> None:
    """Warn at the line that called this library, however many of its own functions lie between."""
    package = __name__.partition(".")[0]
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def warn_beyond_machine(needed: float, remedy: str) -> None:
    """Warn, before anything is read or spent, of work that takes more memory than this machine has.

    Args:
        needed: bytes that the work takes, about.
        remedy: what takes them, and what to do about it.
    """
    if needed > machine_bytes():
        warn_caller(
            f"memory: this takes up to {described_bytes(needed)}, and this machine has "
            f"{described_bytes(machine_bytes())}; {remedy}"
        )


def opened(given: Ledger | str | os.PathLike[str] | None) -> Ledger | None:
    """The ledger that is given, or at a path; None for none."""
    return None if given is None else _ledger(given)


def _ledger(given: Ledger | str | os.PathLike[str]) -> Ledger:
    return given if isinstance(given, Ledger) else Ledger(given)


def std_dev_alone(budget: Budget, bound: Sensitivity) -> float:
    """The standard deviation of a cell's noise, about, if a level had all of the budget."""
    if budget.epsilon is not None and budget.delta is None:
        return math.sqrt(2) * bound.l1 / float(budget.epsilon)
    return math.sqrt(bound.l2_squared / (2 * float(composable_budget(budget, "zcdp"))))
