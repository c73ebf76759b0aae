"""Rounding of families of real numbers to integers with a given sum, by largest remainders (Hamilton's method)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import MAX_EXACT, check_integers, check_offsets
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.kernels import kernel
from tallytree.support.sorting import stable_order

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
