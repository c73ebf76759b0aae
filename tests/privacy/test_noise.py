import importlib.util
import math
import sys
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction

import mpmath
import numba
import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numba.core.registry import CPUDispatcher
from scipy import stats

from tallytree import kernels
from tallytree.privacy import entropy, noise, scales
from tallytree.privacy.entropy import derive, key_from_seed, open_streams
from tallytree.privacy.noise import (
    discrete_gaussian,
    discrete_laplace,
    gaussian_at,
    laplace_at,
    opendp_gaussian,
    opendp_laplace,
)
from tallytree.privacy.scales import next_float, representable

KEY = key_from_seed(2020)
DRAWS = 400_000
SCALES = [Fraction(3, 10), Fraction(1), Fraction(3), Fraction(41, 2), Fraction(1000)]
LARGEST = 2**40
ROUNDING = 1e-15
GOLDEN = {
    "discrete_laplace": [0, 1, 7, -1, 0, -1, -5, 2, -1, -2, 11, -4],
    "discrete_gaussian": [1, 6, 1, 0, -5, 2, 0, 2, -2, 0, -7, -1],
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


# The kernels, on words that the test chooses


def stream_of(*words):
    """A stream that gives these 63-bit words, then goes on with the key's own."""
    stream = open_streams(bytes(32))
    start = 16 - 2 * len(words)
    stream[start:16] = np.array([word << 1 for word in words], "<u8").view("<u4")
    stream[32] = start
    return stream


def words_read(stream, given):
    return given - (16 - int(stream[32])) // 2


def test_factorial_runs_have_exactly_the_probability_of_inverse_factorials():
    limits = [int(limit) for limit in noise._FACTORIAL_LIMITS]
    assert [Fraction(limit, noise._FACTORIAL_RANGE) for limit in limits] == [
        Fraction(1, math.factorial(k)) for k in range(20)
    ]
    for run in range(1, 19):
        assert noise._factorial_run(stream_of(limits[run] - 1)) == run
        assert noise._factorial_run(stream_of(limits[run + 1])) == run


def test_factorial_runs_go_on_past_one_word():
    never = 2**62
    assert noise._factorial_run(stream_of(0, never)) == 19
    assert noise._factorial_run(stream_of(74, 0, never)) == 20
    assert noise._factorial_run(stream_of(74, 0, 0, 0, never)) == 22
    twentieth = (2**63 - 1) // 20
    assert noise._factorial_run(stream_of(0, twentieth - 1, never)) == 20
    assert noise._factorial_run(stream_of(0, twentieth, never)) == 19


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 2**40 - 1, 2**40, 2**41])
def test_uniform_draws_give_every_value_equally_many_words(bound):
    unit = (2**63 - 1) // bound
    for value in {0, bound // 2, bound - 1}:
        assert noise._uniform(stream_of(value * unit), bound) == value
        assert noise._uniform(stream_of(value * unit + unit - 1), bound) == value
    beyond = min(unit * bound, 2**63 - 1)
    assert noise._uniform(stream_of(beyond, 2**63 - 1, 0), bound) == 0


@pytest.mark.parametrize(
    "fraction", [(0, 1), (1, 1), (1, 2), (2, 3), (1, 7), (2**40 - 1, 2**40), (1, 2**40), (0, 2**40)]
)
def test_bernoulli_accepts_exactly_its_share_of_the_words(fraction):
    numerator, denominator = fraction
    unit = (2**63 - 1) // denominator
    if numerator > 0:
        assert noise._bernoulli(stream_of(unit * numerator - 1), *fraction)
    if numerator < denominator:
        assert not noise._bernoulli(stream_of(unit * numerator), *fraction)
        assert not noise._bernoulli(stream_of(unit * denominator - 1), *fraction)
    redrawn = stream_of(2**63 - 1, unit * denominator, 0)
    assert noise._bernoulli(redrawn, *fraction) == (numerator > 0)
    assert words_read(redrawn, 3) == 3


@pytest.mark.parametrize(("p", "q"), [(1, 1), (1, 1000), (LARGEST, 1), (LARGEST, LARGEST - 1), (LARGEST - 1, 1099)])
def test_an_absurd_proposal_is_rejected_at_once(p, q):
    largest = p * 2**22 // q
    stream = open_streams(KEY)
    assert not any(noise._gaussian_kept(stream, largest, p, q) for _ in range(1000))


# What the kernels are made of


def load_again(module, monkeypatch, kernel):
    """The module's own source, with its kernels made by `kernel`."""
    monkeypatch.setattr(kernels, "kernel", kernel)
    spec = importlib.util.spec_from_file_location(module.__name__, module.__file__)
    again = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, module.__name__, again)
    spec.loader.exec_module(again)
    return again


