"""The paper's black boxes against the library's own projections, SCIP and brute force."""

import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tallytree.solvers.papers import simplex_programs as boxes
from tallytree.solvers.trees import simplex

cvxpy = pytest.importorskip("cvxpy", reason="the extra tallytree[papers] is not installed")

some = settings(max_examples=60)
families = st.lists(st.integers(-15, 40), min_size=1, max_size=12)
totals = st.one_of(st.just(0), st.integers(0, 150))


def real_optimum(y, total):
    """max(0, y − λ) with the λ at which it adds up (Held, Wolfe and Crowder 1974)."""
    falling = np.sort(y)[::-1].astype(float)
    excess = (np.cumsum(falling) - total) / np.arange(1, len(y) + 1)
    return np.maximum(0, y - excess[np.flatnonzero(falling > excess)[-1]]) if total else np.zeros(len(y))


def squares(x, y):
    return float(((np.asarray(x) - y) ** 2).sum())


@some
@given(families, totals)
def test_the_mixed_integer_program_has_the_least_largest_change(y, total):
    x = boxes.chebyshev_mip(y, total)
    assert x.sum() == total
    assert x.min() >= 0
    assert np.abs(x - y).max() == np.abs(simplex.chebyshev(y, total) - y).max()


@pytest.mark.slow
@some
@given(families, totals)
@example([1, 1, 0], 1)  # halves are rounded to 0, as the entry that is 0
def test_the_relaxed_program_has_the_real_optimum_and_rounding_keeps_it_as_near_as_integers_can_be(y, total):
    y = np.array(y)
    assert boxes.euclidean_relaxed(y, total) == pytest.approx(real_optimum(y, total), abs=1e-4)
    x = boxes.euclidean_rounded(y, total)
    assert x.sum() == total
    assert x.min() >= 0
    assert squares(x, y) == squares(simplex.euclidean(y, total), y)


@some
@given(families, totals)
def test_the_euclidean_projection_has_the_objective_of_scip(y, total):
    pyscipopt = pytest.importorskip("pyscipopt", reason="the extra tallytree[papers] is not installed")
    model = pyscipopt.Model()
    model.hideOutput()
    d = [model.addVar(vtype="I", lb=-float(value), ub=None) for value in y]  # x − noisy
    cost = model.addVar(vtype="C", lb=0, obj=1.0)
    model.addCons(cost >= pyscipopt.quicksum(v * v for v in d))
    model.addCons(pyscipopt.quicksum(d) == float(total - sum(y)))
    model.optimize()
    assert model.getStatus() == "optimal"
    best = round(model.getObjVal())
    assert abs(model.getObjVal() - best) < 1e-3
    assert squares(simplex.euclidean(y, total), y) == best


@pytest.mark.parametrize("solve", [boxes.chebyshev_mip, boxes.euclidean_rounded])
def test_counts_of_ten_thousand_million_with_little_noise_are_solved_exactly(solve):
    rng = np.random.default_rng(5)
    true = rng.integers(10**10, 2 * 10**10, 12)
    y = true + np.round(rng.normal(0, 50, 12)).astype(np.int64)
    exact = {boxes.chebyshev_mip: simplex.chebyshev, boxes.euclidean_rounded: simplex.euclidean}[solve]
    x, best = solve(y, int(true.sum())), exact(y, int(true.sum()))
    assert x.sum() == true.sum()
    assert np.abs(x - y).max() == np.abs(best - y).max()


def test_rounding_takes_from_the_smallest_and_gives_to_the_largest():
    # λ = 2/3: the real (4⅓, 3⅓, 2⅓) is rounded to (4, 3, 2), one short; λ = 1/3: (4⅔, 3⅔, 2⅔) to (5, 4, 3), one over.
    assert boxes.euclidean_rounded([5, 4, 3], 10).tolist() == [5, 3, 2]
    assert boxes.euclidean_rounded([5, 4, 3], 11).tolist() == [5, 4, 2]


def test_families_without_a_choice_need_no_solver(monkeypatch):
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    for solve in (boxes.chebyshev_mip, boxes.euclidean_rounded):
        assert boxes.by_family(solve, [7, -2, 5, 1], [0, 1, 4, 4], [3, 0, 0]).tolist() == [3, 0, 0, 0]
        with pytest.raises(ModuleNotFoundError, match=r'needs CVXPY, which is not installed: pip install "tallytree'):
            boxes.by_family(solve, [7, -2], [0, 2], [3])


def test_without_highs_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(ModuleNotFoundError, match=r'chebyshev_mip needs HiGHS, .*pip install "tallytree\[papers\]"'):
        boxes.chebyshev_mip([1, 2], 5)


def test_what_a_solver_says_is_checked(monkeypatch):
    monkeypatch.setattr(boxes, "_within", lambda y, total, distance: True)
    with pytest.raises(RuntimeError, match="calls a distance of 1 optimal, but 0 is feasible"):
        boxes.chebyshev_mip([1, 2], 5)
    monkeypatch.setattr(boxes, "_violation", lambda d, y, total, solver: f"{solver} is wrong")
    with pytest.raises(RuntimeError, match="is wrong"):
        boxes.euclidean_relaxed([1, 2], 5)


@given(st.lists(st.integers(-4, 6), min_size=1, max_size=4), st.integers(0, 8))
def test_the_certificate_is_exact(y, total):
    y = np.array(y)
    best = int(np.abs(simplex.chebyshev(y, total) - y).max())
    assert [boxes._within(y, total, distance) for distance in range(best + 3)] == [False] * best + [True] * 3


@pytest.mark.parametrize("solve", [boxes.chebyshev_mip, boxes.euclidean_rounded])
@pytest.mark.parametrize(
    ("y", "total", "error", "says"),
    [
        ([1.5], 1, TypeError, "noisy has dtype float64"),
        ([1, 2], 1.0, TypeError, "total=1.0 must be an integer"),
        ([1, 2], -1, ValueError, "total=-1 must be at least 0"),
        ([], 3, ValueError, "total=3 must be 0, because the family is empty"),
        ([2**40, 2], 3, ValueError, "below 2\\^40 in magnitude"),
    ],
)
def test_one_family_says_what_is_wrong(solve, y, total, error, says):
    with pytest.raises(error, match=says):
        solve(y, total)


@pytest.mark.parametrize("solve", [boxes.chebyshev_mip, boxes.euclidean_rounded])
def test_a_time_limit_is_one(solve):
    with pytest.raises(ValueError, match="time_limit=0 must be a positive number of seconds"):
        solve([1, 2], 5, time_limit=0)
    with pytest.raises(TimeoutError, match="were not enough"):
        solve([1, 2], 5, time_limit=1e-9)


def test_families_say_what_is_wrong():
    with pytest.raises(ValueError, match="totals has 1 entries; offsets describe 2 families"):
        boxes.by_family(boxes.chebyshev_mip, [1, 2, 3], [0, 1, 3], [1])
