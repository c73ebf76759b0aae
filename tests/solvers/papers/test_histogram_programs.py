import importlib.util
import sys
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.solvers.papers import cost_table
from tallytree.solvers.papers import histogram_programs as black_boxes

cvxpy = pytest.importorskip("cvxpy", reason="the extra tallytree[papers] is not installed")
pytest.importorskip("pyscipopt", reason="the extra tallytree[papers] is not installed")

some = settings(deadline=None, max_examples=60)
few = settings(deadline=None, max_examples=25)
PAIR = [-1, 0, 0]


@pytest.fixture(scope="module")
def or_tools():
    if importlib.util.find_spec("ortools") is None:  # not imported: it cannot live in one process with highspy
        pytest.skip("the extra tallytree[papers] is not installed")


@st.composite
def trees(draw, most, least=-4, largest=6, columns=None):
    n = draw(st.integers(1, most))
    above = [-1] + [draw(st.integers(0, i - 1)) for i in range(1, n)]
    label = draw(st.permutations(range(n)))
    parent = [0] * n
    for i, node in enumerate(label):
        parent[node] = above[i] if i == 0 else label[above[i]]
    values = st.integers(least, largest)
    row = values if columns is None else st.lists(values, min_size=columns, max_size=columns)
    return parent, draw(st.lists(row, min_size=n, max_size=n))


def below(parent):
    """(n, leaves) 0/1: which leaves lie in each node's subtree."""
    leaves = [v for v in range(len(parent)) if v not in parent]
    inside = np.zeros((len(parent), len(leaves)), np.int64)
    for j, leaf in enumerate(leaves):
        node = leaf
        while node >= 0:
            inside[node, j] = 1
            node = parent[node]
    return inside


def cost(x, parent, noisy, weights, total):
    squares = (np.asarray(x, float) - noisy) ** 2
    if total is not None:
        squares[(parent.index(-1), 0) if squares.ndim == 2 else parent.index(-1)] = 0
    return float((np.reshape(weights, (-1,) + (1,) * (squares.ndim - 1)) * squares).sum())


def tables(parent, columns, most, total):
    """Every integer solution of Model 2 whose leaves are at most `most`."""
    inside = below(parent)
    rows = [row for row in product(range(most + 1), repeat=columns) if all(np.diff(row) <= 0)]
    for leaves in product(rows, repeat=inside.shape[1]):
        x = inside @ np.array(leaves)
        if total is None or x[parent.index(-1), 0] == total:
            yield x


def assert_consistent(x, parent, total, tolerance):
    x = np.asarray(x, float)
    sums = np.zeros_like(x)
    for v, above in enumerate(parent):
        if above >= 0:
            sums[above] += x[v]
    inner = sorted({above for above in parent if above >= 0})
    assert np.abs(x[inner] - sums[inner]).max(initial=0) <= tolerance
    assert x.min() >= 0
    if total is not None:
        assert abs(x[parent.index(-1)].flat[0] - total) <= tolerance


def realistic(n, seed=1):
    rng = np.random.default_rng(seed)
    inner = max(1, int(n**0.5))
    parent = np.concatenate([[-1], np.zeros(inner, np.int64), rng.integers(1, inner + 1, n - 1 - inner)])
    true = np.where(np.isin(np.arange(n), parent), 0, rng.poisson(5, n))
    for v in range(n - 1, 0, -1):
        true[parent[v]] += true[v]
    return parent.tolist(), true + np.round(rng.laplace(0, 20, n)).astype(np.int64)


def optimality_gap(x, parent, noisy, weights, total):
    """How much cheaper any feasible table could be by first order: Σ gradient·(x − z) at most, over tables z."""
    inside, x = below(parent), np.asarray(x, float)
    slope = 2 * np.asarray(weights, float) * (x - noisy)
    if total is not None:
        slope[parent.index(-1)] = 0
    gradient, leaf = slope @ inside, np.array([x[v] for v in range(len(parent)) if v not in parent])
    if total is not None:
        return leaf @ gradient - total * gradient.min()
    return leaf @ gradient - 1e3 * min(0.0, gradient.min())  # within 1,000 units of the optimum


