"""Log-likelihoods of the dispersions against a plain filter, and whether a choice can be due to rounding."""

import math

import numpy as np
import pytest

from tallytree.solvers.sizes.rates import (
    DISPERSIONS,
    TOGETHER,
    choose_dispersion,
    likeliest_dispersions,
    log_likelihoods,
    size_blocks,
)

RNG = np.random.default_rng
RAW = 1 / 32.0


def noisy_tails(seed, cells):
    rng = RNG(seed)
    tails = np.sort(rng.integers(0, 60, cells))[::-1]
    return tails + np.rint(rng.laplace(0, 4, cells)).astype(np.int64), rng.gamma(0.3, 1, cells + 1) + 1e-6


def plain(values, mu, blocks, kappa):
    """The same filter, cell by cell, each logarithm by itself."""
    found = np.zeros(blocks[-1] + 1)
    mean, variance = float(values[0]), 1 / RAW
    for r in range(1, len(values)):
        mean -= mu[r]
        variance += kappa * mu[r]
        spread = variance + 1 / RAW
        innovation = values[r] - mean
        found[blocks[r]] -= 0.5 * (math.log(spread) + innovation * innovation / spread)
        gain = variance / spread
        mean += gain * innovation
        variance *= 1 - gain
    return found


@pytest.mark.parametrize("cells", [1, 2, 17, 300])
def test_the_likelihood_is_that_of_a_filter_one_logarithm_at_a_time_or_several(cells):
    values, mu = noisy_tails(cells, cells)
    blocks = size_blocks(cells, 1)
    expected = np.array([plain(values, mu, blocks, kappa) for kappa in DISPERSIONS])
    for together in (1, TOGETHER):
        found = np.zeros_like(expected)
        log_likelihoods(values.astype(float), RAW, mu, blocks, DISPERSIONS, found, together)
        if together == 1:
            assert np.array_equal(found, expected)
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_a_dispersion_is_chosen_as_from_single_logarithms(seed):
    values, mu = noisy_tails(seed, 400)
    blocks = size_blocks(400, 1)
    exact = np.array([plain(values, mu, blocks, kappa) for kappa in DISPERSIONS])
    expected, found = np.empty(400), np.empty(401)
    likeliest_dispersions(exact, blocks, DISPERSIONS, expected)
    choose_dispersion(values, RAW, mu, blocks, DISPERSIONS, found)
    assert found[1:400].tolist() == expected[1:].tolist()


def test_products_that_overflow_are_not_used():
    """The spreads of κ = 10^200 have products beyond the greatest double."""
    values, mu = noisy_tails(1, 200)
    blocks, kappas = size_blocks(200, 1), np.array([1.0, 1e200])
    exact = np.array([plain(values, mu, blocks, kappa) for kappa in kappas])
    expected, found = np.empty(200), np.empty(201)
    likeliest_dispersions(exact, blocks, kappas, expected)
    choose_dispersion(values, RAW, mu, blocks, kappas, found)
    assert found[1:200].tolist() == expected[1:].tolist()


@pytest.mark.parametrize(
    ("likelihoods", "clear"),
    [([-1000.0, -900.0], True), ([-1000.0, -1000.0], False), ([-1000.0, -1000.0 - 1e-7], False),
     ([-1000.0, -np.inf], False), ([np.nan, -1000.0], False), ([-1000.0], True)],
)  # fmt: skip
def test_a_choice_is_clear_where_rounding_could_not_have_made_it(likelihoods, clear):
    table, kappas = np.array(likelihoods)[:, None], np.arange(1.0, len(likelihoods) + 1)
    assert likeliest_dispersions(table, np.zeros(3, np.int64), kappas, np.empty(3)) == clear
