"""What is expected of the cells of a table when the coarser tables are known, and how far errors of these reach.

A cell's own part is what the coarser tables do not tell: its component of the table, whose noise is independent of that
of all coarser tables. So a cell's estimate is moved to the coarser tables that are decided, and its noise is then that
of its own part alone. M is the parent's table scaled to the coarser tables (iterative proportional fitting).

The variance of a cell's error is a sum over all tables that are no finer, of what the own part of each contributes. An
error δ of a coarser cell h moves the cell g by δ·(λ·n_g/n_h + (1 − λ)·M_g/M_h), where λ = v/s² is how much of the
estimate is left in the posterior mean. Errors of the parent reach its children in the same way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tallytree.solvers.tables.marginals import Lattice, Rows
from tallytree.support.arrays import BoolArray, FloatArray, IntArray
from tallytree.support.kernels import inlined, kernel

FITTING, FITTED = 10, 0.01
"""The most rounds of proportional fitting, and the relative miss at which it ends."""
LEAST_PART = 0.02
"""M begins with the parent's number, or this part of its standard deviation if that is more."""
TINY = 1e-9
"""A coarser cell that is decided as 0 has this; its cells have shares of it."""


class Coarser(NamedTuple):
    """All tables that are coarser than each of K tables: `begin` (K + 1,), `table`, `maps_begin`, `maps`."""

    begin: IntArray
    table: IntArray
    maps_begin: IntArray
    maps: IntArray


def coarser_tables(lattice: Lattice) -> Coarser:
    """Of each table, all tables that are coarser, and the map of its cells."""
    begin, table, maps_begin, maps, length = [0], [], [], [np.zeros(0, dtype=np.int64)], 0
    for k, marginal in enumerate(lattice.known):
        for other, coarser in enumerate(lattice.known[:k]):
            if all(map(int.__le__, coarser, marginal)):
                table.append(other)
                maps_begin.append(length)
                maps.append(lattice.whole.cell_of(coarser, within=marginal))
                length += len(maps[-1])
        begin.append(len(table))
    first, of, start = (np.array(each, dtype=np.int64) for each in (begin, table, maps_begin))
    return Coarser(first, of, start, np.concatenate(maps))


def own_parts(lattice: Lattice, spread: FloatArray) -> FloatArray:
    """The variance of a cell's own part, the component that no coarser table has: float64 (areas or 1, K).

    Args:
        lattice: the marginals.
        spread: (areas or 1, K), 1/π of each component.
    """
    ranks = dict(zip(lattice.whole.components, lattice.whole.dimensions(), strict=True))
    part = [ranks[marginal] / lattice.whole.size(marginal) for marginal in lattice.known]
    return np.asarray(part * lattice.mean_group * spread)


def own_variances(lattice: Lattice, std_devs: FloatArray) -> FloatArray:
    """The variance of the part of a cell that belongs to its table alone: float64 (K,).

    Args:
        lattice: the marginals.
        std_devs: (K,) of a cell of each.
    """
    whole, found = (std_devs / lattice.mean_group) ** 2, np.zeros(len(std_devs))
    for k, marginal in enumerate(lattice.known):
        coarser = [all(map(int.__le__, other, marginal)) for other in lattice.known]
        found[k] = max(whole[k] - found[coarser].sum(), 0.0)
    return np.asarray(found * lattice.mean_group**2)


@inlined
def _sizes(lattice: Rows, coarser: Coarser, k: int) -> FloatArray:
    """Of each cell of a table, the part of a coarser table's cell that it is, by detail cells: (coarser tables, n)."""
    here, first = lattice.begin[k], coarser.begin[k]
    found = np.empty((coarser.begin[k + 1] - first, lattice.begin[k + 1] - here))
    for p in range(len(found)):
        there, shift = lattice.begin[coarser.table[first + p]], coarser.maps_begin[first + p]
        for g in range(found.shape[1]):
            found[p, g] = lattice.size[here + g] / lattice.size[there + coarser.maps[shift + g]]
    return found


@kernel
def expected_cells(
    lattice: Rows,
    coarser: Coarser,
    k: int,
    families: IntArray,
    base: FloatArray,
    share: FloatArray,
    tables: FloatArray,
    parents: FloatArray,
    errors: FloatArray,
    zero: BoolArray,
    y: FloatArray,
    expected: FloatArray,
) -> None:
    """Write the estimates of a table, moved to what is decided, and M.

    Args:
        lattice: the marginals.
        coarser: the tables that are kept.
        k: the table.
        families: (areas + 1,) where the children of each area begin.
        base: (children,) how large a child is beside its siblings, where nothing is known of it.
        share: (children,) the part of a gap to the parent that a child gets.
        tables: (children, P) the tables: decided ones before the k-th, then estimates.
        parents: (areas, P) the parents' tables.
        errors: (areas, P) the variances of these.
        zero: (children or 1, P) the cells that are 0; one row is of all children.
        y: (children, n), written.
        expected: (children, n), written; 0 where a cell is 0.
    """
    here = lattice.begin[k]
    n = lattice.begin[k + 1] - here
    most = 1
    for a in range(lattice.lower.shape[1]):
        if lattice.lower[k, a] >= 0:
            most = max(most, lattice.begin[lattice.lower[k, a] + 1] - lattice.begin[lattice.lower[k, a]])
    sums, gap, start, sizes = np.empty(most), np.empty(n), np.empty(n), _sizes(lattice, coarser, k)
    for i in range(len(parents)):
        all_base = base[families[i] : families[i + 1]].sum()
        gap[:] = parents[i, here : here + n]
        for c in range(families[i], families[i + 1]):
            for g in range(n):
                gap[g] -= tables[c, here + g]
        for g in range(n):
            least = LEAST_PART * np.sqrt(errors[i, here + g])
            start[g] = max(parents[i, here + g], least)
            if len(zero) > 1:  # children that may have none get no part of it
                possible = 0.0
                for c in range(families[i], families[i + 1]):
                    possible += 0.0 if zero[c, here + g] else base[c]
                start[g] *= all_base / possible if possible > 0.0 else 0.0
        for c in range(families[i], families[i + 1]):
            part_of_all, barred = base[c] / all_base, zero[min(c, len(zero) - 1)]
            for g in range(n):
                y[c, g] = tables[c, here + g] + share[c] * gap[g]
                expected[c, g] = 0.0 if barred[here + g] else start[g] * part_of_all
            for pair in range(coarser.begin[k], coarser.begin[k + 1]):
                there, shift = lattice.begin[coarser.table[pair]], coarser.maps_begin[pair]
                sums[:] = 0.0
                for g in range(n):
                    sums[coarser.maps[shift + g]] += y[c, g]
                for g in range(n):
                    h = coarser.maps[shift + g]
                    y[c, g] += sizes[pair - coarser.begin[k], g] * (tables[c, there + h] - sums[h])
            scaled_to_coarser(lattice, k, tables[c], expected[c])


