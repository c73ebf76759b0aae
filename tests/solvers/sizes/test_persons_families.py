"""Integer ranks of families: against scipy, brute force, and examples worked by hand."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from tallytree.solvers.sizes.persons_families import (
    fit_rows,
    project_row,
    repair_columns,
    round_families,
    round_row,
)

RNG = np.random.default_rng


def projected(target, weight, persons):
    out = np.empty(len(target))
    project_row(target, weight, float(persons), out, np.empty((3, len(target))), np.empty(len(target), np.int64))
    return out


def is_row(t, persons):
    k = len(t) - 1
    return t.sum() == persons and (np.diff(t[:k]) <= 0).all() and (t >= 0).all() and (t[k] == 0 or t[k - 1] > 0)


def nearest(target, weight, persons, total):
    """The same problem for a general solver: rows of known sums, and columns too."""
    n, cells = target.shape
    decreasing = np.zeros((n * (cells - 2), n, cells))
    for i, (c, r) in enumerate(itertools.product(range(n), range(cells - 2))):
        decreasing[i, c, r], decreasing[i, c, r + 1] = 1, -1
    decreasing = decreasing.reshape(-1, n * cells)
    constraints = [{"type": "eq", "fun": lambda x: x.reshape(n, cells).sum(axis=1) - persons}]
    if total is not None:
        constraints.append({"type": "eq", "fun": lambda x: (x.reshape(n, cells).sum(axis=0) - total)[:-1]})
    if len(decreasing):
        constraints.append({"type": "ineq", "fun": lambda x: decreasing @ x, "jac": lambda _: decreasing})
    found = minimize(
        lambda x: (weight.ravel() * (x - target.ravel()) ** 2).sum(),
        np.maximum(target, 0).ravel(),
        jac=lambda x: 2 * weight.ravel() * (x - target.ravel()),
        bounds=[(0, None)] * (n * cells),
        constraints=constraints,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-9},
    )
    assert found.success
    return found.x.reshape(n, cells)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_a_row_is_the_nearest_that_scipy_finds(k):
    for seed in range(8):
        rng = RNG(seed)
        target, weight, persons = rng.normal(3, 6, k + 1), rng.uniform(0.2, 5, k + 1), int(rng.integers(0, 30))
        expected = nearest(target[None], weight[None], np.array([persons]), None)[0]
        assert np.allclose(projected(target, weight, persons), expected, atol=1e-4)


@given(st.integers(1, 30), st.integers(0, 2**32), st.sampled_from([0, 1, 2, 50, 10**6, 3 * 10**8]))
@settings(max_examples=60, deadline=None)
def test_a_row_is_projected_and_rounded_at_every_scale(k, seed, persons):
    rng = RNG(seed)
    target = rng.normal(0, 10 ** rng.uniform(-2, 6), k + 1) + rng.choice([0, persons / (k + 1)])
    weight = 10 ** rng.uniform(-3, 2, k + 1)
    x, t = projected(target, weight, persons), np.empty(k + 1, np.int64)
    assert (np.diff(x[:k]) <= 0).all()
    assert (x >= 0).all()
    assert abs(x.sum() - persons) <= 1e-9 * max(1, persons, np.abs(target).max())
    round_row(x, weight, persons, t)
    assert is_row(t, persons)
    if k > 1 and x[k] == 0:
        assert np.abs(t - x).max() < k + 1


def test_a_family_is_the_nearest_that_scipy_finds():
    for seed in range(6):
        rng = RNG(seed)
        true = np.sort(rng.integers(0, 9, (3, 4)), axis=1)[:, ::-1].astype(float)
        true[:, 3] = rng.integers(0, 4, 3)
        target, weight = true + rng.normal(0, 3, true.shape), rng.uniform(0.3, 3, true.shape)
        persons, total, x = true.sum(axis=1).astype(np.int64), true.sum(axis=0), np.empty(true.shape)
        _, residual = fit_rows(target, weight, persons, total, x)
        expected = nearest(target, weight, persons, total)
        assert residual <= 0.02
        assert np.sqrt((weight * (x - expected) ** 2).sum() / weight.sum()) < 0.1


def test_rounding_takes_the_cheapest_cells():
    """8 persons: (3.6, 2.7, 1.2, 0.5) goes to (3, 2, 1, 0); raising T(2), T(1) costs least, then E is left at 0."""
    t = np.empty(4, np.int64)
    round_row(np.array([3.6, 2.7, 1.2, 0.5]), np.ones(4), 8, t)
    assert t.tolist() == [4, 3, 1, 0]


def test_an_excess_needs_a_household_of_the_last_class():
    t = np.empty(3, np.int64)
    round_row(np.array([1.0, 0.4, 1.6]), np.ones(3), 3, t)
    assert is_row(t, 3)


def rows_of(persons, k):
    """All rows of so many persons."""
    return [
        row
        for row in itertools.product(range(persons + 1), repeat=k + 1)
        if sum(row) == persons and is_row(np.array(row), persons)
    ]


def test_columns_are_repaired_wherever_that_is_possible_on_small_families():
    """Brute force finds a family that meets all sums; moves find one, too, from rows that were rounded apart."""
    solved, possible = 0, 0
    for seed in range(60):
        rng = RNG(seed)
        persons = rng.integers(0, 8, 3)
        total = sum(np.array(each[rng.integers(len(each))]) for each in (rows_of(int(n), 3) for n in persons))
        x, t = np.empty((3, 4)), np.empty((3, 4), np.int64)
        for c in range(3):
            x[c] = projected(rng.normal(2, 2, 4), np.ones(4), persons[c])
            round_row(x[c], np.ones(4), int(persons[c]), t[c])
        left = repair_columns(x, np.ones((3, 4)), t, total)
        assert all(is_row(t[c], persons[c]) for c in range(3))
        assert left == np.abs(t.sum(axis=0) - total).sum() // 2
        possible += 1
        solved += left == 0
    assert solved >= 0.9 * possible


def test_what_no_family_can_realise_is_reported():
    """Two households of size 3, but children of 4 and 2 persons: one household must be of another size."""
    x = np.array([[1.3, 1.3, 1.3, 0.0], [0.7, 0.7, 0.7, 0.0]])
    t = np.empty((2, 4), np.int64)
    for c, persons in enumerate((4, 2)):
        round_row(x[c], np.ones(4), persons, t[c])
    assert repair_columns(x, np.ones((2, 4)), t, np.array([2, 2, 2, 0])) == 1
    assert is_row(t[0], 4)
    assert is_row(t[1], 2)


def test_fixed_rows_stay_and_only_children_are_their_parents():
    target = np.array([[2.0, 1.0, 0.0], [1.4, 0.8, 0.8], [1.6, 0.2, 0.2], [5.0, 0.0, 0.0]])
    persons, first_child = np.array([3, 3, 2, 5]), np.array([0, 3, 4])
    parents = np.array([[5, 2, 1], [4, 1, 0]])
    out = np.array([[2, 1, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]])
    fixed = np.array([True, False, False, False])
    round_families(first_child, 0, 2, target, np.ones((4, 3)), fixed, persons, parents, out)
    assert out.tolist() == [[2, 1, 0], [1, 1, 1], [2, 0, 0], [4, 1, 0]]
