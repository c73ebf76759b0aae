"""What a bound leaves out: the estimates, and how often their intervals cover the truth."""

from fractions import Fraction

import numpy as np
import pytest

from helpers.inside import contribution_bins
from tallytree.accounting.left_out import ALPHA, left_out, told_apart
from tallytree.mechanisms import Noise

SILENT = Noise("discrete_laplace", Fraction(1, 64))


def binned(records, bins):
    """The true number of people in each bin."""
    clipped = np.minimum(records, bins[-1][1])
    return np.array([((clipped >= first) & (clipped <= last)).sum() for first, last in bins])


def test_without_noise_and_with_narrow_bins_it_is_exact():
    records, bins = np.array([1, 1, 2, 4, 5, 7]), contribution_bins(2, 8)
    found = left_out(bins, binned(records, bins), SILENT, 2)
    assert found.records.estimate == 10
    assert 9 <= found.records.ci_lower <= 10 <= found.records.ci_upper <= 11  # what noise there is is rounded outward
    assert found.share.estimate == 10 / 20
    assert found.share.ci_lower <= 0.5 <= found.share.ci_upper
    assert found.share.ci_upper - found.share.ci_lower < 0.001


def test_without_noise_the_interval_is_the_width_of_the_bins():
    bins = contribution_bins(1, 1_000)
    middle = next(place for place, (first, _) in enumerate(bins) if first > 100)
    people = np.zeros(len(bins), dtype=np.int64)
    people[middle] = 10
    found = left_out(bins, people, SILENT, 1)
    first, last = bins[middle]
    assert found.records.ci_lower == pytest.approx(10 * (first - 1), abs=1)
    assert found.records.ci_upper == pytest.approx(10 * (last - 1), abs=1)
    assert found.share.ci_lower <= (first - 1) / first
    assert found.share.ci_upper >= (last - 1) / last


def test_the_ends_of_the_share_have_no_more_digits_than_they_are_known_with():
    noise = Noise("discrete_laplace", Fraction(3))
    bins = contribution_bins(7, 30)
    for people in range(100, 1_000, 7):
        share = left_out(bins, np.array([people // (i + 1) for i in range(len(bins))]), noise, 7).share
        assert (share.ci_lower, share.ci_upper) == (round(share.ci_lower, 4), round(share.ci_upper, 4))


def test_nothing_is_told_where_nothing_is_known():
    bins = contribution_bins(3, 1_000)
    loud = Noise("discrete_laplace", Fraction(10_000))
    found = left_out(bins, np.zeros(len(bins), dtype=np.int64), loud, 3)
    assert (found.share.ci_lower, found.share.ci_upper) == (0, 1)
    assert found.records.ci_lower == 0 < found.records.ci_upper
    assert found.share.estimate == 0


def test_noise_in_the_last_bins_is_no_people():
    bins = contribution_bins(1, 1_000)
    noise = Noise("discrete_laplace", Fraction(20))
    people = np.full(len(bins), 20)
    people[:5] = 10_000
    seen = told_apart(bins, people * np.where(np.arange(len(bins)) % 2, -1, 1), noise)
    assert not seen[5:].any()
    assert seen[4] == 10_000
    many = told_apart(bins, people + 200, noise)
    assert (many == people + 200).all()


def misses(rng, records, bound, at_most, noise, runs):
    """How often each end of each interval misses: records too high, too low, share too high, too low."""
    bins = contribution_bins(bound, at_most)
    true, over = binned(records, bins), np.maximum(records - bound, 0).sum()
    share = over / records.sum()
    counted = np.zeros(4, dtype=int)
    for _ in range(runs):
        if noise.distribution == "discrete_laplace":
            q = np.exp(-1 / float(noise.scale))
            drawn = rng.geometric(1 - q, len(bins)) - rng.geometric(1 - q, len(bins))
        else:
            drawn = np.rint(rng.normal(0, float(noise.scale), len(bins))).astype(int)
        found = left_out(bins, true + drawn, noise, bound)
        counted += [
            found.records.ci_lower > over,
            found.records.ci_upper < over,
            found.share.ci_lower > share,
            found.share.ci_upper < share,
        ]
    return counted


@pytest.mark.slow
@pytest.mark.parametrize("law", ["discrete_laplace", "discrete_gaussian"])
@pytest.mark.parametrize(("mean", "at_most"), [(3, 10), (3, 60), (30, 300)])
def test_each_end_misses_no_more_often_than_it_says(law, mean, at_most):
    """Few people, so that the noise counts; 500 runs, 4 standard errors of room."""
    rng = np.random.default_rng(13)
    records = np.minimum(rng.geometric(1 / mean, 3_000), at_most)
    runs = 500
    room = 4 * np.sqrt(ALPHA / 2 * runs)
    found = misses(rng, records, 3, at_most, Noise(law, Fraction(20)), runs)
    assert (found <= ALPHA / 2 * runs + room).all()
    if at_most == 10:  # all bins hold one number, so nothing but the noise makes the interval wide
        assert (found >= ALPHA / 2 * runs / 8).all()
