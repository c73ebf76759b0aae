from fractions import Fraction

import mpmath
import numpy as np
import pytest

from tallytree.accounting.laws import coarser, exp_minus, one_minus, over, times

EXPONENTS = [
    Fraction(0),
    Fraction(1),
    Fraction(1, 10**9),
    Fraction(2**40 - 1, 2**40),
    Fraction(355, 113),
    Fraction(40),
    Fraction(1000),
    Fraction(2**40),
]


@pytest.mark.parametrize("bits", [1, 8, 64, 128, 600])
def test_exp_minus_encloses_and_is_narrow(bits):
    rng = np.random.default_rng(bits)
    some = [Fraction(float(x)) for x in np.exp(rng.uniform(-20, 8, 100))]
    for exponent in EXPONENTS + some:
        lower, upper = exp_minus(exponent, bits)
        with mpmath.workprec(bits + 200):
            true = mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator) * mpmath.mpf(2) ** bits
            assert lower <= true <= upper
        assert upper - lower <= 2


@pytest.mark.parametrize("seed", range(3))
def test_operations_enclose_what_they_compute(seed):
    rng = np.random.default_rng(seed)
    for _ in range(300):
        bits = int(rng.integers(1, 12))
        a, b = (sorted(int(x) for x in rng.integers(1, 1 << bits, 2, endpoint=True)) for _ in range(2))
        unit = 1 << bits
        for x in a:
            for y in b:
                for result, true in [
                    (times(a, b, bits), Fraction(x * y, unit)),
                    (over(a, b, bits), Fraction(x * unit, y)),
                    (one_minus(a, bits), Fraction(unit - x)),
                    (coarser(a, 1), Fraction(x, 2)),
                ]:
                    assert result[0] <= true <= result[1]
