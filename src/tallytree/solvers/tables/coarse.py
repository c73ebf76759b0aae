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
LOOK_EVERY, SLOW = 5, 0.8
"""After so many rounds, raking ends if the worst miss is not below this part of what it was before them."""
LEAST = 1e-6
"""Where raking begins, a cell that may have records has this many at least."""
TOLERANCE, ENOUGH, NEAR = 0.1, 0.01, 0.2
"""No sum is missed by more than the first, in standard deviations of the sum. After the first cycle, a sum that is
missed by no more than the second is left as it is. A family that misses one by more than the third after all cycles is
not raked."""
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


@kernel
def reach_sums(
    begin: IntArray,
    members: IntArray,
    sums: FloatArray,
    slack: float,
    enough: float,
    y: FloatArray,
    variance: FloatArray,
    force: FloatArray,
) -> float:
    """Choose the multipliers λ of sums of each row: max(y, 0) is then the nearest x ≥ 0 with these sums.

    Σ max(z + λv, 0) is convex in λ, with z what y is without λ. So Newton's method from the λ of the cycle before goes
    beyond the solution once and comes back; it ends where no value crosses 0, after few steps.

    Args:
        begin: (groups + 1,) where the cells of each sum begin in `members`.
        members: the cells of the sums.
        sums: (rows, groups) what they are to be.
        slack: by how much a sum may be missed; it is never below 0.
        enough: a sum that is missed by no more is left as it is, unless it would be within its slack without λ.
        y: (rows, cells) changed.
        variance: (rows, cells) how far a multiplier of 1 moves each; 0 where y is 0 and stays so.
        force: (rows, groups) λ; changed.

    Returns:
        By how much a sum was missed at most.
    """
    worst = 0.0
    for c in range(len(y)):
        for h in range(len(begin) - 1):
            clipped, found, weight, left, most = 0.0, 0.0, 0.0, 0, 0.0
            for i in range(begin[h], begin[h + 1]):
                value, spread = y[c, members[i]], variance[c, members[i]]
                most = max(most, spread)
                clipped += max(value - force[c, h] * spread, 0.0)
                found += max(value, 0.0)
                weight += spread if value >= 0.0 else 0.0
                left += 1 if value >= 0.0 else 0
            low, high, size = max(sums[c, h] - slack, 0.0), max(sums[c, h] + slack, 0.0), begin[h + 1] - begin[h]
            gap = max(low - found, found - high)
            worst = max(worst, gap)
            if most == 0.0 or (gap <= enough and (gap >= -enough or force[c, h] == 0.0)):
                continue
            total = min(max(clipped, low), high)
            step = -force[c, h]  # what has its sum needs no force
            if total != clipped:
                step, before, again = np.inf, size + 1, True
                if weight > 0.0:
                    step, before = (total - found) / weight, left
                while True:
                    found, weight, left = 0.0, 0.0, 0
                    for i in range(begin[h], begin[h + 1]):
                        value, spread = y[c, members[i]], variance[c, members[i]]
                        above = value + step * spread >= 0.0
                        found += value if above else 0.0
                        weight += spread if above else 0.0
                        left += 1 if above else 0
                    if left == before or (left > before and not again) or weight <= 0.0:
                        break  # a value that comes back in a later step does so by rounding
                    step, again, before = (total - found) / weight, before > size, left
            force[c, h] += step
            for i in range(begin[h], begin[h + 1]):
                y[c, members[i]] += step * variance[c, members[i]]
    return worst


@kernel
def reach_columns(sums: FloatArray, y: FloatArray, variance: FloatArray, force: FloatArray) -> FloatArray:
    """`reach_sums` of every column, all columns of a row at once: the loops run over memory in order, as vectors.

    Args:
        sums: (cells,) what they are to be.
        y: (rows, cells) changed.
        variance: (rows, cells), 0 where y is 0 and stays so.
        force: (cells,) λ; changed.

    Returns:
        float64 (cells,) by how much the sums were missed.
    """
    rows, n = y.shape
    clipped, found, weight, before, step = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    open_, gap, more, again = np.zeros(n, dtype=np.bool_), np.zeros(n), False, True
    for c in range(rows):
        for g in range(n):
            clipped[g] += max(y[c, g] - force[g] * variance[c, g], 0.0)
        for g in range(n):
            found[g] += max(y[c, g], 0.0)
            weight[g] += variance[c, g] if y[c, g] >= 0.0 else 0.0
    for g in range(n):
        gap[g], open_[g], step[g], before[g] = abs(found[g] - sums[g]), sums[g] != clipped[g], -force[g], weight[g]
        if open_[g]:
            more = True
            step[g] = (sums[g] - found[g]) / weight[g] if weight[g] > 0.0 else np.inf
    while more:
        found[:], weight[:] = 0.0, 0.0
        for c in range(rows):
            for g in range(n):
                above = y[c, g] + step[g] * variance[c, g] >= 0.0
                found[g] += y[c, g] if above else 0.0
                weight[g] += variance[c, g] if above else 0.0
        more = False
        for g in range(n):
            if open_[g]:
                end = weight[g] == before[g] or (weight[g] > before[g] > 0.0 and not again) or weight[g] <= 0.0
                if not end:
                    step[g], before[g], more = (sums[g] - found[g]) / weight[g], weight[g], True
                open_[g] = not end
        again = False
    for g in range(n):
        step[g] = step[g] if step[g] < np.inf else -force[g]  # all its cells are 0 everywhere
        force[g] += step[g]
    for c in range(rows):
        for g in range(n):
            y[c, g] += step[g] * variance[c, g]
    return gap


