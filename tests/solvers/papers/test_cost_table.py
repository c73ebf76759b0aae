from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.solvers.papers import cost_table

many = settings(max_examples=1_500)
more = settings(max_examples=500)
some = settings(max_examples=150)
# The running example of the paper, groups of size 1: noisy US 2, GA 3, NY 0.
US, GA, NY = 2, 3, 0


@st.composite
def trees(draw, most=7, least=-4, largest=5):
    """A parent array in any order, and noisy values."""
    n = draw(st.integers(1, most))
    above = [-1] + [draw(st.integers(0, i - 1)) for i in range(1, n)]
    label = draw(st.permutations(range(n)))
    parent = [0] * n
    for i, node in enumerate(label):
        parent[node] = above[i] if i == 0 else label[above[i]]
    return parent, draw(st.lists(st.integers(least, largest), min_size=n, max_size=n))


def leaves_below(parent):
    """(n, leaves) 0/1: which leaves lie in each node's subtree."""
    leaves = [v for v in range(len(parent)) if v not in parent]
    below = np.zeros((len(parent), len(leaves)), np.int64)
    for j, leaf in enumerate(leaves):
        node = leaf
        while node >= 0:
            below[node, j] = 1
            node = parent[node]
    return below


def feasible(parent, most, total):
    """(candidates, n) every consistent table whose leaves are at most `most`, with the root's total if given."""
    below = leaves_below(parent)
    leaves = np.array(list(product(range(most + 1), repeat=below.shape[1])), np.int64)
    x = leaves @ below.T
    return x if total is None else x[x[:, parent.index(-1)] == total]


def costs(x, parent, noisy, total):
    measured = np.array([total is None or above >= 0 for above in parent])
    return ((x - np.array(noisy))[..., measured] ** 2).sum(-1)


def assert_consistent(x, parent, total=None):
    x, parent = np.asarray(x), np.asarray(parent)
    inner = np.unique(parent[parent >= 0])
    sums = np.zeros(len(x), np.int64)
    np.add.at(sums, parent[parent >= 0], x[parent >= 0])
    assert (x[inner] == sums[inner]).all()
    assert x.min() >= 0
    if total is not None:
        assert x[parent < 0] == total


def best_change(x, parent, noisy, total):
    """The least cost of moving a unit between two leaves or, with a free total, of adding or removing one.

    The cost is convex and the feasible tables are flows, so that x is the integer optimum iff this is not negative.
    """
    n = len(x)
    root = list(parent).index(-1)
    order, children = [root], [[] for _ in range(n)]
    for v, above in enumerate(parent):
        if above >= 0:
            children[above].append(v)
    for v in order:
        order.extend(children[v])
    far = 2**62
    up, down, best = [far] * n, [far] * n, 0
    for v in reversed(order):
        rise = 2 * (int(x[v]) - int(noisy[v])) + 1
        fall = 2 - rise if x[v] > 0 else far
        if not children[v]:
            up[v], down[v] = rise, fall
            continue
        cheapest_up = sorted((up[c], c) for c in children[v])[:2]
        cheapest_down = sorted((down[c], c) for c in children[v])[:2]
        exchanges = [a + b for a, c in cheapest_up for b, d in cheapest_down if c != d]
        best = min([best, *exchanges])
        up[v], down[v] = rise + cheapest_up[0][0], min(far, fall + cheapest_down[0][0])
    return best if total is not None else min(best, up[root], down[root])


def test_table_5_digit_by_digit():
    assert cost_table.root_table([-1], [GA], delta=4)[1][:5].tolist() == [9, 4, 1, 0, 1]
    assert cost_table.root_table([-1], [NY], delta=4)[1][:5].tolist() == [0, 1, 4, 9, 16]
    lowest, table = cost_table.root_table([-1, 0, 0], [US, GA, NY], delta=4)
    assert lowest == 0
    assert table[:5].tolist() == [4 + 9, 1 + 4, 0 + 1, 1 + 0, 4 + 1]
    assert cost_table.project([-1, 0, 0], [US, GA, NY], delta=4).x.tolist() == [3, 3, 0]  # the stars


def test_domains_bound_the_table_from_both_sides():
    # GA is 2 … 4 and NY 0 … 1, so that US = 1 … 3 can be 2 or 3 only.
    assert cost_table.root_table([-1, 0, 0], [US, GA, NY], delta=1)[0] == 2
    assert cost_table.root_table([-1, 0, 0], [US, GA, NY], delta=1)[1].tolist() == [1, 1]


