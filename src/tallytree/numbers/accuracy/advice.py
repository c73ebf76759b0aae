"""What to publish instead where many numbers will be unreliable: a coarser level, or the least budget that is enough.

Both are computed from the shares of unreliable numbers that a simulation on public data found. What was not found is
not said.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tallytree.numbers.accuracy.expected_errors import ExpectedError
from tallytree.numbers.accuracy.targets import amount_text, first_enough, two_digits

MOST_UNRELIABLE = 0.1
"""The share of unreliable numbers up to which a level is advised."""
FACTOR = {"epsilon": 10, "rho": 100}
"""Budgets up to so many times the planned one are tried."""


@dataclass(frozen=True)
class Advice:
    """What follows from the share of unreliable numbers.

    Attributes:
        level: the level, or table, with the largest share of unreliable numbers.
        unreliable: that share.
        instead: the finest coarser level of which at most 10 % will be unreliable; None where there is none.
        amount_name: `epsilon` or `rho`.
        amount: the least one, in two digits, with which at most 10 % of the level will be unreliable; None where none
            was found.
    """

    level: str
    unreliable: float
    instead: str | None
    amount_name: str
    amount: Fraction | None

    def __str__(self) -> str:
        """The advice in a sentence."""
        ways = [
            *([] if self.instead is None else [f"publish {self.instead} instead"]),
            *([] if self.amount is None else [f"use {self.amount_name} {amount_text(self.amount)}"]),
        ]
        begin = f"{percent(self.unreliable)} of the numbers at {self.level} will be unreliable"
        return f"{begin}; {', or '.join(ways)}." if ways else f"{begin}."

    def fields(self) -> dict[str, str | float | None]:
        """The same as plain values, for JSON."""
        return {
            "level": self.level,
            "unreliable": self.unreliable,
            "instead": self.instead,
            self.amount_name: None if self.amount is None else float(self.amount),
            "sentence": str(self),
        }


def advised(
    errors: Sequence[ExpectedError],
    coarser: Callable[[str], Collection[str]],
    amount_name: str,
    amount_for: Callable[[str], Fraction | None],
) -> Advice | None:
    """The advice for the level with the largest share of unreliable numbers; None where no share is above 10 %.

    Args:
        errors: of the published levels.
        coarser: from a level to those whose numbers are sums of its numbers.
        amount_name: of the budget.
        amount_for: the least amount that is enough for a level; None where none was found.
    """
    poor = [(each.unreliable, each.nodes, each.level) for each in errors if each.unreliable is not None]
    share, _, level = max(poor, default=(0.0, 0, ""))
    if share <= MOST_UNRELIABLE:
        return None
    others = coarser(level)
    good = [(nodes, name) for share, nodes, name in poor if share <= MOST_UNRELIABLE and name in others]
    return Advice(level, share, max(good)[1] if good else None, amount_name, amount_for(level))


def least_amount(
    share_at: Callable[[Fraction], float | None], known: Mapping[Fraction, float | None], above: Fraction, factor: int
) -> Fraction | None:
    """The least amount of two digits at which at most 10 % are unreliable, by bisection; None where none was found.

    The share falls as the budget grows. What is returned was evaluated.

    Args:
        share_at: the share of unreliable numbers with an amount; None where it cannot be had.
        known: amounts whose share is known.
        above: the amount at which more are unreliable.
        factor: amounts up to so many times that are tried.
    """
    shares = dict(known)

    def enough(amount: Fraction) -> bool:
        if amount not in shares:
            shares[amount] = share_at(amount)
        share = shares[amount]
        return share is not None and share <= MOST_UNRELIABLE

    few = [each for each, share in known.items() if each > above and share is not None and share > MOST_UNRELIABLE]
    many = [each for each in known if each > above and enough(each)]
    tried = [each for each in two_digits(above, above * factor) if each > max(few, default=above)]
    # Of the amounts that are not less than one that is enough, the first is as good as the last.
    last = next((place for place, each in enumerate(tried) if many and each >= min(many)), len(tried) - 1)
    if last < 0 or not enough(tried[last]):
        return None
    return tried[first_enough(lambda place: enough(tried[place]), last)]


def percent(share: float) -> str:
    """A share in two digits."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"
