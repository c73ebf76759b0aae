from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.solvers import simplex
from tallytree.solvers.tree import is_optimal, project

many = settings(deadline=None, max_examples=800)
some = settings(deadline=None, max_examples=200)
few = settings(deadline=None, max_examples=25)

INF = float("inf")
some_weights = st.one_of(st.sampled_from([0, 0, 1, 1, 1, 2, 0.1, 1 / 3, 1e-9, 1e9, INF]), st.floats(1e-3, 1e3))
small_values = st.integers(-4, 5)


def caterpillar(n):
    """A path on which every inner node has one more leaf: even nodes are the path."""
    v = np.arange(1, n)
    return np.concatenate([[-1], np.where(v % 2 == 1, v - 1, v - 2)])


def random_tree(n, rng):
    return np.concatenate([[-1], (rng.random(n - 1) * np.arange(1, n)).astype(np.int64)])


def shape(kind, n, draw):
    if kind == "chain":
        return np.arange(n) - 1
    if kind == "star":
        return np.concatenate([[-1], np.zeros(n - 1, np.int64)])
    if kind == "caterpillar":
        return caterpillar(n)
    return np.array([-1] + [draw(st.integers(0, v - 1)) for v in range(1, n)])


@st.composite
def problems(draw, largest=7, weights=some_weights, values=small_values):
    """A small tree, shuffled, sometimes a forest; noisy values, weights and perhaps a total."""
    n = draw(st.integers(1, largest))
    parent = shape(draw(st.sampled_from(["chain", "star", "caterpillar", "random", "random"])), n, draw)
    w = draw(st.lists(weights, min_size=n, max_size=n))
    if draw(st.booleans()):
        w[0] = 0
    new = np.array(draw(st.permutations(range(n))))
    moved = np.empty(n, np.int64)
    moved[new] = np.where(parent >= 0, new[parent], -1)
    return moved.tolist(), draw(st.lists(values, min_size=n, max_size=n)), w, draw(st.none() | st.integers(0, 6))


def top_down(parent):
    order = [parent.index(-1)]
    for v in order:
        order.extend(c for c in range(len(parent)) if parent[c] == v)
    return order


def leaves_of(parent):
    return [v for v in range(len(parent)) if v not in parent]


def add_up(parent, leaf_values):
    x = [0] * len(parent)
    for v, value in leaf_values.items():
        x[v] = value
    for v in reversed(top_down(parent)):
        if parent[v] >= 0:
            x[parent[v]] += x[v]
    return x


def cost(x, y, w):
    return sum(Fraction(c) * (int(a) - b) ** 2 for a, b, c in zip(x, y, w, strict=True) if c not in (0, INF))


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


def solve_or_refuse(parent, y, w, total):
    try:
        return project(parent, y, w, total=total).tolist()
    except ValueError:
        return None


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
    cvxpy = pytest.importorskip("cvxpy")
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


@few
@given(st.integers(0, 10**6))
def test_integer_solution_costs_what_scip_finds(seed):
    scip = pytest.importorskip("pyscipopt")
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


def geometric_noise(n, scale, rng):
    stop = 1 - np.exp(-1 / scale)
    return rng.geometric(stop, n) - rng.geometric(stop, n)


def census(sizes, counties, states, rng):
    """A virtual root fixed to the total, and for every size a subtree: root, states, counties; most nearly empty."""
    state = np.sort(np.concatenate([np.arange(states), rng.integers(0, states, counties - states)]))
    one = np.concatenate([[-1], np.zeros(states, np.int64), 1 + state])
    each = 1 + states + counties
    parent = np.concatenate([[-1], (one + 1 + each * np.arange(sizes)[:, None]).ravel()])
    parent[1::each] = 0
    share = rng.pareto(1.2, counties) + 0.05
    counts = rng.poisson(3e6 / np.arange(1, sizes + 1)[:, None] ** 2.2 * (share / share.sum()))
    by_state = np.add.reduceat(counts, np.searchsorted(state, np.arange(states)), axis=1)
    true = np.concatenate([counts.sum(axis=1, keepdims=True), by_state, counts], axis=1).ravel()
    return parent, np.concatenate([[counts.sum()], true])


