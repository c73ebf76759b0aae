"""The chain's post-processing against brute force, and against the same problem as a plain isotonic regression."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import cost_table_chain
from tallytree.solvers.sizes import isotonic
from tallytree.solvers.sizes.chain_regression import fit_chain

TREE = [[0, 3], [0, 1, 3], [0, 1, 2, 3]]
"""A root, a node with one leaf and a node with two, and the leaves."""


def tails_of(leaves, cut):
    """Per node and size, the groups of the level at or after (size, node), sizes first."""
    nodes = np.add.reduceat(leaves, cut[:-1], axis=0)
    chain = nodes.T.reshape(-1)
    return np.cumsum(chain[::-1])[::-1].reshape(nodes.T.shape).T


def cost(leaves, noisy, cuts, weights):
    return sum(
        w * int(((tails_of(leaves, cut) - np.array(table)) ** 2).sum())
        for table, cut, w in zip(noisy, cuts, weights, strict=True)
    )


def tables(draw, cuts, width, low=-3, high=5):
    cells = st.integers(low, high)
    return [
        draw(st.lists(st.lists(cells, min_size=width, max_size=width), min_size=len(cut) - 1, max_size=len(cut) - 1))
        for cut in cuts
    ]


@settings(max_examples=150)
@given(st.data(), st.sampled_from([TREE, TREE[1:], [[0, 2], [0, 1, 2]], [[0, 1]]]), st.sampled_from([None, 0, 3]))
def test_no_other_integers_are_nearer(data, cuts, total):
    width = 2
    noisy = tables(data.draw, cuts, width)
    weights = data.draw(st.lists(st.integers(1, 3), min_size=len(cuts), max_size=len(cuts)))
    found = fit_chain(noisy, cuts, weights, total=total)
    assert (found >= 0).all()
    assert total is None or found.sum() == total
    # Tails never exceed the largest noisy one at the optimum, so the box holds an optimum.
    most = 5 if total is None else total
    leaves = len(cuts[-1]) - 1
    best = None
    for chain in itertools.combinations_with_replacement(range(most, -1, -1), leaves * width):
        if total is not None and chain[0] != total:
            continue
        tails = np.append(np.array(chain), 0)
        candidate = (tails[:-1] - tails[1:]).reshape(width, leaves).T
        here = cost(candidate, noisy, cuts, weights)
        best = here if best is None else min(best, here)
    assert cost(found, noisy, cuts, weights) == best


@settings(max_examples=100)
@given(st.data())
def test_merged_neighbors_are_the_weighted_isotonic_regression_of_their_means(data):
    noisy = [np.array(table) for table in tables(data.draw, TREE, 4, -20, 40)]
    found = tails_of(fit_chain(noisy, TREE), TREE[-1])
    means, weights = np.zeros((3, 4)), np.zeros((3, 4))
    for table, cut in zip(noisy, TREE, strict=True):
        for node, leaf in enumerate(cut[:-1]):
            means[leaf] += table[node]
            weights[leaf] += 1
    chain = isotonic.fit(-(means / weights).T.reshape(-1), norm=2, weights=weights.T.reshape(-1), upper=0)
    assert np.abs(found.T.reshape(-1) + chain).max() <= 0.5 + 1e-9


def post_order(cuts, node=0, level=0):
    """(level, node) of the hierarchy below a node, children before their parent."""
    found = []
    if level + 1 < len(cuts):
        begin, end = cuts[level][node], cuts[level][node + 1]
        for child, first in enumerate(cuts[level + 1][:-1]):
            if begin <= first < end:
                found += post_order(cuts, child, level + 1)
    return [*found, (level, node)]


@settings(max_examples=100)
@given(st.data(), st.integers(0, 9))
def test_the_cost_is_that_of_the_papers_recurrence(data, total):
    """Equations 8a and 8b, on running sums c_i = total − t_(i+1) in the paper's order: sizes first, then post-order."""
    width = 3
    noisy = [np.array(table) for table in tables(data.draw, TREE, width, -4, 12)]
    order = post_order(TREE)
    chain, equal = [], []
    for size in range(width):
        for place, (level, node) in enumerate(order):
            flat = noisy[level].T.reshape(-1)
            after = size * len(noisy[level]) + node + 1
            chain.append(total - flat[after] if after < len(flat) else total)
            # Equal to the one before where that is deeper (its last child); the last of each level is the total.
            if place or size:
                equal.append(bool(place) and order[place - 1][0] > level)
    sums = cost_table_chain.chain_fit(chain, equal, lower=0, upper=total, last=total)
    theirs = int(((sums - np.array(chain)) ** 2).sum())
    found = fit_chain(noisy, TREE, total=total)
    ours = sum(
        int(((tails_of(found, np.array(cut)) - table).T.reshape(-1)[1:] ** 2).sum())
        for table, cut in zip(noisy, TREE, strict=True)
    )
    assert ours == theirs


