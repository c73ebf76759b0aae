"""The privacy budget, exactly: what may be spent, and how it is shared out over levels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, localcontext
from fractions import Fraction
from numbers import Rational, Real
from typing import Literal, TypeAlias

from tallytree.support.markup import html_table
from tallytree.support.validate import safe_text, text

BudgetKind = Literal["pure", "approximate", "zcdp"]
Amount: TypeAlias = float | Fraction | Decimal
"""A number that is given exactly; a float is the decimal number that it is written as, and an int is a float here."""

BudgetSplit: TypeAlias = Literal["even", "auto"] | Mapping[str, Amount] | None
"""How the budget is split over the measured levels."""


MAX_EXPONENT = 300
"""A number is between 1e-300 and 1e300, or 0: floats hold it, and arithmetic with it is quick."""

_LEAST = Fraction(1, 10**MAX_EXPONENT)
_MAX_BITS = 6_644
_OUT_OF_RANGE = "is out of range; give a number between 1e-300 and 1e300"


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A privacy budget: pure ε, approximate (ε, δ), or zero-concentrated ρ.

    Numbers are kept as exact rationals. A float is the decimal number that is written: `Budget(epsilon=0.1)` is 1/10.

    Attributes:
        epsilon: ε > 0, or None for a zCDP budget.
        delta: δ in (0, 1) for approximate differential privacy, else None.
        rho: ρ > 0 for zero-concentrated differential privacy, else None.

    Raises:
        ValueError: not exactly one of ε and ρ, δ beside ρ, or a number that is NaN, infinite or out of range.
        TypeError: something that is not a number.

    Example:
        >>> import tallytree as tt
        >>> tt.Budget(epsilon=1, delta=1e-8)
        Budget(epsilon=1.0, delta=1e-08)
    """

    epsilon: Fraction | None
    delta: Fraction | None
    rho: Fraction | None

    def __init__(
        self, *, epsilon: Amount | None = None, delta: Amount | None = None, rho: Amount | None = None
    ) -> None:
        if (epsilon is None) == (rho is None):
            raise ValueError(
                "budget: give either epsilon (with or without delta) or rho; "
                f"{'neither is' if rho is None else 'both are'} given"
            )
        if rho is not None and delta is not None:
            raise ValueError(f"delta: {_shown(delta)} has no place beside rho; a zCDP budget is rho alone")
        object.__setattr__(self, "epsilon", None if epsilon is None else _positive(epsilon, "epsilon"))
        object.__setattr__(self, "rho", None if rho is None else _positive(rho, "rho"))
        object.__setattr__(self, "delta", None if delta is None else _positive(delta, "delta"))
        if self.delta is not None and self.delta >= 1:
            raise ValueError(f"delta: {_shown(delta)} must lie strictly between 0 and 1 (for instance 1e-8)")

    def __repr__(self) -> str:
        """The numbers that were given."""
        given = ((name, getattr(self, name)) for name in ("epsilon", "delta", "rho"))
        return f"Budget({', '.join(f'{name}={float(value)!r}' for name, value in given if value is not None)})"

    def _repr_html_(self) -> str:
        """The numbers that were given as a table, for notebooks."""
        amounts = ((name, getattr(self, name)) for name in ("epsilon", "delta", "rho"))
        given = [(name, float(value)) for name, value in amounts if value is not None]
        kinds = {"pure": "pure", "approximate": "approximate", "zcdp": "zero-concentrated"}
        return html_table(f"Budget: {kinds[self.kind]} differential privacy", ("amount", "at most"), given)

    @property
    def kind(self) -> BudgetKind:
        """Which definition of differential privacy the budget is in."""
        if self.rho is not None:
            return "zcdp"
        return "pure" if self.delta is None else "approximate"


def share_beside_levels(value: Real | float, default: Fraction) -> Fraction:
    """A share of the budget for what is measured beside the levels, as a rational.

    Args:
        value: the share that was given.
        default: the share to name as an example.

    Raises:
        ValueError: not strictly between 0 and 1.
        TypeError: not a number.
    """
    part = exact(value, "share")
    if not 0 < part < 1:
        raise ValueError(
            f"share: {safe_text(value)} must lie strictly between 0 and 1 (for instance {float(default)}): the rest is "
            "for the levels"
        )
    return part


