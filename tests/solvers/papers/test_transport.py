import logging
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.solvers.papers import transport
from tallytree.solvers.sizes import margins

some = settings(max_examples=300)
seeds = st.integers(0, 2**32 - 1)


def summed(x, first_child):
    return np.add.reduceat(x, first_child[:-1], axis=0)


def cost(x, noisy):
    return float(((x - noisy) ** 2).sum())


def an_instance(seed, children=10, sizes=8):
    """Up to a few parents; some rows, columns and parents are empty, some parents have one child, some tables one size.

    The margins come from a matrix that the noisy one may have nothing to do with.
    """
    rng = np.random.default_rng(seed)
    n, columns = int(rng.integers(1, children + 1)), int(rng.integers(1, sizes + 1))
    cuts = np.flatnonzero(rng.random(n - 1) < rng.choice([0, 0.2, 1], p=[0.4, 0.4, 0.2])) + 1
    first_child = np.concatenate([[0], cuts, [n]])
    truth = rng.integers(0, rng.choice([2, 5, 1_000]), (n, columns)) * (rng.random((n, columns)) < rng.choice([0.2, 1]))
    truth *= rng.integers(0, 2, (n, 1)) | (rng.random() < 0.5)
    about = truth * rng.integers(0, 2)
    noisy = about + np.rint(rng.normal(rng.choice([-20, 0, 20]), rng.choice([0.5, 5, 300]), truth.shape)).astype(int)
    return noisy, first_child, summed(truth, first_child), truth.sum(axis=1)


def county_instance(scale, children=3_144, parents=52, sizes=1_000, groups=300_000):
    rng = np.random.default_rng(scale)
    share = rng.pareto(1.1, children) + 0.02
    totals = rng.multinomial(groups, share / share.sum())
    tail = 1 / np.arange(1, sizes + 1) ** 1.5
    truth = np.stack([rng.multinomial(g, tail / tail.sum()) for g in totals])
    cuts = np.sort(rng.choice(np.arange(1, children), parents - 1, replace=False))
    first_child = np.concatenate([[0], cuts, [children]])
    above = summed(truth, first_child)
    # The parents are off the truth, as they are where they were measured too: groups change size within a parent.
    for p in range(parents):
        above[p] = rng.multinomial(above[p].sum(), (above[p] + 0.05) / (above[p] + 0.05).sum())
    q = 1 - np.exp(-1 / scale)
    return truth + rng.geometric(q, truth.shape) - rng.geometric(q, truth.shape), first_child, above, totals


def assert_margins(x, first_child, columns, totals):
    assert x.min() >= 0
    assert (x.sum(axis=1) == totals).all()
    assert (x[:, ::-1].cumsum(axis=1)[:, -1] == totals).all()
    assert (summed(x, first_child) == columns).all()


def test_two_children_by_hand():
    # Rows (2 − t, t), (1 + t, 1 − t) have the margins. Y is (4, 0), (0, 0): the sum of squares is
    # (t + 2)² + t² + (1 + t)² + (1 − t)², which grows for t >= 0; and t >= 0 is needed.
    assert transport.fit([[4, 0], [0, 0]], [0, 2], [[3, 1]], [2, 2]).values.tolist() == [[2, 0], [1, 1]]
    # Y (0, 3), (0, 0): (2 − t)² + (t − 3)² + (1 + t)² + (1 − t)² has its least at 8t = 10, and t <= 1 is needed.
    assert transport.fit([[0, 3], [0, 0]], [0, 2], [[3, 1]], [2, 2]).values.tolist() == [[1, 1], [2, 0]]
    # Y (0, 1), (0, 0): 8t = 6.
    found = transport.fit([[0, 1], [0, 0]], [0, 2], [[3, 1]], [2, 2])
    assert np.allclose(found.values, [[1.25, 0.75], [1.75, 0.25]], atol=1e-8)


@pytest.mark.parametrize(
    ("noisy", "first_child", "columns", "totals", "expected"),
    [
        ([[-5, 9, 3]], [0, 1], [[2, 0, 7]], [9], [[2, 0, 7]]),  # a single child is its parent
        ([[-5], [9], [3]], [0, 2, 3], [[4], [5]], [4, 0, 5], [[4], [0], [5]]),  # one size
        ([[1, 1], [1, 1]], [0, 2], [[0, 0]], [0, 0], [[0, 0], [0, 0]]),  # nothing there
        ([[1, 1], [1, 1], [5, 0]], [0, 2, 3], [[0, 0], [1, 1]], [0, 0, 2], [[0, 0], [0, 0], [1, 1]]),
        ([[9, 9, 9], [0, 0, 0]], [0, 2], [[3, 0, 1]], [0, 4], [[0, 0, 0], [3, 0, 1]]),
        ([[2**53, -(2**53)], [0, 0]], [0, 2], [[2**52, 2**52]], [2**52, 2**52], [[2**52, 0], [0, 2**52]]),
        ([[-(2**53), 2**53], [2**53, 0]], [0, 2], [[1, 1]], [1, 1], [[0, 1], [1, 0]]),
    ],
)
def test_awkward_instances(noisy, first_child, columns, totals, expected):
    assert transport.project(noisy, first_child, columns, totals).tolist() == expected


