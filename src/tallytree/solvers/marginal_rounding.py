"""Integers near real tables of attributes, such that all marginals stay near too, not only the cells.

A family's columns (one detail cell of all children) keep their sums exactly: every value is rounded down, and as many
children as the column lacks get one unit. Which ones is decided by error feedback. With d_T the deviation that a
child's marginal T has so far in the cell that the column is counted in, one unit more changes Σ_T d_T² by
Σ_T (2 d_T + 1); the children with the least of these get it. After a first pass over the columns, sweeps choose each
column again, given all others. Each choice is the best for its column, so Σ d² never rises.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tallytree.compute.arrays import FloatArray, IntArray
from tallytree.compute.kernels import kernel
from tallytree.solvers.marginal_kernels import Pyramid

SWEEPS = 3


@kernel
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
def _add(pyramid: Pyramid, deviation: Any, j: int, amount: float) -> None:
    """Change detail cell j of one row by an amount: what its marginals deviate by."""
    for k in range(len(pyramid.place)):
        deviation[pyramid.place[k, j]] += amount


@kernel
def _cost(pyramid: Pyramid, deviation: Any, j: int) -> float:
    """Half of what one unit more in detail cell j adds to Σ_T d_T², up to a constant."""
    total = 0.0
    for k in range(len(pyramid.place)):
        total += deviation[pyramid.place[k, j]]
    return total


@kernel
def _floor_column(x: FloatArray, j: int, wanted: int, values: IntArray) -> int:
    """Write column j rounded down, or nearly so, and return how many children lack a unit: 0 … children − 1.

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
    if left >= m:
        for c in range(m):
            values[c, j] += left // m
        left %= m
    return left


@kernel
def round_family(pyramid: Pyramid, column: IntArray, x: FloatArray, sweeps: int, values: IntArray) -> None:
    """Round the children of a family.

    Args:
        pyramid: of the detail.
        column: (cells,) the parent's values: the exact sums.
        x: (children, cells) ≥ 0, with these sums up to rounding errors.
        sweeps: how often each column is chosen again.
        values: (children, cells) gets the integers ≥ 0.
    """
    m, n = x.shape
    if m == 1:
        values[0] = column
        return
    deviation = np.zeros((m, len(pyramid.inverse_size)), dtype=np.float32)
    raised = np.zeros((m, n), dtype=np.bool_)
    lacking = np.zeros(n, dtype=np.int64)
    score, order = np.empty(m), np.arange(m)
    for j in range(n):
        lacking[j] = _floor_column(x, j, column[j], values)
    for sweep in range(sweeps + 1):
        for j in range(n):
            if sweep == 0:
                for c in range(m):
                    _add(pyramid, deviation[c], j, values[c, j] - x[c, j])
            if lacking[j] == 0:
                continue
            for c in range(m):
                if raised[c, j]:
                    _add(pyramid, deviation[c], j, -1.0)
                    raised[c, j] = False
                score[c] = _cost(pyramid, deviation[c], j)
                order[c] = c
            choose_least(score, order, lacking[j])
            for i in range(lacking[j]):
                raised[order[i], j] = True
                _add(pyramid, deviation[order[i]], j, 1.0)
    for c in range(m):
        for j in range(n):
            values[c, j] += raised[c, j]


@kernel
def _deviate(pyramid: Pyramid, x: FloatArray, values: IntArray, deviation: Any) -> None:
    """Write what every marginal of the rows deviates by."""
    deviation[:] = 0.0
    for c in range(len(x)):
        for j in range(x.shape[1]):
            _add(pyramid, deviation[c], j, values[c, j] - x[c, j])


@kernel
def keep_totals(pyramid: Pyramid, totals: IntArray, x: FloatArray, values: IntArray) -> None:
    """Give every child its total, by moving units between children within columns.

    A child above its total has a value above 0, so there is always a unit to move, and every move brings two children
    nearer to their totals. Units are moved one by one, each where Σ d² rises least; where very many are to be moved
    (which the fit leaves to no family that it solved), several at once.
    """
    m, n = values.shape
    deviation = np.zeros((m, len(pyramid.inverse_size)), dtype=np.float32)
    _deviate(pyramid, x, values, deviation)
    above = np.array([values[c].sum() - totals[c] for c in range(m)])
    taker = 0
    for giver in range(m):
        while above[giver] > 0:
            while above[taker] >= 0:
                taker += 1
            best, least = -1, np.inf
            for j in range(n):
                if values[giver, j] > 0:
                    cost = _cost(pyramid, deviation[taker], j) - _cost(pyramid, deviation[giver], j)
                    if cost < least:
                        best, least = j, cost
            units = max(1, min(above[giver], -above[taker], values[giver, best]) // (2 * n))
            for child, change in ((giver, -units), (taker, units)):
                values[child, best] += change
                above[child] += change
                _add(pyramid, deviation[child], best, float(change))


@kernel
def round_root(pyramid: Pyramid, x: FloatArray, total: int, sweeps: int, values: IntArray) -> None:
    """Round one area without a parent.

    Args:
        pyramid: of the detail.
        x: (cells,) ≥ 0.
        total: what the integers add up to; below 0 where it is free.
        sweeps: how often each cell is chosen again.
        values: (cells,) gets the integers ≥ 0.
    """
    n = len(x)
    deviation = np.zeros(len(pyramid.inverse_size))
    terms = len(pyramid.place)
    for j in range(n):
        values[j] = int(np.floor(x[j]))
    lowest = values.copy()
    for sweep in range(sweeps + 1):
        for j in range(n):
            if sweep == 0:
                _add(pyramid, deviation, j, values[j] - x[j])
            if values[j] > lowest[j]:
                values[j] -= 1
                _add(pyramid, deviation, j, -1.0)
            if 2.0 * _cost(pyramid, deviation, j) + terms < 0.0:
                values[j] += 1
                _add(pyramid, deviation, j, 1.0)
    while total >= 0:
        left = total - values.sum()
        if left == 0:
            return
        sign = 1 if left > 0 else -1
        best, least = -1, np.inf
        for j in range(n):
            if sign > 0 or values[j] > 0:
                cost = sign * _cost(pyramid, deviation, j)
                if cost < least:
                    best, least = j, cost
        units = max(1, abs(left) // (2 * n))
        if sign < 0:
            units = min(units, values[best])
        values[best] += sign * units
        _add(pyramid, deviation, best, float(sign * units))
