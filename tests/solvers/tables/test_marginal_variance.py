"""Standard deviations of tables, against dense covariance matrices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.tables import WITH_LEVELS, Dense, table_trees
from tallytree.solvers.tables.marginals import Detail
from tallytree.solvers.tables.variance import expected_std_devs, same_for_all_cells, std_devs
from tallytree.solvers.trees.linear import combined_variances

some = settings(max_examples=60)


def check(detail, families, measured, known):
    levels = len(families) + 1
    found = std_devs(detail, families, measured, [detail.components] * levels, public_totals_level=known)
    assert len(found) == levels * len(detail.components)
    dense = Dense(detail, families, measured, known)
    for (level, marginal), values in found.items():
        if same_for_all_cells(detail, marginal):
            assert values.ndim == 1
            values = np.repeat(values[:, None], detail.size(marginal), axis=1)
        np.testing.assert_allclose(values**2, dense.variances_of(level, marginal), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@some
@given(table_trees(), st.none() | st.integers(0, 2))
def test_equal_groups_have_the_dense_std_dev(tree, known):
    check(*tree, None if known is None else min(known, len(tree[1])))


@pytest.mark.slow
@some
@given(table_trees(WITH_LEVELS), st.none() | st.integers(0, 2))
def test_unequal_groups_have_the_dense_std_dev(tree, known):
    check(*tree, None if known is None else min(known, len(tree[1])))


def test_an_even_family_is_what_is_expected():
    detail = WITH_LEVELS[0]
    families = [np.array([0, 3]), np.array([0, 4, 8, 12])]
    measured = [{(0, 0): 2.0}, {(1, 1): 0.5, (0, 0): 1.0}, {(2, 1): 1.0, (1, 0): 3.0}]
    tables = [(level, marginal) for level in range(3) for marginal in detail.components]
    for known in (None, 1):
        exact = std_devs(detail, families, measured, [detail.components] * 3, public_totals_level=known)
        found = expected_std_devs(detail, [1, 3, 12], measured, tables, public_totals_level=known)
        assert list(found) == tables
        for table in tables:
            assert found[table] == pytest.approx(exact[table].mean(), rel=1e-12, abs=1e-12)


def test_without_attributes_it_is_the_variance_of_a_tree_of_counts():
    families = [np.array([0, 2]), np.array([0, 3, 4])]
    own = [4.0, 1.0, 2.0]
    expected = combined_variances(families, own).nodes
    found = std_devs(Detail(()), families, [{(): 1 / variance} for variance in own], [[()]] * 3)
    for level in range(3):
        np.testing.assert_allclose(found[level, ()] ** 2, expected[level], rtol=1e-12)


def test_what_is_not_measured_is_unknown():
    detail = Detail.flat([2])
    families = [np.array([0, 2])]
    found = std_devs(detail, families, [{(1,): 1.0}, {(0,): 1.0}], [[(0,), (1,)]] * 2)
    assert np.isinf(found[1, (1,)]).all()
    assert np.isfinite(found[1, (0,)]).all()
    assert np.isfinite(found[0, (1,)]).all()
    assert expected_std_devs(detail, [1, 2], [{(1,): 1.0}, {(0,): 1.0}], [(1, (1,))]) == {(1, (1,)): np.inf}


def test_only_the_tables_asked_for_are_returned():
    found = std_devs(Detail.flat([2]), [np.array([0, 2])], [{(1,): 1.0}, {}], [[(1,)], []])
    assert list(found) == [(0, (1,))]
    assert found[0, (1,)].tolist() == [1.0]


def test_wrong_trees_and_lists_are_refused():
    detail = Detail.flat([2])
    with pytest.raises(ValueError, match="precisions has 1 entries; it must have 2"):
        std_devs(detail, [np.array([0, 2])], [{}], [[], []])
    with pytest.raises(ValueError, match="published has 1 entries; it must have 2"):
        std_devs(detail, [np.array([0, 2])], [{}, {}], [[]])
    for families in ([np.array([0, 0])], [np.array([0, 1, 2])], [np.array([1, 2])]):
        with pytest.raises(ValueError, match=r"families\[0\] must be the offsets of 1 families"):
            std_devs(detail, families, [{}, {}], [[], []])
    for areas in ([2, 3], [1, 5, 4]):
        with pytest.raises(ValueError, match="must begin with 1, the root, and no level may have fewer"):
            expected_std_devs(detail, areas, [{}] * len(areas), [])
