"""The standard deviations of the tables of a release, from the noise of those that are measured."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tallytree.solvers.tables.fit import NEGLIGIBLE
from tallytree.solvers.tables.integers import unmet_levels
from tallytree.solvers.tables.marginals import Marginal
from tallytree.solvers.tables.variance import std_devs
from tallytree.support.arrays import FloatArray
from tallytree.tables.mechanism import Layout

MIN_VARIANCE = 1e-9
"""Used where the variance is smaller: noisy tables as exact constraints could contradict each other."""

ROUNDING, UNMET_ROUNDING = 0.1, 0.15
"""What rounding adds to the variance of a number, about: where integers meet the tables, and where none are found."""


def precisions_of(layout: Layout, variances: Mapping[str, float]) -> list[dict[Marginal, float]]:
    """Per area level, 1/σ² of every marginal that is measured.

    Args:
        layout: the tables.
        variances: of the noise in a cell of each measured table, by name.
    """
    found: list[dict[Marginal, float]] = [{} for _ in range(len(layout.families) + 1)]
    for depth, name in enumerate(layout.levels):
        if name in variances:
            found[layout.area_level(depth)][layout.marginal(depth)] = 1 / max(variances[name], MIN_VARIANCE)
    return found


def table_std_devs(layout: Layout, variances: Mapping[str, float], exact_level: int | None) -> dict[str, FloatArray]:
    """The standard deviation of the linear estimate of every table's cells, by name.

    Args:
        layout: the tables.
        variances: of the noise in a cell of each measured table, by name.
        exact_level: the area level whose totals are public, with those above it; None without one.

    Returns:
        Float64 (areas, 1) where all cells of an area have the same, else (areas, cells of an area).
    """
    places = [(layout.area_level(depth), layout.marginal(depth)) for depth in range(len(layout.levels))]
    wanted = [[marginal for at, marginal in places if at == level] for level in range(len(layout.families) + 1)]
    precisions = precisions_of(layout, variances)
    found = std_devs(layout.detail, layout.families, precisions, wanted, public_totals_level=exact_level)
    return {
        name: found[place].reshape(layout.areas(depth), -1)
        for depth, (name, place) in enumerate(zip(layout.levels, places, strict=True))
    }


def expected_rounding(
    layout: Layout, variances: Mapping[str, float], std_devs: Mapping[str, FloatArray]
) -> dict[str, FloatArray]:
    """What rounding will add to the variances of tables, about; 0 where that is next to nothing. See `table_std_devs`.

    Noise that is mostly 0 leaves nothing to round where integers meet the tables.
    """
    zero = np.zeros((1, layout.detail.cells), dtype=np.bool_) if layout.impossible is None else layout.impossible
    unmet = unmet_levels(layout.detail, precisions_of(layout, variances), zero)
    found = {}
    for depth, name in enumerate(layout.levels):
        variance = std_devs[name] ** 2
        hard = unmet[layout.area_level(depth)]
        cost = (UNMET_ROUNDING if hard else ROUNDING) - NEGLIGIBLE * variance
        found[name] = np.clip(cost, 0.0, np.where(variance > 0, 1.0, 0.0) if hard else variance / 2)
    return found
