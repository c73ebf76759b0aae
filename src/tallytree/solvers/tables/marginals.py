"""The marginals of a dense table of attributes, and the components in which all of them are diagonal.

An area has n = n_1 · … · n_k detail cells, one for each combination of the values of k attributes; the last attribute
varies fastest. An attribute has levels: level 0 has one group, the last level has one group per value, and levels in
between have groups of values (age band > year). Each level's groups refine those of the level above.

A **marginal** names a level of each attribute: T = (T_1, …, T_k). Its cells are the combinations of groups, and Q_T
sums the detail cells of each. With n_g the number of detail cells in cell g of T, let

    E_T = Q_Tᵀ diag(1/n_g) Q_T      (every detail cell gets the mean of its cell of T)

These projections commute, and E_S E_T = E_min(S,T). A **component** names a level of each attribute too: P_S is the
product over attributes of E_{S_a} − E_{S_a − 1} (with E_{−1} = 0). The P_S are orthogonal projections that add up to
the identity, and E_T = Σ_{S ≤ T} P_S. For attributes without levels in between these are the I − J/n and J/n of
ResidualPlanner (Xiao et al. 2023).

**The norm.** A marginal measured with noise of variance σ² enters least squares with the weights u·m_T/n_g, where u =
1/σ² and m_T = n / (cells of T) is the mean of n_g. Then

    A = Σ_T u_T Q_Tᵀ diag(m_T/n_g) Q_T = Σ_T u_T m_T E_T = Σ_S λ_S P_S,     λ_S = Σ_{T ≥ S} u_T m_T

so every function of A is a number per component. Where all groups of a level have equal sizes, as in attributes without
levels in between, the weights are 1/σ², and the estimate is that of least squares. Otherwise it is still unbiased, and
a group of many values has somewhat less weight than least squares would give it.

**Rows.** K is a set of marginals with all that are coarser than one of them (`marginals`). A **row** of an area has the
cells of all marginals of K, one marginal after the other, the coarsest first. The cells of T are summed into those of
the marginals T − e_a, which are one level coarser in the attribute a; every step of this module uses these sums only.

A row holds one of three things: sums, components, or tables. **Components** are f_S = P_S x / n, the part of the mean
detail cell that belongs to S alone: each f_S has the mean 0 along each attribute that S refines. The **table** T is
then n_T Σ_{S ≤ T} f_S, with n_T the number of detail cells in each cell of T.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tallytree.support.arrays import BoolArray, FloatArray, IntArray, NumberArray
from tallytree.support.kernels import kernel

Marginal = tuple[int, ...]
"""The level of each attribute; 0 where the marginal does not tell its values apart."""


@dataclass(frozen=True, eq=False)
class Detail:
    """The detail cells of an area: all combinations of the values of some attributes, the last one fastest.

    Attributes:
        groups: per attribute and level, int64 (n_a,): the group of each value; level 0 is all zeros, and the last level
            is 0 … n_a − 1. Groups are numbered from 0, in the order of their values.
    """

    groups: tuple[tuple[IntArray, ...], ...]

    @classmethod
    def flat(cls, sizes: Sequence[int]) -> Detail:
        """Attributes of so many values each, without levels in between. An attribute of one value has the one level."""
        return cls(
            tuple(
                (np.zeros(size, dtype=np.int64), *((np.arange(size, dtype=np.int64),) if size > 1 else ()))
                for size in sizes
            )
        )

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each attribute."""
        return tuple(len(levels[-1]) for levels in self.groups)

    @cached_property
    def cells(self) -> int:
        """The number of detail cells."""
        return int(np.prod(self.sizes, dtype=np.int64))

    @cached_property
    def finest(self) -> Marginal:
        """The marginal whose cells are the detail cells."""
        return tuple(len(levels) - 1 for levels in self.groups)

    @cached_property
    def components(self) -> tuple[Marginal, ...]:
        """All components, in ascending order; they are named as the marginals are."""
        return tuple(itertools.product(*(range(len(levels)) for levels in self.groups)))

    def shape(self, marginal: Marginal) -> tuple[int, ...]:
        """The number of groups of each attribute."""
        return tuple(int(levels[depth][-1]) + 1 for levels, depth in zip(self.groups, marginal, strict=True))

    def size(self, marginal: Marginal) -> int:
        """The number of cells of a marginal."""
        return int(np.prod(self.shape(marginal), dtype=np.int64))

    def mean_group(self, marginal: Marginal) -> float:
        """m_T, the mean number of detail cells in a cell of the marginal."""
        return self.cells / self.size(marginal)

    def cell_of(self, marginal: Marginal, within: Marginal | None = None) -> IntArray:
        """The marginal's cell that each detail cell belongs to, int64 (cells,); or each cell of a finer marginal."""
        found = np.zeros(1, dtype=np.int64)
        finer = self.finest if within is None else within
        for levels, depth, start in zip(self.groups, marginal, finer, strict=True):
            first = np.unique(levels[start], return_index=True)[1]
            group = levels[depth][first]
            found = (found[:, None] * (int(levels[depth][-1]) + 1) + group[None, :]).ravel()
        return found

    def group_sizes(self, marginal: Marginal) -> IntArray:
        """n_g, the number of detail cells in each cell of the marginal: int64 (cells of it,)."""
        return np.bincount(self.cell_of(marginal), minlength=self.size(marginal)).astype(np.int64)

    def holds_all(self, mask: BoolArray, marginal: Marginal) -> BoolArray:
        """Whether masks of the detail cells, (n, cells), hold for all that are in a cell: bool (n, cells of it)."""
        return np.asarray(self.summed((~mask).astype(np.int32), marginal) == 0, dtype=np.bool_)

    def summed(self, detail: NumberArray, marginal: Marginal, within: Marginal | None = None) -> NumberArray:
        """Q_T x of each row, (areas, cells of the marginal): x has the detail cells, or those of a finer marginal."""
        finer = self.finest if within is None else within
        x = detail.reshape((len(detail), *self.shape(finer)))
        for axis, (levels, depth, start) in enumerate(zip(self.groups, marginal, finer, strict=True), 1):
            if depth < start:
                first = np.unique(levels[start], return_index=True)[1]
                begins = np.flatnonzero(np.diff(levels[depth][first], prepend=-1))
                x = np.add.reduceat(x, begins, axis=axis)
        return x.reshape(len(detail), -1)

    def averaged(self, values: NumberArray, marginal: Marginal) -> FloatArray:
        """Q_Tᵀ diag(1/n_g) y of each row: (areas, cells of the marginal) to (areas, cells) of the detail."""
        return np.asarray((values / self.group_sizes(marginal))[:, self.cell_of(marginal)], dtype=np.float64)

    def eigenvalues(self, precisions: Mapping[Marginal, float]) -> FloatArray:
        """λ_S of every component, float64 (components,): what marginals measured with precisions u_T say of it."""
        return np.array(
            [
                sum(u * self.mean_group(t) for t, u in precisions.items() if all(map(int.__le__, s, t)))
                for s in self.components
            ],
            dtype=np.float64,
        )

    def averages(self, factors: FloatArray) -> FloatArray:
        """The w with Σ_S f_S P_S = Σ_T w_T E_T: float64 (..., components) to the same, for T = each component."""
        shape = tuple(depth + 1 for depth in self.finest)
        found = factors.reshape((*factors.shape[:-1], *shape)).copy()
        for axis in range(-len(shape), 0):  # per attribute, Σ_s f_s (E_s − E_{s−1}) = Σ_t (f_t − f_{t+1}) E_t
            head = [slice(None)] * found.ndim
            tail = list(head)
            head[axis], tail[axis] = slice(None, -1), slice(1, None)
            found[tuple(head)] -= found[tuple(tail)]
        return found.reshape(factors.shape)

    def applied(self, factors: FloatArray, x: FloatArray) -> FloatArray:
        """Σ_S f_S P_S x of each row: factors float64 (components,) or (areas, components), x float64 (areas, cells)."""
        found = np.zeros_like(x)
        for weight, marginal in zip(np.moveaxis(self.averages(factors), -1, 0), self.components, strict=True):
            found += np.asarray(weight)[..., None] * self.averaged(self.summed(x, marginal), marginal)
        return found

    def dimensions(self) -> IntArray:
        """The rank of P_S of every component, int64 (components,); they add up to the number of cells."""
        ranks = []
        for component in self.components:
            rank = 1
            for levels, depth in zip(self.groups, component, strict=True):
                rank *= int(levels[depth][-1]) + 1 - (int(levels[depth - 1][-1]) + 1 if depth else 0)
            ranks.append(rank)
        return np.array(ranks, dtype=np.int64)


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

    def holds_all(self, masks: BoolArray) -> BoolArray:
        """Of each cell of a row, whether masks of the whole detail, (areas, cells), hold for all of it: (areas, P)."""
        return np.concatenate([self.whole.holds_all(masks, marginal) for marginal in self.known], axis=1)


def masks_of_levels(mask: BoolArray, families: Sequence[IntArray]) -> list[BoolArray]:
    """A mask of the detail cells of each level of areas, root first: what holds in all areas below an area.

    Args:
        mask: bool (finest areas, cells); one row is of all areas, and of all levels then.
        families: per level but the last, int64 (areas + 1,): where the children of each area begin.
    """
    found = [mask]
    for family in reversed(families):
        found.insert(0, mask if len(mask) == 1 else np.logical_and.reduceat(found[0], family[:-1], axis=0))
    return found


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
