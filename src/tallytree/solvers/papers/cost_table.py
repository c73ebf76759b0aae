"""The cost tables of Fioretto et al.: the tree projection by dynamic programming, kept for comparison.

Source: Fioretto, Van Hentenryck & Zhu 2021, sections 6 and 7 (Equation 4, Algorithm 1). `tree.project` needs neither
tables nor domains. These are for benchmarks against it, and to test it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import MAX_SUM
from tallytree.solvers.papers.cost_table_kernels import (
    SlopeArray,
    build_tables,
    count_slopes,
    reachable_domains,
    recover_values,
    table_places,
    tree_height,
)
from tallytree.solvers.papers.preorder import PreorderTree, check_integer, check_tree_and_values
from tallytree.support.arrays import IntArray

TableMerge = Literal["sort", "count"]
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
    merge: TableMerge = "sort",
) -> CostTableSolution:
    """Minimise Σ (x − noisy)² over integers x >= 0 on a tree whose inner nodes equal the sum of their children.

    Bottom-up, each node gets the table τ of the least cost of its subtree for every value of its domain
    D = {noisy − delta … noisy + delta} ∩ Z+; top-down, each family gets the values that its parent's entry stands
    for. Tables are convex, so that children merge by their sorted slopes τ(v) − τ(v − 1) (Algorithm 1). The paper has
    delta = 3·⌈2λ²⌉ for noise of scale λ.

    A table is kept as its lowest value and its slopes, which are all that either phase reads; the slopes of a leaf
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
    tree, y = check_tree_and_values(parent, noisy)
    half_width = check_integer("delta", delta, least=1)
    if merge not in get_args(TableMerge):
        raise ValueError(f'merge: {merge!r} is not known; choose "sort" or "count"')
    fixed, by_sorting = total is not None, merge == "sort"
    top = 0 if total is None else check_integer("total", total, least=0)
    while True:
        _check_magnitude(y, half_width, top)
        lowest, highest, barred = reachable_domains(tree.parent, y, half_width, fixed, top)
        if barred >= 0:
            trouble = _no_solution(tree, y, barred, fixed, top)
        else:
            start, slopes, again = _tabulated(tree, y, lowest, highest, half_width, fixed, by_sorting)
            root = top if fixed else lowest[0] + count_slopes(0, 0, tree.first, y, lowest, highest, start, slopes)
            x = recover_values(root, tree.first, tree.children, y, lowest, highest, start, slopes, again, by_sorting)
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
    tree, y = check_tree_and_values(parent, noisy)
    half_width = check_integer("delta", delta, least=1)
    _check_magnitude(y, half_width, 0)
    if len(y) * half_width**2 >= MAX_SUM:
        raise ValueError(f"delta={half_width} is too large: costs of {len(y)} nodes could overflow")
    lowest, highest, barred = reachable_domains(tree.parent, y, half_width, False, 0)
    if barred >= 0:
        raise ValueError(f"delta={half_width}: {_no_solution(tree, y, barred, False, 0)}; give a larger delta")
    start, slopes, again = _tabulated(tree, y, lowest, highest, half_width, False, True)
    x = recover_values(lowest[0], tree.first, tree.children, y, lowest, highest, start, slopes, again, True)
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
    if len(off) == 0 or int(off.max()) ** 2 * len(off) < MAX_SUM:
        return int(off @ off)
    return sum(distance * distance for distance in off.tolist())


def _check_magnitude(y: IntArray, delta: int, total: int) -> None:
    if len(y) * (max(int(y.max()), -int(y.min())) + 2 * delta + 2) + total >= MAX_SUM:
        raise ValueError(
            f"noisy ({y.min()} … {y.max()}), delta={delta} and total={total} are so large that sums over {len(y)} "
            "nodes could reach 2^62"
        )


def _no_solution(tree: PreorderTree, y: IntArray, node: int, fixed: bool, total: int) -> str:
    if fixed and node == 0:
        return f"total={total} cannot be reached within the domains"
    return f"the domain of node {tree.order[node]} (noisy: {y[node]}) holds no value that its subtree can have"


def _tabulated(
    tree: PreorderTree, y: IntArray, lowest: IntArray, highest: IntArray, delta: int, fixed: bool, by_sorting: bool
) -> tuple[IntArray, SlopeArray, bool]:
    """Where each inner node's slopes begin, the slopes, and whether only those of the root's children are complete."""
    again = False
    start, entries = table_places(tree.parent, tree.first, lowest, highest, fixed, again)
    if entries > KEPT_ENTRIES:
        again = True
        start, entries = table_places(tree.parent, tree.first, lowest, highest, fixed, again)
    if entries > MAX_ENTRIES:
        raise ValueError(
            f"delta={delta}: the cost tables would have {entries:,} entries, and {MAX_ENTRIES:,} are allowed; "
            'use solver="exact", which has no tables'
        )
    levels = tree_height(tree.parent)
    if entries and levels * (2 * delta + 1) >= 2**31:  # a slope is a sum over one node a level, each within 2·delta + 1
        raise ValueError(
            f"delta={delta}: costs that add up over {levels} levels could rise by 2^31 at once, and the tables hold "
            'less; use solver="exact", which has no tables'
        )
    slopes = np.empty(entries, np.int32)
    stop = 1 if fixed else 0
    build_tables(stop, len(y), tree.first, tree.children, y, lowest, highest, start, slopes, by_sorting)
    return start, slopes, again
