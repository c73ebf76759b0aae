"""One table of non-negative integers for every area of a tree, from noisy marginals of every level.

**Up.** Each area v has A_v = Σ_S λ_S P_S and h_v = Σ_T u_T m_T Q_Tᵀ diag(1/n_g) y_T of its own measurements
(`marginals`). With the estimates z_c of its children and their precisions π_c, by component,

    q_S = 1/Σ_c(1/π_cS),   π_vS = λ_vS + q_S,   z_v = Σ_S π_vS⁻¹ P_S (h_v + q_S Σ_c z_c)

is the least-squares estimate from all that is measured at v and below. This is the recursion of Hay et al. (2010), one
for each component.

**Down.** The root is made non-negative in the norm Π_v = Σ_S π_vS P_S, and rounded. Then, with the integers of a parent
fixed, its children are the nearest non-negative tables to their z_c in the norms Π_c that add up to the parent
(`marginal_families`), and are rounded with all their marginals in view (`marginal_rounding`). So no unit is ever moved
across a family, and clipping at 0 in thousands of leaves does not add up to anything.

A joint non-negative fit of all levels would have a smaller distance and larger errors: it lets the leaves' clipping
raise the levels above. Source: ours.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tallytree.compute.arrays import BoolArray, FloatArray, IntArray, chunks
from tallytree.compute.kernels import kernel
from tallytree.compute.threads import side_by_side
from tallytree.solvers.checks import MAX_EXACT, MAX_SUM, check_offsets
from tallytree.solvers.marginal_families import MAX_ITERATIONS, TOLERANCE, solve_family
from tallytree.solvers.marginal_kernels import Pyramid, apply_rows, pyramid_of, spread, sum_children, weigh
from tallytree.solvers.marginal_kernels import lift as lift_row
from tallytree.solvers.marginal_kernels import lower as lower_row
from tallytree.solvers.marginal_rounding import SWEEPS, keep_totals, round_family, round_root
from tallytree.solvers.marginals import Detail, Marginal

logger = logging.getLogger(__name__)

CELLS_AT_ONCE = 2**21
"""Detail cells of the areas that a thread works on at once. One family is never divided."""
UNMEASURED = 1e-9
"""The precision of what is not measured, as a part of the largest one, on the way up."""
UNMEASURED_DOWN = 1e-8
"""The same on the way down, as a part of the area's least precision of what is measured. What is not measured is
guessed from the parent, and such a guess may be off by millions: it must not move what is measured."""
VARIANCES = (1e-50, 1e50)
"""Between these, no product of precisions and values leaves the range of doubles."""


@dataclass(frozen=True, eq=False)
class Measured:
    """One marginal of every area of a level, measured with noise.

    Attributes:
        marginal: the level of each attribute.
        values: (areas of the level, cells of the marginal), integers of any width.
        variance: of the noise of each value, 1e-50 … 1e50.
    """

    marginal: Marginal
    values: IntArray
    variance: float


def fit(
    detail: Detail,
    families: Sequence[IntArray],
    measured: Sequence[Sequence[Measured]],
    *,
    totals: tuple[int, IntArray] | None = None,
    threads: int | None = None,
) -> IntArray:
    """Estimate the detail cells of all leaf areas.

    Args:
        detail: the attributes.
        families: for every level of areas but the last, int64 (areas + 1,): area i has the children families[l][i] …
            families[l][i + 1] − 1 of the next level, one at least. Level 0 has one area, the root.
        measured: for every level of areas, what was measured of each of its areas; may be nothing.
        totals: a level, and int64 (areas of it,): the exact total of each of its areas, which is kept.
        threads: how many; None takes one per processor. The result does not depend on it.

    Returns:
        (leaf areas, detail cells) integers ≥ 0: int32 where they fit, int64 otherwise. What a marginal, or an area of a
        higher level, has is their sum. What is measured neither in an area nor below it follows its parent's share.

    Raises:
        ValueError: for levels that do not fit together, values or totals that are too large to add up, or a variance
            outside 1e-50 … 1e50.
    """
    exact = _check(detail, families, measured, totals)
    problem = _Problem(detail, families, measured, exact, threads)
    estimates = problem.up()
    return problem.down(estimates)


def _check(
    detail: Detail,
    families: Sequence[IntArray],
    measured: Sequence[Sequence[Measured]],
    totals: tuple[int, IntArray] | None,
) -> list[IntArray]:
    """The exact totals of every level from the root to the one that they are given for."""
    if len(measured) != len(families) + 1:
        raise ValueError(f"measured has {len(measured)} levels; families needs {len(families) + 1}")
    areas = [1]
    for i, family in enumerate(families):
        first = check_offsets(f"families[{i}]", family, "the next level", int(family[-1]) if len(family) else 0)
        if len(first) != areas[-1] + 1 or (np.diff(first) < 1).any():
            raise ValueError(f"families[{i}] must give each of {areas[-1]} areas a child at least")
        areas.append(int(first[-1]))
    for i, level in enumerate(measured):
        for each in level:
            name = f"measured[{i}], marginal {each.marginal}"
            if each.marginal not in detail.components:
                raise ValueError(f"{name}: must have a level of each of {len(detail.groups)} attributes")
            if each.values.shape != (areas[i], detail.size(each.marginal)):
                wanted = (areas[i], detail.size(each.marginal))
                raise ValueError(f"{name}: values of shape {each.values.shape} must have the shape {wanted}")
            if not np.issubdtype(each.values.dtype, np.integer):
                raise ValueError(f"{name}: values of type {each.values.dtype} must be integers")
            if not VARIANCES[0] <= each.variance <= VARIANCES[1]:
                raise ValueError(f"{name}: variance={each.variance} must be a number from 1e-50 to 1e50")
            if max(int(each.values.max()), -int(each.values.min())) * each.values.size >= MAX_SUM:
                raise ValueError(f"{name}: values are too large to add up")
    if totals is None:
        return []
    depth, given = totals
    if not 0 <= depth < len(areas) or np.shape(given) != (areas[depth],):
        raise ValueError(f"totals must be a level, 0 … {len(areas) - 1}, and one number for each of its areas")
    exact = [np.asarray(given, dtype=np.int64)]
    if exact[0].min() < 0 or float(exact[0].sum(dtype=np.float64)) >= MAX_EXACT:
        raise ValueError("totals must be 0 or more, and add up to less than 2^53")
    for family in reversed(families[:depth]):
        exact.insert(0, np.add.reduceat(exact[0], family[:-1]))
    return exact


@dataclass(frozen=True, eq=False)
class _Estimates:
    """Of one level, on the way up: what its areas and all below them say."""

    precision: FloatArray
    """π: (areas, components), or (1, components) where all areas have the same."""
    known: BoolArray
    """(components,) what is measured here or below."""
    h: FloatArray | None
    """(areas, cells) Π z; None for the last level, where it follows from what was measured."""


class _Problem:
    """What all steps need."""

    def __init__(
        self,
        detail: Detail,
        families: Sequence[IntArray],
        measured: Sequence[Sequence[Measured]],
        exact: list[IntArray],
        threads: int | None,
    ) -> None:
        self.detail, self.families, self.measured = detail, families, measured
        self.exact, self.threads = exact, threads
        self.pyramid: Pyramid = pyramid_of(detail)
        self.areas = [1, *(int(family[-1]) for family in families)]

    def _chunks(self, level: int) -> list[slice]:
        """Slices of the areas of a level whose children have a limited number of cells."""
        lengths = np.diff(self.families[level]) * self.detail.cells
        return list(chunks(lengths, CELLS_AT_ONCE))

    def _own(self, level: int, areas: slice) -> FloatArray:
        """What the measurements of some areas alone give to h."""
        h = np.zeros((areas.stop - areas.start, self.detail.cells))
        for each in self.measured[level]:
            values = np.ascontiguousarray(each.values[areas], dtype=np.int64)
            spread(values, self.detail.cell_of(each.marginal), self._weight(each), h)
        return h

    def _weight(self, each: Measured) -> FloatArray:
        sizes = self.detail.group_sizes(each.marginal)
        return self.detail.mean_group(each.marginal) / each.variance / sizes

    def up(self) -> list[_Estimates]:
        """The estimates of all levels, root first."""
        own = [
            np.sum([self.detail.eigenvalues({each.marginal: 1 / each.variance}) for each in level], axis=0)
            + np.zeros(len(self.detail.components))
            for level in self.measured
        ]
        floor = UNMEASURED * (max(float(values.max()) for values in own) or 1.0)
        last = len(self.families)
        found = [_Estimates(np.maximum(own[last], floor)[None, :], own[last] > 0, None)]
        for level in range(last - 1, -1, -1):
            below, counts = found[0], np.diff(self.families[level])
            if len(below.precision) == 1:
                pooled = below.precision / counts[:, None]
            else:
                pooled = 1 / np.add.reduceat(1 / below.precision, self.families[level][:-1])
            h = self._sums(level, below)
            apply_rows(self.pyramid, pooled, h)
            h += self._own(level, slice(0, self.areas[level]))
            precision = np.maximum(own[level] + pooled, floor)
            found.insert(0, _Estimates(precision, below.known | (own[level] > 0), h))
        return found

    def _sums(self, level: int, below: _Estimates) -> FloatArray:
        """Σ_c z_c of the children of every area of a level."""
        family = self.families[level]
        sums = np.empty((self.areas[level], self.detail.cells))

        def work(areas: slice) -> None:
            children = slice(int(family[areas.start]), int(family[areas.stop]))
            if below.h is None:
                sums[areas] = 0.0
                for each in self.measured[level + 1]:
                    values = np.ascontiguousarray(each.values[children], dtype=np.int64)
                    added = np.empty((areas.stop - areas.start, values.shape[1]), dtype=np.int64)
                    sum_children(family[areas.start : areas.stop + 1], values, added)
                    spread(added, self.detail.cell_of(each.marginal), self._weight(each), sums[areas])
                apply_rows(self.pyramid, 1 / below.precision, sums[areas])
            else:
                z = below.h[children].copy()
                uniform = len(below.precision) == 1
                apply_rows(self.pyramid, 1 / (below.precision if uniform else below.precision[children]), z)
                np.add.reduceat(z, family[areas.start : areas.stop] - family[areas.start], out=sums[areas])

        for _ in side_by_side(work, self._chunks(level), threads=self.threads):
            pass
        return sums

    def _down_precision(self, estimates: _Estimates, areas: slice) -> FloatArray:
        """π of some areas, with what is not measured raised to a level that does not slow the solver down."""
        precision = estimates.precision if len(estimates.precision) == 1 else estimates.precision[areas]
        if not estimates.known.all():
            least = precision[:, estimates.known].min(axis=1, keepdims=True, initial=np.inf)
            raised = np.where(np.isinf(least), 1.0, UNMEASURED_DOWN * least)
            precision = np.where(estimates.known, precision, raised)
        return precision

    def down(self, estimates: list[_Estimates]) -> IntArray:
        """The integers of the last level."""
        values = self._root(estimates[0])
        narrow = int(values.max(initial=0)) < 2**31
        for level in range(len(self.families)):
            leaves = level == len(self.families) - 1
            shape = (self.areas[level + 1], self.detail.cells)
            values = self._families(
                level, estimates[level + 1], values, np.empty(shape, np.int32 if leaves and narrow else np.int64)
            )
        return values.astype(np.int32) if narrow and values.dtype != np.int32 else values

    def _root(self, root: _Estimates) -> IntArray:
        whole = slice(0, 1)
        h = self._own(0, whole) if root.h is None else root.h
        fixed = bool(self.exact)
        totals = self.exact[0] if fixed else np.zeros(1, np.int64)
        values = np.empty(self.detail.cells, np.int64)
        fit_root(self.pyramid, h, self._down_precision(root, whole), totals, fixed, values)
        return values[None, :]

    def _families(self, level: int, estimates: _Estimates, parents: IntArray, out: IntArray) -> IntArray:
        """Write the integers of the children of a level."""
        family = self.families[level]
        fixed = level + 1 < len(self.exact)

        def work(areas: slice) -> int:
            children = slice(int(family[areas.start]), int(family[areas.stop]))
            h = self._own(level + 1, children) if estimates.h is None else estimates.h[children]
            totals = self.exact[level + 1][children] if fixed else np.zeros(0, np.int64)
            values = np.empty((children.stop - children.start, self.detail.cells), np.int64)
            precision = self._down_precision(estimates, children)
            begins = family[areas.start : areas.stop + 1] - family[areas.start]
            most = fit_families(
                self.pyramid, begins, parents[areas], h, precision, estimates.known, totals, fixed, values
            )
            out[children] = values
            return int(most)

        iterations = list(side_by_side(work, self._chunks(level), threads=self.threads))
        if max(iterations) >= MAX_ITERATIONS:
            logger.info("level %d: the estimate is valid, but a family's is not the nearest", level + 1)
        return out


@kernel
def fit_root(
    pyramid: Pyramid, h: FloatArray, precision: FloatArray, totals: IntArray, fixed: bool, values: IntArray
) -> None:
    """Write the integers of the root: see `solve_family` and `round_root`."""
    column = np.zeros(h.shape[1])
    x, _, _ = solve_family(
        pyramid, column, h, precision, totals.astype(np.float64), fixed, False, TOLERANCE, MAX_ITERATIONS
    )
    round_root(pyramid, x[0], totals[0] if fixed else -1, SWEEPS, values)


@kernel
def _follow_parent(
    pyramid: Pyramid, column: FloatArray, precision: FloatArray, known: BoolArray, totals: FloatArray, h: FloatArray
) -> None:
    """Let what is not measured of a family's children be, before x ≥ 0, the parent's times the child's share.

    The shares are those of the children's estimated totals, or of `totals` where these are known.
    """
    m, n = h.shape
    size = np.empty(m)
    for c in range(m):
        size[c] = max(h[c].sum() / precision[c if len(precision) > 1 else 0, 0], 0.0) if known[0] else 1.0
        if len(totals) > 0:
            size[c] = totals[c]
    whole = size.sum()
    factors, weights = np.zeros(len(known)), np.empty(len(known))
    row = np.empty(len(pyramid.inverse_size))
    for c in range(m):
        if c == 0 or len(precision) > 1:
            for s in range(len(known)):
                factors[s] = 0.0 if known[s] else precision[c if len(precision) > 1 else 0, s]
            weigh(pyramid, factors, weights)
        share = size[c] / whole if whole > 0 else 1.0 / m
        for j in range(n):
            row[j] = share * column[j]
        lift_row(pyramid, row)
        lower_row(pyramid, weights, row, row)
        for j in range(n):
            h[c, j] += row[j]


@kernel
def fit_families(
    pyramid: Pyramid,
    begins: IntArray,
    parents: IntArray,
    h: FloatArray,
    precision: FloatArray,
    known: BoolArray,
    totals: IntArray,
    fixed: bool,
    values: IntArray,
) -> int:
    """Write the integers of the children begins[i] … begins[i + 1] − 1 of every parent; return the most iterations."""
    most = 0
    everything = known.all()
    for i in range(len(parents)):
        first, end = begins[i], begins[i + 1]
        if end - first == 1:
            values[first] = parents[i]
            continue
        column = parents[i].astype(np.float64)
        own = precision[first:end] if len(precision) > 1 else precision
        sums = totals[first:end].astype(np.float64)
        if not everything:
            _follow_parent(pyramid, column, own, known, sums, h[first:end])
        x, iterations, _ = solve_family(
            pyramid, column, h[first:end], own, sums, fixed, True, TOLERANCE, MAX_ITERATIONS
        )
        most = max(most, iterations)
        round_family(pyramid, parents[i], x, SWEEPS, values[first:end])
        if fixed:
            keep_totals(pyramid, totals[first:end], x, values[first:end])
    return most