@pytest.mark.slow
@pytest.mark.parametrize("weight", [1, 1 / 3])
@pytest.mark.parametrize("scale", [6, 60])
def test_a_census_of_300_000_nodes_keeps_its_invariants(scale, weight):
    rng = np.random.default_rng(scale)
    parent, true = census(100, 3_000, 52, rng)
    noisy = true + geometric_noise(len(true), scale, rng)
    weights = np.full(len(true), float(weight))
    weights[parent == 0] = 1
    weights[0], noisy[0] = INF, true[0]
    x = project(parent, noisy, weights)
    assert x[0] == true[0]
    assert x.min() >= 0
    assert is_optimal(parent, noisy, x, weights)
    assert np.abs(x - true).mean() < np.abs(noisy - true).mean() / 4
    real = project(parent, noisy, weights, integer=False)
    sums = np.bincount(parent[1:], real[1:], len(real))
    inner = sums > 0
    assert np.abs(sums - real)[inner].max() < 1e-9 * true[0]
    wrong = x.copy()
    leaves = np.flatnonzero(np.bincount(parent[1:], minlength=len(parent)) == 0)
    a = leaves[np.argmax(x[leaves])]
    b = leaves[np.argmin(noisy[leaves])]
    for leaf, unit in ((a, -1), (b, 1)):
        while leaf > 0:
            wrong[leaf] += unit
            leaf = parent[leaf]
    assert not is_optimal(parent, noisy, wrong, weights)


@pytest.mark.slow
@pytest.mark.parametrize("total", [None, 10**5])
@pytest.mark.parametrize("kind", ["chain", "star", "caterpillar", "random"])
def test_200_000_nodes_of_any_shape(kind, total):
    n = 200_000
    rng = np.random.default_rng(7)
    parent = random_tree(n, rng) if kind == "random" else shape(kind, n, None)
    y = geometric_noise(n, 20, rng) + 3
    for weights in (None, np.where(np.arange(n) % 2 == 1, 1.0, 0.3)):
        x = project(parent, y, weights, total=total)
        assert is_optimal(parent, y, x, weights, total=total)


@pytest.mark.parametrize(("leaf", "inner"), [(-3, 1), (-2, 1), (-1, 0), (5, -9), (-30, 7)])
@pytest.mark.parametrize("total", [None, 30_000])
def test_what_one_leaf_sets_off_along_a_path_does_not_take_a_sweep_per_leaf(leaf, inner, total):
    # Each leaf turns negative only when the next one is held at 0: one linear solve per leaf would take minutes.
    n = 200_000
    y = np.where(np.arange(n) % 2 == 1, leaf, inner)
    x = project(caterpillar(n), y, total=total)
    assert is_optimal(caterpillar(n), y, x, total=total)


def test_light_inner_nodes_and_unmeasured_ones_on_a_long_path():
    n = 100_000
    rng = np.random.default_rng(11)
    y = rng.integers(-60, 61, n) + 5
    for light in (0, 1e-6, 0.01):
        weights = np.where(np.arange(n) % 2 == 1, 1.0, light)
        x = project(caterpillar(n), y, weights, total=n)
        assert is_optimal(caterpillar(n), y, x, weights, total=n)


