"""The risk of a release in plain numbers, as its statement has it; see `tallytree._accounting.risk`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tallytree._accounting import Plan
from tallytree._accounting.risk import attack_rates


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
    unit = statement["unit_of_protection"]
    guessed = (
        f"whether the data hold {unit}"
        if statement["neighboring"] == "add_remove"
        else f"which of two contents the data have for {unit}"
    )
    first, *others = [(_percent(each.true_positive_rate), _percent(each.false_positive_rate)) for each in rates]
    more = "".join(f", and at most {right} at {wrong}" for right, wrong in others)
    return {
        "attack": (
            f"The attacker guesses {guessed}, from all that is published, where both cases have the same invariants."
        ),
        "rates": [
            {"false_positive_rate": each.false_positive_rate, "true_positive_rate": each.true_positive_rate}
            for each in rates
        ],
        "summary": (
            f"An attacker who knows all other records has at most {first[0]} true positives at {first[1]} false "
            f"positives{more}."
        ),
    }


def _percent(rate: float) -> str:
    """A rate in per cent, rounded up to two digits after the point."""
    return f"{math.ceil(round(rate * 10**6) / 100) / 100:.4g} %"
