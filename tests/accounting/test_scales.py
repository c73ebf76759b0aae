"""The scale that is drawn at: the smallest one on the grid that is not below what was asked for."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from tallytree.accounting import scales
from tallytree.accounting.scales import representable

LARGEST = 2**40


@pytest.mark.parametrize(
    "scale",
    [
        1,
        2,
        Fraction(3, 2),
        Fraction(1, 3),
        10,
        Decimal("0.1"),
        Fraction(1, 1000),
        10**9,
        0.5,
        2.0**-8,
        Fraction(355, 113),
    ],
)
def test_a_simple_scale_is_used_as_it_is(scale):
    assert representable(scale) == Fraction(scale)
    assert type(representable(scale)) is Fraction


@pytest.mark.parametrize("scale", [0.1, 0.3, math.pi, math.sqrt(2) * 1e6, 1e9 / 3, 0.001 * math.e, 999_999_999.999])
def test_another_scale_is_rounded_up_a_little(scale):
    used = representable(scale)
    assert Fraction(scale) <= used <= Fraction(scale) * (1 + Fraction(1, 2**30))
    assert max(used.numerator, used.denominator) <= LARGEST
    assert representable(used) == used


def test_a_thousand_scales_are_rounded_up_a_little():
    rng = np.random.default_rng(5)
    for scale in 10 ** rng.uniform(-3, 9, 1000):
        test_another_scale_is_rounded_up_a_little(float(scale))


@pytest.mark.parametrize("largest", [12, 13, 17])
def test_the_scale_used_is_the_smallest_that_fits(monkeypatch, largest):
    """Against the list of all fractions, with a bound small enough to have one."""
    monkeypatch.setattr(scales, "MAX_PART", largest)
    fractions = sorted({Fraction(p, q) for p in range(1, largest + 1) for q in range(1, largest + 1)})
    rng = np.random.default_rng(largest)
    between = [Fraction(x) for x in np.exp(rng.uniform(-math.log(largest), math.log(largest), 500))]
    for scale in fractions + between:
        assert representable(scale) == min(fraction for fraction in fractions if fraction >= scale)


def test_representable_names_its_argument():
    with pytest.raises(ValueError, match="scale must be positive and finite, got -1; "):
        representable(-1)
