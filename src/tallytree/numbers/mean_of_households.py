"""`HouseholdsRelease.mean`: persons in households ÷ households, of every area of a level."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import TOTAL, Hierarchy, decoded
from tallytree.release import HouseholdsRelease, Release, beside_paths
from tallytree.release.households_release import area_tables
from tallytree.release.intervals import checked_alpha, quantile
from tallytree.release.view.release_view import ReleaseView, published_level
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.tables.layout import table_of


def mean_of_households(release: HouseholdsRelease, level: str, alpha: float) -> pa.Table:
    """`HouseholdsRelease.mean`, which documents the arguments."""
    reach = quantile(checked_alpha(alpha), None)
    view = ReleaseView(release.households)
    areas = view.known_tree
    name = release.households._name((areas.levels[0] if level == TOTAL else level,))
    depth = release.households.levels.index(name)
    if not isinstance(areas, Hierarchy):
        raise ValueError("level: the tree of this release is none of areas; take a fresh copy of the release")
    size = areas.size(depth)
    persons, of_persons = _in_households(release.persons, depth, size)
    found, rows = published_level(release.households.level_tables[name], areas, depth), view.whole(name)
    households, of_households = np.zeros(size, dtype=np.int64), np.zeros(size)
    np.add.at(households, found.nodes, found.numbers)
    of_households[found.nodes] = rows.column("households_std_dev").to_numpy()
    none = households == 0
    number = np.maximum(households, 1)
    mean = persons / number
    part = np.minimum(1 / ((view.largest_size or 0) + 1), 1 / np.maximum(mean, 1))
    variance = (mean * of_households) ** 2 + of_persons**2 * (1 - 2 * mean * part)
    std_dev = np.sqrt(np.maximum(variance, 0.0)) / number
    ends = np.maximum(mean - reach * std_dev, np.minimum(mean, 1.0)), mean + reach * std_dev
    columns = {"persons": pa.array(persons), "households": pa.array(households)}
    for column, values in zip(("mean", "std_dev", "ci_lower", "ci_upper"), (mean, std_dev, *ends), strict=True):
        columns[column] = pa.array(values, mask=none)
    return decoded(beside_paths(areas, depth, np.arange(size, dtype=np.int64), pa.table(columns)))


def _in_households(persons: Release, depth: int, size: int) -> tuple[IntArray, FloatArray]:
    """Of every area of a level, the published persons in households and the standard deviation, (areas,) each."""
    view = ReleaseView(persons)
    layout = view.layout
    place = layout.place(table_of(layout.product, area_tables(layout.product.attributes[0])[depth], "level"))
    if place is None:
        raise ValueError("level: the persons of this level are not in the release; take a fresh copy of it")
    found = published_level(persons.level_tables[layout.levels[place]], layout, place)
    numbers, std_dev = np.zeros(2 * size, dtype=np.int64), np.zeros(2 * size)
    numbers[found.nodes], std_dev[found.nodes] = found.numbers, view.column(layout.levels[place], "std_dev")
    return numbers[::2], std_dev[::2]
