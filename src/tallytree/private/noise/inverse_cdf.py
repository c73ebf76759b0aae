"""Drawing from a law by inverse CDF, exactly: a uniform word against thresholds, and more words where one is too few.

A word W of `bits` bits is the beginning of a uniform real U in [0, 1): W <= 2^bits·U < W + 1. The draw is the least k
with U < F(k). With the threshold T(k) = ⌊2^bits·F(k)⌋,

    W < T(k)  means  U < F(k),      as W + 1 <= T(k) <= 2^bits·F(k);
    W > T(k)  means  U >= F(k),     as W >= T(k) + 1 > 2^bits·F(k);
    W = T(k)  leaves it open: U is then continued by more words until exact arithmetic can tell (`settle`).

So the table never decides wrongly, and what it leaves open (2^-bits for each threshold) is decided as precisely as it
needs. A word that equals several thresholds leaves all their ranks open, and `settle` decides between them in one
search: so it is for word 0 (the lower tail, where every threshold is 0) and for the word of ones (the upper tail).
Thresholds are computed with integers; where no precision that was tried can separate T from T + 1, both words are left
open.

**Samplers.** A sampler has a kernel that decides nearly every cell, and a method `settle` in exact arithmetic that
follows the same protocol for the few cells that the kernel leaves open: both use the same words for the same decisions.
Settled values are bounded by `MAX_NOISE`, those of the kernels by 45·scale: no table for 64-bit words goes further.
Here is the one for a small scale, with one table for the entire draw; `digits` has those for large ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tallytree.accounting.laws import Enclosure, Law, one_minus
from tallytree.private.noise.entropy import LANES, WORDS_PER_BLOCK, KeyWords, cell_words, own_word
from tallytree.support.kernels import inlined, kernel

MoreWords = Callable[[], int]
"""Gives a uniform word that was not read before."""

UNDECIDED = -1
"""What `rank` gives for a word that the table leaves open."""

_SPARE_BITS = 64
_MAX_GUIDE_BITS = 18
_LEFT_OPEN = np.int32(-(2**31))


KernelTable = tuple[NDArray[np.uint64], NDArray[np.int32], np.uint64]
"""What kernels take of a table: thresholds, guide, shift."""


@dataclass(frozen=True)
class CdfTable:
    """Thresholds of a law, with a guide to them.

    Attributes:
        first: the value of rank 0; rank k stands for first + k.
        thresholds: uint64, ascending, the last one all ones; rank k lies between thresholds k-1 and k.
        guide: int32, one entry for each value of a word's leading bits, and one to end with: s if at most one threshold
            lies in that bucket, ~s if more do, where s is the first threshold that is not before it; or `_LEFT_OPEN`.
        shift: a word's trailing bits, which the guide does not look at.
        bits: the bits of a word.
    """

    first: int
    thresholds: NDArray[np.uint64]
    guide: NDArray[np.int32]
    shift: int
    bits: int

    @property
    def for_kernels(self) -> KernelTable:
        """The parts that kernels take."""
        return self.thresholds, self.guide, np.uint64(self.shift)

    @property
    def bytes(self) -> int:
        """Memory taken."""
        return self.thresholds.nbytes + self.guide.nbytes

    def around(self, word: int) -> tuple[int | None, int | None]:
        """Values a < b, None if there is none, with F(a) <= U < F(b) for every U that begins with `word`.

        A threshold that no precision tried could separate from the next may be one too low, hence the margin of one.
        """
        below = int(np.searchsorted(self.thresholds, np.uint64(max(0, word - 1))))
        above = int(np.searchsorted(self.thresholds, np.uint64(word), side="right"))
        return (
            self.first + below - 1 if below > 0 else None,
            self.first + above if above < len(self.thresholds) - 1 else None,
        )


def tabulate(law: Law, bits: int) -> CdfTable:
    """Compute the table of a law for words of `bits` <= 64 bits."""
    ones = (1 << bits) - 1
    spare = bits + _SPARE_BITS
    left_open: set[int] = set()

    def threshold(k: int, cdf: Enclosure) -> int:
        lower, upper = _floors(cdf, _SPARE_BITS, ones)
        for extra in (2 * spare, 4 * spare):
            if lower == upper:
                break
            lower, upper = _floors(law.cdf(k, bits + extra), extra, ones)
        if lower != upper:
            left_open.update((lower, upper))
        return lower

    def lower_thresholds() -> Iterator[int]:
        for h, tail in enumerate(law.lower_tails(spare)):
            yield threshold(-1 - h, tail)

    def upper_thresholds() -> Iterator[int]:
        for k, tail in enumerate(law.upper_tails(spare)):
            yield threshold(k, one_minus(tail, spare))

    lower = _up_to(0, lower_thresholds())
    upper = _up_to(ones, upper_thresholds())
    ascending = lower[::-1] + upper
    if not ascending or ascending[-1] != ones:
        ascending.append(ones)  # a finite law's last value lies below it
    # In order they are, but where a floor is left open the lower of two was taken.
    thresholds = np.maximum.accumulate(np.array(ascending, np.uint64))
    guide_bits = min(bits, _MAX_GUIDE_BITS, len(ascending).bit_length() + 2)
    guide = _guide(thresholds, bits, guide_bits)
    for word in left_open:
        guide[word >> (bits - guide_bits)] = _LEFT_OPEN
    return CdfTable(-len(lower), thresholds, guide, bits - guide_bits, bits)


def _floors(cdf: Enclosure, dropped_bits: int, ones: int) -> tuple[int, int]:
    """What ⌊2^bits·F⌋ may be. As F < 1 before a law's last value, 2^bits is not possible, and would wrap to 0."""
    return max(0, cdf[0] >> dropped_bits), min(ones, cdf[1] >> dropped_bits)


