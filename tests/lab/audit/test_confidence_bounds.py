"""The confidence bounds: against many digits, by exact coverage, and against the losses of known distributions."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tallytree.lab.audit.confidence_bounds import clopper_pearson, epsilon_at_least, rho_at_least, wilson

alphas = st.sampled_from([0.5, 0.05, 1e-3, 1e-5, 1e-9])


@st.composite
def outcomes(draw):
    trials = draw(st.integers(1, 100_000))
    return draw(st.integers(0, trials)), trials


@given(outcomes(), alphas)
def test_bounds_of_a_probability_are_those_of_clopper_and_pearson(outcome, alpha):
    k, n = outcome
    low, high = clopper_pearson(k, n, alpha)
    assert low == pytest.approx(stats.beta.ppf(alpha, k, n - k + 1) if k else 0, rel=1e-6)
    assert 1 - high == pytest.approx(stats.beta.ppf(alpha, n - k, k + 1) if k < n else 0, rel=1e-6)
    assert low <= k / n <= high


@given(st.integers(1, 40), st.integers(0, 10**6), alphas)
def test_a_bound_is_on_the_safe_side_and_close(k, more, alpha):
    """In 60 digits: at the bound, `k` or more successes have at most the probability alpha, and nearly that."""
    n = k + more
    with mpmath.workdps(60):
        p = mpmath.mpf(clopper_pearson(k, n, alpha)[0])
        fewer = mpmath.fsum(mpmath.binomial(n, i) * p**i * (1 - p) ** (n - i) for i in range(k))
        assert alpha * (1 - 1e-8) <= 1 - fewer <= alpha or (p == mpmath.mpf(k / n) and 1 - fewer <= alpha)


@pytest.mark.parametrize("p", [0.001, 0.1, 0.5, 0.77, 0.999])
def test_a_bound_misses_no_more_often_than_it_may(p):
    # Exact: the probability of every outcome of 60 trials that makes a bound wrong.
    n, alpha = 60, 0.03
    mass = stats.binom.pmf(np.arange(n + 1), n, p)
    bounds = np.array([clopper_pearson(k, n, alpha) for k in range(n + 1)])
    assert mass[bounds[:, 0] > p].sum() <= alpha
    assert mass[bounds[:, 1] < p].sum() <= alpha


def test_approximate_bounds_are_close_to_the_exact_ones():
    exact = clopper_pearson(4_000, 10_000, 1e-4)
    assert wilson(np.array([4_000]), 10_000, 1e-4) == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize(
    ("successes", "trials", "alpha"), [(3, 2, 0.1), (-1, 2, 0.1), (0, 0, 0.1), (1, 2, 0), (1, 2, 1)]
)
def test_impossible_outcomes_are_refused(successes, trials, alpha):
    with pytest.raises(ValueError, match=r"(successes|alpha): "):
        clopper_pearson(successes, trials, alpha)


def test_epsilon_is_the_logarithm_of_the_ratio_beyond_delta():
    assert epsilon_at_least(0.6, 0.2, 0.0) == pytest.approx(math.log(3))
    assert epsilon_at_least(0.7, 0.2, 0.1) == pytest.approx(math.log(3))
    assert epsilon_at_least(0.1, 0.2, 0.0) == 0
    assert epsilon_at_least(0.1, 0.2, 0.5) == 0


probabilities = st.floats(0, 1)


@given(probabilities, probabilities)
def test_rho_is_the_largest_renyi_divergence_over_its_order(p, q):
    orders = [1.1, 1.5, 2, 4, 16, 64]

    def divergence(order):
        terms = [
            order * math.log(a) + (1 - order) * math.log(b) for a, b in ((p, q), (1 - p, 1 - q)) if a > 0 and b > 0
        ]
        return np.logaddexp.reduce(terms) / (order - 1) / order

    found = float(rho_at_least(p, q))
    if p <= q:
        assert found == 0
    elif q == 0:
        assert found == math.inf
    else:
        assert found >= max(divergence(order) for order in orders) - 1e-9


@given(st.floats(0.01, 3), st.floats(-4, 4))
def test_no_event_of_gaussian_noise_shows_more_than_its_rho(shift, threshold):
    p, q = stats.norm.sf(threshold - shift), stats.norm.sf(threshold)
    assert 0 <= rho_at_least(p, q) <= shift**2 / 2 * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("shift", [0.1, 0.3, 1.0])
def test_the_best_event_of_gaussian_noise_shows_most_of_its_rho(shift):
    thresholds = np.linspace(-3, 3, 601)
    shown = rho_at_least(stats.norm.sf(thresholds - shift), stats.norm.sf(thresholds)).max()
    assert shown >= 0.6 * shift**2 / 2


@given(st.floats(0.01, 0.98), st.floats(0.01, 0.98), st.floats(0, 0.01))
def test_less_certain_bounds_show_less(p, q, slack):
    assert rho_at_least(p - slack, q + slack) <= rho_at_least(p, q) + 1e-12
    assert epsilon_at_least(p - slack, q + slack, 1e-6) <= epsilon_at_least(p, q, 1e-6) + 1e-12


def test_an_alpha_beyond_what_can_be_computed_is_refused():
    with pytest.raises(ValueError, match="alpha: 1e-150 must be at least 1e-100"):
        clopper_pearson(4, 5, 1e-150)
    low, high = clopper_pearson(4, 5, 1e-100)
    assert 0 < low < 0.8 < high <= 1
