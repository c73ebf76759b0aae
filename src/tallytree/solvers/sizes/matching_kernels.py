"""Kernels of `matching`: Algorithm 2 of Kuo et al. 2018 on runs, and the merge of what it matches."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallytree.solvers.exact import share as exact_share
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.copying import enlarged, enlarged_rows, put
from tallytree.support.kernels import inlined, kernel
from tallytree.support.sorting import stable_order


@kernel
def owners(cuts: IntArray) -> IntArray:
    """The child of each run, where child c has the runs `cuts[c]:cuts[c + 1]`, counted from cuts[0]."""
    owner = np.empty(cuts[-1] - cuts[0], np.int64)
    for child in range(len(cuts) - 1):
        owner[cuts[child] - cuts[0] : cuts[child + 1] - cuts[0]] = child
    return owner


@kernel
def pair_runs(
    parent_groups: IntArray, children: int, owner: IntArray, size: Any, groups: IntArray, pairs: IntArray
) -> tuple[IntArray, int]:
    """Algorithm 2 for one family; returns (parent run, child run, groups) as rows of `pairs`, and how many.

    `owner`, `size`, `groups` describe the runs of all children, in child order. They are visited class by class: all
    runs of one size, in child order, which a stable sort gives. Invariant: everything before `run` in the parent and
    before `begin` in the children is matched, in sorted order on both sides, which is what makes the matching optimal.
    Cost: the sort, and per parent run that ends within a class the children present in it. `pairs` is a buffer to
    reuse; it doubles when full.
    """
    order = stable_order(size)
    left = groups.copy()
    cursor, number = np.empty(children, np.int64), np.empty(children, np.int64)
    share, rest = np.empty(children, np.int64), np.empty(children, np.int64)
    used = 0
    run = 0
    available = parent_groups[0] if len(parent_groups) else 0
    begin = 0
    while begin < len(order):
        present, wanted = 0, 0
        end = begin
        while end < len(order) and size[order[end]] == size[order[begin]]:
            if end == begin or owner[order[end]] != owner[order[end - 1]]:
                cursor[present] = end
                number[present] = 0
                present += 1
            number[present - 1] += left[order[end]]
            wanted += left[order[end]]
            end += 1
        begin = end
        while wanted > 0:
            while available == 0:
                run += 1
                available = parent_groups[run]
            taken = min(available, wanted)
            if taken == wanted:
                put(number[:present], share)
            else:
                extra = taken
                for j in range(present):
                    share[j], rest[j] = exact_share(taken, number[j], wanted)
                    extra -= share[j]
                if extra > 0:
                    ranked = stable_order(-rest[:present])
                    for j in ranked[:extra]:
                        share[j] += 1
            for j in range(present):
                number[j] -= share[j]
                while share[j] > 0:
                    part = order[cursor[j]]
                    moved = min(share[j], left[part])
                    left[part] -= moved
                    share[j] -= moved
                    if moved > 0:
                        if used == pairs.shape[1]:
                            pairs = enlarged_rows(pairs, used, 2 * used)
                        pairs[0, used] = run
                        pairs[1, used] = part
                        pairs[2, used] = moved
                        used += 1
                    if left[part] == 0:
                        cursor[j] += 1
            wanted -= taken
            available -= taken
    return pairs, used


@kernel
def _merge(s_p: float, v_p: float, s_c: float, v_c: float, weighted: bool) -> tuple[float, float]:
    """The step from s_p to the merged size, and its variance.

    Neither can over- or underflow on the way. The weighted mean is written as a step from s_p towards s_c, which
    divides only by v_p + v_c and is exact where it falls on a half and the variances are small integers.
    """
    if not weighted:
        return (s_c - s_p) / 2, (v_p + v_c) / 4
    if v_p + v_c == 0:
        return (s_c - s_p) / 2, 0.0
    step = (s_c - s_p) * v_p / (v_p + v_c)
    return step, min(v_p, v_c) * (max(v_p, v_c) / (v_p + v_c))


@inlined
def _landed(size: float, step: float, rounded: bool) -> float:
    """Where a step from a size ends, if `rounded` at the nearest integer, halves up; exact from an integer."""
    if not rounded:
        return size + step
    integer = np.floor(size)
    landed: float = integer + np.floor((size - integer) + step + 0.5)
    return landed


@kernel
def match_families_kernel(
    parent_offsets: IntArray,
    parent_size: FloatArray,
    parent_groups: IntArray,
    parent_variance: FloatArray,
    first_child: IntArray,
    run_offsets: IntArray,
    child_size: FloatArray,
    child_groups: IntArray,
    child_variance: FloatArray,
    weighted: bool,
    rounded: bool,
) -> tuple[IntArray, FloatArray, IntArray, FloatArray]:
    """Pairs of a family are distributed to its children by counting, then sorted and joined child by child.

    Merged sizes of a child follow the matching order under "average", but not under "weighted", hence the sort.
    """
    begin = np.zeros(len(run_offsets), np.int64)
    sizes, numbers, variances = np.empty(1024), np.empty(1024, np.int64), np.empty(1024)
    pairs = np.empty((3, 1024), np.int64)
    used = 0
    for family in range(len(first_child) - 1):
        first, last = first_child[family], first_child[family + 1]
        origin, p = run_offsets[first], parent_offsets[family]
        size = child_size[origin : run_offsets[last]]
        groups = child_groups[origin : run_offsets[last]]
        cuts = run_offsets[first : last + 1]
        owner = owners(cuts)
        here = parent_groups[p : parent_offsets[family + 1]]
        pairs, count = pair_runs(here, len(cuts) - 1, owner, size, groups, pairs)

        place = np.zeros(len(cuts), np.int64)
        for i in range(count):
            place[owner[pairs[1, i]] + 1] += 1
        place = np.cumsum(place)
        at = place.copy()
        merged, number, variance = np.empty(count), np.empty(count, np.int64), np.empty(count)
        for i in range(count):
            above, below = p + pairs[0, i], origin + pairs[1, i]
            j = at[owner[pairs[1, i]]]
            at[owner[pairs[1, i]]] += 1
            number[j] = pairs[2, i]
            step, variance[j] = _merge(
                parent_size[above], parent_variance[above], child_size[below], child_variance[below], weighted
            )
            merged[j] = _landed(parent_size[above], step, rounded)

        if used + count > len(variances):
            capacity = 2 * (used + count)
            sizes, variances = enlarged(sizes, used, capacity), enlarged(variances, used, capacity)
            numbers = enlarged(numbers, used, capacity)
        for child in range(len(cuts) - 1):
            a, b = place[child], place[child + 1]
            opened = used
            for i in _by_size_then_variance(merged[a:b], variance[a:b]) + a:
                if used > opened and sizes[used - 1] == merged[i] and variances[used - 1] == variance[i]:
                    numbers[used - 1] += number[i]
                else:
                    sizes[used], numbers[used], variances[used] = merged[i], number[i], variance[i]
                    used += 1
            begin[first + child + 1] = used
    return begin, sizes[:used].copy(), numbers[:used].copy(), variances[:used].copy()


@inlined
def _by_size_then_variance(size: FloatArray, variance: FloatArray) -> IntArray:
    """The stable order; sorting is skipped where matching order is already that, as it mostly is."""
    for i in range(1, len(size)):
        if size[i] < size[i - 1] or (size[i] == size[i - 1] and variance[i] < variance[i - 1]):
            inner = stable_order(variance)
            return inner[stable_order(size[inner])]
    return np.arange(len(size))
