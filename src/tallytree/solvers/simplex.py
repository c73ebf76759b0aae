"""Projection on the integer simplex: non-negative integers with a given sum, nearest to noisy ones.

Sources: IntOpt, Boninsegna & Silvestri 2025, section 4.2 (Chebyshev); the projection on the simplex by sorting (Held,
Wolfe & Crowder 1974), carried over to integers (Euclidean).
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from tallytree.compute.arrays import FloatArray, IntArray
from tallytree.compute.kernels import kernel
from tallytree.solvers.checks import check_families, check_integers

SAFE_SUM = 2**60
"""Σ|noisy| + total of a family is at most this, so that no int64 operation can overflow."""
WEIGHT_RANGE = 2.0**900
"""Weights of one problem differ by at most this factor, so that scaling them to at most 1 loses no bit."""


def chebyshev(noisy: npt.ArrayLike, total: int) -> IntArray:
    """Minimise max|x − noisy| over integers x >= 0 with Σx = total, as IntOpt does.

    Of the many optimal solutions this is IntOpt's: start from x = max(0, noisy + ⌈(total − Σnoisy)/n⌉) and lower the
    entries with the smallest noisy values first (stable), so that small false positives become 0.

    Args:
        noisy: (n,) integers.
        total: the sum to reach, >= 0.

    Returns:
        (n,) int64. O(n log n).

    Raises:
        TypeError: for anything but integers.
        ValueError: for a negative total, a positive total of no entries, or Σ|noisy| + total > 2^60.

    Example:
        >>> chebyshev([5, 1, -2], 3).tolist()
        [3, 0, 0]
    """
    return chebyshev_families(*_one_family(noisy, total))


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
    if exact.max() / WEIGHT_RANGE > exact.min():
        raise ValueError(f"weights must be within a factor 2^900 of each other; got {exact.min()} … {exact.max()}")
    return _weighted(values, int(totals[0]), np.ldexp(exact, -np.frexp(exact.max())[1]))


def chebyshev_families(noisy: npt.ArrayLike, offsets: npt.ArrayLike, totals: npt.ArrayLike) -> IntArray:
    """Solve `chebyshev` for every family of children at once.

    Args:
        noisy: (children,) integers, family after family.
        offsets: (families + 1,) family i is `noisy[offsets[i]:offsets[i + 1]]`.
        totals: (families,) the sum of each family, >= 0.

    Returns:
        (children,) int64.

    Raises:
        TypeError: as `chebyshev`.
        ValueError: as `chebyshev`, for any family; also for offsets that do not cut up `noisy`.

    Example:
        >>> chebyshev_families([5, 1, -2, 7], [0, 3, 4], [3, 6]).tolist()
        [3, 0, 0, 6]
    """
    return _chebyshev_families(*_families(noisy, offsets, totals))


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
    return _euclidean_families(*_families(noisy, offsets, totals))


def _one_family(noisy: npt.ArrayLike, total: int) -> tuple[IntArray, IntArray, IntArray]:
    values = check_integers("noisy", noisy)
    if isinstance(total, bool | np.bool_):
        raise TypeError(f"total={total!r} must be an integer")
    try:
        number = operator.index(total)
    except TypeError:
        raise TypeError(f"total={total!r} must be an integer") from None
    if not 0 <= number <= SAFE_SUM:
        raise ValueError(f"total={number} must be between 0 and 2^60")
    return values, np.array([0, len(values)]), np.array([number])


def _families(
    noisy: npt.ArrayLike, offsets: npt.ArrayLike, totals: npt.ArrayLike
) -> tuple[IntArray, IntArray, IntArray]:
    values, cuts, sums = check_families(noisy, offsets, totals)
    _check_families(values, cuts, sums)
    return values, cuts, sums


def _check_families(noisy: IntArray, offsets: IntArray, totals: IntArray) -> None:
    family = _first_refused(noisy, offsets, totals)
    if family < 0:
        return
    total, size = totals[family], offsets[family + 1] - offsets[family]
    if total < 0:
        raise ValueError(f"totals[{family}]={total} must not be negative")
    if size == 0:
        raise ValueError(f"totals[{family}]={total} must be 0, because family {family} is empty")
    raise ValueError(f"noisy and totals of family {family} must satisfy Σ|noisy| + total <= 2^60, else sums overflow")


@kernel
def _first_refused(noisy: IntArray, offsets: IntArray, totals: IntArray) -> int:
    """The first family without a solution, or too large to sum safely; −1 if there is none."""
    for family in range(len(totals)):
        if totals[family] < 0:
            return family
        if offsets[family] == offsets[family + 1] and totals[family] > 0:
            return family
        room = SAFE_SUM - totals[family]
        for i in range(offsets[family], offsets[family + 1]):
            # Negated towards the negative side: the least int64 has no absolute value.
            room += min(noisy[i], -noisy[i]) if noisy[i] >= -SAFE_SUM else -SAFE_SUM - 1
            if room < 0:
                return family
    return -1


@kernel
def _sort(y: IntArray, order: IntArray) -> None:
    """Write the stable ascending order of y to order[:n]; most families are small, where insertion beats a call."""
    n = len(y)
    if n > 48:
        order[:n] = np.argsort(y, kind="mergesort")
        return
    for i in range(n):
        j = i
        while j > 0 and y[order[j - 1]] > y[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i


@kernel
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


@kernel
def _cut(y: IntArray, order: IntArray, level: int, spare: int, x: IntArray) -> None:
    """Write max(0, y − level) to x, and one more for each of the `spare` last in ascending order."""
    n = len(y)
    for i in range(n):
        x[i] = max(0, y[i] - level)
    for i in range(n - spare, n):
        x[order[i]] += 1


@kernel
def _chebyshev(y: IntArray, total: int, order: IntArray, x: IntArray) -> None:
    """IntOpt without its repeated passes.

    The first pass stays within distance t of y and is enough iff Σ max(0, y − t) <= total. If not, every pass leaves
    x = max(0, y − t) with the sum still too large, until t is one short of the least possible `level`; the last pass
    then takes one from positive entries in ascending order, which leaves one extra on the `spare` largest.
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
        _cut(y, order, level, spare, x)
        return
    for j in range(n):
        i = order[j]
        lowered = min(excess, x[i] - max(0, y[i] - distance))
        x[i] -= lowered
        excess -= lowered
        if excess == 0:
            return


