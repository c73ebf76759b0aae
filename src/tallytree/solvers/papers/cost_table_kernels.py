"""Kernels of `cost_table`: domains, tables as sorted slopes, and the values that they stand for; nodes in preorder."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tallytree.support.arrays import IntArray
from tallytree.support.kernels import kernel

SlopeArray = npt.NDArray[np.int32]


@kernel
def tree_height(parent: IntArray) -> int:
    """The number of levels of the tree."""
    depth = np.ones(len(parent), np.int64)
    for node in range(1, len(parent)):
        depth[node] = depth[parent[node]] + 1
    return int(depth.max())


@kernel
def reachable_domains(
    parent: IntArray, y: IntArray, delta: int, fixed: bool, total: int
) -> tuple[IntArray, IntArray, int]:
    """The values of each node's domain that its subtree can have, which are consecutive; and a node without any."""
    n = len(y)
    lowest, highest = np.zeros(n, np.int64), np.zeros(n, np.int64)
    leaf = np.ones(n, np.bool_)
    for node in range(n - 1, -1, -1):
        low, high = max(0, y[node] - delta), y[node] + delta
        if node == 0 and fixed:
            low, high = total, total
        if not leaf[node]:
            low, high = max(low, lowest[node]), min(high, highest[node])
        if low > high:
            return lowest, highest, node
        lowest[node], highest[node] = low, high
        if node > 0:
            lowest[parent[node]] += low
            highest[parent[node]] += high
            leaf[parent[node]] = False
    return lowest, highest, -1


@kernel
def table_places(
    parent: IntArray, first: IntArray, lowest: IntArray, highest: IntArray, fixed: bool, again: bool
) -> tuple[IntArray, int]:
    """Where each inner node's slopes go, and how many there are; subtrees of the root share a place if `again`."""
    n = len(parent)
    start = np.zeros(n, np.int64)
    used = 0
    for node in range(n):
        if first[node] < first[node + 1] and ((node == 0 and not fixed) or parent[node] == 0):
            start[node] = used
            used += highest[node] - lowest[node]
    shared, most = used, used
    for node in range(1, n):
        if parent[node] == 0:
            if again:
                used = shared
        elif first[node] < first[node + 1]:
            start[node] = used
            used += highest[node] - lowest[node]
            most = max(most, used)
    return start, most


@kernel
def count_slopes(
    node: int,
    slope: int,
    first: IntArray,
    y: IntArray,
    lowest: IntArray,
    highest: IntArray,
    start: IntArray,
    slopes: SlopeArray,
) -> int:
    """How many slopes of the node's table are at most `slope`."""
    length = highest[node] - lowest[node]
    if first[node] == first[node + 1]:
        return int(min(length, max(0, ((slope + 1) >> 1) + y[node] - lowest[node])))
    a, b = start[node], start[node] + length
    while a < b:
        middle = (a + b) >> 1
        if slopes[middle] <= slope:
            a = middle + 1
        else:
            b = middle
    return int(a - start[node])


@kernel
def _count_all(
    family: IntArray,
    slope: int,
    first: IntArray,
    y: IntArray,
    lowest: IntArray,
    highest: IntArray,
    start: IntArray,
    slopes: SlopeArray,
) -> int:
    found = 0
    for child in family:
        found += count_slopes(child, slope, first, y, lowest, highest, start, slopes)
    return found


@kernel
def _ranked(
    family: IntArray,
    rank: int,
    first: IntArray,
    y: IntArray,
    lowest: IntArray,
    highest: IntArray,
    start: IntArray,
    slopes: SlopeArray,
) -> int:
    """The slope of the given rank (1 is the lowest) among those of all children, by bisection on its value."""
    a, b = 2**62, -(2**62)
    for child in family:
        length = highest[child] - lowest[child]
        if length == 0:
            continue
        if first[child] == first[child + 1]:
            a = min(a, int(2 * (lowest[child] + 1 - y[child]) - 1))
            b = max(b, int(2 * (highest[child] - y[child]) - 1))
        else:
            a = min(a, int(slopes[start[child]]))
            b = max(b, int(slopes[start[child] + length - 1]))
    while a < b:
        middle = (a + b) >> 1
        if _count_all(family, middle, first, y, lowest, highest, start, slopes) >= rank:
            b = middle
        else:
            a = middle + 1
    return a


