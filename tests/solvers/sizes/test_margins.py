import logging
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.solvers.sizes import margins, rounding
from tallytree.solvers.trees import simplex

some = settings(max_examples=300)
seeds = st.integers(0, 2**32 - 1)


def summed(x, offsets):
    return np.add.reduceat(x, offsets[:-1], axis=0)


def cost(x, noisy, first_leaf, weights):
    return sum(w * ((summed(x, f) - y) ** 2).sum() for y, f, w in zip(noisy, first_leaf, weights, strict=True))


def nested_levels(rng, leaves, inner):
    """Random nested levels above `leaves`; some repeat the one below or have nodes with a single child."""
    levels = [np.arange(leaves + 1)]
    for _ in range(inner):
        kept = rng.random(max(0, len(levels[0]) - 2)) < rng.choice([0.2, 0.6, 1.0])
        levels.insert(0, np.concatenate([[0], levels[0][1:-1][kept], [leaves]]).astype(np.int64))
    return levels


def an_instance(seed, leaves=8, sizes=8, inner=3, spread=1.0):
    rng = np.random.default_rng(seed)
    n, columns = int(rng.integers(1, leaves + 1)), int(rng.integers(1, sizes + 1))
    first_leaf = nested_levels(rng, n, int(rng.integers(0, inner + 1)))
    totals = rng.integers(0, rng.choice([2, 10, 1_000]), n) * rng.integers(0, 2, n)
    scale, shift = rng.choice([1.0, 5.0, 50.0]), rng.choice([-20, 0, 0, 20])
    noisy = [np.rint(rng.normal(shift, scale, (len(f) - 1, columns))).astype(np.int64) for f in first_leaf]
    return noisy, first_leaf, totals, 10.0 ** rng.uniform(-spread, spread, len(first_leaf))


def a_feasible_matrix(seed):
    """Rows of multiples of 1/64 that add up to whole totals: sums of them are exact."""
    rng = np.random.default_rng(seed)
    n, sizes = int(rng.integers(1, 12)), int(rng.integers(1, 12))
    parts = rng.integers(0, 64 * rng.choice([1, 3, 100]), (n, sizes)) * (rng.random((n, sizes)) < rng.choice([0.3, 1]))
    parts[:, -1] += -parts.sum(axis=1) % 64
    return parts / 64, nested_levels(rng, n, int(rng.integers(0, 4))), parts.sum(axis=1) // 64, rng


def county_instance(leaves, sizes, groups, scale):
    rng = np.random.default_rng(leaves + sizes)
    share = rng.pareto(1.1, leaves) + 0.02
    totals = rng.multinomial(groups, share / share.sum())
    tail = 1 / np.arange(1, sizes + 1) ** 2.2
    truth = np.stack([rng.multinomial(g, tail / tail.sum()) for g in totals])
    states = np.sort(rng.choice(np.arange(1, leaves), 51, replace=False))
    first_leaf = [np.array([0, leaves]), np.concatenate([[0], states, [leaves]]), np.arange(leaves + 1)]
    q = 1 - np.exp(-1 / scale)
    noisy = []
    for f in first_leaf:
        shape = (len(f) - 1, sizes)
        noisy.append(summed(truth, f) + rng.geometric(q, shape) - rng.geometric(q, shape))
    return truth, noisy, first_leaf, totals


def assert_rounds(z, x, first_leaf, totals, slack=0.0):
    assert z.dtype == np.int64
    assert z.min() >= 0
    assert (z.sum(axis=1) == totals).all()
    for offsets in first_leaf:
        real = summed(x, offsets)
        assert (summed(z, offsets) >= np.floor(real - slack)).all()
        assert (summed(z, offsets) <= np.ceil(real + slack)).all()


def test_one_level_is_the_projection_of_each_row():
    found = margins.fit([[[5, 1, -2], [0, 0, 4]]], [[0, 1, 2]], [3, 6])
    assert found.values.tolist() == [[3, 0, 0], [2 / 3, 2 / 3, 14 / 3]]
    assert found.error == found.iterations == 0


