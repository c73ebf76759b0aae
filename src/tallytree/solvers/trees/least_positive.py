"""The least measurement with which IntOpt gives a child a positive count, its siblings' measurements as they are."""

from __future__ import annotations

import numpy as np

from tallytree.solvers.trees.simplex_kernels import chebyshev_alone
from tallytree.support.arrays import BoolArray, FloatArray, IntArray
from tallytree.support.copying import put
from tallytree.support.kernels import kernel

SMALL = 64
"""Families with more children are not projected again: there, a child is above all siblings that were left out."""


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
    return _least_positive(noisy, offsets, left_out, left_out_offsets, totals, wanted, reach)


@kernel
def _least_positive(
    noisy: IntArray,
    offsets: IntArray,
    left_out: IntArray,
    left_out_offsets: IntArray,
    totals: IntArray,
    wanted: BoolArray,
    reach: int,
) -> FloatArray:
    """Invariant of the bisection: the count is 0 at `low`, and positive at `high`."""
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
