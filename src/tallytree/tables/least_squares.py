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
from tallytree.support.arrays import IntArray
from tallytree.support.validate import choice
from tallytree.tables.expected import MIN_VARIANCE, table_std_devs
from tallytree.tables.mechanism import FittedTables, Layout, PublicTotals, TablesMechanism

CELLS_AT_ONCE = 2**22
"""Measured at once; the noise of a cell does not depend on it."""


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
    ) -> FittedTables:
        """See `TablesMechanism.reconcile`, and of the prior `solvers.tables.fit`."""
        taken: list[list[NoisyTable]] = [[] for _ in range(len(layout.families) + 1)]
        variances: dict[str, float] = {}
        for depth, name in enumerate(layout.levels):
            if name in measured:
                table = _measured(layout, depth, measured[name], measurer)
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
                std_devs[name] = np.where(zero, 0.0, std_devs[name])
                unbiased[name][:, zero] = 0.0
        misses = {name: fitted.misses[at] for name, at in of.items()}
        typical = {name: np.round(fitted.typical_errors[at], 4) for name, at in of.items()}
        return FittedTables(fitted.leaves, std_devs, unbiased, misses, rounding, typical)


def _measured(layout: Layout, depth: int, statistic: Statistic, measurer: Measures) -> NoisyTable:
    """The noisy values of a table, integers (areas, cells of an area)."""
    areas, width = layout.areas(depth), layout.width(depth)
    step = max(1, CELLS_AT_ONCE // width)
    parts, variance, laplace = [], 0.0, False
    for start in range(0, areas, step):
        nodes = np.arange(start, min(start + step, areas), dtype=np.int64)
        measurement = measurer.measure(layout.levels[depth], nodes, statistic)
        variance = max(measurement.noise.variance, MIN_VARIANCE)
        laplace = measurement.noise.distribution == "discrete_laplace"
        values = measurement.values
        fits = len(values) == 0 or max(abs(int(values.min())), abs(int(values.max()))) < 2**31
        parts.append(values.astype(np.int32) if fits else values)
    found = np.concatenate(parts).reshape(areas, width)
    zero = layout.impossible_cells(depth)
    if zero is not None:
        found[:, zero] = 0
    return NoisyTable(layout.marginal(depth), cast(IntArray, found), variance, laplace)
