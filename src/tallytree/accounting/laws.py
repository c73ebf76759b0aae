"""The laws that are drawn by inverse CDF, each as enclosures of its two tails at any precision.

**Enclosures.** A real number x is held between two integers: lower <= 2^bits · x <= upper. Every operation rounds the
lower end down and the upper end up, so what it returns holds the true result whatever the precision is: too few bits
make an enclosure wide, never wrong. Integers only.

**Laws.** A large noise variable is put together from small independent ones, its digits, so that tables stay small:

* `LaplaceHigh` and `LaplaceLow`. G geometric with ratio r = exp(-1/s) is B·(high digit) + (low digit), and those two
  are independent, as r^g is a product. The noise is G with probability 1/(1 + r) and else -1 - G, which gives |k| the
  weight r^|k| on either side and zero one weight only. The digits of |X| or of X are not independent.
* `Gaussian`, the noise itself; `HalfGaussian`, the high digit of a proposal (see `GaussianDigits`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

from tallytree.accounting.scales import MAX_NOISE

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


_SPARE_BITS = 64


class Law(Protocol):
    """A law on the integers first..last, by the probabilities of its tails."""

    @property
    def first(self) -> int:
        """The least value."""

    @property
    def last(self) -> int:
        """The greatest value."""

    def cdf(self, k: int, bits: int) -> Enclosure:
        """Enclose 2^bits · P(X <= k), first <= k < last."""

    def lower_tails(self, bits: int) -> Iterator[Enclosure]:
        """Enclose 2^bits · P(X <= k) for k = -1, -2, …; nothing if first is 0."""

    def upper_tails(self, bits: int) -> Iterator[Enclosure]:
        """Enclose 2^bits · P(X > k) for k = 0, 1, …; without end, or up to last - 1."""


@dataclass(frozen=True)
class LaplaceHigh:
    """Sign and high digit of discrete Laplace noise: h >= 0 stands for h, and -1 - h for h with the sign.

    P(X = h) = (1 - R)/(1 + r)·R^h and P(X = -1 - h) = r·P(X = h), with r = exp(-1/scale), R = r^base. For base 1 this
    is discrete Laplace noise itself.
    """

    scale: Fraction
    base: int

    @property
    def first(self) -> int:
        """Minus the greatest."""
        return -self.last

    @property
    def last(self) -> int:
        """The greatest digit that keeps the noise within `MAX_NOISE`."""
        return MAX_NOISE // self.base - 1

    def cdf(self, k: int, bits: int) -> Enclosure:
        """P(X <= k)."""
        if k < 0:
            return self._tail(1 + self.base * (-1 - k), bits)
        return one_minus(self._tail(self.base * (k + 1), bits), bits)

    def lower_tails(self, bits: int) -> Iterator[Enclosure]:
        """r/(1 + r)·R^h for h = 0, 1, …."""
        return self._tails(1, bits)

    def upper_tails(self, bits: int) -> Iterator[Enclosure]:
        """1/(1 + r)·R^(k + 1) for k = 0, 1, …."""
        return self._tails(self.base, bits)

    def _tail(self, exponent: int, bits: int) -> Enclosure:
        """r^exponent/(1 + r)."""
        power, (lower, upper) = exp_minus(exponent / self.scale, bits), exp_minus(1 / self.scale, bits)
        one = 1 << bits
        return over(power, (one + lower, one + upper), bits)

    def _tails(self, exponent: int, bits: int) -> Iterator[Enclosure]:
        precision = bits + _SPARE_BITS
        tail, ratio = self._tail(exponent, precision), exp_minus(self.base / self.scale, precision)
        while True:
            yield coarser(tail, _SPARE_BITS)
            tail = times(tail, ratio, precision)


@dataclass(frozen=True)
class LaplaceLow:
    """The low digit, 0..base-1, of a geometric variable: P(X = j) ∝ exp(-j/scale)."""

    scale: Fraction
    base: int
    first = 0

    @property
    def last(self) -> int:
        """The greatest digit."""
        return self.base - 1

    def cdf(self, k: int, bits: int) -> Enclosure:
        """(1 - r^(k + 1))/(1 - r^base); both differences may be as small as 1/scale, hence the spare bits."""
        precision = bits + _SPARE_BITS
        part, total = (
            one_minus(exp_minus(exponent / self.scale, precision), precision) for exponent in (k + 1, self.base)
        )
        return coarser(over(part, total, precision), _SPARE_BITS)

    def lower_tails(self, bits: int) -> Iterator[Enclosure]:
        """There are none."""
        return iter(())

    def upper_tails(self, bits: int) -> Iterator[Enclosure]:
        """(r^(k + 1) - r^base)/(1 - r^base) for k = 0..base-2."""
        precision = bits + 2 * _SPARE_BITS
        ratio, least = (exp_minus(exponent / self.scale, precision) for exponent in (1, self.base))
        total = one_minus(least, precision)
        power = ratio
        for _ in range(self.base - 1):
            difference = max(0, power[0] - least[1]), power[1] - least[0]
            yield coarser(over(difference, total, precision), 2 * _SPARE_BITS)
            power = times(power, ratio, precision)


@dataclass(frozen=True)
class Gaussian:
    """Discrete Gaussian noise: P(X = k) ∝ exp(-k²/(2 sigma²))."""

    sigma: Fraction
    first = -MAX_NOISE
    last = MAX_NOISE

    def cdf(self, k: int, bits: int) -> Enclosure:
        """P(X <= k)."""
        tail = _at(_two_sided_tails(self.sigma, bits), max(k, -1 - k))
        return tail if k < 0 else one_minus(tail, bits)

    def lower_tails(self, bits: int) -> Iterator[Enclosure]:
        """P(X <= -1), P(X <= -2), …, then enclosures of zero and the last."""
        return _for_ever(_two_sided_tails(self.sigma, bits))

    def upper_tails(self, bits: int) -> Iterator[Enclosure]:
        """P(X > 0), P(X > 1), …: the lower ones' mirror image."""
        return self.lower_tails(bits)


