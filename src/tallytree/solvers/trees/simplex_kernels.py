"""Kernels of projections on a simplex: integers for many families at once, and the threshold of a real projection."""

from __future__ import annotations

import numpy as np

from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.copying import put
from tallytree.support.kernels import inlined, kernel
from tallytree.support.sorting import stable_order

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
