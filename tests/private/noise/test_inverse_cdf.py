import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import islice

import mpmath
import numpy as np
import pytest

from helpers.inside import Gaussian, HalfGaussian, LaplaceHigh, LaplaceLow
from tallytree.private.noise.inverse_cdf import UNDECIDED, CdfTable, quick_rank, rank, settle, tabulate

LAWS = [
    LaplaceHigh(Fraction(3), 1),
    LaplaceHigh(Fraction(1, 100), 1),
    LaplaceHigh(Fraction(7, 2), 4),
    LaplaceLow(Fraction(5, 2), 8),
    LaplaceLow(Fraction(400), 16),
    Gaussian(Fraction(5, 3)),
    Gaussian(Fraction(17)),
    HalfGaussian(Fraction(11), 4),
]
LARGE_LAWS = [
    LaplaceHigh(Fraction(10**7), 2**14),
    LaplaceLow(Fraction(10**7), 2**14),
    LaplaceHigh(Fraction(1, 1000), 1),
    Gaussian(Fraction(100)),
    Gaussian(Fraction(1, 1000)),
    HalfGaussian(Fraction(10**9), 2**20),
]
any_law = pytest.mark.parametrize("law", LAWS, ids=repr)
LONGEST = (LaplaceHigh(Fraction(3), 1), Gaussian(Fraction(17)))  # to enumerate
any_law_the_longest_slow = pytest.mark.parametrize(
    "law", [pytest.param(law, marks=[pytest.mark.slow] if law in LONGEST else []) for law in LAWS], ids=repr
)
any_size_of_law = pytest.mark.parametrize("law", LAWS + LARGE_LAWS, ids=repr)
PRECISION = 400


@cache
def true_cdf(law, k):
    """P(X <= k) by mpmath, from the formulas in the docstrings, summed where they are sums."""
    if k < law.first:
        return mpmath.mpf(0)
    if k >= law.last:
        return mpmath.mpf(1)
    if isinstance(law, LaplaceHigh):
        r = mpmath.exp(-mpmath.mpf(law.scale.denominator) / law.scale.numerator)
        big = r**law.base
        return r * big ** (-1 - k) / (1 + r) if k < 0 else 1 - big ** (k + 1) / (1 + r)
    if isinstance(law, LaplaceLow):
        r = mpmath.exp(-mpmath.mpf(law.scale.denominator) / law.scale.numerator)
        return (1 - r ** (k + 1)) / (1 - r**law.base)
    tails = gaussian_tails(law)
    if isinstance(law, HalfGaussian):
        return 1 - tails[min(k, len(tails) - 1)]
    return tails[min(-1 - k, len(tails) - 1)] if k < 0 else 1 - tails[min(k, len(tails) - 1)]


TAILS = {}


def gaussian_tails(law):
    """P(X > k) for k = 0, 1, … until it is below 2^-PRECISION."""
    if law not in TAILS:
        sigma = law.sigma / getattr(law, "base", 1)
        a = mpmath.mpf(sigma.denominator) ** 2 / mpmath.mpf(sigma.numerator) ** 2 / 2
        reach = 2 + int(math.sqrt(2 * PRECISION) * sigma)
        # exp(-k²a) by its own recurrence, w(k+1) = w(k)·f(k), f(k+1) = f(k)·exp(-2a): errors far below 2^-PRECISION.
        weights, factor, step = [mpmath.mpf(1)], mpmath.exp(-a), mpmath.exp(-2 * a)
        for _ in range(reach):
            weights.append(weights[-1] * factor)
            factor *= step
        tails, tail = [], mpmath.mpf(0)
        for weight in reversed(weights[1:]):
            tail += weight
            tails.append(tail)
        total = 1 + tail * (2 if isinstance(law, Gaussian) else 1)
        TAILS[law] = [tail / total for tail in reversed(tails)]
    return TAILS[law]


@pytest.fixture(autouse=True)
def _precise():
    with mpmath.workprec(PRECISION + 100):
        yield


