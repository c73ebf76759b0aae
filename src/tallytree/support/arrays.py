"""Small operations on flat arrays, for every package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
NumberArray = npt.NDArray[np.int64 | np.float64]
BoolArray = npt.NDArray[np.bool_]

Number = TypeVar("Number", bound=np.int64 | np.float64)


def read_only(array: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """A view that cannot be written to: kernels are compiled apart for such arrays and for others."""
    view = array.view()
    view.flags.writeable = False
    return view


def offsets_of(lengths: IntArray) -> IntArray:
    """Where consecutive pieces of the given lengths begin, and where the last one ends: int64 (n + 1,)."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def concatenate_ranges(starts: IntArray, lengths: IntArray) -> tuple[IntArray, IntArray]:
    """The integers start, …, start + length − 1 of every pair, concatenated; and where those of each pair begin."""
    offsets = offsets_of(lengths)
    return np.arange(offsets[-1], dtype=np.int64) + np.repeat(starts - offsets[:-1], lengths), offsets


def sum_by_key(keys: IntArray, values: npt.NDArray[Number]) -> tuple[IntArray, npt.NDArray[Number]]:
    """The distinct keys, ascending, and the sum of the values of each key."""
    if len(keys) == 0:
        return keys, values
    if (keys[1:] < keys[:-1]).any():
        order = np.argsort(keys, kind="stable")
        keys, values = keys[order], values[order]
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return keys[starts], np.add.reduceat(values, starts)


def numbered(values: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """The distinct values in the order in which they first appear, and the place of every value among them.

    Args:
        values: integers (n,), each at least 0 and below `size`.
        size: how many values there can be.

    Returns:
        int64 (distinct,) and int64 (n,).
    """
    if 4 * len(values) < size:  # an array of all possible values would be what takes time
        distinct, first, place = np.unique(values, return_index=True, return_inverse=True)
        order = np.argsort(first)
        return distinct[order].astype(np.int64), np.argsort(order)[place]
    first_row = np.full(size, -1, dtype=np.int64)
    first_row[values[::-1]] = np.arange(len(values) - 1, -1, -1)  # the last assignment to a place is the one that stays
    is_first = np.zeros(len(values), dtype=np.bool_)
    is_first[first_row[first_row >= 0]] = True
    distinct = values[is_first]
    number = np.zeros(size, dtype=np.int64)
    number[distinct] = np.arange(len(distinct), dtype=np.int64)
    return distinct, number[values]


def chunks(lengths: IntArray, at_once: int) -> Iterator[slice]:
    """Slices of consecutive items whose lengths add up to at most `at_once`; each slice has at least one item."""
    ends = np.cumsum(lengths)
    start = 0
    while start < len(ends):
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + at_once, side="right")))
        yield slice(start, stop)
        start = stop


def families_of(begins: IntArray, part: slice) -> tuple[IntArray, slice]:
    """The children of some areas: where those of each begin, counted from the first, (areas + 1,), and their slice.

    Args:
        begins: int64 (all areas + 1,), where the children of each area begin.
        part: consecutive areas.
    """
    own = begins[part.start : part.stop + 1]
    return own - own[0], slice(int(own[0]), int(own[-1]))


def rows_at(rows: BoolArray, part: slice | IntArray) -> BoolArray:
    """Some of the rows; where there is one row for all, that one."""
    return rows if len(rows) == 1 else rows[part]
