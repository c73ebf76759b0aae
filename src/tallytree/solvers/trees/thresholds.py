"""Which entries of noisy families stand out of the noise: a threshold that still leaves room for a family's sum."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import check_families
from tallytree.support.arrays import BoolArray, IntArray
from tallytree.support.kernels import kernel
from tallytree.support.sorting import stable_order


def survivors(noisy: npt.ArrayLike, offsets: npt.ArrayLike, totals: npt.ArrayLike, threshold: float) -> BoolArray:
    """Mark the entries of each family that are above a threshold, or that its sum cannot do without.

    In descending order of noisy values (the first of equal ones first) an entry survives if it is above the threshold,
    if it is the largest, or if it is positive and the survivors before it fall short of the family's sum by more than
    the threshold.

    Args:
        noisy: (children,) integers, family after family.
        offsets: (families + 1,) family i is `noisy[offsets[i]:offsets[i + 1]]`.
        totals: (families,) the sum of each family.
        threshold: in the units of `noisy`, >= 0.

    Returns:
        (children,) bool. O(n log n).

    Raises:
        TypeError: for anything but integers.
        ValueError: for offsets that do not cut up `noisy`, another number of totals, or a threshold that is negative or
            not a number.

    Example:
        >>> survivors([9, 2, 7, -1, 3, 1], [0, 4, 6], [22, 2], 5.0).tolist()
        [True, True, True, False, True, False]
    """
    values, cuts, sums = check_families(noisy, offsets, totals)
    if math.isnan(threshold) or threshold < 0:
        raise ValueError(f"threshold={threshold} must be at least 0")
    return _survivors(values, cuts, sums, float(threshold))


@kernel
def _survivors(noisy: IntArray, offsets: IntArray, totals: IntArray, threshold: float) -> BoolArray:
    kept = np.zeros(len(noisy), np.bool_)
    for family in range(len(totals)):
        a, b = offsets[family], offsets[family + 1]
        # Descending and stable, without negating: the least int64 has no negative.
        order = (b - a - 1) - stable_order(noisy[a:b][::-1].copy())[::-1]
        short = totals[family]
        for rank in range(b - a):
            i = a + order[rank]
            if not (rank == 0 or noisy[i] > threshold or (noisy[i] > 0 and short > threshold)):
                break
            kept[i] = True
            if noisy[i] > 0:
                short = max(short - noisy[i], 0)
    return kept
