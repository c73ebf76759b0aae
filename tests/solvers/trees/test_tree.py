"""Integer tree projections: brute force over small trees, certificates, ties, and other solvers."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.trees import INF, add_up, cost, leaves_of, problems, random_tree, solve_or_refuse, top_down
from tallytree.solvers.trees import simplex
from tallytree.solvers.trees.project import is_optimal, project

many = settings(max_examples=800)
some = settings(max_examples=200)
few = settings(max_examples=25)


def meets_demands(x, parent, y, w, total):
    fixed = all(a == b for a, b, c in zip(x, y, w, strict=True) if c == INF)
    return fixed and (total is None or x[parent.index(-1)] == total)


def enumerate_feasible(parent, y, w, total):
    """All feasible points among which an optimum is: a value above all positive noisy ones together only costs.

    (If x at the root exceeds their sum, so does, down some path, each x that of its subtree; one unit less is no
    dearer there.)
    """
    box = sum(max(0, b) for b, c in zip(y, w, strict=True) if c > 0) if total is None else total
    leaves = leaves_of(parent)
    if (box + 1) ** len(leaves) > 6_000:
        return None
    points = (
        add_up(parent, dict(zip(leaves, values, strict=True))) for values in product(range(box + 1), repeat=len(leaves))
    )
    return [x for x in points if meets_demands(x, parent, y, w, total)]


def preference(x, parent, y, w, total):
    """What decides between solutions: cost, evenness, the least root, then more to earlier siblings, top down."""
    unmeasured = [v for v in leaves_of(parent) if w[v] == 0 and not (total is not None and parent[v] < 0)]
    even = sum(int(x[v]) ** 2 for v in unmeasured)
    order = top_down(parent)
    kept = [order[0], *(v for v in order[1:] if w[v] > 0 or v not in parent)]
    above = {}
    for v in kept[1:]:
        above[v] = parent[v]
        while above[v] not in kept:
            above[v] = parent[above[v]]
    ranked = []
    families = [order[0]]
    for v in families:
        children = sorted(c for c in above if above[c] == v)
        ranked.extend(-int(x[c]) for c in children)
        families.extend(children)
    return cost(x, y, w), even, int(x[order[0]]), ranked


def test_the_example_of_fioretto():
    # Examples 3 and 4, Table 5: US = GA + NY with noisy 2 = 3 + 0. The cost of each value of US, then the best.
    table = {0: 4 + 9, 1: 1 + 4, 2: 0 + 1, 3: 1 + 0, 4: 4 + 1}
    parent, noisy = [-1, 0, 0], [2, 3, 0]
    for total, expected in table.items():
        x = project(parent, noisy, total=total)
        assert x[0] == total
        assert (total - 2) ** 2 + cost(x[1:], noisy[1:], [1, 1]) == expected
    assert project(parent, noisy, total=3).tolist() == [3, 3, 0]
    assert project(parent, noisy).tolist() == [2, 2, 0]
    assert is_optimal(parent, noisy, [3, 3, 0])
    assert project(parent, noisy, integer=False).tolist() == [2.5, 2.5, 0]


@pytest.mark.slow
@many
@given(problems())
def test_integer_solution_is_the_preferred_optimum_by_brute_force(problem):
    candidates = enumerate_feasible(*problem)
    x = solve_or_refuse(*problem)
    if candidates is None:
        return
    if x is None:
        assert candidates == []
        return
    assert x == min(candidates, key=lambda point: preference(point, *problem))


@pytest.mark.slow
@some
@given(problems(largest=6))
def test_certificate_tells_optimal_from_other_points(problem):
    parent, y, w, total = problem
    candidates = enumerate_feasible(*problem)
    if not candidates:
        return
    costs = [cost(x, y, w) for x in candidates]
    for x, price in list(zip(candidates, costs, strict=True))[:: 1 + len(costs) // 40]:
        assert is_optimal(parent, y, x, w, total=total) == (price == min(costs))
    best = candidates[costs.index(min(costs))]
    for v in range(len(parent)):
        broken = [*best[:v], best[v] + 1, *best[v + 1 :]]
        if v in parent or not meets_demands(broken, parent, y, w, total) or parent[v] >= 0:
            assert not is_optimal(parent, y, broken, w, total=total)


@pytest.mark.slow
@some
@given(problems(largest=60, values=st.integers(-(10**6), 10**6), weights=st.floats(1e-6, 1e6)))
def test_larger_trees_are_certified(problem):
    parent, y, w, total = problem
    x = project(parent, y, w, total=total)
    assert is_optimal(parent, y, x, w, total=total)


@pytest.mark.slow
@some
@given(problems(largest=30, values=st.integers(-(2**46), 2**46), weights=st.floats(2.0**-400, 2.0**400)), st.data())
def test_weights_of_any_ratio_and_large_values_are_compared_exactly(problem, data):
    parent, y, w, total = problem
    x = project(parent, y, w, total=total)
    assert is_optimal(parent, y, x, w, total=total)
    leaves = leaves_of(parent)
    a, b = data.draw(st.sampled_from(leaves)), data.draw(st.sampled_from(leaves))
    other = {v: int(x[v]) for v in leaves}
    other[a] += 1
    other[b] -= 1
    moved = add_up(parent, other)
    assert other[b] < 0 or cost(moved, y, w) >= cost(x, y, w)
    if other[b] >= 0 and cost(moved, y, w) > cost(x, y, w):
        assert not is_optimal(parent, y, moved, w, total=total)


def test_weights_that_differ_in_the_last_bit_are_told_apart():
    for w in ([1.0, np.nextafter(1.0, 2)], [np.nextafter(1.0, 2), 1.0]):
        x = project([-1, 0, 0], [0, 10, 10], [0, *w], total=19)
        assert x.tolist() == ([19, 9, 10] if w[0] < w[1] else [19, 10, 9])
        assert not is_optimal([-1, 0, 0], [0, 10, 10], [19, *x[:0:-1]], [0, *w], total=19)


@pytest.mark.slow
@some
@given(st.lists(st.tuples(st.integers(-9, 20), st.floats(0.01, 100)), min_size=1, max_size=40), st.integers(0, 99))
def test_a_star_is_the_projection_on_a_simplex(entries, total):
    y, w = zip(*entries, strict=True)
    parent = [-1] + [0] * len(y)
    x = project(parent, [0, *y], [0, *w], total=total)
    expected = simplex.euclidean(y, total, weights=w)
    assert cost(x[1:], y, w) == cost(expected, y, w)


@some
@given(problems(largest=12), st.randoms())
def test_the_order_of_nodes_matters_only_in_ties(problem, random):
    parent, y, w, total = problem
    x = solve_or_refuse(*problem)
    new = list(range(len(parent)))
    random.shuffle(new)
    old = np.argsort(new)
    moved = [new[parent[v]] if parent[v] >= 0 else -1 for v in old]
    other = solve_or_refuse(moved, [y[v] for v in old], [w[v] for v in old], total)
    assert (x is None) == (other is None)
    if x is not None:
        assert cost(x, y, w) == cost(other, [y[v] for v in old], [w[v] for v in old])
        assert is_optimal(parent, y, [other[new[v]] for v in range(len(parent))], w, total=total)


def test_units_nobody_has_an_opinion_about_are_spread_evenly_then_first_to_the_first():
    parent = [-1, 0, 0, 1, 1, 2]
    assert project(parent, [0] * 6, [0] * 6, total=7).tolist() == [7, 5, 2, 3, 2, 2]
    assert project(parent, [0] * 6, [0] * 6, total=6, integer=False).tolist() == [6, 4, 2, 2, 2, 2]
    assert project(parent, [9] * 6, [0] * 6).tolist() == [0] * 6
    assert project([-1, 0, 0, 0], [0, 4, 99, 99], [0, 1, 0, 0], total=10).tolist() == [10, 4, 3, 3]
    # Where what is measured asks for more than there is, nothing is left to spread.
    assert project([-1, 0, 0, 0], [0, 4, 99, 99], [0, 1, 0, 0], total=3).tolist() == [3, 3, 0, 0]


def test_ties_go_to_the_least_root_and_then_to_the_first_sibling():
    assert project([-1, 0, 0], [1, 0, 0], [1, 1, 1]).tolist() == [0, 0, 0]
    assert project([-1, 0, 0], [0, 5, 5], [0, 1, 1], total=9).tolist() == [9, 5, 4]
    assert project([2, 2, -1], [5, 5, 0], [1, 1, 0], total=9).tolist() == [5, 4, 9]


def test_fixed_nodes_are_met_exactly():
    parent = [-1, 0, 0, 1, 1, 2, 2]
    y = [50, 7, 3, 5, 5, 9, 9]
    w = [1, INF, 1, 1, 1, 1, INF]
    x = project(parent, y, w)
    assert (x[1], x[6]) == (7, 9)
    assert is_optimal(parent, y, x, w)
    real = project(parent, y, w, integer=False)
    assert (real[1], real[6]) == (7, 9)
    assert project([-1, 0, 0], [5, 2, 3], [INF, INF, INF]).tolist() == [5, 2, 3]
    assert project([-1, 0, 0], [0.3, 0.1, 0.2], [INF] * 3, integer=False)[0] == 0.3


@pytest.mark.parametrize(
    ("parent", "y", "w", "total", "expected"),
    [
        ([-1], [7], None, None, [7]),
        ([-1], [-7], None, None, [0]),
        ([-1], [7], None, 3, [3]),
        ([-1], [7], [0], None, [0]),
        ([-1], [7], [INF], 7, [7]),
        ([1, 2, -1], [3, 9, 0], None, None, [4, 4, 4]),
        ([-1, 0, 0], [0, -5, -5], None, None, [0, 0, 0]),
        ([-1, 0, 0], [2**52, 0, 0], [1, 0, 0], None, [2**52, 2**51, 2**51]),
        ([-1, 0], [0, 2**52], None, 0, [0, 0]),
        ([-1, 0], [3, 3], [5e-324, 5e-324], None, [3, 3]),
        ([-1, 0], [3, 3], [1e308, 1e308], None, [3, 3]),
        ([-1, 0], [3, 3], np.array([2, 1], np.uint8), None, [3, 3]),
    ],
)
def test_awkward_trees(parent, y, w, total, expected):
    assert project(parent, y, w, total=total).tolist() == expected
    assert project(parent, y, w, total=total, integer=False) == pytest.approx(expected)
    assert is_optimal(parent, y, expected, w, total=total)


@few
@given(st.integers(0, 10**6))
def test_integer_solution_costs_what_scip_finds(seed):
    scip = pytest.importorskip("pyscipopt", reason="the extra tallytree[papers] is not installed")
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 14))
    parent, y, w = random_tree(n, rng), rng.integers(-9, 15, n), rng.integers(1, 4, n)
    fixed = rng.random() < 0.5
    x = project(parent, y, w, total=7 if fixed else None)
    model = scip.Model()
    model.hideOutput()
    unknown = [model.addVar(vtype="I", lb=0, ub=int(np.maximum(y, 0).sum()) + 7) for _ in range(n)]
    for v in set(parent[1:].tolist()):
        model.addCons(scip.quicksum(unknown[c] for c in range(1, n) if parent[c] == v) == unknown[v])
    if fixed:
        model.addCons(unknown[0] == 7)
    price = model.addVar(lb=0)
    terms = (int(w[v]) * (unknown[v] - int(y[v])) * (unknown[v] - int(y[v])) for v in range(n))
    model.addCons(scip.quicksum(terms) <= price)
    model.setObjective(price)
    model.optimize()
    assert model.getObjVal() == pytest.approx(int((w * (x - y) ** 2).sum()), abs=1e-3)


def test_weights_scaled_together_change_nothing():
    rng = np.random.default_rng(5)
    parent, y, w = random_tree(3_000, rng), rng.integers(-20, 30, 3_000), rng.integers(1, 9, 3_000)
    results = [project(parent, y, w * factor).tolist() for factor in (1, 2.0**-300, 7)]
    assert all(a == b for a, b in pairwise(results))
