"""The mixed-integer programs: against cost tables, brute force and their own relaxations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.tree_models import PAIR, assert_consistent, cost, realistic, tables, trees
from tallytree.solvers.papers import cost_table, tree_programs
from tallytree.solvers.papers.tree_programs import tails_mip, tails_relaxed, tree_mip, tree_relaxed

pytest.importorskip("cvxpy", reason="the extra tallytree[papers] is not installed")
pytest.importorskip("pyscipopt", reason="the extra tallytree[papers] is not installed")

some = settings(max_examples=60)
few = settings(max_examples=25)


@pytest.mark.slow
@some
@given(trees(12, least=-30, largest=60), st.one_of(st.none(), st.integers(0, 90)))
def test_the_mixed_integer_program_finds_the_optimum_of_the_cost_tables(tree, total):
    parent, noisy = tree
    x = tree_mip(parent, noisy, total=total)
    assert_consistent(x, parent, total, 0)
    exact = cost_table.project(parent, noisy, delta=200, total=total)
    assert cost(x, parent, noisy, np.ones(len(x)), total) == exact.cost


@some
@given(trees(5), st.one_of(st.none(), st.integers(0, 6)), st.data())
def test_the_mixed_integer_program_with_weights_is_optimal_by_brute_force(tree, total, data):
    parent, noisy = tree
    weights = data.draw(
        st.lists(st.sampled_from([0.0, 0.3, 1.0, 2.0, 7.5]), min_size=len(parent), max_size=len(parent))
    )
    x = tree_mip(parent, noisy, weights, total=total)
    best = min(
        cost(t[:, 0], parent, noisy, weights, total) for t in tables(parent, 1, 6 if total is None else total, total)
    )
    assert cost(x, parent, noisy, weights, total) == pytest.approx(best, abs=1e-9)


@few
@given(trees(3, columns=3, least=-2, largest=4), st.one_of(st.none(), st.integers(0, 4)))
def test_tails_are_optimal_by_brute_force(tree, total):
    parent, noisy = tree
    weights = [1.0, 2.0, 3.0][: len(parent)]
    x = tails_mip(parent, noisy, weights, total=total)
    assert_consistent(x, parent, total, 0)
    assert (np.diff(x, axis=1) <= 0).all()
    best = min(cost(t, parent, noisy, weights, total) for t in tables(parent, 3, 4, total))
    assert cost(x, parent, noisy, weights, total) == best
    relaxed = tails_relaxed(parent, noisy, weights, total=total)
    assert_consistent(relaxed, parent, total, 1e-5)
    assert (np.diff(relaxed, axis=1) <= 1e-5).all()
    assert cost(relaxed, parent, noisy, weights, total) <= best + 1e-4


def test_tails_of_one_column_are_the_tree():
    parent, noisy = realistic(40)
    one = tails_mip(parent, noisy[:, None], total=200)[:, 0]
    assert cost(one, parent, noisy, np.ones(40), 200) == cost_table.project(parent, noisy, delta=500, total=200).cost
    relaxed = tails_relaxed(parent, noisy[:, None], total=200)[:, 0]
    assert relaxed == pytest.approx(tree_relaxed(parent, noisy, total=200), abs=1e-4)


def test_a_solution_that_is_not_the_optimum_is_refused(monkeypatch):
    def worse(problem, clock, name):
        x, bound = solved(problem, clock, name)
        return x + np.array([[1], [1], [0]]), bound

    solved = tree_programs._mip
    monkeypatch.setattr(tree_programs, "_mip", worse)
    with pytest.raises(RuntimeError, match=r"not the optimum, one unit moved lowers its cost by"):
        tree_mip(PAIR, [3, 1, 2])
    with pytest.raises(RuntimeError, match=r"SCIP's solution costs 2\.0 and its proof rules out only less than"):
        tails_mip(PAIR, [[3], [1], [2]])
