"""Variances with uncertain rates are those of the joint Gaussian posterior of tail counts and deviations."""

import mpmath
import numpy as np
import pytest

from tallytree.solvers.sizes.rates import DOUBT, REACH, widen


def widened(noise, mu, dispersion, first_size):
    n = len(mu)
    wide, factor = np.empty(n), np.empty(n)
    widen(noise, mu, dispersion, first_size, wide, factor, np.empty((9, n)))
    return wide, factor


def by_inverse(noise, mu, dispersion, first_size, doubt):
    """Posterior variances of x from the precision matrix of all x and ξ, in 60 digits."""
    n = len(mu)
    with mpmath.workdps(60):
        precision = mpmath.zeros(2 * n)

        def add(weights, variance):
            for i, a in weights.items():
                for j, b in weights.items():
                    precision[i, j] += mpmath.mpf(a) * b / mpmath.mpf(variance)

        add({n: 1}, 1)  # ξ of the first cell
        for r in range(n):
            add({r: 1}, noise)
        for r in range(1, n):
            stay = mpmath.exp(-1 / (mpmath.mpf(REACH) * max(first_size + r, 1)))
            add({n + r: 1, n + r - 1: -stay}, 1 - stay**2)
            add({r - 1: 1, r: -1, n + r: -doubt * mu[r]}, dispersion[r] * mu[r])
        inverse = precision**-1
        return np.array([float(inverse[r, r]) for r in range(n)])


@pytest.mark.parametrize("noise", [0.5, 200.0])
@pytest.mark.parametrize(("largest", "first_size"), [(1e-3, 0), (3.0, 40), (1e4, 0), (1e8, 40)])
def test_variances_are_those_of_the_inverse(noise, largest, first_size):
    rng = np.random.default_rng(1)
    mu = largest * rng.uniform(0.1, 1.0, 12) / np.arange(1.0, 13.0)
    dispersion = rng.choice([0.5, 1.0, 64.0], 12)
    wide, factor = widened(noise, mu, dispersion, first_size)
    known = by_inverse(noise, mu, dispersion, first_size, 0.0)
    expected = by_inverse(noise, mu, dispersion, first_size, DOUBT)
    assert np.allclose(wide, expected, rtol=1e-5)
    assert np.allclose(factor, expected / known, rtol=1e-5)


def test_what_the_cells_tell_by_themselves_is_hardly_widened():
    _, factor = widened(2.0, np.full(50, 1e-3), np.ones(50), 1)
    assert (factor < 1.05).all()
    _, factor = widened(2.0, np.full(50, 1e6), np.ones(50), 1)
    assert (factor < 1.05).all()
    _, factor = widened(1e4, np.full(50, 30.0), np.ones(50), 1)
    assert (factor[5:-5] > 1.5).all()


@pytest.mark.parametrize("dispersion", [1e9, np.inf])
def test_drops_that_are_not_smoothed_leave_each_cell_its_noise(dispersion):
    wide, factor = widened(8.0, np.full(20, 5.0), np.full(20, dispersion), 0)
    assert np.allclose(wide, 8.0)
    assert np.allclose(factor, 1.0)


def test_no_rates_at_all_and_a_single_cell():
    wide, factor = widened(8.0, np.zeros(20), np.ones(20), 1)
    assert np.isfinite(wide).all()
    assert (factor >= 1).all()
    assert widened(8.0, np.zeros(1), np.ones(1), 1)[0].tolist() == [8.0]
