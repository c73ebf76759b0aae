import ast
import importlib.util
import inspect
import sys
from fractions import Fraction

import mpmath
import numba
import numpy as np
import pytest
from numba.core.registry import CPUDispatcher
from scipy import stats

from helpers.inside import kernels, laws
from tallytree.private.noise import digits, entropy, inverse_cdf
from tallytree.private.noise import discrete as noise
from tallytree.private.noise.digits import (
    gaussian_digits,
    kept_by_line,
    laplace_digits,
    sampler_of_gaussian,
    sampler_of_laplace,
)
from tallytree.private.noise.entropy import key_from_seed, opened
from tallytree.private.noise.inverse_cdf import UNDECIDED, settle, settle_cell
from tallytree.private.noise.inverse_cdf import single_table as one_table

KEY = key_from_seed(3)
DRAWS = 400_000
KEPT = ("gaussian 10,000", "gaussian 10^9", "gaussian 161/2 by digits")
"""Samplers that reject some of what they propose."""
MADE = {
    "laplace 3": (sampler_of_laplace, Fraction(3)),
    "laplace 0.01": (sampler_of_laplace, Fraction(1, 100)),
    "laplace 10,000": (sampler_of_laplace, Fraction(10**4)),
    "laplace 10^9": (sampler_of_laplace, Fraction(10**9)),
    "laplace 3 by digits": (laplace_digits, Fraction(3), 2),
    "gaussian 3": (sampler_of_gaussian, Fraction(3)),
    "gaussian 300": (sampler_of_gaussian, Fraction(300)),
    "gaussian 10,000": (sampler_of_gaussian, Fraction(10**4)),
    "gaussian 10^9": (sampler_of_gaussian, Fraction(10**9)),
    "gaussian 161/2 by digits": (gaussian_digits, Fraction(161, 2), 1),
}


@pytest.fixture(scope="module")
def sampler(request):
    """A sampler by its name; it takes a tenth of a second to make, which only the tests that use it should spend."""
    make, *scale = MADE[request.param]
    return make(*scale)


any_sampler = pytest.mark.parametrize("sampler", MADE, indirect=True)
by_rejection = pytest.mark.parametrize("sampler", KEPT, indirect=True)


def filled(sampler, cells):
    values = np.empty(cells.size, np.int64)
    with opened(KEY) as words:
        sampler.fill(words, cells, values)
    return values


@any_sampler
def test_the_kernel_and_exact_arithmetic_decide_alike(sampler):
    """The rejected proposals of the Gaussian by digits are among them, as 161/2 with 2^1 rejects one in 100."""
    cells = np.concatenate([np.arange(400), 2**63 - 1 - np.arange(100)])
    with opened(KEY) as words:
        expected = [settle_cell(sampler, words, int(cell)) for cell in cells]
    assert filled(sampler, cells).tolist() == expected


@any_sampler
def test_what_the_table_leaves_open_is_settled(sampler):
    """Every word is left open here, so all the noise comes from exact arithmetic, and it is the same."""
    cells = np.arange(300)
    expected = filled(sampler, cells)
    for name in ("table", "high", "low"):
        table = getattr(sampler, name, None)
        if table is not None:
            kept = table.guide.copy()
            table.guide[:] = inverse_cdf._LEFT_OPEN
            try:
                np.testing.assert_array_equal(filled(sampler, cells), expected)
            finally:
                table.guide[:] = kept


@pytest.mark.parametrize("sampler", [name for name in MADE if name not in KEPT], indirect=True)
def test_exact_arithmetic_needs_no_table(sampler):
    """A draw by the law alone, from the word and its continuation."""
    rng = np.random.default_rng(8)
    for word in [*rng.integers(0, 2**64 - 1, 25, np.uint64).tolist(), 0, 1, 2**64 - 1, 2**32 - 1, 2**63]:
        more = [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xDEADBEEF12345678, 7]
        value = sampler.settle(word, iter(more).__next__)
        again = iter(more).__next__
        if hasattr(sampler, "law"):
            assert value == settle(sampler.law, word, 64, again)
        else:
            base = 1 << sampler.base_bits
            high = settle(sampler.high_law, word >> 32, 32, again)
            low = settle(sampler.low_law, word & 2**32 - 1, 32, again)
            assert value == (high * base + low if high >= 0 else -1 - ((-1 - high) * base + low))


# The digits' distribution, at scales so small that every value is seen


def expected_mass(name, scale, reach):
    with mpmath.workdps(30):
        s = mpmath.mpf(scale.numerator) / scale.denominator
        weights = [
            mpmath.exp(-abs(k) / s if name == "laplace" else -(k**2) / (2 * s**2)) for k in range(-reach, reach + 1)
        ]
        return np.array([float(weight / mpmath.fsum(weights)) for weight in weights])