def test_the_real_problem_rounds_to_it():
    """Against a quadratic program over the leaves' tails."""
    cvxpy = pytest.importorskip("cvxpy", reason="the extra tallytree[papers] is not installed")
    rng = np.random.default_rng(8)
    noisy = [rng.integers(-20, 60, (len(cut) - 1, 6)) for cut in TREE]
    tails = cvxpy.Variable((3, 6))
    chain = cvxpy.vec(tails, order="F")
    cost_of_all = sum(cvxpy.sum_squares(tails[cut[:-1], :] - table) for cut, table in zip(TREE, noisy, strict=True))
    cvxpy.Problem(cvxpy.Minimize(cost_of_all), [chain[:-1] >= chain[1:], chain[-1] >= 0]).solve(solver="CLARABEL")
    assert np.abs(tails_of(fit_chain(noisy, TREE), np.array(TREE[-1])) - tails.value).max() <= 0.5 + 1e-4


def test_the_papers_running_example():
    """Figure 6: tails of the group sizes of Table 4 without noise give Table 4 back."""
    georgia, new_york = [2, 0, 1, 0, 0], [1, 1, 1, 0, 0]
    leaves = np.array([georgia, new_york])
    cuts = [[0, 2], [0, 1, 2]]
    noisy = [tails_of(leaves, cut) for cut in cuts]
    assert noisy[0].tolist() == [[6, 3, 2, 0, 0]]
    assert noisy[1].tolist() == [[6, 3, 2, 0, 0], [4, 3, 1, 0, 0]]
    assert fit_chain(noisy, cuts, total=6).tolist() == leaves.tolist()


def test_at_full_size_every_level_adds_up_and_no_total_is_lost():
    rng = np.random.default_rng(4)
    leaves = rng.poisson(30 * 0.95 ** np.arange(400), (3_000, 400))
    cuts = [np.array([0, 3_000]), np.arange(0, 3_001, 60), np.arange(3_001)]
    noisy = [tails_of(leaves, cut) + rng.integers(-60, 61, (len(cut) - 1, 400)) for cut in cuts]
    total = int(leaves.sum())
    found = fit_chain(noisy, cuts, total=total)
    assert found.sum() == total
    assert found.min() >= 0
    assert abs(found.sum(axis=0) - leaves.sum(axis=0)).sum() < 0.01 * total


ONE = [[[1, 0]]]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([], []), {}, "first_leaf: 0 levels must be as many as noisy has, 0; at least 1"),
        ((ONE, [[0, 1], [0, 1]]), {}, "first_leaf: 2 levels must be as many as noisy has, 1"),
        (([[[1, 0]], [[1]]], [[0, 1], [0, 1]]), {}, "noisy: the shapes are"),
        ((ONE, [[0, 0, 1]]), {}, "must give each of 1 nodes at least one leaf"),
        ((ONE, [[0, 2]]), {}, "it must run from 0 to the 1 entries of the leaves"),
        ((ONE, [[0, 1]]), {"weights": [1, 2]}, "weights: 2 were given for 1 levels"),
        ((ONE, [[0, 1]]), {"weights": [0]}, "weights: 0 must be a positive integer"),
        ((ONE, [[0, 1]]), {"weights": [1.5]}, "weights: 1.5 must be a positive integer"),
        ((ONE, [[0, 1]]), {"total": -1}, "total: -1 must be an integer ≥ 0"),
        (([[[2**61, 0]]], [[0, 1]]), {}, "could reach 2\\^60"),
    ],
)
def test_what_is_wrong_is_said(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        fit_chain(*arguments, **options)
