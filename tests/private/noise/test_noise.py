import math
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from tallytree.accounting import scales
from tallytree.accounting.scales import next_float, representable
from tallytree.private.noise import discrete as noise
from tallytree.private.noise.chacha import opened
from tallytree.private.noise.discrete import (
    discrete_gaussian,
    discrete_laplace,
    gaussian_at,
    laplace_at,
    opendp_gaussian,
    opendp_laplace,
)
from tallytree.private.noise.entropy import derive, key_from_seed
from tallytree.private.noise.sampler_by_scale import sampler_of_laplace

KEY = key_from_seed(2020)
DRAWS = 400_000
SCALES = [Fraction(3, 10), Fraction(1), Fraction(3), Fraction(41, 2), Fraction(600), Fraction(2000)]
LARGEST = 2**40
GOLDEN = {
    ("discrete_laplace", 3): [-5, 1, -2, 8, 1, -3, -5, -2, 0, 2, 1, -1],
    ("discrete_laplace", 10_000): [-12109, 946, -7173, -4213, -19459, -22160, -625, 8919, 370, -2155, 11155, 35420],
    ("discrete_gaussian", 3): [-2, -2, -1, 1, -1, 0, -1, 1, 4, 2, 4, 0],
    ("discrete_gaussian", 10_000): [4551, 7529, -6743, 25657, 8548, 4251, -14166, 4014, -9310, 6574, 9028, -6227],
}

both = pytest.mark.parametrize("draw", [discrete_laplace, discrete_gaussian])
both_at = pytest.mark.parametrize(
    ("draw", "draw_at"), [(discrete_laplace, laplace_at), (discrete_gaussian, gaussian_at)], ids=["laplace", "gaussian"]
)


# The distribution


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


@pytest.mark.needs("opendp")
@pytest.mark.parametrize(
    ("draw", "oracle"),
    [(discrete_laplace, opendp_laplace), (discrete_gaussian, opendp_gaussian)],
    ids=["laplace", "gaussian"],
)
@pytest.mark.parametrize("scale", [pytest.param(Fraction(3, 10), marks=pytest.mark.slow), Fraction(5)])
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


# Keys, addresses, cells


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


# The scale that is used


@pytest.mark.parametrize(
    "scale",
    [
        1,
        2,
        Fraction(3, 2),
        Fraction(1, 3),
        10,
        Decimal("0.1"),
        Fraction(1, 1000),
        10**9,
        0.5,
        2.0**-8,
        Fraction(355, 113),
    ],
)
def test_a_simple_scale_is_used_as_it_is(scale):
    assert representable(scale) == Fraction(scale)
    assert type(representable(scale)) is Fraction


@pytest.mark.parametrize("scale", [0.1, 0.3, math.pi, math.sqrt(2) * 1e6, 1e9 / 3, 0.001 * math.e, 999_999_999.999])
def test_another_scale_is_rounded_up_a_little(scale):
    used = representable(scale)
    assert Fraction(scale) <= used <= Fraction(scale) * (1 + Fraction(1, 2**30))
    assert max(used.numerator, used.denominator) <= LARGEST
    assert representable(used) == used


def test_a_thousand_scales_are_rounded_up_a_little():
    rng = np.random.default_rng(5)
    for scale in 10 ** rng.uniform(-3, 9, 1000):
        test_another_scale_is_rounded_up_a_little(float(scale))


@pytest.mark.parametrize("largest", [12, 13, 17])
def test_the_scale_used_is_the_smallest_that_fits(monkeypatch, largest):
    """Against the list of all fractions, with a bound small enough to have one."""
    monkeypatch.setattr(scales, "MAX_PART", largest)
    fractions = sorted({Fraction(p, q) for p in range(1, largest + 1) for q in range(1, largest + 1)})
    rng = np.random.default_rng(largest)
    between = [Fraction(x) for x in np.exp(rng.uniform(-math.log(largest), math.log(largest), 500))]
    for scale in fractions + between:
        assert representable(scale) == min(fraction for fraction in fractions if fraction >= scale)


@both
@pytest.mark.parametrize("scale", [0.3, math.pi, 0.1, np.float64(7.7), np.int64(9), Decimal("2.5")])
def test_the_scale_drawn_at_is_the_representable_one(draw, scale):
    np.testing.assert_array_equal(draw(scale, 50, KEY), draw(representable(scale), 50, KEY))


@pytest.mark.needs("opendp")
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


@pytest.mark.needs("opendp")
def test_opendp_draws_afresh_across_its_chunks(monkeypatch):
    monkeypatch.setattr(noise, "_OPENDP_CHUNK", 100)
    values = opendp_laplace(1000, 250)
    assert values.shape == (250,)
    assert np.count_nonzero(values) > 240
    assert not np.array_equal(values[:100], values[100:200])
    assert opendp_gaussian(1, 0).shape == (0,)


# What users get wrong


@pytest.fixture(params=["scale", "sigma"])
def by_scale(request):
    """The argument's name, and every function that takes it."""
    if request.param == "scale":
        calls = [
            lambda s: discrete_laplace(s, 1, KEY),
            lambda s: laplace_at(s, KEY, (), [0]),
            lambda s: opendp_laplace(s, 1),
        ]
    else:
        calls = [
            lambda s: discrete_gaussian(s, 1, KEY),
            lambda s: gaussian_at(s, KEY, (), [0]),
            lambda s: opendp_gaussian(s, 1),
        ]
    return request.param, calls


