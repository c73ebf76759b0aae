"""Amounts of privacy loss as floats and as text: what was spent is rounded up, what is left is rounded down."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction

_LEAST, _MOST = Decimal("1e-300"), Decimal("1e300")


def shown_up(amount: Fraction | float) -> str:
    """An amount of privacy loss in six digits, rounded up: what is shown is never less than what was spent."""
    return _shown(amount, ROUND_CEILING)


def shown_down(amount: Fraction | float) -> str:
    """An amount of privacy loss that is left, in six digits, rounded down."""
    return _shown(amount, ROUND_FLOOR)


def _shown(amount: Fraction | float, rounding: str) -> str:
    exact = amount if isinstance(amount, Fraction) else Fraction(repr(amount))
    with localcontext(Context(prec=60)):
        digits = Decimal(exact.numerator) / Decimal(exact.denominator)
        rounded = Context(prec=6, rounding=rounding).create_decimal(digits)
    if rounded and not _LEAST <= abs(rounded) <= _MOST:
        return f"{rounded.normalize():.6g}"  # no float is as near to it: it would show as 0
    return f"{float(rounded):.6g}"


def float_up(amount: Fraction) -> float:
    """The least float that, as the decimal number it is written as, is not below the amount."""
    nearest = float(amount)
    return nearest if Fraction(repr(nearest)) >= amount else math.nextafter(nearest, math.inf)
