"""Real numbers held between two integers: lower <= 2^bits · x <= upper.

Every operation rounds the lower end down and the upper end up, so what it returns holds the true result whatever
the precision is: too few bits make an enclosure wide, never wrong. Integers only.
"""

from __future__ import annotations

from fractions import Fraction

Enclosure = tuple[int, int]

_SMALL = 8


def exp_minus(x: Fraction, bits: int) -> Enclosure:
    """Enclose e^-x for x >= 0, to about one unit of 2^-bits.

    e^-x = (e^-y)^(2^m) with y = x/2^m < 2^-8, the inner one by its alternating Taylor series. A squaring at most
    doubles an error and adds a unit, as no factor exceeds 1; the m + 8 spare bits take that up.
    """
    if x >= bits:
        return 0, 1  # e^-x < 2^-bits
    halvings = int(x).bit_length() + _SMALL
    precision = bits + halvings + 8
    scaled = x * Fraction(2) ** (precision - halvings)
    lower, _ = _exp_of_small(_ceiling(scaled), precision)
    _, upper = _exp_of_small(int(scaled), precision)
    result = (lower, upper)
    for _ in range(halvings):
        result = times(result, result, precision)
    return coarser(result, halvings + 8)


def _exp_of_small(y: int, bits: int) -> Enclosure:
    """Enclose e^-(y/2^bits), y <= 2^bits, by Σ (-1)^n y^n/n!, whose terms fall: what is left out is below the next."""
    one = 1 << bits
    sum_lower = sum_upper = one
    term_lower = term_upper = one
    n = 0
    while term_upper > 1:
        n += 1
        term_lower = (term_lower * y >> bits) // n
        term_upper = -((-(term_upper * y) >> bits) // n)
        if n % 2:
            sum_lower, sum_upper = sum_lower - term_upper, sum_upper - term_lower
        else:
            sum_lower, sum_upper = sum_lower + term_lower, sum_upper + term_upper
    return max(0, sum_lower - 1), min(one, sum_upper + 1)


def times(a: Enclosure, b: Enclosure, bits: int) -> Enclosure:
    """Enclose the product of two numbers >= 0."""
    return a[0] * b[0] >> bits, -(-(a[1] * b[1]) >> bits)


def over(a: Enclosure, b: Enclosure, bits: int) -> Enclosure:
    """Enclose the quotient of a number >= 0 by one whose enclosure excludes 0."""
    return (a[0] << bits) // b[1], -((-a[1] << bits) // b[0])


def one_minus(a: Enclosure, bits: int) -> Enclosure:
    """Enclose 1 - a."""
    return (1 << bits) - a[1], (1 << bits) - a[0]


def coarser(a: Enclosure, dropped_bits: int) -> Enclosure:
    """The same number with fewer bits."""
    return a[0] >> dropped_bits, -(-a[1] >> dropped_bits)


def _ceiling(x: Fraction) -> int:
    return -(-x.numerator // x.denominator)
