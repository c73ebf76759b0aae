"""Noise is a pure function of scale, key, address and cell, and independent where one of them differs."""

import math
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from helpers.inside import representable
from tallytree.mechanisms import Noise
from tallytree.private.noise import discrete as noise
from tallytree.private.noise.digits import sampler_of_laplace
from tallytree.private.noise.discrete import discrete_gaussian, discrete_laplace, noise_at
from tallytree.private.noise.entropy import derive, key_from_seed, opened

KEY = key_from_seed(2020)
DRAWS = 400_000
GOLDEN = {
    ("discrete_laplace", 3): [-5, 1, -2, 8, 1, -3, -5, -2, 0, 2, 1, -1],
    ("discrete_laplace", 10_000): [-12109, 946, -7173, -4213, -19459, -22160, -625, 8919, 370, -2155, 11155, 35420],
    ("discrete_gaussian", 3): [-2, -2, -1, 1, -1, 0, -1, 1, 4, 2, 4, 0],
    ("discrete_gaussian", 10_000): [4551, 7529, -6743, 25657, 8548, 4251, -14166, 4014, -9310, 6574, 9028, -6227],
}


def laplace_at(scale, *rest, **options):
    return noise_at(Noise("discrete_laplace", scale), *rest, **options)


def gaussian_at(sigma, *rest, **options):
    return noise_at(Noise("discrete_gaussian", sigma), *rest, **options)


both = pytest.mark.parametrize("draw", [discrete_laplace, discrete_gaussian])
both_at = pytest.mark.parametrize(
    ("draw", "draw_at"), [(discrete_laplace, laplace_at), (discrete_gaussian, gaussian_at)], ids=["laplace", "gaussian"]
)


@both_at
@pytest.mark.parametrize("scale", [3, 10_000])
def test_equal_arguments_give_equal_noise_for_ever(draw, draw_at, scale):
    expected = GOLDEN[draw.__name__, scale]
    assert draw(scale, 12, KEY, ("measure", 2)).tolist() == expected
    assert draw_at(scale, KEY, ("measure", 2), range(12)).tolist() == expected


@both_at
def test_noise_depends_on_the_cell_only_whatever_the_subset_and_the_order(draw, draw_at):
    whole = draw(20.5, 2000, KEY, ("level", 1))
    assert whole.dtype == np.int64
    assert whole.shape == (2000,)
    np.testing.assert_array_equal(draw(20.5, 700, KEY, ("level", 1)), whole[:700])
    np.testing.assert_array_equal(
        np.concatenate(
            [draw_at(20.5, KEY, ("level", 1), np.arange(start, start + 100)) for start in range(0, 2000, 100)]
        ),
        whole,
    )
    cells = np.random.default_rng(3).integers(0, 2000, 500)
    np.testing.assert_array_equal(draw_at(20.5, KEY, ("level", 1), cells), whole[cells])
    np.testing.assert_array_equal(draw_at(20.5, KEY, ("level", 1), cells.astype(np.uint16)[::-2]), whole[cells][::-2])
    np.testing.assert_array_equal(draw_at(20.5, KEY, ("level", 1), [7]), whole[7:8])


@both_at
def test_there_may_be_no_cells(draw, draw_at):
    assert draw(1, 0, KEY).shape == (0,)
    assert draw_at(1, KEY, (), []).shape == (0,)
    assert draw_at(1, KEY, (), []).dtype == np.int64


def correlations(one, other):
    """Of the values and of their magnitudes: a shared sign and a shared magnitude are both seen."""
    yield np.corrcoef(one, other)[0, 1]
    yield np.corrcoef(np.abs(one), np.abs(other))[0, 1]


@both
def test_noise_of_other_cells_addresses_keys_scales_and_distributions_is_independent(draw):
    """n = 400,000, fixed keys: a correlation of 0.016 exceeds the bound, 5/√n = 0.008, with a power above 0.999."""
    base = draw(50, DRAWS, KEY, ("a", 1))
    other_distribution = discrete_gaussian if draw is discrete_laplace else discrete_laplace
    others = {
        "address": draw(50, DRAWS, KEY, ("a", 2)),
        "type of address": draw(50, DRAWS, KEY, ("a", "1")),
        "no address": draw(50, DRAWS, KEY),
        "key": draw(50, DRAWS, key_from_seed(2021), ("a", 1)),
        "scale": draw(51, DRAWS, KEY, ("a", 1)),
        "distribution": other_distribution(50, DRAWS, KEY, ("a", 1)),
        "next cell": np.roll(base, 1),
        "cell after next": np.roll(base, 2),
        "cell 256 on": np.roll(base, 256),
    }
    bound = 5 / math.sqrt(DRAWS)
    for name, other in others.items():
        assert all(abs(correlation) < bound for correlation in correlations(base, other)), name
    leaking = others["key"] + 0.016 * base
    assert next(correlations(base, leaking)) > bound


def test_the_key_of_a_stream_is_the_documented_derivation():
    subkey, values = derive(KEY, "noise", "scale", 3, 2, "measure", 2), np.empty(100, np.int64)
    with opened(subkey) as words:
        sampler_of_laplace(Fraction(3, 2)).fill(words, np.arange(100), values)
    np.testing.assert_array_equal(values, discrete_laplace(Fraction(3, 2), 100, KEY, ("measure", 2)))


@both_at
@pytest.mark.parametrize("scale", [3, 10**4])
def test_noise_is_the_same_for_any_number_of_threads_and_any_chunk(monkeypatch, draw, draw_at, scale):
    whole = draw(scale, 300_007, KEY, ("a",), threads=1)
    np.testing.assert_array_equal(draw(scale, 300_007, KEY, ("a",)), whole)
    np.testing.assert_array_equal(draw(scale, 300_007, KEY, ("a",), threads=7), whole)
    backwards = np.arange(300_007)[::-1]
    np.testing.assert_array_equal(draw_at(scale, KEY, ("a",), backwards, threads=3), whole[::-1])
    for chunk in (1009, 2**13):
        monkeypatch.setattr(noise, "_CHUNK", chunk)
        np.testing.assert_array_equal(draw(scale, 300_007, KEY, ("a",), threads=2), whole)


@both
def test_many_threads_of_the_callers_own_get_the_same_noise(draw):
    expected = draw(11, 5000, KEY)
    with ThreadPoolExecutor(8) as pool:
        for values in pool.map(lambda _: draw(11, 5000, KEY), range(40)):
            np.testing.assert_array_equal(values, expected)


def test_an_error_in_a_thread_reaches_the_caller_and_clears_the_key(monkeypatch):
    seen = []

    class Failing:
        def fill(self, key, cells, noise):
            seen.append(key)
            raise RuntimeError("fails")

    monkeypatch.setattr(noise, "sampler_of_laplace", lambda scale: Failing())
    with pytest.raises(RuntimeError, match="fails"):
        discrete_laplace(1, 3 * 2**16, KEY, threads=2)
    assert not seen[0].any()


@both
@pytest.mark.parametrize("scale", [0.3, math.pi, 0.1, np.float64(7.7), np.int64(9), Decimal("2.5")])
def test_the_scale_drawn_at_is_the_representable_one(draw, scale):
    np.testing.assert_array_equal(draw(scale, 50, KEY), draw(representable(scale), 50, KEY))
