"""Errors of replicates, cell by cell, as running sums: the memory is that of the cells, whatever the replicates."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tallytree.solvers.sizes import isotonic
from tallytree.support.arrays import FloatArray, IntArray, NumberArray, sum_by_key
from tallytree.support.kernels import kernel


class SquaredErrors:
    """Squared errors of the replicates at the published cells of one level.

    Args:
        keys: int64 (n,), the published cells, distinct.
        truth: int64 (n,), what the replicates measured: the number that is taken as the true one.

    Raises:
        ValueError: a key is there twice.
    """

    def __init__(self, keys: IntArray, truth: IntArray) -> None:
        self._order, self._keys = _ascending(keys)
        if (self._keys[1:] == self._keys[:-1]).any():
            raise ValueError("release: one of its cells is listed twice; give a release as tallytree wrote it")
        self._truth = truth if self._order is None else truth[self._order]
        self._squares = np.zeros(len(keys))
        self._missed = np.zeros(len(keys), dtype=np.int64)
        self._replicates = 0

    @classmethod
    def against(cls, keys: IntArray, true_keys: IntArray, true_numbers: NumberArray) -> SquaredErrors:
        """The same, from the cells that the replicates measured and their numbers; cells that are not there are 0."""
        return cls(keys, np.asarray(looked_up(keys, true_keys, true_numbers), dtype=np.int64))

    def add(self, keys: IntArray, values: NumberArray) -> None:
        """Take in a replicate: its cells, int64 (m,), distinct, and their numbers; cells that are not there are 0."""
        order, keys = _ascending(keys)
        values = values if order is None else values[order]
        _add_squares(self._keys, self._truth, keys, values, self._squares, self._missed)
        self._replicates += 1

    @property
    def std_dev(self) -> FloatArray:
        """The root mean square error of every cell, bias included, in the order of the keys: float64 (n,)."""
        found = np.sqrt(self._squares / self._replicates)
        if self._order is None:
            return found
        unsorted = np.empty_like(found)
        unsorted[self._order] = found
        return unsorted

    def largest_unlisted(self, alpha: float) -> int | None:
        """The largest number that a cell may well have and not be listed.

        A cell of the truth with more than this was left out by a share of at most `alpha` of the replicates. That share
        is fitted as a function of the number that falls with it (isotonic regression over all cells). None where
        even the largest cells were left out more often, or there are none.
        """
        if not len(self._keys):
            return None
        order = np.argsort(self._truth, kind="stable")
        truth, missed = sum_by_key(self._truth[order], self._missed[order])
        cells = np.diff(np.append(np.searchsorted(self._truth[order], truth), len(order)))
        share = missed / (cells * self._replicates)
        falling = isotonic.fit(share[::-1], norm=2, weights=cells[::-1].astype(np.float64))[::-1]
        often = np.flatnonzero(falling > alpha)
        if not len(often):
            return 0
        return None if often[-1] == len(truth) - 1 else int(truth[often[-1]])


def looked_up(wanted: IntArray, keys: IntArray, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values of the wanted keys, (n,), and 0 where a key is not there; `keys` are distinct, in any order."""
    found = np.zeros(len(wanted), dtype=values.dtype)
    if len(keys):
        order, keys = _ascending(keys)
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        there = keys[place] == wanted
        found[there] = (values if order is None else values[order])[place[there]]
    return found


def _ascending(keys: IntArray) -> tuple[IntArray | None, IntArray]:
    """The order that sorts the keys (None if they are sorted already), and the keys in it."""
    if (keys[1:] >= keys[:-1]).all():
        return None, keys
    order = np.argsort(keys, kind="stable")
    return order, keys[order]


@kernel
def _add_squares(
    listed: IntArray, truth: IntArray, keys: IntArray, values: NumberArray, squares: FloatArray, missed: IntArray
) -> None:
    # Both lists ascend, so `place` only moves forward: keys[place] is the first that is not before listed[cell].
    place = 0
    for cell in range(listed.shape[0]):
        while place < keys.shape[0] and keys[place] < listed[cell]:
            place += 1
        if place < keys.shape[0] and keys[place] == listed[cell]:
            error = float(values[place] - truth[cell])
        else:
            error = float(-truth[cell])
            missed[cell] += 1
        squares[cell] += error * error
