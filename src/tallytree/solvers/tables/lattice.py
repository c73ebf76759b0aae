"""The marginals of one level of areas that something is known of, laid out in rows.

K is a set of marginals with all that are coarser than one of them (`marginals`). A **row** of an area has the cells of
all marginals of K, one marginal after the other, the coarsest first. The cells of T are summed into those of the
marginals T − e_a, which are one level coarser in the attribute a; every step of this module uses these sums only.

A row holds one of three things: sums, components, or tables. **Components** are f_S = P_S x / n, the part of the mean
detail cell that belongs to S alone: each f_S has the mean 0 along each attribute that S refines. The **table** T is
then n_T Σ_{S ≤ T} f_S, with n_T the number of detail cells in each cell of T.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tallytree.solvers.tables.marginals import Detail, Marginal
from tallytree.support.arrays import BoolArray, FloatArray, IntArray
from tallytree.support.kernels import kernel


class Rows(NamedTuple):
    """What kernels need of a `Lattice` with K marginals of k attributes, P cells in all."""

    begin: IntArray
    """(K + 1,) where the cells of each marginal begin in a row."""
    lower: IntArray
    """(K, k) the marginal that is one level coarser in an attribute; −1 where there is none."""
    maps_begin: IntArray
    """(K, k) where the map to that marginal begins in `maps`."""
    maps: IntArray
    """For each cell of a marginal, the cell of the coarser marginal that it is summed into."""
    size: FloatArray
    """(P,) n_g, the number of detail cells in each cell."""
    place: IntArray
    """(K, cells of the level's own detail) where in a row each cell of that detail is counted."""


@dataclass(frozen=True, eq=False)
class Lattice:
    """The known marginals of a level of areas.

    Attributes:
        whole: the attributes, at their finest levels.
        known: K in ascending order; () of every attribute first.
        finest: the level of each attribute in the level's own detail: that of a known marginal at least.
    """

    whole: Detail
    known: tuple[Marginal, ...]
    finest: Marginal

    @classmethod
    def below(cls, whole: Detail, marginals: Iterable[Marginal]) -> Lattice:
        """The given marginals and all that are coarser; the total at least."""
        found = {(0,) * len(whole.groups)}
        for marginal in marginals:
            found.update(itertools.product(*(range(depth + 1) for depth in marginal)))
        return cls(whole, tuple(sorted(found)), tuple(map(max, zip(*found, strict=True))))

    @cached_property
    def detail(self) -> Detail:
        """The level's own detail."""
        groups = []
        for levels, depth in zip(self.whole.groups, self.finest, strict=True):
            first = np.unique(levels[depth], return_index=True)[1]
            groups.append(tuple(level[first] for level in levels[: depth + 1]))
        return Detail(tuple(groups))

    @cached_property
    def places(self) -> dict[Marginal, slice]:
        """The cells of each marginal in a row."""
        begin = self.rows.begin
        return {marginal: slice(int(begin[k]), int(begin[k + 1])) for k, marginal in enumerate(self.known)}

    @cached_property
    def of(self) -> IntArray:
        """The marginal, by number, of each cell of a row: int64 (P,)."""
        return np.repeat(np.arange(len(self.known)), np.diff(self.rows.begin))

    @cached_property
    def ranks(self) -> IntArray:
        """How many levels each marginal is refined by, over all attributes: int64 (K,)."""
        return np.array([sum(marginal) for marginal in self.known], dtype=np.int64)

    @cached_property
    def mean_group(self) -> FloatArray:
        """m_T, the mean number of detail cells in a cell of each marginal: float64 (K,)."""
        return np.array([self.whole.mean_group(marginal) for marginal in self.known])

    def embedded(self, coarser: Lattice) -> tuple[IntArray, IntArray]:
        """Where the marginals, int64 (K',), and the cells, (P',), of a lattice within this one are in this one."""
        number = {marginal: k for k, marginal in enumerate(self.known)}
        marginals = np.array([number[marginal] for marginal in coarser.known], dtype=np.int64)
        parts = [np.arange(self.rows.begin[k], self.rows.begin[k + 1]) for k in marginals]
        return marginals, np.concatenate(parts)

    @cached_property
    def rows(self) -> Rows:
        """The arrays for kernels."""
        number = {marginal: k for k, marginal in enumerate(self.known)}
        sizes = [self.whole.size(marginal) for marginal in self.known]
        begin = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        attributes = len(self.whole.groups)
        lower = np.full((len(self.known), attributes), -1, dtype=np.int64)
        maps_begin, maps, length = np.zeros_like(lower), [np.zeros(0, dtype=np.int64)], 0
        for k, marginal in enumerate(self.known):
            for a, depth in enumerate(marginal):
                if depth:
                    coarser = (*marginal[:a], depth - 1, *marginal[a + 1 :])
                    lower[k, a], maps_begin[k, a] = number[coarser], length
                    maps.append(self.whole.cell_of(coarser, within=marginal))
                    length += sizes[k]
        size = np.concatenate([self.whole.group_sizes(marginal) for marginal in self.known]).astype(np.float64)
        place = [begin[k] + self.detail.cell_of(marginal) for k, marginal in enumerate(self.known)]
        return Rows(begin, lower, maps_begin, np.concatenate(maps), size, np.stack(place))

    def holds_all(self, mask: BoolArray) -> BoolArray:
        """Of each cell of a row, whether a mask of the whole detail, (cells,), holds for all its detail cells: (P,)."""
        return np.concatenate([self.whole.holds_all(mask, marginal) for marginal in self.known])


@kernel
def add_finer(lattice: Rows, rows: FloatArray) -> None:
    """Add to every cell of each row the sums of all finer marginals: Σ_{T ≥ S}, each T once."""
    for i in range(len(rows)):
        row = rows[i]
        for a in range(lattice.lower.shape[1]):
            for k in range(len(lattice.lower) - 1, 0, -1):
                coarser = lattice.lower[k, a]
                if coarser >= 0:
                    here, there, shift = lattice.begin[k], lattice.begin[coarser], lattice.maps_begin[k, a]
                    for g in range(lattice.begin[k + 1] - here):
                        row[there + lattice.maps[shift + g]] += row[here + g]


@kernel
def keep_components(lattice: Rows, rows: FloatArray) -> None:
    """Replace, in each row, the mean detail value of every cell by its component: P_S of it."""
    most = 0
    for k in range(len(lattice.lower)):
        most = max(most, lattice.begin[k + 1] - lattice.begin[k])
    sums = np.empty(most)
    for i in range(len(rows)):
        row = rows[i]
        for k in range(1, len(lattice.lower)):
            here = lattice.begin[k]
            for a in range(lattice.lower.shape[1]):
                coarser = lattice.lower[k, a]
                if coarser < 0:
                    continue
                there, shift = lattice.begin[coarser], lattice.maps_begin[k, a]
                for g in range(lattice.begin[coarser + 1] - there):
                    sums[g] = 0.0
                for g in range(lattice.begin[k + 1] - here):
                    sums[lattice.maps[shift + g]] += row[here + g] * lattice.size[here + g]
                for g in range(lattice.begin[coarser + 1] - there):
                    sums[g] /= lattice.size[there + g]
                for g in range(lattice.begin[k + 1] - here):
                    row[here + g] -= sums[lattice.maps[shift + g]]


@kernel
def to_tables(lattice: Rows, rows: FloatArray) -> None:
    """Replace the components of each row by its tables: n_T Σ_{S ≤ T} f_S."""
    for i in range(len(rows)):
        row = rows[i]
        for a in range(lattice.lower.shape[1]):
            for k in range(1, len(lattice.lower)):
                coarser = lattice.lower[k, a]
                if coarser >= 0:
                    here, there, shift = lattice.begin[k], lattice.begin[coarser], lattice.maps_begin[k, a]
                    for g in range(lattice.begin[k + 1] - here):
                        row[here + g] += row[there + lattice.maps[shift + g]]
        for g in range(len(row)):
            row[g] *= lattice.size[g]
