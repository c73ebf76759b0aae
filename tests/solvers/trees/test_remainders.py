import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.solvers.trees.families import round_families


@settings(max_examples=200)
@given(st.lists(st.floats(0, 50), min_size=1, max_size=8), st.booleans())
def test_every_number_is_rounded_to_a_neighbor_and_the_largest_remainders_go_up(numbers, up):
    real = sum(numbers)
    total = int(np.ceil(real) if up else np.floor(real))
    found = round_families(numbers, [0, len(numbers)], [total])
    assert found.sum() == total
    assert (np.abs(found - numbers) <= 1 + 1e-6).all()
    remainders = np.array(numbers) - np.floor(numbers)
    went_up = found > np.floor(numbers)
    if went_up.any() and not went_up.all():
        assert remainders[went_up].min() >= remainders[~went_up].max()


def test_ties_go_to_the_earlier_and_families_are_apart():
    assert round_families([0.5, 0.5, 0.5, 0.5], [0, 2, 4], [1, 2]).tolist() == [1, 0, 1, 1]
    assert round_families([], [0, 0], [0]).tolist() == []


def test_float_error_does_not_cost_a_unit():
    assert round_families([2.9999999999, 1.0000000001], [0, 2], [4]).tolist() == [3, 1]
    assert round_families([3.0, 1.0], [0, 2], [3]).tolist() in ([2, 1], [3, 0])


@pytest.mark.parametrize(
    ("values", "totals", "message"),
    [
        ([0.5, 0.5], [9], "totals: 9 is out of reach of family 0, whose numbers add up to 1"),
        ([0.5, 0.5], [1, 1], "totals has 2 entries; it must have one for each of 1 families"),
        ([-0.5, 0.5], [0], "values must be finite, ≥ 0"),
        ([np.nan, 0.5], [0], "values must be finite, ≥ 0"),
        ([0.5, 2.0**54], [0], "at most 2\\^53"),
    ],
)
def test_what_is_wrong_is_said(values, totals, message):
    with pytest.raises(ValueError, match=message):
        round_families(values, [0, len(values)], totals)
