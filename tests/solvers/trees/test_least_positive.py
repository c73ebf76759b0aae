"""The least measurement with which IntOpt gives a child a count: against IntOpt itself, measurement by measurement."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallytree.solvers.trees.families import least_positive
from tallytree.solvers.trees.simplex import chebyshev


@pytest.mark.slow
@given(st.lists(st.integers(-30, 80), min_size=2, max_size=7), st.integers(1, 120))
def test_it_is_the_first_measurement_with_a_positive_count(noisy, total):
    noisy = np.array(noisy)
    counts = chebyshev(noisy, total)
    kept, left = np.flatnonzero(counts > 0), np.flatnonzero(counts == 0)
    ends = np.array([0, len(kept)])
    found = least_positive(
        noisy[kept], ends, noisy[left], np.array([0, len(left)]), np.array([total]), np.ones(len(kept), bool), 500
    )
    for child, least in zip(kept, found, strict=True):
        positive = []
        for value in range(noisy[child] - 500, noisy[child] + 1):
            moved = noisy.copy()
            moved[child] = value
            positive.append(chebyshev(moved, total)[child] > 0)
        if positive[0]:
            assert least == -np.inf
        else:  # equal siblings are told apart by their order, which is another one here: off by a unit at most
            assert abs(least - (noisy[child] - 500 + positive.index(True))) <= 1


def test_large_families_have_the_first_above_what_was_left_out():
    noisy, left = np.arange(50, 150), np.array([12, -3])
    found = least_positive(noisy, np.array([0, 100]), left, np.array([0, 2]), np.array([9000]), np.arange(100) < 3, 100)
    assert found[:4].tolist() == [13.0, 13.0, 13.0, -np.inf]
