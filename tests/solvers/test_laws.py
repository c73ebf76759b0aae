"""Laws and posteriors: against direct sums, and what must always hold."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.solvers import laws
from tallytree.solvers.integer_errors import excess, expected_errors
from tallytree.solvers.laws import BEGIN, GRID, WIDTH, Laws, learned_laws
from tallytree.solvers.posteriors import ALIKE, LOG_RANGE, posteriors

RNG = np.random.default_rng
POWERS = laws.POWERS[1] - laws.POWERS[0] + 1
NORMAL = math.sqrt(2 * math.pi)


def likelihoods(y, expected, s):
    """The density of each y under each part of a law, by the definition in the module's text: (n, ratios + 1)."""
    y, expected, s = (np.asarray(each, dtype=float)[:, None] for each in (y, expected, s))
    middle = GRID * expected
    variance = s**2 + middle + (WIDTH * middle) ** 2
    near = np.exp(-0.5 * (y - middle) ** 2 / variance) / np.sqrt(variance) / NORMAL
    below = np.array([[0.5 * math.erfc(-float(z) / math.sqrt(2))] for z in (y / s)[:, 0]])
    return np.hstack([near, below / (LOG_RANGE * np.maximum(y, s))])


def parts(y, expected, s):
    """The density of each y under each part, and the mean and the variance of x given y and the part."""
    y, expected, s = (np.asarray(each, dtype=float) for each in (y, expected, s))
    middle = GRID * expected[:, None]
    own = middle + (WIDTH * middle) ** 2
    kept = own / (s[:, None] ** 2 + own)
    x = np.column_stack([middle + kept * (y[:, None] - middle), np.maximum(y, 0)])
    return likelihoods(y, expected, s), x, np.column_stack([kept * s[:, None] ** 2, s**2])


def posterior(y, expected, s, weights, careful=None, stratum=None):
    """Mean, variance, held of (areas, cells)."""
    shape = np.shape(y)
    found = tuple(np.full(shape, np.nan) for _ in range(3))
    weights = np.atleast_2d(weights)
    posteriors(
        np.asarray(y, dtype=float),
        np.asarray(expected, dtype=float),
        np.asarray(s, dtype=float),
        np.zeros(POWERS, dtype=np.int64) if stratum is None else stratum,
        weights,
        weights if careful is None else np.atleast_2d(careful),
        laws.ALONE,
        *found,
    )
    return found


def random_law(rng):
    weights = rng.dirichlet(np.full(len(GRID) + 1, 0.2)) + 1e-6
    return weights / weights.sum()


# --- Posteriors ---


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.floats(-3, 5), st.floats(-2, 4))
def test_a_posterior_is_the_direct_sum_over_the_mixture(seed, log_expected, log_s):
    rng = RNG(seed)
    expected = 10**log_expected * rng.gamma(1, 1, (4, 7)) + 1e-6
    s = 10**log_s * rng.gamma(2, 1, 4) + 1e-3
    y = expected * rng.gamma(0.5, 2, (4, 7)) + rng.normal(0, 1, (4, 7)) * s[:, None]
    weights, careful = random_law(rng), random_law(rng)
    mean, variance, held = posterior(y, expected, s, weights, careful)
    flat = y.ravel(), expected.ravel(), np.repeat(s, 7)
    like, x, square = parts(*flat)
    of_law, of_careful = like * weights, like * careful
    of_law, of_careful = (each / each.sum(axis=1, keepdims=True) for each in (of_law, of_careful))
    first = (of_law * x).sum(axis=1)
    second = (of_law * ((x - first[:, None]) ** 2 + square)).sum(axis=1)
    near = np.clip((of_careful * x).sum(axis=1), flat[0] - 2 * flat[2], flat[0] + 2 * flat[2]).clip(0)
    # Parts that are alike count as one, which moves a mean by less than a thousandth of a standard deviation.
    apart = expected.ravel() > ALIKE[0] / GRID[1] * flat[2]
    scale, near_enough = np.maximum(np.abs(flat[0]), flat[2]), np.where(apart, 0.0, 1e-3 * flat[2])
    assert (np.abs(mean.ravel() - near) < 1e-9 * scale + near_enough).all()
    assert (np.abs(variance.ravel() - second) < 1e-8 * scale**2 + near_enough * flat[2]).all()
    assert (np.abs(held.ravel() - (near - first)) < 1e-9 * scale + near_enough).all()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.floats(-3, 9), st.floats(-3, 9))
