"""Mean consistency: unconstrained least squares on a tree in two passes (Hay, Rastogi, Miklau and Suciu 2010).

The paper has the closed form for complete trees and equal variances. Here families may have any size and every node a
variance of its own, by which estimates are combined.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import check_offsets
from tallytree.support.arrays import FloatArray

FINEST_BITS = 20
"""Exact sums are of multiples of 2^-20, about a millionth, or of a larger power of two where they are large."""
SUM_BITS = 50
"""They stay below 2^50 of these units, so that doubles hold them and their differences exactly."""
MAX_COLUMN_SUM = 2.0**52
"""Above 2^50 the unit is 1; differences of two columns are exact still."""


def fit(
    noisy: Sequence[npt.ArrayLike], first_child: Sequence[npt.ArrayLike], variances: Sequence[npt.ArrayLike]
) -> list[FloatArray]:
    """Minimise Σ (x − noisy)² / variance over real x where inner nodes are the sums of their children, by columns.

    Upward, a node's own number y, of variance v, is combined with its children's sum s, of variance w (that of their
    combined estimates): z = y + (s − y)·v/(v + w), of variance v·w/(v + w). Downward, the difference between a parent's
    final number and the sum of its children's z is shared out in proportion to their variances. x may be negative and
    fractional, even where every noisy number is a positive integer.

    Args:
        noisy: per level, from the top down, (n, columns).
        first_child: per level but the last, (n + 1,): node i has the children first_child[i] … first_child[i + 1] − 1
            of the next level, one at least.
        variances: per level, of its numbers' noise: one number, or (n,); positive, or, in the top level alone, 0 where
            the number is exact.

    Returns:
        Per level, float64 (n, columns). O(numbers).

    Raises:
        TypeError: offsets that are not integers.
        ValueError: levels that do not fit each other, a node without children above the last level, numbers that are
            not finite, a variance that is not positive.

    Example:
        >>> [level.tolist() for level in fit([[[6.0]], [[1.0], [2.0]]], [[0, 2]], [1.0, 1.0])]
        [[[5.0]], [[2.0], [3.0]]]
    """
    values, begins, own = _checked(noisy, first_child, variances)
    combined, left = [values[-1]], [own[-1]]
    for y, v, begin in zip(values[-2::-1], own[-2::-1], begins[::-1], strict=True):
        s, w = (np.add.reduceat(below[0], begin, axis=0) for below in (combined, left))
        trust = v / (v + w)
        combined.insert(0, y + (s - y) * trust[:, None])
        left.insert(0, w * trust)
    found = [combined[0]]
    for z, w, begin in zip(combined[1:], left[1:], begins, strict=True):
        families = np.diff(np.append(begin, len(z)))
        excess = found[-1] - np.add.reduceat(z, begin, axis=0)
        share = w / np.repeat(np.add.reduceat(w, begin), families)
        found.append(z + share[:, None] * np.repeat(excess, families, axis=0))
    return found


def with_exact_sums(values: FloatArray, total: int | None = None) -> FloatArray:
    """The nearest multiples of 2^-20, whose sums and differences, by rows or columns, are exact in floats.

    The unit is a larger power of two, at most 1, where the magnitudes of a column add up to more than 2^30. Integers
    stay what they are, and numbers that miss an integer by float error become it.

    Args:
        values: (n, columns), n > 0.
        total: what the first column must add up to: what it misses is spread evenly over the rows.

    Returns:
        float64 (n, columns).

    Raises:
        ValueError: a column whose magnitudes, or the total, reach 2^52.

    Example:
        >>> thirds = np.array([[1 / 3], [1 / 3], [1 / 3 + 1e-12]])
        >>> (with_exact_sums(thirds, 1) * 2**20).tolist()
        [[349525.0], [349526.0], [349525.0]]
    """
    largest = max(float(np.abs(values).sum(axis=0).max(initial=0.0)), abs(float(total or 0)))
    if not largest < MAX_COLUMN_SUM:
        raise ValueError(f"values: they add up to a magnitude of {largest:.3g}, and sums are exact below 2^52 only")
    unit = 2.0 ** -max(0, min(FINEST_BITS, SUM_BITS - int(np.frexp(largest)[1])))
    units: FloatArray = values / unit
    np.rint(units, out=units)
    if total is not None:
        missed = total / unit - units[:, 0].sum()
        units[:, 0] += np.diff(np.rint(missed * np.arange(len(units) + 1) / len(units)))
    units *= unit
    return units


def _checked(
    noisy: Sequence[npt.ArrayLike], first_child: Sequence[npt.ArrayLike], variances: Sequence[npt.ArrayLike]
) -> tuple[list[FloatArray], list[npt.NDArray[np.int64]], list[FloatArray]]:
    values = [np.asarray(level, dtype=np.float64) for level in noisy]
    if not values or len(first_child) != len(values) - 1 or len(variances) != len(values):
        raise ValueError(
            f"noisy: {len(values)} levels, with {len(first_child)} of first_child and {len(variances)} variances; give "
            "at least one level, first_child for each but the last, and a variance for each"
        )
    columns = values[0].shape[1] if values[0].ndim == 2 else -1
    if any(level.ndim != 2 or len(level) == 0 or level.shape[1] != columns for level in values):
        shapes = [level.shape for level in values]
        raise ValueError(f"noisy: the shapes are {shapes}; every level needs rows, and all as many columns")
    if not all(np.isfinite(level).all() for level in values):
        raise ValueError("noisy: it holds a number that is not finite; give finite ones")
    begins = []
    for above, below, cuts in zip(values[:-1], values[1:], first_child, strict=True):
        offsets = check_offsets("first_child", cuts, "the level below", len(below))
        if len(offsets) != len(above) + 1 or (np.diff(offsets) == 0).any():
            raise ValueError(
                f"first_child: {len(offsets)} offsets for {len(above)} nodes; every node needs one, and a child"
            )
        begins.append(offsets[:-1])
    own = []
    for depth, (level, variance) in enumerate(zip(values, variances, strict=True)):
        given = np.asarray(variance, dtype=np.float64)
        if given.ndim and given.shape != (len(level),):
            raise ValueError(f"variances: the shape {given.shape} does not fit a level of {len(level)} nodes")
        exact = depth == 0 and len(values) > 1
        if not (np.isfinite(given) & ((given >= 0) if exact else (given > 0))).all():
            raise ValueError(
                f"variances: {given.min()!r} in level {depth} must be positive and finite (or 0 in the top level of "
                "several)"
            )
        own.append(np.broadcast_to(given, (len(level),)))
    return values, begins, own
