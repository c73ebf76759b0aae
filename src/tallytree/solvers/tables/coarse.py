"""Non-negative tables of a family of areas, from coarse to fine: each table with the coarser ones fixed.

The children c of an area have estimates e_cT of all tables T of a `Lattice`, and variances v_cT. Their tables x_cT are
decided in the order of the lattice, the total first. With what is decided before, the tables of T are the nearest

    minimise  Σ_c Σ_g (x_cg − e_cg)² / v_cg   subject to   x ≥ 0,   Σ_c x_c = X,   |Q_T' x_c − x_cT'| ≤ s_TT'

for the coarser tables T' (`wanted_sums`), with X the parent's table. s is 0 where T' was measured well. What x ≥ 0
changes then stays within one table of one family. A joint fit of all tables would let hundreds of cells near 0 move the
totals, however well these were measured. s is above 0 where T' is no more than the sum of T.

The multipliers λ of the sums give x = max(e + v Σ λ, 0). They are chosen by turns: those of the sums to one coarser
table all at once, each in closed form (Michelot 1986). This raises the dual function until all sums are met; where they
have no common solution it ends after some cycles. Source: Hildreth 1957 for the multipliers by turns.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from tallytree.solvers.tables.marginals import Lattice, Marginal, Rows
from tallytree.support.arrays import BoolArray, FloatArray, IntArray
from tallytree.support.kernels import inlined, kernel

MAX_CYCLES, MAX_RAKING = 10, 200
SLOW, SLOW_RAKING, LOOK_EVERY = 0.9, 0.8, 5
"""A family is left as it is when its worst miss is not below this part of that one cycle before, or of that so many
rounds of raking before."""
LEAST = 1e-6
"""Where raking begins, a cell that may have records has this many at least."""
TOLERANCE = 0.1
"""No sum is missed by more than this, in standard deviations of the sum."""
FREE, FREE_CELLS = 0.9, 8
SOFT = 0.25
"""Where a coarser table is no more than the sum of a finer one, it may move by this, in its standard deviations."""


class CoarseSums(NamedTuple):
    """The sums that each of K tables has to have.

    Attributes:
        begin: (K + 1,) where the sums of each table begin in the next three.
        table: the coarser table.
        maps_begin: where in `maps` the map to it begins.
        slack: by how much a cell of it may be missed.
        maps: for each cell of a table, the cell of the coarser table.
    """

    begin: IntArray
    table: IntArray
    maps_begin: IntArray
    slack: FloatArray
    maps: IntArray

    def most(self) -> FloatArray:
        """The most by which a cell of each table may be missed: float64 (K,)."""
        found = np.zeros(len(self.begin) - 1)
        np.maximum.at(found, self.table, self.slack)
        return found


def wanted_sums(lattice: Lattice, deviation: FloatArray, *, free: bool = False) -> CoarseSums:
    """Which sums the tables of an area have to have, and how nearly.

    A coarser table T' that was measured well has to be met. One that is no more accurate than the n cells of T that it
    sums has nothing to tell T, so its sums may move by a part of its standard deviation σ': with the part r = σ'² / nσ²
    of its variance that T explains, by SOFT·σ'·max(2r − 1, 0). Totals never move: what x ≥ 0 does to them is of one
    sign in all areas. Tables that are more than one level coarser are sums of those in between, so they are wanted only
    where one in between may be missed.

    Args:
        lattice: the marginals.
        deviation: (K,) the standard deviation of a cell of each table.
        free: whether a table that says next to nothing beside T, r > `FREE`, may have any sums, if these are of
            `FREE_CELLS` cells or more.
    """
    cells, ranks = np.diff(lattice.rows.begin), lattice.ranks
    number = {marginal: k for k, marginal in enumerate(lattice.known)}
    begin, table, maps_begin, slack, maps, length = [0], [], [], [], [np.zeros(0, dtype=np.int64)], 0
    for k, marginal in enumerate(lattice.known):
        explained = np.minimum(deviation / max(deviation[k], 1e-20), 1e3) ** 2 * cells / cells[k]
        part = np.where((ranks > 0) & (explained > 0.5 + 1e-6), np.minimum(2 * explained - 1, 1), 0.0)
        if free:
            part = np.where((explained > FREE) & (cells * FREE_CELLS <= cells[k]), np.inf, part)
        coarser = [int(c) for c in lattice.rows.lower[k] if c >= 0]
        if any(part[c] > 0 for c in coarser):
            every = [number[t] for t in itertools.product(*(range(depth + 1) for depth in marginal))][:-1]
            met = [lattice.known[c] for c in every if part[c] == 0]
            coarser = [c for c in every if not any(_is_sum(lattice.known[c], of) for of in met)]
        for c in coarser:
            table.append(c)
            maps_begin.append(length)
            slack.append(SOFT * part[c] * max(deviation[c], 1e-20))
            maps.append(lattice.whole.cell_of(lattice.known[c], within=marginal))
            length += len(maps[-1])
        begin.append(len(table))
    return CoarseSums(
        np.array(begin, dtype=np.int64),
        np.array(table, dtype=np.int64),
        np.array(maps_begin, dtype=np.int64),
        np.array(slack, dtype=np.float64),
        np.concatenate(maps),
    )


def _is_sum(table: Marginal, of: Marginal) -> bool:
    """Whether a table is a sum of another one."""
    return table != of and all(map(int.__le__, table, of))


class _Scratch(NamedTuple):
    """Memory that is used again, of as many sums as a table has at most."""

    wanted: FloatArray
    lacking: FloatArray
    weight: FloatArray
    left: FloatArray
    before: FloatArray
    open: BoolArray


@inlined
def scratch_of(size: int) -> _Scratch:
    """Memory for so many sums."""
    return _Scratch(
        np.empty(size), np.empty(size), np.empty(size), np.empty(size), np.empty(size), np.empty(size, dtype=np.bool_)
    )


@kernel
def reach_sums(
    group: IntArray,
    sums: FloatArray,
    slack: float,
    zero: BoolArray,
    y: FloatArray,
    variance: FloatArray,
    force: FloatArray,
    scratch: _Scratch,
) -> float:
    """Choose the multipliers of sums over groups of cells: max(y, 0) is then the nearest x ≥ 0 with these sums.

    Σ max(z + λv, 0) is convex in λ, with z what y is without λ. So Newton's method from the λ of the cycle before goes
    beyond the solution once and comes back; it ends where no value crosses 0, after few steps.

    Args:
        group: (cells,) the group of each.
        sums: (groups,) what they are to be.
        slack: by how much a sum may be missed; it is never below 0.
        zero: (cells,) those that are 0 in every row.
        y: (rows, cells) changed.
        variance: (rows, cells) how far a multiplier of 1 moves each.
        force: (groups,) λ; changed.
        scratch: memory.

    Returns:
        By how much the sums were missed at most.
    """
    wanted, lacking, weight, left, before, open_ = scratch
    groups = len(sums)
    for h in range(groups):
        wanted[h], lacking[h], weight[h], left[h] = 0.0, 0.0, 0.0, 0.0
    for c in range(len(y)):
        for g in range(y.shape[1]):
            if not zero[g]:
                h = group[g]
                was = y[c, g]
                z = was - force[h] * variance[c, g]
                y[c, g] = z
                wanted[h] += max(z, 0.0)
                if was >= 0.0:
                    lacking[h] -= z
                    weight[h] += variance[c, g]
                    left[h] += 1.0
    gap, more = 0.0, False
    for h in range(groups):
        low, high = max(sums[h] - slack, 0.0), max(sums[h] + slack, 0.0)
        found = force[h] * weight[h] - lacking[h]
        gap = max(gap, low - found, found - high)
        total = min(max(wanted[h], low), high)
        open_[h] = total != wanted[h]
        wanted[h], before[h] = total, left[h]
        if not open_[h]:  # what has its sum needs no force
            force[h] = 0.0
        elif weight[h] > 0.0:
            force[h] = (total + lacking[h]) / weight[h]
        else:
            force[h], before[h] = np.inf, -1.0
        more = more or open_[h]
    first = True
    while more:
        for h in range(groups):
            lacking[h], weight[h], left[h] = wanted[h], 0.0, 0.0
        for c in range(len(y)):
            for g in range(y.shape[1]):
                h = group[g]
                if open_[h] and not zero[g] and (force[h] == np.inf or y[c, g] + force[h] * variance[c, g] >= 0.0):
                    lacking[h] -= y[c, g]
                    weight[h] += variance[c, g]
                    left[h] += 1.0
        more = False
        for h in range(groups):
            if not open_[h]:
                continue
            back = left[h] == before[h] or (left[h] > before[h] and not first)
            if back or weight[h] <= 0.0:  # a value that comes back in a later step does so by rounding
                open_[h] = False
                if force[h] == np.inf:  # all its cells are 0 everywhere
                    force[h] = 0.0
            else:
                force[h], before[h], more = lacking[h] / weight[h], left[h], True
        first = False
    for c in range(len(y)):
        for g in range(y.shape[1]):
            if not zero[g]:
                y[c, g] += force[group[g]] * variance[c, g]
    return gap


@inlined
def _rake(
    lattice: Rows,
    sums: CoarseSums,
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
    found, before = scratch.lacking, np.inf
    x = np.empty((len(near), n))
    for c in range(len(x)):
        for g in range(n):
            x[c, g] = 0.0 if zero[here + g] else max(near[c, g], LEAST)
    for cycle in range(MAX_RAKING):
        miss = 0.0
        if has_parent:
            found[:n] = 0.0
            for c in range(len(x)):
                for g in range(n):
                    found[g] += x[c, g]
            for g in range(n):
                miss = max(miss, abs(found[g] - parent[here + g]) / deviation[1, k])
                found[g] = parent[here + g] / found[g] if found[g] > 0.0 else 0.0
            for c in range(len(x)):
                for g in range(n):
                    x[c, g] *= found[g]
        for pair in range(sums.begin[k], sums.begin[k + 1]):
            coarser, shift, slack = sums.table[pair], sums.maps_begin[pair], sums.slack[pair]
            there = lattice.begin[coarser]
            groups = lattice.begin[coarser + 1] - there
            for c in range(len(x)):
                for h in range(groups):
                    found[h] = 0.0
                for g in range(n):
                    found[sums.maps[shift + g]] += x[c, g]
                for h in range(groups):
                    total = z[c, there + h]
                    total = max(min(max(found[h], total - slack), total + slack), 0.0)
                    miss = max(miss, abs(found[h] - total) / deviation[0, coarser])
                    found[h] = total / found[h] if found[h] > 0.0 else 0.0
                for g in range(n):
                    x[c, g] *= found[sums.maps[shift + g]]
        if cycle > 0 and miss <= TOLERANCE:
            near[:, :n] = x
            return True
        if cycle % LOOK_EVERY == LOOK_EVERY - 1:
            if miss > SLOW_RAKING * before:
                return False
            before = miss
    return False


@kernel
def nonnegative_table(
    lattice: Rows,
    sums: CoarseSums,
    k: int,
    tables: FloatArray,
    estimates: FloatArray,
    variances: FloatArray,
    parent: FloatArray,
    has_parent: bool,
    zero: BoolArray,
    deviation: FloatArray,
) -> bool:
    """Decide one table of a family, which agrees with those that are decided.

    Args:
        lattice: the marginals.
        sums: what the tables have to add up to.
        k: the table.
        tables: (children, P) the tables that are decided; gets this one.
        estimates: (children, n) of the table's cells; changed.
        variances: (children, n) what a step away costs less.
        parent: (P,) the parent's tables; ignored for the root.
        has_parent: whether there is a parent.
        zero: (P,) the cells that are 0 in every area.
        deviation: (2, K) the standard deviation of a cell of each table: of the children, and of the parent.

    Returns:
        Whether the table reached its sums.
    """
    m, here = len(tables), lattice.begin[k]
    n = lattice.begin[k + 1] - here
    if m == 1 and has_parent:
        for g in range(n):
            tables[0, here + g] = parent[here + g]
        return True
    most, forces = n, 0
    for pair in range(sums.begin[k], sums.begin[k + 1]):
        groups = lattice.begin[sums.table[pair] + 1] - lattice.begin[sums.table[pair]]
        most, forces = max(most, groups), forces + groups
    force, force_above, scratch = np.zeros((m, forces)), np.zeros(n), scratch_of(most)
    y, own_zero, itself = estimates, zero[here : here + n], np.arange(n)
    for c in range(m):
        for g in range(n):
            if own_zero[g]:
                y[c, g] = 0.0
    sets = int(has_parent) + sums.begin[k + 1] - sums.begin[k]
    met, before = False, np.inf
    for cycle in range(MAX_CYCLES):
        miss = 0.0
        if has_parent:
            gap = reach_sums(itself, parent[here : here + n], 0.0, own_zero, y, variances, force_above, scratch)
            miss = gap / deviation[1, k]
        first = 0
        for pair in range(sums.begin[k], sums.begin[k + 1]):
            coarser, shift = sums.table[pair], sums.maps_begin[pair]
            there, end = lattice.begin[coarser], first + lattice.begin[coarser + 1] - lattice.begin[coarser]
            for c in range(m):
                gap = reach_sums(
                    sums.maps[shift : shift + n], tables[c, there : there + end - first], sums.slack[pair], own_zero,
                    y[c : c + 1], variances[c : c + 1], force[c, first:end], scratch,
                )  # fmt: skip
                miss = max(miss, gap / deviation[0, coarser])
            first = end
        if sets <= 1 or (cycle > 0 and miss <= TOLERANCE):
            met = True
            break
        if cycle > 1 and miss > SLOW * before:  # the sums have no common solution
            break
        before = miss
    for c in range(m):
        for g in range(n):
            y[c, g] = max(y[c, g], 0.0)
    if not met:
        met = _rake(lattice, sums, k, tables, parent, has_parent, zero, deviation, y, scratch)
    for c in range(m):
        for g in range(n):
            tables[c, here + g] = y[c, g]
    return met


@kernel
def nonnegative_families(
    lattice: Rows,
    sums: CoarseSums,
    k: int,
    families: IntArray,
    tables: FloatArray,
    estimates: FloatArray,
    variances: FloatArray,
    parents: FloatArray,
    has_parent: bool,
    zero: BoolArray,
    deviation: FloatArray,
) -> int:
    """`nonnegative_table` for the families of several areas; how many did not reach their sums.

    Args:
        lattice: the marginals.
        sums: what the tables have to add up to.
        k: the table.
        families: (areas + 1,) where the children of each area begin.
        tables: (children, P).
        estimates: (children, n).
        variances: (children, n).
        parents: (areas, P).
        has_parent: whether there are parents.
        zero: (P,).
        deviation: (2, K).
    """
    missed = 0
    for i in range(len(parents)):
        own = slice(families[i], families[i + 1])
        missed += not nonnegative_table(
            lattice, sums, k, tables[own], estimates[own], variances[own], parents[i], has_parent, zero, deviation
        )
    return missed
