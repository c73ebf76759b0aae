"""The variance of sums over areas and cells, against dense covariance matrices and simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.tables import WITH_LEVELS, Dense, table_trees
from tallytree.solvers import marginal_sums
from tallytree.solvers.marginal_sums import sum_variances
from tallytree.solvers.marginals import Detail

some = settings(deadline=None, max_examples=60)


@st.composite
def sums(draw, details=None):
    """A tree of tables, the totals known, some sums over its leaf areas, and weights of cells."""
    detail, families, measured = draw(table_trees(details))
    leaves = int(families[-1][-1]) if families else 1
    chosen = draw(st.lists(st.lists(st.booleans(), min_size=leaves, max_size=leaves), min_size=1, max_size=4))
    rows = draw(st.none() | st.just(len(chosen)))
    weight = st.sampled_from([0, 0, 1, 1, -1, 2.5])
    size = detail.cells * (rows or 1)
    cells = np.array(draw(st.lists(weight, min_size=size, max_size=size)), dtype=float)
    known = draw(st.none() | st.integers(0, len(families)))
    return detail, families, measured, np.array(chosen), cells if rows is None else cells.reshape(rows, -1), known


def variances(detail, families, measured, chosen, cells, known):
    areas = np.concatenate([np.flatnonzero(row) for row in chosen])
    offsets = np.concatenate([[0], np.cumsum(chosen.sum(axis=1))])
    return sum_variances(detail, families, measured, areas, offsets, cells, public_totals_level=known)


def check(case):
    detail, families, measured, chosen, cells, known = case
    rows = np.broadcast_to(cells, (len(chosen), detail.cells))
    expected = Dense(detail, families, measured, known).variances((chosen[:, :, None] * rows[:, None, :]).reshape(len(chosen), -1))
    np.testing.assert_allclose(variances(*case), np.maximum(expected, 0), rtol=1e-8, atol=1e-9)


@some
@given(sums())
def test_sums_with_equal_groups_have_the_dense_variance(case):
    check(case)


@some
@given(sums(WITH_LEVELS))
def test_sums_with_unequal_groups_have_the_dense_variance(case):
    check(case)
