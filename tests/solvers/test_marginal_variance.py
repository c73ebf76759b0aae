"""Standard deviations of tables, against dense covariance matrices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.tables import WITH_LEVELS, Dense, table_trees
from tallytree.solvers.marginal_variance import expected_std_devs, same_for_all_cells, std_devs
from tallytree.solvers.marginals import Detail

some = settings(deadline=None, max_examples=60)


def check(detail, families, measured, known):
    levels = len(families) + 1
    found = std_devs(detail, families, measured, [detail.components] * levels, public_totals_level=known)
    assert len(found) == levels * len(detail.components)
    dense = Dense(detail, families, measured, known)
    for (level, marginal), values in found.items():
        if same_for_all_cells(detail, marginal):
            assert values.ndim == 1
            values = np.repeat(values[:, None], detail.size(marginal), axis=1)
        np.testing.assert_allclose(values, dense.std_devs(level, marginal), rtol=1e-9, atol=1e-7)


@some
@given(table_trees(), st.none() | st.integers(0, 2))
def test_equal_groups_have_the_dense_std_dev(tree, known):
    check(*tree, None if known is None else min(known, len(tree[1])))


@some
@given(table_trees(WITH_LEVELS), st.none() | st.integers(0, 2))
def test_unequal_groups_have_the_dense_std_dev(tree, known):
    check(*tree, None if known is None else min(known, len(tree[1])))