def test_a_root_and_two_leaves_by_hand():
    # Leaves (3 − t, t) and (3 − u, u) with t, u >= 0; root says (4, 2), leaves (3, 0), (3, 0), all weights 1:
    # (2 − t − u)² + (t + u − 2)² + 2t² + 2u² is least at t = u = 2/3.
    found = margins.fit([[[4, 2]], [[3, 0], [3, 0]]], [[0, 2], [0, 1, 2]], [3, 3])
    assert np.allclose(found.values, [[7 / 3, 2 / 3], [7 / 3, 2 / 3]], atol=1e-9)


def test_a_heavy_root_is_obeyed():
    found = margins.fit([[[4, 2]], [[3, 0], [3, 0]]], [[0, 2], [0, 1, 2]], [3, 3], weights=[1e6, 1])
    assert np.allclose(found.values, [[2, 1], [2, 1]], atol=1e-4)


@some
@given(seeds)
def test_the_real_optimum_meets_its_conditions(seed):
    noisy, first_leaf, totals, weights = an_instance(seed)
    found = margins.fit(noisy, first_leaf, totals, weights=weights, tolerance=1e-6)
    x = found.values
    assert found.error <= 1e-6
    assert x.min() >= 0
    assert np.allclose(x.sum(axis=1), totals, rtol=1e-12, atol=1e-9)
    gradient = sum(
        w * np.repeat(summed(x, f) - y, np.diff(f), axis=0) for y, f, w in zip(noisy, first_leaf, weights, strict=True)
    )
    # In a row, the gradient is the same where x is positive, and no lower elsewhere.
    for row, slope, total in zip(x, gradient, totals, strict=True):
        if total:
            least = slope.min()
            assert (slope[row > 1e-4] - least <= 1e-4 * max(1, weights.max() * len(x))).all()


@some
@given(seeds)
def test_the_error_is_a_bound_when_stopped_early(seed):
    noisy, first_leaf, totals, weights = an_instance(seed)
    best = margins.fit(noisy, first_leaf, totals, weights=weights, tolerance=1e-7)
    rough = margins.fit(noisy, first_leaf, totals, weights=weights, tolerance=1e-7, max_iterations=1)
    away = sum(w * (summed(rough.values - best.values, f) ** 2).sum() for f, w in zip(first_leaf, weights, strict=True))
    assert np.sqrt(away / weights[-1]) <= rough.error * (1 + 1e-9) + 1e-6


def test_the_real_step_agrees_with_clarabel():
    cvxpy = pytest.importorskip("cvxpy", reason="the extra tallytree[papers] is not installed")
    for seed in range(4):
        rng = np.random.default_rng(seed)
        first_leaf, sizes = nested_levels(rng, 30, 3), 20
        totals = rng.integers(0, 40, 30)
        truth = np.stack([rng.multinomial(g, np.r_[0.6, 0.3, np.full(18, 0.1 / 18)]) for g in totals])
        noisy = [summed(truth, f) + np.rint(rng.normal(0, 6, (len(f) - 1, sizes))).astype(int) for f in first_leaf]
        weights = [3.0, 0.5, 2.0, 1.0]
        x = cvxpy.Variable((30, sizes), nonneg=True)
        loss = 0
        for y, f, w in zip(noisy, first_leaf, weights, strict=True):
            members = np.repeat(np.eye(len(f) - 1), np.diff(f), axis=1)
            loss += w * cvxpy.sum_squares(members @ x - y)
        problem = cvxpy.Problem(cvxpy.Minimize(loss), [cvxpy.sum(x, axis=1) == totals])
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-12, tol_feas=1e-10)
        found = margins.fit(noisy, first_leaf, totals, weights=weights, tolerance=1e-6)
        assert cost(found.values, noisy, first_leaf, weights) == pytest.approx(problem.value, rel=1e-8)
        assert np.abs(found.values - x.value).max() < 1e-3


