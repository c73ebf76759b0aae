"""Posteriors of sparse trees: brute force on small trees, hand-worked cases, calibration, and refusals."""

from itertools import product

import numpy as np
import pytest
from scipy.special import erfcx

from tallytree.solvers.trees.sparse_posterior import MeasuredTree, log_evidence, posterior, probable

NONE = np.empty(0, np.int64)


def star(noisy, root, variance=25.0, root_variance=0.0, families=None, left_out=()):
    """Leaves below one root, and left-out leaves."""
    n = len(noisy) + 1
    return MeasuredTree(
        np.concatenate([[1], np.full(n, n)]),
        np.array([root, *noisy]),
        np.array([root_variance, *[variance] * len(noisy)]),
        np.array([families or len(noisy) + len(left_out), *[0] * len(noisy)]),
        np.array(left_out, np.int64),
        np.zeros(len(left_out), np.int64),
    )


STEP = 0.25


def density_of(y, variance, mean, grid):
    """The density of an exponential value times the likelihood of its measurement, relative to that of 0."""
    return np.exp(-grid / mean - grid**2 / (2 * variance) + grid * y / variance) / mean


def brute_force(parents, noisy, variances, chance, mean, *, size):
    """P(not zero) of every node: sums over all states of the leaves, each with an integral on a grid.

    Leaves are at depth two, so that the value of an inner node is the sum of its leaves' values; the given root is the
    sum of all. `size` is the number of grid points.
    """
    n = len(parents)
    grid = np.arange(size) * STEP
    leaves = [i for i in range(n) if i not in parents]
    inner = sorted({parents[leaf] for leaf in leaves})
    weights, states = [], []
    for state in product([0, 1], repeat=len(leaves)):
        there = dict(zip(leaves, state, strict=True))
        there |= {node: int(any(there[leaf] for leaf in leaves if parents[leaf] == node)) for node in inner}
        if not any(state):
            continue
        weight, whole = 1.0, None
        for node in inner:
            below = [leaf for leaf in leaves if parents[leaf] == node]
            if node:
                weight *= chance[node] if there[node] else 1 - chance[node]
            if not there[node]:
                continue
            none = np.prod([1 - chance[leaf] for leaf in below])
            weight *= np.prod([chance[leaf] if there[leaf] else 1 - chance[leaf] for leaf in below]) / (1 - none)
            value = None
            for leaf in below:
                if there[leaf]:
                    one = density_of(noisy[leaf], variances[leaf], mean, grid)
                    value = one if value is None else np.convolve(value, one)[:size] * STEP
            if node:
                value = value * np.exp(-(grid**2) / (2 * variances[node]) + grid * noisy[node] / variances[node])
            whole = value if whole is None else np.convolve(whole, value)[:size] * STEP
        if inner != [0]:
            weight /= 1 - np.prod([1 - chance[node] for node in inner])
        weights.append(weight * whole[round(noisy[0] / STEP)])
        states.append([1, *(there[i] for i in range(1, n))])
    weights = np.array(weights) / np.sum(weights)
    return weights @ np.array(states)


def test_two_leaves_have_nearly_the_probabilities_of_all_states():
    """200 pairs drawn from the model. The normal sums are poor where measurements contradict each other, so rarely."""
    random = np.random.default_rng(3)
    apart = []
    for _ in range(200):
        chance, mean = random.choice([0.05, 0.3, 0.7]), random.choice([10.0, 30.0])
        there = random.random(2) < chance
        there[0] |= not there.any()
        true = np.where(there, random.exponential(mean, 2), 0)
        noisy = np.rint(true + random.normal(0, 10, 2)).astype(int).tolist()
        root = max(1, round(float(true.sum())))
        expected = brute_force([-1, 0, 0], [root, *noisy], [0, 100.0, 100.0], [1, chance, chance], mean, size=800)
        found = posterior(star(noisy, root, 100.0), [1.0, chance, chance], [mean] * 3).probability
        apart.append(np.abs(found - expected).max())
    assert np.mean(apart) < 0.03
    assert np.quantile(apart, 0.9) < 0.1


