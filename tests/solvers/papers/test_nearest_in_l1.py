"""The nearest histogram in the norm 1: feasible and optimal, by each method of HiGHS."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.solvers.papers.nearest_in_l1 import METHODS, nearest_in_l1

pytestmark = pytest.mark.needs("highspy")


@pytest.mark.parametrize("method", METHODS)
@given(st.lists(st.integers(-4, 6), min_size=1, max_size=4), st.integers(0, 12))
@settings(max_examples=25, deadline=None)
def test_no_histogram_with_the_total_is_nearer(method, noisy, total):
    """Brute force: all histograms of up to four cells. Rounding can cost a unit a cell where the optimum is real."""
    found = nearest_in_l1(noisy, total, method=method)
    grids = np.meshgrid(*[np.arange(total + 1)] * (len(noisy) - 1), indexing="ij") if len(noisy) > 1 else []
    first = np.stack([grid.ravel() for grid in grids], axis=1) if grids else np.zeros((1, 0), dtype=np.int64)
    all_of_them = np.column_stack([first, total - first.sum(axis=1)])
    best = np.abs(all_of_them[all_of_them[:, -1] >= 0] - noisy).sum(axis=1).min()
    assert found.sum() == total
    assert (found >= 0).all()
    distance = np.abs(found - noisy).sum()
    assert best <= distance <= best + (len(noisy) if method == "interior point" else 0)


def test_what_cannot_be_solved_is_refused():
    with pytest.raises(ValueError, match=r"^noisy: there are no cells; give at least one$"):
        nearest_in_l1(np.zeros(0, np.int64), 1, method="dual simplex")
    with pytest.raises(ValueError, match=r"^method: 'barrier' .*choose one of primal simplex, dual simplex"):
        nearest_in_l1([1], 1, method="barrier")
    with pytest.raises(TimeoutError):
        nearest_in_l1(np.arange(400), 90_000, method="dual simplex", time_limit=1e-6)