@inlined
def _members(group: IntArray, zero: BoolArray, groups: int, begin: IntArray, members: IntArray) -> None:
    """Write the cells of each group but those that are 0 in all rows, and where they begin: (cells,), (groups + 1,)."""
    begin[: groups + 1] = 0
    for g in range(len(group)):
        if not zero[g]:
            begin[group[g] + 1] += 1
    for h in range(groups):
        begin[h + 1] += begin[h]
    for g in range(len(group) - 1, -1, -1):
        if not zero[g]:
            begin[group[g] + 1] -= 1
            members[begin[group[g] + 1]] = g
    for h in range(groups):
        begin[h] = begin[h + 1]
    begin[groups] = len(group) - zero.sum()


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
    found: FloatArray,
) -> bool:
    """Scale a family's tables, which are near their sums, until they have them. If they never do, they stay."""
    here = lattice.begin[k]
    n = lattice.begin[k + 1] - here
    before = np.inf
    x = np.empty((len(near), n))
    for c in range(len(x)):
        for g in range(n):
            x[c, g] = 0.0 if zero[min(c, len(zero) - 1), here + g] else max(near[c, g], LEAST)
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
            if miss > SLOW * before:
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
        variances: (children, n) what a step away costs less; changed: 0 in cells that are 0.
        parent: (P,) the parent's tables; ignored for the root.
        has_parent: whether there is a parent.
        zero: (children or 1, P) the cells that are 0; one row is of all children.
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
    most, forces, pairs, first_pair = n, 0, sums.begin[k + 1] - sums.begin[k], sums.begin[k]
    for pair in range(first_pair, first_pair + pairs):
        groups = lattice.begin[sums.table[pair] + 1] - lattice.begin[sums.table[pair]]
        most, forces = max(most, groups), forces + groups
    y, own_zero = estimates, np.ones(n, dtype=np.bool_)
    for c in range(len(zero)):
        for g in range(n):
            own_zero[g] = own_zero[g] and zero[c, here + g]
    begin, members = np.empty((pairs, most + 1), dtype=np.int64), np.empty((pairs, n), dtype=np.int64)
    for pair in range(pairs):
        shift, coarser = sums.maps_begin[first_pair + pair], sums.table[first_pair + pair]
        groups = lattice.begin[coarser + 1] - lattice.begin[coarser]
        _members(sums.maps[shift : shift + n], own_zero, groups, begin[pair], members[pair])
    force, force_above = np.zeros((m, forces)), np.zeros(n)
    for c in range(m):
        for g in range(n):
            if zero[min(c, len(zero) - 1), here + g]:
                y[c, g], variances[c, g] = 0.0, 0.0
    met, miss = False, 0.0
    for cycle in range(MAX_CYCLES):
        miss = 0.0
        if has_parent:
            for gap in reach_columns(parent[here : here + n], y, variances, force_above):
                miss = max(miss, gap / deviation[1, k])
        first = 0
        for pair in range(pairs):
            coarser, slack = sums.table[first_pair + pair], sums.slack[first_pair + pair]
            there, groups = lattice.begin[coarser], lattice.begin[coarser + 1] - lattice.begin[coarser]
            gap = reach_sums(
                begin[pair, : groups + 1], members[pair], tables[:, there : there + groups], slack,
                ENOUGH * deviation[0, coarser] if cycle > 0 else -1.0, y, variances, force[:, first : first + groups],
            )  # fmt: skip
            miss = max(miss, gap / deviation[0, coarser])
            first += groups
        if int(has_parent) + pairs <= 1 or (cycle > 0 and miss <= TOLERANCE):
            met = True
            break
    for c in range(m):
        for g in range(n):
            y[c, g] = max(y[c, g], 0.0)
    if not met and miss <= NEAR:  # else the sums have no common solution, and raking diverges
        met = _rake(lattice, sums, k, tables, parent, has_parent, zero, deviation, y, np.empty(most))
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
        zero: (children or 1, P).
        deviation: (2, K).
    """
    missed = 0
    for i in range(len(parents)):
        own = slice(families[i], families[i + 1])
        barred = zero[own] if len(zero) > 1 else zero
        missed += not nonnegative_table(
            lattice, sums, k, tables[own], estimates[own], variances[own], parents[i], has_parent, barred, deviation
        )
    return missed
