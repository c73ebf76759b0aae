"""The risk of a release in plain numbers, as its statement has it; see `tallytree.accounting.risk`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from tallytree.accounting import Plan, epsilon_from_rho
from tallytree.accounting.risk import attack_rates
from tallytree.release.level_tables import LevelTable
from tallytree.release.statement import TOTAL_IS_PUBLIC, TOTALS_ARE_PUBLIC, WARNING

MOST_EPSILON, MOST_DELTA = 10, Fraction(1, 10**5)
"""Beyond them a statement begins with a warning."""


def risk_statement(plan: Plan, statement: Mapping[str, Any]) -> dict[str, Any]:
    """The entry `risk` of a statement: how well an attacker can guess at most.

    Args:
        plan: how every level is measured.
        statement: the statement of a private release with this plan.

    Returns:
        `attack`, what is guessed and by whom; `rates`, the true-positive rate at most, for each false-positive rate;
        and `summary`, a sentence with them.
    """
    rates = attack_rates(plan)
    first, *others = [(_percent(each.true_positive_rate), _percent(each.false_positive_rate)) for each in rates]
    more = "".join(f", and at most {right} at {wrong}" for right, wrong in others)
    return {
        "attack": (
            f"The attacker guesses {_guessed(statement)}, from all that is published, where both cases have the same "
            "invariants."
        ),
        "rates": [dict(vars(each)) for each in rates],
        "summary": (
            f"An attacker who knows all other records has at most {first[0]} true positives at {first[1]} false "
            f"positives{more}."
        ),
    }


def weak_protection(statement: Mapping[str, Any], total: int | None = None) -> dict[str, str]:
    """The first entry of a statement, `warning`, if it protects too little: what an attacker finds out. Else nothing.

    Args:
        statement: with `risk`; of a release, or of its plan.
        total: of all records, where it is public.
    """
    if not statement["private"]:
        return {}
    spent, reasons = statement["spent"], []
    epsilon, delta, at = spent.get("epsilon"), spent.get("delta", 0.0), ""
    if epsilon is None:
        epsilon, at = float(epsilon_from_rho(Fraction(spent["rho"]), MOST_DELTA, "zcdp")), " at delta = 1e-05"
    total = max(total or 1, 1)
    most, words = min((float(MOST_DELTA), "1e-05"), (1 / total, f"1 / {total:,}, with the public total"))
    if epsilon > MOST_EPSILON:
        reasons.append(f"epsilon = {epsilon:.4g}{at} is above {MOST_EPSILON}")
    if delta > most * (1 + 1e-9):  # what is stated is rounded up
        reasons.append(f"delta = {delta:.4g}, about the probability that more is told, is above {words}")
    if not reasons:
        return {}
    blind, found = of_hundred(statement)
    said = (
        f"WEAK PROTECTION: an attacker who knows all other records, and accepts {blind} false suspicions in 100, finds "
        f"out in up to {found} of 100 cases {_guessed(statement)}; {', and '.join(reasons)}."
    )
    return {WARNING: said}


def public_total(statement: Mapping[str, Any], tables: Mapping[str, LevelTable]) -> int | None:
    """The published total, where the statement says that it is exact."""
    facts = (TOTAL_IS_PUBLIC, TOTALS_ARE_PUBLIC.partition("{")[0])
    if not tables or not any(fact.startswith(facts) for fact in statement["invariants"]):
        return None
    least = min(tables.values(), key=lambda table: table.num_rows)
    return sum(sum(least.read(each.start, each.stop)["count"].to_pylist()) for each in least.slices())


def of_hundred(statement: Mapping[str, Any]) -> tuple[int, int]:
    """Of 100 cases, those that a blind guess finds out, and those that an attacker does at most; rounded up.

    Args:
        statement: with `risk`, of whose rates the last is taken.
    """
    rate = statement["risk"]["rates"][-1]
    blind, found = (math.ceil(round(100 * rate[key], 6)) for key in ("false_positive_rate", "true_positive_rate"))
    return blind, found


def _guessed(statement: Mapping[str, Any]) -> str:
    unit = statement["unit_of_protection"]
    if statement["neighboring"] == "add_remove":
        return f"whether the data hold {unit}"
    return f"which of two contents the data have for {unit}"


def _percent(rate: float) -> str:
    """A rate in per cent, rounded up to two digits after the point."""
    return f"{math.ceil(round(rate * 10**6) / 100) / 100:.4g} %"
