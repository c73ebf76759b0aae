"""`Release.total` for tables: sums over areas and under conditions on attributes, with the error of each sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree._compute.arrays import BoolArray, FloatArray, IntArray
from tallytree._solvers.tables.linear import NoisyTable, linear_estimate
from tallytree._solvers.tables.sums import sum_variances
from tallytree._validate import safe_text
from tallytree.product import Attribute, Product
from tallytree.release.intervals import UNBIASED, LevelErrors, checked_alpha, interval, unbiased_interval
from tallytree.release.view.areas import SummedAreas, read_areas
from tallytree.release.view.layouts import exact_level_of, published_totals
from tallytree.release.view.recorded_measurements import FRESH_COPY
from tallytree.release.view.release_view import ReleaseView
from tallytree.tables import TableLayout
from tallytree.tables.expected import MIN_VARIANCE, precisions_of


def total_of_tables(
    view: ReleaseView,
    table: Any,
    *,
    by: str | None,
    where: Mapping[str, Any] | None,
    alpha: float,
    replicates: int | None,
) -> pa.Table:
    """`Release.total` for a release of tables."""
    if replicates is not None:
        raise ValueError(f"replicates: {safe_text(replicates)}, but sums of tables have exact errors; leave it out")
    level_alpha = checked_alpha(alpha)
    layout = view.layout
    conditions = _conditions(layout.product, where)
    sides = layout.product.attributes
    areas = None if table is None else _areas(sides[0], table, by)
    needed = [
        0 if areas is None else max(block.depth for block in areas.blocks),
        *(max((depth for depth, _ in each), default=0) for each in conditions),
    ]
    depth = _coarsest(layout, needed)
    counts = view.cells_of_table(depth)
    refined = layout.tables[depth].refined
    cells = _mask(sides[1:], refined[1:], conditions)
    members, offsets = _members(areas, refined[0], layout.areas(depth))
    sums = counts[:, cells].sum(axis=1)[members]
    count = np.add.reduceat(np.append(sums, 0), offsets[:-1]) * (np.diff(offsets) > 0)
    # Of two levels with equally many nodes the layout has the coarser one; the condition may be on the other.
    finest = tuple(map(max, layout.finest_refined, needed))
    varying = _mask(sides[1:], finest[1:], conditions)
    zero = layout.impossible_cells(depth)
    if zero is not None:
        varying &= ~zero[layout.detail.cell_of(layout.marginal(depth))]
    noise = view.noise
    leaves, leaf_offsets = _members(areas, finest[0], layout.areas_per_level[-1])
    variances = sum_variances(
        layout.detail,
        layout.families,
        precisions_of(layout, {name: law.variance for name, (_, law) in noise.items()}),
        leaves,
        leaf_offsets,
        varying,
        public_totals_level=exact_level_of(view.statement, layout),
    )
    std_dev = np.sqrt(variances)
    unbiased = unbiased_table(view, depth)
    if unbiased is None:
        lower, upper = interval(count, std_dev, level_alpha, LevelErrors())
    else:
        middles = np.add.reduceat(np.append(unbiased[:, cells].sum(axis=1)[members], 0.0), offsets[:-1])
        middles *= np.diff(offsets) > 0
        lower, upper = unbiased_interval(count, middles, std_dev, level_alpha)
    names = {} if areas is None or by is None else {by: areas.names}
    return pa.table(names | {"count": count, "std_dev": std_dev, "ci_lower": lower, "ci_upper": upper})


def _conditions(product: Product, where: Mapping[str, Any] | None) -> list[list[tuple[int, list[str]]]]:
    """Per attribute, the levels that a condition is on (as columns refined), and the labels that meet it.

    Raises:
        ValueError: no column of an attribute, or a label that is none of its level's.
        TypeError: no mapping, or labels that are neither text nor integers.
    """
    found: list[list[tuple[int, list[str]]]] = [[] for _ in product.attributes[1:]]
    if where is None:
        return found
    if not isinstance(where, Mapping):
        raise TypeError(
            f'where: {safe_text(where)} must be a mapping from attributes\' columns, such as {{"sex": "f"}}'
        )
    known = [column for side in product.attributes[1:] for column in side.columns]
    for column, given in where.items():
        place = next((i for i, side in enumerate(product.attributes[1:]) if column in side.columns), None)
        if not isinstance(column, str) or place is None:
            raise ValueError(
                f"where: {repr(column[:80]) if isinstance(column, str) else safe_text(column)} is no column of an "
                f"attribute; these are {', '.join(known) or 'none'}"
            )
        side = product.attributes[1:][place]
        depth = side.columns.index(column) + 1
        values = list(given) if isinstance(given, list | tuple | set | frozenset) else [given]
        if not values or any(isinstance(value, bool) or not isinstance(value, str | int) for value in values):
            raise TypeError(f"where: {column!r} must be given a label or a list of labels, texts or integers")
        labels = set(_labels(side, depth, depth).to_pylist())
        for value in map(str, values):
            if value not in labels:
                raise ValueError(f"where: {value[:80]!r} is no label of {column!r}; see the table of that level")
        found[place].append((depth, [str(value) for value in values]))
    return found


def _labels(side: Attribute, refined: int, column: int) -> pa.Array:
    """One of the columns of all nodes where so many columns are refined."""
    return side.path_arrays(refined, np.arange(side.size(refined), dtype=np.int64))[column - 1]


def _areas(side: Attribute, table: Any, by: str | None) -> SummedAreas:
    """The areas of a table, over the hierarchy of the areas alone."""
    tree = Product({side.name: side.hierarchy}, [side.name] * len(side.columns), {side.name: side.columns})
    return read_areas(tree, table, by)


def _coarsest(layout: TableLayout, needed: Sequence[int]) -> int:
    """The smallest table that has the areas and the attributes' levels that are needed.

    Raises:
        ValueError: there is none.
    """
    enough = [
        i
        for i, table in enumerate(layout.tables)
        if all(has >= need for has, need in zip(table.refined, needed, strict=True))
    ]
    if not enough:
        sides = zip(layout.product.attributes, needed, strict=True)
        levels = ", ".join(side.columns[depth - 1] for side, depth in sides if depth)
        raise ValueError(
            f"areas: no table of the release has {levels}, so its sums are not published; name coarser ones"
        )
    return min(enough, key=layout.size)


def _mask(
    sides: Sequence[Attribute], refined: Sequence[int], conditions: Sequence[Sequence[tuple[int, list[str]]]]
) -> BoolArray:
    """Which cells of an area meet all conditions, where so many columns of the attributes are refined."""
    mask = np.ones(1, dtype=np.bool_)
    for side, depth, of_side in zip(sides, refined, conditions, strict=True):
        meets = np.ones(side.size(depth), dtype=np.bool_)
        for column, labels in of_side:
            meets &= np.isin(np.array(_labels(side, depth, column).to_pylist(), dtype=object), labels)
        mask = (mask[:, None] & meets[None, :]).ravel()
    return mask


def _members(areas: SummedAreas | None, refined: int, number: int) -> tuple[IntArray, IntArray]:
    """The nodes of a level in each area, ascending, one area after another, and where those of each begin."""
    nodes = np.arange(number, dtype=np.int64)
    if areas is None:
        return nodes, np.array([0, number], dtype=np.int64)
    pairs = [areas.members(block, refined, nodes) for block in areas.blocks]
    places, of_area = (np.concatenate(each) for each in zip(*pairs, strict=True))
    order = np.lexsort((places, of_area))
    offsets = np.searchsorted(of_area[order], np.arange(len(areas) + 1)).astype(np.int64)
    return places[order], offsets


def unbiased_table(view: ReleaseView, depth: int) -> FloatArray | None:
    """The unbiased estimate of every cell of a table, float64 (areas, cells of an area), as published or measured.

    None for a release without such estimates: an earlier tallytree wrote it, or its errors are those of replicates.

    Raises:
        ValueError: the release has them, but not all cells are listed, and its measurements are not whole.
    """
    layout, name = view.layout, view.levels[depth]
    if not view.has(name, UNBIASED):
        return None
    if view.rows(name) == layout.size(depth):
        return np.asarray(view.column(name, UNBIASED), dtype=np.float64).reshape(layout.areas(depth), -1)
    return _from_measurements(view, depth)


def _from_measurements(view: ReleaseView, depth: int) -> FloatArray:
    """The estimate of a table whose zeros are not listed."""
    layout, noise = view.layout, view.noise
    measured: list[list[NoisyTable]] = [[] for _ in range(len(layout.families) + 1)]
    for place, name in enumerate(layout.levels):
        if name in noise:
            values = view.release.measurements(name).column("value").to_numpy().astype(np.int64)
            if len(values) != layout.size(place):
                raise ValueError(f"release: the measurements of {name!r} do not list all its cells; {FRESH_COPY}")
            variance = max(noise[name][1].variance, MIN_VARIANCE)
            shape = (layout.areas(place), -1)
            measured[layout.area_level(place)].append(
                NoisyTable(layout.marginal(place), values.reshape(shape), variance)
            )
    found = linear_estimate(
        layout.detail, layout.families, measured, layout.area_level(depth), layout.marginal(depth), _exact_totals(view)
    )
    zero = layout.impossible_cells(depth)
    if zero is not None:
        found[:, zero] = 0.0
    return found


def _exact_totals(view: ReleaseView) -> list[IntArray]:
    """The totals that were published exactly, per level from the root."""
    exact = published_totals(view.statement, view.layout, view.all_cells())
    if exact is None:
        return []
    found = [exact.totals]
    for family in reversed(view.layout.families[: exact.area_level]):
        found.insert(0, np.add.reduceat(found[0], family[:-1]))
    return found
