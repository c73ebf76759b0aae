"""Non-negative tables of a family of areas, from coarse to fine: each table with the coarser ones fixed.

The children c of an area have estimates z_cT of all tables T of a `Lattice`. Their tables x_cT are decided in the order
of the lattice, the total first. With what is decided before, the tables of T are the nearest

    minimise  Σ_c π_cT Σ_g (x_cg − z_cg)² / n_g   subject to   x ≥ 0,   Σ_c x_c = X,   and x_c sums to x_c,T−e_a

for each attribute a that T refines, with X the parent's table. What x ≥ 0 changes stays within one table of one
family. A joint fit of all tables would let hundreds of cells near 0 move the totals, however well these were measured.

Each kind of sum with x ≥ 0 is a product of simplexes, whose nearest point has a closed form (Michelot 1986). Dykstra's
algorithm (Boyle and Dykstra 1986) goes between them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tallytree.compute.arrays import BoolArray, FloatArray, IntArray
from tallytree.compute.kernels import kernel
from tallytree.solvers.marginal_lattice import Rows

MAX_CYCLES, MAX_RAKING = 10, 200
LEAST = 1e-6
"""Where raking begins, a cell that may have records has this many at least."""
TOLERANCE = 0.1
"""No sum is missed by more than this, in standard deviations of the sum."""


class _Scratch(NamedTuple):
    """Memory that is used again: of the cells of a table, then of the children."""

    lacking: FloatArray
    weight: FloatArray
    active: BoolArray
    column: FloatArray
    spread: FloatArray


@kernel
def nearest_shares(z: FloatArray, spread: FloatArray, total: float) -> None:
    """Replace z by the nearest x ≥ 0 with this sum in the norm Σ (x − z)² / spread. Both float64 (n,)."""
    n = len(z)
    active = np.ones(n, dtype=np.bool_)
    while True:
        lacking, weight = total, 0.0
        for i in range(n):
            if active[i]:
                lacking -= z[i]
                weight += spread[i]
        step = lacking / weight if weight > 0 else 0.0
        done = True
        for i in range(n):
            if active[i] and z[i] + step * spread[i] < 0:
                active[i] = False
                done = False
        if done:
            break
    for i in range(n):
        z[i] = z[i] + step * spread[i] if active[i] else 0.0


@kernel
def _reach_column(g: int, total: float, x: FloatArray, moved: FloatArray, scratch: _Scratch) -> float:
    """One step of Dykstra's algorithm for the sum over a family in one cell; how far the sum was from it."""
    gap = total
    for c in range(len(x)):
        gap -= x[c, g]
        scratch.column[c] = x[c, g] + moved[c, g]
    nearest_shares(scratch.column, scratch.spread, total)
    for c in range(len(x)):
        moved[c, g] += x[c, g] - scratch.column[c]
        x[c, g] = scratch.column[c]
    return abs(gap)


@kernel
def _reach_sums(
    lattice: Rows, k: int, a: int, row: FloatArray, zero: BoolArray, x: FloatArray, moved: FloatArray, scratch: _Scratch
) -> float:
    """One step of Dykstra's algorithm for the sums of a table over one attribute; how far one was from its target."""
    coarser, shift = lattice.lower[k, a], lattice.maps_begin[k, a]
    here, there = lattice.begin[k], lattice.begin[coarser]
    n, groups = lattice.begin[k + 1] - here, lattice.begin[coarser + 1] - there
    lacking, weight, active = scratch.lacking, scratch.weight, scratch.active
    for h in range(groups):
        lacking[h] = row[there + h]
    for g in range(n):
        lacking[lattice.maps[shift + g]] -= x[g]
        active[g] = not zero[here + g]
    gap = 0.0
    for h in range(groups):
        gap = max(gap, abs(lacking[h]))
    while True:
        for h in range(groups):
            lacking[h], weight[h] = row[there + h], 0.0
        for g in range(n):
            if active[g]:
                lacking[lattice.maps[shift + g]] -= x[g] + moved[g]
                weight[lattice.maps[shift + g]] += lattice.size[here + g]
        for h in range(groups):
            lacking[h] = lacking[h] / weight[h] if weight[h] > 0.0 else 0.0
        done = True
        for g in range(n):
            if active[g] and x[g] + moved[g] + lacking[lattice.maps[shift + g]] * lattice.size[here + g] < 0.0:
                active[g] = False
                done = False
        if done:
            break
    for g in range(n):
        value = x[g] + moved[g]
        x[g] = value + lacking[lattice.maps[shift + g]] * lattice.size[here + g] if active[g] else 0.0
        moved[g] = 0.0 if zero[here + g] else value - x[g]
    return gap


