"""The least budget with which every level has the standard deviation that is wanted of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from tallytree._accuracy.expected_errors import CLOSED_FORMS, LevelLaw
from tallytree._validate import safe_text
from tallytree.budget import Budget, exact
from tallytree.errors import BudgetExceeded
from tallytree.hierarchy import TOTAL, stored_level
from tallytree.tables.layout import levels_of

Target: TypeAlias = Mapping[Any, Any]
"""Wanted standard deviations by level; by `"county,sex"` or `("county", "sex")` for a table of several levels."""

LEAST, MOST = -6, 6
"""Powers of ten between which the amount of a budget is searched."""
PER_DECADE = 900
"""Amounts of three digits: 1.00, 1.01, …, 9.99."""


def checked_target(target: Target, laws: Mapping[str, LevelLaw], mechanism: str) -> dict[str, float]:
    """Wanted standard deviations by level, once every one of them can be met by some budget.

    Args:
        target: what is wanted.
        laws: of every level, at any budget.
        mechanism: its name, for messages.

    Raises:
        ValueError: nothing is wanted; an unknown level; a number that is not positive; a level that is public, or has
            no closed form.
        TypeError: not a mapping, or not a number.
    """
    if not isinstance(target, Mapping):
        raise TypeError(f'target: {safe_text(target)} must be a mapping such as {{"county": 50}}')
    if not target:
        raise ValueError('target: nothing is wanted; give a level and its std_dev, such as {"county": 50}')
    wanted: dict[str, float] = {}
    for key, number in target.items():
        level = _level(key, laws)
        amount = exact(number, f"target[{level!r}]")
        if amount <= 0:
            raise ValueError(f"target: {level!r} is to have a std_dev of {float(amount)}, which must be more than 0")
        basis = laws[level].basis
        if basis == "public":
            raise ValueError(f"target: {level!r} is public, so it has no error at any budget; leave it out")
        if basis not in CLOSED_FORMS:
            raise ValueError(
                f"target: the error of {level!r} by {mechanism} has no closed form, so no budget can be computed for "
                "it; compare budgets with epsilons (--epsilon) and a stand-in (--like)"
            )
        wanted[level] = float(amount)
    return wanted


def least_budget(
    budget: Budget, wanted: Mapping[str, float], laws_at: Callable[[Budget], Mapping[str, LevelLaw]]
) -> Budget:
    """The least ε (or ρ) in three digits at which every level has at most its wanted standard deviation; δ stays.

    Standard deviations fall as the budget grows, so the amount is found by bisection. What is returned was evaluated.

    Args:
        budget: its δ is kept, and its kind.
        wanted: standard deviations by level.
        laws_at: of every level at a budget.

    Raises:
        ValueError: no budget up to a million reaches it.
    """

    def meets(place: int) -> bool:
        try:
            laws = laws_at(with_amount(budget, amount_at(place)))
        except (ValueError, BudgetExceeded) as error:
            if not str(error).startswith("budget:"):
                raise
            return False  # so small that no noise is as wide
        laws_of = {level: laws[level].law for level in wanted}
        return all(law is not None and law.std_dev <= wanted[level] for level, law in laws_of.items())

    too_small, enough = -1, (MOST - LEAST) * PER_DECADE
    if not meets(enough):
        name = "rho" if budget.kind == "zcdp" else "epsilon"
        raise ValueError(f"target: no {name} up to {10**MOST:,} reaches it; ask for a larger std_dev")
    while enough - too_small > 1:
        middle = (too_small + enough) // 2
        too_small, enough = (too_small, middle) if meets(middle) else (middle, enough)
    return with_amount(budget, amount_at(enough))


def amount_at(place: int) -> Fraction:
    """The amount at a place: of 10^LEAST at 0, then upward in three digits."""
    decade, digits = divmod(place, PER_DECADE)
    return (100 + digits) * Fraction(10) ** (LEAST + decade - 2)


def with_amount(budget: Budget, amount: Fraction) -> Budget:
    """A budget of the same kind and the same δ with another ε, or another ρ."""
    return Budget(rho=amount) if budget.kind == "zcdp" else Budget(epsilon=amount, delta=budget.delta)


def amount_of(budget: Budget) -> Fraction:
    """Its ε, or its ρ."""
    amount = budget.rho if budget.epsilon is None else budget.epsilon
    return Fraction(0) if amount is None else amount


def _level(key: object, laws: Mapping[str, LevelLaw]) -> str:
    """The name of a level or, joined by commas, of a table."""
    parts: list[Any] = [key] if isinstance(key, str) else list(key) if isinstance(key, tuple | list) else [None]
    if not all(isinstance(part, str) for part in parts):
        raise TypeError(f"target: {safe_text(key)} must be the name of a level, or several names for a table")
    name = stored_level(",".join(parts) or TOTAL, laws)
    if name not in laws:
        parts = sorted(part.strip() for part in name.split(",") if part.strip())
        name = next((each for each in laws if sorted(levels_of(each)) == parts), name)
    if name not in laws:
        raise ValueError(f"target: {name[:80]!r} is not a level of this release; its levels are {', '.join(laws)}")
    return name