@pytest.mark.slow
@many
@given(trees(), st.one_of(st.none(), st.integers(0, 7)), st.sampled_from([1, 2, 50]))
def test_the_solution_is_optimal_by_brute_force(tree, total, delta):
    parent, noisy = tree
    # No leaf above every noisy value is worth it with a free total: its ancestors would be too large as well.
    candidates = feasible(parent, max(0, *noisy) if total is None else total, total)
    solution = cost_table.project(parent, noisy, delta=delta, total=total)
    counted = cost_table.project(parent, noisy, delta=delta, total=total, merge="count")
    assert counted.x.tolist() == solution.x.tolist()
    assert_consistent(solution.x, parent, total)
    assert solution.cost == costs(solution.x, parent, noisy, total) == costs(candidates, parent, noisy, total).min()
    assert solution.delta >= delta


@pytest.mark.slow
@more
@given(trees(), st.integers(1, 6))
def test_the_table_is_the_brute_force_minimum_for_every_value(tree, delta):
    parent, noisy = tree
    candidates = feasible(parent, max(0, *noisy) + delta, None)
    y = np.array(noisy)
    candidates = candidates[((candidates >= y - delta) & (candidates <= y + delta)).all(1)]
    if not len(candidates):
        with pytest.raises(ValueError, match=f"delta={delta}: the domain of node"):
            cost_table.root_table(parent, noisy, delta=delta)
        return
    root, cost = candidates[:, parent.index(-1)], costs(candidates, parent, noisy, None)
    lowest, table = cost_table.root_table(parent, noisy, delta=delta)
    assert lowest == root.min()
    assert table.tolist() == [cost[root == v].min() for v in range(root.min(), root.max() + 1)]


@pytest.mark.slow
@more
@given(trees(most=80, least=-60, largest=90), st.one_of(st.none(), st.integers(0, 900)), st.booleans())
def test_larger_trees_are_optimal_and_tabulating_again_changes_nothing(tree, total, long_table):
    parent, noisy = tree
    solution = cost_table.project(parent, noisy, delta=2_000 if long_table else 30, total=total)
    assert_consistent(solution.x, parent, total)
    assert best_change(solution.x, parent, noisy, total) >= 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost_table, "KEPT_ENTRIES", 0)
        for merge in ("sort", "count"):
            again = cost_table.project(parent, noisy, delta=2_000 if long_table else 30, total=total, merge=merge)
            assert again.x.tolist() == solution.x.tolist()


def nation(rng, subtrees, states=52, counties=3_144):
    """Subtrees of nation, states and counties under a root that is not measured."""
    sizes = rng.multinomial(counties - states, np.ones(states) / states) + 1
    one = np.concatenate([[0], np.ones(states, np.int64), np.repeat(np.arange(2, states + 2), sizes)])
    n = len(one)
    parent = np.concatenate([[-1], (one + np.arange(subtrees)[:, None] * n).ravel()])
    parent[1::n] = 0
    return parent


def noisy_nation(rng, parent, scale, mean):
    leaf = ~np.isin(np.arange(len(parent)), parent)
    true = np.where(leaf, rng.poisson(mean * rng.pareto(1.5, len(parent)).clip(0, 50)), 0)
    for v in range(len(parent) - 1, 0, -1):
        true[parent[v]] += true[v]
    return true + np.round(rng.laplace(0, scale, len(true))).astype(np.int64), int(true[0])


@pytest.mark.slow
@pytest.mark.parametrize("mean", [0, 3, 400])
def test_a_nation_at_the_papers_scale_is_optimal(mean):
    rng = np.random.default_rng(mean)
    parent = nation(rng, subtrees=3)
    noisy, total = noisy_nation(rng, parent, 60, mean)
    solution = cost_table.project(parent, noisy, delta=3 * 2 * 60**2, total=total, merge="count")
    assert_consistent(solution.x, parent, total)
    assert solution.delta == 21_600
    assert best_change(solution.x, parent, noisy, total) == 0