@kernel
def _rake(
    lattice: Rows,
    k: int,
    z: FloatArray,
    parent: FloatArray,
    has_parent: bool,
    zero: BoolArray,
    deviation: FloatArray,
    near: FloatArray,
    scratch: _Scratch,
) -> bool:
    """Scale a family's tables, which are near their sums, until they have them. If they never do, they stay."""
    here = lattice.begin[k]
    n = lattice.begin[k + 1] - here
    sums = scratch.lacking
    x = np.empty((len(near), n))
    for c in range(len(x)):
        for g in range(n):
            x[c, g] = 0.0 if zero[here + g] else max(near[c, g], LEAST)
    for cycle in range(MAX_RAKING):
        miss = 0.0
        if has_parent:
            for g in range(n):
                whole = 0.0
                for c in range(len(x)):
                    whole += x[c, g]
                miss = max(miss, abs(whole - parent[here + g]) / deviation[1, k])
                factor = parent[here + g] / whole if whole > 0.0 else 0.0
                for c in range(len(x)):
                    x[c, g] *= factor
        for a in range(lattice.lower.shape[1]):
            coarser, shift = lattice.lower[k, a], lattice.maps_begin[k, a]
            if coarser < 0:
                continue
            there = lattice.begin[coarser]
            groups = lattice.begin[coarser + 1] - there
            for c in range(len(x)):
                for h in range(groups):
                    sums[h] = 0.0
                for g in range(n):
                    sums[lattice.maps[shift + g]] += x[c, g]
                for h in range(groups):
                    miss = max(miss, abs(sums[h] - z[c, there + h]) / deviation[0, coarser])
                    sums[h] = z[c, there + h] / sums[h] if sums[h] > 0.0 else 0.0
                for g in range(n):
                    x[c, g] *= sums[lattice.maps[shift + g]]
        if cycle > 0 and miss <= TOLERANCE:
            near[:, :n] = x
            return True
    return False


@kernel
def nonnegative_tables(
    lattice: Rows,
    z: FloatArray,
    spread: FloatArray,
    parent: FloatArray,
    has_parent: bool,
    keep_totals: bool,
    zero: BoolArray,
    deviation: FloatArray,
) -> int:
    """Replace the estimates of a family's tables by non-negative ones that agree.

    Args:
        lattice: the marginals.
        z: (children, P) the estimates; gets the tables.
        spread: (children, K) or (1, K), 1/π of each table's own component.
        parent: (P,) the parent's tables; ignored for the root.
        has_parent: whether there is a parent.
        keep_totals: whether the children's totals are exact.
        zero: (P,) the cells that are 0 in every area.
        deviation: (2, K) the standard deviation of a cell of each table: of the children, and of the parent.

    Returns:
        How many tables did not reach their sums.
    """
    m = len(z)
    missed = 0
    if m == 1 and has_parent:
        for g in range(z.shape[1]):
            z[0, g] = parent[g]
        return 0
    one = len(spread) == 1
    if not keep_totals:
        if has_parent:
            totals, spreads = z[:, 0].copy(), np.empty(m)
            for c in range(m):
                spreads[c] = spread[0 if one else c, 0]
            nearest_shares(totals, spreads, parent[0])
            z[:, 0] = totals
        else:
            z[0, 0] = max(z[0, 0], 0.0)
    attributes = lattice.lower.shape[1]
    most = 0
    for k in range(1, len(lattice.lower)):
        most = max(most, lattice.begin[k + 1] - lattice.begin[k])
    x, moved = np.empty((m, most)), np.empty((attributes + 1, m, most))
    scratch = _Scratch(np.empty(most), np.empty(most), np.empty(most, dtype=np.bool_), np.empty(m), np.empty(m))
    for k in range(1, len(lattice.lower)):
        here = lattice.begin[k]
        n = lattice.begin[k + 1] - here
        sets = int(has_parent)
        for a in range(attributes):
            sets += lattice.lower[k, a] >= 0
        for c in range(m):
            for g in range(n):
                x[c, g] = 0.0 if zero[here + g] else z[c, here + g]
        moved[:, :, :n] = 0.0
        met = False
        for cycle in range(MAX_CYCLES):
            miss = 0.0
            if has_parent:
                for c in range(m):
                    scratch.spread[c] = spread[0 if one else c, k]
                for g in range(n):
                    if not zero[here + g]:
                        gap = _reach_column(g, parent[here + g], x, moved[attributes], scratch)
                        miss = max(miss, gap / deviation[1, k])
            for a in range(attributes):
                coarser = lattice.lower[k, a]
                if coarser >= 0:
                    for c in range(m):
                        miss = max(
                            miss,
                            _reach_sums(lattice, k, a, z[c], zero, x[c], moved[a, c], scratch) / deviation[0, coarser],
                        )
            if sets == 1 or (cycle > 0 and miss <= TOLERANCE):
                met = True
                break
        if not met:
            met = _rake(lattice, k, z, parent, has_parent, zero, deviation, x, scratch)
        missed += not met
        for c in range(m):
            for g in range(n):
                z[c, here + g] = x[c, g]
    return missed


@kernel
def nonnegative_families(
    lattice: Rows,
    families: IntArray,
    z: FloatArray,
    spread: FloatArray,
    parents: FloatArray,
    keep_totals: bool,
    zero: BoolArray,
    deviation: FloatArray,
) -> None:
    """`nonnegative_tables` for the families of several areas.

    Args:
        lattice: the marginals.
        families: (areas + 1,) where the children of each area begin.
        z: (children, P).
        spread: (children, K) or (1, K).
        parents: (areas, P).
        keep_totals: whether the children's totals are exact.
        zero: (P,).
        deviation: (2, K).
    """
    for i in range(len(parents)):
        own = slice(families[i], families[i + 1])
        among = spread[own] if len(spread) > 1 else spread
        nonnegative_tables(lattice, z[own], among, parents[i], True, keep_totals, zero, deviation)
