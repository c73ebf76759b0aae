"""The distribution of noise: against its mass function, its moments and its tails, with the power of every test."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from tallytree.private.noise.discrete import discrete_gaussian, discrete_laplace, opendp_laplace
from tallytree.private.noise.entropy import key_from_seed

KEY = key_from_seed(2020)
DRAWS = 400_000
SCALES = [Fraction(3, 10), Fraction(1), Fraction(3), Fraction(41, 2), Fraction(600), Fraction(2000)]

both = pytest.mark.parametrize("draw", [discrete_laplace, discrete_gaussian])


def exact_mass(draw, scale):
    """P(X = k) for k = -reach..reach, normalised over them; what lies outside is below 1e-10 of the whole."""
    with mpmath.workdps(30):
        if draw in (discrete_laplace, opendp_laplace):
            ratio = mpmath.exp(-1 / mpmath.mpf(scale.numerator) * scale.denominator)
            half = [mpmath.mpf(1)]
            for _ in range(math.ceil(25 * scale)):
                half.append(half[-1] * ratio)
        else:
            width = 2 * mpmath.mpf(scale.numerator) ** 2 / mpmath.mpf(scale.denominator) ** 2
            half = [mpmath.exp(-(k**2) / width) for k in range(math.ceil(7 * scale) + 1)]
        whole = half[:0:-1] + half
        total = mpmath.fsum(whole)
        return np.array([float(mass / total) for mass in whole])


def chi_square_p(values, mass):
    """The p-value of Pearson's test of `values` against `mass`, in cells of about 1/60 of the mass or one value each.

    With cells this fine hardly any of the scale's information is lost: n values at a scale wrong by a share h have
    noncentrality of about n·h²·I, with I = 1 (Laplace) or 2 (Gaussian) at large scales and 0.8 or 0.95 at 0.3.
    """
    reach = mass.size // 2
    counts = np.bincount(np.clip(values, -reach, reach) + reach, minlength=mass.size)
    observed, expected, first = [], [], 0
    for end in range(1, mass.size + 1):
        share = mass[first:end].sum()
        heavy_next = end == mass.size or mass[end] >= 1 / 60
        if share >= 1 / 60 or (heavy_next and share * values.size >= 20):
            observed.append(counts[first:end].sum())
            expected.append(share * values.size)
            first = end
    observed[-1] += counts[first:].sum()
    return stats.chisquare(observed, np.array(expected) * values.size / sum(expected)).pvalue


@both
@pytest.mark.parametrize("scale", SCALES)
def test_draws_follow_the_mass_function_and_a_scale_wrong_by_2_percent_does_not(draw, scale):
    """n = 400,000, fixed key. A wrong sampler has noncentrality >= 120, so p < 1e-6 with a power above 0.999."""
    mass = exact_mass(draw, scale)
    assert chi_square_p(draw(scale, DRAWS, KEY), mass) > 1e-3
    for wrong in (scale * Fraction(100, 102), scale * Fraction(102, 100)):
        assert chi_square_p(draw(wrong, DRAWS, KEY), mass) < 1e-6


@both
@pytest.mark.parametrize("scale", [Fraction(1, 100), Fraction(1, 10), Fraction(3, 4), Fraction(7, 5)])
def test_draws_at_small_scales_follow_the_mass_function(draw, scale):
    """n = 400,000, fixed key: a probability of zero that is wrong by 0.005 is seen with a power above 0.98."""
    mass, values = exact_mass(draw, scale), draw(scale, DRAWS, KEY)
    for k in (-1, 0, 1):
        probability = mass[mass.size // 2 + k]
        assert stats.binomtest(int((values == k).sum()), DRAWS, probability).pvalue > 1e-4


def rounded_continuous(draw, scale, rng):
    continuous = rng.laplace if draw is discrete_laplace else rng.normal
    return np.rint(continuous(scale=float(scale), size=DRAWS)).astype(np.int64)


def sign_times_magnitude(draw, scale, rng):
    """Give every magnitude that the one-sided distribution draws a sign, zero included: zero is counted twice."""
    mass = exact_mass(draw, scale)
    reach = mass.size // 2
    one_sided = mass[reach:] / mass[reach:].sum()
    return rng.choice(np.arange(reach + 1), size=DRAWS, p=one_sided) * rng.choice([-1, 1], size=DRAWS)


@both
@pytest.mark.parametrize("wrong", [rounded_continuous, sign_times_magnitude])
@pytest.mark.parametrize("scale", [Fraction(3, 10), Fraction(1), Fraction(2)])
def test_the_test_rejects_samplers_that_are_only_nearly_right(draw, wrong, scale):
    """n = 400,000, fixed seed. A Gaussian of 2, rounded, has 2 % more variance: noncentrality 80; the others more."""
    assert chi_square_p(wrong(draw, scale, np.random.default_rng(7)), exact_mass(draw, scale)) < 1e-6


@both
@pytest.mark.parametrize("scale", [Fraction(10**4), Fraction(10**6), Fraction(10**9), Fraction(355, 113) * 10**6])
def test_moments_at_large_scales(draw, scale):
    """n = 400,000, fixed key, bounds of 5 standard deviations: a scale wrong by 2 % fails with a power above 0.99."""
    values = draw(scale, DRAWS, KEY) / float(scale)
    # In units of the scale: the variance, and the standardised 4th moment with the variance of its estimate, times n.
    variance, kurtosis, kurtosis_noise = (2, 6, 1188) if draw is discrete_laplace else (1, 3, 24)
    assert abs(values.mean()) < 5 * math.sqrt(variance / DRAWS)
    assert abs(values.var() / variance - 1) < 5 * math.sqrt((kurtosis - 1) / DRAWS)
    assert abs(stats.kurtosis(values, fisher=False) - kurtosis) < 5 * math.sqrt(kurtosis_noise / DRAWS)
    assert stats.binomtest(int((values > 0).sum()), int((values != 0).sum())).pvalue > 1e-4


@both
@pytest.mark.parametrize("scale", [Fraction(1), Fraction(41, 2), Fraction(10**6)])
def test_tails(draw, scale):
    """n = 400,000, fixed key. A tail expects 54-98 draws: one that is twice as heavy fails with a power above 0.98."""
    values = draw(scale, DRAWS, KEY)
    for sides in (values, -values):
        if draw is discrete_laplace:
            edge = math.ceil(8 * scale)
            ratio = math.exp(-1 / scale)
            tail = ratio**edge / (1 + ratio)
        else:
            edge = math.ceil(Fraction(7, 2) * scale)
            near = np.arange(edge, edge + math.ceil(6 * scale))
            tail = (np.exp(-((near / float(scale)) ** 2) / 2) / float(scale) / math.sqrt(2 * math.pi)).sum()
        assert stats.binomtest(int((sides >= edge).sum()), DRAWS, tail).pvalue > 1e-4
