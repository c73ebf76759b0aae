"""Raw sums against dense least squares; rates at their limits; and what they are for: sums of many leaves."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.solvers.sizes import joint_rates
from tallytree.solvers.sizes.joint_families import TailsLevel, doubted_variance, fit, raw_sums, size_model
from tallytree.solvers.sizes.joint_rates import FAMILY_GROUPS, LEAST_RATE, add_up, drops_or_rates

RNG = np.random.default_rng


def tree(rng, mids):
    """Where the children begin: of the root, and of each of its children."""
    return [np.array([0, mids]), np.concatenate([[0], np.cumsum(rng.integers(1, 4, mids))])]


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 4))
def test_raw_sums_are_least_squares_over_a_node_and_all_below(seed, mids, cells):
    rng = RNG(seed)
    offsets = tree(rng, mids)
    leaves = offsets[1][-1]
    variances = rng.uniform(0.1, 9.0, 3)
    values = [rng.integers(-20, 50, (n, cells)) for n in (1, mids, leaves)]
    found = add_up(values, variances, offsets, None)
    below = (np.arange(leaves) >= offsets[1][:-1, None]) & (np.arange(leaves) < offsets[1][1:, None])
    design = np.concatenate([np.ones((1, leaves)), below, np.eye(leaves)])
    weight = 1 / np.repeat(variances, [1, mids, leaves])
    covariance = np.linalg.inv(design.T * weight @ design)
    best = covariance @ (design.T * weight) @ np.concatenate(values)
    assert np.allclose(found[0].values, best.sum(axis=0, keepdims=True))
    assert found[0].variance == pytest.approx([covariance.sum()])
    assert (found[2].values.size, found[2].variance.tolist()) == (0, [variances[2]] * leaves)


def test_what_is_below_a_level_counts_as_if_it_were_there():
    rng = RNG(1)
    offsets, variances = tree(rng, 4), [2.0, 1.0, 0.5]
    values = [rng.integers(0, 50, (n, 3)) for n in (1, 4, offsets[1][-1])]
    apart = add_up(values[2:], variances[2:], [], None)[0]
    under = joint_rates.sums_of_children(apart, values[2], offsets[1])
    for found, expected in zip(
        add_up(values[:2], variances[:2], offsets[:1], under), add_up(values, variances, offsets, None), strict=False
    ):
        assert np.array_equal(found.values, expected.values)
        assert np.array_equal(found.variance, expected.variance)


def handed_down(raw, variance, mu):
    model = size_model(len(raw), 1)
    out = np.empty(len(raw) + 1)
    drops_or_rates(raw, variance, raw, mu, model, out)
    return out


@pytest.mark.parametrize("variance", [1e-6, 1e9])
def test_spikes_are_handed_down_where_they_stand_out_of_the_noise(variance):
    raw = np.array([900.0, 500, 480, 100, 90, 80, 70, 60])
    drops = np.concatenate([[0], -np.diff(raw), [0]])
    mu = np.concatenate([[0], np.full(7, 120.0), [0]])
    expected = drops if variance < 1 else mu
    assert handed_down(raw, variance, mu) == pytest.approx(expected, rel=0.01, abs=0.01)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(2, 9))
def test_children_share_what_their_parent_hands_down(seed, children, cells):
    rng = RNG(seed)
    raw = np.sort(rng.normal(20, 15, (children, cells)))[:, ::-1].copy()
    above = np.concatenate([[0], rng.uniform(0, 30, cells - 1), [0]])
    rate, fitted = np.empty((children, cells + 1)), np.empty((children, cells))
    most = np.full(children, np.inf)
    most[1:2] = 0.0  # nobody can be there
    joint_rates._shared_rates(raw, most, above, 1, rate, fitted)
    assert (rate >= 0).all()
    assert (rate[1:2] == 0).all()
    assert np.allclose(rate.sum(axis=0)[1:-1], above[1:-1] + LEAST_RATE)


def test_a_child_of_which_nothing_is_known_has_the_rates_of_its_parent():
    """Its own cells are 0, so the groups that are added to each window are all there is: by size of the window."""
    above = np.concatenate([[0], np.linspace(9, 1, 8), [0]])
    rate, fitted = np.empty((3, 10)), np.empty((3, 9))
    joint_rates._shared_rates(np.zeros((3, 9)), np.full(3, np.inf), above, 1, rate, fitted)
    assert np.allclose(rate[:, 1:-1], (above[1:-1] + LEAST_RATE) / 3)
    assert FAMILY_GROUPS > 0


@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize("scale", [0.2, 0.4, 1.0, 7.0])
def test_doubt_falls_with_the_probability_of_no_noise(laplace, scale):
    k = np.arange(-400, 401)
    weight = np.exp(-np.abs(k) / scale) if laplace else np.exp(-(k**2) / (2 * scale**2))
    certain = 1 / weight.sum()
    level = TailsLevel(np.zeros((1, 1), np.int64), np.zeros(2, np.int64), scale, laplace, np.ones(1))
    variance = scale**2 * (2 if laplace else 1)
    assert doubted_variance(level) == pytest.approx(variance * (1 - certain) ** 2, rel=0.04, abs=1e-6)
    assert math.isclose(raw_sums([level])[0].variance[0], variance)


def test_many_leaves_do_not_add_up_their_biases():
    """600 leaves of 40 groups, sizes with spikes, noise of scale 3; the root's cells are drowned. 5 seeds.

    The root's mean error is 131 a cell (standard error 4). It was 193 (2) when a leaf's rates came from it alone.
    """
    chances = np.array([0.45, 0.05, 0.3, 0.02, 0.1, *np.full(45, 0.08 / 45)])
    errors = []
    for seed in range(5):
        rng = RNG(seed)
        true = rng.multinomial(40, chances, 600)[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
        noise = [rng.laplace(0, scale, (n, 49)).round().astype(np.int64) for n, scale in ((1, 3e4), (600, 3.0))]
        everything = true.sum(axis=0, keepdims=True)
        root = TailsLevel(everything + noise[0], np.array([0, 600]), 3e4, True, np.array([24_000.0]))
        leaves = TailsLevel(true + noise[1], np.zeros(601, np.int64), 3.0, True, np.full(600, 40.0))
        found = fit([root, leaves], first_size=2).levels[0]
        tails = np.repeat(found.value, np.diff(np.append(found.start, 49)))
        errors.append(np.abs(tails - everything[0]).mean())
    assert np.mean(errors) < 155
