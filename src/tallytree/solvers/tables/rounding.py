"""Integers near real tables of attributes, such that all marginals stay near too, not only the cells.

A family's columns (one detail cell of all children) keep their sums exactly: every value is rounded down, and as many
children as the column lacks get one unit. Which ones is decided by error feedback. With d_T the deviation that a
child's marginal T has so far in the cell that the column is counted in, one unit more changes Σ_T w_T d_T² by
Σ_T w_T (2 d_T + 1); the children with the least of these get it. After a first pass over the columns, sweeps choose
each column again, given all others. Each choice is the best for its column, so the sum never rises.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tallytree.support.arrays import BoolArray, FloatArray, IntArray
from tallytree.support.kernels import inlined, kernel

SWEEPS = 3
EXCHANGES = 5
"""The most sweeps of exchanges in the root."""
CANDIDATES = 512
"""How many cells a unit of the root may go to in an exchange."""


@inlined
def choose_least(score: FloatArray, order: IntArray, number: int) -> None:
    """Permute `order`, which holds 0 … n − 1, such that the `number` least come first; the lower index wins ties."""
    low, high = 0, len(order) - 1
    while low < high:
        middle = order[(low + high) // 2]
        pivot = score[middle]
        i, j = low, high
        while i <= j:
            while score[order[i]] < pivot or (score[order[i]] == pivot and order[i] < middle):
                i += 1
            while score[order[j]] > pivot or (score[order[j]] == pivot and order[j] > middle):
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if number <= j:
            high = j
        elif number >= i:
            low = i
        else:
            return


@kernel
def _add(place: IntArray, deviation: Any, j: int, amount: float) -> None:
    """Change detail cell j of one row by an amount: what its marginals deviate by."""
    for k in range(len(place)):
        deviation[place[k, j]] += amount


@kernel
def _cost(place: IntArray, weight: FloatArray, deviation: Any, j: int) -> float:
    """Half of what one unit more in detail cell j adds to Σ_T w_T d_T², up to a constant."""
    total = 0.0
    for k in range(len(place)):
        total += weight[k] * deviation[place[k, j]]
    return total


@inlined
def _floor_column(x: FloatArray, j: int, wanted: int, barred: BoolArray, values: IntArray) -> int:
    """Write column j rounded down, or nearly so, and return how many children lack a unit: 0 … children − 1.

    Of children that are barred none lacks one.

    The real column sums to `wanted` up to the errors of floating point, so the two loops have next to nothing to do.
    """
    m = len(x)
    left = wanted
    for c in range(m):
        values[c, j] = int(np.floor(x[c, j]))
        left -= values[c, j]
    for c in range(m):
        if left >= 0:
            break
        taken = min(values[c, j], -left)
        values[c, j] -= taken
        left += taken
    open_ = m
    for c in range(len(barred)):
        open_ -= barred[c, j]
    if left >= open_ > 0:
        for c in range(m):
            if len(barred) == 0 or not barred[c, j]:
                values[c, j] += left // open_
        left %= open_
    return left


@inlined
def round_family(
    place: IntArray,
    weight: FloatArray,
    column: IntArray,
    x: FloatArray,
    barred: BoolArray,
    sweeps: int,
    values: IntArray,
) -> None:
    """Round the children of a family.

    Args:
        place: (marginals, cells) where in a row of marginals each detail cell is counted.
        weight: (marginals,) w_T, what a squared deviation of each costs.
        column: (cells,) the parent's values: the exact sums.
        x: (children, cells) ≥ 0, with these sums up to rounding errors.
        barred: (children or 0, cells) where x is 0 and stays so; not in all children of a column that is not 0.
        sweeps: how often each column is chosen again.
        values: (children, cells) gets the integers ≥ 0.
    """
    m, n = x.shape
    if m == 1:
        values[0] = column
        return
    deviation = np.zeros((m, place.max() + 1), dtype=np.float32)
    raised = np.zeros((m, n), dtype=np.bool_)
    lacking = np.zeros(n, dtype=np.int64)
    score, order = np.empty(m), np.arange(m)
    for j in range(n):
        lacking[j] = _floor_column(x, j, column[j], barred, values)
    for sweep in range(sweeps + 1):
        for j in range(n):
            if sweep == 0:
                for c in range(m):
                    _add(place, deviation[c], j, values[c, j] - x[c, j])
            if lacking[j] == 0:
                continue
            for c in range(m):
                if raised[c, j]:
                    _add(place, deviation[c], j, -1.0)
                    raised[c, j] = False
                never = len(barred) > 0 and barred[c, j]
                score[c] = np.inf if never else _cost(place, weight, deviation[c], j)
                order[c] = c
            choose_least(score, order, lacking[j])
            for i in range(lacking[j]):
                raised[order[i], j] = True
                _add(place, deviation[order[i]], j, 1.0)
    for c in range(m):
        for j in range(n):
            values[c, j] += raised[c, j]


@inlined
def _deviate(place: IntArray, x: FloatArray, values: IntArray, deviation: Any) -> None:
    """Write what every marginal of the rows deviates by."""
    deviation[:] = 0.0
    for c in range(len(x)):
        for j in range(x.shape[1]):
            _add(place, deviation[c], j, values[c, j] - x[c, j])


@inlined
def keep_sums(
    place: IntArray, weight: FloatArray, group: IntArray, sums: IntArray, x: FloatArray, values: IntArray
) -> None:
    """Give every child its sum over each group of cells, by moving units between children within columns.

    The children's sums over a group add up to those of its columns. A child above its sum has a value above 0 there, so
    there is always a unit to move, and every move brings two children nearer to their sums: integers that meet columns
    and sums always exist, as in any transportation problem. Units are moved one by one, each where Σ d² rises least;
    where very many are to be moved (which the fit leaves to no family that it solved), several at once.
    """
    m, n = values.shape
    above, met = -sums, True
    for c in range(m):
        for j in range(n):
            above[c, group[j]] += values[c, j]
        for g in range(sums.shape[1]):
            met = met and above[c, g] == 0
    if met:
        return
    deviation = np.zeros((m, place.max() + 1), dtype=np.float32)
    _deviate(place, x, values, deviation)
    for g in range(sums.shape[1]):
        taker = 0
        for giver in range(m):
            while above[giver, g] > 0:
                while above[taker, g] >= 0:
                    taker += 1
                best, least = -1, np.inf
                for j in range(n):
                    if group[j] == g and values[giver, j] > 0:
                        cost = _cost(place, weight, deviation[taker], j) - _cost(place, weight, deviation[giver], j)
                        if cost < least:
                            best, least = j, cost
                units = max(1, min(above[giver, g], -above[taker, g], values[giver, best]) // (2 * n))
                for child, change in ((giver, -units), (taker, units)):
                    values[child, best] += change
                    above[child, g] += change
                    _add(place, deviation[child], best, float(change))


@kernel
def _best_change(
    place: IntArray,
    weight: FloatArray,
    deviation: Any,
    group: IntArray,
    g: int,
    x: FloatArray,
    values: IntArray,
    sign: int,
    first: int,
    step: int,
) -> int:
    """The cell of a group, of every `step`-th, where a unit more (sign 1) or less (−1) costs least; −1 for none."""
    best, least = -1, np.inf
    for j in range(first, len(values), step):
        if group[j] == g and x[j] > 0.0 and (sign > 0 or values[j] > 0):
            cost = sign * _cost(place, weight, deviation, j)
            if cost < least:
                best, least = j, cost
    return best


@inlined
def _exchange(
    place: IntArray, weight: FloatArray, deviation: Any, group: IntArray, x: FloatArray, values: IntArray
) -> None:
    """Move single units between cells of a group while that lowers Σ d²; a sweep looks at each cell once."""
    n = len(values)
    step = max(1, n // CANDIDATES)
    terms = weight.sum()
    for sweep in range(EXCHANGES):
        moved = False
        for j in range(n):
            if values[j] == 0 or x[j] == 0.0:
                continue
            before = -2.0 * _cost(place, weight, deviation, j) + terms
            values[j] -= 1
            _add(place, deviation, j, -1.0)
            i = _best_change(place, weight, deviation, group, group[j], x, values, 1, (j + sweep) % step, step)
            if i >= 0 and before + 2.0 * _cost(place, weight, deviation, i) + terms < -1e-6:
                j, moved = i, True
            values[j] += 1
            _add(place, deviation, j, 1.0)
        if not moved:
            return


@kernel
def round_root(
    place: IntArray,
    weight: FloatArray,
    group: IntArray,
    sums: IntArray,
    x: FloatArray,
    sweeps: int,
    values: IntArray,
) -> None:
    """Round one area without a parent.

    Args:
        place: (marginals, cells) where in a row of marginals each cell is counted.
        weight: (marginals,) w_T, what a squared deviation of each costs.
        group: (cells,) the group of each.
        sums: what the integers of each group add up to; empty where that is free.
        x: (cells,) ≥ 0; a cell of 0 stays 0.
        sweeps: how often each cell is chosen again.
        values: (cells,) gets the integers ≥ 0.
    """
    n = len(x)
    deviation = np.zeros(place.max() + 1)
    terms = weight.sum()
    for j in range(n):
        values[j] = int(np.floor(x[j]))
    for sweep in range(sweeps + 1):
        for j in range(n):
            if sweep == 0:  # a cell counts from when it is first chosen: an error is handed on to the next cells
                _add(place, deviation, j, values[j] - x[j])
            if x[j] == 0.0:
                continue
            if 2.0 * _cost(place, weight, deviation, j) + terms < 0.0:
                values[j] += 1
                _add(place, deviation, j, 1.0)
            elif values[j] > 0 and -2.0 * _cost(place, weight, deviation, j) + terms < 0.0:
                values[j] -= 1
                _add(place, deviation, j, -1.0)
    for g in range(len(sums)):
        left = sums[g]
        for j in range(n):
            left -= values[j] if group[j] == g else 0
        while left != 0:
            sign = 1 if left > 0 else -1
            best = _best_change(place, weight, deviation, group, g, x, values, sign, 0, 1)
            units = max(1, abs(left) // (2 * n))
            if sign < 0:
                units = min(units, values[best])
            values[best] += sign * units
            left -= sign * units
            _add(place, deviation, best, float(sign * units))
    _exchange(place, weight, deviation, group, x, values)


@inlined
def deal(starts: IntArray, order: IntArray, parent: IntArray, counts: IntArray, values: Any) -> None:
    """Divide an area's detail among its children, which know of coarser cells only how many units they get.

    Each child gets nearly the same share of every detail cell within a coarse cell, in proportion to its units.

    Args:
        starts: (coarse cells + 1,) where the detail cells of each begin in `order`.
        order: (cells,) the detail cells, by coarse cell.
        parent: (cells,) the area's units.
        counts: (children, coarse cells) the children's units; they add up to the area's in every coarse cell.
        values: (children, cells) gets the children's units; they add up to `parent`.
    """
    m = len(counts)
    values[:] = 0
    lacking, active = np.empty(m, dtype=np.int64), np.empty(m, dtype=np.int64)
    for g in range(len(starts) - 1):
        first, end = starts[g], starts[g + 1]
        if end - first == 1:
            for c in range(m):
                values[c, order[first]] = counts[c, g]
            continue
        whole = 0
        for i in range(first, end):
            whole += parent[order[i]]
        if whole == 0:
            continue
        number = 0
        for turn in range(m):
            c = (turn + g) % m
            lacking[c] = counts[c, g]
            if lacking[c] == 0:
                continue
            share = lacking[c] / whole * (1.0 - 1e-12)
            for i in range(first, end):
                units = int(share * parent[order[i]])
                values[c, order[i]] = units
                lacking[c] -= units
            if lacking[c] > 0:
                active[number] = c
                number += 1
        turn = 0
        for i in range(first, end):
            left = parent[order[i]]
            for c in range(m):
                left -= values[c, order[i]]
            for _ in range(left):
                if turn >= number:
                    turn = 0
                c = active[turn]
                values[c, order[i]] += 1
                lacking[c] -= 1
                if lacking[c] == 0:
                    for later in range(turn, number - 1):
                        active[later] = active[later + 1]
                    number -= 1
                else:
                    turn += 1


@kernel
def round_families(
    place: IntArray,
    weight: FloatArray,
    begins: IntArray,
    columns: IntArray,
    group: IntArray,
    sums: IntArray,
    x: FloatArray,
    barred: BoolArray,
    sweeps: int,
    values: Any,
) -> None:
    """Write the integers of the children begins[i] … begins[i + 1] − 1 of every parent; see `round_family`.

    Args:
        place: (marginals, cells).
        weight: (marginals,).
        begins: (parents + 1,).
        columns: (parents, cells) the integers that the children add up to.
        group: (cells,) the group of each.
        sums: (children, groups) what each child adds up to; without columns where that is not known.
        x: (children, cells) the real values.
        barred: (children or 0, cells) see `round_family`; with it `sums` has no columns.
        sweeps: how often each column is chosen again.
        values: (children, cells) gets the integers.
    """
    for i in range(len(columns)):
        own = slice(begins[i], begins[i + 1])
        round_family(place, weight, columns[i], x[own], barred[own] if len(barred) else barred, sweeps, values[own])
        if sums.shape[1] > 0:
            keep_sums(place, weight, group, sums[own], x[own], values[own])


@kernel
def deal_families(begins: IntArray, starts: IntArray, order: IntArray, parents: Any, counts: Any, values: Any) -> None:
    """`deal` for the children begins[i] … begins[i + 1] − 1 of every parent."""
    for i in range(len(parents)):
        own = slice(begins[i], begins[i + 1])
        deal(starts, order, parents[i], counts[own], values[own])
