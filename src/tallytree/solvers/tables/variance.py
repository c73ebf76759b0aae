"""The standard deviation of every cell of a table, in the linear estimate of a tree of tables.

The estimate, its weights and the terms of its covariance are those of `marginal_noise.py`. The variance of cell g of a
marginal T in the area v is Σ over terms of (factor of g) · (number of v). This is exact for the linear estimate, that
is before counts below 0 are set to 0 and before rounding. For groups of unequal sizes it is the variance of the
estimate as it is computed, with weights m_T/n_g, and not that of least squares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tallytree.solvers.tables.marginals import Detail, Marginal
from tallytree.solvers.tables.noise import (
    AreaSums,
    Families,
    MeanTree,
    Term,
    Weights,
    cell_factors,
    component_weights,
    estimate_noise,
    even_groups,
    noise_terms,
)
from tallytree.support.arrays import BoolArray, FloatArray, IntArray

Table = tuple[int, Marginal]
"""A level of areas, and a marginal of the detail."""


def std_devs(
    detail: Detail,
    families: Sequence[IntArray],
    precisions: Sequence[Mapping[Marginal, float]],
    published: Sequence[Iterable[Marginal]],
    *,
    public_totals_level: int | None = None,
) -> dict[Table, FloatArray]:
    """The standard deviation of every cell of the published tables.

    Args:
        detail: the attributes.
        families: per level but the last, int64 (areas + 1,): where the children of each area begin in the next level.
        precisions: per level, u_T = 1/σ_T² of every marginal measured.
        published: per level, the marginals wanted.
        public_totals_level: the last level at which the total of every area is known exactly.

    Returns:
        For each level and marginal, float64 (areas,) where `same_for_all_cells` holds, and else float64 (areas, cells
        of the marginal). It is inf where the measurements do not determine the cell.

    Raises:
        ValueError: for families that are no tree, or lists of other lengths.
    """
    _check_lengths(len(families) + 1, precisions=precisions, published=published)
    tables = [(level, marginal) for level, marginals in enumerate(published) for marginal in marginals]
    return _std_devs(detail, Families(families), precisions, tables, public_totals_level)


def expected_std_devs(
    detail: Detail,
    areas: Sequence[int],
    precisions: Sequence[Mapping[Marginal, float]],
    published: Iterable[Table],
    *,
    public_totals_level: int | None = None,
) -> dict[Table, float]:
    """The mean standard deviation over the cells of tables, in a tree where all families of a level have equal sizes.

    Args:
        detail: the attributes.
        areas: the number of areas of each level, from 1 at the root.
        precisions: as for `std_devs`.
        published: the levels and marginals wanted.
        public_totals_level: as for `std_devs`.

    Returns:
        A number for each level and marginal; inf where the measurements do not determine the cells.

    Raises:
        ValueError: for numbers of areas that decrease, or lists of other lengths.
    """
    _check_lengths(len(areas), precisions=precisions)
    found = _std_devs(detail, MeanTree(areas), precisions, list(published), public_totals_level)
    return {table: float(values.mean()) for table, values in found.items()}


def same_for_all_cells(detail: Detail, marginal: Marginal) -> bool:
    """Whether the cells of a marginal have one standard deviation because of equal groups in each of its attributes."""
    return all(depth == 0 or even_groups(levels) for levels, depth in zip(detail.groups, marginal, strict=True))


def _check_lengths(levels: int, **lists: Sequence[object]) -> None:
    for name, values in lists.items():
        if len(values) != levels:
            raise ValueError(f"{name} has {len(values)} entries; it must have {levels}, one for each level")


def _std_devs(
    detail: Detail,
    areas: AreaSums,
    precisions: Sequence[Mapping[Marginal, float]],
    tables: Sequence[Table],
    known: int | None,
) -> dict[Table, FloatArray]:
    values = np.array([detail.eigenvalues(at_level) for at_level in precisions])
    even = all(map(even_groups, detail.groups))
    terms = noise_terms(detail, precisions)
    weights: dict[int, Weights] = {}
    variances = {table: _Variances(same_for_all_cells(detail, table[1])) for table in tables}
    for i, component in enumerate(detail.components):
        using = [table for table in tables if all(map(int.__le__, component, table[1]))]
        if not using:
            continue
        exact = known if i == 0 else None  # the first component is the total
        weights[i] = component_weights(areas, values[:, i], exact)
        for table in using:
            without = weights[i].unknown[table[0]]
            if without.any():
                plain = Term(i, i, np.ones(len(values)), None)
                variances[table].unknown.append((without, cell_factors(detail, table[1], plain) > 0))
        for term in terms:
            if term.second == i and term.first in weights:
                noise = estimate_noise(areas, term, weights[term.first], weights[i])
                for table in using:
                    variances[table].add(noise[table[0]], term.times * cell_factors(detail, table[1], term))
        if even:
            del weights[i]  # no other term has the component
    return {table: variances.pop(table).root(areas.sizes[table[0]], detail.size(table[1])) for table in tables}


class _Variances:
    """The variances of a table's cells: the sum of what the terms add.

    Attributes:
        same: whether the first cell of an area stands for all of them.
        unknown: of components, bool (areas,) and (cells,): the areas and the cells where the variance is infinite.
    """

    def __init__(self, same: bool):
        self.same = same
        self.unknown: list[tuple[BoolArray, BoolArray]] = []
        self._noise: list[FloatArray] = []
        self._factors: list[FloatArray] = []

    def add(self, noise: FloatArray, factor: FloatArray) -> None:
        """Add noise, float64 (areas,), times factor, float64 (cells,)."""
        if self.same and self._noise:
            self._noise[0] += factor[0] * noise
        elif self.same:
            self._noise.append(factor[0] * noise)
            self._factors.append(np.ones(1))
        elif factor.any():
            self._noise.append(noise)
            self._factors.append(factor)

    def root(self, areas: int, cells: int) -> FloatArray:
        """The standard deviations: float64 (areas,) or (areas, cells)."""
        if self._noise:
            variance = np.stack(self._noise, axis=1) @ np.stack(self._factors)
        else:
            variance = np.zeros((areas, 1 if self.same else cells))
        found: FloatArray = np.sqrt(np.maximum(variance, 0.0, out=variance), out=variance)
        for which, where in self.unknown:
            found[np.ix_(which, where[: found.shape[1]])] = np.inf
        return found[:, 0] if self.same else found
