"""The variance of any sum over areas and detail cells, in the linear estimate of a tree of tables.

A sum Σ_{v ∈ F} cᵀ x_v over leaf areas F is linear in the noise of h (see `noise`), with a coefficient
W_vS a_vS P_S c for each area and component. The passes of the estimate, turned around, give W:

    up      X_c = 1 in a leaf of F, else 0;   X_p = Σ_c r_c X_c
    down    W_root = X_root;   W_c = X_c − X_p + a_p q_p W_p

Below an area that lies in F as a whole, X is 1 everywhere, and W is a_p q_p W_p on the way down; outside F the same
holds with X = 0. So such a subtree adds W² times the variance of its z, which does not depend on F. Only the areas that
lie partly in F are visited, and their children in F: the time is that of the areas of F and those above them. Where the
leaf areas of F have weights, X is the weight, and an area lies in F as a whole if all of its leaves have one weight.

The variance is exact for the estimate before counts below 0 are set to 0 and before rounding, and for groups of unequal
sizes too. No matrix of areas by areas is formed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tallytree.solvers.tables.marginals import Detail, Marginal
from tallytree.solvers.tables.noise import Families, Term, Weights, component_weights, noise_terms, upward_noise
from tallytree.support.arrays import BoolArray, FloatArray, IntArray, NumberArray, chunks

AT_ONCE = 2**22
"""Leaf areas of all sums, or cells of their weights, in one batch."""
ROUNDING = 1e-10
"""What a sum of squares may differ from 0 by rounding, relative to its terms."""


class Visited(NamedTuple):
    """The areas of one level that lie in the sums wholly or partly, below areas that lie in them partly.

    Attributes:
        area: int64 (n,), by sum and then ascending.
        of: int64 (n,), the sum.
        parent: int64 (n,), the place of the area above among those visited of the level above.
        full: bool (n,), whether all of the area's leaves are in the sum, with one weight.
        weight: float64 (n,), that weight.
    """

    area: IntArray
    of: IntArray
    parent: IntArray
    full: BoolArray
    weight: FloatArray


def sum_variances(
    detail: Detail,
    families: Sequence[IntArray],
    precisions: Sequence[Mapping[Marginal, float]],
    areas: IntArray,
    offsets: IntArray,
    cells: NumberArray | BoolArray,
    *,
    weights: FloatArray | None = None,
    public_totals_level: int | None = None,
) -> FloatArray:
    """The variance of sums over sets of leaf areas and weighted detail cells.

    Args:
        detail: the attributes.
        families: per level but the last, int64 (areas + 1,): where the children of each area begin in the next level.
        precisions: per level, u_T = 1/σ_T² of every marginal measured.
        areas: int64, the leaf areas of all sums, one sum after another; those of a sum ascend and are distinct.
        offsets: int64 (sums + 1,), where the areas of each sum begin.
        cells: (detail cells,) for all sums, or (sums, detail cells): the weight of each cell, such as True for those
            that a condition holds for.
        weights: float64, of the leaf areas; None for 1.
        public_totals_level: the last level at which the total of every area is known exactly.

    Returns:
        float64 (sums,); inf where the measurements do not determine the sum, 0 for one without areas.

    Raises:
        ValueError: for areas that are none or do not ascend, and for lists of other lengths.
    """
    tree = Families(families)
    of_cells = np.asarray(cells, dtype=np.float64)
    of_areas = np.ones(len(areas)) if weights is None else weights
    _check(detail, tree, precisions, areas, offsets, of_cells)
    if len(offsets) == 1:
        return np.zeros(0)
    factors = _Factors(detail, noise_terms(detail, precisions), np.atleast_2d(of_cells))
    found = np.zeros(len(offsets) - 1)
    for batch in chunks(np.diff(offsets), AT_ONCE):
        begin, end = int(offsets[batch.start]), int(offsets[batch.stop])
        begins = offsets[batch.start : batch.stop + 1] - begin
        visited = _visited(tree, areas[begin:end], begins, of_areas[begin:end])
        rows = slice(0, 1) if of_cells.ndim == 1 else batch
        count = batch.stop - batch.start
        found[batch] = _variances(tree, detail, precisions, visited, factors, rows, count, public_totals_level)
    return found


def sum_variances_at_most(
    detail: Detail,
    families: Sequence[IntArray],
    precisions: Sequence[Mapping[Marginal, float]],
    areas: IntArray,
    offsets: IntArray,
    rows: FloatArray,
    possible: BoolArray,
    weights: FloatArray,
    public_totals_level: int | None,
) -> FloatArray:
    """Bounds of the variances of sums where some leaf areas have cells that are known to be 0.

    Of the areas of a sum, those p with the same possible cells are added up exactly: V_p. By the inequality of Cauchy
    and Schwarz, Σ_p V_p / w_p is a bound for any shares w that add up to 1. All rows have the same shares, so the bound
    is one quadratic form of the weights: what follows from it of pairs of sums is a bound, too. Of one row alone it is
    the square of the sum of the standard deviations.

    Args:
        detail: as in `sum_variances`, as are the others.
        families: the areas.
        precisions: what was measured.
        areas: of all sums.
        offsets: of the sums.
        rows: float64 (rows, detail cells), the weights of cells.
        possible: bool (leaf areas, detail cells).
        weights: of `areas`.
        public_totals_level: of exact totals.

    Returns:
        float64 (sums, rows).
    """
    sums, own = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), possible[areas] & (rows != 0).any(axis=0)
    pattern = np.unique(own, axis=0, return_inverse=True)[1].ravel()
    order = np.lexsort((areas, pattern, sums))
    begins = np.flatnonzero((np.diff(sums[order], prepend=-1) != 0) | (np.diff(pattern[order], prepend=-1) != 0))
    there, of = own[order[begins]], sums[order[begins]]
    parts = [
        sum_variances(
            detail, families, precisions, areas[order], np.append(begins, len(order)), row * there,
            weights=weights[order], public_totals_level=public_totals_level,
        )
        for row in rows
    ]  # fmt: skip
    variances = np.stack(parts, axis=1)
    shares = np.sqrt(variances.sum(axis=1))
    whole = np.bincount(of, shares, len(offsets) - 1)
    found = np.zeros((len(offsets) - 1, len(rows)))
    some = (shares > 0) & np.isfinite(whole[of])
    np.add.at(found, of[some], variances[some] * (whole[of[some]] / shares[some])[:, None])
    found[np.isinf(whole)] = np.inf  # not determined
    return found


def _check(
    detail: Detail, tree: Families, precisions: Sequence[object], areas: IntArray, offsets: IntArray, cells: FloatArray
) -> None:
    if len(precisions) != len(tree.sizes):
        raise ValueError(
            f"precisions has {len(precisions)} entries; it must have {len(tree.sizes)}, one for each level"
        )
    if offsets[0] != 0 or offsets[-1] != len(areas) or (np.diff(offsets) < 0).any():
        raise ValueError(f"offsets must ascend from 0 to the {len(areas)} areas")
    if cells.shape not in ((detail.cells,), (len(offsets) - 1, detail.cells)):
        raise ValueError(
            f"cells has shape {cells.shape}; it must be ({detail.cells},) or ({len(offsets) - 1}, {detail.cells})"
        )
    wrong = np.flatnonzero((areas < 0) | (areas >= tree.sizes[-1]))
    if len(wrong):
        raise ValueError(f"areas[{wrong[0]}]={areas[wrong[0]]}; it must be a leaf area, 0 … {tree.sizes[-1] - 1}")
    ascends = np.diff(areas) > 0
    begins = offsets[(offsets > 0) & (offsets < len(areas))]
    ascends[begins - 1] = True
    if not ascends.all():
        place = int(np.argmin(ascends)) + 1
        raise ValueError(f"areas[{place}]={areas[place]} must be greater than the one before it, of the same sum")


def _visited(tree: Families, areas: IntArray, offsets: IntArray, weight: FloatArray) -> list[Visited]:
    of = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    full = np.ones(len(areas), dtype=np.bool_)
    found: list[Visited] = []
    for families in reversed(tree.families):
        above = np.repeat(np.arange(len(families) - 1), np.diff(families))[areas]
        first = np.flatnonzero((np.diff(above, prepend=-1) != 0) | (np.diff(of, prepend=-1) != 0))
        parent = np.repeat(np.arange(len(first)), np.diff(first, append=len(areas)))
        inside = np.bincount(parent, weights=full, minlength=len(first)).astype(np.int64)
        least, most = np.minimum.reduceat(weight, first), np.maximum.reduceat(weight, first)
        full_above = (inside == np.diff(families)[above[first]]) & (least == most)
        found.append(Visited(areas, of, parent, full, weight))
        areas, of, full, weight = above[first], of[first], full_above, least
    levels = [Visited(areas, of, np.zeros(len(areas), dtype=np.int64), full, weight)]
    place = np.arange(len(areas))  # of each area among those kept
    for below in reversed(found):
        kept = ~full[below.parent]
        parents = place[below.parent[kept]]
        levels.append(Visited(below.area[kept], below.of[kept], parents, below.full[kept], below.weight[kept]))
        full, place = below.full, np.cumsum(kept) - 1
    return levels


class _Factors:
    """What the cells of each sum contribute to each term."""

    def __init__(self, detail: Detail, terms: Sequence[Term], cells: FloatArray):
        self.terms = terms
        at_once = max(1, AT_ONCE // detail.cells)
        batches = [cells[start : start + at_once] for start in range(0, len(cells), at_once)]
        self.squares = np.concatenate([_component_squares(detail, rows) for rows in batches])
        self.of_terms = np.concatenate([self._of(detail, rows) for rows in batches])
        self.uses = self.squares > ROUNDING * self.squares.sum(axis=1, keepdims=True)

    def _of(self, detail: Detail, cells: FloatArray) -> FloatArray:
        squares = _component_squares(detail, cells)
        parts: dict[int, FloatArray] = {}
        found = np.zeros((len(cells), len(self.terms)))
        for number, term in enumerate(self.terms):
            if term.marginals is None:
                found[:, number] = squares[:, term.first]
                continue
            for i in {term.first, term.second} - set(parts):
                parts[i] = detail.applied(np.eye(len(detail.components))[i], cells)
            for marginal, weight in term.marginals:
                sums = [detail.summed(parts[i], marginal) for i in (term.first, term.second)]
                product = sums[0] * sums[1] / detail.group_sizes(marginal) ** 2
                found[:, number] += term.times * weight * product.sum(axis=1)
        return found


def _component_squares(detail: Detail, cells: FloatArray) -> FloatArray:
    """cᵀ P_S c of each row c: float64 (rows, components)."""
    squares = [
        (detail.summed(cells, marginal) ** 2 / detail.group_sizes(marginal)).sum(axis=1)  # cᵀ E_T c
        for marginal in detail.components
    ]
    found: FloatArray = np.stack(squares, axis=1).reshape(len(cells), *(depth + 1 for depth in detail.finest))
    for axis in range(1, found.ndim):
        found = np.diff(found, axis=axis, prepend=0.0)
    return np.asarray(np.maximum(found.reshape(len(cells), -1), 0.0), dtype=np.float64)


def _variances(
    tree: Families,
    detail: Detail,
    precisions: Sequence[Mapping[Marginal, float]],
    visited: Sequence[Visited],
    factors: _Factors,
    rows: slice,
    sums: int,
    known: int | None,
) -> FloatArray:
    """The variances of so many sums of one batch; `rows`: of the factors, those of the batch, or the one for all."""
    values = np.array([detail.eigenvalues(at_level) for at_level in precisions])
    variance = np.zeros(sums)
    unknown = np.zeros(sums, dtype=np.bool_)
    passes: dict[int, tuple[Weights, _Adjoint]] = {}
    last = {component: term.second for term in factors.terms for component in (term.first, term.second)}
    for i in np.flatnonzero(factors.uses[rows].any(axis=0)).tolist():
        exact = known if i == 0 else None  # the first component is the total
        weights = component_weights(tree, values[:, i], exact)
        adjoint = _adjoint(weights, visited)
        passes[i] = weights, adjoint
        unknown[adjoint.unknown] |= np.broadcast_to(factors.uses[rows, i], sums)[adjoint.unknown]
        for number, term in enumerate(factors.terms):
            if term.second == i and term.first in passes:
                noise = _noise(tree, term, visited, passes[term.first], passes[i], sums)
                variance += noise * factors.of_terms[rows, number]
        for done in [component for component in passes if last.get(component, component) <= i]:
            del passes[done]
    variance = np.maximum(variance, 0.0)
    variance[unknown] = np.inf
    return variance


class _Adjoint(NamedTuple):
    """W and X of one component in the areas visited.

    Attributes:
        weights: per level float64 (visited,), W.
        inherited: per level but the last float64 (visited,), what W of a child is without its own X.
        unknown: the sums that the measurements do not determine, if they use the component.
    """

    weights: list[FloatArray]
    inherited: list[FloatArray]
    unknown: IntArray


def _adjoint(weights: Weights, visited: Sequence[Visited]) -> _Adjoint:
    """The two passes of the module's docstring."""
    x = [visited[-1].weight]
    lacking = [visited[0].of[:0]]
    for level in range(len(visited) - 2, -1, -1):
        here, below = visited[level], visited[level + 1]
        part = weights.part[level + 1][below.area]
        mean = np.bincount(below.parent, weights=part * x[-1], minlength=len(here.area))
        square = np.bincount(below.parent, weights=part * x[-1] ** 2, minlength=len(here.area))
        differ = weights.split[level][here.area] & ~here.full & (square - mean**2 > ROUNDING * square)
        lacking.append(here.of[differ])
        x.append(np.where(here.full, here.weight, mean))
    x.reverse()
    lacking.append(visited[0].of[weights.unknown[0][visited[0].area] & (np.abs(x[0]) > ROUNDING)])
    found, inherited = [x[0]], []
    for level in range(len(visited) - 1):
        here, below = visited[level], visited[level + 1]
        part_above = weights.carried[level][here.area] * found[-1] - _mean_above(weights, visited, x, level)
        inherited.append(np.where(here.full, 0.0, part_above))
        found.append(x[level + 1] + inherited[-1][below.parent])
    return _Adjoint(found, inherited, np.unique(np.concatenate(lacking)))