# Laws


@any_size_of_law
@pytest.mark.parametrize("bits", [8, 96, 200])
def test_a_law_encloses_its_cdf_and_its_tails(law, bits):
    lower, upper = (list(islice(tails(bits), 40)) for tails in (law.lower_tails, law.upper_tails))
    assert len(lower) == (0 if law.first == 0 else 40)
    assert len(upper) == min(40, law.last)
    for k in [*range(-len(lower), len(upper)), min(law.last - 1, 10**5), max(law.first, -(10**5))]:
        low, high = law.cdf(k, bits)
        true = true_cdf(law, k) * 2**bits
        assert low <= true <= high or abs(true - low) < 2**-90  # mpmath's own tails end
        assert high - low <= 4
    for h, (low, high) in enumerate(lower):
        assert low <= true_cdf(law, -1 - h) * 2**bits <= high <= low + 4
    for k, (low, high) in enumerate(upper):
        assert low <= (1 - true_cdf(law, k)) * 2**bits <= high <= low + 4


@pytest.mark.parametrize(("scale", "base"), [(Fraction(3), 4), (Fraction(1, 2), 2), (Fraction(1000), 64)])
def test_the_digits_make_discrete_laplace_noise(scale, base):
    """P(high)·P(low) is the mass of the number that they make, for every number of up to five high digits."""
    high, low, whole = LaplaceHigh(scale, base), LaplaceLow(scale, base), LaplaceHigh(scale, 1)

    def mass(law, k):
        return true_cdf(law, k) - true_cdf(law, k - 1)

    seen = set()
    for h in range(-5, 5):
        for digit in range(base):
            k = h * base + digit if h >= 0 else -1 - ((-1 - h) * base + digit)
            seen.add(k)
            assert mpmath.almosteq(mass(high, h) * mass(low, digit), mass(whole, k), rel_eps=mpmath.mpf(2) ** -200)
    assert seen == set(range(-5 * base, 5 * base))


# Tables


@cache
def words_below(law, k, bits):
    """P(X <= k) in words, rounded down and up."""
    words = true_cdf(law, k) * 2**bits
    return int(mpmath.floor(words)), int(mpmath.ceil(words))


def true_draw(law, word, bits):
    """The draw of every uniform real that begins with the word, or None if it is not the same one."""
    table_free_low, high = law.first - 1, law.last
    while high - table_free_low > 1:
        middle = (table_free_low + high) // 2
        at_least, at_most = words_below(law, middle, bits)
        if at_most <= word:
            table_free_low = middle
        elif at_least >= word + 1:
            high = middle
        else:
            return None
    return high


def drawn(table, word):
    """What the table draws, None if it leaves it open."""
    found = rank(np.uint64(word), table.for_kernels)
    return None if found == UNDECIDED else table.first + found


@any_law
@pytest.mark.parametrize("bits", [1, 4, 8])
def test_a_table_decides_a_narrow_word_if_and_only_if_it_decides_the_draw(law, bits):
    """But for a finite law's last word, which ends every table and is left open."""
    table = tabulate(law, bits)
    for word in range((1 << bits) - (law.last < 2**30)):
        assert drawn(table, word) == true_draw(law, word, bits)