def p_value(values, mass):
    reach = mass.size // 2
    expected = mass * values.size
    seen = expected >= 20
    counts = np.bincount(np.clip(values, -reach, reach) + reach, minlength=mass.size)
    observed = [*counts[seen], counts[~seen].sum()]
    return stats.chisquare(observed, [*expected[seen], expected[~seen].sum()]).pvalue


@pytest.mark.parametrize("base_bits", [1, 2, 5])
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(13, 2)])
def test_laplace_by_digits_has_the_laplace_mass(scale, base_bits):
    """n = 400,000, fixed key; a scale wrong by 2 % has noncentrality of 120 or more: power above 0.999 at p < 1e-6."""
    mass = expected_mass("laplace", scale, 200)
    assert p_value(filled(laplace_digits(scale, base_bits), np.arange(DRAWS)), mass) > 1e-3
    for wrong in (scale * Fraction(98, 100), scale * Fraction(102, 100)):
        assert p_value(filled(laplace_digits(wrong, base_bits), np.arange(DRAWS)), mass) < 1e-6


@pytest.mark.parametrize(("sigma", "base_bits"), [(Fraction(35), 0), (Fraction(81, 2), 0), (Fraction(165, 2), 1)])
def test_gaussian_by_digits_has_the_gaussian_mass(sigma, base_bits):
    """n = 400,000, fixed key; a sigma wrong by 2 % has noncentrality of 300. One proposal in 100 is rejected."""
    mass = expected_mass("gaussian", sigma, 600)
    assert p_value(filled(gaussian_digits(sigma, base_bits), np.arange(DRAWS)), mass) > 1e-3
    for wrong in (sigma * Fraction(98, 100), sigma * Fraction(102, 100)):
        assert p_value(filled(gaussian_digits(wrong, base_bits), np.arange(DRAWS)), mass) < 1e-6


# Keeping a Gaussian proposal


def test_every_integer_is_proposed_once_and_its_two_probabilities_make_the_gaussian():
    sigma, base_bits = Fraction(29, 3), 2
    seen = {}
    for high in range(8):
        for low in range(1 << base_bits):
            for negative in (0, 1):
                word = np.uint64((negative << base_bits | low) << 32)
                magnitude, sign, kept = digits._proposal(word, high, base_bits)
                assert (sign, kept) == (negative, 0)
                k = magnitude ^ -sign
                assert k not in seen
                start = (high << base_bits) ** 2
                seen[k] = Fraction(start) / (2 * sigma**2) + Fraction(k * k - start) / (2 * sigma**2)
                assert k * k >= start
    assert set(seen) == set(range(-32, 32))
    assert all(exponent == Fraction(k * k) / (2 * sigma**2) for k, exponent in seen.items())


