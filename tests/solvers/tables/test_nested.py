"""The covariance of cells with the cells of coarser tables that hold them, against dense covariance matrices."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.tables import WITH_LEVELS, Dense, matrix, table_trees
from tallytree.solvers.tables.marginals import Detail
from tallytree.solvers.tables.variance import nested_covariances

BY_AGE = Detail.flat([3, 2])
TREE = [np.array([0, 2]), np.array([0, 3, 5])]
MEASURED = [{(0, 0): 4.0}, {(1, 0): 1.0, (0, 1): 2.0}, {(1, 1): 0.5, (0, 0): 1.0}]


def leaf_rows(families, level):
    """Which leaf areas lie in each area of a level: 0 or 1, (areas, leaves)."""
    leaves = int(families[-1][-1]) if families else 1
    rows = np.eye(leaves)
    for offsets in reversed(families[level:]):
        rows = np.add.reduceat(rows, offsets[:-1], axis=0)
    return rows


def dense(detail, families, measured, fine, coarse, known):
    """Half of Var(a + b) − Var(a) − Var(b), cell by cell."""
    solved = Dense(detail, families, measured, known)
    of_areas = [leaf_rows(families, level) for level, _ in (fine, coarse)]
    of_cells = [matrix(detail, marginal) for _, marginal in (fine, coarse)]
    found = np.zeros((len(of_areas[0]), len(of_cells[0])))
    for (v, row), (g, cells) in itertools.product(enumerate(of_areas[0]), enumerate(of_cells[0])):
        u = next(above for above in of_areas[1] if (above >= row).all())
        whole = next(each for each in of_cells[1] if (each >= cells).all())
        a, b = np.outer(row, cells).ravel(), np.outer(u, whole).ravel()
        both, one, other = solved.variances(np.stack([a + b, a, b]))
        found[v, g] = (both - one - other) / 2
    return found


def check(detail, families, measured, fine, coarse, known):
    found = nested_covariances(detail, families, measured, fine, coarse, public_totals_level=known)
    wanted = dense(detail, families, measured, fine, coarse, known)
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-8 * (1 + np.abs(wanted).max()))


@pytest.mark.slow
@pytest.mark.parametrize("known", [None, 0, 1])
@pytest.mark.parametrize("detail", [BY_AGE, WITH_LEVELS[0]], ids=["flat", "uneven"])
def test_all_pairs_of_tables_have_the_dense_covariance(detail, known):
    measured = [*MEASURED[:2], {**MEASURED[2], detail.finest: 0.5}]
    tables = list(itertools.product(range(3), detail.components))
    pairs = [
        (fine, coarse)
        for fine, coarse in itertools.product(tables, tables)
        if coarse[0] <= fine[0] and all(map(int.__le__, coarse[1], fine[1]))
    ]
    assert len(pairs) >= 54
    for fine, coarse in pairs[:: 1 if detail is BY_AGE else 3]:
        check(detail, TREE, measured, fine, coarse, known)


@st.composite
def pairs(draw, details=None):
    """A tree of tables whose finest table is measured, and a table with a coarser one."""
    detail, families, measured = draw(table_trees(details))
    measured = [*measured[:-1], {**measured[-1], detail.finest: draw(st.floats(0.1, 5))}]
    fine = draw(st.integers(0, len(families))), draw(st.sampled_from(detail.components))
    coarser = [each for each in detail.components if all(map(int.__le__, each, fine[1]))]
    coarse = draw(st.integers(0, fine[0])), draw(st.sampled_from(coarser))
    return detail, families, measured, fine, coarse, draw(st.none() | st.integers(0, len(families)))


@pytest.mark.slow
@settings(max_examples=60)
@given(pairs())
def test_pairs_with_equal_groups_have_the_dense_covariance(case):
    check(*case)


@pytest.mark.slow
@settings(max_examples=60)
@given(pairs(WITH_LEVELS))
def test_pairs_with_unequal_groups_have_the_dense_covariance(case):
    check(*case)


def test_a_table_that_is_finer_than_the_first_is_refused():
    with pytest.raises(ValueError, match=r"^coarse: \(2, \(0, 0\)\) must be nowhere finer than"):
        nested_covariances(BY_AGE, TREE, MEASURED, (1, (0, 0)), (2, (0, 0)))
    with pytest.raises(ValueError, match=r"^coarse: .* must be nowhere finer"):
        nested_covariances(BY_AGE, TREE, MEASURED, (1, (0, 1)), (1, (1, 0)))