@settings(max_examples=150)
@given(seeds)
def test_integers_are_near_the_integer_optimum_by_brute_force(seed):
    rng = np.random.default_rng(seed)
    first_leaf, sizes, totals = [np.array([0, 2]), np.arange(3)], 3, rng.integers(0, 5, 2)
    noisy = [rng.integers(-3, 6, (len(f) - 1, sizes)) for f in first_leaf]
    weights = rng.choice([0.3, 1.0, 4.0], 2)
    z = margins.project(noisy, first_leaf, totals, weights=weights, tolerance=1e-9)
    real = margins.fit(noisy, first_leaf, totals, weights=weights, tolerance=1e-9).values
    assert_rounds(z, real, first_leaf, totals, slack=1e-6)
    rows = [[row for row in product(range(g + 1), repeat=sizes) if sum(row) == g] for g in totals]
    best = min(cost(np.array(pair), noisy, first_leaf, weights) for pair in product(*rows))
    fractions = [summed(real, f) % 1 for f in first_leaf]
    room = sum(w * (f * (1 - f)).sum() for w, f in zip(weights, fractions, strict=True))
    real_cost = cost(real, noisy, first_leaf, weights)
    assert real_cost - 1e-6 <= best <= cost(z, noisy, first_leaf, weights) <= real_cost + room + 1e-6


@pytest.mark.slow
@settings(max_examples=1_000)
@given(seeds)
def test_every_count_of_every_level_goes_to_a_neighbor(seed):
    x, first_leaf, totals, rng = a_feasible_matrix(seed)
    weights = 10.0 ** rng.uniform(-2, 2, len(first_leaf))
    z = rounding.round_with_margins(x, first_leaf, totals, weights=weights)
    assert_rounds(z, x, first_leaf, totals)
    moved, room = 0.0, 0.0
    for offsets, w in zip(first_leaf, weights, strict=True):
        real = summed(x, offsets)
        moved += w * ((summed(z, offsets) - real) ** 2).sum()
        room += w * ((real % 1) * (1 - real % 1)).sum()
    assert moved <= room * (1 + 1e-9)


@some
@given(seeds)
def test_whole_matrices_stay(seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 5, (rng.integers(1, 9), rng.integers(1, 9)))
    z = rounding.round_with_margins(x, nested_levels(rng, len(x), 2), x.sum(axis=1))
    assert z.tolist() == x.tolist()


def test_a_row_that_misses_its_total_by_rounding_is_put_right():
    x = np.array([[1 / 3, 1 / 3, 1 / 3], [1e9 / 3, 1e9 / 3, 1e9 / 3]])
    assert rounding.round_with_margins(x, [[0, 2], [0, 1, 2]], [1, 10**9]).sum(axis=1).tolist() == [1, 10**9]
    huge = np.array([[2.0**52 + 5, 2.0**51, 0.5, 0.25]])
    z = rounding.round_with_margins(huge, [[0, 1]], [2**52 + 2**51])
    assert z.sum() == 2**52 + 2**51
    assert np.abs(z - huge).max() <= 6


@pytest.mark.slow
@pytest.mark.parametrize("scale", [6, 60])
def test_all_counties_by_a_thousand_sizes(scale):
    truth, noisy, first_leaf, totals = county_instance(3_144, 1_000, 300_000, scale)
    found = margins.fit(noisy, first_leaf, totals)
    assert found.error <= 1e-3
    z = rounding.round_with_margins(found.values, first_leaf, totals)
    assert_rounds(z, found.values, first_leaf, totals, slack=1e-5)
    one = [1, 1, 1]
    assert cost(z, noisy, first_leaf, one) < cost(truth, noisy, first_leaf, one)
    alone = simplex.euclidean_families(noisy[-1].ravel(), np.arange(0, 3_144_001, 1_000), totals).reshape(z.shape)
    assert cost(z, noisy, first_leaf, one) < cost(alone, noisy, first_leaf, one)