@pytest.mark.parametrize(
    "scale",
    [
        0,
        0.0,
        -1,
        -0.5,
        Fraction(-1, 3),
        math.nan,
        math.inf,
        -math.inf,
        Decimal("nan"),
        Decimal("sNaN"),
        Decimal("-inf"),
    ],
)
def test_a_scale_is_positive_and_finite(by_scale, scale):
    name, calls = by_scale
    for call in calls:
        with pytest.raises(ValueError, match=rf"{name} must be positive and finite, got {scale}; "):
            call(scale)


@pytest.mark.parametrize("scale", [True, np.True_, "1", None, 1j, np.array([1.0]), [1]])
def test_a_scale_is_a_number(by_scale, scale):
    name, calls = by_scale
    for call in calls:
        with pytest.raises(TypeError, match=rf"{name} must be an int, float, Decimal or Fraction, got "):
            call(scale)


@pytest.mark.parametrize("scale", [Fraction(1, 1001), 1e-9, 10**9 + 1, 1e300, Fraction(10**9) + Fraction(1, 10**30)])
def test_a_scale_is_within_the_range_that_is_exact(by_scale, scale):
    name, calls = by_scale
    for call in calls:
        with pytest.raises(ValueError, match=rf"{name} must lie between 0.001 and 1e\+09, got .*; change the budget"):
            call(scale)


def test_representable_names_its_argument():
    with pytest.raises(ValueError, match="scale must be positive and finite, got -1; "):
        representable(-1)


@pytest.fixture(params=[discrete_laplace, discrete_gaussian, opendp_laplace, opendp_gaussian])
def by_size(request):
    return (lambda n: request.param(1, n)) if "opendp" in request.param.__name__ else lambda n: request.param(1, n, KEY)


def test_a_size_is_not_negative(by_size):
    with pytest.raises(ValueError, match="size must be at least 0, got -1; give the number of cells"):
        by_size(-1)


@pytest.mark.parametrize("size", [10**12, 2**63, 10**30])
def test_a_size_beyond_memory_is_refused(by_size, size):
    with pytest.raises(MemoryError, match=rf"size {size} takes .* GiB, more than this machine has; draw part after"):
        by_size(size)


@both
@pytest.mark.parametrize(("threads", "error"), [(0, ValueError), (-1, ValueError), (1.0, TypeError), (True, TypeError)])
def test_threads_are_a_positive_number(draw, threads, error):
    with pytest.raises(error, match=rf"threads must be .*, got {threads}; give the number of threads, or None for all"):
        draw(1, 1, KEY, threads=threads)


@pytest.mark.parametrize("size", [1.0, True, "1", None, (2, 3)])
def test_a_size_is_an_int(by_size, size):
    with pytest.raises(TypeError, match="size must be an int, got .*; give the number of cells"):  # noqa: RUF043
        by_size(size)


@both
def test_a_key_is_32_bytes_and_is_never_shown(draw):
    with pytest.raises(ValueError, match="key must be 32 bytes long, got 6; take one from fresh_key") as short:
        draw(1, 1, b"secret")
    with pytest.raises(TypeError, match="key must be bytes, got str; take one from fresh_key") as text:
        draw(1, 1, "secret" * 5 + "!!")
    assert "secret" not in str(short.value) + str(text.value)


@both
def test_an_address_is_a_tuple_of_strings_and_ints(draw):
    with pytest.raises(TypeError, match=r"address must be a tuple of str and int, got 'ab'; write \('ab',\)"):
        draw(1, 1, KEY, "ab")
    with pytest.raises(TypeError, match=r"address takes str and int, got 1.5; convert it"):
        draw(1, 1, KEY, (1.5,))


@pytest.mark.parametrize("draw_at", [laplace_at, gaussian_at])
@pytest.mark.parametrize(
    ("cells", "error", "message"),
    [
        ([3, -1], ValueError, r"cells must lie between 0 and 2\^63 - 1, got -1; number the cells from 0"),
        (np.array([2**63], np.uint64), ValueError, rf"cells must lie between 0 and 2\^63 - 1, got {2**63}; number"),
        ([[1, 2]], ValueError, r"cells must have one dimension, got shape \(1, 2\); give a flat list"),
        (5, ValueError, r"cells must have one dimension, got shape \(\); give a flat list"),
        ([0.5], TypeError, r"cells must be integers, got dtype float64; give indices as int64"),
        ([True], TypeError, r"cells must be integers, got dtype bool; give indices as int64"),
        (["a"], TypeError, r"cells must be integers, got dtype <U1; give indices as int64"),
    ],
)
def test_cells_are_indices(draw_at, cells, error, message):
    with pytest.raises(error, match=message):
        draw_at(1, KEY, (), cells)


@pytest.mark.parametrize("oracle", [opendp_laplace, opendp_gaussian])
def test_a_missing_opendp_is_named(monkeypatch, oracle):
    monkeypatch.setitem(sys.modules, "opendp", None)
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(ModuleNotFoundError, match=r"OpenDP is not installed: pip install tallytree\[opendp\]"):
        oracle(1, 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda key: discrete_laplace(1.0, key, 10),
        lambda key: discrete_laplace(1.0, 10, key, key),
        lambda key: laplace_at(1.0, key, key, [1]),
        lambda key: discrete_laplace(1.0, 10, key, (key,)),
        lambda key: discrete_laplace(key, 10, key),
        lambda key: discrete_laplace(1.0, 10, key, threads=key),
        lambda key: key_from_seed(key),
    ],
)
def test_a_key_that_came_to_the_wrong_place_is_not_shown(call):
    key = b"secret-secret-secret-secret-1234"
    with pytest.raises(TypeError) as caught:
        call(key)
    assert "secret" not in str(caught.value)
