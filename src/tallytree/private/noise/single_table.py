"""Noise of a small scale: one table for the entire draw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tallytree.accounting.laws import Law
from tallytree.private.noise.chacha import KeyWords, cell_words
from tallytree.private.noise.inverse_cdf import UNDECIDED, CdfTable, KernelTable, MoreWords, quick_rank, rank, tabulate
from tallytree.private.noise.sampler import BATCH, Integers, batch_buffers, settle_by, settle_cells
from tallytree.support.kernels import kernel

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
