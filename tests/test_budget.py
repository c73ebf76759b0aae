from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallytree as tt
from tallytree.budget import shares


def test_a_float_is_the_decimal_number_that_is_written():
    assert tt.Budget(epsilon=0.1).epsilon == Fraction(1, 10)
    assert tt.Budget(epsilon=1, delta=1e-8).delta == Fraction(1, 10**8)
    assert tt.Budget(rho=Decimal("0.05")).rho == Fraction(1, 20)
    assert tt.Budget(epsilon=Fraction(1, 3)).epsilon == Fraction(1, 3)
    assert tt.Budget(epsilon=np.float64(0.1)).epsilon == Fraction(1, 10)
    assert tt.Budget(epsilon=np.int64(2)).epsilon == 2


def test_the_kind_follows_from_what_is_given():
    assert tt.Budget(epsilon=1).kind == "pure"
    assert tt.Budget(epsilon=1, delta=0.5).kind == "approximate"
    assert tt.Budget(rho=1).kind == "zcdp"
    assert repr(tt.Budget(epsilon=1, delta=1e-8)) == "Budget(epsilon=1.0, delta=1e-08)"


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({}, "either epsilon"),
        ({"epsilon": 1, "rho": 1}, "either epsilon"),
        ({"rho": 1, "delta": 0.1}, "no place beside rho"),
        ({"epsilon": 0}, "epsilon: 0 must be greater than 0"),
        ({"epsilon": -1.5}, "epsilon: -1.5 must be greater than 0"),
        ({"epsilon": float("nan")}, "epsilon: nan must be finite"),
        ({"epsilon": float("inf")}, "epsilon: inf must be finite"),
        ({"epsilon": Decimal("NaN")}, "must be finite"),
        ({"rho": 0.0}, "rho: 0.0 must be greater than 0"),
        ({"epsilon": 1, "delta": 0}, "delta: 0 must be greater than 0"),
        ({"epsilon": 1, "delta": 1}, "delta: 1 must lie strictly between 0 and 1"),
        ({"epsilon": 1, "delta": float("nan")}, "delta: nan must be finite"),
    ],
)
def test_numbers_that_are_no_budget_are_refused(numbers, message):
    with pytest.raises(ValueError, match=message):
        tt.Budget(**numbers)


@pytest.mark.parametrize("number", ["1", True, [1], 1j, np.bool_(True)])
def test_what_is_no_number_is_refused(number):
    with pytest.raises(TypeError, match=r"epsilon: .* must be a number"):
        tt.Budget(epsilon=number)


def test_a_budget_cannot_be_changed():
    with pytest.raises(AttributeError):
        tt.Budget(epsilon=1).epsilon = 2


@given(st.lists(st.fractions(min_value=Fraction(1, 1000), max_value=1000), min_size=1, max_size=6))
def test_shares_add_up_to_exactly_one(weights):
    levels = [f"l{i}" for i in range(len(weights))]
    split = shares(dict(zip(levels, weights, strict=True)), levels)
    assert sum(split.values()) == 1
    assert all(
        split[a] * wb == split[b] * wa
        for a, wa in zip(levels, weights, strict=True)
        for b, wb in zip(levels, weights, strict=True)
    )


def test_the_even_split():
    assert shares(None, ["a", "b", "c"]) == shares("even", ["a", "b", "c"]) == dict.fromkeys("abc", Fraction(1, 3))


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ({"a": 1}, "no weight for the level 'b'; the measured levels are a, b"),
        ({"a": 1, "b": 1, "c": 1}, "'c' is not measured"),
        ({"a": 1, "b": -1}, r"budget_split\['b'\]: -1 must be greater than 0"),
        ({"a": 1, "b": 0}, "must be greater than 0"),
        ({"a": 1, "b": float("nan")}, "must be finite"),
        ("evn", "'evn' is not known"),
    ],
)
def test_a_split_that_does_not_fit_the_levels_is_refused(split, message):
    with pytest.raises(ValueError, match=message):
        shares(split, ["a", "b"])


def test_a_split_of_the_wrong_kind_is_refused():
    with pytest.raises(TypeError, match="must be"):
        shares([1, 2], ["a", "b"])