@pytest.mark.slow
@some
@given(trees(12, least=-30, largest=60), st.one_of(st.none(), st.integers(0, 90)))
def test_the_mixed_integer_program_finds_the_optimum_of_the_cost_tables(tree, total):
    parent, noisy = tree
    x = black_boxes.tree_mip(parent, noisy, total=total)
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
    x = black_boxes.tree_mip(parent, noisy, weights, total=total)
    best = min(
        cost(t[:, 0], parent, noisy, weights, total) for t in tables(parent, 1, 6 if total is None else total, total)
    )
    assert cost(x, parent, noisy, weights, total) == pytest.approx(best, abs=1e-9)


@pytest.mark.slow
@few
@given(trees(6), st.one_of(st.none(), st.integers(0, 9)))
def test_the_constraint_programs_give_the_cost_tables_solution(or_tools, tree, total):
    parent, noisy = tree
    try:
        exact = cost_table.project(parent, noisy, delta=12, total=total, widen=False)
    except ValueError:
        with pytest.raises(ValueError, match=r"delta=12: .*; give a larger delta"):
            black_boxes.tree_constraint_program(parent, noisy, delta=12, total=total)
        return
    x = black_boxes.tree_constraint_program(parent, noisy, delta=12, total=total)
    assert_consistent(x, parent, total, 0)
    assert cost(x, parent, noisy, np.ones(len(x)), total) == exact.cost


@pytest.mark.parametrize("solver", ["CLARABEL", "SCS", "OSQP", "HIGHS"])
@pytest.mark.parametrize("total", [None, 0, 700])
def test_every_quadratic_solver_reaches_the_optimum(solver, total):
    if solver not in cvxpy.installed_solvers():
        pytest.skip(f"{solver} is not installed")
    parent, noisy = realistic(150)
    weights = np.where(np.arange(150) % 3 == 0, 2.0, 0.7)
    x = black_boxes.tree_relaxed(parent, noisy, weights, total=total, solver=solver)
    assert_consistent(x, parent, total, 1e-4)
    scale = cost(x, parent, noisy, weights, total)
    assert optimality_gap(x, parent, noisy, weights, total) <= 1e-5 * scale


@some
@given(trees(10, least=-20, largest=40), st.one_of(st.none(), st.integers(1, 60)))
def test_the_relaxation_costs_at_most_as_much_as_the_integers_and_rounds_to_near_them(tree, total):
    parent, noisy = tree
    ones = np.ones(len(parent))
    x = black_boxes.tree_relaxed(parent, noisy, total=total)
    assert_consistent(x, parent, total, 1e-5)
    exact = cost_table.project(parent, noisy, delta=100, total=total)
    assert cost(x, parent, noisy, ones, total) <= exact.cost + 1e-4 * (1 + exact.cost)
    assert np.abs(x - exact.x).max() <= len(parent)


@pytest.mark.slow
@pytest.mark.parametrize("total", [None, 40_000])
def test_three_thousand_nodes_are_solved_in_seconds(total):
    parent, noisy = realistic(3_000)
    relaxed = black_boxes.tree_relaxed(parent, noisy, total=total)
    assert optimality_gap(relaxed, parent, noisy, np.ones(3_000), total) <= 1e-5 * cost(
        relaxed, parent, noisy, np.ones(3_000), total
    )
    exact = cost_table.project(parent, noisy, delta=2_000, total=total)
    assert cost(relaxed, parent, noisy, np.ones(3_000), total) <= exact.cost


@few
@given(trees(3, columns=3, least=-2, largest=4), st.one_of(st.none(), st.integers(0, 4)))
def test_tails_are_optimal_by_brute_force(tree, total):
    parent, noisy = tree
    weights = [1.0, 2.0, 3.0][: len(parent)]
    x = black_boxes.tails_mip(parent, noisy, weights, total=total)
    assert_consistent(x, parent, total, 0)
    assert (np.diff(x, axis=1) <= 0).all()
    best = min(cost(t, parent, noisy, weights, total) for t in tables(parent, 3, 4, total))
    assert cost(x, parent, noisy, weights, total) == best
    relaxed = black_boxes.tails_relaxed(parent, noisy, weights, total=total)
    assert_consistent(relaxed, parent, total, 1e-5)
    assert (np.diff(relaxed, axis=1) <= 1e-5).all()
    assert cost(relaxed, parent, noisy, weights, total) <= best + 1e-4


