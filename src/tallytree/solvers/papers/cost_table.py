"""The cost tables of Fioretto et al.: the tree projection by dynamic programming, kept for comparison.

Source: Fioretto, Van Hentenryck & Zhu 2021, sections 6 and 7 (Equation 4, Algorithm 1). `tree.project` needs no
tables and no domains; this is here to be measured against, and as an oracle.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from tallytree.compute.arrays import IntArray
from tallytree.compute.kernels import kernel
from tallytree.solvers.checks import SAFE_SUM
from tallytree.solvers.papers.preorder import Tree, check_integer, check_tree

SlopeArray = npt.NDArray[np.int32]
Merge = Literal["sort", "count"]

MAX_ENTRIES = 2**28
"""Tables that are in memory at once have at most this many entries: 1 GiB."""
KEPT_ENTRIES = 2**25
"""Up to so many entries (128 MiB) all tables are kept; beyond, each subtree of the root is tabulated twice."""


class CostTableSolution(NamedTuple):
    """What `project` returns."""

    x: IntArray
    """(n,) the value of every node."""
    delta: int
    """The half-width of the domains that was used in the end."""
    cost: int
    """Σ (x − noisy)², without the root's term where its value was given; exact."""


def project(
    parent: npt.ArrayLike,
    noisy: npt.ArrayLike,
    *,
    delta: int,
    total: int | None = None,
    widen: bool = True,
    merge: Merge = "sort",
) -> CostTableSolution:
    """Minimise Σ (x − noisy)² over integers x >= 0 on a tree whose inner nodes equal the sum of their children.

    Bottom-up, each node gets the table τ of the least cost of its subtree for every value of its domain
    D = {noisy − delta … noisy + delta} ∩ Z+; top-down, each family gets the values that its parent's entry stands
    for. Tables are convex, so that children merge by their sorted slopes τ(v) − τ(v − 1) (Algorithm 1). The paper has
    delta = 3·⌈2λ²⌉ for noise of scale λ.

    A table is kept as its lowest value and its slopes, which is all that either phase reads; the slopes of a leaf
    are 2(v − noisy) − 1 and are not stored. `merge="sort"` merges the children's tables as Algorithm 1 does, by sorting
    all their slopes; `"count"` gives the same tables faster, by counting within the parent's domain.

    Domains may exclude every solution, or the optimum. The second is so only if some x lies on an end of its domain
    other than 0: were there a better solution, then one that differs by at most 1 everywhere (a flow along one cycle),
    and it would be within the domains.

    Of several optimal solutions the one with the largest root is returned (as in the paper's Table 5); among children
    whose next unit costs the same, the first gets it.

    Args:
        parent: (n,) the parent of each node, −1 for the one root; in any order.
        noisy: (n,) integers; the root's counts only where total is None.
        delta: half the width of the domains, >= 1.
        total: the value of the root, >= 0; by default the root is measured like the others.
        widen: double delta until the domains exclude nothing; otherwise raise where they do.
        merge: how the tables of a family are merged.

    Returns:
        The optimum, the delta at which it was found, and its cost. O(n·delta·log(n·delta)) time with `"sort"` (Theorem
        4), O(inner nodes · delta + n·log²delta) with `"count"`. At most
        4 bytes · (2·delta + 1) for each child of the root and each inner node of the largest of their subtrees, or
        128 MiB: beyond that the subtrees of the root are tabulated one at a time, and again on the way down.

    Raises:
        TypeError: for values that are not integers.
        ValueError: for a parent that is not a tree, noisy of another shape, a negative total, a delta below 1, tables
            of more than 2^28 entries, values so large that a sum could overflow; and, with widen=False, domains that
            leave no solution or cut off the optimum.

    Example:
        >>> project([-1, 0, 0], [2, 3, 0], delta=4)
        CostTableSolution(x=array([3, 3, 0]), delta=4, cost=1)
    """
    tree, y = check_tree(parent, noisy)
    half_width = check_integer("delta", delta, least=1)
    if merge not in get_args(Merge):
        raise ValueError(f'merge: {merge!r} is not known; choose "sort" or "count"')
    fixed = total is not None
    top = 0 if total is None else check_integer("total", total, least=0)
    while True:
        _check_magnitude(y, half_width, top)
        lowest, highest, barred = _domains(tree.parent, y, half_width, fixed, top)
        if barred >= 0:
            trouble = _no_solution(tree, y, barred, fixed, top)
        else:
            start, slopes, again = _tabulated(tree, y, lowest, highest, half_width, fixed, merge == "sort")
            root = top if fixed else lowest[0] + _count(0, 0, tree.first, y, lowest, highest, start, slopes)
            x = _recover(root, tree.first, tree.children, y, lowest, highest, start, slopes, again, merge == "sort")
            edge = first_on_edge(x, y, half_width, fixed)
            if edge < 0:
                break
            trouble = f"the solution gives node {tree.order[edge]} the value {x[edge]}, an end of its domain"
        if not widen:
            raise ValueError(f"delta={half_width}: {trouble}; give a larger delta, or widen=True")
        half_width *= 2
    solution = np.empty_like(x)
    solution[tree.order] = x
    return CostTableSolution(solution, half_width, cost_of(x[fixed:], y[fixed:]))