@some
@given(seeds)
def test_real_and_whole_answers_keep_every_margin_exactly(seed):
    noisy, first_child, columns, totals = an_instance(seed)
    found = transport.fit(noisy, first_child, columns, totals)
    assert found.error <= 1e-3
    assert_margins(found.values, first_child, columns, totals)
    z = transport.project(noisy, first_child, columns, totals)
    assert z.dtype == np.int64
    assert_margins(z, first_child, columns, totals)
    assert np.abs(z - found.values).max() < 1
    fractions = found.values % 1
    assert cost(z, noisy) <= cost(found.values, noisy) + (fractions * (1 - fractions)).sum() + 1e-6


@some
@given(seeds, st.integers(0, 4))
def test_the_error_is_a_bound_when_stopped_early(seed, iterations):
    noisy, first_child, columns, totals = an_instance(seed)
    best = transport.fit(noisy, first_child, columns, totals, tolerance=1e-5)
    rough = transport.fit(noisy, first_child, columns, totals, max_iterations=iterations)
    assert best.error <= 1e-5
    assert_margins(rough.values, first_child, columns, totals)
    assert np.linalg.norm(rough.values - best.values) <= rough.error * (1 + 1e-9) + best.error


def test_the_real_step_agrees_with_clarabel():
    cvxpy = pytest.importorskip("cvxpy", reason="the extra tallytree[papers] is not installed")
    for seed in range(12):
        noisy, first_child, columns, totals = an_instance(seed, children=25, sizes=20)
        x = cvxpy.Variable(noisy.shape, nonneg=True)
        members = np.repeat(np.eye(len(columns)), np.diff(first_child), axis=1)
        kept = [cvxpy.sum(x, axis=1) == totals, members @ x == columns]
        problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(x - noisy)), kept)
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-12, tol_feas=1e-10)
        found = transport.fit(noisy, first_child, columns, totals, tolerance=1e-5)
        assert found.error <= 1e-5
        assert cost(found.values, noisy) == pytest.approx(problem.value, rel=1e-7, abs=1e-4)
        assert np.abs(found.values - x.value).max() < 1e-2


@some
@given(seeds)
def test_integers_are_near_the_integer_optimum_by_brute_force(seed):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 4, (2, int(rng.integers(1, 5))))
    columns, totals = truth.sum(axis=0), truth.sum(axis=1)
    noisy = truth * rng.integers(0, 2) + rng.integers(-4, 5, truth.shape)
    z = transport.project(noisy, [0, 2], [columns], totals)
    real = transport.fit(noisy, [0, 2], [columns], totals, tolerance=1e-6).values
    feasible = [
        np.array([row, columns - row]) for row in product(*(range(h + 1) for h in columns)) if sum(row) == totals[0]
    ]
    assert any((z == other).all() for other in feasible)
    assert np.abs(z - real).max() < 1 + 1e-3
    best = min(cost(other, noisy) for other in feasible)
    room = (np.abs(real - np.rint(real)) * (1 - np.abs(real - np.rint(real)))).sum()
    assert cost(real, noisy) - 1e-4 <= best <= cost(z, noisy) <= cost(real, noisy) + room + 1e-4


def test_children_may_be_exchanged_for_sizes():
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 6, (30, 40))
    noisy = truth + np.rint(rng.normal(0, 8, truth.shape)).astype(int)
    found = transport.fit(noisy, [0, 30], [truth.sum(axis=0)], truth.sum(axis=1))
    turned = transport.fit(noisy.T, [0, 40], [truth.sum(axis=1)], truth.sum(axis=0))
    assert np.linalg.norm(found.values - turned.values.T) <= found.error + turned.error


def test_it_is_what_a_parent_of_ever_more_weight_leads_to():
    noisy, first_child, columns, totals = county_instance(6, children=12, parents=3, sizes=20, groups=400)
    levels = [first_child, np.arange(len(noisy) + 1)]
    heavy = margins.fit([columns, noisy], levels, totals, weights=[1e6, 1], tolerance=1e-5)
    assert np.allclose(heavy.values, transport.fit(noisy, first_child, columns, totals).values, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [6, 60])
