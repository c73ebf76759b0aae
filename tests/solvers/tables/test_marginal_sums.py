"""The variance of sums over areas and cells, against dense covariance matrices and simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.tables import WITH_LEVELS, Dense, matrix, simulated, table_trees
from tallytree.solvers.tables import sums as marginal_sums
from tallytree.solvers.tables.marginals import Detail
from tallytree.solvers.tables.sums import sum_variances
from tallytree.solvers.tables.variance import std_devs

some = settings(max_examples=60)


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
    expected = Dense(detail, families, measured, known).variances(
        (chosen[:, :, None] * rows[:, None, :]).reshape(len(chosen), -1)
    )
    np.testing.assert_allclose(variances(*case), np.maximum(expected, 0), rtol=1e-8, atol=1e-9)


@pytest.mark.slow
@some
@given(sums())
def test_sums_with_equal_groups_have_the_dense_variance(case):
    check(case)


@pytest.mark.slow
@some
@given(sums(WITH_LEVELS))
def test_sums_with_unequal_groups_have_the_dense_variance(case):
    check(case)


@pytest.mark.slow
@some
@given(sums(), st.data())
def test_areas_with_weights_have_the_dense_variance(case, data):
    detail, families, measured, chosen, cells, known = case
    some_weights = st.lists(st.sampled_from([1.0, 1.0, -1.0, 0.4]), min_size=chosen.size, max_size=chosen.size)
    weights = np.array(data.draw(some_weights)).reshape(chosen.shape)
    rows = np.broadcast_to(cells, (len(chosen), detail.cells))
    together = ((chosen * weights)[:, :, None] * rows[:, None, :]).reshape(len(chosen), -1)
    expected = Dense(detail, families, measured, known).variances(together)
    areas, offsets = np.nonzero(chosen)[1], np.concatenate([[0], np.cumsum(chosen.sum(axis=1))])
    found = sum_variances(
        detail, families, measured, areas, offsets, cells, weights=weights[chosen], public_totals_level=known
    )
    np.testing.assert_allclose(found, np.maximum(expected, 0), rtol=1e-8, atol=1e-9)


BY_AGE = Detail.flat([3, 2])
TREE = [np.array([0, 2]), np.array([0, 3, 5])]
MEASURED = [{(0, 0): 4.0}, {(1, 0): 1.0, (0, 1): 2.0}, {(1, 1): 0.5, (0, 0): 1.0}]
SETS = np.array([[1, 1, 1, 1, 1], [0, 0, 0, 1, 1], [1, 0, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 0, 0, 0]], dtype=bool)
CONDITION = np.array([1, 0, 1, 0, 0, 0], dtype=bool)


@pytest.mark.parametrize("detail", [BY_AGE, WITH_LEVELS[0]], ids=["flat", "uneven"])
@pytest.mark.parametrize("known", [None, 1])
def test_areas_partly_and_wholly_in_a_sum(detail, known):
    rows = np.arange(5 * detail.cells).reshape(5, -1) % 3
    measured = [*MEASURED[:2], {**MEASURED[2], detail.finest: 0.5}]
    check((detail, TREE, measured, SETS, np.arange(detail.cells) % 2, known))
    check((detail, TREE, measured, SETS, rows, known))


def test_a_sum_that_is_a_cell_of_a_table_has_its_std_dev():
    found = variances(BY_AGE, TREE, MEASURED, SETS, CONDITION, None)
    first = matrix(BY_AGE, (1, 1))[2]
    tables = std_devs(BY_AGE, TREE, MEASURED, [BY_AGE.components] * 3)
    assert found[-1] == 0
    assert variances(BY_AGE, TREE, MEASURED, SETS[4:], CONDITION, None).tolist() == [0]
    none = np.zeros(0, dtype=np.int64)
    assert sum_variances(BY_AGE, TREE, MEASURED, none, np.zeros(1, dtype=np.int64), np.zeros((0, 6))).shape == (0,)
    assert variances(BY_AGE, TREE, MEASURED, SETS[:1], first, None)[0] == pytest.approx(tables[0, (1, 1)][0] ** 2)
    assert variances(BY_AGE, TREE, MEASURED, SETS[1:2], first, None)[0] == pytest.approx(tables[1, (1, 1)][1] ** 2)


def test_batches_do_not_change_the_variances(monkeypatch):
    rows = np.arange(5 * 6).reshape(5, -1) % 4
    together = variances(BY_AGE, TREE, MEASURED, SETS, rows, None)
    monkeypatch.setattr(marginal_sums, "AT_ONCE", 4)
    np.testing.assert_array_equal(variances(BY_AGE, TREE, MEASURED, SETS, rows, None), together)


@pytest.mark.slow
@pytest.mark.parametrize("detail", [BY_AGE, WITH_LEVELS[0]], ids=["flat", "uneven"])
def test_simulated_sums_vary_as_much(detail):
    """Gaussian noise through the passes of the estimate: sums over areas, and the std_dev of every table."""
    runs = 20_000
    measured = [*MEASURED[:2], {**MEASURED[2], detail.finest: 0.5}]
    cells = np.arange(detail.cells) % 3
    x = simulated(detail, TREE, measured, runs, np.random.default_rng(14))
    sums = np.array([sum(x[2][area] @ cells for area in np.flatnonzero(row)) for row in SETS[:4]])
    near = 5 * np.sqrt(2 / runs)
    np.testing.assert_allclose(sums.var(axis=1), variances(detail, TREE, measured, SETS[:4], cells, None), rtol=near)
    for (level, marginal), values in std_devs(detail, TREE, measured, [detail.components] * 3).items():
        errors = np.array([detail.summed(each, marginal) for each in x[level]])
        expected = np.broadcast_to(values.reshape(len(values), -1) ** 2, (len(values), detail.size(marginal)))
        np.testing.assert_allclose(errors.var(axis=1), expected, rtol=near)


def test_what_is_not_measured_is_unknown():
    measured = [{}, {(1, 1): 1.0}, {(0, 0): 1.0}]
    found = variances(BY_AGE, TREE, measured, SETS, CONDITION, None)
    assert np.isinf(found).tolist() == [False, False, True, True, False]
    assert np.isfinite(variances(BY_AGE, TREE, measured, SETS, np.ones(6), None)).all()


def test_nothing_is_unknown_of_an_only_child():
    found = variances(BY_AGE, [np.array([0, 1])], [{(1, 1): 1.0}, {}], np.ones((1, 1), dtype=bool), CONDITION, None)
    assert found == pytest.approx([2.0])


def test_wrong_sums_are_refused():
    def refused(message, areas, offsets, cells=CONDITION, measured=MEASURED):
        with pytest.raises(ValueError, match=message):
            sum_variances(BY_AGE, TREE, measured, np.array(areas), np.array(offsets), cells)

    refused(r"areas\[1\]=5; it must be a leaf area, 0 … 4", [0, 5], [0, 2])
    refused(r"areas\[0\]=-1; it must be a leaf area", [-1, 2], [0, 2])
    refused(r"areas\[2\]=1 must be greater than the one before it", [3, 1, 1], [0, 1, 3])
    refused("offsets must ascend from 0 to the 2 areas", [0, 1], [0, 1])
    refused("offsets must ascend from 0 to the 2 areas", [0, 1], [0, 3, 2])
    refused(r"cells has shape \(3, 6\); it must be \(6,\) or \(1, 6\)", [0, 1], [0, 2], np.ones((3, 6)))
    refused("precisions has 2 entries; it must have 3", [0, 1], [0, 2], measured=MEASURED[:2])
