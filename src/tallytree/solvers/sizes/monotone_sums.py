"""Non-increasing rows with given column sums: least squares by ADMM, and their rounding to integers.

Source: ours, after Boyd et al. 2011 (ADMM in consensus form, over-relaxation, residuals of section 3.3).
"""

from __future__ import annotations

import numpy as np

from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.kernel_arrays import put
from tallytree.support.kernels import inlined, kernel

OVER_RELAXATION = 1.6
CHECK_EVERY = 5
"""Iterations between two checks of the residuals."""
BALANCE_EVERY = 50
"""Iterations between two changes of the penalty, which follows the residuals (Boyd et al., 3.4.1)."""


@kernel
def isotonic_decreasing(
    values: FloatArray,
    weights: FloatArray,
    cap: float,
    out: FloatArray,
    mean: FloatArray,
    weight: FloatArray,
    first: IntArray,
) -> None:
    """The nearest non-increasing vector within [0, cap]: pool adjacent violators, then clip.

    Invariant: the blocks cover values[:i] and their means strictly decrease.
    """
    blocks = 0
    for i in range(len(values)):
        here, heavy, start = values[i], weights[i], i
        while blocks > 0 and mean[blocks - 1] <= here:
            blocks -= 1
            both = heavy + weight[blocks]
            here += (mean[blocks] - here) * (weight[blocks] / both)
            heavy = both
            start = first[blocks]
        mean[blocks], weight[blocks], first[blocks] = here, heavy, start
        blocks += 1
    for b in range(blocks):
        stop = first[b + 1] if b + 1 < blocks else len(values)
        value = min(max(mean[b], 0.0), cap)
        for i in range(first[b], stop):
            out[i] = value


@kernel
def fit_with_sums(
    target: FloatArray,
    weight: FloatArray,
    cap: FloatArray,
    total: FloatArray,
    tolerance: float,
    most: int,
    x: FloatArray,
) -> tuple[int, float, float]:
    """Minimise Σ weight·(x − target)² over rows 0 ≤ x[c, r] ≤ x[c, r − 1] ≤ cap[c] with Σ_c x[c, r] = total[r].

    ADMM with one copy of x for each kind of constraint: m, the rows' (pool adjacent violators), and t, the columns'
    (one shift each). The penalty of a cell is its weight times a factor. With ‖a‖² = Σ weight·a² / Σ weight, it stops
    when the primal residual √(‖x − m‖² + ‖x − t‖²) and the dual residual factor·√(‖Δm‖² + ‖Δt‖²), Δ the change within
    an iteration, both are at most `tolerance`: then no constraint is missed, on average, by more than that many groups.
    Every iteration is linear in the cells.

    Args:
        target: (rows, columns)
        weight: (rows, columns) > 0.
        cap: (rows,) ≥ 0; may be infinite.
        total: (columns,) non-increasing, ≥ 0, total[0] at most the sum of the caps.
        tolerance: in groups.
        most: iterations at most.
        x: (rows, columns) the start, and out: the copy that is monotone.

    Returns:
        Iterations, primal and dual residual.
    """
    n, columns = x.shape
    m, t = x.copy(), x.copy()
    dm, dt = np.zeros((n, columns)), np.zeros((n, columns))
    relaxed, moved, row = np.empty(columns), np.empty(columns), np.empty(columns)
    mean, heavy, first = np.empty(columns), np.empty(columns), np.empty(columns, np.int64)
    excess, slack = np.empty(columns), np.zeros(columns)
    norm = 0.0
    for c in range(n):
        for r in range(columns):
            slack[r] += 1.0 / weight[c, r]
            norm += weight[c, r]
    factor, primal, dual = 1.0, np.inf, np.inf
    done = 0
    while done < most:
        primal = dual = 0.0
        for r in range(columns):
            excess[r] = -total[r]
        for c in range(n):
            for r in range(columns):
                both = m[c, r] - dm[c, r] + t[c, r] - dt[c, r]
                x[c, r] = (target[c, r] + factor * both) / (1.0 + 2.0 * factor)
                relaxed[r] = OVER_RELAXATION * x[c, r] + (1.0 - OVER_RELAXATION) * m[c, r]
                moved[r] = relaxed[r] + dm[c, r]
                excess[r] += OVER_RELAXATION * x[c, r] + (1.0 - OVER_RELAXATION) * t[c, r] + dt[c, r]
            isotonic_decreasing(moved, weight[c], cap[c], row, mean, heavy, first)
            for r in range(columns):
                primal += weight[c, r] * (x[c, r] - row[r]) ** 2
                dual += weight[c, r] * (row[r] - m[c, r]) ** 2
                dm[c, r] += relaxed[r] - row[r]
                m[c, r] = row[r]
        for c in range(n):
            for r in range(columns):
                before = t[c, r]
                here = OVER_RELAXATION * x[c, r] + (1.0 - OVER_RELAXATION) * before
                after = here + dt[c, r] - excess[r] / (slack[r] * weight[c, r])
                dt[c, r] += here - after
                t[c, r] = after
                primal += weight[c, r] * (x[c, r] - after) ** 2
                dual += weight[c, r] * (after - before) ** 2
        done += 1
        primal, dual = np.sqrt(primal / norm), factor * np.sqrt(dual / norm)
        if done % CHECK_EVERY == 0 and primal <= tolerance and dual <= tolerance:
            break
        if done % BALANCE_EVERY == 0 and done < most // 2:
            change = 2.0 if primal > 5.0 * dual else (0.5 if dual > 5.0 * primal else 1.0)
            factor *= change
            dm /= change
            dt /= change
    for c in range(n):
        put(m[c], x[c])
    return done, primal, dual


@inlined
def round_with_sums(x: FloatArray, total: FloatArray, cap: FloatArray, out: FloatArray) -> None:
    """Integers 0 ≤ out[c, r] ≤ out[c, r − 1] ≤ cap[c], whose columns add up to `total`, close to x.

    Column after column: each number to the nearest that is allowed, then single units up or down where that costs
    least, Σ (out − x)². That is the nearest column, given the one before it. It can always be reached: the column
    before adds up to no less than this total.
    """
    n, columns = x.shape
    for r in range(columns):
        excess = -total[r]
        for c in range(n):
            most = out[c, r - 1] if r > 0 else cap[c]
            out[c, r] = min(max(np.floor(x[c, r] + 0.5), 0.0), most)
            excess += out[c, r]
        while excess != 0.0:
            sign = 1.0 if excess < 0 else -1.0
            best, least, room = 0, np.inf, 0.0
            for c in range(n):
                most = out[c, r - 1] if r > 0 else cap[c]
                here = most - out[c, r] if sign > 0 else out[c, r]
                cost = sign * (out[c, r] - x[c, r])
                if here > 0 and cost < least:
                    best, least, room = c, cost, here
            # Steps of more than a unit occur only where x is far from its sums.
            step = sign * min(room, max(1.0, np.floor(abs(excess) / n)))
            out[best, r] += step
            excess += step