def root_table(parent: npt.ArrayLike, noisy: npt.ArrayLike, *, delta: int) -> tuple[int, IntArray]:
    """The cost table of the root, as `project` computes it with these domains.

    Args:
        parent: as for `project`.
        noisy: as for `project`.
        delta: as for `project`; it is not widened.

    Returns:
        The lowest value v0 of the root's domain that its children can reach, and τ(v0), τ(v0 + 1), ….

    Raises:
        TypeError: as `project`.
        ValueError: as `project` with widen=False, except that any solution may lie on an end of a domain.

    Example:
        >>> root_table([-1, 0, 0], [2, 3, 0], delta=4)
        (0, array([13,  5,  1,  1,  5, 11, 21]))
    """
    tree, y = check_tree(parent, noisy)
    half_width = check_integer("delta", delta, least=1)
    _check_magnitude(y, half_width, 0)
    if len(y) * half_width**2 >= SAFE_SUM:
        raise ValueError(f"delta={half_width} is too large: costs of {len(y)} nodes could overflow")
    lowest, highest, barred = _domains(tree.parent, y, half_width, False, 0)
    if barred >= 0:
        raise ValueError(f"delta={half_width}: {_no_solution(tree, y, barred, False, 0)}; give a larger delta")
    start, slopes, again = _tabulated(tree, y, lowest, highest, half_width, False, True)
    x = _recover(lowest[0], tree.first, tree.children, y, lowest, highest, start, slopes, again, True)
    steps = slopes[start[0] : start[0] + highest[0] - lowest[0]].astype(np.int64)
    if len(y) == 1:
        steps = 2 * (np.arange(lowest[0] + 1, highest[0] + 1) - y[0]) - 1
    return int(lowest[0]), cost_of(x, y) + np.cumsum(np.concatenate((np.zeros(1, np.int64), steps)))


def first_on_edge(x: IntArray, noisy: IntArray, delta: int, fixed: bool) -> int:
    """The first node whose value is an end of its domain other than 0, or −1; not the root where it is fixed."""
    on_edge = (x == noisy + delta) | ((x == noisy - delta) & (x > 0))
    if fixed:
        on_edge[0] = False
    return int(np.argmax(on_edge)) if on_edge.any() else -1


def cost_of(x: IntArray, noisy: IntArray) -> int:
    """Σ (x − noisy)², exactly."""
    off = np.abs(x - noisy)
    if len(off) == 0 or int(off.max()) ** 2 * len(off) < SAFE_SUM:
        return int(off @ off)
    return sum(distance * distance for distance in off.tolist())


def _check_magnitude(y: IntArray, delta: int, total: int) -> None:
    if len(y) * (max(int(y.max()), -int(y.min())) + 2 * delta + 2) + total >= SAFE_SUM:
        raise ValueError(
            f"noisy ({y.min()} … {y.max()}), delta={delta} and total={total} are so large that sums over {len(y)} "
            "nodes could reach 2^62"
        )


def _no_solution(tree: Tree, y: IntArray, node: int, fixed: bool, total: int) -> str:
    if fixed and node == 0:
        return f"total={total} cannot be reached within the domains"
    return f"the domain of node {tree.order[node]} (noisy: {y[node]}) holds no value that its subtree can have"


def _tabulated(
    tree: Tree, y: IntArray, lowest: IntArray, highest: IntArray, delta: int, fixed: bool, by_sorting: bool
) -> tuple[IntArray, SlopeArray, bool]:
    """Where each inner node's slopes begin, the slopes, and whether only those of the root's children are whole."""
    again = False
    start, entries = _places(tree.parent, tree.first, lowest, highest, fixed, again)
    if entries > KEPT_ENTRIES:
        again = True
        start, entries = _places(tree.parent, tree.first, lowest, highest, fixed, again)
    if entries > MAX_ENTRIES:
        raise ValueError(
            f"delta={delta}: the cost tables would have {entries:,} entries, and {MAX_ENTRIES:,} are allowed; "
            'use solver="exact", which has no tables'
        )
    levels = _height(tree.parent)
    if entries and levels * (2 * delta + 1) >= 2**31:  # a slope is a sum over one node a level, each within 2·delta + 1
        raise ValueError(
            f"delta={delta}: costs that add up over {levels} levels could rise by 2^31 at once, and the tables hold "
            'less; use solver="exact", which has no tables'
        )
    slopes = np.empty(entries, np.int32)
    stop = 1 if fixed else 0
    _build(stop, len(y), tree.first, tree.children, y, lowest, highest, start, slopes, by_sorting)
    return start, slopes, again


@kernel
def _height(parent: IntArray) -> int:
    depth = np.ones(len(parent), np.int64)
    for node in range(1, len(parent)):
        depth[node] = depth[parent[node]] + 1
    return int(depth.max())


@kernel
def _domains(parent: IntArray, y: IntArray, delta: int, fixed: bool, total: int) -> tuple[IntArray, IntArray, int]:
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
def _places(
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
def _count(
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
        found += _count(child, slope, first, y, lowest, highest, start, slopes)
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
    """Algorithm 1 as published: sort the slopes of all children's whole tables, cut to the domain, add the own term."""
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
        i = _count(child, low, first, y, lowest, highest, start, slopes)
        j = _count(child, high - 1, first, y, lowest, highest, start, slopes)
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
def _build(
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
def _recover(
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
    """Top-down: each family takes as many of its lowest slopes as its parent's value asks for.

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
                _build(node + 1, end, first, children, y, lowest, highest, start, slopes, by_sorting)
        units = x[node]
        for child in family:
            x[child] = lowest[child]
            units -= lowest[child]
        if units == 0:
            continue
        last = _ranked(family, units, first, y, lowest, highest, start, slopes)
        for child in family:
            taken = _count(child, last - 1, first, y, lowest, highest, start, slopes)
            x[child] += taken
            units -= taken
        for child in family:
            taken = x[child] - lowest[child]
            more = min(units, _count(child, last, first, y, lowest, highest, start, slopes) - taken)
            x[child] += more
            units -= more
            if units == 0:
                break
    return x