def test_weights_scaled_together_change_nothing():
    rng = np.random.default_rng(5)
    parent, y, w = random_tree(3_000, rng), rng.integers(-20, 30, 3_000), rng.integers(1, 9, 3_000)
    results = [project(parent, y, w * factor).tolist() for factor in (1, 2.0**-300, 7)]
    assert all(a == b for a, b in pairwise(results))


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"parent": [], "noisy": []}, ValueError, "parent is empty; a tree has at least its root"),
        ({"parent": [0.0, 1.0]}, TypeError, "parent has dtype float64"),
        ({"parent": [[-1, 0, 0]]}, ValueError, r"parent has shape \(1, 3\)"),
        ({"parent": [-1, 0, 3]}, ValueError, r"parent\[2\]=3; it must be the index of a node, 0 … 2, or -1"),
        ({"parent": [-1, -2, 0]}, ValueError, r"parent\[1\]=-2; it must be the index of a node"),
        ({"parent": [1, 2, 0]}, ValueError, "parent holds no -1; exactly one node must be the root"),
        ({"parent": [-1, 0, -1]}, ValueError, r"-1 for 2 nodes \(0, 2\).* under a virtual root with weight 0"),
        ({"parent": [-1, 2, 1]}, ValueError, r"a circle through node\(s\) 1, 2; every node must lead up"),
        ({"parent": [-1, 1, 0]}, ValueError, r"a circle through node\(s\) 1;"),
        ({"noisy": [1, 2]}, ValueError, "noisy has 2 entries; parent has 3"),
        ({"noisy": [1.0, 2.0, 3.0]}, TypeError, "noisy has dtype float64; .* or set integer=False"),
        ({"noisy": [1, 2**53, 3]}, ValueError, r"Σ\|noisy\| \+ total < 2\^53.*9007199254740992 is one value"),
        ({"noisy": [1, -(2**63), 3]}, ValueError, r"Σ\|noisy\| \+ total < 2\^53"),
        ({"noisy": [2**52, 2**51, 2**51]}, ValueError, r"Σ\|noisy\| \+ total < 2\^53"),
        ({"total": 2**52, "noisy": [0, 2**52, 1]}, ValueError, r"Σ\|noisy\| \+ total < 2\^53"),
        ({"weights": [1, 2]}, ValueError, r"weights has shape \(2,\); it must be \(3,\)"),
        ({"weights": ["a", "b", "c"]}, TypeError, "weights has dtype"),
        ({"weights": [1, -1, 1]}, ValueError, r"weights\[1\]=-1 must be >= 0: 0 for not measured, inf for fixed"),
        ({"weights": [1, 1, np.nan]}, ValueError, r"weights\[2\]=nan must be >= 0"),
        ({"weights": [1, 1, 2**53 + 1]}, ValueError, r"weights\[2\]=9007199254740993 must be at most 2\^53"),
        ({"weights": [1e-300, 1, 1e300]}, ValueError, r"within a factor 2\^800 .* use 0 for not measured"),
        ({"total": -1}, ValueError, r"total=-1 must be between 0 and 2\^53"),
        ({"total": 1.0}, TypeError, "total=1.0 must be an integer"),
        ({"total": 2.5}, TypeError, "total=2.5 must be an integer"),
        ({"total": True}, TypeError, "total=True must be a number"),
        (
            {"total": 5, "weights": [INF, 1, 1]},
            ValueError,
            r"total=5 and noisy\[0\]=4 both fix the root; make them equal",
        ),
        ({"noisy": [1, -2, 3], "weights": [1, INF, 1]}, ValueError, r"noisy\[1\]=-2 is fixed .* must not be negative"),
        (
            {"weights": [INF, INF, INF]},
            ValueError,
            r"noisy\[0\]=4 fixes node 0, but the fixed values below it \(node\(s\) 1, 2\) add up to 3, which is less",
        ),
        (
            {"noisy": [4, 5, 0], "weights": [INF, INF, 1]},
            ValueError,
            r"\(node\(s\) 1\) add up to 5, which is more: make",
        ),
        ({"total": 1, "weights": [1, 1, INF]}, ValueError, r"total=1 fixes node 0, but .*\(node\(s\) 2\) add up to 2"),
    ],
)
def test_arguments_are_checked(changes, error, says):
    arguments = {"parent": [-1, 0, 0], "noisy": [4, 1, 2]} | changes
    with pytest.raises(error, match=says):
        project(**arguments)
    with pytest.raises(error, match=says):
        is_optimal(**arguments, x=[0] * len(arguments["noisy"]))


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        (
            {"noisy": [1.0, np.nan, 2.0]},
            ValueError,
            r"noisy\[1\]=nan must be finite; give what is not measured weight 0",
        ),
        ({"noisy": [1.0, 2.0]}, ValueError, "noisy has 2 entries"),
        ({"noisy": ["a", "b", "c"]}, TypeError, "noisy has dtype"),
        ({"noisy": [1e300, 1e300, 0]}, ValueError, r"Σ\|noisy\| \+ total <= 1e300"),
        ({"total": np.nan}, ValueError, "total=nan must be between 0 and 1e300"),
        ({"total": -0.5}, ValueError, "total=-0.5 must be between 0 and 1e300"),
        ({"total": "5"}, TypeError, "total='5' must be an integer or a float"),
        ({"noisy": [0.5, 0.1, 0.2], "weights": [INF] * 3}, ValueError, "add up to 0.3.*, which is less"),
    ],
)
def test_arguments_of_the_real_problem_are_checked(changes, error, says):
    with pytest.raises(error, match=says):
        project(**({"parent": [-1, 0, 0], "noisy": [4, 1, 2]} | changes), integer=False)


def test_a_real_total_may_be_a_float():
    assert project([-1, 0, 0], [0, 1, 1], total=3.5, integer=False).tolist() == [3.5, 1.75, 1.75]


@pytest.mark.parametrize(
    ("x", "error", "says"),
    [
        ([1, 1], ValueError, "x has 2 entries; parent has 3"),
        ([1.0, 1.0, 0.0], TypeError, "x has dtype float64"),
        ([2**53, 2**53, 0], ValueError, r"x holds a value of magnitude 9007199254740992; it must stay below 2\^53"),
        ([-(2**63), 0, 0], ValueError, r"must stay below 2\^53"),
    ],
)
def test_a_point_to_certify_is_checked(x, error, says):
    with pytest.raises(error, match=says):
        is_optimal([-1, 0, 0], [2, 3, 0], x)


@pytest.mark.parametrize("x", [[3, 2, 0], [2, 3, -1], [0, 0, 0], [4, 4, 0], [2, 1, 1]])
def test_points_that_are_infeasible_or_dearer_are_not_certified(x):
    assert not is_optimal([-1, 0, 0], [2, 3, 0], x)