def test_tails_of_one_column_are_the_tree():
    parent, noisy = realistic(40)
    one = black_boxes.tails_mip(parent, noisy[:, None], total=200)[:, 0]
    assert cost(one, parent, noisy, np.ones(40), 200) == cost_table.project(parent, noisy, delta=500, total=200).cost
    relaxed = black_boxes.tails_relaxed(parent, noisy[:, None], total=200)[:, 0]
    assert relaxed == pytest.approx(black_boxes.tree_relaxed(parent, noisy, total=200), abs=1e-4)


def calls(limit):
    parent, noisy = realistic(400)
    table = np.stack([noisy + 40, noisy, noisy - 30], axis=1)
    return {
        "tree_relaxed": lambda: black_boxes.tree_relaxed(parent, noisy, time_limit=limit),
        "tree_mip": lambda: black_boxes.tree_mip(parent, noisy, time_limit=limit),
        "tree_constraint_program": lambda: black_boxes.tree_constraint_program(
            parent, noisy, delta=400, time_limit=limit
        ),
        "tails_relaxed": lambda: black_boxes.tails_relaxed(parent, table, time_limit=limit),
        "tails_mip": lambda: black_boxes.tails_mip(parent, table, time_limit=limit),
    }


@pytest.mark.parametrize("name", list(calls(1)))
def test_a_time_limit_that_is_too_small_is_an_error(name, or_tools):
    says = r"time_limit: 1e-06 seconds were not enough for .* on 400 nodes; give more, or use the library"
    with pytest.raises(TimeoutError, match=says):
        calls(1e-6)[name]()


@pytest.mark.parametrize("name", ["tree_constraint_program", "tails_mip"])
def test_solvers_stop_at_their_time_limit(name, or_tools):
    with pytest.raises(TimeoutError, match=r"time_limit: 0\.5 seconds were not enough"):
        calls(0.5)[name]()


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["CLARABEL", "SCS", "OSQP", "HIGHS"])
def test_quadratic_solvers_stop_at_their_time_limit(solver):
    if solver not in cvxpy.installed_solvers():
        pytest.skip(f"{solver} is not installed")
    nodes = 20_000 if solver == "HIGHS" else 100_000
    parent, noisy = realistic(nodes)
    with pytest.raises(TimeoutError, match=f"time_limit: 0.6 seconds were not enough for {solver} on {nodes:,} nodes"):
        black_boxes.tree_relaxed(parent, noisy, solver=solver, time_limit=0.6)


@pytest.mark.parametrize(
    ("package", "module", "name"),
    [
        ("CVXPY", "cvxpy", "tree_relaxed"),
        ("CVXPY", "cvxpy", "tails_relaxed"),
        ("PySCIPOpt", "pyscipopt", "tree_mip"),
        ("PySCIPOpt", "pyscipopt", "tails_mip"),
        ("OR-tools", "ortools", "tree_constraint_program"),
    ],
)
def test_without_the_extra_the_message_names_it(monkeypatch, package, module, name):
    monkeypatch.setitem(sys.modules, module, None)
    says = rf'{name} needs {package}, which is not installed: pip install "tallytree\[papers\]"'
    with pytest.raises(ModuleNotFoundError, match=says):
        calls(60)[name]()


def test_unknown_solvers_are_refused_with_those_that_are_installed():
    with pytest.raises(ValueError, match="solver: 'GUROBY' is not known or not installed; choose one of CLARABEL"):
        black_boxes.tree_relaxed(PAIR, [1, 2, 3], solver="GUROBY")


def test_without_any_quadratic_solver_the_message_names_the_extra(monkeypatch):
    monkeypatch.setattr(cvxpy, "installed_solvers", list)
    with pytest.raises(ModuleNotFoundError, match=r"no quadratic solver is installed: pip install"):
        black_boxes.tree_relaxed(PAIR, [1, 2, 3])


