"""The unbiased estimate of a whole table of a release of tables: as it was published, or from the measurements."""

from __future__ import annotations

import numpy as np

from tallytree._compute.arrays import FloatArray, IntArray
from tallytree._derived.published_tables import all_cells, published_totals
from tallytree._derived.published_values import published_level
from tallytree._derived.recorded_measurements import FRESH_COPY, recorded_noise
from tallytree._solvers.tables.linear import NoisyTable, linear_estimate
from tallytree.release import LevelTable, Release
from tallytree.release.intervals import UNBIASED
from tallytree.tables import TableLayout
from tallytree.tables.expected import MIN_VARIANCE


def unbiased_table(release: Release, layout: TableLayout, depth: int) -> FloatArray | None:
    """The unbiased estimate of every cell of a table, float64 (areas, cells of an area).

    None for a release without such estimates: an earlier tallytree wrote it, or its errors are those of replicates.

    Raises:
        ValueError: the release has them, but not all cells are listed, and its measurements are not whole.
    """
    table = release.level_tables[layout.levels[depth]]
    if UNBIASED not in table.read(0, 0).column_names:
        return None
    if table.num_rows == layout.size(depth):
        return _column(table, UNBIASED).reshape(layout.areas(depth), -1)
    return _from_measurements(release, layout, depth)


def _column(table: LevelTable, name: str) -> FloatArray:
    """A column of numbers, whole."""
    parts = [table.read(rows.start, min(rows.stop, table.num_rows)).column(name).to_numpy() for rows in table.slices()]
    return np.concatenate([np.zeros(0), *parts])


def _from_measurements(release: Release, layout: TableLayout, depth: int) -> FloatArray:
    """The estimate of a table whose zeros are not listed."""
    noise = recorded_noise(release.statement, layout)
    measured: list[list[NoisyTable]] = [[] for _ in range(len(layout.families) + 1)]
    for place, name in enumerate(layout.levels):
        if name in noise:
            values = release.measurements(name).column("value").to_numpy().astype(np.int64)
            if len(values) != layout.size(place):
                raise ValueError(f"release: the measurements of {name!r} do not list all its cells; {FRESH_COPY}")
            variance = max(noise[name][1].variance, MIN_VARIANCE)
            shape = (layout.areas(place), -1)
            measured[layout.area_level(place)].append(
                NoisyTable(layout.marginal(place), values.reshape(shape), variance)
            )
    totals = _exact_totals(release, layout)
    found = linear_estimate(
        layout.detail, layout.families, measured, layout.area_level(depth), layout.marginal(depth), totals
    )
    zero = layout.impossible_cells(depth)
    if zero is not None:
        found[:, zero] = 0.0
    return found


def _exact_totals(release: Release, layout: TableLayout) -> list[IntArray]:
    """The totals that were published exactly, per level from the root."""
    published = [published_level(table, layout, i) for i, table in enumerate(release.level_tables.values())]
    exact = published_totals(release.statement, layout, all_cells(layout, published))
    if exact is None:
        return []
    found = [exact.totals]
    for family in reversed(layout.families[: exact.area_level]):
        found.insert(0, np.add.reduceat(found[0], family[:-1]))
    return found
