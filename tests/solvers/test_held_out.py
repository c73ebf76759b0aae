"""How large posterior variances are found to be, beside errors that are known since the numbers are made up."""

import numpy as np
import pytest

from tallytree.solvers.held_out import LAPLACE, LEAST_TOLD, held_out_part
from tallytree.solvers.laws import WITH_PRIOR, learned_laws
from tallytree.solvers.posteriors import posteriors

RNG = np.random.default_rng
CELLS = 300


def cells(seed, laplace, s, noisy):
    """True numbers, estimates, M and s of cells that have hardly changed since the prior, which may be noisy itself."""
    rng = RNG(seed)
    noise = (lambda: rng.laplace(0, s / np.sqrt(2), CELLS)) if laplace else (lambda: rng.normal(0, s, CELLS))
    prior = rng.poisson(rng.gamma(1, 1, CELLS) * 100).astype(float)
    true = np.maximum(np.rint(prior * np.exp(0.03 * rng.standard_normal(CELLS))), 0)
    expected = np.maximum(np.rint(prior + noise()), 0) if noisy else prior
    return [each[:, None] for each in (true, true + noise(), np.maximum(expected, 0.5))] + [np.full(CELLS, s)]


@pytest.mark.parametrize("noisy", [False, True], ids=["exact prior", "noisy prior"])
@pytest.mark.parametrize("laplace", [False, True], ids=["normal", "laplace"])
def test_the_stated_variance_of_posterior_means_is_that_of_their_errors(laplace, noisy):
    """Root mean squares of 20 runs of 300 cells, with s of 13; their ratio has a standard error of about 0.04."""
    squares, stated = [], []
    for seed in range(20):
        true, y, expected, s = cells(seed, laplace, 13.0, noisy)
        laws = learned_laws(y, expected, s, WITH_PRIOR.no_nearer_than(float(noisy)))
        mean, variance, held = (np.empty(y.shape) for _ in range(3))
        posteriors(y, expected, s, laws.stratum, laws.weights, laws.guarded, laws.parts, mean, variance, held)
        squares.append(np.mean((mean - held - true) ** 2))
        stated.append(held_out_part(y, expected, s, laws, laplace=laplace) * variance.mean())
    assert 0.85 <= np.sqrt(np.mean(stated) / np.mean(squares)) <= 1.25


def test_the_mean_slope_of_any_function_is_that_of_steins_identity_for_laplace_noise():
    """E N g(N) = s² E g'(N + N'), for g = tanh; 16 nodes of N' find it within 5 %."""
    s, n = 2.0, (np.arange(20_000) + 0.5) / 20_000
    noise = -np.sign(n - 0.5) * np.log(1 - 2 * np.abs(n - 0.5)) * s / np.sqrt(2)
    slope = np.mean([1 - np.tanh(noise + s * step) ** 2 for step in LAPLACE])
    assert np.mean(noise * np.tanh(noise)) == pytest.approx(s**2 * slope, rel=0.05)
    assert np.mean(LAPLACE) == pytest.approx(0, abs=1e-12)
    assert np.mean(LAPLACE**2) == pytest.approx(1)


def test_a_few_cells_tell_nothing():
    _, y, expected, s = (each[: LEAST_TOLD - 1] for each in cells(1, True, 13.0, False))
    laws = learned_laws(y, expected, s, WITH_PRIOR, 1)
    assert held_out_part(y, expected, s, laws, laplace=True) == 1.0
