"""Discrete Laplace noise of a large scale: a high and a low digit, each by one half of the word."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tallytree.accounting.laws import LaplaceHigh, LaplaceLow, Law
from tallytree.private.noise.chacha import KeyWords, cell_words
from tallytree.private.noise.inverse_cdf import UNDECIDED, CdfTable, KernelTable, MoreWords, quick_rank, rank, tabulate
from tallytree.private.noise.sampler import BATCH, Integers, batch_buffers, settle_by, settle_cells
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
        left_open = _fill(key, cells, *tables, self.high.first, self.base_bits, noise)
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
def _fill(
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