@pytest.mark.slow
@any_law_the_longest_slow
def test_all_narrow_words_and_their_continuations_make_the_mass_function(law):
    """All 2^8 words, and after those left open all 2^8 more: what is still open is all that may be missing."""
    table, bits = tabulate(law, 8), 8
    masses, still_open = {}, {}
    for word in range(256):
        value = drawn(table, word)
        if value is not None:
            masses[value] = masses.get(value, 0) + Fraction(1, 256)
            continue
        for second in range(256):
            words = iter([second])
            try:
                value = settle(law, word, bits, words.__next__, 8, around=table.around(word))
            except StopIteration:
                continued = word << 8 | second
                assert true_draw(law, continued, 16) is None
                least = settle(law, continued, 16, lambda: 0, 64) if continued else None
                greatest = settle(law, continued, 16, lambda: 2**64 - 1, 64) if continued < 2**16 - 1 else None
                still_open[continued] = (least, greatest)
                continue
            assert value == true_draw(law, word << 8 | second, 16)
            masses[value] = masses.get(value, 0) + Fraction(1, 2**16)
    for value, mass in masses.items():
        missing = (true_cdf(law, value) - true_cdf(law, value - 1)) - mpmath.mpf(mass.numerator) / mass.denominator
        beside = sum(
            1 for low, high in still_open.values() if (low is None or low <= value) and (high is None or value <= high)
        )
        assert 0 <= missing <= mpmath.mpf(beside) / 2**16
        assert beside <= 2
    assert sum(masses.values()) + Fraction(len(still_open), 2**16) == 1


