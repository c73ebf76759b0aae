"""Squared errors of replicates against sums by hand, whatever the order of the cells."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallytree.numbers.accuracy.squared_errors import SquaredErrors, looked_up

KEYS = st.integers(0, 2**40)
CELLS = st.dictionaries(KEYS | st.integers(0, 12), st.integers(-50, 50), max_size=12)


def arrays(cells):
    return np.array(list(cells), dtype=np.int64), np.array(list(cells.values()), dtype=np.int64)


@given(CELLS, st.lists(CELLS, min_size=1, max_size=5))
def test_they_are_those_of_a_dictionary(truth, replicates):
    errors = SquaredErrors(*arrays(truth))
    for replicate in replicates:
        errors.add(*arrays(replicate))
    expected = [
        np.sqrt(np.mean([(replicate.get(key, 0) - number) ** 2 for replicate in replicates]))
        for key, number in truth.items()
    ]
    assert errors.std_dev.tolist() == pytest.approx(expected)


@given(CELLS, st.lists(KEYS | st.integers(0, 12), max_size=9))
def test_what_is_not_there_is_zero(cells, wanted):
    found = looked_up(np.array(wanted, dtype=np.int64), *arrays(cells))
    assert found.tolist() == [cells.get(key, 0) for key in wanted]


def test_a_cell_that_is_listed_twice_is_refused():
    with pytest.raises(ValueError, match="one of its cells is listed twice"):
        SquaredErrors(np.array([3, 1, 3]), np.array([1, 2, 1]))


def test_fractions_of_groups_have_errors_too():
    errors = SquaredErrors(np.array([0]), np.array([2]))
    errors.add(np.array([0]), np.array([2.5]))
    assert errors.std_dev.tolist() == [0.5]


# Five cells with 1 … 5; of ten replicates, 8, 5, 6, 1 and 0 leave them out. The share that falls with the number and is
# nearest: 0.8, 0.55, 0.55, 0.1, 0.
@pytest.mark.parametrize(("alpha", "hidden"), [(0.05, 4), (0.1, 3), (0.5, 3), (0.6, 1), (0.9, 0)])
def test_what_an_absent_cell_may_hide_is_hand_worked(alpha, hidden):
    errors = SquaredErrors(np.arange(5), np.arange(1, 6))
    for replicate in range(10):
        there = np.flatnonzero(replicate >= np.array([8, 5, 6, 1, 0]))
        errors.add(there, np.ones(len(there), dtype=np.int64))
    assert errors.largest_unlisted(alpha) == hidden


def test_where_even_the_largest_cell_is_left_out_often_nothing_bounds_what_is_hidden():
    errors = SquaredErrors(np.arange(2), np.array([1, 2]))
    errors.add(np.array([], dtype=np.int64), np.array([], dtype=np.int64))
    assert errors.largest_unlisted(0.1) is None
    assert SquaredErrors(np.array([], dtype=np.int64), np.array([], dtype=np.int64)).largest_unlisted(0.1) is None
