"""The privacy statement: what a release protects, how, and what it spent. See `docs/reference/statement.md`."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from importlib import metadata
from typing import Any

from tallytree.accounting import LevelPlan, Plan, StableLevel
from tallytree.accounting.losses import float_up, shown_up
from tallytree.budget import Budget
from tallytree.kinds.foreign import code_of, is_foreign
from tallytree.kinds.registry import kind_of
from tallytree.kinds.terms import Terms
from tallytree.release.counted_unit import counted_unit

TOTAL_IS_PUBLIC = "the total number of records"
TOTALS_ARE_PUBLIC = "the total of every area at the level {!r}"
"""The invariant of counts whose total is published exactly."""

_LIMITS = (
    "The guarantee covers the released tables and measurements; the running time of the program, and whether it "
    "refused its input, are outside it.",
    "Another release about the same people adds to what is spent; the budgets of all of them add up.",
)
_NOT_AUDITED = (
    "The mechanism {} ({}) is code from outside, not audited by tallytree. It was handed noisy measurements and public "
    "facts; the guarantee rests on that it uses nothing else."
)
_ASSUMED = "That nobody has more records than max_contributions is assumed, not enforced."
_SOURCES = {
    "keyed": "Noise is derived from a secret key, fresh for this release, by a cipher; the guarantee is computational.",
    "secret": (
        "Noise is derived by a cipher from a key that is derived from the publisher's secret, for this run alone; who "
        "has the secret can compute it. The guarantee is computational."
    ),
    "opendp": "Noise is drawn by OpenDP from the operating system's entropy.",
}


def privacy_statement(
    *,
    statistic: str,
    levels: Mapping[str, int],
    plan: Plan,
    terms: Terms,
    mechanism: Any,
    invariants: Sequence[str],
    notes: Sequence[str],
    tabulated_by: Sequence[str],
    dataset: str | None = None,
    max_quantity: int = 1,
) -> dict[str, Any]:
    """Everything a reader needs to judge the protection, JSON-able.

    Args:
        statistic: the name of what is released.
        levels: all levels, root first, and their numbers of nodes.
        plan: how the measured levels were measured.
        terms: what one neighbouring change is.
        mechanism: the mechanism, whose dataclass fields are its options.
        invariants: facts that are published exactly.
        notes: sentences about this statistic.
        tabulated_by: the packages of the engine that tabulates the records.
        dataset: the data set's name in the ledger that the release is recorded in, if it is.
        max_quantity: the most that one record adds to the size of its group.
    """
    private = terms.seed is None
    unit = _unit(statistic, terms, max_quantity)
    first = {"maximum": plan.maximum, "contributions": plan.contributions}
    beside = {key: _measured(each, private=private) for key, each in first.items() if each is not None}
    statement = {
        "private": private,
        "guarantee": _guarantee(plan, terms, unit) if private else _NOT_PRIVATE,
        "statistic": statistic,
        "unit_of_protection": unit,
        "neighboring": terms.relation,
        "max_contributions": terms.bound,
        "max_contributions_enforced": terms.person_column is not None,
        "invariants": list(invariants),
        "on_unknown": dict(terms.on_unknown) if isinstance(terms.on_unknown, Mapping) else terms.on_unknown,
        "budget": _amounts(_granted(plan.budget)),
        "spent": _amounts(plan.spent) if private else {"epsilon": "infinity"},
        "accounting": plan.accounting or "exact",
        "mechanism": mechanism_spec(mechanism),
        "noise_source": terms.noise,
        "ledger": None if dataset is None else {"dataset": dataset, "recorded": True},
        "seeded": not private,
        "levels": [_level(level, nodes, plan.levels.get(level), private=private) for level, nodes in levels.items()],
        **beside,
        "notes": [
            *not_audited(mechanism),
            *notes,
            *([] if terms.checked_period is None else [_IN_PERIOD.format(*terms.checked_period)]),
            *(
                (
                    _SOURCES["secret" if terms.key_from_secret else terms.noise],
                    *_LIMITS,
                    _of_people(statistic, terms, plan),
                )
                if private
                else (_NOT_PRIVATE,)
            ),
        ],
        "software": _software(terms, plan, tabulated_by),
    }
    return {**statement, "counted": counted_unit(statement)}


CHECKED = "checked: records outside the period are left out"
ASSUMED = "assumed: that no record lies outside the period is what the publisher says"
"""What is said of the period of a release, and of its records."""

_IN_PERIOD = (
    "Only records whose column {0!r} lies in the period {1} are counted. The others, and those without a date, are "
    "left out; how many these are is private and not published."
)


def unknown_records(statement: Mapping[str, Any]) -> str:
    """What was done with records outside the hierarchy, after "records outside the hierarchy"."""
    found = statement["on_unknown"]
    if isinstance(found, Mapping):
        leaves = ", ".join(f"{label!r} at {level!r}" for level, label in found.items())
        return f"were counted in the leaf {leaves}; others made the run fail"
    return "were dropped" if found == "drop" else "made the run fail"


_NOT_PRIVATE = (
    "NOT PRIVATE: the noise was drawn from a seed, so whoever knows or guesses the seed can remove it (epsilon is "
    "infinite). For tests and experiments only."
)


def mechanism_spec(mechanism: Any) -> dict[str, Any]:
    """A mechanism's name and options, as a spec gives them; of one from outside also where its code is."""
    options = {field.name: getattr(mechanism, field.name) for field in dataclasses.fields(mechanism)}
    plain = {name: dict(value) if isinstance(value, Mapping) else value for name, value in options.items()}
    code = {"code": code_of(type(mechanism))} if is_foreign(mechanism) else {}
    return {"name": type(mechanism).__name__, "options": plain, **code}


