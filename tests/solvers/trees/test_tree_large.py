"""Tree projections with 100,000 nodes and more: invariants, certificates, and paths that could take long."""

import numpy as np
import pytest

from helpers.trees import INF, caterpillar, random_tree, shape
from tallytree.solvers.trees.project import is_optimal, project


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


@pytest.mark.slow
@pytest.mark.parametrize(("leaf", "inner"), [(-3, 1), (-2, 1), (-1, 0), (5, -9), (-30, 7)])
@pytest.mark.parametrize("total", [None, 30_000])
def test_what_one_leaf_sets_off_along_a_path_does_not_take_a_sweep_per_leaf(leaf, inner, total):
    # Each leaf turns negative only when the next one is held at 0: one linear solve per leaf would take minutes.
    n = 200_000
    y = np.where(np.arange(n) % 2 == 1, leaf, inner)
    x = project(caterpillar(n), y, total=total)
    assert is_optimal(caterpillar(n), y, x, total=total)


@pytest.mark.parametrize("n", [5_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_light_inner_nodes_and_unmeasured_ones_on_a_long_path(n):
    rng = np.random.default_rng(11)
    y = rng.integers(-60, 61, n) + 5
    for light in (0, 1e-6, 0.01):
        weights = np.where(np.arange(n) % 2 == 1, 1.0, light)
        x = project(caterpillar(n), y, weights, total=n)
        assert is_optimal(caterpillar(n), y, x, weights, total=n)
