"""`LeastSquares`: fit the detail of every area to all noisy tables at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from tallytree.compute.arrays import IntArray
from tallytree.measurements import Measures, Statistic
from tallytree.solvers.marginal_fit import Measured, fit
from tallytree.tables.expected import MIN_VARIANCE, table_std_devs
from tallytree.tables.mechanism import FittedTables, Layout, PublicTotals, TablesMechanism

CELLS_AT_ONCE = 2**22
"""Measured at once; the noise of a cell does not depend on it."""


@dataclass(frozen=True)
class LeastSquares(TablesMechanism):
    """Release the table of integers that fits all noisy tables.

    The detail of all areas is estimated by weighted least squares over all noisy tables, at once (`solvers.marginals`).
    From the root down, the estimates of a family of areas are then moved to the nearest non-negative ones that add up
    to their parent's, in the norm of the estimate's own covariance: moved cell by cell, thousands of zeros would add up
    to a bias of the totals. In the end the numbers are rounded so that all sums stay close. See
    `docs/explanation/tables.md`.

    `std_dev` is that of the least-squares estimate without the constraint x ≥ 0. Near zero the error is smaller.
    """

    def reconcile(
        self,
        layout: Layout,
        measured: Mapping[str, Statistic],
        totals: PublicTotals | None,
        measurer: Measures,
    ) -> FittedTables:
        """See `TablesMechanism.reconcile`."""
        taken: list[list[Measured]] = [[] for _ in range(len(layout.families) + 1)]
        variances: dict[str, float] = {}
        for depth, name in enumerate(layout.levels):
            if name in measured:
                values, variances[name] = _measured(layout, depth, measured[name], measurer)
                taken[layout.area_level(depth)].append(Measured(layout.marginal(depth), values, variances[name]))
        exact = None if totals is None else (totals.area_level, totals.totals)
        leaves = fit(layout.detail, layout.families, taken, totals=exact)
        return FittedTables(leaves, table_std_devs(layout, variances, None if totals is None else totals.area_level))


def _measured(layout: Layout, depth: int, statistic: Statistic, measurer: Measures) -> tuple[IntArray, float]:
    """The noisy values of a table, integers (areas, cells of an area), and the variance of their noise."""
    areas, width = layout.areas(depth), layout.width(depth)
    step = max(1, CELLS_AT_ONCE // width)
    parts, variance = [], 0.0
    for start in range(0, areas, step):
        nodes = np.arange(start, min(start + step, areas), dtype=np.int64)
        measurement = measurer.measure(layout.levels[depth], nodes, statistic)
        variance = max(measurement.noise.variance, MIN_VARIANCE)
        values = measurement.values
        fits = len(values) == 0 or max(abs(int(values.min())), abs(int(values.max()))) < 2**31
        parts.append(values.astype(np.int32) if fits else values)
    return cast(IntArray, np.concatenate(parts).reshape(areas, width)), variance
