"""Projection on the integer simplex: non-negative integers with a given sum, nearest to noisy ones.

Sources: IntOpt, Boninsegna & Silvestri 2025, section 4.2 (Chebyshev); the projection on the simplex by sorting (Held,
Wolfe & Crowder 1974), carried over to integers (Euclidean).

The kernels take many families at once; `simplex_threshold` is that of a real projection.
"""

from __future__ import annotations

import operator
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import check_families, check_integers
from tallytree.solvers.trees.simplex_weighted import weighted_kernel
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.kernel_arrays import put, stable_order
from tallytree.support.kernels import inlined, kernel

MAX_FAMILY_SUM = 2**60
"""Σ|noisy| + total of a family is at most this, so that no int64 operation can overflow."""


@kernel
def first_refused_family(noisy: IntArray, offsets: IntArray, totals: IntArray) -> int:
    """The first family without a solution, or too large to sum safely; −1 if there is none."""
    for family in range(len(totals)):
        if totals[family] < 0:
            return family
        if offsets[family] == offsets[family + 1] and totals[family] > 0:
            return family
        room = MAX_FAMILY_SUM - totals[family]
        for i in range(offsets[family], offsets[family + 1]):
            # Negated towards the negative side: the least int64 has no absolute value.
            room += min(noisy[i], -noisy[i]) if noisy[i] >= -MAX_FAMILY_SUM else -MAX_FAMILY_SUM - 1
            if room < 0:
                return family
    return -1


@kernel
def _sort(y: IntArray, order: IntArray) -> None:
    """Write the stable ascending order of y to order[:n]; most families are small, where insertion beats a call."""
    n = len(y)
    if n > 48:
        put(stable_order(y.copy()), order)  # a copy: numba compiles apart for an array that cannot be written to
        return
    for i in range(n):
        j = i
        while j > 0 and y[order[j - 1]] > y[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i


@inlined
def _level(y: IntArray, order: IntArray, total: int) -> tuple[int, int]:
    """The least integer t with Σ max(0, y − t) <= total, and what that sum leaves of the total.

    Invariant: at t = the k-th largest y, the sum leaves `room`. Going down to the next value costs k per unit, so
    the search ends where the room does: O(n) after sorting. What is left is less than k, the entries above t.
    """
    n = len(y)
    room = total
    k = 1
    while k < n:
        gap = y[order[n - k]] - y[order[n - k - 1]]
        if gap > room // k:
            break
        room -= gap * k
        k += 1
    step = room // k
    return y[order[n - k]] - step, room - step * k


@inlined
def _cut(y: IntArray, order: IntArray, level: int, spare: int, x: IntArray) -> None:
    """Write max(0, y − level) to x, and one more for each of the `spare` last in ascending order."""
    n = len(y)
    for i in range(n):
        x[i] = max(0, y[i] - level)
    for i in range(n - spare, n):
        x[order[i]] += 1


@inlined
def _cut_from_below(y: IntArray, order: IntArray, level: int, spare: int, x: IntArray) -> None:
    """As `_cut`, but one more for each of the `spare` smallest entries that are at least `level`."""
    n = len(y)
    left = spare
    for j in range(n):
        i = order[j]
        x[i] = max(0, y[i] - level)
        if y[i] >= level and left > 0:
            x[i] += 1
            left -= 1


@inlined
def _chebyshev(y: IntArray, total: int, order: IntArray, descending: bool, x: IntArray) -> None:
    """IntOpt without its repeated passes.

    The first pass stays within distance t of y and is enough iff Σ max(0, y − t) <= total. If not, every pass leaves
    x = max(0, y − t) with the sum still too large, until t is one short of the least possible `level`; the last pass
    then takes one from positive entries in ascending order, which leaves one extra on the `spare` largest, or in
    descending order, which leaves it on the smallest.
    """
    n = len(y)
    missing = total
    for i in range(n):
        missing -= y[i]
    shift = -(-missing // n)
    distance = 0
    excess = -total
    for i in range(n):
        x[i] = max(0, y[i] + shift)
        distance = max(distance, abs(x[i] - y[i]))
        excess += x[i]
    if excess == 0:
        return
    _sort(y, order)
    level, spare = _level(y, order, total)
    if level > distance:
        if descending:
            _cut_from_below(y, order, level, spare, x)
        else:
            _cut(y, order, level, spare, x)
        return
    for j in range(n):
        i = order[n - 1 - j] if descending else order[j]
        lowered = min(excess, x[i] - max(0, y[i] - distance))
        x[i] -= lowered
        excess -= lowered
        if excess == 0:
            return


@inlined
def chebyshev_alone(y: IntArray, total: int, order: IntArray, x: IntArray) -> None:
    """Write the solution of `simplex.chebyshev` for one family to x; `order` is working space of its length."""
    _chebyshev(y, total, order, False, x)


@inlined
def _longest(offsets: IntArray) -> int:
    longest = 0
    for family in range(len(offsets) - 1):
        longest = max(longest, offsets[family + 1] - offsets[family])
    return longest


@kernel
def chebyshev_kernel(noisy: IntArray, offsets: IntArray, totals: IntArray, descending: bool) -> IntArray:
    """The solution of `simplex.chebyshev` for each family."""
    x = np.empty(len(noisy), np.int64)
    order = np.empty(_longest(offsets), np.int64)
    for family in range(len(totals)):
        a, b = offsets[family], offsets[family + 1]
        if a < b:
            _chebyshev(noisy[a:b], totals[family], order, descending, x[a:b])
    return x


@kernel
def euclidean_kernel(noisy: IntArray, offsets: IntArray, totals: IntArray) -> IntArray:
    """The optimum of each family is noisy − level, cut at 0, for the least level that does not exceed the total.

    Raising an entry from y − level costs the same for all entries above it and more for those cut, so the units
    left over go to any of the former: to the largest.
    """
    x = np.empty(len(noisy), np.int64)
    order = np.empty(_longest(offsets), np.int64)
    for family in range(len(totals)):
        a, b = offsets[family], offsets[family + 1]
        if a < b:
            y = noisy[a:b]
            _sort(y, order)
            level, spare = _level(y, order, totals[family])
            _cut(y, order, level, spare, x[a:b])
    return x


@kernel
def simplex_threshold(v: FloatArray, total: int, guess: float) -> float:
    """The t with Σ max(0, v − t) = total > 0.

    The sum is convex in t, so Newton's steps rise to t from the left, and after one step also from a guess too high.
    The entries above t are nested: their number stays the same only if they do, and then t solves for them.
    """
    t, before = guess, len(v) + 1
    for turn in range(len(v) + 3):
        count, room = 0, -float(total)
        for i in range(len(v)):
            if v[i] > t:
                count += 1
                room += v[i] - t
        if count > 0:
            t += room / count
        elif turn == 0:
            t = v.max() - total
        if count == before or (turn > 1 and count > before):
            break
        before = count
    # Rounding can push t over the greatest entry, never beyond its neighbor on the line of doubles.
    return float(min(t, np.nextafter(v.max(), -np.inf)))


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
