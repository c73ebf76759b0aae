"""Probabilities of 0 are corrected by how often noise alone gives such measurements."""

import numpy as np
import pytest

from tallytree.solvers.trees.sparse_prior import recalibrated


def mixture(rng, laplace, *, leaves=200_000, share=0.03, mean=40.0, deviation=10.0):
    """True numbers, measurements, and what a model with the wrong share (a third) and normal noise says."""
    true = np.where(rng.random(leaves) < share, rng.exponential(mean, leaves), 0)
    noise = rng.laplace(0, deviation / np.sqrt(2), leaves) if laplace else rng.normal(0, deviation, leaves)
    y = np.rint(true + noise).astype(np.int64)
    from scipy.special import log_ndtr

    z = y / deviation
    evidence = np.log(deviation / mean) + 0.5 * (z - deviation / mean) ** 2 + 0.9189 + log_ndtr(z - deviation / mean)
    odds = share / 3 / (1 - share / 3) * np.exp(np.minimum(evidence, 600))
    return true, y, 1 / (1 + odds)


@pytest.mark.parametrize("laplace", [False, True])
def test_of_the_nodes_with_a_probability_so_many_are_0(laplace):
    rng = np.random.default_rng(5)
    true, y, zero = mixture(rng, laplace)
    kept = y >= 20
    found = recalibrated(y[kept], zero[kept], y[~kept], 10.0, laplace=laplace)
    for low, high in ((0.1, 0.3), (0.3, 0.6)):
        here = (found >= low) & (found < high)
        assert here.sum() > 200
        assert low - 0.05 < (true[kept][here] == 0).mean() < high + 0.05


def test_the_model_alone_is_off():
    """With a third of the share, cells seem to be 0 more often than they are; with Laplace noise, less often."""
    for laplace, sign in ((False, -1), (True, 1)):
        true, y, zero = mixture(np.random.default_rng(5), laplace)
        here = (zero > 0.3) & (zero < 0.6) & (y >= 20)
        assert sign * ((true[here] == 0).mean() - zero[here].mean()) > 0.1


def test_few_nodes_keep_what_the_model_says():
    zero = np.array([0.2, 0.01])
    assert recalibrated(np.array([30, 40]), zero, np.array([3, -4]), 10.0, laplace=False).tolist() == zero.tolist()
    assert len(recalibrated(np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64), 1.0, laplace=False)) == 0