@pytest.mark.parametrize("solver", ["SCS", "OSQP"])
def test_a_solver_that_gives_up_is_an_error(monkeypatch, solver):
    name = {"SCS": "max_iters", "OSQP": "max_iter"}[solver]
    settings_, limit = black_boxes.QP_SOLVERS[solver]
    monkeypatch.setitem(black_boxes.QP_SOLVERS, solver, (settings_ | {name: 2}, limit))
    with pytest.raises(RuntimeError, match=f"{solver} (ended with status|failed)"):
        black_boxes.tree_relaxed(*realistic(200), solver=solver)


def test_where_the_fastest_solver_stalls_the_next_one_is_used():
    """Clarabel 0.11 runs out of iterations on this one, whatever its tolerances."""
    tree = ([5, 0, 5, 0, 3, -1, 5], [9, 21, -12, 0, 32, 0, 0])
    expected = [12.625, 4.75, 0, 7.875, 7.875, 12.625, 0]
    assert black_boxes.tree_relaxed(*tree) == pytest.approx(expected, abs=1e-4)


def test_a_solution_that_is_not_the_optimum_is_refused(monkeypatch):
    def worse(problem, clock, name):
        x, bound = solved(problem, clock, name)
        return x + np.array([[1], [1], [0]]), bound

    solved = black_boxes._mip
    monkeypatch.setattr(black_boxes, "_mip", worse)
    with pytest.raises(RuntimeError, match=r"not the optimum, one unit moved lowers its cost by"):
        black_boxes.tree_mip(PAIR, [3, 1, 2])
    with pytest.raises(RuntimeError, match=r"SCIP's solution costs 2\.0 and its proof rules out only less than"):
        black_boxes.tails_mip(PAIR, [[3], [1], [2]])


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"parent": [-1, 2, 1]}, ValueError, "parent: node 1 does not lead up to the root"),
        ({"noisy": [1, 2]}, ValueError, r"noisy has shape \(2,\); tree_.* needs \(3,\), an entry for each of parent"),
        ({"noisy": [1.0, 2, 3]}, TypeError, "noisy has dtype float64"),
        ({"noisy": [1, 2, 2**40]}, ValueError, "must stay below 2\\^40 in magnitude"),
        ({"total": 2**40}, ValueError, "must stay below 2\\^40 in magnitude"),
        ({"total": -1}, ValueError, "total=-1 must be at least 0"),
        ({"weights": [1, 2]}, ValueError, r"weights has shape \(2,\); it must be \(3,\)"),
        ({"weights": [1, -2, 1]}, ValueError, "weights must be finite and not negative; got -2.0"),
        ({"weights": [1, np.nan, 1]}, ValueError, "weights must be finite"),
        ({"weights": ["a", "b", "c"]}, TypeError, "weights has dtype"),
        ({"time_limit": 0}, ValueError, "time_limit=0 must be a positive number of seconds"),
        ({"time_limit": "1"}, TypeError, "time_limit='1' must be a number of seconds"),
    ],
)
@pytest.mark.parametrize("solve", [black_boxes.tree_relaxed, black_boxes.tree_mip])
def test_they_say_what_is_wrong(solve, changes, error, says):
    with pytest.raises(error, match=says):
        solve(**({"parent": PAIR, "noisy": [1, 2, 3]} | changes))


@pytest.mark.parametrize("solve", [black_boxes.tails_relaxed, black_boxes.tails_mip])
def test_tails_need_a_table(solve):
    with pytest.raises(ValueError, match=r"noisy has shape \(3,\); tails_.* needs \(3, K\) with K >= 1"):
        solve(PAIR, [1, 2, 3])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"delta": 0}, "delta=0 must be at least 1"),
        ({"delta": 2**40}, "delta=1099511627776 is too large"),
        ({"noisy": [0, -9, 4], "delta": 5}, "delta=5: node 1 has no value within the domains; give a larger delta"),
        ({"total": 99}, "delta=4: total=99 is not within the domains; give a larger delta"),
        ({"noisy": [0, 7, 7], "total": 6}, "delta=4: the solution gives node 1 the value 3, an end of its domain"),
    ],
)
def test_constraint_programs_say_what_is_wrong(changes, says, or_tools):
    with pytest.raises(ValueError, match=says):
        black_boxes.tree_constraint_program(**({"parent": PAIR, "noisy": [1, 2, 3], "delta": 4} | changes))
