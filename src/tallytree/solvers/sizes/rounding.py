"""Controlled rounding of histograms over a hierarchy: every count and every sum goes to one of its two neighbors.

Source: Cox & Ernst 1982 and Cox 1987 (controlled rounding as an integral flow), for rows against a laminar family of
column sums; cycles are cancelled one by one.

The nested levels of a hierarchy are given as ranges of leaves (`first_leaf`), checked and laid out as a forest.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import MAX_EXACT, check_integers, check_offsets
from tallytree.support.arrays import FloatArray, IntArray, offsets_of
from tallytree.support.kernels import inlined, kernel

MAX_ROWS = 2**31
"""Sums of so many fractions stay below 2^62."""


class NestedLevels(NamedTuple):
    """Nested levels as one array of inner nodes, coarsest level first, so that parents come before children.

    The number of inner nodes itself stands for what is above all roots.
    """

    nodes: list[int]
    """Of each level, the leaves' included."""
    leaves: int
    parent: IntArray
    """(inner nodes,)"""
    parent_of_leaf: IntArray
    """(leaves,)"""


def check_levels(first_leaf: Sequence[npt.ArrayLike]) -> NestedLevels:
    """Return the levels as a forest, or say what is wrong with them.

    Args:
        first_leaf: as for `margins.fit`.

    Returns:
        The forest of inner nodes.

    Raises:
        TypeError: for offsets that are not integers.
        ValueError: for no levels, nodes without leaves, levels that are not nested or do not end with the leaves.
    """
    if len(first_leaf) == 0:
        raise ValueError("first_leaf is empty; it must have one array for each level, the leaves last")
    last = len(first_leaf) - 1
    finest = check_integers(f"first_leaf[{last}]", first_leaf[last])
    leaves = max(0, len(finest) - 1)
    if not 0 < leaves < MAX_ROWS:
        raise ValueError(f"first_leaf[{last}] has {leaves} leaves; it must have between 1 and 2^31")
    if (finest != np.arange(leaves + 1)).any():
        raise ValueError(f"first_leaf[{last}] must be 0, 1, …, {leaves}: the last level must be the leaves, measured")
    cuts: list[IntArray] = []
    for level, given in enumerate(first_leaf):
        name = f"first_leaf[{level}]"
        offsets = check_offsets(name, given, f"first_leaf[{last}]", leaves)
        empty = np.flatnonzero(offsets[1:] == offsets[:-1])
        if len(empty):
            raise ValueError(f"{name} has no leaf for node {empty[0]}; every node must have one")
        if cuts:
            torn = np.setdiff1d(cuts[-1], offsets)
            if len(torn):
                raise ValueError(
                    f"{name} has a node across leaf {torn[0]}, where one of first_leaf[{level - 1}] ends; "
                    "each level must refine the one before"
                )
        cuts.append(offsets)
    nodes = [len(offsets) - 1 for offsets in cuts]
    start = offsets_of(np.array(nodes[:-1], np.int64))
    above = [np.full(nodes[0], start[-1])]
    above += [
        start[level] + np.searchsorted(coarse, fine[:-1], side="right") - 1
        for level, (coarse, fine) in enumerate(pairwise(cuts))
    ]
    parent = np.concatenate([np.empty(0, np.int64), *above[:-1]])
    return NestedLevels(nodes, leaves, parent, above[-1])


def check_totals(row_totals: npt.ArrayLike, leaves: int) -> IntArray:
    """Return the totals of the leaves as int64, or say what is wrong with them.

    Args:
        row_totals: what the caller gave.
        leaves: how many there must be.

    Returns:
        (leaves,) int64.

    Raises:
        TypeError: if they are not integers.
        ValueError: if there are more or fewer, one is negative, or their sum is beyond 2^53.
    """
    totals = check_integers("row_totals", row_totals)
    if len(totals) != leaves:
        raise ValueError(f"row_totals has {len(totals)} entries; first_leaf describes {leaves} leaves")
    if totals.min() < 0:
        row = int(np.argmin(totals))
        raise ValueError(f"row_totals[{row}]={totals[row]} must not be negative")
    if totals.sum(dtype=np.float64) > MAX_EXACT:
        raise ValueError(f"row_totals adds up to {totals.sum(dtype=np.float64):.3g}; it must stay within 2^53")
    return totals


