"""What all samplers share: their protocol, scratch memory for kernels, and cells that kernels leave open.

A sampler has a kernel that decides nearly every cell, and a method `settle` in exact arithmetic that follows the same
protocol for the few cells that the kernel leaves open: both use the same words for the same decisions. Settled values
are bounded by `MAX_NOISE`, those of the kernels by 45·scale: no table for 64-bit words goes further.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tallytree.accounting.laws import Law
from tallytree.private.noise.chacha import LANES, WORDS_PER_BLOCK, KeyWords, cell_words, own_word
from tallytree.private.noise.inverse_cdf import CdfTable, MoreWords, settle
from tallytree.support.kernels import inlined

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
