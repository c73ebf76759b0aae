"""Shares of the least worst value, against a general solver's and the bound that the solution comes with."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from tallytree.solvers.tables.shares import CLOSE, ShareProblem, least_worst


def random_problem(seed):
    rng = np.random.default_rng(seed)
    wanted, parts, candidates = rng.integers(1, 8, 3)
    gains = rng.random((parts, candidates)) * (rng.random((parts, candidates)) < 0.6)
    gains[:, 0] += 0.01
    costs = rng.random((wanted, parts)) ** 4
    return ShareProblem(costs * (rng.random((wanted, parts)) < 0.7) + 1e-3, gains)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_the_solution_meets_its_bound_and_no_other_shares_beat_it(seed):
    problem = random_problem(seed)
    found = least_worst(problem)
    assert found.shares.min() >= 0
    assert found.shares.sum() == pytest.approx(1, abs=1e-12)
    assert found.worst == pytest.approx(problem.values(found.shares).max(), rel=1e-12)
    assert found.bound * (1 - 1e-12) <= found.worst <= found.bound * (1 + 2 * CLOSE)
    others = np.random.default_rng(seed).dirichlet(np.full(problem.gains.shape[1], 0.7), 50)
    near = 0.9 * found.shares + 0.1 * others
    assert all(problem.values(shares).max() >= found.bound * (1 - 1e-9) for shares in [*others, *near])


def test_a_general_solver_finds_the_same():
    for seed in range(3):
        problem = random_problem(seed)
        count = problem.gains.shape[1]
        found = minimize(
            lambda x: x[-1], [*np.full(count, 1 / count), problem.values(np.full(count, 1 / count)).max()],
            bounds=[(1e-9, 1)] * count + [(0, None)], method="SLSQP", options={"maxiter": 500, "ftol": 1e-12},
            constraints=[
                {"type": "eq", "fun": lambda x: x[:-1].sum() - 1},
                {"type": "ineq", "fun": lambda x, problem=problem: x[-1] - problem.values(x[:-1])},
            ],
        )  # fmt: skip
        assert found.x[-1] == pytest.approx(least_worst(problem).worst, rel=1e-4)


def test_one_part_each_gets_shares_of_the_square_roots():
    # max_j c_j / p_j is least where all are equal; with one sum, Σ c_j/p_j is least at shares ∝ √c_j.
    costs = np.array([1.0, 4.0, 9.0])
    np.testing.assert_allclose(least_worst(ShareProblem(np.diag(costs), np.eye(3))).shares, costs / 14, rtol=1e-6)
    np.testing.assert_allclose(least_worst(ShareProblem(costs[None], np.eye(3))).shares, np.sqrt(costs) / 6, rtol=1e-3)


def test_where_doubles_end_the_bound_still_holds_and_nothing_is_warned():
    """Two candidates with shares of nearly 0: the steps end where the numbers are no longer finite."""
    gains = [[0, 1, 0, 1, 0], [0, 0, 0, 1, 1], [1, 0, 1, 0, 0], [0, 1, 0, 0, 0], [1, 0, 0, 0, 1], [0, 1, 0, 1, 0],
             [1, 0, 1, 1, 0]]  # fmt: skip
    costs = [[0, 0, 0, 1, 1, 1, 0], [0, 0, 1, 1, 0, 1, 1]]
    problem = ShareProblem(np.array(costs, dtype=float), np.array(gains, dtype=float))
    found = least_worst(problem)
    assert found.worst == pytest.approx(problem.values(found.shares).max(), rel=1e-12)
    assert found.bound <= found.worst <= found.bound * (1 + 10 * CLOSE)
    assert found.worst == pytest.approx(8, rel=1e-6)


def test_least_shares_are_kept():
    problem = ShareProblem(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0]]))
    beyond = least_worst(problem.with_least(0.1))
    shares = 0.1 + 0.8 * beyond.shares
    np.testing.assert_allclose(shares, [0.9, 0.1], atol=1e-6)
    assert problem.values(shares).max() == pytest.approx(1 / 0.9, rel=1e-6)


def test_what_no_candidate_tells_is_refused():
    with pytest.raises(ValueError, match="a wanted table does not follow from the candidates; measure it"):
        least_worst(ShareProblem(np.ones((1, 2)), np.array([[1.0], [0.0]])))