def test_small_trees_have_nearly_the_probabilities_of_all_states():
    """A root, two or three inner nodes and six leaves, 30 trees: the approximation by normal sums is off by little."""
    random = np.random.default_rng(4)
    apart = []
    for _ in range(30):
        inner = int(random.integers(2, 4))
        parents = [-1, *[0] * inner, *np.sort(random.integers(1, inner + 1, 6 - inner)), *range(1, inner + 1)]
        parents = [*parents[: inner + 1], *sorted(int(each) for each in parents[inner + 1 :])]
        n = len(parents)
        leaves = np.arange(n) > inner
        true = np.where(leaves & (random.random(n) < 0.4), random.exponential(20, n), 0)
        true[inner + 1] += 15
        for i in range(n - 1, 0, -1):
            true[parents[i]] += true[i]
        noisy = np.rint(true + np.where(np.arange(n) > 0, random.normal(0, 8, n), 0)).astype(int)
        chance = np.where(leaves, 0.3, 0.6)
        chance[0] = 1.0
        variances = np.array([0.0, *[64.0] * (n - 1)])
        expected = brute_force(parents, noisy, variances, chance, 20.0, size=int(noisy[0] / STEP) + 1)
        first = np.searchsorted(parents, np.arange(n + 1))
        tree = MeasuredTree(first, noisy, variances, np.diff(first), NONE, NONE)
        apart.append(posterior(tree, chance, np.full(n, 20.0)).probability - expected)
    apart = np.concatenate(apart)
    assert np.abs(apart).mean() < 0.03
    assert np.abs(apart).max() < 0.3


def test_a_left_out_leaf_counts_like_one_in_the_tree_that_is_rarely_positive():
    """The same measurement in the tree and left out: the other leaf has the same probability."""
    inside = posterior(star([30, -6], 33), [1.0, 0.2, 0.2], [20.0] * 3).probability[1]
    outside = posterior(star([30], 33, left_out=[-6]), [1.0, 0.2], [20.0] * 2).probability[1]
    assert outside == pytest.approx(inside, abs=1e-9)


def test_left_out_leaves_make_doubtful_what_is_not_alone():
    """Alone, a leaf below a root that is not zero is certain; a left-out sibling as large as it is as probable."""
    assert posterior(star([5], 9), [1.0, 0.2], [20.0] * 2).probability[1] == pytest.approx(1)
    with_other = posterior(star([5], 9, left_out=[5]), [1.0, 0.2], [20.0] * 2).probability[1]
    assert 0.4 < with_other < 0.8


def test_the_evidence_of_a_leaf_is_that_of_an_exponential_value_with_noise():
    """By the scaled complementary error function of scipy, also far in the tail."""
    noisy = np.array([-4_000, -300, -60, 0, 7, 90, 2_000])
    tree = MeasuredTree(np.full(8, 7), noisy, np.full(7, 100.0), np.zeros(7, np.int64), NONE, NONE, 7)
    for mean in (0.5, 12.0, 400.0):
        shift = 10 / mean - noisy / 10
        with np.errstate(over="ignore"):
            expected = np.log(10 / mean * np.sqrt(np.pi / 2) * erfcx(shift / np.sqrt(2)))
        near = np.isfinite(expected)
        found = log_evidence(tree, np.ones(7), np.full(7, mean))
        np.testing.assert_allclose(found[near], expected[near], rtol=1e-3, atol=1e-3)
        assert (np.diff(found) > 0).all()


@pytest.mark.parametrize("variance", [1e-9, 1e9])
def test_extreme_noise_gives_probabilities(variance):
    for chance in (1e-9, 0.5, 1.0):
        found = posterior(star([0, 3, 1_000_000, -50], 1_000_003, variance), [1.0, *[chance] * 4], [5.0] * 5)
        assert ((found.probability >= 0) & (found.probability <= 1 + 1e-9)).all()
    exact = posterior(star([0, 3], 3, 1e-9), [1.0, 0.5, 0.5], [5.0] * 3).probability
    np.testing.assert_allclose(exact, [1, 0, 1], atol=1e-3)


def test_probabilities_are_calibrated():
    """Trees from the model, 60 of them: of the nodes said to be positive with probability p, a share of p is."""
    random = np.random.default_rng(11)
    found, true = [], []
    for _ in range(60):
        sizes, there = [1, 6, 36, 216], [np.ones(1, bool)]
        for size in sizes[1:]:
            family = size // len(there[-1])
            draw = random.random((len(there[-1]), family)) < 0.25
            while not (fine := draw.any(axis=1)).all():
                draw[~fine] = random.random((int((~fine).sum()), family)) < 0.25
            there.append((draw & there[-1][:, None]).ravel())
        values = [np.where(there[-1], random.exponential(20, 216), 0)]
        for size in sizes[-2::-1]:
            values.insert(0, values[0].reshape(size, -1).sum(axis=1))
        noisy = np.rint(np.concatenate(values) + random.normal(0, 10, 259)).astype(np.int64)
        noisy[0] = round(float(values[0][0]))
        parents = np.concatenate([[-1], np.repeat(np.arange(43), 6)])
        first = np.searchsorted(parents, np.arange(260))
        chance = np.concatenate([[1.0], np.full(258, 0.25)])
        tree = MeasuredTree(first, noisy, np.concatenate([[0.0], np.full(258, 100.0)]), np.diff(first), NONE, NONE)
        found.append(posterior(tree, chance, np.full(259, 20.0)).probability[43:])
        true.append(there[-1])
    found, true = np.concatenate(found), np.concatenate(true)
    for low, high in ((0, 0.1), (0.1, 0.4), (0.4, 0.8), (0.8, 1.01)):
        here = (found >= low) & (found < high)
        assert here.sum() > 40
        assert true[here].mean() == pytest.approx(found[here].mean(), abs=0.08)


