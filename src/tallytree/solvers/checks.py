"""Checks that the solvers' wrappers share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tallytree.support.arrays import IntArray

MAX_SUM = 2**62
"""Sums of integers are below this magnitude, so that no int64 operation on them can overflow."""
MAX_EXACT = 2**53
"""Every integer up to this magnitude is a double exactly."""


def check_integers(name: str, values: npt.ArrayLike) -> IntArray:
    """Return `values` as a contiguous 1-d int64 array, or say what is wrong with it.

    Args:
        name: the argument's name, for the message.
        values: what the caller gave.

    Returns:
        The array; a copy only where the type differs.

    Raises:
        TypeError: if it does not hold integers.
        ValueError: if it is not one-dimensional, or does not fit int64.
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; it must be one-dimensional")
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} has dtype {array.dtype}; it must hold integers that fit int64")
    if array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name} holds {array.max()}; it must hold integers that fit int64")
    return np.ascontiguousarray(array, np.int64)


def check_families(
    noisy: npt.ArrayLike, offsets: npt.ArrayLike, totals: npt.ArrayLike
) -> tuple[IntArray, IntArray, IntArray]:
    """Return families of noisy values, where each begins, and the sum of each, as int64.

    Args:
        noisy: (children,) family after family.
        offsets: (families + 1,) family i is `noisy[offsets[i]:offsets[i + 1]]`.
        totals: (families,)

    Returns:
        The three arrays.

    Raises:
        TypeError: as `check_integers`.
        ValueError: as `check_integers` and `check_offsets`; also for another number of totals than of families.
    """
    values = check_integers("noisy", noisy)
    cuts = check_offsets("offsets", offsets, "noisy", len(values))
    sums = check_integers("totals", totals)
    if len(sums) != len(cuts) - 1:
        raise ValueError(f"totals has {len(sums)} entries; offsets describe {len(cuts) - 1} families")
    return values, cuts, sums


def check_offsets(name: str, offsets: npt.ArrayLike, covers: str, length: int) -> IntArray:
    """Return `offsets` as int64 if it cuts `length` entries into consecutive, possibly empty, pieces.

    Args:
        name: the argument's name, for the message.
        offsets: what the caller gave.
        covers: the name of what is cut up.
        length: its number of entries.

    Returns:
        (pieces + 1,) int64.

    Raises:
        TypeError: if it does not hold integers.
        ValueError: if it does not begin with 0, decreases, or does not end with `length`.
    """
    array = check_integers(name, offsets)
    if len(array) == 0 or array[0] != 0 or array[-1] != length:
        ends = f"{array[0]} … {array[-1]}" if len(array) else "nothing"
        raise ValueError(f"{name} is {ends}; it must run from 0 to the {length} entries of {covers}")
    falls = np.flatnonzero(array[1:] < array[:-1])
    if len(falls):
        raise ValueError(f"{name} falls from {array[falls[0]]} to {array[falls[0] + 1]}; it must never decrease")
    return array