@dataclass(frozen=True)
class HalfGaussian:
    """A high digit: P(X = h) ∝ exp(-(base·h)²/(2 sigma²)), h >= 0."""

    sigma: Fraction
    base: int
    first = 0

    @property
    def last(self) -> int:
        """The greatest digit that keeps the noise within `MAX_NOISE`."""
        return MAX_NOISE // self.base - 1

    def cdf(self, k: int, bits: int) -> Enclosure:
        """P(X <= k)."""
        return one_minus(_at(_one_sided_tails(self.sigma / self.base, bits), k), bits)

    def lower_tails(self, bits: int) -> Iterator[Enclosure]:
        """There are none."""
        return iter(())

    def upper_tails(self, bits: int) -> Iterator[Enclosure]:
        """P(X > 0), P(X > 1), …, then enclosures of zero and the last."""
        return _for_ever(_one_sided_tails(self.sigma / self.base, bits))


@lru_cache(maxsize=4)
def _two_sided_tails(sigma: Fraction, bits: int) -> list[Enclosure]:
    """P(X > k) for k = 0, 1, … under P(X = k) ∝ exp(-k²/(2 sigma²)) on all integers."""
    sums, one = _half_sums(sigma, bits + _SPARE_BITS), 1 << bits + _SPARE_BITS
    total = one + 2 * sums[0][0], one + 2 * sums[0][1]
    return _shares(sums, total, bits)


@lru_cache(maxsize=4)
def _one_sided_tails(sigma: Fraction, bits: int) -> list[Enclosure]:
    """P(X > k) for k = 0, 1, … under P(X = k) ∝ exp(-k²/(2 sigma²)) on k >= 0."""
    sums, one = _half_sums(sigma, bits + _SPARE_BITS), 1 << bits + _SPARE_BITS
    total = one + sums[0][0], one + sums[0][1]
    return _shares(sums, total, bits)


def _shares(sums: list[Enclosure], total: Enclosure, bits: int) -> list[Enclosure]:
    return [coarser(over(part, total, bits + _SPARE_BITS), _SPARE_BITS) for part in sums]


def _half_sums(sigma: Fraction, bits: int) -> list[Enclosure]:
    """Enclose Σ_{j > k} exp(-a·j²), a = 1/(2 sigma²), for k = 0, 1, … until its lower end is 0.

    The next weight is the last one times exp(-a(2j + 1)), and that factor falls by exp(-2a) each time. What is left
    out after N terms is below w_N/(1 - w_N/w_(N-1)), a geometric series.
    """
    a = 1 / (2 * sigma**2)
    weight, factor, step = (exp_minus(multiple * a, bits) for multiple in (1, 3, 2))
    weights = []
    while weight[0] > 0:
        weights.append(weight)
        weight = times(weight, factor, bits)
        factor = times(factor, step, bits)
    rest = over(weight, one_minus(factor, bits), bits)[1]
    lower, upper = 0, rest
    sums = [(lower, upper)]
    for weight in reversed(weights):
        lower, upper = lower + weight[0], upper + weight[1]
        sums.append((lower, upper))
    sums.reverse()
    return sums


def _at(tails: list[Enclosure], k: int) -> Enclosure:
    return tails[k] if k < len(tails) else (0, tails[-1][1])


def _for_ever(tails: list[Enclosure]) -> Iterator[Enclosure]:
    yield from tails
    while True:
        yield 0, tails[-1][1]