@inlined
def scaled_to_coarser(lattice: Rows, k: int, row: FloatArray, expected: FloatArray) -> None:
    """Scale what is expected of a table, (n,), to the coarser tables of a row (proportional fitting)."""
    n = lattice.begin[k + 1] - lattice.begin[k]
    sums = np.empty(n)
    for _ in range(FITTING):
        worst, lowers = 0.0, 0
        for a in range(lattice.lower.shape[1]):
            lower = lattice.lower[k, a]
            if lower < 0:
                continue
            lowers += 1
            there, shift = lattice.begin[lower], lattice.maps_begin[k, a]
            groups = lattice.begin[lower + 1] - there
            sums[:groups] = 0.0
            for g in range(n):
                sums[lattice.maps[shift + g]] += expected[g]
            for h in range(groups):
                wanted = max(row[there + h], TINY)
                sums[h] = wanted / sums[h] if sums[h] > 0.0 else 0.0
                if sums[h] > 0.0 and wanted > TINY:
                    worst = max(worst, abs(sums[h] - 1.0))
            for g in range(n):
                expected[g] *= sums[lattice.maps[shift + g]]
        if lowers <= 1 or worst <= FITTED:
            break


@kernel
def reached_errors(
    lattice: Rows,
    coarser: Coarser,
    k: int,
    families: IntArray,
    share: FloatArray,
    expected: FloatArray,
    deviations: FloatArray,
    variances: FloatArray,
    own_above: FloatArray,
    own: FloatArray,
    errors: FloatArray,
) -> None:
    """Write the variance of every cell's error, given that of its own part where the coarser tables are known.

    Args:
        lattice: the marginals.
        coarser: of each table.
        k: the table.
        families: (areas + 1,).
        share: (children,) the part of a gap to the parent that a child gets.
        expected: (children, n), M.
        deviations: (children,) s.
        variances: (children, n), v.
        own_above: (areas, P) the parents' own parts.
        own: (children, P) has the own parts of the tables before; gets those of this one.
        errors: (children, P) gets the variances.
    """
    here = lattice.begin[k]
    n = lattice.begin[k + 1] - here
    pairs = coarser.begin[k + 1] - coarser.begin[k]
    begin = np.zeros(pairs + 1, dtype=np.int64)
    for p in range(pairs):
        t = coarser.table[coarser.begin[k] + p]
        begin[p + 1] = begin[p] + lattice.begin[t + 1] - lattice.begin[t]
    sizes = _sizes(lattice, coarser, k)
    sums, above, left, rest, error = np.empty(begin[pairs]), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for i in range(len(own_above)):
        above[:] = 0.0
        for c in range(families[i], families[i + 1]):
            for g in range(n):
                above[g] += expected[c, g]
        for g in range(n):  # what an error of the parent moves, for each expected record
            error[g] = np.sqrt(own_above[i, here + g])
            above[g] = min(error[g] / above[g], 1.0) if above[g] > 0.0 else 0.0
        for c in range(families[i], families[i + 1]):
            for g in range(n):
                left[g] = min(variances[c, g] / deviations[c] ** 2, 1.0) if deviations[c] > 0.0 else 1.0
                rest[g] = (1.0 - left[g]) * expected[c, g]
                part = left[g] * share[c] * error[g] + rest[g] * above[g]
                own[c, here + g] = variances[c, g] + part * part
                errors[c, here + g] = own[c, here + g]
            sums[:] = 0.0
            for p in range(pairs):
                shift = coarser.maps_begin[coarser.begin[k] + p]
                for g in range(n):
                    sums[begin[p] + coarser.maps[shift + g]] += expected[c, g]
            for h in range(len(sums)):
                sums[h] = 1.0 / sums[h] if sums[h] > 0.0 else 0.0
            for p in range(pairs):
                pair = coarser.begin[k] + p
                there, shift = lattice.begin[coarser.table[pair]], coarser.maps_begin[pair]
                for g in range(n):
                    h = coarser.maps[shift + g]
                    part = left[g] * sizes[p, g] + rest[g] * sums[begin[p] + h]
                    errors[c, here + g] += part * part * own[c, there + h]
