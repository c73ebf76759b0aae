"""The least budget with which every level has the standard deviation that is wanted of it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from tallytree.budget import Budget, exact
from tallytree.errors import BudgetExceeded
from tallytree.hierarchy import TOTAL, stored_level
from tallytree.numbers.accuracy.expected_errors import CLOSED_FORMS, LevelLaw
from tallytree.support.validate import safe_text
from tallytree.tables.layout import levels_of

Target: TypeAlias = Mapping[Any, Any]
"""Wanted standard deviations by level; by `"county,sex"` or `("county", "sex")` for a table of several levels."""

LEAST, MOST = -6, 6
"""Powers of ten between which the amount of a budget is searched."""
FOR_OTHERS = Fraction(102, 100)
"""The budget that is planned, as a part of the least one that meets the targets, where other tables have wishes."""
LEAST_FACTOR, MOST_FACTOR = Fraction(1, 1_000), Fraction(10_000)
"""Between which the other wishes are tried, as parts of the largest target."""
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
        return all_met(wanted, laws)

    enough = (MOST - LEAST) * PER_DECADE
    if not meets(enough):
        name = "rho" if budget.kind == "zcdp" else "epsilon"
        raise ValueError(f"target: no {name} up to {10**MOST:,} reaches it; ask for a larger std_dev")
    return with_amount(budget, amount_at(first_enough(meets, enough)))


def first_enough(enough: Callable[[int], bool], last: int) -> int:
    """The first place from 0 on that is enough, by bisection, where the last one is known to be. It was evaluated."""
    few = -1
    while last - few > 1:
        middle = (few + last) // 2
        few, last = (few, middle) if enough(middle) else (middle, last)
    return last


def all_met(wanted: Mapping[str, float], laws: Mapping[str, LevelLaw]) -> bool:
    """Whether every level has at most its wanted standard deviation."""
    laws_of = {level: laws[level].law for level in wanted}
    return all(law is not None and law.std_dev <= wanted[level] for level, law in laws_of.items())


LaxLaws: TypeAlias = Callable[[Budget, Mapping[str, float]], Mapping[str, LevelLaw]]
"""From a budget and the wishes of all published tables to the laws of the tables that are then measured."""


def least_budget_of_tables(
    budget: Budget, wanted: Mapping[str, float], wishes: Mapping[str, float], laws_at: LaxLaws
) -> tuple[Budget, dict[str, float]]:
    """The least budget that meets all targets, and the wishes whose shares do so.

    With `budget_split="auto"` the shares follow from the wishes: they make the largest ratio of a standard deviation to
    its wish least. So the targets are wishes, and the others are multiplied by a common factor. Where it is large,
    nothing but the targets counts, and the budget is the least one. With 2 % more than that, the factor is then the
    least one (in two digits) at which the targets are still met: exactly the least budget would leave nearly nothing
    to the other tables.

    Args:
        budget: its δ is kept, and its kind.
        wanted: standard deviations by table.
        wishes: those of all published tables, of which only the ratios among the other tables count.
        laws_at: of every table.

    Raises:
        ValueError: no budget up to a million reaches it.
    """
    others = {name: Fraction(wish) for name, wish in wishes.items() if name not in wanted}
    if not others:
        return least_budget(budget, wanted, lambda each: laws_at(each, wanted)), dict(wanted)
    # Of the other wishes, the least is so many times the largest target.
    unit = Fraction(max(wanted.values())) / min(others.values())
    factors = two_digits(LEAST_FACTOR, MOST_FACTOR)

    def wished(place: int) -> dict[str, float]:
        return {**wanted, **{name: _rounded(wish * unit * factors[place]) for name, wish in others.items()}}

    last = len(factors) - 1
    least = least_budget(budget, wanted, lambda each: laws_at(each, wished(last)))
    enough_budget = with_amount(budget, _three_digits(amount_of(least) * FOR_OTHERS))
    enough = first_enough(lambda place: all_met(wanted, laws_at(enough_budget, wished(place))), last)
    return enough_budget, wished(enough)


def _three_digits(amount: Fraction) -> Fraction:
    """The least amount in three digits that is not less than this one."""
    places = range((MOST - LEAST) * PER_DECADE + PER_DECADE)
    return amount_at(bisect_left(places, amount, key=amount_at))


def _rounded(wish: Fraction) -> float:
    """A wish in four digits, as it is written into a spec."""
    return float(f"{float(wish):.4g}")


def two_digits(above: Fraction, most: Fraction) -> list[Fraction]:
    """The amounts 1.0, 1.1, … 9.9 times a power of ten that are more than one amount and at most another."""
    decade = Fraction(1)
    while decade > above:
        decade /= 10
    while decade * 10 <= above:
        decade *= 10
    amounts = []
    while decade <= most:
        amounts += [decade * digits / 10 for digits in range(10, 100)]
        decade *= 10
    return [each for each in amounts if above < each <= most]


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


def amount_text(amount: Fraction) -> str:
    """An amount of few digits, as it is written."""
    return f"{float(amount):.12g}"


def _level(key: object, laws: Mapping[str, LevelLaw]) -> str:
    """The name of a level or, joined by commas, of a table."""
    parts: list[Any] = [key] if isinstance(key, str) else list(key) if isinstance(key, tuple | list) else [None]
    if not all(isinstance(part, str) for part in parts):
        raise TypeError(f"target: {safe_text(key)} must be the name of a level, or several names for a table")
    name = ",".join(parts) or TOTAL
    if name not in laws:  # of tables, laws have the shown names
        name = stored_level(name)
    if name not in laws:
        parts = sorted(part.strip() for part in name.split(",") if part.strip())
        name = next((each for each in laws if sorted(levels_of(each)) == parts), name)
    if name not in laws:
        raise ValueError(f"target: {name[:80]!r} is not a level of this release; its levels are {', '.join(laws)}")
    return name