def _up_to(end: int, values: Iterator[int]) -> list[int]:
    """The values as far as `end`, which is kept: what comes after is the same."""
    taken = []
    for value in values:
        taken.append(value)
        if value == end:
            break
    return taken


def _guide(thresholds: NDArray[np.uint64], bits: int, guide_bits: int) -> NDArray[np.int32]:
    starts = np.arange(1 << guide_bits, dtype=np.uint64) << np.uint64(bits - guide_bits)
    first = np.append(np.searchsorted(thresholds, starts), len(thresholds)).astype(np.int32)
    crowded = np.append(np.diff(first) > 1, False)
    return np.where(crowded, ~first, first)


@inlined
def quick_rank(
    word: np.uint64, thresholds: NDArray[np.uint64], guide: NDArray[np.int32], shift: np.uint64
) -> tuple[int, int]:
    """The word's rank and 1, or anything and 0 if it takes `rank` to tell.

    A bucket with one threshold or none needs one comparison: if the threshold at `start` lies after the bucket, the
    word is below it and cannot equal it. Without a branch or a call, this is inlined wherever it is used.
    """
    start = int(guide[word >> shift])
    threshold = thresholds[max(start, 0)]
    return start + int(threshold < word), int(start >= 0) & int(threshold != word)


@inlined
def rank(word: np.uint64, table: KernelTable) -> int:
    """How many thresholds are below the word, or `UNDECIDED`."""
    thresholds, guide, shift = table
    bucket = word >> shift
    start = int(guide[bucket])
    after = int(guide[bucket + np.uint64(1)])
    if start == _LEFT_OPEN:
        return UNDECIDED
    start = start if start >= 0 else ~start
    after = after if after >= 0 else ~after
    after = min(after, thresholds.size - 1)  # ~_LEFT_OPEN is out of range, as is the end
    while start < after:
        middle = (start + after) >> 1
        if thresholds[middle] < word:
            start = middle + 1
        else:
            after = middle
    return start if thresholds[start] != word else UNDECIDED


