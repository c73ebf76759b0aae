"""Families with a known sum: rounding by largest remainders, thresholds, and what a child needs to be positive."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import MAX_EXACT, check_families, check_integers, check_offsets
from tallytree.solvers.trees.simplex import chebyshev_alone
from tallytree.support.arrays import BoolArray, FloatArray, IntArray
from tallytree.support.kernel_arrays import put, stable_order
from tallytree.support.kernels import kernel

FAMILY_SLACK = 1e-6
"""Relative to the sum of a family; the float error by which its real sum may miss the nearest total within reach."""


def round_families(values: npt.ArrayLike, offsets: npt.ArrayLike, totals: npt.ArrayLike) -> IntArray:
    """Round every family to integers that add up to its total: each number down, then some of them up by one.

    The numbers with the largest remainders go up, earlier ones first. A number moves by less than one if its family's
    real sum is the total, or is the total when rounded up or down.

    Args:
        values: (n,) real numbers ≥ 0, family after family.
        offsets: (families + 1,) family i is `values[offsets[i]:offsets[i + 1]]`.
        totals: (families,) integers, each at least the sum of the numbers rounded down, and at most that plus their
            number (up to float error, which is compensated by units at the largest numbers).

    Returns:
        (n,) int64 ≥ 0. O(n log n).

    Raises:
        TypeError: for offsets or totals that are not integers.
        ValueError: for numbers that are negative, not finite or beyond 2^53, or a total out of reach.

    Example:
        >>> round_families([0.5, 1.7, 0.8, 2.0], [0, 3, 4], [3, 2]).tolist()
        [0, 2, 1, 2]
    """
    numbers = np.ascontiguousarray(values, dtype=np.float64)
    cuts = check_offsets("offsets", offsets, "values", len(numbers))
    sums = check_integers("totals", totals)
    if len(sums) != len(cuts) - 1:
        raise ValueError(f"totals has {len(sums)} entries; it must have one for each of {len(cuts) - 1} families")
    if not (numbers >= 0).all() or (numbers > MAX_EXACT).any():
        raise ValueError("values must be finite, ≥ 0 and at most 2^53")
    rounded, wrong = _round_families(numbers, cuts, sums)
    if wrong >= 0:
        real = numbers[cuts[wrong] : cuts[wrong + 1]].sum()
        raise ValueError(f"totals: {sums[wrong]} is out of reach of family {wrong}, whose numbers add up to {real:.6g}")
    return rounded


@kernel
def _round_families(values: FloatArray, offsets: IntArray, totals: IntArray) -> tuple[IntArray, int]:
    # Within a family: floors first, then one unit each in the order of the remainders. A family that is off by more
    # than rounding can explain is reported by its number.
    rounded = np.empty(len(values), dtype=np.int64)
    for family in range(len(totals)):
        first, last = offsets[family], offsets[family + 1]
        remainder = np.empty(last - first)
        floors = 0
        real = 0.0
        for i in range(first, last):
            rounded[i] = int(np.floor(values[i]))
            remainder[i - first] = rounded[i] - values[i]
            floors += rounded[i]
            real += values[i]
        units = totals[family] - floors
        beyond_floats = abs(totals[family] - real) > 1.0 + FAMILY_SLACK * real or last == first or totals[family] < 0
        if (units < 0 or units > last - first) and beyond_floats:
            return rounded, family
        if units == 0:
            continue
        order = stable_order(remainder)
        place = 0
        while units > 0:
            rounded[first + order[place % (last - first)]] += 1
            place += 1
            units -= 1
        place = last - first - 1
        while units < 0:  # float error only: down again where the remainder is smallest and something is left
            i = first + order[place % (last - first)]
            if rounded[i] > 0:
                rounded[i] -= 1
                units += 1
            place -= 1
    return rounded, -1


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


SMALL = 64
"""Families with more children are not projected again: there, a child is above all siblings that were left out."""


@kernel
def least_positive(
    noisy: IntArray,
    offsets: IntArray,
    left_out: IntArray,
    left_out_offsets: IntArray,
    totals: IntArray,
    wanted: BoolArray,
    reach: int,
) -> FloatArray:
    """The least measurement at which each of some children would still have a positive count, if it is near its own.

    The solution of `solvers.trees.simplex.chebyshev` is computed again for other measurements of the child, by
    bisection.

    Args:
        noisy: int64 (n,), the measurements of the children with a positive count, family after family.
        offsets: int64 (families + 1,), where each family begins.
        left_out: int64 (m,), the measurements of their siblings with a count of 0, family after family.
        left_out_offsets: int64 (families + 1,).
        totals: int64 (families,), the count of each parent.
        wanted: bool (n,), for which children it is asked.
        reach: no threshold is looked for further below the measurement.

    Returns:
        Float64 (n,), at most `noisy`; −inf where it is not asked for, or further below than `reach`.

    Example:
        Of a parent with 50, a child of 120 beside one of 90: with 41 it would have none.

        >>> least_positive(np.array([120, 90]), np.array([0, 2]), np.empty(0, int), np.zeros(2, int), np.array([50]),
        ...                np.array([True, False]), 1000).tolist()
        [42.0, -inf]
    """
    # Invariant of the bisection: the count is 0 at `low`, and positive at `high`.
    found = np.full(len(noisy), -np.inf)
    y, x, order = np.empty(SMALL, np.int64), np.empty(SMALL, np.int64), np.empty(SMALL, np.int64)
    for family in range(len(totals)):
        a, b = offsets[family], offsets[family + 1]
        c, d = left_out_offsets[family], left_out_offsets[family + 1]
        n = b - a + d - c
        above = -np.inf
        for i in range(c, d):
            above = max(above, float(left_out[i] + 1))
        for i in range(a, b):
            if not wanted[i] or n < 2:
                continue
            found[i] = min(above, float(noisy[i]))
            if n > SMALL:
                continue
            put(noisy[a:b], y)
            put(left_out[c:d], y[b - a :])
            place, high = i - a, noisy[i]
            low = high - reach
            y[place] = low
            chebyshev_alone(y[:n], totals[family], order[:n], x[:n])
            if x[place] > 0:
                found[i] = -np.inf
                continue
            while high - low > 1:
                middle = (low + high) // 2
                y[place] = middle
                chebyshev_alone(y[:n], totals[family], order[:n], x[:n])
                if x[place] > 0:
                    high = middle
                else:
                    low = middle
            found[i] = float(high)
    return found
