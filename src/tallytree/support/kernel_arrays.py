"""Small operations on arrays, for kernels: copies, runs of integers, a stable order.

numba compiles an assignment of an array to a slice together with a comparison of the shapes, whose message takes two
seconds of processor time and goes into the code of each kernel. Here the caller knows the lengths. `np.arange` and
`np.append` take a third of a second each. `np.argsort(kind="mergesort")` in a kernel is compiled anew, with a dozen
functions inside it, for each type and layout of an array: a second of processor time each, in every new environment.
`stable_order` takes a fifth of that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tallytree.support.arrays import IntArray, NumberArray
from tallytree.support.kernels import inlined, kernel


@inlined
def put(values: npt.NDArray[Any], target: npt.NDArray[Any]) -> None:
    """Copy all values to the front of `target`, which has at least as many places and shares no memory with them."""
    for i in range(len(values)):
        target[i] = values[i]


@inlined
def consecutive(begin: int, end: int) -> IntArray:
    """The integers from `begin` to `end` − 1."""
    numbers = np.empty(end - begin, np.int64)
    for i in range(end - begin):
        numbers[i] = begin + i
    return numbers


@inlined
def enlarged(array: npt.NDArray[Any], used: int, capacity: int) -> npt.NDArray[Any]:
    """An array of that capacity that begins with the first `used` elements."""
    larger = np.empty(capacity, array.dtype)
    put(array[:used], larger)
    return larger


@inlined
def enlarged_rows(array: npt.NDArray[Any], used: int, capacity: int) -> npt.NDArray[Any]:
    """Rows of that capacity, each of which begins with the first `used` elements of the array's row."""
    larger = np.empty((array.shape[0], capacity), array.dtype)
    for row in range(len(array)):
        put(array[row, :used], larger[row])
    return larger


_SMALL = 16
"""Pieces of this length are sorted by insertion, then merged."""


@kernel
def stable_order(keys: NumberArray) -> IntArray:
    """The places of ascending keys; equal keys stay in their order. Merge sort from below: O(n log n).

    Args:
        keys: (n,) contiguous, without NaN.

    Returns:
        int64 (n,), as `np.argsort(keys, kind="stable")`.
    """
    n = len(keys)
    order, merged = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        place = i
        while place % _SMALL > 0 and keys[i] < keys[order[place - 1]]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = i
    width = _SMALL
    while width < n:  # order is sorted in pieces of this width
        for begin in range(0, n, 2 * width):
            middle, end = min(begin + width, n), min(begin + 2 * width, n)
            left, right = begin, middle
            for k in range(begin, end):
                if left < middle and (right >= end or not keys[order[right]] < keys[order[left]]):
                    merged[k] = order[left]
                    left += 1
                else:
                    merged[k] = order[right]
                    right += 1
        order, merged = merged, order
        width *= 2
    return order
