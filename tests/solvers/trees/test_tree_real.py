"""Real tree projections: optimality conditions, integer solutions and a general solver to compare with."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.trees import INF, cost, problems, random_tree, solve_or_refuse, top_down
from tallytree.solvers.trees.project import project

some = settings(max_examples=200)
few = settings(max_examples=25)


def violations(parent, y, w, x, root_fixed):
    """How far a real solution is from the optimality conditions: signs, sums, path prices; relative to max|y|."""
    parent, y, w = np.asarray(parent), np.asarray(y, float), np.asarray(w, float)
    order = top_down(parent.tolist())
    sums, price = np.zeros(len(x)), np.zeros(len(x))
    for v in reversed(order[1:]):
        sums[parent[v]] += x[v]
    inner = np.isin(np.arange(len(x)), parent)
    off = np.abs(sums - x)[inner].max(initial=0)
    for v in order:
        price[v] = (price[parent[v]] if parent[v] >= 0 else 0) + 2 * w[v] * (x[v] - y[v])
    leaves = ~inner
    positive = leaves & (x > 1e-9 * np.abs(y).max())
    # A fixed root has any price of its own: it is what the positive leaves pay.
    level = price[positive].mean() if root_fixed and positive.any() else 0.0
    paid = np.abs(price[positive] - level).max(initial=0)
    unpaid = 0.0 if root_fixed and not positive.any() else max(0.0, (level - price[leaves & ~positive]).max(initial=0))
    heaviest = w.max() or 1.0
    return max(off, paid / heaviest, unpaid / heaviest, -x.min()) / max(1, np.abs(y).max())


@pytest.mark.slow
@some
@given(problems(largest=40, values=st.integers(-1000, 1000), weights=st.floats(0.1, 10)))
def test_real_solution_meets_the_optimality_conditions(problem):
    parent, y, w, total = problem
    x = project(parent, y, w, total=total, integer=False)
    assert x.min() >= 0
    assert violations(parent, y, w, x, total is not None) < 1e-9
    floats = [value + 0.25 for value in y]
    x = project(parent, floats, w, total=total, integer=False)
    assert violations(parent, floats, w, x, total is not None) < 1e-9


@some
@given(problems(largest=6))
def test_real_solution_is_no_dearer_than_any_integer_one(problem):
    parent, y, w, total = problem
    x = solve_or_refuse(*problem)
    if x is not None:
        real = project(parent, y, w, total=total, integer=False)
        price = sum(c * (a - b) ** 2 for a, b, c in zip(real, y, w, strict=True) if c not in (0, INF))
        assert price <= float(cost(x, y, w)) * (1 + 1e-9) + 1e-9


@few
@given(st.integers(0, 10**6))
def test_real_solution_agrees_with_a_quadratic_programming_solver(seed):
    cvxpy = pytest.importorskip("cvxpy", reason="the extra tallytree[papers] is not installed")
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 60))
    parent, y, w = random_tree(n, rng), rng.integers(-50, 60, n), rng.choice([0.3, 1, 2, 5], n)
    fixed = rng.random() < 0.5
    x = project(parent, y, w, total=20 if fixed else None, integer=False)
    unknown = cvxpy.Variable(n)
    incidence = np.zeros((n, n))
    incidence[parent[1:], np.arange(1, n)] = 1
    inner = incidence.any(axis=1)
    constraints = [unknown >= 0, incidence[inner] @ unknown == unknown[np.flatnonzero(inner)]]
    constraints += [unknown[0] == 20] * fixed
    objective = cvxpy.Minimize(cvxpy.sum(cvxpy.multiply(w, cvxpy.square(unknown - y))))
    least = cvxpy.Problem(objective, constraints).solve(solver="CLARABEL")
    cost = float((w * (x - y) ** 2).sum())
    assert cost == pytest.approx(least, rel=1e-6, abs=1e-4)  # at its tolerances the solver's point is a little off
    assert np.abs(unknown.value - x).max() < 0.05
