"""Quantiles and expected largest errors, against simulated errors and against the normal and the Laplace laws."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from tallytree.solvers.error_law import BINS, ErrorLaw


def law(variances, single=0.0, nodes=None):
    values = np.asarray(variances, dtype=np.float64)
    return ErrorLaw.of(values, np.full(len(values), float(single)), nodes or len(values), laplace=True)


def test_one_normal_error():
    one = law([4.0])
    assert one.std_dev == 2.0
    assert one.half_width(0.1) == pytest.approx(2 * NormalDist().inv_cdf(0.95), rel=1e-6)
    assert one.expected_maximum == pytest.approx(2 * math.sqrt(2 / math.pi), rel=1e-4)


def test_one_laplace_error():
    one = law([2.0], single=2.0)  # of scale 1
    assert one.half_width(0.1) == pytest.approx(math.log(10), rel=1e-4)
    assert one.expected_maximum == pytest.approx(1.0, rel=1e-3)


def test_gaussian_noise_has_no_laplace_part():
    assert ErrorLaw.of(np.array([4.0]), np.array([4.0]), 10, laplace=False).laplace.tolist() == [0.0]


@pytest.mark.parametrize("part", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("nodes", [1, 30, 400])
def test_the_largest_of_many_errors(part, nodes):
    rng = np.random.default_rng(5)
    errors = np.abs(
        rng.normal(0, math.sqrt(4 * (1 - part)), (4_000, nodes))
        + rng.laplace(0, math.sqrt(4 * part / 2) or 1e-9, (4_000, nodes))
    )
    found = law([4.0], single=4 * part, nodes=nodes)
    largest = errors.max(axis=1)
    assert found.expected_maximum == pytest.approx(largest.mean(), abs=5 * largest.std() / math.sqrt(4_000))
    assert found.half_width(0.1) == pytest.approx(np.quantile(errors, 0.9), rel=0.05)


def test_nodes_of_different_variances_are_put_together():
    variances = np.repeat([1.0, 9.0], 1_000)
    found = law(variances)
    assert len(found.nodes) == BINS
    assert found.std_dev == pytest.approx(math.sqrt(5.0))
    assert found.nodes.sum() == 2_000
    width = found.half_width(0.1)
    tails = [2 * NormalDist(0, sd).cdf(-width) for sd in (1, 3)]
    assert np.mean(tails) == pytest.approx(0.1, abs=1e-6)


def test_public_numbers_have_no_error():
    public = law([0.0, 0.0])
    assert (public.std_dev, public.half_width(0.1), public.expected_maximum) == (0.0, 0.0, 0.0)
