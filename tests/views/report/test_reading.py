"""What a report says of errors follows from all of a level's standard deviations."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import ndtri

from helpers.inside import LISTED_FROM, UNBIASED, reach_of
from tallytree.release.intervals import LevelErrors


def reach(std_devs, **columns):
    """Of numbers far above 0 with these standard deviations."""
    numbers = np.full(len(std_devs), 1_000_000)
    return reach_of(pa.table({"count": numbers, "std_dev": std_devs, **columns}), LevelErrors())


def test_of_equal_errors_the_reach_is_the_normal_quantile():
    assert reach(np.full(7, 300.0)) == pytest.approx(300.0 * ndtri(0.95), rel=0.02)


def test_nine_in_ten_of_unequal_errors_lie_within_the_reach():
    rng = np.random.default_rng(5)
    std_devs = 100 * rng.lognormal(0, 1.5, 20_000)
    errors = rng.normal(size=len(std_devs)) * std_devs
    # The standard error of the share is 0.002; the middle standard deviation would hold 0.73.
    assert abs((np.abs(errors) <= reach(std_devs)).mean() - 0.9) < 0.01
    assert (np.abs(errors) <= ndtri(0.95) * np.median(std_devs)).mean() < 0.8


def test_exact_numbers_count_as_within():
    assert reach(np.zeros(4)) == 0.0
    assert reach(np.append(np.zeros(95), np.ones(5))) == 0.0
    half = reach(np.append(np.zeros(50), np.full(50, 100.0)))
    assert half == pytest.approx(100 * ndtri(0.9), rel=0.05)


@pytest.mark.parametrize(("laplace", "least"), [(True, 500), (False, 330)])
def test_numbers_that_are_listed_for_their_noise_are_farther_off_than_their_standard_deviation_says(laplace, least):
    """Of 99,000 cells that are 0, and 1,000 that are not, those are listed whose measurement is large."""
    rng = np.random.default_rng(6)
    true = np.append(np.zeros(99_000, np.int64), np.ceil(rng.exponential(500, 1_000)).astype(np.int64))
    noise = rng.laplace(0, 100 / np.sqrt(2), len(true)) if laplace else rng.normal(0, 100, len(true))
    noisy = true + np.rint(noise).astype(np.int64)
    listed = noisy >= least
    assert 0.05 < (true[listed] == 0).mean() < 0.15
    columns = {"count": noisy[listed], "std_dev": np.full(listed.sum(), 100.0), UNBIASED: noisy[listed].astype(float)}
    rows = pa.table({**columns, LISTED_FROM: np.full(listed.sum(), float(least))})
    off = np.abs(noisy - true)[listed]
    held = (off <= reach_of(rows, LevelErrors(laplace=laplace))).mean()  # about 500 cells: a standard error of 0.013
    assert 0.87 < held < 0.97
    assert (off <= 100 * ndtri(0.95)).mean() < held - 0.05