def test_the_answer_does_not_depend_on_the_order_of_equal_levels_or_on_their_splitting():
    noisy, first_leaf, totals = [[[4, 0, 1]], [[3, -1, 1], [2, 1, 0]]], [[0, 2], [0, 1, 2]], [2, 3]
    once = margins.fit(noisy, first_leaf, totals, weights=[2, 1], tolerance=1e-9).values
    twice = margins.fit([noisy[0], *noisy], [[0, 2], *first_leaf], totals, weights=[1, 1, 1], tolerance=1e-9).values
    leaves_twice = margins.fit(
        [*noisy, noisy[1]], [*first_leaf, [0, 1, 2]], totals, weights=[2, 0.5, 0.5], tolerance=1e-9
    ).values
    assert np.allclose(once, twice, atol=1e-7)
    assert np.allclose(once, leaves_twice, atol=1e-7)


@pytest.mark.parametrize(
    ("noisy", "first_leaf", "totals", "expected"),
    [
        ([[[9]], [[4], [-3]]], [[0, 2], [0, 1, 2]], [7, 0], [[7], [0]]),
        ([[[9, -1, 3]]], [[0, 1]], [0], [[0, 0, 0]]),
        ([[[9, -1, 3]], [[8, 2, 4]]], [[0, 1], [0, 1]], [5], [[5, 0, 0]]),
        ([[[-9, -9]], [[-5, -5], [-5, -5]]], [[0, 2], [0, 1, 2]], [2, 4], [[1, 1], [2, 2]]),
        ([[[2**53, 0]], [[2**53, -(2**53)]]], [[0, 1], [0, 1]], [2**53], [[2**53, 0]]),
        ([[[2**53, 2**53]], [[2**53, 0]]], [[0, 1], [0, 1]], [1], [[1, 0]]),
    ],
)
def test_awkward_instances(noisy, first_leaf, totals, expected):
    assert margins.project(noisy, first_leaf, totals).tolist() == expected


def test_an_answer_that_is_not_good_enough_is_logged_and_feasible(caplog):
    noisy, first_leaf, totals, _ = an_instance(1)
    with caplog.at_level(logging.WARNING):
        found = margins.fit(noisy, first_leaf, totals, max_iterations=0)
    assert found.error > 1e-3
    assert "after 0 steps, not 0.001" in caplog.text
    assert np.allclose(found.values.sum(axis=1), totals)