def check_weights(weights: Sequence[float] | None, levels: NestedLevels) -> FloatArray:
    """Return one weight for each level, or say what is wrong with them.

    Args:
        weights: what the caller gave; None for equal weights.
        levels: what they are for.

    Returns:
        (levels,) float64.

    Raises:
        TypeError: if they are not numbers.
        ValueError: if there are more or fewer, one is not positive and finite, or two differ by a factor over 2^40.
    """
    if weights is None:
        return np.ones(len(levels.nodes))
    given = np.asarray(weights)
    if given.size and given.dtype.kind not in "iuf":
        raise TypeError(f"weights has dtype {given.dtype}; it must hold real numbers")
    if given.shape != (len(levels.nodes),):
        raise ValueError(
            f"weights has shape {given.shape}; it must have one entry for each of {len(levels.nodes)} levels"
        )
    scale = given.astype(np.float64)
    wrong = ~(np.isfinite(scale) & (scale > 0))
    if wrong.any():
        level = int(np.argmax(wrong))
        raise ValueError(f"weights[{level}]={scale[level]} must be positive and finite")
    if scale.max() / 2**40 > scale.min():
        raise ValueError(f"weights must be within a factor 2^40 of each other; got {scale.min()} … {scale.max()}")
    return scale


UNIT = 2**30
"""Fractions are integer multiples of 1/UNIT."""
ROW_SLACK = 1e-6
"""A row may miss its total by this, and by this for each 2^20 groups; it is corrected."""


def round_with_margins(
    values: npt.ArrayLike,
    first_leaf: Sequence[npt.ArrayLike],
    row_totals: npt.ArrayLike,
    *,
    weights: Sequence[float] | None = None,
) -> IntArray:
    """Round real leaf histograms so that every node of every level has the floor or the ceiling of its real count.

    Rows keep their totals, and integers stay; the theorem of controlled rounding says that this is always possible.
    First, real counts go to the nearest multiple of 2^-30, and rows are corrected to their totals.

    Of all such roundings Z of X the one returned costs Σ_ℓ w_ℓ‖A_ℓ(Z − X)‖² <= Σ_ℓ w_ℓ Σ f(1 − f), f the fractional
    parts of all A_ℓX, which is what rounding up with probability f would cost on average; it is not the cheapest. If
    X is the optimum of `margins.fit`, then that is also what rounding adds to the cost of X.

    Args:
        values: X, (leaves, sizes), finite and >= 0.
        first_leaf: as for `margins.fit`.
        row_totals: (leaves,) >= 0; what the rows add up to, within one in a million, or in 10^12 of it.
        weights: w_ℓ, positive and finite; all equal by default.

    Returns:
        (leaves, sizes) int64. Time and scratch memory grow with the number of fractional counts.

    Raises:
        TypeError: for values that are not numbers, offsets or totals that are not integers.
        ValueError: for levels that are not nested or do not end with the leaves, values of another shape, negative or
            not finite, rows that miss their totals, weights that are not positive, a sum of totals beyond 2^53.

    Example:
        >>> round_with_margins([[0.5, 0.5], [0.5, 0.5]], [[0, 2], [0, 1, 2]], [1, 1]).tolist()
        [[0, 1], [1, 0]]
    """
    levels = check_levels(first_leaf)
    totals = check_totals(row_totals, levels.leaves)
    scale = check_weights(weights, levels)
    real = np.asarray(values)
    if real.dtype.kind not in "iuf":
        raise TypeError(f"values has dtype {real.dtype}; it must hold real numbers")
    if real.ndim != 2 or len(real) != levels.leaves or real.shape[1] == 0:
        raise ValueError(f"values has shape {real.shape}; it must be ({levels.leaves}, sizes)")
    real = real.astype(np.float64, copy=False)
    if not (real.min() >= 0 and real.max() <= MAX_EXACT):
        raise ValueError(f"values holds {real.min()} … {real.max()}; it must stay within 0 … 2^53")
    sums = real.sum(axis=1)
    off = np.abs(sums - totals) - totals * (ROW_SLACK * 2**-20)
    worst = int(np.argmax(off))
    if off[worst] > ROW_SLACK:
        raise ValueError(
            f"values[{worst}] adds up to {sums[worst]}; it must add up to row_totals[{worst}]={totals[worst]}"
        )

    integer, row, column, fraction = _split(np.ascontiguousarray(real), totals)
    scale = scale / scale.max()
    of_node = np.repeat(scale[:-1], levels.nodes[:-1])
    up, down, flow, weight, vertices = _network(
        row, column, fraction, real.shape[1], levels.parent, levels.parent_of_leaf, scale[-1], of_node
    )
    _cancel(up, down, flow, weight, vertices)
    _add(integer, row, column, flow)
    return integer


