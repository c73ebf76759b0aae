"""The least measurement at which a node is listed: against the posterior of trees measured anew."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallytree.solvers.trees.listing import least_listed
from tallytree.solvers.trees.sparse_posterior import MeasuredTree, log_cdf, posterior

NONE = np.empty(0, np.int64)


def posterior_with(first_child, noisy, variances, families, chance, means):
    tree = MeasuredTree(first_child, noisy, variances, families, NONE, NONE)
    return posterior(tree, chance, means)


@given(st.integers(0, 10**6), st.integers(12, 120))
def test_a_leaf_is_listed_from_there_on_and_not_below(seed, y):
    """A root of 200 whose other children are measured; the leaf's measurement is moved, all others stay."""
    rng = np.random.default_rng(seed)
    n = 1 + int(rng.integers(3, 9))
    noisy = np.array([200, y, *rng.integers(-10, 90, n - 2)])
    first = np.array([1, *[n] * n])
    variances, families = np.array([4.0, *[100.0] * (n - 1)]), np.array([n - 1, *[0] * (n - 1)])
    chance, means = np.array([1.0, *[0.05] * (n - 1)]), np.array([200.0, *[40.0] * (n - 1)])
    known = posterior_with(first, noisy, variances, families, chance, means)
    if known.probability[1] < 0.5 or 1 - known.probability[1] < 1e-6:
        return
    one = slice(1, 2)
    found = least_listed(
        noisy[one].astype(float), variances[one], known.probability[one], known.outside[one],
        known.outside_variance[one], means[one], np.array([0.5]), 0.0,
    )[0]  # fmt: skip
    assert found <= y
    if found < 0:  # what is below 0 is left out before anything is listed
        return

    def probability(value):
        moved = noisy.copy()
        moved[1] = value
        return posterior_with(first, moved, variances, families, chance, means).probability[1]

    # sums of siblings are taken as normal, so the two agree within a third of the noise
    assert probability(int(np.ceil(found + 3.5))) > 0.5
    assert probability(int(np.floor(found - 3.5))) < 0.5


def test_a_median_is_asked_for_too_and_certain_nodes_have_no_threshold():
    y, v, one = np.array([30.0]), np.array([25.0]), np.ones(1)
    chance = np.array([0.999])
    given_ = (y, v, chance, 0 * one, np.inf * one, 20 * one, 0.5 * one)
    first, second = (least_listed(*given_, median)[0] for median in (0.0, 20.0))
    assert first < second < 30
    certain = least_listed(y, v, one * (1 - 1e-12), 0 * one, np.inf * one, 20 * one, 0.5 * one, 0.0)
    assert certain[0] == -np.inf


def test_the_logarithm_of_the_normal_law_is_exact_in_the_tails():
    scipy_special = pytest.importorskip("scipy.special")
    for x in (-40.0, -12.0, -8.01, -7.99, -1.0, 0.0, 3.0, 9.0):
        assert log_cdf(x) == pytest.approx(scipy_special.log_ndtr(x), rel=3e-4, abs=1e-12)