NOISY = ([[4, 0]], [[3, -1], [2, 1]])


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"noisy": NOISY[1:]}, ValueError, "noisy has 1 levels; first_leaf has 2"),
        ({"noisy": ([4, 0], NOISY[1])}, ValueError, r"noisy\[0\] has shape \(2,\); it must be \(nodes, sizes\)"),
        ({"noisy": ([[4, 0, 1]], NOISY[1])}, ValueError, r"noisy\[1\] has shape \(2, 2\); it must be \(2, 3\)"),
        ({"noisy": ([[4, 0]] * 2, NOISY[1])}, ValueError, r"noisy\[0\] has shape \(2, 2\); it must be \(1, 2\)"),
        ({"noisy": (np.empty((1, 0)), np.empty((2, 0)))}, ValueError, r"\(1, 0\); it must be \(1, 1\)"),
        ({"noisy": ([[4.0, 0]], NOISY[1])}, TypeError, r"noisy\[0\] has dtype float64"),
        ({"noisy": ([[2**53 + 1, 0]], NOISY[1])}, ValueError, "it must stay within ±2\\^53"),
        ({"first_leaf": []}, ValueError, "first_leaf is empty"),
        ({"first_leaf": [[0, 2], [0]]}, ValueError, r"first_leaf\[1\] has 0 leaves"),
        ({"first_leaf": [[0, 3], [0, 1, 2]]}, ValueError, r"first_leaf\[0\] is 0 … 3; it must run from 0 to the 2"),
        ({"first_leaf": [[0, 2, 2], [0, 1, 2]]}, ValueError, r"first_leaf\[0\] has no leaf for node 1"),
        ({"first_leaf": [[0.0, 2.0], [0, 1, 2]]}, TypeError, r"first_leaf\[0\] has dtype float64"),
        ({"first_leaf": [[0, 1, 2], [0, 2]]}, ValueError, r"first_leaf\[1\] must be 0, 1, …, 1: the last level"),
        ({"row_totals": [2]}, ValueError, "row_totals has 1 entries; first_leaf describes 2 leaves"),
        ({"row_totals": [2, -3]}, ValueError, r"row_totals\[1\]=-3 must not be negative"),
        ({"row_totals": [2.0, 3.0]}, TypeError, "row_totals has dtype float64"),
        ({"row_totals": [2**53, 2**53]}, ValueError, "row_totals adds up to 1.8e\\+16; it must stay within 2\\^53"),
        ({"weights": [1]}, ValueError, r"weights has shape \(1,\); it must have one entry for each of 2 levels"),
        ({"weights": ["a", "b"]}, TypeError, "weights has dtype"),
        ({"weights": [1, 0]}, ValueError, r"weights\[1\]=0.0 must be positive and finite"),
        ({"weights": [-1, 1]}, ValueError, r"weights\[0\]=-1.0 must be positive and finite"),
        ({"weights": [np.nan, 1]}, ValueError, r"weights\[0\]=nan must be positive and finite"),
        ({"weights": [1, np.inf]}, ValueError, r"weights\[1\]=inf must be positive and finite"),
        ({"weights": [1e20, 1]}, ValueError, "within a factor 2\\^40"),
        ({"tolerance": 0}, ValueError, "tolerance=0 must be positive and finite"),
        ({"tolerance": np.nan}, ValueError, "tolerance=nan must be positive and finite"),
        ({"max_iterations": -1}, ValueError, "max_iterations=-1 must not be negative"),
    ],
)
@pytest.mark.parametrize("solve", [margins.fit, margins.project])
def test_the_real_problem_says_what_is_wrong(solve, changes, error, says):
    arguments = {"noisy": NOISY, "first_leaf": [[0, 2], [0, 1, 2]], "row_totals": [2, 3]} | changes
    with pytest.raises(error, match=says):
        solve(**arguments)


def test_levels_must_nest_and_end_with_the_leaves():
    noisy = [np.zeros((2, 1), int), np.zeros((2, 1), int), np.zeros((3, 1), int)]
    with pytest.raises(ValueError, match=r"first_leaf\[1\] has a node across leaf 1"):
        margins.project(noisy, [[0, 1, 3], [0, 2, 3], [0, 1, 2, 3]], [1, 1, 1])
    with pytest.raises(ValueError, match=r"first_leaf\[0\] must be 0, 1, …, 2: the last level must be the leaves"):
        margins.project(noisy[:1], [[0, 1, 3]], [1, 1])


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"values": [[0.5, 0.5]]}, ValueError, r"values has shape \(1, 2\); it must be \(2, sizes\)"),
        ({"values": np.empty((2, 0))}, ValueError, r"values has shape \(2, 0\)"),
        ({"values": [["a"], ["b"]]}, TypeError, "values has dtype"),
        ({"values": [[1.5, -0.5], [1, 0]]}, ValueError, "values holds -0.5 … 1.5; it must stay within 0"),
        ({"values": [[np.nan, 1], [1, 0]]}, ValueError, "values holds nan"),
        ({"values": [[0.5, 0.5], [0.5, 0.4]]}, ValueError, r"values\[1\] adds up to 0.9; it must add up to row_totals"),
        ({"row_totals": [1, -1]}, ValueError, r"row_totals\[1\]=-1 must not be negative"),
        ({"weights": [0, 1]}, ValueError, r"weights\[0\]=0.0 must be positive"),
    ],
)
def test_rounding_says_what_is_wrong(changes, error, says):
    arguments = {"values": [[0.5, 0.5], [1, 0]], "first_leaf": [[0, 2], [0, 1, 2]], "row_totals": [1, 1]} | changes
    with pytest.raises(error, match=says):
        rounding.round_with_margins(**arguments)