@kernel
def _sort_merge(
    node: int,
    first: IntArray,
    children: IntArray,
    y: IntArray,
    lowest: IntArray,
    highest: IntArray,
    start: IntArray,
    slopes: SlopeArray,
) -> None:
    """Algorithm 1 as published: sort all slopes of all children's tables, cut to the domain, add the own term."""
    family = children[first[node] : first[node + 1]]
    length = highest[node] - lowest[node]
    entries, before = 0, lowest[node]
    for child in family:
        entries += highest[child] - lowest[child]
        before -= lowest[child]
    merged = np.empty(entries, np.int32)
    at = 0
    for child in family:
        size = highest[child] - lowest[child]
        if first[child] == first[child + 1]:
            origin = 2 * (lowest[child] + 1 - y[child]) - 1
            for k in range(size):
                merged[at + k] = origin + 2 * k
        else:
            merged[at : at + size] = slopes[start[child] : start[child] + size]
        at += size
    merged.sort()
    own = 2 * (lowest[node] + 1 - y[node]) - 1
    for k in range(length):
        slopes[start[node] + k] = merged[before + k] + own + 2 * k


@kernel
def _merge(
    node: int,
    first: IntArray,
    children: IntArray,
    y: IntArray,
    lowest: IntArray,
    highest: IntArray,
    start: IntArray,
    slopes: SlopeArray,
) -> None:
    """Algorithm 1 by counting: the node's slopes are its children's in order, cut to its domain, plus its own term's.

    Those of the merged order that the domain keeps lie between two slopes, `low` and `high`. What is strictly between
    is counted into bins, one for each integer; slopes are sparse only below long chains, where they are sorted.
    """
    family = children[first[node] : first[node + 1]]
    length = highest[node] - lowest[node]
    if length == 0:
        return
    before = lowest[node]
    for child in family:
        before -= lowest[child]
    low = _ranked(family, before + 1, first, y, lowest, highest, start, slopes)
    high = _ranked(family, before + length, first, y, lowest, highest, start, slopes)
    a = min(length, _count_all(family, low, first, y, lowest, highest, start, slopes) - before)
    b = max(a, _count_all(family, high - 1, first, y, lowest, highest, start, slopes) - before)
    out = slopes[start[node] : start[node] + length]
    out[:a] = low
    out[b:] = high
    dense = high - low <= 16 * (b - a) + 1024 and len(family) > 1
    bins = np.zeros(high - low + 1 if dense else 0, np.int64)
    at = a
    for child in family if a < b else family[:0]:
        i = count_slopes(child, low, first, y, lowest, highest, start, slopes)
        j = count_slopes(child, high - 1, first, y, lowest, highest, start, slopes)
        leaf = first[child] == first[child + 1]
        origin = 2 * (lowest[child] + 1 - y[child]) - 1 if leaf else start[child]
        for k in range(i, j):
            slope = origin + 2 * k if leaf else np.int64(slopes[origin + k])
            if dense:
                bins[slope - low] += 1
            else:
                out[at] = slope
                at += 1
    if dense:
        for slope in range(low + 1, high):
            for _ in range(bins[slope - low]):
                out[at] = slope
                at += 1
    elif len(family) > 1:
        out[a:b] = np.sort(out[a:b])
    own = 2 * (lowest[node] + 1 - y[node]) - 1
    for k in range(length):
        out[k] += own + 2 * k


@kernel
def build_tables(
    begin: int,
    end: int,
    first: IntArray,
    children: IntArray,
    y: IntArray,
    lowest: IntArray,
    highest: IntArray,
    start: IntArray,
    slopes: SlopeArray,
    by_sorting: bool,
) -> None:
    """The tables of the inner nodes of begin … end − 1, children first."""
    for node in range(end - 1, begin - 1, -1):
        if first[node] < first[node + 1] and by_sorting:
            _sort_merge(node, first, children, y, lowest, highest, start, slopes)
        elif first[node] < first[node + 1]:
            _merge(node, first, children, y, lowest, highest, start, slopes)


@kernel
def recover_values(
    root: int,
    first: IntArray,
    children: IntArray,
    y: IntArray,
    lowest: IntArray,
    highest: IntArray,
    start: IntArray,
    slopes: SlopeArray,
    again: bool,
    by_sorting: bool,
) -> IntArray:
    """Top-down: each family takes as many of its lowest slopes as its parent's value needs.

    Where subtrees of the root share a place, that of the next child of the root is tabulated before its values are.
    """
    n = len(y)
    x = np.empty(n, np.int64)
    x[0] = root
    next_child = 0
    for node in range(n):
        family = children[first[node] : first[node + 1]]
        if next_child < first[1] and node == children[next_child]:
            next_child += 1
            if again:
                end = children[next_child] if next_child < first[1] else n
                build_tables(node + 1, end, first, children, y, lowest, highest, start, slopes, by_sorting)
        units = x[node]
        for child in family:
            x[child] = lowest[child]
            units -= lowest[child]
        if units == 0:
            continue
        last = _ranked(family, units, first, y, lowest, highest, start, slopes)
        for child in family:
            taken = count_slopes(child, last - 1, first, y, lowest, highest, start, slopes)
            x[child] += taken
            units -= taken
        for child in family:
            taken = x[child] - lowest[child]
            more = min(units, count_slopes(child, last, first, y, lowest, highest, start, slopes) - taken)
            x[child] += more
            units -= more
            if units == 0:
                break
    return x
