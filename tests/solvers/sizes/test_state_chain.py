"""The posterior of integer chains against recursions over all states, and where the Gaussian chain takes over."""

import numpy as np
import pytest

from tallytree.solvers.sizes.gaussian_chain import smooth
from tallytree.solvers.sizes.state_chain import count_states, drop_masses, posterior

RNG = np.random.default_rng


def all_states(values, scale, mu, dispersion, cap):
    """Means and variances by forward and backward recursions over the states 0 … cap, with Laplace noise."""
    n, states = len(values), np.arange(cap + 1)
    likelihood = np.exp(-np.abs(values[:, None] - states) / scale)
    steps = np.zeros((n, cap + 1, cap + 1))  # [r, later, earlier]
    for r in range(1, n):
        room = np.zeros(1024)
        drop_masses(mu[r], dispersion, room)
        for later in states:
            steps[r, later, later:] = room[: cap + 1 - later]
    after, before = np.ones((n, cap + 1)), np.ones((n, cap + 1))
    for r in range(n - 2, -1, -1):
        after[r] = (after[r + 1] * likelihood[r + 1]) @ steps[r + 1]
        after[r] /= after[r].max()
    for r in range(1, n):
        before[r] = steps[r] @ (before[r - 1] * likelihood[r - 1])
        before[r] /= before[r].max()
    found = after * before * likelihood
    found /= found.sum(axis=1, keepdims=True)
    mean = found @ states
    return mean, found @ states**2 - mean**2


@pytest.mark.parametrize(
    ("dispersion", "rates"),
    [(1.0, (0.0, 0.2)), (1.0, (0.0, 0.0, 3.0)), (4.0, (0.0, 0.7)), (8.0, (1.0, 2.0))],
)
def test_chains_of_any_width_have_the_posterior_of_all_states(dispersion, rates):
    """Rates repeat, are 0 in places, and give from one to some fifty likely drops."""
    rng, n = RNG(3), 40
    mu = np.concatenate([[0.0], np.repeat(rng.choice(rates, n // 4), 4)[: n - 1], [0.0]])
    tails = np.cumsum(rng.poisson(mu[1:n][::-1]))[::-1]
    values = np.append(tails, 0) + np.rint(rng.laplace(0, 2, n)).astype(np.int64)
    kappa = np.concatenate([[np.inf], np.full(n - 1, dispersion), [np.inf]])
    mean, variance = np.empty(n), np.empty(n)
    cap = int(values.max()) + 90
    count_states(values, 2.0, True, mu, kappa, float(cap), mean, variance)
    expected, spread = all_states(values, 2.0, mu, dispersion, cap)
    assert mean == pytest.approx(expected, abs=1e-5)
    assert variance == pytest.approx(spread, abs=1e-4)


@pytest.mark.parametrize("scale", [2.0, 300.0])
def test_what_the_integers_leave_is_that_of_the_gaussian_chain(scale):
    """Drops of great variance break the chain in the middle; of much noise no integer is told apart."""
    rng, n = RNG(5), 30
    mu, kappa = np.full(n + 1, 0.5), np.full(n + 1, 1.0)
    mu[12:18] = 5_000.0
    mu[0] = mu[n] = 0.0
    kappa[0] = kappa[n] = np.inf
    values = np.append(np.cumsum(mu[1:n][::-1])[::-1], 0.0).astype(np.int64) + rng.integers(-3, 4, n)
    mean, variance, gauss, spread = (np.empty(n) for _ in range(4))
    posterior(values, scale, True, np.inf, mu, kappa, mean, variance, np.empty((5, n + 1)))
    smooth(values, scale, True, mu, kappa, gauss, spread, np.empty((5, n + 1)))
    whole, certain = gauss.copy(), spread.copy()
    count_states(values, scale, True, mu, kappa, np.inf, whole, certain)
    left = slice(12, 17) if scale == 2.0 else slice(0, n)
    assert mean[left].tolist() == gauss[left].tolist()
    assert variance[left].tolist() == spread[left].tolist()
    assert mean.tolist() == whole.tolist()
    assert variance.tolist() == np.maximum(certain, 1e-5).tolist()
    assert (mean != gauss).any() == (scale == 2.0)