def fitted_to_persons(statement: Mapping[str, Any]) -> bool:
    """Whether its households by size were fitted to persons of the same release: replicates of that are not made."""
    return "part_of" in statement and kind_of(statement).by_size


def own_mechanism(statement: Mapping[str, Any]) -> str | None:
    """The name of the mechanism of a release, where it is one of this library's."""
    return None if mechanism_code(statement) else statement["mechanism"]["name"]


def mechanism_code(statement: Mapping[str, Any]) -> str | None:
    """Where the code of the mechanism of a release is, as `module:Class`; None for one of this library's."""
    mechanism: Mapping[str, Any] = statement.get("mechanism", {})  # what is planned of several mechanisms names none
    return mechanism.get("code")


BROKEN = "broken_promises"
"""The key of a statement that lists what its release does not keep, though its mechanism promised it."""


WARNING = "warning"
"""The first key of a statement of weak protection; see `risk_statement.weak_protection`."""


def marks_of(statement: Mapping[str, Any]) -> list[str]:
    """What nobody may overlook of a release: that it protects weakly; of a mechanism from outside its first notes.

    These say which promises it broke, and that it was not audited.
    """
    weak = [statement[WARNING]] if WARNING in statement else []
    if not mechanism_code(statement):
        return weak
    return [*weak, *statement["notes"][: 2 if BROKEN in statement else 1]]


def not_audited(mechanism: Any) -> list[str]:
    """What has to be said of a mechanism from outside."""
    if not is_foreign(mechanism):
        return []
    return [_NOT_AUDITED.format(type(mechanism).__name__, code_of(type(mechanism)))]


def _guarantee(plan: Plan, terms: Terms, unit: str) -> str:
    change = "adding or removing" if terms.relation == "add_remove" else "replacing"
    spent = {name: shown_up(amount) for name, amount in plan.spent.items()}
    if plan.budget.kind == "pure":
        kind = f"epsilon = {spent['epsilon']} (pure differential privacy)"
    elif plan.budget.kind == "zcdp":
        kind = f"rho = {spent['rho']} (zero-concentrated differential privacy)"
    else:
        kind = f"epsilon = {spent['epsilon']}, delta = {spent['delta']} (approximate differential privacy)"
    return f"{kind} for {change} {unit}, given the invariants."


