"""Projection on the integer simplex: non-negative integers with a given sum, nearest to noisy ones.

Sources: IntOpt, Boninsegna & Silvestri 2025, section 4.2 (Chebyshev); the projection on the simplex by sorting (Held,
Wolfe & Crowder 1974), carried over to integers (Euclidean).
"""

from __future__ import annotations

import operator
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import check_families, check_integers
from tallytree.solvers.trees.simplex_kernels import (
    MAX_FAMILY_SUM,
    chebyshev_kernel,
    euclidean_kernel,
    first_refused_family,
)
from tallytree.solvers.trees.simplex_weighted import weighted_kernel
from tallytree.support.arrays import IntArray

Order = Literal["ascending", "descending"]
MAX_WEIGHT_RATIO = 2.0**900
"""Weights of one problem differ by at most this factor, so that scaling them to at most 1 loses no bit."""


def chebyshev(noisy: npt.ArrayLike, total: int, *, order: Order = "ascending") -> IntArray:
    """Minimise max|x − noisy| over integers x >= 0 with Σx = total, as IntOpt does.

    Of the many optimal solutions this is IntOpt's: start from x = max(0, noisy + ⌈(total − Σnoisy)/n⌉) and lower the
    entries with the smallest noisy values first (stable), so that small false positives become 0. In descending order
    the entries with the largest are lowered first (the reverse of the stable order): fewer true values become 0.

    Args:
        noisy: (n,) integers.
        total: the sum to reach, >= 0.
        order: `"ascending"`, or `"descending"` (section 4.2, "Reducing False Positives").

    Returns:
        (n,) int64. O(n log n).

    Raises:
        TypeError: for anything but integers.
        ValueError: for a negative total, a positive total of no entries, Σ|noisy| + total > 2^60, or an unknown order.

    Example:
        >>> chebyshev([5, 1, -2], 3).tolist()
        [3, 0, 0]
        >>> chebyshev([5, 1, -2], 3, order="descending").tolist()
        [2, 1, 0]
    """
    return chebyshev_families(*_one_family(noisy, total), order=order)


def euclidean(noisy: npt.ArrayLike, total: int, weights: npt.ArrayLike | None = None) -> IntArray:
    """Minimise Σ weights·(x − noisy)² over integers x >= 0 with Σx = total; the exact integer optimum.

    Where raising either of two entries by one costs exactly the same, the one with the larger noisy value is raised,
    then the later one: small values are lowered first. Float weights count as the exact numbers they are.

    Args:
        noisy: (n,) integers.
        total: the sum to reach, >= 0.
        weights: (n,) positive and finite; all equal by default.

    Returns:
        (n,) int64. O(n log n); with weights O(64·n + n log n).

    Raises:
        TypeError: for noisy values or a total that are not integers, or weights that are not numbers.
        ValueError: for a negative total, a positive total of no entries, Σ|noisy| + total > 2^60, weights of another
            shape, weights that are not positive and finite, or that differ by a factor over 2^900.

    Example:
        >>> euclidean([5, 1, -2], 3).tolist()
        [3, 0, 0]
        >>> euclidean([4, 4], 4, weights=[3, 1]).tolist()
        [3, 1]
    """
    values, offsets, totals = _one_family(noisy, total)
    if weights is None:
        return euclidean_families(values, offsets, totals)
    _check_families(values, offsets, totals)
    scale = np.asarray(weights)
    if scale.size and scale.dtype.kind not in "iuf":
        raise TypeError(f"weights has dtype {scale.dtype}; it must hold real numbers")
    if scale.shape != values.shape:
        raise ValueError(f"weights has shape {scale.shape}; it must have that of noisy, {values.shape}")
    if not len(values):
        return values
    exact = scale.astype(np.float64)
    if not (np.isfinite(exact) & (exact > 0)).all():
        raise ValueError(f"weights must be positive and finite; got {exact.min()} … {exact.max()}")
    if exact.max() / MAX_WEIGHT_RATIO > exact.min():
        raise ValueError(f"weights must be within a factor 2^900 of each other; got {exact.min()} … {exact.max()}")
    return weighted_kernel(values, int(totals[0]), np.ldexp(exact, -np.frexp(exact.max())[1]))


def chebyshev_families(
    noisy: npt.ArrayLike, offsets: npt.ArrayLike, totals: npt.ArrayLike, *, order: Order = "ascending"
) -> IntArray:
    """Solve `chebyshev` for every family of children at once.

    Args:
        noisy: (children,) integers, family after family.
        offsets: (families + 1,) family i is `noisy[offsets[i]:offsets[i + 1]]`.
        totals: (families,) the sum of each family, >= 0.
        order: see `chebyshev`.

    Returns:
        (children,) int64.

    Raises:
        TypeError: as `chebyshev`.
        ValueError: as `chebyshev`, for any family; also for offsets that do not cut up `noisy`.

    Example:
        >>> chebyshev_families([5, 1, -2, 7], [0, 3, 4], [3, 6]).tolist()
        [3, 0, 0, 6]
    """
    if order not in get_args(Order):
        raise ValueError(f'order: {order!r} is not known; choose "ascending" or "descending"')
    return chebyshev_kernel(*_families(noisy, offsets, totals), order == "descending")


def euclidean_families(noisy: npt.ArrayLike, offsets: npt.ArrayLike, totals: npt.ArrayLike) -> IntArray:
    """Solve `euclidean` without weights for every family of children at once.

    Args:
        noisy: (children,) integers, family after family.
        offsets: (families + 1,) family i is `noisy[offsets[i]:offsets[i + 1]]`.
        totals: (families,) the sum of each family, >= 0.

    Returns:
        (children,) int64.

    Raises:
        TypeError: as `euclidean`.
        ValueError: as `euclidean`, for any family; also for offsets that do not cut up `noisy`.

    Example:
        >>> euclidean_families([5, 1, -2, 7], [0, 3, 4], [3, 6]).tolist()
        [3, 0, 0, 6]
    """
    return euclidean_kernel(*_families(noisy, offsets, totals))


def _one_family(noisy: npt.ArrayLike, total: int) -> tuple[IntArray, IntArray, IntArray]:
    values = check_integers("noisy", noisy)
    if isinstance(total, bool | np.bool_):
        raise TypeError(f"total={total!r} must be an integer")
    try:
        number = operator.index(total)
    except TypeError:
        raise TypeError(f"total={total!r} must be an integer") from None
    if not 0 <= number <= MAX_FAMILY_SUM:
        raise ValueError(f"total={number} must be between 0 and 2^60")
    return values, np.array([0, len(values)]), np.array([number])


def _families(
    noisy: npt.ArrayLike, offsets: npt.ArrayLike, totals: npt.ArrayLike
) -> tuple[IntArray, IntArray, IntArray]:
    values, cuts, sums = check_families(noisy, offsets, totals)
    _check_families(values, cuts, sums)
    return values, cuts, sums


def _check_families(noisy: IntArray, offsets: IntArray, totals: IntArray) -> None:
    family = first_refused_family(noisy, offsets, totals)
    if family < 0:
        return
    total, size = totals[family], offsets[family + 1] - offsets[family]
    if total < 0:
        raise ValueError(f"totals[{family}]={total} must not be negative")
    if size == 0:
        raise ValueError(f"totals[{family}]={total} must be 0, because family {family} is empty")
    raise ValueError(f"noisy and totals of family {family} must satisfy Σ|noisy| + total <= 2^60, else sums overflow")