def test_all_counties_by_a_thousand_sizes(scale):
    noisy, first_child, columns, totals = county_instance(scale)
    found = transport.fit(noisy, first_child, columns, totals)
    assert found.error <= 1e-3
    assert_margins(found.values, first_child, columns, totals)
    z = transport.project(noisy, first_child, columns, totals)
    assert_margins(z, first_child, columns, totals)
    assert np.abs(z - found.values).max() < 1
    fractions = found.values % 1
    assert cost(z, noisy) <= cost(found.values, noisy) + (fractions * (1 - fractions)).sum() * (1 + 1e-3)
    # No parent depends on another; the first alone has the same answer.
    last = first_child[1]
    alone = transport.fit(noisy[:last], [0, last], columns[:1], totals[:last])
    assert np.linalg.norm(alone.values - found.values[:last]) <= alone.error + found.error


def test_counts_of_millions_keep_their_margins():
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 10**9, (20, 15))
    noisy = truth + np.rint(rng.normal(0, 50, truth.shape)).astype(int)
    found = transport.fit(noisy, [0, 12, 20], summed(truth, [0, 12, 20]), truth.sum(axis=1))
    assert found.error <= 1e-3
    assert_margins(found.values, [0, 12, 20], summed(truth, [0, 12, 20]), truth.sum(axis=1))


def test_an_answer_that_is_not_good_enough_is_logged_and_feasible(caplog):
    noisy, first_child, columns, totals = county_instance(6, children=12, parents=3, sizes=20, groups=400)
    with caplog.at_level(logging.WARNING):
        found = transport.fit(noisy, first_child, columns, totals, max_iterations=0)
    assert found.error > 1e-3
    assert "after 0 steps, not 0.001" in caplog.text
    assert_margins(found.values, first_child, columns, totals)


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"noisy": [3, -1]}, ValueError, r"noisy has shape \(2,\); it must be \(nodes, sizes\)"),
        ({"noisy": np.empty((0, 2), int)}, ValueError, r"noisy has shape \(0, 2\); it must be \(1, 2\)"),
        ({"noisy": [[0.5, 1], [2, 1]]}, TypeError, "noisy has dtype float64"),
        ({"noisy": [[2**53 + 1, 1], [2, 1]]}, ValueError, "noisy holds 1 … 9007199254740993; it must stay within"),
        ({"first_child": [0, 1]}, ValueError, "first_child is 0 … 1; it must run from 0 to the 2 entries of noisy"),
        ({"first_child": [0, 0, 2]}, ValueError, "first_child has no child for parent 0; every parent must have one"),
        ({"first_child": [0.0, 2.0]}, TypeError, "first_child has dtype float64"),
        ({"columns": [4, 1]}, ValueError, r"columns has shape \(2,\)"),
        ({"columns": [[4, 1, 0]]}, ValueError, r"columns has shape \(1, 3\); it must be \(1, 2\)"),
        ({"columns": [[4, 1]] * 2}, ValueError, r"columns has shape \(2, 2\); it must be \(1, 2\)"),
        ({"columns": [[6, -1]]}, ValueError, r"columns\[0, 1\]=-1 must not be negative"),
        ({"columns": [[4.0, 1.0]]}, TypeError, "columns has dtype float64"),
        ({"columns": [[4, 2]]}, ValueError, r"columns\[0\] adds up to 6, but row_totals\[0:2\] of its children to 5"),
        ({"columns": [[2**53, 2**53]]}, ValueError, r"columns adds up to 1.8e\+16; it must stay within 2\^53"),
        ({"row_totals": [2, 3, 0]}, ValueError, "row_totals has 3 entries; it must have one for each of 2 rows"),
        ({"row_totals": [6, -1]}, ValueError, r"row_totals\[1\]=-1 must not be negative"),
        ({"row_totals": [2.0, 3.0]}, TypeError, "row_totals has dtype float64"),
        ({"row_totals": [2**53, 2**53]}, ValueError, r"row_totals adds up to 1.8e\+16; it must stay within 2\^53"),
        ({"tolerance": 0}, ValueError, "tolerance=0 must be positive and finite"),
        ({"tolerance": np.inf}, ValueError, "tolerance=inf must be positive and finite"),
        ({"max_iterations": -1}, ValueError, "max_iterations=-1 must not be negative"),
    ],
)
@pytest.mark.parametrize("solve", [transport.fit, transport.project])
def test_it_says_what_is_wrong(solve, changes, error, says):
    arguments = {"noisy": [[3, -1], [2, 1]], "first_child": [0, 2], "columns": [[4, 1]], "row_totals": [2, 3]}
    with pytest.raises(error, match=says):
        solve(**(arguments | changes))
