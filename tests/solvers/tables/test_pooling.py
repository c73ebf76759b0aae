"""What is expected of cells, and how far errors of coarser tables reach: against linear algebra, and by hand."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.solvers.tables.marginals import Detail, Lattice
from tallytree.solvers.tables.pooling import (
    FITTED,
    coarser_tables,
    expected_cells,
    own_parts,
    own_variances,
    reached_errors,
)

FAMILIES = np.array([0, 2, 5])
DETAILS = {
    "one attribute": Detail.flat([4]),
    "two": Detail.flat([2, 3]),
    "three": Detail.flat([2, 2, 3]),
    "nested": Detail(((np.zeros(5, int), np.array([0, 0, 1, 1, 1]), np.arange(5)), (np.zeros(2, int), np.arange(2)))),
}
"""Of nested levels the groups have unequal sizes."""


def everything(detail):
    """The lattice of all marginals, and the coarser tables of each."""
    lattice = Lattice.below(detail, detail.components)
    return lattice, coarser_tables(lattice)


def maps_to_coarser(lattice, k):
    """For each table that is coarser than the k-th: its number, and the matrix that sums the cells into it."""
    fine = lattice.known[k]
    for other, marginal in enumerate(lattice.known[:k]):
        if all(a <= b for a, b in zip(marginal, fine, strict=True)):
            cell = lattice.whole.cell_of(marginal, within=fine)
            yield other, (cell[None] == np.arange(cell.max() + 1)[:, None]).astype(float)


@pytest.mark.parametrize("detail", DETAILS.values(), ids=DETAILS)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_estimates_move_to_the_nearest_with_the_coarser_sums_and_the_expected_keep_the_patterns_of_the_parent(
    detail, seed
):
    rng = np.random.default_rng(seed)
    lattice, coarser = everything(detail)
    rows, children = lattice.rows, int(FAMILIES[-1])
    decided = np.stack([
        np.concatenate([detail.summed(cells[None], each)[0] for each in lattice.known])
        for cells in rng.gamma(3, 10, (children, detail.cells))
    ])  # fmt: skip
    k = len(lattice.known) - 1
    place = lattice.places[lattice.known[k]]
    tables, parents = decided.copy(), rng.gamma(3, 30, (2, decided.shape[1]))
    tables[:, place] += rng.normal(0, 20, tables[:, place].shape)
    errors, base, share = np.full(parents.shape, 4.0), rng.integers(1, 5, children) * 1.0, rng.random(children)
    y, expected = np.empty(tables[:, place].shape), np.empty(tables[:, place].shape)
    expected_cells(
        rows, coarser, k, FAMILIES, base, share, tables, parents, errors, np.zeros((1, decided.shape[1]), bool), y,
        expected,
    )  # fmt: skip

    sums = [(decided[:, lattice.places[lattice.known[other]]], a) for other, a in maps_to_coarser(lattice, k)]
    a, b = np.concatenate([a for _, a in sums]), np.concatenate([wanted for wanted, _ in sums], axis=1)
    size = np.diag(rows.size[place])  # the nearest in the norm Σ d²/n
    to_nearest = size @ a.T @ np.linalg.pinv(a @ size @ a.T)
    span = np.concatenate([a, np.ones((1, a.shape[1]))]).T
    for i, (first, last) in enumerate(itertools.pairwise(FAMILIES)):
        gap = parents[i, place] - tables[first:last, place].sum(axis=0)
        for c in range(first, last):
            begun = tables[c, place] + share[c] * gap
            assert y[c] == pytest.approx(begun + to_nearest @ (b[c] - a @ begun), abs=1e-7)
            assert a @ expected[c] == pytest.approx(b[c], rel=3 * FITTED)
            # The limit of proportional fitting: the start times a factor of each coarser cell.
            factor = np.log(expected[c] / np.maximum(parents[i, place], 1e-12))
            assert span @ np.linalg.lstsq(span, factor, rcond=None)[0] == pytest.approx(factor, abs=1e-6)


def test_a_cell_that_the_parent_does_not_have_begins_with_a_part_of_its_error_and_an_impossible_one_is_0():
    lattice, coarser = everything(Detail.flat([3]))
    tables = np.array([[100.0, 0, 0, 0], [300.0, 0, 0, 0]])
    parents = np.array([[400.0, 400, 0, 0]])
    y, expected = np.empty((2, 3)), np.empty((2, 3))
    expected_cells(
        lattice.rows, coarser, 1, np.array([0, 2]), np.ones(2), np.zeros(2), tables, parents, np.full((1, 4), 100.0**2),
        np.array([[False, False, False, True]]), y, expected,
    )  # fmt: skip
    # 400 / 2 children, and 0.02 · 100 / 2: in the ratio 200 : 1, scaled to the child's total.
    assert expected == pytest.approx(np.array([[100 * 200 / 201, 100 / 201, 0], [300 * 200 / 201, 300 / 201, 0]]))


def test_how_far_errors_reach_by_hand():
    """λ = 1/4; the parent's own error of 3 is a third of what is expected of its children, 9."""
    lattice, coarser = everything(Detail.flat([2]))
    own, errors = np.array([[4.0, 0, 0], [4.0, 0, 0]]), np.zeros((2, 3))
    reached_errors(
        lattice.rows, coarser, 1, np.array([0, 2]), np.array([0.5, 0.5]), np.array([[6.0, 2.0], [3.0, 1.0]]),
        np.array([2.0, 2.0]), np.ones((2, 2)), np.array([[0.0, 9.0, 0.0]]), own, errors,
    )  # fmt: skip
    # 1 + (1/4 · 1/2 · 3 + 3/4 · 6 · 3/9)², and to it (1/4 · 1/2 + 3/4 · 6/8)² · 4
    assert own[0, 1] == pytest.approx(1 + 1.875**2)
    assert errors[0, 1] == pytest.approx(1 + 1.875**2 + 0.6875**2 * 4)
    assert own[0, 2] == 1.0
    assert errors[0, 2] == pytest.approx(1 + (0.125 + 0.75 * 0.25) ** 2 * 4)


