"""Noise from OpenDP: the same distribution, the scale that it is given, and what is said where it is absent."""

import math
import sys
from fractions import Fraction
from importlib.util import find_spec

import numpy as np
import pytest
from scipy import stats

from helpers.inside import next_float
from tallytree.private.noise import discrete as noise
from tallytree.private.noise.discrete import discrete_gaussian, discrete_laplace, opendp_gaussian, opendp_laplace
from tallytree.private.noise.entropy import key_from_seed

KEY = key_from_seed(2020)


needs_opendp = pytest.mark.skipif(find_spec("opendp") is None, reason="OpenDP, an optional extra, is not installed")


@pytest.mark.slow
@needs_opendp
@pytest.mark.parametrize(
    ("draw", "oracle"),
    [(discrete_laplace, opendp_laplace), (discrete_gaussian, opendp_gaussian)],
    ids=["laplace", "gaussian"],
)
@pytest.mark.parametrize("scale", [Fraction(3, 10), Fraction(5)])
def test_opendp_draws_the_same_distribution(draw, oracle, scale):
    """n = 110,000 of each, ours with a fixed key. A scale wrong by 6 % has noncentrality >= 150: power above 0.99.

    OpenDP's draws differ at every run, so the bound is 1e-9: a false alarm in 10^9 runs.
    """
    size = 110_000
    ours, theirs = draw(scale, size, KEY), oracle(scale, size)
    assert (theirs.dtype, theirs.shape) == (np.int64, (size,))

    def p_value(ours):
        reach = max(1, math.ceil(2 * scale))
        table = [
            np.bincount(np.clip(values, -reach, reach) + reach, minlength=2 * reach + 1) for values in (ours, theirs)
        ]
        return stats.chi2_contingency(table).pvalue

    assert p_value(ours) > 1e-9
    assert p_value(draw(scale * Fraction(106, 100), size, KEY)) < 1e-9


@needs_opendp
@pytest.mark.parametrize(("oracle", "maker"), [(opendp_laplace, "make_laplace"), (opendp_gaussian, "make_gaussian")])
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(2, 3), 0.1, 1, Fraction(10**9, 7)])
def test_opendps_scale_is_the_next_float_that_is_not_smaller(monkeypatch, oracle, maker, scale):
    import opendp.prelude as dp

    used = []
    make = getattr(dp.m, maker)

    def spy(domain, metric, scale):
        used.append(scale)
        return make(domain, metric, scale)

    monkeypatch.setattr(dp.m, maker, spy)
    oracle(scale, 1)
    assert Fraction(math.nextafter(used[0], 0)) < Fraction(scale) <= Fraction(used[0]) == next_float(scale)


@needs_opendp
def test_opendp_draws_afresh_across_its_chunks(monkeypatch):
    monkeypatch.setattr(noise, "_OPENDP_CHUNK", 100)
    values = opendp_laplace(1000, 250)
    assert values.shape == (250,)
    assert np.count_nonzero(values) > 240
    assert not np.array_equal(values[:100], values[100:200])
    assert opendp_gaussian(1, 0).shape == (0,)


@pytest.mark.parametrize("oracle", [opendp_laplace, opendp_gaussian])
def test_a_missing_opendp_is_named(monkeypatch, oracle):
    monkeypatch.setitem(sys.modules, "opendp", None)
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(
        ModuleNotFoundError,
        match=r'"opendp" needs OpenDP, .*pip install "tallytree\[opendp\]"',
    ):
        oracle(1, 1)
