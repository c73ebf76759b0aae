"""Tables made non-negative from coarse to fine: against a solver of quadratic programs, and what must always hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.solvers.tables.coarse import SOFT, nonnegative_table, reach_columns, reach_sums, wanted_sums
from tallytree.solvers.tables.marginals import Detail, Lattice, keep_components, to_tables

RNG = np.random.default_rng
BANDS = (np.zeros(4, dtype=np.int64), np.array([0, 0, 1, 1]), np.arange(4))
SHAPES = {"two attributes": Detail.flat([4, 3]), "levels": Detail((BANDS, *Detail.flat([2]).groups))}


def tables_of(lattice, detail, cells):
    """The row of all tables of each area."""
    return np.concatenate([detail.summed(cells, marginal) for marginal in lattice.known], axis=1).astype(float)


def noisy_tables(rng, lattice, rows, scale):
    """Tables that agree, of rows of components with noise: some are negative."""
    noise = np.concatenate(
        [
            rng.normal(0, scale / lattice.whole.size(marginal), (rows, lattice.whole.size(marginal)))
            for marginal in lattice.known
        ],
        axis=1,
    )
    keep_components(lattice.rows, noise)
    to_tables(lattice.rows, noise)
    return noise


def fixed(lattice):
    """Sums that all have to be met, as of tables that were each measured very well beside the finer ones."""
    return wanted_sums(lattice, 10.0 ** np.arange(len(lattice.known)))


def solved(lattice, z, parent=None, variances=None, totals=False, zero=None, sums=None):
    """All tables of a family, the coarsest first, and how many did not reach their sums."""
    found, missed = z.copy(), 0
    for k in range(int(totals), len(lattice.known)):
        place = slice(*lattice.rows.begin[k : k + 2])
        missed += not nonnegative_table(
            lattice.rows,
            fixed(lattice) if sums is None else sums,
            k,
            found,
            z[:, place].copy(),
            np.ones((len(z), place.stop - place.start)) if variances is None else variances[:, place].copy(),
            np.zeros(z.shape[1]) if parent is None else parent,
            parent is not None,
            np.zeros((1, z.shape[1]), dtype=bool) if zero is None else np.atleast_2d(zero),
            np.full((2, len(lattice.known)), 1e-3),
        )
    return found, missed


def reached(z, spread, sums, group, slack=0.0, start=None):
    """Values after the multipliers of groups of cells are chosen, these, and by how much the sums were missed before.

    Args:
        z: (rows, cells).
        spread: (rows, cells).
        sums: (rows, groups).
        group: (cells,) the group of each; −1 for none.
        slack: by how much a sum may be missed.
        start: (rows, groups) the multipliers from which the steps begin.
    """
    groups = sums.shape[1]
    members, begin = np.argsort(group, kind="stable"), np.searchsorted(np.sort(group), np.arange(groups + 1))
    force = np.zeros_like(sums) if start is None else start.copy()
    y = z + np.where(group < 0, 0.0, force[:, group]) * spread
    gap = reach_sums(begin, members, sums, slack, -1.0, y, spread, force)
    return y, force, gap


@settings(max_examples=200)
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 9), st.sampled_from([0.0, 1.0, 5.0]), st.booleans())
def test_multipliers_give_the_nearest_values_with_sums_in_a_range(seed, rows, cells, slack, begun):
    """The conditions of Karush, Kuhn and Tucker; where Newton's method begins does not matter."""
    rng = RNG(seed)
    z, spread = rng.normal(0, 3, (rows, cells)), rng.gamma(1, 1, (rows, cells)) + 1e-3
    group, sums = rng.integers(-1, 3, cells), rng.gamma(1, 3, (rows, 3)) * (rng.random((rows, 3)) < 0.8)
    start = rng.normal(0, 5, (rows, 3)) * begun
    y, force, gap = reached(z, spread, sums, group, slack, start)
    np.testing.assert_array_equal(y[:, group < 0], z[:, group < 0])
    misses = [0.0]
    for c, h in np.ndindex(rows, 3):
        own = group == h
        clipped, low, high = np.maximum(z[c, own], 0).sum(), max(sums[c, h] - slack, 0), sums[c, h] + slack
        before = np.maximum(z[c, own] + start[c, h] * spread[c, own], 0).sum()
        misses += [low - before, before - high]
        if own.any():
            np.testing.assert_allclose(y[c, own], z[c, own] + force[c, h] * spread[c, own], atol=1e-9)
            wanted = min(max(clipped, low), high)
            assert abs(np.maximum(y[c, own], 0).sum() - wanted) < 1e-9 * max(wanted, 1)
            # max(z + t·spread, 0) has these conditions for every t that is of the sign of the gap
            assert abs(force[c, h]) < 1e-9 if wanted == clipped else force[c, h] * (wanted - clipped) > 0
    assert gap == pytest.approx(max(misses), abs=1e-9)


@settings(max_examples=100)
@given(st.integers(0, 10_000), st.integers(1, 9), st.booleans())
def test_columns_are_reached_as_rows_are(seed, rows, begun):
    rng = RNG(seed)
    z, spread, sums = rng.normal(0, 3, (rows, 5)), rng.gamma(1, 1, (rows, 5)) + 1e-3, rng.gamma(1, 3, 5)
    sums[0], z[:, 4], spread[:, 4] = 0.0, 0.0, 0.0  # a cell that is 0 in every row stays so
    force = rng.normal(0, 5, 5) * begun
    y = z + force * spread
    expected, multipliers, _ = reached(
        z.T.copy(), spread.T.copy(), sums[:, None], np.zeros(rows, int), 0.0, force[:, None]
    )
    missed = np.abs(np.maximum(y, 0).sum(axis=0) - sums)
    np.testing.assert_allclose(reach_columns(sums, y, spread, force), missed)
    np.testing.assert_allclose(y[:, :4], expected.T[:, :4], atol=1e-9)
    np.testing.assert_allclose(force[:4], multipliers[:4, 0], atol=1e-9)
    assert (y[:, 4] == 0).all()


