"""Integers ≥ 0 for all areas of a tree, which meet known tables where that is a chain of flows.

Beside a real table that has integer row and column sums there is always an integer one with these sums (controlled
rounding, Cox and Ernst 1982). So no step sets more than two kinds of sums:

1. From the root down, the finest known tables of every area, one after the other. A table adds up to the parent's, and
   agrees with those before it in what they share.
2. From the finest areas up, one detail of every area that has all these tables: they are crossed, one after the other.
   The areas above begin with the sums of their children.
3. From the root down, what a level does not tell apart is divided among the children (`rounding.deal`).

For this a table may share with all before it no more than with one of them. Such an order exists where the tables form
no cycle (acyclic hypergraphs, Beeri et al. 1983). In a cycle, such as a × b, b × c and a × c, it is NP-hard to decide
whether integers exist. Then, and where a detail is known itself, the detail of each level is rounded as one table, from
the root down: it adds up to the parent's, and its marginals stay near.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, cast

import numpy as np

from tallytree.solvers.tables.marginals import Detail, Lattice, Marginal
from tallytree.solvers.tables.rounding import SWEEPS, deal_families, round_families, round_root
from tallytree.support.arrays import BoolArray, FloatArray, IntArray, families_of
from tallytree.support.large_arrays import LargeArrays

NOWHERE = np.zeros((0, 0), dtype=np.bool_)
LEAST_WEIGHT = 0.002
"""What a deviation of the least accurate table costs in rounding, beside one of the most accurate."""


def areas_differ(zero: Sequence[BoolArray]) -> bool:
    """Whether the cells that are 0 differ between areas; see `fit`."""
    return any(len(each) > 1 for each in zero)


def rounding_orders(lattices: Sequence[Lattice], zero: Sequence[BoolArray]) -> list[tuple[Marginal, ...]]:
    """Per level, the tables that are rounded, in their order; of all levels the own detail where one has no order."""
    if areas_differ(zero):  # a table that is crossed or dealt knows nothing of an area's own zeros
        return [(own.finest,) for own in lattices]
    found = [_order(*each, zero[0]) for each in zip(lattices, [*lattices[1:], None], strict=True)]
    return [each if all(found) else (own.finest,) for each, own in zip(found, lattices, strict=True)]


def unmet_levels(detail: Detail, measured: Sequence[Iterable[Marginal]], zero: BoolArray) -> list[bool]:
    """Whether rounding may miss the measured tables of each level, even without noise; `zero` is as in `fit`."""
    lattices: list[Lattice] = []
    for level in reversed(measured):
        lattices.insert(0, Lattice.below(detail, [*level, *(lattices[0].known if lattices else ())]))
    for depth in range(len(lattices) if areas_differ([zero]) else 1):
        lattices[depth] = replace(lattices[depth], finest=detail.finest)
    orders = rounding_orders(lattices, [zero])
    return [own.finest in each and own.finest not in own.known for own, each in zip(lattices, orders, strict=True)]


def _order(own: Lattice, below: Lattice | None, zero: BoolArray) -> tuple[Marginal, ...]:
    """The finest tables of a level, such that each can be crossed with those before it and with the detail below.

    Empty where there is no such order, or where cells are 0 that no table shows to be.
    """
    left = [t for t in own.known if sum(_join(t, each) == each for each in own.known) == 1]
    apart = [own.whole.holds_all(zero, t)[:, own.detail.cell_of(t)] for t in left]
    if not np.array_equal(np.any(apart, axis=0), own.whole.holds_all(zero, own.finest)):
        return ()
    total = (0,) * len(own.finest)
    agreed = {total} if below is None else set(below.known)
    done = [total] if len(left) > 1 else []
    while left:
        before = reduce(_join, done, total)
        there = before if below is None else _join(before, below.finest)
        fit = [t for t in left if _shared(t, before, done, {total}) and _shared(t, there, done, agreed)]
        if not fit:
            return ()
        done.append(max(fit, key=lambda t: (sum(_meet(t, there)), t)))
        left.remove(done[-1])
    return tuple(done)


def _shared(table: Marginal, there: Marginal, done: Sequence[Marginal], agreed: set[Marginal]) -> bool:
    """Whether what a table shares with a detail is agreed on, or a part of a table that is done."""
    shared = _meet(table, there)
    return shared in agreed or any(_join(shared, each) == each for each in done)


def _join(one: Marginal, other: Marginal) -> Marginal:
    """The coarsest marginal that tells apart what either does."""
    return tuple(map(max, one, other))


def _meet(one: Marginal, other: Marginal) -> Marginal:
    """The finest marginal that is a sum of both."""
    return tuple(map(min, one, other))


@dataclass(frozen=True, eq=False)
class Rounding:
    """What all steps need; `real` is the real detail of each level, the others are as in `fit`."""

    detail: Detail
    families: Sequence[IntArray]
    lattices: Sequence[Lattice]
    deviations: Sequence[FloatArray]
    real: Sequence[FloatArray]
    exact: Sequence[IntArray]
    arrays: LargeArrays
    progress: Callable[[str], None]

    def own_details(self, zero: Sequence[BoolArray]) -> list[IntArray]:
        """Steps 1 and 2: the integers of every level's own detail, (areas, cells of it); `zero` is by level."""
        orders = rounding_orders(self.lattices, zero)
        tables: list[dict[Marginal, IntArray]] = []
        for depth, order in enumerate(orders):
            tables.append({})
            for table in order:
                self._round(depth, table, tables, zero[depth] if areas_differ(zero) else NOWHERE)
            if depth:
                self.progress(f"rounded level {depth}: {len(self.real[depth]):,} areas")
        found: list[IntArray] = []
        for depth in range(len(orders) - 1, -1, -1):
            table = orders[depth][:2][-1]  # a total is in the next table
            values = tables[depth][table]
            if found and table != self.lattices[depth].finest:
                table = self.lattices[depth + 1].finest
                values = self._summed_up(depth, found[0], values.dtype)
            for other in (*orders[depth], self.lattices[depth].finest):
                if _join(table, other) != table:
                    values = self._crossed(depth, table, values, other, tables[depth].get(other))
                    table = _join(table, other)
            found.insert(0, values)
        return found

    def dealt(self, own: Sequence[IntArray]) -> IntArray:
        """Step 3: the integers of the finest areas in all attributes, (areas, detail cells)."""
        values = own[0]
        for depth in range(1, len(own)):
            whole = self.lattices[depth].finest == self.detail.finest
            values = own[depth] if whole else self._dealt(depth, values, own[depth])
        return values

    def _dealt(self, depth: int, parents: IntArray, own: IntArray) -> IntArray:
        family, coarse = self.families[depth - 1], self.detail.cell_of(self.lattices[depth].finest)
        order = np.argsort(coarse, kind="stable")
        starts = np.searchsorted(coarse[order], np.arange(own.shape[1] + 1))
        values = self.arrays.empty((len(own), self.detail.cells), parents.dtype)

        def work(part: slice) -> None:
            begins, children = families_of(family, part)
            deal_families(begins, starts, order, parents[part], own[children], values[children])

        self.arrays.each(work, np.diff(family) * self.detail.cells)
        return values

    def _summed_up(self, depth: int, children: IntArray, kind: np.dtype[Any]) -> IntArray:
        """The sums of the children of each area of a level."""
        family, values = self.families[depth], self.arrays.empty((len(self.real[depth]), children.shape[1]), kind)

        def work(part: slice) -> None:
            begins, own = families_of(family, part)
            np.add.reduceat(children[own], begins[:-1], dtype=kind, out=values[part])

        self.arrays.each(work, np.diff(family) * children.shape[1])
        return values

    def _round(
        self, depth: int, table: Marginal, tables: Sequence[dict[Marginal, IntArray]], barred: BoolArray
    ) -> None:
        """Round a table of all areas of a level, such that it agrees with those that are rounded already."""
        lattice, done = self.lattices[depth], dict(tables[depth])
        among = lattice if table == lattice.finest else Lattice.below(self.detail, [table])
        place, weight = _counted(among, self.deviations[depth][lattice.embedded(among)[0]])
        shared = _meet(table, reduce(_join, done, (0,) * len(table)))
        group = self.detail.cell_of(shared, within=table)

        def real(part: slice) -> FloatArray:
            return np.ascontiguousarray(lattice.detail.summed(self.real[depth][part], table), dtype=np.float64)

        def sums(part: slice) -> IntArray:
            if done:
                other = next(each for each in done if _join(each, shared) == each)
                return self.detail.summed(done[other][part], shared, within=other).astype(np.int64)
            if depth < len(self.exact):
                return self.exact[depth][part, None]
            return np.empty((part.stop - part.start, 0), dtype=np.int64)

        if depth == 0:
            values, root = np.empty((1, len(group)), dtype=np.int64), slice(0, 1)
            round_root(place, weight, group, sums(root)[0], real(root)[0], SWEEPS, values[0])
            tables[depth][table] = cast(IntArray, values.astype(np.int32)) if values.sum() < 2**31 else values
            return
        above, family = tables[depth - 1], self.families[depth - 1]
        other = next(each for each in above if _join(each, table) == each)
        tables[depth][table] = found = self.arrays.empty((len(self.real[depth]), len(group)), above[other].dtype)

        def work(part: slice) -> None:
            begins, own = families_of(family, part)
            columns = self.detail.summed(above[other][part], table, within=other).astype(np.int64)
            no = barred[own] if len(barred) > 1 else NOWHERE
            round_families(place, weight, begins, columns, group, sums(own), real(own), no, SWEEPS, found[own])

        self.arrays.each(work, np.diff(family) * self.real[depth].shape[1])

    def _crossed(
        self, depth: int, table: Marginal, values: IntArray, other: Marginal, sums: IntArray | None
    ) -> IntArray:
        """Integers that add up to a table, `values`, and to another one, `sums`, which agree; None: to the first alone.

        The cells with one value of what the tables share are a matrix, with the cells of the first as columns and those
        of the second as rows. Matrices of the same shape are worked on together.
        """
        finest, detail = _join(table, other), self.detail
        shared = detail.cell_of(_meet(table, other), within=finest)
        column, row = detail.cell_of(table, within=finest), detail.cell_of(other, within=finest)
        order = np.lexsort((column, row, shared))
        begins = np.flatnonzero(np.diff(shared[order], prepend=-1))
        sizes = np.diff(begins, append=len(order))
        rows = np.add.reduceat(np.diff(row[order], prepend=-1) != 0, begins, dtype=np.int64)
        shapes = [(int(m), int(n)) for m, n in np.unique(np.stack([rows, sizes // rows], axis=1), axis=0)]
        areas = len(self.real[depth])
        found = self.arrays.empty((areas, len(order)), values.dtype)

        def work(part: slice) -> None:
            x = self.lattices[depth].detail.summed(self.real[depth][part], finest)
            for m, n in shapes:
                cells = order[begins[(rows == m) & (sizes == m * n)][:, None] + np.arange(m * n)].reshape(-1, m, n)
                real = np.ascontiguousarray(x[:, cells], dtype=np.float64).reshape(-1, n)
                own = np.empty(real.shape, dtype=values.dtype)
                columns = values[part][:, column[cells[:, 0]]].reshape(-1, n).astype(np.int64, order="C")
                own_sums = np.empty((len(real), 0)) if sums is None else sums[part][:, row[cells[:, :, 0]]]
                of_rows = own_sums.reshape(len(real), int(sums is not None)).astype(np.int64, order="C")
                places, begin = np.arange(n), np.arange(len(columns) + 1) * m
                round_families(places[None, :], np.ones(1), begin, columns, 0 * places, of_rows, real, NOWHERE, 0, own)
                found[part, cells] = own.reshape(-1, *cells.shape)

        self.arrays.each(work, np.full(areas, len(order)))
        return found


def _counted(lattice: Lattice, deviations: FloatArray) -> tuple[IntArray, FloatArray]:
    """Where each cell of a level's detail is counted, and what a deviation there costs: see `round_family`.

    A marginal costs the more, the more accurate it is. The detail itself, where nothing measured it, costs little.
    """
    place = lattice.rows.place
    weight = np.maximum(deviations.min() / deviations, LEAST_WEIGHT)
    if lattice.finest in lattice.places:
        return place, weight
    own = int(lattice.rows.begin[-1]) + np.arange(place.shape[1])
    return np.concatenate([place, own[None, :]]), np.append(weight, LEAST_WEIGHT)