def test_no_mean_is_far_from_its_estimate_or_negative(seed, log_expected, log_s):
    rng = RNG(seed)
    s = np.full(3, 10**log_s)
    expected = 10**log_expected * rng.gamma(0.5, 2, (3, 50))
    y = rng.normal(0, 5, (3, 50)) * s[:, None] + expected * rng.gamma(0.1, 10, (3, 50))
    y[0, :3] = -1e4 * s[0], 1e9, 0.0
    found = learned_laws(y, expected, s)
    mean, variance, held = posterior(y, expected, s, found.weights, found.guarded, found.stratum)
    assert all(np.isfinite(each).all() for each in (mean, variance, held))
    assert (mean >= 0).all()
    assert (variance >= 0).all()
    possible = expected > 0
    assert (np.abs(mean - np.maximum(y, 0))[possible] <= 2.0 * s[0] * (1 + 1e-9) + 1e-12 * np.abs(y)[possible]).all()


def test_limits_of_posteriors():
    law = BEGIN.copy()
    mean, variance, held = posterior([[3.0, -2.0, 5.0]], [[0.0, 0.0, 0.0]], [1.0], law)
    assert not np.any([mean, variance, held])  # M = 0: known to be 0
    mean, variance, held = posterior([[3.0, -2.0]], [[4.0, 4.0]], [0.0], law)
    assert mean.tolist() == [[3.0, 0.0]]  # s = 0: the estimate is exact
    assert not np.any([variance, held])
    mean, variance, _ = posterior([[1e9, 1e9 + 500.0]], [[1e9, 1e9]], [100.0], law)
    assert (np.abs(mean - [1e9, 1e9 + 500]) <= 200).all()
    assert ((variance > 0) & (variance <= 100.0**2)).all()


def test_only_the_outlier_is_its_estimate():
    """By hand: with all weight on it, x is y, and its variance s²; below 0 it is 0."""
    weights = np.zeros(len(GRID) + 1)
    weights[-1] = 1.0
    mean, variance, held = posterior([[7.0, -1.0]], [[2.0, 2.0]], [3.0], weights)
    np.testing.assert_allclose(mean, [[7.0, 0.0]])
    np.testing.assert_allclose(variance, [[9.0, 9.0]])
    np.testing.assert_allclose(held, 0.0, atol=1e-12)


# --- Laws ---


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(-1, 3), st.floats(-1, 2))
def test_no_round_lowers_the_likelihood_with_its_prior(seed, log_expected, log_s):
    """EM: Σ log Σ_k w_k f_k(y) + PRIOR · Σ_k BEGIN_k log w_k never falls."""
    rng = RNG(seed)
    n = 200
    expected, s = 10**log_expected * rng.uniform(1, 2, n), 10**log_s * rng.uniform(1, 2, n)
    y = rng.poisson(expected * rng.gamma(1, 1, n)) + rng.normal(0, 1, n) * s
    like = likelihoods(y, expected, s)
    before = -np.inf
    for rounds in range(0, 40, 3):
        weights = laws.law(y, expected, s, laws.ALONE, rounds)
        assert weights.sum() == pytest.approx(1)
        assert (weights > 0).all()
        now = np.log(like @ weights).sum() + laws.PRIOR * (BEGIN * np.log(weights)).sum()
        assert now >= before - 1e-6 * n
        before = now
    np.testing.assert_array_equal(laws.law(y, expected, s, laws.ALONE, 0), BEGIN)