def test_a_multiplier_by_hand():
    z, one, group = np.array([[3.0, 1.0, -2.0]]), np.ones((1, 3)), np.zeros(3, dtype=int)
    for total, slack, force in ((7.0, 2.0, 0.5), (4.0, 0.0, 0.0), (6.0, 0.0, 1.0), (1.0, 0.0, -2.0), (0.0, 0.0, -3.0)):
        assert reached(z, one, np.array([[total]]), group, slack)[1][0, 0] == pytest.approx(force)


@settings(max_examples=200)
@given(st.integers(0, 10_000), st.booleans())
def test_steps_end_where_rounding_moves_values_across_zero(seed, begun):
    """Values and totals that differ by many powers of ten: what was left out can seem to come back."""
    rng = RNG(seed)
    z, spread = rng.normal(0, 1, (1, 40)) * 10 ** rng.uniform(-3, 15, 40), 10 ** rng.uniform(-8, 8, (1, 40))
    total, start = 10 ** rng.uniform(-6, 14, (1, 1)), rng.normal(0, 1, (1, 1)) * 10 ** rng.uniform(-8, 8) * begun
    y, _, _ = reached(z, spread, total, np.zeros(40, dtype=int), start=start)
    assert abs(np.maximum(y, 0).sum() - total[0, 0]) < 1e-6 * max(np.abs(z).max(), np.abs(start * spread).max())


# --- Soft sums ---


def test_only_a_table_that_is_no_more_than_a_sum_is_soft():
    """By hand: 4 x 3 cells with the variance 1; with r the part of a sum's variance that they explain, it may move by
    SOFT times max(2r − 1, 0) of its standard deviation. The total never does."""
    lattice = Lattice.below(Detail.flat([4, 3]), [(1, 1)])  # (), (0, 1), (1, 0), (1, 1)
    sums = wanted_sums(lattice, np.sqrt([12.0, 4.0, 3.0, 1.0]))
    np.testing.assert_allclose(sums.most(), SOFT * np.sqrt([0.0, 4.0, 3.0, 0.0]))
    assert sums.table[sums.begin[3] :].tolist() == [0, 1, 2]  # of the joint, the total is wanted too
    half = wanted_sums(lattice, np.sqrt([3.0, 2.0, 1.5, 1.0]))  # each was measured by itself as well
    assert half.most().max() == 0
    assert half.table[half.begin[3] :].tolist() == [1, 2]  # sums that are met have the total
    mixed = wanted_sums(lattice, np.sqrt([0.01, 4.0, 2.25, 1.0]))
    np.testing.assert_allclose(mixed.most(), [0.0, SOFT * 2.0, SOFT * 1.5 * 0.5, 0.0])


def test_a_sum_of_a_table_that_has_to_be_met_is_not_wanted_beside_it():
    """Of the joint of a, b and c, b × c is wanted: it is measured well. So neither b nor c is."""
    lattice = Lattice.below(Detail.flat([4, 3, 2]), [(1, 1, 1)])
    deviations = {(0, 1, 1): 1.0, (0, 0, 1): 1.0, (0, 1, 0): 1.0}
    sizes = lattice.whole.cells / np.array([lattice.whole.size(t) for t in lattice.known])
    own = zip(lattice.known, np.sqrt(sizes), strict=True)
    sums = wanted_sums(lattice, np.array([deviations.get(marginal, size) for marginal, size in own]))
    wanted = [lattice.known[c] for c in sums.table[sums.begin[-2] :]]
    assert (0, 1, 1) in wanted
    assert not {(0, 0, 0), (0, 0, 1), (0, 1, 0)} & set(wanted)


@pytest.mark.slow
@pytest.mark.needs("cvxpy", "clarabel")
@pytest.mark.parametrize("shape", SHAPES)
def test_a_soft_table_is_the_nearest_within_the_ranges_of_its_sums(shape):
    import cvxpy as cp

    detail = SHAPES[shape]
    lattice = Lattice.below(detail, [detail.finest])
    place = lattice.places[detail.finest]
    sizes = detail.cells / np.array([detail.size(t) for t in lattice.known])
    sums = wanted_sums(lattice, 8 * np.sqrt(sizes))
    for seed in range(8):
        rng = RNG(seed)
        z = tables_of(lattice, detail, rng.poisson(rng.gamma(0.5, 10, (1, detail.cells))))
        z += noisy_tables(rng, lattice, 1, 8.0)
        found, missed = solved(lattice, z, sums=sums)
        x = cp.Variable(detail.cells)
        held = [x >= 0]
        for coarser in lattice.known[:-1]:
            each = lattice.places[coarser]
            cell = np.zeros((detail.size(coarser), detail.cells))
            cell[detail.cell_of(coarser), np.arange(detail.cells)] = 1
            held.append(cp.abs(cell @ x - found[0, each]) <= sums.most()[lattice.known.index(coarser)])
        problem = cp.Problem(cp.Minimize(cp.sum_squares(x - z[0, place])), held)
        problem.solve(solver="CLARABEL")
        if problem.status == "optimal" and not missed:
            far = ((found[0, place] - x.value) ** 2).sum()
            assert far < 0.02 * ((z[0, place] - x.value) ** 2).sum() + 0.1
