"""Noise of a large scale, drawn by digits: and which sampler draws noise of a given scale.

* `LaplaceDigits`, discrete Laplace noise: a high and a low digit, each by one half of the word.
* `GaussianDigits`, discrete Gaussian noise: a table for a high digit, uniform low bits, and a rare rejection.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from tallytree.accounting.laws import Gaussian, HalfGaussian, LaplaceHigh, LaplaceLow, Law, exp_minus
from tallytree.private.noise.entropy import KeyWords, cell_words, own_word
from tallytree.private.noise.inverse_cdf import (
    BATCH,
    UNDECIDED,
    CdfTable,
    Integers,
    KernelTable,
    MoreWords,
    Sampler,
    batch_buffers,
    quick_rank,
    rank,
    settle_by,
    settle_cells,
    single_table,
    tabulate,
)
from tallytree.support.kernels import inlined, kernel

_DIGIT_BITS = 32
_LOW_MASK = np.uint64(2**32 - 1)
_HALF = np.uint64(32)


@dataclass(frozen=True)
class LaplaceDigits:
    """Noise from a high digit by the word's upper half and a low digit by its lower half.

    G = high·2^base_bits + low is geometric and the noise is G or -1 - G, as `laws` explains.
    """

    high_law: Law
    low_law: Law
    high: CdfTable
    low: CdfTable
    base_bits: int

    @property
    def bytes(self) -> int:
        """Memory that the tables take."""
        return self.high.bytes + self.low.bytes

    def fill(self, key: KeyWords, cells: Integers, noise: Integers) -> None:
        """Write the noise of each cell."""
        tables = self.high.for_kernels, self.low.for_kernels
        left_open = _fill_by_laplace_digits(key, cells, *tables, self.high.first, self.base_bits, noise)
        settle_cells(self, key, cells, left_open, noise)

    def settle(self, word: int, more: MoreWords) -> int:
        """Decide one draw in exact arithmetic: the high digit first."""
        high = settle_by(self.high, self.high_law, word >> self.low.bits, more)
        low = settle_by(self.low, self.low_law, word & (1 << self.low.bits) - 1, more)
        return high << self.base_bits | low if high >= 0 else ~(~high << self.base_bits | low)


def laplace_digits(scale: Fraction, base_bits: int, bits: int = _DIGIT_BITS) -> LaplaceDigits:
    """Draw discrete Laplace noise by two digits, the lower of `base_bits` bits, each by a word of `bits` bits."""
    high, low = LaplaceHigh(scale, 1 << base_bits), LaplaceLow(scale, 1 << base_bits)
    return LaplaceDigits(high, low, tabulate(high, bits), tabulate(low, bits), base_bits)


@kernel
def _fill_by_laplace_digits(
    key: KeyWords,
    cells: Integers,
    high_table: KernelTable,
    low_table: KernelTable,
    first: int,
    base_bits: int,
    noise: Integers,
) -> Integers:
    words, blocks, scratch = batch_buffers()
    left_open = np.empty(cells.size, np.int64)
    count = 0
    thresholds, guide, shift = high_table
    low_thresholds, low_guide, low_shift = low_table
    for start in range(0, cells.size, BATCH):
        batch = cells[start : start + BATCH]
        out = noise[start : start + BATCH]
        cell_words(key, batch, blocks, words)
        unsure = 0
        for i in range(batch.size):
            high, sure = quick_rank(words[i] >> _HALF, thresholds, guide, shift)
            low, low_sure = quick_rank(words[i] & _LOW_MASK, low_thresholds, low_guide, low_shift)
            out[i] = _of_digits(first + high, low, base_bits)
            scratch[unsure] = i
            unsure += 1 - (sure & low_sure)
        for at in range(unsure):
            i = scratch[at]
            high, low = rank(words[i] >> _HALF, high_table), rank(words[i] & _LOW_MASK, low_table)
            out[i] = _of_digits(first + high, low, base_bits)
            left_open[count] = start + i
            count += int(high == UNDECIDED) | int(low == UNDECIDED)
    return left_open[:count].copy()


@inlined
def _of_digits(high: int, low: int, base_bits: int) -> int:
    """G for high >= 0, else -1 - G, where the high digit of G is high or -1 - high."""
    sign = high >> 63  # 0, or -1: all ones
    return ((high ^ sign) << base_bits | low) ^ sign


_WORD_BITS = 64


_ONE = np.uint64(1)
_ALL_BITS = np.uint64(64)


@dataclass(frozen=True)
class GaussianDigits:
    """Noise that is proposed by digits and kept with the probability that makes it Gaussian.

    The word is, from its lowest bit: 32 bits for the high digit h, P(h) ∝ exp(-(hB)²/(2s²)) with B = 2^base_bits; a
    uniform low digit l < B; a sign bit; the rest, V, begins the uniform real that keeps the proposal. With G = hB + l
    the proposal is G, or -1 - G under the sign, which is every integer once; and it is kept with probability
    exp(-(x² - (hB)²)/(2s²)), x = |proposal| >= hB. Proposed and kept: ∝ exp(-x²/(2s²)). A proposal that is not kept is
    made again from the next of the cell's own words.

    Nearly all is settled by V < sure[h], the integer below which every proposal with that high digit is kept. Where V
    is not, the cell's next own word continues it to 64 bits: they are held against 1 - t <= exp(-t) <= 1 - t + t²/2.

    Attributes:
        sigma: s.
        law: of the high digit.
        table: of the law.
        base_bits: the bits of the low digit.
        sure: int64, one for each rank of the table.
        slope: ⌊2^(128 - lift)/(2s²)⌋, so that slope·(d << lift) / 2^128 is d/(2s²), rounded down.
        lift: brings the largest x² - (hB)² of the table just below 2^63.
    """

    sigma: Fraction
    law: Law
    table: CdfTable
    base_bits: int
    sure: Integers
    slope: int
    lift: int

    @property
    def bytes(self) -> int:
        """Memory that the tables take."""
        return self.table.bytes + self.sure.nbytes

    @property
    def kept_bits(self) -> int:
        """How many bits V has."""
        return _WORD_BITS - _DIGIT_BITS - 1 - self.base_bits

    def fill(self, key: KeyWords, cells: Integers, noise: Integers) -> None:
        """Write the noise of each cell."""
        line = np.uint64(self.slope), self.lift
        left_open = _fill_by_gaussian_digits(key, cells, self.table.for_kernels, self.sure, self.base_bits, line, noise)
        settle_cells(self, key, cells, left_open, noise)

    def settle(self, word: int, more: MoreWords) -> int:
        """Decide one draw in exact arithmetic, proposal after proposal."""
        base_mask = (1 << self.base_bits) - 1
        while True:
            high = settle_by(self.table, self.law, word & (1 << _DIGIT_BITS) - 1, more)
            word >>= _DIGIT_BITS
            magnitude = high << self.base_bits | word & base_mask
            word >>= self.base_bits
            negative, kept = word & 1, word >> 1
            if kept < (self.sure[high] if high < len(self.sure) else 0):
                return ~magnitude if negative else magnitude
            excess = (magnitude + negative) ** 2 - (high << self.base_bits) ** 2
            continued = kept << _WORD_BITS - self.kept_bits | more() >> self.kept_bits
            if _kept_exactly(Fraction(excess) / (2 * self.sigma**2), continued, more):
                return ~magnitude if negative else magnitude
            word = more()


def gaussian_digits(sigma: Fraction, base_bits: int) -> GaussianDigits:
    """Draw discrete Gaussian noise by digits, the low one of `base_bits` bits.

    Every exp(-t) of a high digit has t < 1/4, and the slope fits 64 bits, if sigma >= 32·2^base_bits.
    """
    law = HalfGaussian(sigma, 1 << base_bits)
    table = tabulate(law, _DIGIT_BITS)
    # Over h digits, x² - (hB)² is at most (hB + B)² - (hB)² = (2h + 1)·B².
    largest = (2 * len(table.thresholds) + 1) << 2 * base_bits
    lift = 63 - largest.bit_length()
    per_square = 1 / (2 * sigma**2)
    kept_bits = _WORD_BITS - _DIGIT_BITS - 1 - base_bits
    sure = _least_kept(per_square * 4**base_bits, len(table.thresholds), kept_bits)
    return GaussianDigits(sigma, law, table, base_bits, sure, int(per_square * Fraction(2) ** (128 - lift)), lift)


def _least_kept(step: Fraction, count: int, bits: int) -> Integers:
    """At most 2^bits·exp(-(2h + 1)·step), rounded down, for h = 0..count-1."""
    spare = 64
    power, ratio = exp_minus(step, bits + spare)[0], exp_minus(2 * step, bits + spare)[0]
    least = []
    for _ in range(count):
        least.append(power >> spare)
        power = power * ratio >> bits + spare
    return np.array(least, np.int64)


def _kept_exactly(exponent: Fraction, word: int, more: MoreWords) -> bool:
    """Whether a uniform real that begins with the 64 bits of `word` is below exp(-exponent)."""
    bits = _WORD_BITS
    while True:
        lower, upper = exp_minus(exponent, bits + _WORD_BITS)
        if word + 1 << _WORD_BITS <= lower:
            return True
        if upper <= word << _WORD_BITS:
            return False
        word = word << _WORD_BITS | more()
        bits += _WORD_BITS


@kernel
def _fill_by_gaussian_digits(
    key: KeyWords,
    cells: Integers,
    table: KernelTable,
    sure: Integers,
    base_bits: int,
    line: tuple[np.uint64, int],
    noise: Integers,
) -> Integers:
    words, blocks, scratch = batch_buffers()
    left_open = np.empty(cells.size, np.int64)
    count = 0
    thresholds, guide, shift = table
    for start in range(0, cells.size, BATCH):
        batch = cells[start : start + BATCH]
        out = noise[start : start + BATCH]
        cell_words(key, batch, blocks, words)
        unsure = 0
        for i in range(batch.size):
            high, sure_of_high = quick_rank(words[i] & _LOW_MASK, thresholds, guide, shift)
            magnitude, negative, kept = _proposal(words[i], high, base_bits)
            out[i] = magnitude ^ -negative
            scratch[unsure] = i
            unsure += 1 - (sure_of_high & int(np.int64(kept) < sure[max(high, 0)]))
        for at in range(unsure):
            i = scratch[at]
            decided, out[i] = _propose_until_kept(key, batch[i], words[i], table, sure, base_bits, line)
            left_open[count] = start + i
            count += int(not decided)
    return left_open[:count].copy()


@kernel
def _proposal(word: np.uint64, high: int, base_bits: int) -> tuple[int, int, np.uint64]:
    """Magnitude G, sign bit and V of a proposal."""
    rest = word >> _HALF
    low = np.int64(rest) & ((np.int64(1) << base_bits) - 1)
    rest = rest >> np.uint64(base_bits)
    return high << base_bits | int(low), int(rest & _ONE), rest >> _ONE


@inlined
def _propose_until_kept(
    key: KeyWords,
    cell: int,
    word: np.uint64,
    table: KernelTable,
    sure: Integers,
    base_bits: int,
    line: tuple[np.uint64, int],
) -> tuple[bool, int]:
    """Whether the tables decide the cell's noise, and the noise."""
    own = 0
    while True:
        high = rank(word & _LOW_MASK, table)
        if high == UNDECIDED:
            return False, 0
        magnitude, negative, kept = _proposal(word, high, base_bits)
        noise = magnitude ^ -negative
        if np.int64(kept) < sure[high]:
            return True, noise
        # x² - (hB)² = (x - hB)(x + hB)
        beyond = magnitude + negative - (high << base_bits)
        excess = beyond * (beyond + (high << (base_bits + 1)))
        verdict = kept_by_line(kept, own_word(key, cell, own), base_bits, excess, line)
        if verdict == UNDECIDED:
            return False, 0
        if verdict == 1:
            return True, noise
        word = own_word(key, cell, own + 1)
        own += 2