@kernel
def _longest(offsets: IntArray) -> int:
    longest = 0
    for family in range(len(offsets) - 1):
        longest = max(longest, offsets[family + 1] - offsets[family])
    return longest


@kernel
def _chebyshev_families(noisy: IntArray, offsets: IntArray, totals: IntArray) -> IntArray:
    x = np.empty(len(noisy), np.int64)
    order = np.empty(_longest(offsets), np.int64)
    for family in range(len(totals)):
        a, b = offsets[family], offsets[family + 1]
        if a < b:
            _chebyshev(noisy[a:b], totals[family], order, x[a:b])
    return x


@kernel
def _euclidean_families(noisy: IntArray, offsets: IntArray, totals: IntArray) -> IntArray:
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
def _wide_product(w: float, m: int) -> tuple[Any, Any, Any]:
    """w·m for w > 0, m > 0 as (exponent, high, low) with the top bit of the 128-bit mantissa set; exact."""
    low32 = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    one = np.uint64(1)
    fraction, exponent = math.frexp(w)
    a = np.uint64(np.int64(fraction * 2.0**53))
    b = np.uint64(m)
    a0, a1, b0, b1 = a & low32, a >> half, b & low32, b >> half
    middle = ((a0 * b0) >> half) + ((a0 * b1) & low32) + ((a1 * b0) & low32)
    low = (middle << half) | ((a0 * b0) & low32)
    high = a1 * b1 + ((a0 * b1) >> half) + ((a1 * b0) >> half) + (middle >> half)
    shift = np.int64(exponent)
    while high >> np.uint64(63) == np.uint64(0):
        high = (high << one) | (low >> np.uint64(63))
        low = low << one
        shift -= 1
    return shift, high, low