def exact(value: object, argument: str) -> Fraction:
    """The number as a rational; a float is the decimal number that its shortest form writes.

    Raises:
        ValueError: NaN or infinite; nearer to 0 than 1e-300 or beyond 1e300; a fraction of more than 2,000 digits.
        TypeError: not a real number (a bool is none).
    """
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        raise TypeError(f"{argument}: {safe_text(value)} must be a number")
    if isinstance(value, Rational):
        number = Fraction(int(value.numerator), int(value.denominator))
    elif not (value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)):
        raise ValueError(f"{argument}: {_shown(value)} must be finite")
    elif isinstance(value, Decimal):
        # As a fraction, 1E-99999999 has a hundred million digits; so has the sum of whatever it is added to.
        if value and abs(value.adjusted()) > MAX_EXPONENT:
            raise ValueError(f"{argument}: {_shown(value)} {_OUT_OF_RANGE}")
        number = Fraction(value)
    else:
        number = Fraction(repr(float(value)))
    if max(number.numerator.bit_length(), number.denominator.bit_length()) > _MAX_BITS:
        raise ValueError(f"{argument}: the number has more than 2,000 digits; give a shorter one")
    if number and not _LEAST <= abs(number) <= 1 / _LEAST:
        raise ValueError(f"{argument}: {_shown(value)} {_OUT_OF_RANGE}")
    return number


def _shown(value: object) -> str:
    """A number as it is written, of a long one its beginning; anything else by its type."""
    if isinstance(value, Fraction):
        # A decimal fraction, such as a number of a spec, is shown as one; another as what it is.
        number = max(value.numerator.bit_length(), value.denominator.bit_length())
        if number > 1_100:
            return "a fraction of more than 300 digits"
        with localcontext(Context(prec=40)) as context:
            digits = Decimal(value.numerator) / value.denominator
            exact = not context.flags[Inexact]
        return f"{digits:f}" if exact and len(f"{digits:f}") <= 20 else f"{digits}" if exact else str(value)[:40]
    if isinstance(value, Decimal):
        written = str(value)
        return written if len(written) <= 40 else f"{written[:20]}…{written[-12:]}"
    return safe_text(value)


def _positive(value: object, argument: str) -> Fraction:
    number = exact(value, argument)
    if number <= 0:
        raise ValueError(f"{argument}: {_shown(value)} must be greater than 0")
    return number


def shares(budget_split: BudgetSplit, measured: Sequence[str]) -> dict[str, Fraction]:
    """Each measured level's share of the budget; the shares add up to exactly 1.

    Args:
        budget_split: None or `"even"` for equal shares, or positive weights for exactly the measured levels.
            (`"auto"` is resolved into weights before.)
        measured: the names of the levels that are measured.

    Raises:
        ValueError: weights that miss a level, name another one, or are not positive.
        TypeError: neither a name nor a mapping, or a weight that is not a number.
    """
    if budget_split is None or (isinstance(budget_split, str) and budget_split == "even"):
        return {level: Fraction(1, len(measured)) for level in measured}
    if isinstance(budget_split, str):
        raise ValueError(f'budget_split: {budget_split!r} is not known; give "even", "auto", or weights by level name')
    if not isinstance(budget_split, Mapping):
        raise TypeError(
            f'budget_split: {safe_text(budget_split)} must be "even", "auto", or a mapping from level names to weights'
        )
    if len(budget_split) > len(measured) and not set(budget_split) & set(measured):
        raise ValueError(
            f"budget_split: it has {len(budget_split)} weights, but the measured levels are {_list(measured)}; give "
            "one for each"
        )
    for level in budget_split:
        if text(level, "budget_split", "the name of a level") not in measured:
            raise ValueError(f"budget_split: {level!r} is not measured; the measured levels are {_list(measured)}")
    for level in measured:
        if level not in budget_split:
            raise ValueError(
                f"budget_split: no weight for the level {level!r}; the measured levels are {_list(measured)}"
            )
    weights = {level: _positive(budget_split[level], f"budget_split[{level!r}]") for level in measured}
    total = sum(weights.values())
    return {level: weight / total for level, weight in weights.items()}


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