def test_several_trees_are_as_each_alone():
    alone = [posterior(star(noisy, root, root_variance=9.0), [1.0, 0.2, 0.2], [20.0] * 3) for noisy, root in _PAIRS]
    both = MeasuredTree(
        np.array([2, 4, 6, 6, 6, 6, 6]),
        np.array([_PAIRS[0][1], _PAIRS[1][1], *_PAIRS[0][0], *_PAIRS[1][0]]),
        np.array([9.0, 9.0, *[25.0] * 4]),
        np.array([2, 2, 0, 0, 0, 0]),
        NONE,
        NONE,
        2,
    )
    found = posterior(both, [1.0, 1.0, *[0.2] * 4], [20.0] * 6)
    expected = [alone[0].probability[0], alone[1].probability[0], *alone[0].probability[1:], *alone[1].probability[1:]]
    np.testing.assert_allclose(found.probability, expected)
    np.testing.assert_allclose(found.evidence[:2], [alone[0].evidence[0], alone[1].evidence[0]])


_PAIRS = (([12, 3], 17), ([-4, 25], 30))


def test_kept_nodes_are_probable_or_the_most_probable_child():
    first = np.array([1, 3, 5, 7, 7, 7, 7, 7])
    kept = probable(first, np.array([1.0, 0.3, 0.6, 0.2, 0.1, 0.4, 0.45]), 0.5)
    assert kept.tolist() == [True, False, True, False, False, False, True]
    assert probable(first, np.ones(7), 0.5).all()


def tree_of(**changes):
    given = {
        "first_child": np.array([1, 3, 3, 3]),
        "noisy": np.array([5, 4, 1]),
        "variances": np.array([0.0, 1.0, 1.0]),
        "families": np.array([3, 0, 0]),
        "left_out": np.array([-1]),
        "left_out_parents": np.array([0]),
    }
    return MeasuredTree(**(given | changes))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"first_child": np.array([1, 3, 3])}, ValueError, "first_child has 3 entries; noisy has 3, so it must have 4"),
        ({"first_child": np.array([1, 1, 2, 3])}, ValueError, "children that come before it"),
        ({"first_child": np.array([0, 2, 3, 3])}, ValueError, "first_child is -1 … 2; it must run from 0"),
        ({"noisy": np.array([0.5, 4, 1])}, TypeError, "noisy has dtype float64"),
        ({"roots": 0}, ValueError, "roots=0 must be 1 … 3"),
        ({"variances": np.array([0.0, 0.0, 1.0])}, ValueError, "variances must be 3 positive and finite numbers"),
        ({"families": np.array([3, 0])}, ValueError, r"families has shape \(2,\)"),
        ({"families": np.array([2, 0, 0])}, ValueError, "families: a node has fewer measured children than are given"),
        ({"left_out": NONE}, ValueError, "left_out has 0 entries; left_out_parents has 1"),
        ({"left_out_parents": np.array([3])}, ValueError, "left_out_parents must ascend and be nodes, 0 … 2"),
        ({"left_out_parents": np.array([1])}, ValueError, "left_out_parents: a parent has no children in the tree"),
    ],
)
def test_wrong_trees_are_named(changes, error, message):
    with pytest.raises(error, match=message):
        tree_of(**changes)


@pytest.mark.parametrize(
    ("chance", "mean", "message"),
    [
        ([1.0, 0.0, 0.5], [1.0] * 3, "probabilities must be 3 numbers above 0 and at most 1"),
        ([1.0, 0.5], [1.0] * 3, "probabilities must be 3 numbers"),
        ([1.0, 0.5, 0.5], [1.0, 0.0, 1.0], "means must be 3 positive and finite numbers"),
    ],
)
def test_wrong_priors_are_named(chance, mean, message):
    with pytest.raises(ValueError, match=message):
        posterior(tree_of(), chance, mean)
