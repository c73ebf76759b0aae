"""Why a published number is off: one paragraph from public facts, for the report and the explorer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallytree.kinds.registry import kind_of

_SIGNS = {"epsilon": "ε", "delta": "δ", "rho": "ρ"}


def why_numbers_are_off(statement: Mapping[str, Any]) -> str:
    """The budget, how many tables or levels share it, and what the size of a place has to do with it.

    Empty where nothing was measured with noise.
    """
    measured = sum(bool(each.get("measured")) for each in statement["levels"])
    if not measured:
        return ""
    budget = ", ".join(f"{_SIGNS[key]} = {amount:g}" for key, amount in statement["budget"].items())
    what = "table" if kind_of(statement).has_tables else "level"
    shared = f"One {what} has all of it" if measured == 1 else f"{measured} {what}s share it"
    return (
        "Noise was added to every number, so that nobody can tell from the numbers who is in the records. How much "
        f"follows from the budget of the release, {budget}. {shared}: a larger budget, or fewer {what}s, would mean "
        "less noise. It does not depend on the size of a place, so what is little in a city is much in a village."
    )
