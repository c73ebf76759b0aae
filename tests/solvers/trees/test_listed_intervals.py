"""Intervals of numbers that are listed because their measurements were large: exact coverage, by enumeration."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallytree.solvers.trees.listing import listed_intervals


def noise_law(scale, laplace):
    """Values of the noise, and the probability of each: discrete Laplace, or discrete Gaussian."""
    reach = int(40 * scale) + 5
    k = np.arange(-reach, reach + 1)
    weight = np.exp(-np.abs(k) / scale) if laplace else np.exp(-0.5 * (k / scale) ** 2)
    return k, weight / weight.sum()


def coverage(theta, least, scale, alpha, laplace, *, knows=True):
    """The exact probability that the interval holds θ, given that it is listed; and the deviation of the noise."""
    k, chance = noise_law(scale, laplace)
    deviation = np.sqrt((chance * k**2).sum())
    y, chance = theta + k[theta + k >= least], chance[theta + k >= least]
    told = np.full(len(y), float(least) if knows else -np.inf)
    lower, upper = listed_intervals(y.astype(float), np.full(len(y), deviation), told, alpha, laplace=laplace)
    return (chance * ((lower <= theta) & (theta <= upper))).sum() / chance.sum()


@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("alpha", [0.05, 0.1])
@pytest.mark.parametrize("deviations", [0.5, 2.0, 3.5])
def test_every_number_is_covered_as_often_as_stated_given_that_it_is_listed(laplace, alpha, deviations):
    scale = 9.0
    least = round(deviations * scale)
    found = [coverage(theta, least, scale, alpha, laplace) for theta in range(1, 120, 3)]
    # numbers are integers: single ones are covered a little more or less often; where only one end can miss, more often
    assert min(found) > 1 - alpha - 0.05
    assert 1 - alpha - 0.01 < np.mean(found) < 1 - alpha / 2 + 0.01
    assert coverage(0, least, scale, alpha, laplace) >= 1 - alpha  # no interval ends below 0


@pytest.mark.parametrize("laplace", [False, True])
def test_an_interval_that_does_not_know_why_the_number_is_listed_misses_it_too_often(laplace):
    assert coverage(5, 27, 9.0, 0.1, laplace, knows=False) < 0.3
    assert coverage(5, 27, 9.0, 0.1, laplace) > 0.87


@given(st.integers(-50, 400), st.floats(0.3, 60), st.floats(-3, 4), st.sampled_from([0.01, 0.1, 0.5]), st.booleans())
def test_ends_are_those_of_a_search_over_all_numbers(y, deviation, deviations, alpha, laplace):
    """A brute-force oracle: of all θ, the least and the largest that is not rejected."""
    least = min(float(round(deviations * deviation)), float(y))
    lower, upper = (
        int(each[0])
        for each in listed_intervals(
            np.array([float(y)]), np.array([deviation]), np.array([least]), alpha, laplace=laplace
        )
    )
    assert 0 <= lower <= upper
    wider = [
        int(each[0])
        for each in listed_intervals(
            np.array([float(y)]), np.array([deviation]), np.array([least]), alpha / 2, laplace=laplace
        )
    ]
    assert wider[0] <= lower
    assert wider[1] >= upper


def test_what_is_listed_anyway_has_the_interval_of_its_noise():
    """16 ± 1.645 · 5, by hand: 7.78 … 24.2, to integers that are not rejected."""
    lower, upper = listed_intervals(np.array([16.0]), np.array([5.0]), np.array([-np.inf]), 0.1, laplace=False)
    assert (lower.tolist(), upper.tolist()) == ([8], [24])


def test_huge_measurements_are_not_lost_in_floats():
    y = np.array([1e9, 1e12])
    lower, upper = listed_intervals(y, np.array([10.0, 10.0]), np.array([30.0, -np.inf]), 0.1, laplace=False)
    np.testing.assert_allclose(lower, y - 16, atol=1)
    np.testing.assert_allclose(upper, y + 16, atol=1)
