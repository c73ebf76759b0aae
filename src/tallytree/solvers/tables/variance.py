"""The standard deviation of every cell of a table, in the linear estimate of a tree of tables.

The estimate, its weights and the terms of its covariance are those of `noise`. The variance of cell g of a
marginal T in the area v is Σ over terms of (factor of g) · (number of v). This is exact for the linear estimate, that
is before counts below 0 are set to 0 and before rounding. For groups of unequal sizes it is the variance of the
estimate as it is computed, with weights m_T/n_g, and not that of least squares.

**Nested cells** (`nested_covariances`). The covariance of every cell of a table with the cell of a coarser table that
holds it, in the linear estimate.

Both are sums of the detail of an area: v, and u, which is v or an area above it. Each is linear in the noise of h (see
`sums` for X and W), and noise differs between areas. So per term of the noise the covariance is Σ W_v W_u · (noise)
over all areas. Only the areas on the path from the root over u to v differ in X or W from their siblings. The siblings
of an area on the path share one W, and the tree below each adds W_v W_u times the covariance of its z.

    X on the path   v: 1 at v, else r_c X_c of the next area on the path    u: 1 at u and below, else likewise
    X beside it     v: 0                                                    u: 1 below u, else 0

The covariance is exact, as the variances are: before counts below 0 are set to 0 and before rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tallytree.solvers.tables.marginals import Detail, Marginal
from tallytree.solvers.tables.noise import (
    AreaTree,
    Families,
    MeanTree,
    Term,
    Weights,
    cell_factors,
    component_weights,
    estimate_noise,
    even_groups,
    nested_factors,
    noise_terms,
    upward_noise,
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
    areas: AreaTree,
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


def nested_covariances(
    detail: Detail,
    families: Sequence[IntArray],
    precisions: Sequence[Mapping[Marginal, float]],
    fine: tuple[int, Marginal],
    coarse: tuple[int, Marginal],
    *,
    public_totals_level: int | None = None,
) -> FloatArray:
    """The covariance of each cell of a table with the cell of a coarser table that holds it.

    Args:
        detail: the attributes.
        families: per level but the last, int64 (areas + 1,): where the children of each area begin in the next level.
        precisions: per level, u_T = 1/σ_T² of every marginal measured.
        fine: level of areas and marginal of the first table.
        coarse: those of the other, nowhere finer.
        public_totals_level: the last level at which the total of every area is known exactly.

    Returns:
        float64 (areas, cells) of the first table. Components that the measurements do not determine are left out.

    Raises:
        ValueError: the second table is finer somewhere.
    """
    if coarse[0] > fine[0] or any(map(int.__gt__, coarse[1], fine[1])):
        raise ValueError(f"coarse: {coarse} must be nowhere finer than {fine}")
    tree = Families(families)
    values = np.array([detail.eigenvalues(at_level) for at_level in precisions])
    weights: dict[int, Weights] = {}
    path = _path(tree, fine[0])
    found = np.zeros((tree.sizes[fine[0]], detail.size(fine[1])))
    for term in noise_terms(detail, precisions):
        for pair in dict.fromkeys([(term.first, term.second), (term.second, term.first)]):
            factor = nested_factors(detail, fine[1], coarse[1], term, pair)
            if not factor.any():
                continue
            for component in {*pair} - {*weights}:
                exact = public_totals_level if component == 0 else None  # the first component is the total
                weights[component] = component_weights(tree, values[:, component], exact)
            noise = _noise(tree, term, path, [weights[component] for component in pair], (fine[0], coarse[0]))
            found += noise[:, None] * factor
    return found


def _path(tree: Families, level: int) -> list[IntArray]:
    """Per level down to this one, the area above each of its areas: int64 (areas,)."""
    found = [np.arange(tree.sizes[level], dtype=np.int64)]
    for families in reversed(tree.families[:level]):
        above = np.repeat(np.arange(len(families) - 1, dtype=np.int64), np.diff(families))
        found.insert(0, above[found[0]])
    return found


def _noise(
    tree: Families, term: Term, path: Sequence[IntArray], weights: Sequence[Weights], levels: tuple[int, int]
) -> FloatArray:
    """The covariance of v and u in a term, per unit of its factor: float64 (areas of the level of v,)."""
    z = upward_noise(tree, term, weights[0], weights[1])
    on = [_on_path(path, each, level) for each, level in zip(weights, levels, strict=True)]
    w = [x[0] for x in on]
    found = np.zeros(len(path[-1]))
    for level, here in enumerate(path[:-1]):
        found += w[0] * w[1] * (weights[0].own[level] * weights[1].own[level] * term.noise[level])[here]
        beside, below = [], []
        for each, x, now, top in zip(weights, on, w, levels, strict=True):
            part = each.part[level + 1]
            above = tree.total(level, part)[here] if level >= top else part[path[level + 1]] * x[level + 1]
            handed = each.carried[level][here] * now - above
            beside.append(handed + (level >= top))
            below.append(handed + x[level + 1])
        siblings = tree.total(level, z[level + 1])[here] - z[level + 1][path[level + 1]]
        found += beside[0] * beside[1] * siblings
        w = below
    return np.asarray(found + w[0] * w[1] * z[len(path) - 1][path[-1]], dtype=np.float64)


def _on_path(path: Sequence[IntArray], weights: Weights, top: int) -> list[FloatArray]:
    """X of the areas on the paths, root first, of sums over the areas of the level `top`."""
    found = [np.ones(len(path[-1]))]
    for level in range(len(path) - 1, 0, -1):
        found.insert(0, found[0] if level > top else weights.part[level][path[level]] * found[0])
    return found
