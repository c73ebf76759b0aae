"""Copies of arrays and runs of integers, for kernels.

numba compiles an assignment of an array to a slice together with a comparison of the shapes, whose message takes two
seconds of processor time and goes into the code of each kernel. Here the caller knows the lengths. `np.arange` and
`np.append` take a third of a second each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tallytree.support.arrays import IntArray
from tallytree.support.kernels import inlined


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
