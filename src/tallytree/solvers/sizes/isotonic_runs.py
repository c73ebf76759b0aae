"""Kernels of isotonic regression of integers as runs: cell after cell, in memory of the runs, not of the cells.

A row is fitted by pushing its cells, in order and in any number of pieces, onto a state that begins empty; closing the
state gives the runs of what was pushed. The state is a few arrays that double when they are full, and `used`, which
is how far they are filled. A kernel returns its arrays, because it may have replaced them by larger ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tallytree.solvers.exact import MAX_FACTOR, mean_at_least, share
from tallytree.support.arrays import IntArray
from tallytree.support.kernel_arrays import enlarged_rows, put, stable_order
from tallytree.support.kernels import inlined, kernel

FIRST_CAPACITY = 4_096
"""Entries of each array of an empty state: few enough to stay in the cache."""


@kernel
def empty_state(capacity: int) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
    """The arrays of an empty state: blocks or heap, lowest, highest, how far they are used; and room for runs."""
    return (
        np.empty((3, capacity), np.int64),
        np.empty((2, capacity), np.int64),
        np.empty((2, capacity), np.int64),
        np.zeros(3, np.int64),
        np.empty((2, capacity), np.int64),
    )


@kernel
def _doubled(array: IntArray) -> IntArray:
    return enlarged_rows(array, array.shape[1], 2 * array.shape[1])


# --- L2: pool adjacent violators ---


@kernel
def push_means(y: IntArray, blocks: IntArray, used: IntArray) -> IntArray:
    """Pool adjacent violators over more cells.

    Block b of used[0] has blocks[2, b] cells, whose mean is blocks[0, b] + blocks[1, b] / blocks[2, b], the second term
    in [0, 1): no sum is ever formed, so nothing can overflow for cells below 2^61 in magnitude and fewer than 2^60 of
    them. Invariant: means strictly increase. Each cell is pushed once and each merge removes a block: O(n).
    """
    count = used[0]
    for cell in y:
        integer, rest, length = cell, 0, 1
        while count > 0:
            above, more, n = blocks[0, count - 1], blocks[1, count - 1], blocks[2, count - 1]
            if above < integer or (
                above == integer and not mean_at_least(more, n, rest, length, n > MAX_FACTOR or length > MAX_FACTOR)
            ):
                break
            count -= 1
            # The mean of both is integer + ((above − integer)·n + more + rest) / (n + length).
            step = above - integer
            length += n
            if step <= MAX_FACTOR and n <= MAX_FACTOR // 2:
                rest += step * n + more
            else:
                laps = step // length
                quotient, remainder = share(step - laps * length, n, length)
                integer += laps * n + quotient
                rest += more + remainder
            if rest >= length:
                integer += rest // length
                rest %= length
        if count == blocks.shape[1]:
            blocks = _doubled(blocks)
        blocks[0, count], blocks[1, count], blocks[2, count] = integer, rest, length
        count += 1
    used[0] = count
    return blocks


@kernel
def close_means(blocks: IntArray, used: IntArray, lower: int, upper: int, runs: IntArray) -> tuple[IntArray, int]:
    """Clip and round the block means: runs[0] are values, runs[1] lengths; returns them and their number.

    Block means strictly increase, so blocks join only where they are clipped to the same bound.
    """
    count = 0
    clipped_before = False
    for b in range(used[0]):
        integer, rest, length = blocks[0, b], blocks[1, b], blocks[2, b]
        rounded = integer + (rest >= length - rest)
        clipped = True
        if integer < lower or (integer == lower and rest == 0):
            rounded = lower
        elif integer >= upper:
            rounded = upper
        else:
            clipped = False
        if clipped and clipped_before and runs[0, count - 1] == rounded:
            runs[1, count - 1] += length
        else:
            if count == runs.shape[1]:
                runs = _doubled(runs)
            runs[0, count], runs[1, count] = rounded, length
            count += 1
        clipped_before = clipped
    return runs, count


# --- L1: the slope trick, with equal keys joined ---


@kernel
def heap_push(key: Any, slope: Any, size: int, y: Any, w: Any) -> int:
    """Add (y, w) to the max-heap key[:size]; returns the new size."""
    i = size
    while i > 0 and key[(i - 1) // 2] < y:
        parent = (i - 1) // 2
        key[i], slope[i] = key[parent], slope[parent]
        i = parent
    key[i], slope[i] = y, w
    return size + 1


@kernel
def heap_pop(key: Any, slope: Any, size: int) -> int:
    """Drop the greatest key of the max-heap key[:size]; returns the new size."""
    size -= 1
    y, w = key[size], slope[size]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and key[child + 1] > key[child]:
            child += 1
        if key[child] <= y:
            break
        key[i], slope[i] = key[child], slope[child]
        i = child
    key[i], slope[i] = y, w
    return size


@inlined
def _joined_heap(heap: IntArray, used: IntArray) -> IntArray:
    """The same heap with equal keys joined: descending keys are a heap. It is at most half full afterwards.

    Keys that lie close together are counted, in linear time; others are sorted.
    """
    size = used[0]
    keys, slopes = heap[0, :size].copy(), heap[1, :size].copy()
    least, count = keys[0], 0
    for key in keys:
        least = min(least, key)
    spread = heap[0, 0] - least + 1
    if spread <= 4 * size:
        gained = np.zeros(spread, np.int64)
        for i in range(size):
            gained[keys[i] - least] += slopes[i]
        for place in range(spread - 1, -1, -1):
            if gained[place] > 0:
                heap[0, count], heap[1, count] = least + place, gained[place]
                count += 1
    else:
        for i in stable_order(-keys):
            if count > 0 and heap[0, count - 1] == keys[i]:
                heap[1, count - 1] += slopes[i]
            else:
                heap[0, count], heap[1, count] = keys[i], slopes[i]
                count += 1
    used[0] = count
    return _doubled(heap) if 2 * count > heap.shape[1] else heap


@inlined
def _push_least(stack: IntArray, count: int, value: int) -> tuple[IntArray, int]:
    """Append to a sequence that is kept as its suffix minima: runs of (value, length), values strictly increasing."""
    length = 1
    while count > 0 and stack[0, count - 1] >= value:
        count -= 1
        length += stack[1, count]
    if count == stack.shape[1]:
        stack = _doubled(stack)
    stack[0, count], stack[1, count] = value, length
    return stack, count + 1


@kernel
def push_medians(
    y: IntArray, heap: IntArray, low: IntArray, high: IntArray, used: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """The pointwise lowest and highest L1 solutions over more cells; see `isotonic._median_range` for the argument.

    heap[:, :used[0]] has the breakpoints of F, and the slope gained at each; low[:, :used[1]] and high[:, :used[2]] are
    the ranges [low_i, high_i] cut from the right, which are suffix minima. Each cell gains a slope of 2 and loses 1 off
    the top. Equal breakpoints are joined when the heap is full, so memory is that of the distinct values.
    """
    lows, highs = used[1], used[2]
    for cell in y:
        if used[0] > 0 and heap[0, 0] == cell:
            heap[1, 0] += 2
        else:
            if used[0] == heap.shape[1]:
                heap = _joined_heap(heap, used)
            used[0] = heap_push(heap[0], heap[1], used[0], cell, 2)
        high, highs = _push_least(high, highs, heap[0, 0])
        if heap[1, 0] == 1:
            used[0] = heap_pop(heap[0], heap[1], used[0])
        else:
            heap[1, 0] -= 1
        low, lows = _push_least(low, lows, heap[0, 0])
    used[1], used[2] = lows, highs
    return heap, low, high


@kernel
def close_medians(
    low: IntArray, high: IntArray, used: IntArray, lower: int, upper: int, runs: IntArray
) -> tuple[IntArray, int]:
    """Clip and round the midpoints of both solutions, as `close_means` does the means.

    Midpoints are compared doubled, so that halves stay integers.
    """
    count = 0
    before = 0
    i, j = 0, 0
    left, right = low[1, 0], high[1, 0]  # cells of the runs i and j that are not written yet
    while i < used[1]:
        length = min(left, right)
        doubled = min(max(low[0, i] + high[0, j], 2 * lower), 2 * upper)
        if count > 0 and doubled == before:
            runs[1, count - 1] += length
        else:
            if count == runs.shape[1]:
                runs = _doubled(runs)
            runs[0, count], runs[1, count] = (doubled + 1) >> 1, length
            count += 1
        before = doubled
        left -= length
        right -= length
        if left == 0:
            i += 1
            left = low[1, i] if i < used[1] else 0
        if right == 0:
            j += 1
            right = high[1, j] if j < used[2] else 0
    return runs, count


# --- Many rows ---


@inlined
def _fit_row(
    y: IntArray,
    norm: int,
    lower: int,
    upper: int,
    first: IntArray,
    low: IntArray,
    high: IntArray,
    used: IntArray,
    runs: IntArray,
) -> tuple[IntArray, IntArray, IntArray, IntArray, int]:
    """One row from an empty state; `first` holds blocks (L2) or the heap (L1)."""
    used[:] = 0
    if norm == 1:
        first, low, high = push_medians(y, first, low, high, used)
        runs, count = close_medians(low, high, used, lower, upper, runs)
    else:
        first = push_means(y, first, used)
        runs, count = close_means(first, used, lower, upper, runs)
    return first, low, high, runs, count


@kernel
def fit_each_row(values: IntArray, offsets: IntArray, norm: int, lower: IntArray, upper: IntArray) -> IntArray:
    """Every row's fit, cell by cell."""
    first, low, high, used, runs = empty_state(FIRST_CAPACITY)
    x = np.empty(len(values), np.int64)
    for row in range(len(offsets) - 1):
        y = values[offsets[row] : offsets[row + 1]]
        first, low, high, runs, count = _fit_row(y, norm, lower[row], upper[row], first, low, high, used, runs)
        at = offsets[row]
        for run in range(count):
            x[at : at + runs[1, run]] = runs[0, run]
            at += runs[1, run]
    return x


@kernel
def fit_each_row_as_runs(
    values: IntArray, offsets: IntArray, norm: int, lower: IntArray, upper: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Every row's runs: offsets, values, lengths. Memory is at most twice the result, plus the state of one row."""
    first, low, high, used, runs = empty_state(FIRST_CAPACITY)
    rows = len(offsets) - 1
    begin = np.zeros(rows + 1, np.int64)
    buffer = np.empty((2, 1024), np.int64)
    filled = 0
    for row in range(rows):
        y = values[offsets[row] : offsets[row + 1]]
        first, low, high, runs, count = _fit_row(y, norm, lower[row], upper[row], first, low, high, used, runs)
        if filled + count > buffer.shape[1]:
            buffer = enlarged_rows(buffer, filled, 2 * (filled + count))
        for part in range(2):
            put(runs[part, :count], buffer[part, filled:])
        filled += count
        begin[row + 1] = filled
    return begin, buffer[0, :filled].copy(), buffer[1, :filled].copy()
