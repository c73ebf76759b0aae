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

**The norm.** A marginal measured with noise of variance σ² enters least squares with the weights u·m_T/n_g, where
u = 1/σ² and m_T = n / (cells of T) is the mean of n_g. Then

    A = Σ_T u_T Q_Tᵀ diag(m_T/n_g) Q_T = Σ_T u_T m_T E_T = Σ_S λ_S P_S,     λ_S = Σ_{T ≥ S} u_T m_T

so every function of A is a number per component. Where all groups of a level have equal sizes, as in attributes without
levels in between, the weights are 1/σ², and the estimate is that of least squares. Otherwise it is still unbiased, and
a group of many values has somewhat less weight than least squares would give it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tallytree.support.arrays import BoolArray, FloatArray, IntArray, NumberArray

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
        """Of each cell of the marginal, whether a mask of detail cells holds for all of its: bool (cells of it,)."""
        return np.asarray(np.bincount(self.cell_of(marginal), ~mask, self.size(marginal)) == 0, dtype=np.bool_)

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
