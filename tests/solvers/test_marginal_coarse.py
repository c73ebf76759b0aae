"""Tables made non-negative from coarse to fine: against a solver of quadratic programs, and what must always hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.solvers.marginal_coarse import nearest_shares, nonnegative_tables
from tallytree.solvers.marginal_lattice import Lattice, keep_components, to_tables
from tallytree.solvers.marginals import Detail

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


def solved(lattice, z, parent=None, spread=None, totals=False, zero=None):
    found = z.copy()
    missed = nonnegative_tables(
        lattice.rows,
        found,
        np.ones((1, len(lattice.known))) if spread is None else spread,
        np.zeros(z.shape[1]) if parent is None else parent,
        parent is not None,
        totals,
        np.zeros(z.shape[1], dtype=bool) if zero is None else zero,
        np.full((2, len(lattice.known)), 1e-3),
    )
    return found, missed


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 9))
def test_shares_are_the_nearest_with_the_sum(seed, n):
    rng = RNG(seed)
    z, spread, total = rng.normal(0, 3, n), rng.gamma(1, 1, n) + 1e-3, float(rng.gamma(1, 3))
    x = z.copy()
    nearest_shares(x, spread, total)
    assert (x >= 0).all()
    assert abs(x.sum() - total) < 1e-9 * max(total, 1)
    slope = (x - z) / spread  # the conditions of Karush, Kuhn and Tucker: one multiplier where x > 0, no less elsewhere
    free = x > 1e-9
    assert np.ptp(slope[free]) < 1e-6
    assert (slope >= slope[free].max() - 1e-6).all()


@pytest.mark.slow
@pytest.mark.needs("cvxpy", "clarabel")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("uniform", [True, False])
def test_each_table_is_the_nearest_given_the_coarser_ones(shape, uniform):
    """Feasible cases: the sums are those of tables of counts, so Dykstra's algorithm ends at the optimum."""
    import cvxpy as cp

    detail = SHAPES[shape]
    lattice = Lattice.below(detail, [detail.finest])
    k = len(lattice.known) - 1
    place = lattice.places[detail.finest]
    for seed in range(5):
        rng = RNG(seed)
        cells = rng.poisson(rng.gamma(0.5, 10, (5, detail.cells)))
        true = tables_of(lattice, detail, cells)
        z = true.copy()
        z[:, place] += rng.normal(0, 8, (5, detail.cells))
        spread = np.ones((1, k + 1)) if uniform else rng.gamma(2, 1, (5, k + 1))
        weight = np.broadcast_to(spread[:, k], 5)
        x = cp.Variable((5, detail.cells))
        terms = [cp.sum_squares(x[c] - z[c, place]) / weight[c] for c in range(5)]
        held = [x >= 0, cp.sum(x, axis=0) == true[:, place].sum(axis=0)]
        for a, depth in enumerate(detail.finest):
            coarser = (*detail.finest[:a], depth - 1, *detail.finest[a + 1 :])
            sums = np.zeros((detail.cells, detail.size(coarser)))
            sums[np.arange(detail.cells), detail.cell_of(coarser)] = 1
            held.append(x @ sums == detail.summed(cells, coarser))
        cp.Problem(cp.Minimize(sum(terms)), held).solve(solver="CLARABEL")
        # The totals and coarser tables are exact here, so each of them stays as it is.
        found, _ = solved(lattice, z, true.sum(axis=0), spread)
        np.testing.assert_allclose(found[:, : place.start], true[:, : place.start], atol=1e-2)
        far = ((found[:, place] - x.value) ** 2 / weight[:, None]).sum()
        assert far < 0.02 * ((z[:, place] - x.value) ** 2 / weight[:, None]).sum()


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from(["two attributes", "levels"]), st.sampled_from([1.0, 50.0]))
def test_tables_are_not_negative_and_a_total_is_its_estimate(seed, shape, scale):
    rng, detail = RNG(seed), SHAPES[shape]
    lattice = Lattice.below(detail, [detail.finest])
    cells = rng.poisson(rng.gamma(0.2, 20, (4, detail.cells)))
    z = tables_of(lattice, detail, cells) + noisy_tables(rng, lattice, 4, scale)
    root, _ = solved(lattice, z[:1])
    assert (root >= 0).all()
    assert root[0, 0] == max(z[0, 0], 0)
    zero = lattice.holds_all(np.arange(detail.cells) < 2)
    children, _ = solved(lattice, z, solved(lattice, z.sum(axis=0)[None])[0][0], zero=zero)
    assert (children >= 0).all()
    assert (children[:, zero] == 0).all()
    kept, _ = solved(lattice, np.abs(z), np.abs(z).sum(axis=0), totals=True)
    np.testing.assert_array_equal(kept[:, 0], np.abs(z)[:, 0])


def test_an_only_child_has_its_parents_tables():
    detail = SHAPES["two attributes"]
    lattice = Lattice.below(detail, [detail.finest])
    parent = tables_of(lattice, detail, RNG(0).poisson(3.0, (1, detail.cells)))[0]
    found, missed = solved(lattice, parent[None] + 7, parent)
    np.testing.assert_array_equal(found[0], parent)
    assert missed == 0
