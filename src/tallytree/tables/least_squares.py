"""`LeastSquares`: the table of integers that is near the least-squares estimate of every table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from tallytree.kinds.measurements import Measures, Statistic
from tallytree.solvers.tables.fit import fit
from tallytree.solvers.tables.linear import NoisyTable
from tallytree.solvers.tables.prior import PriorOfTables
from tallytree.support import stages
from tallytree.support.arrays import BoolArray, FloatArray, IntArray, rows_at
from tallytree.support.large_arrays import LargeArrays
from tallytree.support.validate import choice
from tallytree.tables.expected import MIN_VARIANCE, table_std_devs
from tallytree.tables.mechanism import FittedTables, Layout, PublicTotals, TablesMechanism


@dataclass(frozen=True)
class LeastSquares(TablesMechanism):
    """Release the table of integers that fits all noisy tables.

    The unbiased estimate of every table is weighted least squares over all noisy tables (`solvers.tables.linear`).
    From the root down, and from coarse tables to fine ones, the estimates are made non-negative, each table with the
    coarser ones fixed: so counts near 0 move the finest tables only, and no total. The detail of every area is then
    raked to these tables and rounded. See `docs/explanation/tables.md`.

    Attributes:
        pooling: `"areas"`: each cell learns from all areas how far cells lie from what is expected of them, the table
            of the area above scaled to the area's coarser tables. `"none"`: from its own measurements, and those that
            are added up to it, alone. See `docs/explanation/borrowed-strength.md`.

    `std_dev` is that of the unbiased estimate, which is published beside each number and has the interval around it,
    with what rounding adds. Cells that are impossible are 0 and known exactly. What they tell of others is not in
    `std_dev`, which is then an upper bound.
    """

    pooling: Literal["areas", "none"] = "areas"

    def __post_init__(self) -> None:
        """Refuse what is no pooling.

        Raises:
            ValueError, TypeError: another value.
        """
        choice(self.pooling, "pooling", ("areas", "none"))

    @property
    def takes_prior(self) -> bool:
        """See `TablesMechanism`: where cells learn from others."""
        return self.pooling == "areas"

    def reconcile(
        self,
        layout: Layout,
        measured: Mapping[str, Statistic],
        totals: PublicTotals | None,
        measurer: Measures,
        prior: PriorOfTables | None = None,
        arrays: LargeArrays | None = None,
    ) -> FittedTables:
        """See `TablesMechanism.reconcile`, and of the other arguments `solvers.tables.fit`."""
        arrays = arrays or LargeArrays()
        taken: list[list[NoisyTable]] = [[] for _ in range(len(layout.families) + 1)]
        variances: dict[str, float] = {}
        for depth, name in enumerate(layout.levels):
            if name in measured:
                table = _measured(layout, depth, measured[name], measurer, arrays)
                variances[name] = table.variance
                taken[layout.area_level(depth)].append(table)
        exact = None if totals is None else (totals.area_level, totals.totals)
        places = [(layout.area_level(depth), layout.marginal(depth)) for depth in range(len(layout.levels))]
        wanted = [[marginal for at, marginal in places if at == level] for level in range(len(taken))]
        fitted = fit(
            layout.detail,
            layout.families,
            taken,
            totals=exact,
            wanted=wanted,
            impossible=layout.impossible,
            pooled=self.pooling == "areas",
            prior=prior,
            arrays=arrays,
            progress=stages.step,
        )
        std_devs = table_std_devs(layout, variances, None if totals is None else totals.area_level)
        of = dict(zip(layout.levels, places, strict=True))
        rounding = {name: round(fitted.rounding[at], 4) for name, at in of.items() if at in fitted.rounding}
        std_devs |= {name: np.hypot(std_devs[name], added) for name, added in rounding.items()}
        unbiased = {name: fitted.estimates[at] for name, at in of.items()}
        for depth, name in enumerate(layout.levels):
            zero = layout.impossible_cells(depth)
            if zero is not None:
                std_devs[name] = _with_zeros(arrays, std_devs[name], zero)
                for part in arrays.parts(np.full(*unbiased[name].shape)):
                    unbiased[name][part] = np.where(rows_at(zero, part), 0.0, unbiased[name][part])
        misses = {name: fitted.misses[at] for name, at in of.items()}
        typical = {name: fitted.typical_errors[at] for name, at in of.items()}
        return FittedTables(fitted.leaves, std_devs, unbiased, misses, rounding, typical)


def _with_zeros(arrays: LargeArrays, rows: FloatArray, zero: BoolArray) -> FloatArray:
    """Rows with 0 in some cells, bool (areas or 1, cells); rows of one number have it in all others."""
    found = arrays.empty((len(rows), zero.shape[1]))
    for part in arrays.parts(np.full(*found.shape)):
        found[part] = np.where(rows_at(zero, part), 0.0, rows[part])
    return found


def _measured(layout: Layout, depth: int, statistic: Statistic, measurer: Measures, arrays: LargeArrays) -> NoisyTable:
    """The noisy values of a table, integers (areas, cells of an area)."""
    areas, width = layout.areas(depth), layout.width(depth)
    found, variance, laplace = arrays.empty((areas, width), np.int32), 0.0, False
    zero = layout.impossible_cells(depth)
    for part in arrays.parts(np.full(areas, width)):
        measurement = measurer.measure(layout.levels[depth], np.arange(part.start, part.stop), statistic)
        variance = max(measurement.noise.variance, MIN_VARIANCE)
        laplace = measurement.noise.distribution == "discrete_laplace"
        values = measurement.values.reshape(-1, width)
        if found.dtype == np.int32 and max(abs(int(values.min())), abs(int(values.max()))) >= 2**31:
            found = _widened(arrays, found)
        found[part] = values if zero is None else np.where(rows_at(zero, part), 0, values)
    return NoisyTable(layout.marginal(depth), cast(IntArray, found), variance, laplace)


def _widened(arrays: LargeArrays, values: IntArray) -> IntArray:
    """The same integers as int64."""
    found: IntArray = arrays.empty(values.shape, np.int64)
    for part in arrays.parts(np.full(*values.shape)):
        found[part] = values[part]
    return found