def _unit(statistic: str, terms: Terms, max_quantity: int) -> str:
    kind = kind_of(statistic)
    what, plural = kind.words.one, kind.words.several
    if kind.protects_all_records:
        return "one person, with all of their records, however many"
    one = terms.bound == 1
    if terms.person_column is not None:
        if terms.distinct_people:
            leaves = "one leaf" if one else f"{terms.bound} leaves"
            return f"one person, who counts at most once in a leaf, and in at most {leaves}"
        return f"one person, of whose {plural} at most {'one counts' if one else f'{terms.bound} count'}"
    has = f"one {what}" if one else f"at most {terms.bound} {plural}"
    quantity = f", each with a quantity of at most {max_quantity}" if max_quantity > 1 else ""
    return f"one person, who has {has}{quantity}"


def _of_people(statistic: str, terms: Terms, plan: Plan) -> str:
    """What is taken on trust of people, and of their records."""
    if terms.person_column is None:
        return _ASSUMED
    who = f"A person is a value of the column {terms.person_column!r}; that nobody has several is assumed."
    if kind_of(statistic).protects_all_records:
        return who
    known = "whether any were left out is not published" if plan.contributions is None else _ESTIMATED
    return (
        f"{who} Of a person's records at most max_contributions count, chosen by a secret key from that person's "
        f"records alone; {known}."
    )


_ESTIMATED = "what was left out is estimated under contributions"


def _granted(budget: Budget) -> dict[str, Fraction]:
    amounts = {"epsilon": budget.epsilon, "delta": budget.delta, "rho": budget.rho}
    return {name: amount for name, amount in amounts.items() if amount is not None}


def _amounts(exact: Mapping[str, Fraction]) -> dict[str, float]:
    return {name: float_up(amount) for name, amount in exact.items()}


def _level(level: str, nodes: int, plan: LevelPlan | StableLevel | None, *, private: bool) -> dict[str, Any]:
    if plan is None:
        return {"level": level, "nodes": nodes, "measured": False}
    return {"level": level, "nodes": nodes, "measured": True} | _measured(plan, private=private)


def _measured(plan: LevelPlan | StableLevel, *, private: bool) -> dict[str, Any]:
    """How something is measured, and what that spends; δ is the release's, and not a level's."""
    threshold = {"threshold": plan.threshold} if isinstance(plan, StableLevel) else {}
    cost = "epsilon" if plan.noise.distribution == "discrete_laplace" else "rho"
    return {
        "statistic": plan.statistic,
        "share": float(plan.share),
        "sensitivity": {"l1": plan.sensitivity.l1, "l2": plan.sensitivity.l2},
        "noise": {
            "distribution": plan.noise.distribution,
            "scale": float(plan.noise.scale),
            "scale_exact": str(plan.noise.scale),
            "std_dev": plan.noise.std_dev,
        },
        **threshold,
        "spent": {cost: float_up(plan.cost) if private else "infinity"},
    }


def _software(terms: Terms, plan: Plan, tabulated_by: Sequence[str]) -> dict[str, str]:
    packages = [*TABLES_MADE_BY, *tabulated_by]
    packages += ["opendp"] if terms.noise == "opendp" else []
    packages += ["dp-accounting"] if plan.accounting == "pld" else []
    return versions(packages)


_version = cache(metadata.version)  # what runs was loaded once

TABLES_MADE_BY = ("tallytree", "numpy", "numba", "pyarrow")
"""The packages that turn noisy measurements into tables."""


def versions(packages: Iterable[str]) -> dict[str, str]:
    """The versions of Python and of some packages."""
    return {"python": platform.python_version()} | {package: _version(package) for package in packages}