def test_where_nothing_is_learned_an_error_is_that_of_the_own_part_and_of_what_the_coarser_tables_hand_on():
    """λ = 1, three attributes: the variances of the components add up to those of the table, by the projections."""
    lattice, coarser = everything(Detail.flat([2, 2, 3]))
    spread, rng = np.random.default_rng(2).gamma(1, 5, len(lattice.known)), np.random.default_rng(3)
    parts = own_parts(lattice, spread[None])[0]
    own, errors = np.zeros((1, int(lattice.rows.begin[-1]))), np.zeros((1, int(lattice.rows.begin[-1])))
    for k, marginal in enumerate(lattice.known):
        cells = np.diff(lattice.rows.begin)[k]
        reached_errors(
            lattice.rows, coarser, k, np.array([0, 1]), np.ones(1), rng.random((1, cells)), np.sqrt(parts[k : k + 1]),
            np.full((1, cells), parts[k]), np.zeros(own.shape), own, errors,
        )  # fmt: skip
        # Of equal groups: n² Σ 1/π of the components in it times the mean of its projection's diagonal.
        below = [j for j, each in enumerate(lattice.known) if all(map(int.__le__, each, marginal))]
        ranks = lattice.whole.dimensions()
        ranks = [ranks[lattice.whole.components.index(lattice.known[j])] for j in below]
        whole = sum(rank * spread[j] for rank, j in zip(ranks, below, strict=True)) / cells * lattice.mean_group[k]
        assert errors[0, lattice.places[marginal]] == pytest.approx(whole)


def test_own_variances_add_up_to_the_variance_of_a_cell():
    lattice, _ = everything(Detail.flat([2, 3]))
    std_devs = np.array([2.0, 2.5, 3.0, 4.0])  # total, both margins, detail
    own = own_variances(lattice, std_devs) / lattice.mean_group**2
    for k, marginal in enumerate(lattice.known):
        coarser = [all(map(int.__le__, each, marginal)) for each in lattice.known]
        assert own[coarser].sum() == pytest.approx((std_devs[k] / lattice.mean_group[k]) ** 2)