@inlined
def kept_by_line(kept: np.uint64, more: np.uint64, base_bits: int, excess: int, line: tuple[np.uint64, int]) -> int:
    """1 if the uniform real of these bits is below exp(-t), 0 if it is above, `UNDECIDED` if the bounds are too wide.

    In units of 2^-64, t lies in [t_low, t_low + 2]: the slope's error adds excess·2^lift/2^64 < 1, the product's end
    less than 1. The real lies `room`..`room` + 1 units below 1. So exp(-t) >= 1 - t keeps it if room >= t_low + 2, and
    exp(-t) <= 1 - t + t²/2 rejects it if room + 1 <= t_low - t²/2.
    """
    slope, lift = line
    kept_bits = np.uint64(64 - 32 - 1 - base_bits)
    room = ~(kept << (_ALL_BITS - kept_bits) | more >> kept_bits)
    t_low = _high_product(np.uint64(excess) << np.uint64(lift), slope)
    t_up = t_low + np.uint64(2)
    if room >= t_up:
        return 1
    root = (t_up >> _HALF) + _ONE  # t <= root / 2^32
    curve = (root * root >> _ONE) + _ONE
    if t_low > curve and room < t_low - curve:
        return 0
    return UNDECIDED


@inlined
def _high_product(a: np.uint64, b: np.uint64) -> np.uint64:
    """⌊a·b / 2^64⌋, from products of halves."""
    a_high, a_low, b_high, b_low = a >> _HALF, a & _LOW_MASK, b >> _HALF, b & _LOW_MASK
    middle = a_high * b_low + (a_low * b_low >> _HALF)
    carried = a_low * b_high + (middle & _LOW_MASK)
    return a_high * b_high + (middle >> _HALF) + (carried >> _HALF)


_CACHED = 16

# A single table up to here, digits beyond: a larger table does not fit into the processor's nearest caches.
_MAX_LAPLACE_TABLE = 128
_MAX_GAUSSIAN_TABLE = 512

_DIGITS_PER_SIGMA = 512
"""High digits of a Gaussian to a sigma, at least: a proposal fails with a probability of 0.4/512 or less."""


@lru_cache(maxsize=_CACHED)
def sampler_of_laplace(scale: Fraction) -> Sampler:
    """The sampler of discrete Laplace noise of this scale."""
    if scale <= _MAX_LAPLACE_TABLE:
        return single_table(LaplaceHigh(scale, 1))
    # The high digit has some 44·scale/base thresholds, the low one has base.
    return laplace_digits(scale, int(44 * scale).bit_length() // 2)


@lru_cache(maxsize=_CACHED)
def sampler_of_gaussian(sigma: Fraction) -> Sampler:
    """The sampler of discrete Gaussian noise of this sigma."""
    if sigma <= _MAX_GAUSSIAN_TABLE:
        return single_table(Gaussian(sigma))
    return gaussian_digits(sigma, int(sigma / _DIGITS_PER_SIGMA).bit_length() - 1)
