"""What a report says of errors follows from all of a level's standard deviations."""

import numpy as np
import pytest
from scipy.special import ndtri

from tallytree._report.reading import reach_of


def test_of_equal_errors_the_reach_is_the_normal_quantile():
    assert reach_of(np.full(7, 3.0)) == pytest.approx(3.0 * ndtri(0.95))


def test_nine_in_ten_of_unequal_errors_lie_within_the_reach():
    rng = np.random.default_rng(5)
    std_devs = rng.lognormal(0, 1.5, 200_000)
    errors = rng.normal(size=len(std_devs)) * std_devs
    # The standard error of the share is 0.0007; the middle standard deviation would hold 0.73.
    assert abs((np.abs(errors) <= reach_of(std_devs)).mean() - 0.9) < 0.003
    assert (np.abs(errors) <= ndtri(0.95) * np.median(std_devs)).mean() < 0.8


def test_exact_numbers_count_as_within():
    assert reach_of(np.zeros(4)) == 0.0
    assert reach_of(np.append(np.zeros(95), np.ones(5))) == 0.0
    half = reach_of(np.append(np.zeros(50), np.ones(50)))
    assert half == pytest.approx(ndtri(0.9))