def test_no_kernel_has_a_float(monkeypatch):
    modules = [load_again(module, monkeypatch, numba.njit) for module in (entropy, noise)]
    modules[1].discrete_laplace(1, 1, KEY)
    modules[1].discrete_gaussian(1, 1, KEY)
    compiled = {value for module in modules for value in vars(module).values() if isinstance(value, CPUDispatcher)}
    assert len(compiled) >= 14
    for dispatcher in compiled:
        assert dispatcher.overloads, dispatcher
        for overload in dispatcher.overloads.values():
            types = {str(found) for found in overload.type_annotation.typemap.values()}
            assert not [found for found in types if "float" in found or "complex" in found], dispatcher


@pytest.fixture
def interpreted(monkeypatch):
    """The module's own source run by the interpreter: unlimited integers, and words from `cryptography`."""
    module = load_again(noise, monkeypatch, lambda function: function)

    class Words:
        def __init__(self, key):
            self.key = key

        def seek(self, cell, block):
            start = int(block).to_bytes(8, "little") + int(cell).to_bytes(8, "little")
            self.cipher = Cipher(ChaCha20(self.key, start), mode=None).encryptor()

    class Word(int):
        def __rshift__(self, bits):
            return int(self) >> int(bits)

    module.open_streams = Words
    module.seek = Words.seek
    module.next_word = lambda words: Word(int.from_bytes(words.cipher.update(bytes(8)), "little"))
    module._FACTORIAL_LIMITS = [int(limit) for limit in module._FACTORIAL_LIMITS]
    return module


def law(module, sampler, *arguments, cutoff=Fraction(1, 10**6)):
    """The probability of each answer in one round of a sampler, to a float's precision, and of what was cut off.

    Every path through its random choices is walked, down to a probability of `cutoff`. A second uniform draw means
    that the round starts again: that is the answer "again".
    """
    answers, cut, pending = defaultdict(Fraction), Fraction(0), [[]]

    class Path:
        def __init__(self, choices):
            self.choices, self.walked, self.weight, self.rounds = choices, 0, Fraction(1), 0

    class Ended(Exception):  # noqa: N818
        pass

    def choose(path, options):
        if path.walked == len(path.choices):
            pending.extend([*path.choices, other] for other in range(1, len(options)))
            path.choices.append(0)
        answer, probability = options[path.choices[path.walked]]
        path.walked += 1
        path.weight *= probability
        if answer is None or path.weight < cutoff:
            raise Ended(None)
        return answer

    def coin(path, heads):
        return choose(path, [(answer, share) for answer, share in ((True, heads), (False, 1 - heads)) if share > 0])

    def uniform(path, bound):
        path.rounds += 1
        if path.rounds == 2:
            raise Ended("again")
        return choose(path, [(answer, Fraction(1, bound)) for answer in range(bound)])

    runs = [(n, Fraction(1, math.factorial(n)) - Fraction(1, math.factorial(n + 1))) for n in range(1, 10)]
    runs.append((None, Fraction(1, math.factorial(10))))
    module._uniform = uniform
    module._factorial_run = lambda path: choose(path, runs)
    module._bernoulli = lambda path, numerator, denominator: coin(path, Fraction(numerator, denominator))
    if sampler != "_exp_bernoulli":  # its own law has a test of its own
        module._exp_bernoulli = lambda path, numerator, denominator: coin(
            path, Fraction(math.exp(-Fraction(numerator, denominator)))
        )
    while pending:
        path = Path(pending.pop())
        try:
            answer = getattr(module, sampler)(path, *arguments)
        except Ended as end:
            (answer,) = end.args
        if answer is None:
            cut += path.weight
        else:
            answers[answer] += path.weight
    assert sum(answers.values()) + cut == 1
    return answers, cut