def settle(
    law: Law,
    word: int,
    bits: int,
    more: MoreWords,
    more_bits: int = 64,
    around: tuple[int | None, int | None] = (None, None),
) -> int:
    """Decide a draw exactly, whatever the word is.

    Args:
        law: the law.
        word: the uniform real's first bits.
        bits: how many they are.
        more: gives the bits that follow, `more_bits` at a time; called only when they are needed.
        more_bits: the bits of one more word.
        around: what `CdfTable.around` knows of the word; without it all values are searched, with the same result.

    Returns:
        The least k with U < F(k).
    """
    # F(low) <= U < F(high) at all times.
    low = law.first - 1 if around[0] is None else around[0]
    high = law.last if around[1] is None else around[1]
    while high - low > 1:
        middle = (low + high) // 2
        below, above = law.cdf(middle, bits + _SPARE_BITS)
        if above <= word << _SPARE_BITS:
            low = middle
        elif word + 1 << _SPARE_BITS <= below:
            high = middle
        else:
            word = word << more_bits | more()
            bits += more_bits
    return high


Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

BATCH = 1024
"""How many cells a kernel works on at once."""


class Sampler(Protocol):
    """Makes noise of words."""

    def fill(self, key: KeyWords, cells: Integers, noise: Integers) -> None:
        """Write the noise of each cell."""

    def settle(self, word: int, more: MoreWords) -> int:
        """Decide one draw in exact arithmetic."""

    @property
    def bytes(self) -> int:
        """Memory that the tables take."""


@inlined
def batch_buffers() -> tuple[Words, Words, Integers]:
    """Memory for one batch: words, blocks, and a list of places."""
    return (
        np.empty(BATCH, np.uint64),
        np.empty(BATCH + LANES, np.uint64),
        np.empty(BATCH, np.int64),
    )


def settle_cells(sampler: Sampler, key: KeyWords, cells: Integers, left_open: Integers, noise: Integers) -> None:
    """Write the noise of the cells that a kernel left open; `left_open` lists their places."""
    for i in left_open.tolist():
        noise[i] = settle_cell(sampler, key, int(cells[i]))


def settle_by(table: CdfTable, law: Law, word: int, more: MoreWords) -> int:
    """`settle`, between the values that the table knows to lie around it."""
    return settle(law, word, table.bits, more, around=table.around(word))


def settle_cell(sampler: Sampler, key: KeyWords, cell: int) -> int:
    """The cell's noise by exact arithmetic alone: its word of the main stream, then words of its own stream."""
    words, blocks = np.empty(LANES * WORDS_PER_BLOCK, np.uint64), np.empty(1 + LANES, np.uint64)
    cell_words(key, np.array([cell], np.int64), blocks, words)
    own = _own_words(key, cell)
    return sampler.settle(int(words[0]), lambda: next(own))


def _own_words(key: KeyWords, cell: int) -> Iterator[int]:
    number = 0
    while True:
        yield int(own_word(key, cell, number))
        number += 1


_WORD_BITS = 64


@dataclass(frozen=True)
class SingleTable:
    """Noise by one table, for 64-bit words."""

    law: Law
    table: CdfTable

    @property
    def bytes(self) -> int:
        """Memory that the table takes."""
        return self.table.bytes

    def fill(self, key: KeyWords, cells: Integers, noise: Integers) -> None:
        """Write the noise of each cell."""
        left_open = _fill(key, cells, self.table.for_kernels, self.table.first, noise)
        settle_cells(self, key, cells, left_open, noise)

    def settle(self, word: int, more: MoreWords) -> int:
        """Decide one draw in exact arithmetic."""
        return settle_by(self.table, self.law, word, more)


def single_table(law: Law, bits: int = _WORD_BITS) -> SingleTable:
    """Draw a law by one table."""
    return SingleTable(law, tabulate(law, bits))


@kernel
def _fill(key: KeyWords, cells: Integers, table: KernelTable, first: int, noise: Integers) -> Integers:
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
            k, sure = quick_rank(words[i], thresholds, guide, shift)
            out[i] = first + k
            scratch[unsure] = i
            unsure += 1 - sure
        for at in range(unsure):
            i = scratch[at]
            k = rank(words[i], table)
            out[i] = first + k
            left_open[count] = start + i
            count += int(k == UNDECIDED)
    return left_open[:count].copy()
