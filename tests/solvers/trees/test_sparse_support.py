"""Sparse supports: hand-worked cases, how near the greedy choice is to the best of all, and the invariants."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.solvers.trees.project import project
from tallytree.solvers.trees.sparse_support import support


def in_levels(parents):
    """first_child of a tree whose nodes are numbered level by level, siblings side by side."""
    return np.searchsorted(parents, np.arange(len(parents) + 1)).tolist()


@st.composite
def trees(draw):
    """Parents of a tree of depth 2 or 3, what was measured, and a given root."""
    parents, level = [-1], [0]
    for _ in range(draw(st.integers(1, 2))):
        below = [parent for parent in level for _ in range(draw(st.integers(1, 3)))]
        level = list(range(len(parents), len(parents) + len(below)))
        parents += below
    noisy = [draw(st.integers(1, 30)), *(draw(st.integers(-6, 25)) for _ in parents[1:])]
    return parents, noisy


def cost(parents, noisy, kept, penalty):
    """What the chosen nodes cost: the best non-negative fit on them, zeros elsewhere, and the price of leaves."""
    place = {node: i for i, node in enumerate(np.flatnonzero(kept))}
    chosen = list(place)
    weights = [np.inf, *[1.0] * (len(chosen) - 1)]
    x = project([-1 if p < 0 else place[p] for p in (parents[i] for i in chosen)], [noisy[i] for i in chosen], weights)
    leaves = [i for i in chosen if i not in parents]
    left = sum(noisy[i] ** 2 for i in range(len(parents)) if i not in place)
    fit = sum((x[place[i]] - noisy[i]) ** 2 for i in chosen[1:])
    return left + fit + penalty * sum(x[place[i]] > 0 for i in leaves)


def supports(parents):
    """All choices of leaves, with their ancestors, that are not empty."""
    leaves = [i for i in range(len(parents)) if i not in parents]
    for choice in product([False, True], repeat=len(leaves)):
        kept = np.zeros(len(parents), dtype=bool)
        for leaf, chosen in zip(leaves, choice, strict=True):
            while chosen and leaf >= 0:
                kept[leaf], leaf = True, parents[leaf]
        if kept.any():
            yield kept


def price_of_fit(parents, kept):
    """The matrix R with |R·noisy|² = what the chosen nodes below a given root cost at least, were negative x allowed.

    The nodes' values are A·z, with z the chosen leaves, whose sum is the root; the last leaf is what the others leave.
    """
    chosen = np.flatnonzero(kept)
    leaves = [i for i in chosen if i not in parents]
    below = np.zeros((len(parents), len(leaves)))
    for column, leaf in enumerate(leaves):
        while leaf >= 0:
            below[leaf, column], leaf = 1, parents[leaf]
    a = below[chosen[1:]]
    free = a[:, :-1] - a[:, -1:]
    given_root = np.eye(len(parents))[chosen[1:]]
    given_root[:, 0] -= a[:, -1]
    return given_root - free @ (np.linalg.pinv(free) @ given_root)


def leaves_of(parents):
    return ~np.isin(np.arange(len(parents)), parents)


def all_supports(parents):
    """Every support, its number of leaves, and its `price_of_fit`."""
    return [(kept, leaves_of(parents)[kept].sum(), price_of_fit(parents, kept)) for kept in supports(parents)]


def least_cost(parents, noisy, penalty, choices):
    """The cost of the best support; of all whose lower bound is below the best cost so far, so nothing is missed.

    A chosen leaf that is 0 costs what it would cost unchosen, so some best support pays the penalty for all its leaves.
    """
    noisy = np.asarray(noisy)
    bounds = [
        (noisy[~kept] ** 2).sum() + ((fit @ noisy) ** 2).sum() + penalty * leaves for kept, leaves, fit in choices
    ]
    best = np.inf
    for i in np.argsort(bounds):
        if bounds[i] > best + 1e-6:
            break
        best = min(best, cost(parents, noisy, choices[i][0], penalty))
    return best


@settings(max_examples=150)
@given(trees(), st.sampled_from([0.0, 4.0, 16.0, 50.0]))
def test_what_is_kept_is_a_tree_and_rarely_far_from_the_best(tree, penalty):
    parents, noisy = tree
    kept = support(in_levels(parents), noisy, [0.0, *[1.0] * (len(parents) - 1)], penalty)
    assert kept[0]
    for node, parent in enumerate(parents[1:], 1):
        assert not kept[node] or kept[parent]
    for node in np.flatnonzero(kept):
        below = [child for child, parent in enumerate(parents) if parent == node]
        assert not below or kept[below].any()
    # The price of fits would take longer to prepare, for one choice of values, than it saves.
    choices = [(these, leaves_of(parents)[these].sum(), np.zeros((1, len(parents)))) for these in supports(parents)]
    best = least_cost(parents, noisy, penalty, choices)
    assert cost(parents, noisy, kept, penalty) <= 2 * best + 6 * penalty + 60


@pytest.mark.slow
def test_the_greedy_choice_is_the_best_in_most_random_trees():
    random = np.random.default_rng(7)
    parents = [-1, 0, 0, 0, *(1 for _ in range(3)), *(2 for _ in range(3)), *(3 for _ in range(3))]
    choices = all_supports(parents)
    best = 0
    for _ in range(200):
        leaves = np.where(random.random(9) < 0.3, random.integers(4, 30, 9), 0)
        true = np.concatenate([[leaves.sum()], leaves.reshape(3, 3).sum(axis=1), leaves])
        noisy = true + np.concatenate([[0], random.normal(0, 3, 12).round()]).astype(int)
        kept = support(in_levels(parents), noisy, [0.0, *[9.0] * 12], 4.0)
        found = cost(parents, noisy, kept, 36.0)
        best += found <= least_cost(parents, noisy, 36.0, choices) + 1e-9
    assert best >= 150


def test_a_path_of_weak_measurements_is_stronger_than_any_of_them():
    """Two leaves below a given root, each at the end of a path of three: 3 + 3 + 3 at σ = 2 against 5 + 0 + 0."""
    first_child = [1, 3, 4, 5, 6, 7, 7, 7]
    noisy = [4, 3, 5, 3, 0, 3, 0]
    kept = support(first_child, noisy, [0.0, *[4.0] * 6], 5.0)
    assert kept.tolist() == [True, True, False, True, False, True, False]
    # Without a price both are kept: the sum of squares alone asks for them.
    assert support(first_child, noisy, [0.0, *[4.0] * 6], 0.0)[[1, 2]].all()


def test_a_lone_leaf_needs_kappa_standard_deviations():
    """Below a root of little weight: the leaf at 7 = 3.5σ survives κ = 3 beside a larger one, that at 5 does not."""
    first_child = [1, 4, 4, 4, 4]
    noisy, variances = [0, 40, 7, 5], [1e12, 4.0, 4.0, 4.0]
    assert support(first_child, noisy, variances, 9.0).tolist() == [True, True, True, False]


def test_a_wide_and_deep_tree_keeps_its_invariants():
    random = np.random.default_rng(3)
    sizes = [1, 1_000, 30_000, 300_000]
    parents = [np.array([-1])]
    start = 0
    for above, size in pairwise(sizes):
        extra = np.sort(np.concatenate([np.arange(above), random.integers(0, above, size - above)]))
        parents.append(start + extra)
        start += above
    parent = np.concatenate(parents)
    noisy = random.integers(-20, 40, len(parent))
    noisy[0] = 100_000
    kept = support(in_levels(parent), noisy, np.concatenate([[0.0], np.full(len(parent) - 1, 100.0)]), 9.0)
    chosen = np.flatnonzero(kept)[1:]
    assert kept[parent[chosen]].all()
    has_child = np.zeros(len(parent), dtype=bool)
    has_child[parent[chosen]] = True
    inner = np.arange(len(parent)) < sum(sizes[:3])
    assert has_child[kept & inner].all()
    assert 0 < kept[~inner].sum() < 100_000


@settings(max_examples=10)
@given(trees(), st.sampled_from([0.0, 4.0, 16.0, 50.0]))
def test_no_support_is_missed_by_the_bounds(tree, penalty):
    parents, noisy = tree
    best = min(cost(parents, noisy, these, penalty) for these in supports(parents))
    assert least_cost(parents, noisy, penalty, all_supports(parents)) == best


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([1, 2], [1, 2], [0, 1], 1.0), ValueError, "first_child has 2 entries; noisy has 2, so it must have 3"),
        (([1, 3, 2], [1, 2], [0, 1], 1.0), ValueError, "first_child is 0 … 1|never decrease"),
        (([0, 1, 2], [1, 2], [0, 1], 1.0), ValueError, "first_child is -1 … 1; it must run from 0"),
        (([1, 1, 1, 3], [1, 2, 3], [0, 1, 1], 1.0), ValueError, "children that come before it"),
        (([1, 2, 2], [1, 2], [0, 1, 1], 1.0), ValueError, r"variances has shape \(3,\)"),
        (([1, 2, 2], [1, 2], [0, 0], 1.0), ValueError, "variances must be positive and finite"),
        (([1, 2, 2], [1, 2], ["a", "b"], 1.0), TypeError, "variances has dtype"),
        (([1, 2, 2], [1, 2], [0, 1], -1.0), ValueError, "penalty=-1.0 must be at least 0"),
        (([1, 2, 2], [1.5, 2], [0, 1], 1.0), TypeError, "noisy has dtype float64"),
    ],
)
def test_wrong_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        support(*arguments)