def fitted_variance(seed, claimed):
    """The variance of r by the law of 20,000 cells with r of variance 0.25 about 1, whose s is claimed to be some."""
    rng = RNG(seed)
    n, s = 20_000, 20.0
    expected = np.full(n, 100.0)
    y = rng.poisson(expected * rng.gamma(4, 1 / 4, n)) + rng.normal(0, s, n)
    weights = laws.law(y, expected, np.full(n, claimed), laws.ALONE, 300)[:-1]
    weights = weights / weights.sum()
    mean = (weights * GRID).sum()
    return mean, (weights * ((GRID - mean) ** 2 + (WIDTH * GRID) ** 2)).sum()


def test_a_known_law_is_recovered():
    """r is gamma with the mean 1 and the variance 1/4, s = 20, M = 100. A claimed s that is wrong by 20 % moves the
    variance of r by 0.44 · 0.04 = 0.018; the standard error of the estimate is 0.004 (20,000 cells), so ±0.009 is left
    by chance with probability 0.02 and a wrong s stays within it with probability 0.02. The seed is fixed."""
    mean, variance = fitted_variance(1, 20.0)
    assert abs(mean - 1) < 0.02
    assert abs(variance - 0.25) < 0.009
    _, wrong = fitted_variance(1, 24.0)
    assert abs(wrong - 0.25) > 0.009


def test_few_cells_have_no_law():
    rng = RNG(0)
    y, expected, s = rng.poisson(20.0, (3, 13)).astype(float), np.full((3, 13), 20.0), np.full(3, 2.0)
    assert learned_laws(y, expected, s) is None  # 39 cells
    y, expected = np.hstack([y, y[:, :1]]), np.hstack([expected, expected[:, :1]])
    assert isinstance(learned_laws(y, expected, s), Laws)  # 42
    assert learned_laws(y, expected, np.array([2.0, 2.0, 0.0])) is None  # of an area that is exact nothing is learned
    assert learned_laws(y, np.zeros_like(y), s) is None  # all are known to be 0


def test_strata_have_enough_cells_and_every_power_has_one():
    """By hand: 45 cells with M in 1-2, 5 in 4-8, 50 in 64-128. The 5 are joined to the next."""
    expected = np.concatenate([np.full(45, 1.5), np.full(5, 5.0), np.full(50, 100.0)])[None]
    found = learned_laws(expected.copy(), expected, np.array([1.0]))
    assert found.weights.shape == (2, len(GRID) + 1)
    at = {m: int(found.stratum[math.floor(math.log2(m)) - laws.POWERS[0]]) for m in (0.01, 1.5, 5.0, 100.0)}
    assert at == {0.01: 0, 1.5: 0, 5.0: 1, 100.0: 1}
    assert found.stratum[-1] == 1


@pytest.mark.parametrize("value", [0.0, 1e9])
def test_all_alike(value):
    """Cells that are all 0, or all 10⁹, are pooled to far less than their noise."""
    rng = RNG(5)
    s = np.full(20, 10.0)
    y, expected = value + rng.normal(0, 10, (20, 30)), np.full((20, 30), max(value, 0.5))
    found = learned_laws(y, expected, s)
    mean, variance, _ = posterior(y, expected, s, found.weights, found.guarded, found.stratum)
    error = np.sqrt(((mean - value) ** 2).mean())
    assert error < (3.0 if value == 0 else 10.5)
    assert laws.PARTS[0] <= found.part <= laws.PARTS[1]
    assert (variance <= 100.0 * 1.01).all()


# --- The guard ---


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.floats(-1, 4), st.floats(-1, 3))
def test_a_guarded_law_limits_the_error_at_every_ratio(seed, log_expected, log_s):
    """The risk of the posterior mean at a true r·M, by a direct sum over the nodes of the noise, is GUARDED·s² at most,
    or as much is added as may be. The rounds may end a fifth above that."""
    rng = RNG(seed)
    weights = rng.dirichlet(np.full(len(GRID) + 1, rng.choice([0.02, 0.5]))) * 0.7 + 0.3 * BEGIN
    m, s = 10**log_expected, 10**log_s
    found = laws.guarded(weights, m, s, laws.ALONE)
    assert found.sum() == pytest.approx(1)
    added = 1 - (found / weights).min()
    assert laws.LEAST_OUTLIER * 0.99 < added < laws.MOST_GUARDED + 1e-9
    if added > laws.MOST_GUARDED - 1e-9:
        return
    nodes, node_weights = np.polynomial.hermite_e.hermegauss(len(laws.NODES))
    for ratio in GRID:
        y = ratio * m + s * nodes
        like, x, _ = parts(y, np.full(len(y), m), np.full(len(y), s))
        mean = (like * found * x).sum(axis=1) / ((like * found).sum(axis=1) + 1e-300)
        assert (node_weights * (mean - ratio * m) ** 2).sum() / NORMAL <= 1.2 * laws.GUARDED * s * s