@pytest.mark.parametrize("fraction", [(0, 1), (1, 1), (1, 2), (2, 3), (1, 10), (LARGEST - 1, LARGEST)])
def test_bernoulli_exp_has_exactly_its_probability(interpreted, fraction):
    answers, cut = law(interpreted, "_exp_bernoulli", *fraction)
    assert cut < 1e-4
    assert answers[True] - ROUNDING <= math.exp(-fraction[0] / fraction[1]) <= answers[True] + cut + ROUNDING


@pytest.mark.parametrize(
    ("magnitude", "p", "q"),
    [(0, 1, 1), (1, 1, 1), (2, 1, 1), (3, 1, 1), (0, 3, 10), (7, 5, 2), (3, 41, 2), (40, 41, 2), (45, 41, 2)],
)
def test_a_proposal_is_kept_with_exactly_the_probability_that_makes_it_gaussian(interpreted, magnitude, p, q):
    answers, cut = law(interpreted, "_gaussian_kept", magnitude, p, q)
    assert cut < 1e-4
    x = magnitude * q / p - 1
    assert answers[True] - ROUNDING <= math.exp(-x * x / 2) <= answers[True] + cut + ROUNDING


@pytest.mark.parametrize(("p", "q"), [(1, 1), (3, 1), (2, 3), (3, 2)])
def test_a_round_of_the_laplace_sampler_has_exactly_the_laplace_probabilities(interpreted, p, q):
    answers, cut = law(interpreted, "_laplace", p, q)
    again = answers.pop("again")
    assert cut < 1e-3
    ratio = math.exp(-q / p)
    for k in range(-3, 4):
        mass = (1 - ratio) / (1 + ratio) * ratio ** abs(k)
        assert answers[k] - ROUNDING <= mass * (1 - again)
        assert mass * (1 - again - cut) <= answers[k] + cut + ROUNDING
    assert all(answers[k] == answers[-k] for k in answers)


@pytest.mark.parametrize(
    "scale",
    [
        Fraction(3, 10),
        Fraction(1),
        Fraction(41, 2),
        Fraction(1, 1000),
        Fraction(10**9),
        Fraction(LARGEST - 1, LARGEST),
        Fraction(LARGEST, LARGEST - 1),
        Fraction(LARGEST - 1, 1100),
        Fraction(LARGEST // 1000 + 1, LARGEST),
    ],
)
def test_the_compiled_sampler_is_the_same_in_unlimited_integers(interpreted, scale):
    cells = np.concatenate([np.arange(300), 2**63 - 1 - np.arange(100)])
    for name in ("laplace_at", "gaussian_at"):
        expected = getattr(interpreted, name)(scale, KEY, ("unlimited",), cells)
        np.testing.assert_array_equal(getattr(noise, name)(scale, KEY, ("unlimited",), cells), expected)


# Keys, addresses, cells


@both_at
def test_equal_arguments_give_equal_noise_for_ever(draw, draw_at):
    expected = GOLDEN[draw.__name__]
    assert draw(3, 12, KEY, ("measure", 2)).tolist() == expected
    assert draw_at(3, KEY, ("measure", 2), range(12)).tolist() == expected


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
    subkey = derive(KEY, "noise", "scale", 3, 2, "measure", 2)
    values = noise._laplace_cells(open_streams(subkey), 3, 2, np.arange(100))
    np.testing.assert_array_equal(values, discrete_laplace(Fraction(3, 2), 100, KEY, ("measure", 2)))


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
    monkeypatch.setattr(scales, "LARGEST_PART", largest)
    fractions = sorted({Fraction(p, q) for p in range(1, largest + 1) for q in range(1, largest + 1)})
    rng = np.random.default_rng(largest)
    between = [Fraction(x) for x in np.exp(rng.uniform(-math.log(largest), math.log(largest), 500))]
    for scale in fractions + between:
        assert representable(scale) == min(fraction for fraction in fractions if fraction >= scale)


@both
@pytest.mark.parametrize("scale", [0.3, math.pi, 0.1, np.float64(7.7), np.int64(9), Decimal("2.5")])
def test_the_scale_drawn_at_is_the_representable_one(draw, scale):
    np.testing.assert_array_equal(draw(scale, 50, KEY), draw(representable(scale), 50, KEY))


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