@by_rejection
def test_what_is_surely_kept_is(sampler):
    """sure[h] <= 2^bits·exp(-t) for the largest t of the high digit, and less than 2 below it."""
    base = 1 << sampler.base_bits
    with mpmath.workprec(200):
        for high in (0, 1, 7, len(sampler.sure) // 2, len(sampler.sure) - 1):
            excess = (high * base + base) ** 2 - (high * base) ** 2
            limit = mpmath.exp(
                -(excess / (2 * mpmath.mpf(sampler.sigma.numerator) ** 2)) * sampler.sigma.denominator**2
            )
            assert sampler.sure[high] <= limit * 2**sampler.kept_bits < sampler.sure[high] + 2


@by_rejection
def test_the_bounds_of_the_exponential_never_decide_wrongly_and_seldom_fail(sampler):
    rng = np.random.default_rng(6)
    line, bits, base = (np.uint64(sampler.slope), sampler.lift), sampler.kept_bits, 1 << sampler.base_bits
    largest = (2 * len(sampler.sure) - 1) * base**2
    undecided = 0
    with mpmath.workprec(300):
        for excess in [0, 1, largest, *rng.integers(0, largest, 60, endpoint=True).tolist()]:
            t = mpmath.mpf(excess * sampler.sigma.denominator**2) / (2 * sampler.sigma.numerator**2)
            edge = int(mpmath.exp(-t) * 2**64)
            band = int(t * t / 2 * 2**64) + 2**32
            near = [edge + d for d in (-band, -5, -2, -1, 0, 1, 2, 5, band)]
            far = [int(mpmath.exp(-t) * 2**64 * f) for f in (0.3, 0.9)]
            for real in [min(2**64 - 1, max(0, real)) for real in near + far + [0, 2**64 - 1]]:
                kept, more = real >> (64 - bits), real << bits & 2**64 - 1
                verdict = kept_by_line(np.uint64(kept), np.uint64(more), sampler.base_bits, int(excess), line)
                if verdict == 1:
                    assert real + 1 <= mpmath.exp(-t) * 2**64
                elif verdict == 0:
                    assert real >= mpmath.exp(-t) * 2**64
                else:
                    assert verdict == UNDECIDED
                    assert abs(real - edge) <= 2 * band
                    undecided += 1
            assert kept_by_line(np.uint64(0), np.uint64(0), sampler.base_bits, int(excess), line) == 1
    assert undecided > 60


def test_a_proposal_that_is_nearly_impossible_to_tell_is_told_by_more_words():
    exponent = Fraction(1, 1000)
    lower, upper = laws.exp_minus(exponent, 192)
    assert upper - lower == 1
    first, then = lower >> 128, [lower >> 64 & 2**64 - 1, lower & 2**64 - 1]
    assert digits._kept_exactly(exponent, first, iter([then[0], then[1] - 3]).__next__)
    assert not digits._kept_exactly(exponent, first, iter([then[0], then[1] + 3]).__next__)
    assert digits._kept_exactly(exponent, first - 1, None)


# Tables


@pytest.mark.parametrize("sampler_of", [sampler_of_laplace, sampler_of_gaussian])
def test_tables_are_small(sampler_of):
    for scale in [0.001, 0.01, 1, 127.9, 128.1, 512, 513, 10**4, 10**6, 10**7, 10**9]:
        used = noise.representable(scale)
        assert sampler_of.__wrapped__(used).bytes < 64 * 2**20


def test_single_tables_and_digits_meet_at_the_limit():
    """Both at the same scale, n = 400,000 with other words for each: a scale wrong by 2 % is seen with power 0.999."""
    for one, other in [
        (one_table(laws.LaplaceHigh(Fraction(100), 1)), laplace_digits(Fraction(100), 6)),
        (one_table(laws.Gaussian(Fraction(400))), gaussian_digits(Fraction(400), 0)),
    ]:
        a, b = filled(one, np.arange(DRAWS)), filled(other, np.arange(DRAWS, 2 * DRAWS))
        assert stats.ks_2samp(a, b).pvalue > 1e-3


# No float decides


@pytest.mark.slow
def test_no_kernel_has_a_float(monkeypatch):
    for name in ("kernel", "inlined"):
        monkeypatch.setattr(kernels, name, numba.njit)
    modules = []
    for module in (entropy, inverse_cdf, digits):  # in the order of their imports
        spec = importlib.util.spec_from_file_location(module.__name__, module.__file__)
        modules.append(importlib.util.module_from_spec(spec))
        monkeypatch.setitem(sys.modules, module.__name__, modules[-1])
        spec.loader.exec_module(modules[-1])
    with modules[0].opened(KEY) as words:
        values = np.empty(50, np.int64)
        for sampler in (
            modules[-1].sampler_of_laplace(Fraction(3)),
            modules[-1].sampler_of_laplace(Fraction(10**4)),
            modules[-1].gaussian_digits(Fraction(80), 1),
        ):
            sampler.fill(words, np.arange(50), values)
            sampler.fill(words, np.arange(50)[::-1].copy(), values)
    compiled = {value for module in modules for value in vars(module).values() if isinstance(value, CPUDispatcher)}
    assert len(compiled) >= 14
    for dispatcher in compiled:
        assert dispatcher.overloads, dispatcher
        for overload in dispatcher.overloads.values():
            types = {str(found) for found in overload.type_annotation.typemap.values()}
            assert not [found for found in types if "float" in found or "complex" in found], dispatcher


@pytest.mark.parametrize("module", [laws, inverse_cdf, digits])
def test_no_float_is_written_where_thresholds_are_made(module):
    """No float literal, no `math`, `mpmath` or float type; `/` is for fractions, and a Fraction by an int is one."""
    tree = ast.parse(inspect.getsource(module))
    for node in ast.walk(tree):
        assert not (isinstance(node, ast.Constant) and isinstance(node.value, (float, complex)))
        assert not (isinstance(node, ast.Name) and node.id in {"float", "complex", "math", "mpmath"})
        assert not (isinstance(node, ast.Attribute) and node.attr.startswith("float"))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            assert {"scale", "sigma", "Fraction"} & {
                getattr(part, "attr", getattr(part, "id", None)) for part in ast.walk(node)
            }


def test_enclosures_and_laws_give_integers():
    for law in (laws.LaplaceHigh(Fraction(7, 3), 2), laws.LaplaceLow(Fraction(7, 3), 2), laws.Gaussian(Fraction(7, 3))):
        assert all(type(end) is int for end in (*law.cdf(0, 100), *next(law.upper_tails(100))))
