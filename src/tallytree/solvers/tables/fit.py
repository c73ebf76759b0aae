"""One table of non-negative integers for every area of a tree, from noisy marginals of every level.

1. The least-squares estimate of all tables (`marginal_linear`): unbiased, not yet non-negative.
2. From the root down, the tables of every family are made non-negative, the coarse ones first (`coarse`).
3. The detail of every area is raked to these tables (`raking`).
4. Integers near the detail meet the tables where that can be done (`integers`). The children's integers add up to
   their parent's in every detail cell.

So each coarse number is decided by its unbiased estimate, and what x ≥ 0 costs is paid by the finest tables. A joint
non-negative fit has a smaller distance and larger errors: hundreds of cells that are 0 or unknown move the totals.
Source: ours; `docs/decisions/0051-coarse-to-fine.md` has what else was tried.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tallytree.solvers.checks import MAX_EXACT, MAX_SUM, check_offsets
from tallytree.solvers.integer_errors import excess, expected_errors
from tallytree.solvers.tables.coarse import wanted_sums
from tallytree.solvers.tables.decided import Decided, decided_tables
from tallytree.solvers.tables.integers import Rounding, areas_differ
from tallytree.solvers.tables.linear import NoisyTable, upward
from tallytree.solvers.tables.marginals import Detail, Lattice, Marginal, masks_of_levels
from tallytree.solvers.tables.prior import PriorOfTables
from tallytree.solvers.tables.raking import rake_tree
from tallytree.solvers.tables.variance import Table, expected_std_devs
from tallytree.support.arrays import BoolArray, FloatArray, IntArray
from tallytree.support.large_arrays import LargeArrays

logger = logging.getLogger(__name__)

LEAST_DEVIATION = 0.5
"""Sums need not be met more exactly than integers can meet them."""
LEAST_MISS = 0.01
"""Of a more accurate table it is said by how many of these its numbers miss what was decided."""
RESTORED, EXACT = 0.5, 0.1
"""An estimate errs by e, and its nearest integer differs from it by d. Where e is small, that integer is the truth, and
d = −e is no error. So a part of d² is taken off: this one (found in designs of all kinds, at standard deviations of 0.1
to 1), or all of it where the standard deviation is below the second number."""
BELIEVED = 2.0
"""By so many standard deviations a number may be away from its own estimate; it errs by the rest at least."""
NEGLIGIBLE = 0.02
"""Rounding that adds less than this part to a variance, and 1 % to a standard deviation, is left out."""
VARIANCES = (1e-50, 1e50)
"""Between these, no product of precisions and values leaves the range of doubles."""


@dataclass(frozen=True, eq=False)
class TableFit:
    """What is made of noisy marginals.

    Attributes:
        leaves: (leaf areas, detail cells) integers ≥ 0: int32 where they fit, int64 otherwise.
        estimates: of the wanted tables, the least-squares estimates before x ≥ 0: float64 (areas, cells).
        misses: of each known table, by how much the integers miss the table that step 2 decided, beyond its nearest
            integers: the root of the mean square, in standard deviations of its cells.
        rounding: of known tables, what rounding adds to the standard deviation of a cell, in squares, where that is not
            negligible.
        typical_errors: of the wanted tables, the root mean square error that is expected of each integer: float64
            (areas, cells).
    """

    leaves: IntArray
    estimates: dict[Table, FloatArray]
    misses: dict[Table, float]
    rounding: dict[Table, float]
    typical_errors: dict[Table, FloatArray]


def fit(
    detail: Detail,
    families: Sequence[IntArray],
    measured: Sequence[Sequence[NoisyTable]],
    *,
    totals: tuple[int, IntArray] | None = None,
    impossible: BoolArray | None = None,
    wanted: Sequence[Iterable[Marginal]] | None = None,
    pooled: bool = True,
    prior: PriorOfTables | None = None,
    arrays: LargeArrays | None = None,
    progress: Callable[[str], None] | None = None,
) -> TableFit:
    """Estimate the detail cells of all leaf areas.

    Args:
        detail: the attributes.
        families: for every level of areas but the last, int64 (areas + 1,): area i has the children families[l][i] …
            families[l][i + 1] − 1 of the next level, one at least. Level 0 has one area, the root.
        measured: for every level of areas, what was measured of each of its areas; may be nothing.
        totals: a level, and int64 (areas of it,): the exact total of each of its areas, which is kept.
        impossible: bool (leaf areas, detail cells), those that are 0; one row is of all areas. None where there are
            none. Where areas differ, exact totals may be of the root only.
        wanted: per level of areas, the marginals whose least-squares estimates are returned.
        pooled: whether cells learn from each other what is expected of them.
        prior: what the cells are expected to resemble; None without it. It has a part only if pooled.
        arrays: makes all large arrays; None has them in memory. The result does not depend on it.
        progress: is told what begins.

    Returns:
        The integers, and what is known of their errors. What a marginal, or an area of a higher level, has is their
        sum. What is measured neither in an area nor below it follows its parent's share.

    Raises:
        ValueError: for levels that do not fit together, values or totals that are too large to add up, or a variance
            outside 1e-50 … 1e50.
    """
    arrays = arrays or LargeArrays()
    exact = _check(detail, families, measured, totals, arrays)
    none = np.zeros((1, detail.cells), dtype=np.bool_)
    zero = masks_of_levels(none if impossible is None else np.atleast_2d(impossible), families)
    problem = _Problem(
        detail,
        families,
        measured,
        exact,
        zero,
        pooled,
        prior,
        arrays,
        progress or (lambda stage: None),
    )
    return problem.solved([tuple(each) for each in wanted or [()] * len(measured)])


def _check(
    detail: Detail,
    families: Sequence[IntArray],
    measured: Sequence[Sequence[NoisyTable]],
    totals: tuple[int, IntArray] | None,
    arrays: LargeArrays,
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
            if sum(arrays.each(partial(_absolute, each.values), np.full(*each.values.shape))) >= MAX_SUM:
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


def _absolute(values: IntArray, part: slice) -> float:
    """The sum of the absolute values of some rows."""
    return float(np.abs(values[part]).sum(dtype=np.float64))


@dataclass(frozen=True, eq=False)
class _Problem:
    """What all steps need; see `fit`. `exact` has the totals of every level that has exact ones, `zero` is by level."""

    detail: Detail
    families: Sequence[IntArray]
    measured: Sequence[Sequence[NoisyTable]]
    exact: list[IntArray]
    zero: Sequence[BoolArray]
    pooled: bool
    prior: PriorOfTables | None
    arrays: LargeArrays
    progress: Callable[[str], None]

    def solved(self, wanted: Sequence[Sequence[Marginal]]) -> TableFit:
        self.progress("combining the noisy tables")
        levels = upward(self.detail, self.families, self.measured, self.arrays, areas_differ(self.zero))
        lattices = [level.lattice for level in levels]
        exactly = self._deviations(lattices)
        deviations = [np.maximum(each, LEAST_DEVIATION) for each in exactly]
        sums = [wanted_sums(lattice, each) for lattice, each in zip(lattices, exactly, strict=True)]
        estimates: dict[Table, FloatArray] = {}
        decided = decided_tables(
            levels, self.families, sums, exactly, LEAST_DEVIATION, self.exact, self.zero, wanted, estimates,
            prior=self.prior, pooled=self.pooled, arrays=self.arrays, progress=self.progress,
        )  # fmt: skip
        targets = [each.tables for each in decided]
        if self.pooled:
            deviations = [
                np.maximum(self._typical(lattice, each.errors), LEAST_DEVIATION)
                for lattice, each in zip(lattices, decided, strict=True)
            ]
        self.progress("fitting the detail")
        slack = [each.most() for each in sums]
        detail = rake_tree(lattices, self.families, targets, deviations, slack, self.zero, self.arrays)
        self.progress("rounding")
        work = Rounding(
            self.detail, self.families, lattices, deviations, detail, self.exact, self.arrays, self.progress
        )
        own = work.own_details(self.zero)
        rounding: dict[Table, float] = {}
        misses: dict[Table, float] = {}
        typical: dict[Table, FloatArray] = {}
        for depth, lattice in enumerate(lattices):
            for k, marginal in enumerate(lattice.known):
                std_dev = float(exactly[depth][k])
                errors = None
                if marginal in wanted[depth]:
                    errors = typical[depth, marginal] = self.arrays.empty(estimates[depth, marginal].shape)
                added, missed = _told(
                    self.arrays, lattice, marginal, own[depth], detail[depth], decided[depth], std_dev,
                    estimates.get((depth, marginal)), errors,
                )  # fmt: skip
                if k == 0 and depth < len(self.exact) and errors is not None:
                    errors[:] = 0.0  # the integers meet exact totals, and the detail only nearly
                if added > NEGLIGIBLE * std_dev**2:
                    rounding[depth, marginal] = float(np.sqrt(added))
                misses[depth, marginal] = float(np.sqrt(max(missed, 0.0)) / max(std_dev, LEAST_MISS))
        return TableFit(work.dealt(own), estimates, misses, rounding, typical)

    def _typical(self, lattice: Lattice, errors: FloatArray) -> FloatArray:
        """The root mean square error of a cell of each table: (K,)."""
        begins = lattice.rows.begin[:-1]

        def work(part: slice) -> FloatArray:
            return np.add.reduceat(errors[part].sum(axis=0), begins)

        sums = np.sum(self.arrays.each(work, np.full(*errors.shape)), axis=0)
        return np.asarray(np.sqrt(sums / (len(errors) * np.diff(lattice.rows.begin))))

    def _deviations(self, lattices: Sequence[Lattice]) -> list[FloatArray]:
        """Per level, the standard deviation of a cell of each known table: (K,)."""
        areas = [1, *(int(family[-1]) for family in self.families)]
        precisions = [{each.marginal: 1 / each.variance for each in level} for level in self.measured]
        places = [(depth, marginal) for depth, lattice in enumerate(lattices) for marginal in lattice.known]
        exact = len(self.exact) - 1 if self.exact else None
        found = expected_std_devs(self.detail, areas, precisions, places, public_totals_level=exact)
        return [
            np.minimum([found[depth, marginal] for marginal in lattice.known], 1e30)
            for depth, lattice in enumerate(lattices)
        ]


def _told(
    arrays: LargeArrays,
    lattice: Lattice,
    marginal: Marginal,
    integers: IntArray,
    detail: FloatArray,
    decided: Decided,
    std_dev: float,
    estimates: FloatArray | None,
    typical: FloatArray | None,
) -> tuple[float, float]:
    """Of a table, the mean squares that rounding adds and that its integers miss; its expected errors are written.

    Args:
        arrays: works on the areas.
        lattice: the marginals of its level.
        marginal: the table.
        integers: the level's own detail.
        detail: the same before rounding.
        decided: what was decided of the level.
        std_dev: of the least-squares estimates.
        estimates: these; None where they are not wanted.
        typical: gets the expected errors; None where they are not wanted.
    """
    place = lattice.places[marginal]

    def work(part: slice) -> tuple[float, float]:
        published = lattice.detail.summed(integers[part], marginal)
        real = np.asarray(lattice.detail.summed(detail[part], marginal), dtype=np.float64)
        target = decided.tables[part, place]
        if estimates is not None and typical is not None:
            expected_errors(
                published, real, target, decided.errors[part, place], estimates[part], BELIEVED * std_dev,
                std_dev <= LEAST_DEVIATION, typical[part],
            )  # fmt: skip
        return excess(published, real, RESTORED if std_dev > EXACT else 1.0), excess(published, target, 1.0)

    cells = place.stop - place.start
    touched = np.full(len(detail), 2 * decided.tables.shape[1] + detail.shape[1])
    found = np.sum(arrays.each(work, np.full(*detail.shape), touched), axis=0) / (len(detail) * cells)
    return float(found[0]), float(found[1])