@kernel
def _split(x: FloatArray, totals: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """The integer parts, and the fractional entries as (row, column, fraction in 1/UNIT), row after row.

    A row that misses its total is corrected at its fractional entries, in order. Within their floors and
    ceilings they can take anything below one unit; more, which only totals over 10^12 may miss, is then a number
    of units, and goes to the largest entry.
    """
    rows, sizes = x.shape
    integer = np.empty((rows, sizes), np.int64)
    count = 0
    for r in range(rows):
        for s in range(sizes):
            integer[r, s] = int(np.floor(x[r, s]))
            count += x[r, s] > integer[r, s]
    row, column, fraction = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    part = np.empty(sizes, np.int64)
    count = 0
    for r in range(rows):
        missing, held, largest = totals[r], 0, 0
        for s in range(sizes):
            part[s] = int(np.rint((x[r, s] - integer[r, s]) * UNIT))
            if part[s] == UNIT:
                integer[r, s] += 1
                part[s] = 0
            missing -= integer[r, s]
            held += part[s]
            if integer[r, s] > integer[r, largest]:
                largest = s
        off = missing * UNIT - held
        for s in range(sizes):
            if part[s] > 0:
                moved = max(-part[s], min(UNIT - part[s], off))
                off -= moved
                part[s] += moved
                if part[s] == UNIT:
                    integer[r, s] += 1
                elif part[s] > 0:
                    row[count], column[count], fraction[count] = r, s, part[s]
                    count += 1
        integer[r, largest] += off // UNIT
    return integer, row[:count], column[:count], fraction[:count]


@kernel
def _network(
    row: IntArray,
    column: IntArray,
    fraction: IntArray,
    sizes: int,
    parent: IntArray,
    parent_of_leaf: IntArray,
    leaf_weight: float,
    weight: FloatArray,
) -> tuple[IntArray, IntArray, IntArray, FloatArray, int]:
    """Fractional arcs as (vertex above, vertex below, flow in 1/UNIT, weight), the leaves' first; number of vertices.

    Vertices are the rows, the sizes of inner nodes, and one above all. Arcs run from a node's size down to the same of
    its children, and from the lowest nodes to the rows. Only fractions of flows are kept: at every vertex, what comes
    in and what goes out differ by integer units, so no vertex has a single fractional arc.
    """
    rows, nodes, leaves = len(parent_of_leaf), len(parent), len(row)
    flow = np.zeros((nodes + 1, sizes), np.int64)
    met = np.zeros((nodes + 1, sizes), np.bool_)
    for a in range(leaves):
        flow[parent_of_leaf[row[a]], column[a]] += fraction[a]
        met[parent_of_leaf[row[a]], column[a]] = True
    arcs, vertices = leaves, rows
    for v in range(nodes - 1, -1, -1):
        for s in range(sizes):
            flow[v, s] %= UNIT
            vertices += met[v, s]
            if flow[v, s] > 0:
                arcs += 1
                flow[parent[v], s] += flow[v, s]
                met[parent[v], s] = True
    vertex = np.full((nodes + 1, sizes), vertices)
    up, down, part, price = np.empty(arcs, np.int64), np.empty(arcs, np.int64), np.empty(arcs, np.int64), np.empty(arcs)
    count, name = leaves, rows
    for v in range(nodes):
        for s in range(sizes):
            if met[v, s]:
                vertex[v, s] = name
                name += 1
            if flow[v, s] > 0:
                up[count], down[count], part[count], price[count] = (
                    vertex[parent[v], s],
                    vertex[v, s],
                    flow[v, s],
                    weight[v],
                )
                count += 1
    for a in range(leaves):
        up[a], down[a], part[a], price[a] = vertex[parent_of_leaf[row[a]], column[a]], row[a], fraction[a], leaf_weight
    return up, down, part, price, vertices + 1


@inlined
def _arcs_of_vertices(up: IntArray, down: IntArray, vertices: int) -> tuple[IntArray, IntArray]:
    """Where each vertex's arcs begin, and the arcs, those of lowest number last."""
    begin = np.zeros(vertices + 1, np.int64)
    for a in range(len(up)):
        begin[up[a] + 1] += 1
        begin[down[a] + 1] += 1
    begin = np.cumsum(begin)
    at = begin[:-1].copy()
    arcs = np.empty(2 * len(up), np.int64)
    for a in range(len(up) - 1, -1, -1):
        arcs[at[up[a]]] = a
        at[up[a]] += 1
        arcs[at[down[a]]] = a
        at[down[a]] += 1
    return begin, arcs


@kernel
def _cancel(up: IntArray, down: IntArray, flow: IntArray, weight: FloatArray, vertices: int) -> None:
    """Push every flow to 0 or UNIT, along cycles of fractional arcs until none is left.

    Rounding f up rather than down costs w(1 − 2f) more; a cycle is pushed in the direction in which the sum of these
    falls, forward where it is 0, until one of its arcs is integer. As that sum times the flow never rises, all arcs
    together cost at most Σ w f(1 − f). Invariants: `walk` is a path of fractional arcs; integer arcs stay so; no
    vertex has a single fractional arc, so a path can always go on, by an arc other than the one it came by.
    """
    cost = weight * (1 - 2 * (flow / UNIT))
    begin, arcs = _arcs_of_vertices(up, down, vertices)
    end = begin[1:].copy()
    place = np.full(vertices, -1)
    walk, came = np.empty(vertices, np.int64), np.empty(vertices, np.int64)
    for start in range(vertices):
        walk[0], place[start], depth = start, 0, 0
        while True:
            here = walk[depth]
            arc = _next_arc(begin[here], here, came[depth] if depth > 0 else -1, end, arcs, flow)
            if arc < 0:
                break
            there = up[arc] + down[arc] - here
            if place[there] < 0:
                depth += 1
                walk[depth], came[depth], place[there] = there, arc, depth
                continue
            first = place[there]
            gain = cost[arc] if there == down[arc] else -cost[arc]
            for i in range(first + 1, depth + 1):
                gain += cost[came[i]] if walk[i] == down[came[i]] else -cost[came[i]]
            forward = gain <= 0
            room = UNIT - flow[arc] if (there == down[arc]) == forward else flow[arc]
            for i in range(first + 1, depth + 1):
                a = came[i]
                room = min(room, UNIT - flow[a] if (walk[i] == down[a]) == forward else flow[a])
            flow[arc] += room if (there == down[arc]) == forward else -room
            broken = depth + 1
            for i in range(depth, first, -1):
                a = came[i]
                flow[a] += room if (walk[i] == down[a]) == forward else -room
                if flow[a] == 0 or flow[a] == UNIT:
                    broken = i
            while depth >= broken:
                place[walk[depth]] = -1
                depth -= 1
        place[start] = -1


@inlined
def _next_arc(begin: int, vertex: int, came: int, end: IntArray, arcs: IntArray, flow: IntArray) -> int:
    """A fractional arc of the vertex other than `came`, or −1; integer arcs are dropped from the end of its list."""
    while end[vertex] > begin and flow[arcs[end[vertex] - 1]] % UNIT == 0:
        end[vertex] -= 1
    last = end[vertex] - 1
    if last < begin:
        return -1
    if arcs[last] != came:
        return int(arcs[last])
    while last > begin and flow[arcs[last - 1]] % UNIT == 0:
        arcs[last - 1] = arcs[last]
        end[vertex] = last
        last -= 1
    return int(arcs[last - 1]) if last > begin else -1


@kernel
def _add(integer: IntArray, row: IntArray, column: IntArray, flow: IntArray) -> None:
    for a in range(len(row)):
        integer[row[a], column[a]] += flow[a] // UNIT