def test_a_chain_of_nodes_and_a_comb_have_sparse_slopes():
    n = 200
    chain = [-1, *range(n - 1)]
    assert cost_table.project(chain, [5] * n, delta=3).x.tolist() == [5] * n
    comb = [-1] + [2 * (i // 2) for i in range(2 * n)]  # each node has a leaf and a node below it
    noisy = np.random.default_rng(0).integers(-20, 400, 2 * n + 1)
    solution = cost_table.project(comb, noisy, delta=20_000, total=5_000)
    assert best_change(solution.x, comb, noisy, 5_000) >= 0


@pytest.mark.parametrize(
    ("parent", "noisy", "delta", "total", "says"),
    [
        ([-1, 0, 0], [0, -9, 4], 5, None, r"delta=5: the domain of node 1 \(noisy: -9\) holds no value"),
        ([-1, 0, 0], [30, 1, 1], 5, None, r"delta=5: the domain of node 0 \(noisy: 30\) holds no value"),
        ([-1, 0, 0], [0, 1, 1], 5, 13, "delta=5: total=13 cannot be reached within the domains"),
        ([-1, 0, 0], [0, 90, 90], 5, 13, "delta=5: total=13 cannot be reached within the domains"),
        ([2, 0, -1], [0, 0, 12], 7, None, "delta=7: the solution gives node 2 the value 5, an end of its domain"),
        ([-1, 0, 0], [0, 7, 7], 5, 4, "delta=5: the solution gives node 1 the value 2, an end of its domain"),
    ],
)
def test_domains_that_exclude_the_optimum_are_widened_or_refused(parent, noisy, delta, total, says):
    with pytest.raises(ValueError, match=says + ".*; give a larger delta, or widen=True"):
        cost_table.project(parent, noisy, delta=delta, total=total, widen=False)
    solution = cost_table.project(parent, noisy, delta=delta, total=total)
    assert solution.delta in (10, 14, 20, 40, 80, 160)
    at_once = cost_table.project(parent, noisy, delta=solution.delta, total=total, widen=False)
    assert at_once.x.tolist() == solution.x.tolist()
    assert at_once.cost == solution.cost
    assert best_change(solution.x, parent, noisy, total) >= 0


def test_zero_is_not_an_artificial_end_of_a_domain():
    assert cost_table.project([-1, 0, 0], [0, -3, 0], delta=4, widen=False).x.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"parent": [-1, 0.5, 0]}, TypeError, "parent has dtype float64"),
        ({"parent": [0, 0, 0]}, ValueError, "parent has 0 entries of -1; it must have one, the root"),
        ({"parent": []}, ValueError, "parent has 0 entries of -1"),
        ({"parent": [-1, -1, 0]}, ValueError, "parent has 2 entries of -1"),
        ({"parent": [-1, 3, 0]}, ValueError, r"parent\[1\]=3 must be a node, 0 … 2, or -1 for the root"),
        ({"parent": [-1, 2, 1]}, ValueError, "parent: node 1 does not lead up to the root"),
        ({"noisy": [1, 2]}, ValueError, "noisy has 2 entries; parent has 3"),
        ({"noisy": [1, 2, 2.5]}, TypeError, "noisy has dtype float64"),
        ({"noisy": [1, 2, 2**61]}, ValueError, "sums over 3 nodes could reach 2\\^62"),
        ({"delta": 0}, ValueError, "delta=0 must be at least 1"),
        ({"delta": 1.5}, TypeError, "delta=1.5 must be an integer"),
        ({"delta": True}, TypeError, "delta=True must be an integer"),
        ({"delta": 2**61}, ValueError, "sums over 3 nodes could reach 2\\^62"),
        ({"delta": 2**30, "noisy": [2**30] * 3}, ValueError, "delta=1073741824: the cost tables would have"),
        ({"merge": "heap"}, ValueError, "merge: 'heap' is not known; choose"),
        ({"total": -1}, ValueError, "total=-1 must be at least 0"),
        ({"total": 1.0}, TypeError, "total=1.0 must be an integer"),
    ],
)
def test_the_tree_projection_says_what_is_wrong(changes, error, says):
    with pytest.raises(error, match=says):
        cost_table.project(**({"parent": [-1, 0, 0], "noisy": [1, 2, 3], "delta": 4} | changes))


def test_slopes_and_costs_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="costs that add up over 3 levels could rise by 2\\^31"):
        cost_table.project([-1, 0, 1], [-(2**29)] * 3, delta=2**29 + 5)
    with pytest.raises(ValueError, match="is too large: costs of 1 nodes could overflow"):
        cost_table.root_table([-1], [0], delta=2**31)


def test_costs_beyond_64_bits_are_exact():
    assert cost_table.project([-1], [-(2**40)], delta=2**40).cost == 2**80