@kernel
def _compare(w: float, m: int, v: float, k: int) -> int:
    """The sign of w·m − v·k, exactly, for w, v > 0.

    Rounding keeps order, so two rounded products that differ decide; only equal ones need all their bits.
    """
    if abs(m) < 2**53 and abs(k) < 2**53:
        p, q = w * m, v * k
        if p != q:
            return 1 if p > q else -1
    signs = np.sign(m) - np.sign(k)
    if signs != 0:
        return 1 if signs > 0 else -1
    if m == 0:
        return 0
    sign = 1 if m > 0 else -1
    a, b = _wide_product(w, abs(m)), _wide_product(v, abs(k))
    if a[0] != b[0]:
        return sign if a[0] > b[0] else -sign
    if a[1] != b[1]:
        return sign if a[1] > b[1] else -sign
    if a[2] != b[2]:
        return sign if a[2] > b[2] else -sign
    return 0


@kernel
def _affordable(w: float, y: int, price: float, total: int) -> int:
    """How many units from 0 up, at most total + 1, cost at most `price` each; unit k costs w(2(k − y) + 1).

    A float guess with its error bound leaves a few candidates, which exact comparison decides by bisection.
    """
    guess = (price / w + 1) / 2 + y
    slack = 2 + (abs(price / w) + abs(y)) * 2.0**-50
    if guess - slack >= total + 1:
        return total + 1
    if guess + slack <= 0:
        return 0
    below = int(max(0.0, guess - slack))
    above = min(int(min(guess + slack, 2.0**61)) + 1, total + 1)
    sign = 1 if price > 0 else -1
    while below < above:
        k = (below + above) // 2
        m = 2 * (k - y) + 1
        dear = m > 0 if price == 0 else _compare(w, m, abs(price), sign) > 0
        if dear:
            above = k
        else:
            below = k + 1
    return below


@kernel
def _price(rank: int) -> float:
    """The double of this rank in the order of all doubles; rank 0 is 0.0."""
    magnitude = float(np.array([abs(rank)], np.int64).view(np.float64)[0])
    return magnitude if rank >= 0 else -magnitude


@kernel
def _raised_before(i: int, j: int, y: IntArray, w: FloatArray, x: IntArray) -> bool:
    order = _compare(w[i], 2 * (x[i] - y[i]) + 1, w[j], 2 * (x[j] - y[j]) + 1)
    if order != 0:
        return order < 0
    if y[i] != y[j]:
        return bool(y[i] > y[j])
    return i > j


@kernel
def _sift_down(heap: IntArray, at: int, y: IntArray, w: FloatArray, x: IntArray) -> None:
    moved = heap[at]
    while True:
        child = 2 * at + 1
        if child >= len(heap):
            break
        if child + 1 < len(heap) and _raised_before(heap[child + 1], heap[child], y, w, x):
            child += 1
        if not _raised_before(heap[child], moved, y, w, x):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = moved


@kernel
def _weighted(y: IntArray, total: int, w: FloatArray) -> IntArray:
    """Take the `total` cheapest units; raising x_i from k to k + 1 costs w_i(2(k − y_i) + 1), which grows with k.

    Bisection over the doubles (64 steps) finds the greatest price at which no more than `total` units are
    affordable; x then holds exactly those. The few units left cost at most the next double: a heap, ordered exactly,
    takes them one by one. Nothing is decided by rounding and nothing loops over `total`. All w are in (0, 1).
    """
    n = len(y)
    x = np.zeros(n, np.int64)
    # Unit costs are below 2^63 in magnitude: none is affordable at the first price, total + 1 each at the second.
    enough = np.array([2.0**63]).view(np.int64)[0]
    few = -enough
    while enough - 1 > few:
        rank = few // 2 + enough // 2 + (few % 2 + enough % 2) // 2
        price = _price(rank)
        count = 0
        for i in range(n):
            count += _affordable(w[i], y[i], price, total)
            if count > total:
                break
        if count > total:
            enough = rank
        else:
            few = rank
    left = total
    for i in range(n):
        x[i] = _affordable(w[i], y[i], _price(few), total)
        left -= x[i]
    heap = np.arange(n)
    for at in range(n // 2 - 1, -1, -1):
        _sift_down(heap, at, y, w, x)
    for _ in range(left):
        x[heap[0]] += 1
        _sift_down(heap, 0, y, w, x)
    return x
