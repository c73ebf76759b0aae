"""What it costs to move cells, which are held, and what moves add to variances: against NumPy."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.solvers.tables.marginals import Detail, Lattice
from tallytree.solvers.tables.moves import add_moves, costs_of_moves, hold_far
from tallytree.solvers.tables.raking import missed

RNG = np.random.default_rng
FAMILIES = np.array([0, 3, 4, 9])


def cells(rng, scale=1.0):
    """Numbers of the cells of 9 children."""
    return scale * rng.normal(0, 1, (9, 4))


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.floats(0.5, 4))
def test_costs_have_a_least_and_a_most(seed, most):
    rng = RNG(seed)
    variances, held, firm, found = cells(rng) ** 2, cells(rng), rng.random(9), np.empty((9, 4))
    costs_of_moves(FAMILIES, variances, held, firm, most, found)
    costs = np.maximum(variances + held**2, firm[:, None])
    means = np.add.reduceat(costs, FAMILIES[:-1]) / np.diff(FAMILIES)[:, None]
    np.testing.assert_allclose(found, np.minimum(costs, most * np.repeat(means, np.diff(FAMILIES), axis=0)))


@settings(max_examples=50)
@given(st.integers(0, 10**6))
def test_cells_that_are_no_noise_are_held_where_they_were_moved_far(seed):
    rng = RNG(seed)
    tables, estimates = np.concatenate([np.zeros((9, 2)), cells(rng, 4.0)], axis=1), cells(rng, 4.0)
    mean, costs, firm, again = cells(rng), np.ones((9, 4)), rng.random(9), np.zeros(3, dtype=bool)
    found, paid = mean.copy(), costs.copy()
    hold_far(FAMILIES, tables, 2, estimates, 2.0, 1.5, 0.5, firm, found, paid, again)
    nearest = np.clip(tables[:, 2:], estimates - 1.5, estimates + 1.5)
    far = (estimates > 2.0) & (np.abs(tables[:, 2:] - nearest) > 0.5)
    np.testing.assert_allclose(found, np.where(far, nearest, mean))
    np.testing.assert_array_equal(paid, np.where(far, firm[:, None], costs))
    np.testing.assert_array_equal(again, np.logical_or.reduceat(far.any(axis=1), FAMILIES[:-1]))


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.floats(0.25, 2))
def test_moves_add_to_variances(seed, part):
    rng = RNG(seed)
    tables, mean, held, variances = cells(rng), cells(rng), cells(rng), cells(rng) ** 2
    found, off = variances.copy(), tables - (mean - held)
    add_moves(tables, 0, mean, held, part, found)
    own = variances * part + np.where(off * held > 0, np.minimum(off**2, held**2), 0.0)
    np.testing.assert_allclose(found, np.maximum(own, off**2))


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.floats(0, 2))
def test_what_tables_miss_is_what_the_sums_of_their_cells_miss(seed, slack):
    rng, lattice = RNG(seed), Lattice.below(Detail.flat([3, 2, 2]), [(1, 1, 0), (0, 1, 1)])
    x, targets = rng.gamma(1, 3, (5, 12)), rng.gamma(1, 9, (5, int(lattice.rows.begin[-1])))
    allowed, squares = slack * rng.random(len(lattice.known)), np.empty((5, len(lattice.known)))
    missed(lattice.rows, targets, allowed, x, squares)
    for k, marginal in enumerate(lattice.known):
        gaps = np.abs(lattice.detail.summed(x, marginal) - targets[:, lattice.places[marginal]])
        np.testing.assert_allclose(squares[:, k], (np.maximum(gaps - allowed[k], 0) ** 2).sum(axis=1), atol=1e-12)