@any_size_of_law
@pytest.mark.parametrize("bits", [32, 64])
def test_thresholds_are_the_floors_and_words_beside_them_are_decided_rightly(law, bits):
    table, rng = tabulate(law, bits), np.random.default_rng(bits)
    assert table.thresholds[-1] == 2**bits - 1
    assert (table.thresholds[1:] >= table.thresholds[:-1]).all()
    for at in {0, 1, len(table.thresholds) // 2, *rng.integers(0, len(table.thresholds), 30).tolist()}:
        threshold, k = int(table.thresholds[at]), table.first + int(at)
        if k < law.last:
            assert threshold == min(2**bits - 1, int(true_cdf(law, k) * 2**bits))  # F < 1, whatever mpmath rounds to
        assert drawn(table, threshold) is None
        for word in {max(0, threshold - 1), min(2**bits - 1, threshold + 1)}:
            assert drawn(table, word) in (None, true_draw(law, word, bits))
    for word in rng.integers(0, 2**63, 100).tolist():
        assert drawn(table, word >> (64 - bits)) == true_draw(law, word >> (64 - bits), bits)


@any_size_of_law
def test_the_quick_rank_is_the_same_where_it_is_sure_and_nearly_always_sure(law):
    table = tabulate(law, 64)
    rng = np.random.default_rng(2)
    words = np.concatenate([
        rng.integers(0, 2**64 - 1, 2000, np.uint64, endpoint=True),
        rng.integers(0, 2**20, 50, np.uint64),
        ~rng.integers(0, 2**20, 50, np.uint64),
        table.thresholds[:50], table.thresholds[-50:], table.thresholds[:50] + np.uint64(1),
        table.thresholds[1:51] - np.uint64(1), np.array([0, 1, 2**64 - 2, 2**64 - 1], np.uint64),
    ])  # fmt: skip
    slow = np.array([rank(word, table.for_kernels) for word in words])
    quick = np.array([quick_rank(word, *table.for_kernels) for word in words])
    sure = quick[:, 1] == 1
    assert (quick[sure, 0] == slow[sure]).all()
    assert sure[:2000].mean() > 0.9 or len(table.thresholds) > 2**18
    below = np.searchsorted(table.thresholds, words)
    np.testing.assert_array_equal(slow, np.where(table.thresholds[below] == words, UNDECIDED, below))


def test_a_threshold_that_is_off_by_one_is_noticed():
    """The power of the two tests above: they compare every word."""
    table = tabulate(LAWS[0], 8)
    for off in (1, -1):
        thresholds = table.thresholds.copy()
        thresholds[len(thresholds) // 2] = int(thresholds[len(thresholds) // 2]) + off
        wrong = CdfTable(table.first, thresholds, table.guide, table.shift, 8)
        assert any(drawn(wrong, word) != true_draw(LAWS[0], word, 8) for word in range(256))


def test_runs_of_equal_thresholds_are_left_open_as_a_whole():
    law = Gaussian(Fraction(60))  # hardly any value has a mass above 1/256
    table = tabulate(law, 6)
    assert len(table.thresholds) > len(set(table.thresholds.tolist())) + 20
    run = 20
    values = {settle(law, run, 6, iter([second]).__next__, 8) for second in (1, 60, 120, 250)}
    assert values == {-29, -28, -27}


# Tails


@pytest.mark.parametrize("law", [law for law in LAWS + LARGE_LAWS if law.last > 2**30], ids=repr)
@pytest.mark.parametrize("words", [[1], [2], [7], [2**24], [0, 1], [0, 0, 3]])
def test_tails_beyond_2_to_the_minus_40(law, words):
    """Words that begin with many zeros, or ones, are draws far out; mirrored words lie on the other side."""
    table = tabulate(law, 64)
    bits = 64 * len(words)
    number = sum(word << 64 * i for i, word in enumerate(reversed(words)))
    for mirrored in (False, True):
        begin = [2**64 - 1 - word for word in words] if mirrored else words
        whole = 2**bits - 1 - number if mirrored else number
        more = iter([*begin[1:], 12345, 67890])
        value = drawn(table, begin[0])
        if value is None:
            value = settle(law, begin[0], 64, more.__next__, around=table.around(begin[0]))
        expected = true_draw(law, whole, bits)
        low, high = (true_cdf(law, value - 1) * 2**bits, true_cdf(law, value) * 2**bits)
        assert low <= whole + 1
        assert whole <= high
        assert expected in (None, value)


def test_the_last_word_does_not_wrap():
    for law in (LaplaceHigh(Fraction(1, 1000), 1), Gaussian(Fraction(1, 1000))):  # 1 - F(0) = exp(-1000)
        table = tabulate(law, 64)
        assert table.thresholds.tolist() == [0, 2**64 - 1]
        assert drawn(table, 1) == drawn(table, 2**64 - 2) == 0
        assert drawn(table, 0) is drawn(table, 2**64 - 1) is None


def test_no_draw_is_beyond_the_largest_noise():
    for law in (
        LaplaceHigh(Fraction(10**9), 1),
        LaplaceHigh(Fraction(10**9), 2**17),
        HalfGaussian(Fraction(10**9), 2**20),
    ):
        assert (law.last + 1) * getattr(law, "base", 1) <= 2**62
        assert law.cdf(law.last - 1, 64)[1] >= 2**64 - 1


# What cannot be told


@dataclass(frozen=True)
class Dyadic:
    """F(k) = (k + 1)/4 for k = 0, 1, 2: a whole number of words, which no enclosure can tell from a little less."""

    first = 0
    last = 3

    def cdf(self, k, bits):
        exact = (k + 1) << bits - 2
        return exact - 1, exact + 1

    def lower_tails(self, bits):
        return iter(())

    def upper_tails(self, bits):
        for k in range(3):
            low, high = self.cdf(k, bits)
            yield (1 << bits) - high, (1 << bits) - low


def test_where_no_precision_tells_a_floor_both_neighbors_are_left_open():
    table = tabulate(Dyadic(), 8)
    for word in (63, 64, 127, 128, 191, 192, 255):
        assert drawn(table, word) is None
    for word in range(256):
        assert drawn(table, word) in (None, word // 64)
    assert sum(drawn(table, word) is not None for word in range(256)) > 100
    for word in (63, 64, 127, 128, 191, 192):
        value = settle(Dyadic(), word, 8, lambda: 2**63, around=table.around(word))
        assert value == settle(Dyadic(), word, 8, lambda: 2**63) == word // 64


@any_size_of_law
def test_what_the_table_knows_of_a_word_does_not_change_the_draw(law):
    table = tabulate(law, 16)
    words = [*np.random.default_rng(3).integers(0, 2**16, 40).tolist(), 0, 2**16 - 1, *table.thresholds[:5].tolist()]
    for word in words:
        more = [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 5]
        known = settle(law, word, 16, iter(more).__next__, around=table.around(word))
        assert known == settle(law, word, 16, iter(more).__next__)