def _mean_above(weights: Weights, visited: Sequence[Visited], x: Sequence[FloatArray], level: int) -> FloatArray:
    """Σ_c r_c X_c of the areas visited at a level; it is X except where the total is known, where r is 0."""
    below = visited[level + 1]
    part = weights.part[level + 1][below.area]
    sums = np.bincount(below.parent, weights=part * x[level + 1], minlength=len(visited[level].area))
    return np.asarray(sums, dtype=np.float64)


def _noise(
    tree: Families,
    term: Term,
    visited: Sequence[Visited],
    first: tuple[Weights, _Adjoint],
    second: tuple[Weights, _Adjoint],
    sums: int,
) -> FloatArray:
    """The variance of each sum in a term, per unit of its factor: float64 (sums,)."""
    z = upward_noise(tree, term, first[0], second[0])
    found = np.zeros(sums)
    for level, here in enumerate(visited):
        own = first[0].own[level] * second[0].own[level] * term.noise[level]
        squared = first[1].weights[level] * second[1].weights[level]
        noise = np.where(here.full, z[level][here.area], own[here.area])
        found += np.bincount(here.of, weights=squared * noise, minlength=sums)
        if level < len(visited) - 1:
            below = visited[level + 1]
            inside = np.bincount(below.parent, weights=z[level + 1][below.area], minlength=len(here.area))
            outside = tree.total(level, z[level + 1])[here.area] - inside
            squared = first[1].inherited[level] * second[1].inherited[level]
            found += np.bincount(here.of, weights=squared * np.maximum(outside, 0.0), minlength=sums)
    return found