def test_a_guard_lets_a_unique_cell_be():
    """By hand: all cells are as expected. A cell with 30 times M: the law has no place for it, a guarded one has."""
    weights = np.full(len(GRID) + 1, 1e-9)
    weights[np.argmin(np.abs(GRID - 1))] = 1.0
    weights /= weights.sum()
    careful = laws.guarded(weights, 10.0, 12.0, laws.ALONE)
    rng = RNG(3)
    y = 250.0 + rng.normal(0, 12, (1, 4000))
    mean, _, _ = posterior(y, np.full_like(y, 1.0), [12.0], weights, careful)
    assert abs(mean.mean() - 250.0) < 2 * 12
    assert ((mean - 250) ** 2).mean() < 2.0**2 * 12**2


# --- What integers err by ---


def direct_error(real, variance, published):
    k = np.arange(published - 400, published + 401, dtype=float)
    log = -0.5 * (k - real) ** 2 / variance
    density = np.exp(log - log.max())
    return math.sqrt((density * (k - published) ** 2).sum() / density.sum())


def errors_of(published, real, variance, decided=None, estimates=None, reach=np.inf, integers=True):
    """`expected_errors` of one row."""
    found = np.empty((1, len(real)))
    rows = (real, real if decided is None else decided, variance, real if estimates is None else estimates)
    expected_errors(np.array([published]), *(np.array([row]) for row in rows), reach, integers, found)
    return found[0]


@settings(max_examples=200, deadline=None)
@given(st.floats(-30, 30), st.floats(1e-6, 60.0), st.integers(0, 30))
def test_expected_errors_are_direct_sums_over_integers(real, variance, published):
    found = errors_of([published], [real], [variance])
    assert found[0] == pytest.approx(direct_error(real, variance, published), rel=2e-3, abs=1e-4)


def test_expected_errors_by_hand():
    """Variance 0: the nearest integer is the truth. 0.5 at 3.5: half the mass is at 3, half at 4, and few at 2 and 5.
    100: √(100 + 4²)."""
    found = errors_of([3, 5, 3, 14], [3.2, 3.2, 3.5, 10.0], [0.0, 0.0, 0.01, 100.0])
    np.testing.assert_allclose(found, [0.0, 1.8, math.sqrt(0.5), math.sqrt(116)], rtol=1e-6)


def test_a_number_errs_by_what_its_real_number_missed_and_by_what_it_lies_from_its_estimate():
    """9 was decided as 12: √(9 + 1). 30 above its estimate, of which 20 are believed; a 0 may be 0."""
    published, real, variance = [10, 40, 0], [9.0, 40.0, 0.0], [4.0, 4.0, 4.0]
    found = errors_of(published, real, variance, [12.0, 40.0, 0.0], [9.0, 10.0, 90.0], 20.0, False)
    np.testing.assert_allclose(found, [math.sqrt(10), 10.0, 2.0])


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.floats(0, 1))
def test_an_excess_is_what_rounding_adds_beyond_the_nearest_integers(seed, part):
    real = RNG(seed).normal(0, 20, (3, 5))
    published = np.rint(real).astype(np.int64) + RNG(seed).integers(-1, 2, real.shape)
    direct = ((published - real) ** 2).mean() - part * ((np.rint(real) - real) ** 2).mean()
    assert excess(published, real, part) == pytest.approx(real.size * direct, abs=1e-12)
