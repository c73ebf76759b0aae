"""GeoParquet files: tables with the shapes of their areas.

A table over areas has one row for each area, with its shape once. Where a table has several rows for an area (sizes, or
cells of attributes), the other columns are lists, in the order of the published rows. Flows, and other tables over
pairs of areas, have a line for each row, from a point within the first area to one within the second. A row of an area
without a shape, and one that says how much is not listed of a coarser area, has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.kinds.registry import kind_of
from tallytree.release.remainders import lists_remainders
from tallytree.release.view.sides import TreeSide
from tallytree.sources.leaf_paths import decoded
from tallytree.support.arrays import IntArray
from tallytree.support.whole_files import flush
from tallytree.views.boundaries import Boundaries
from tallytree.views.export.dictionary import Column
from tallytree.views.export.metadata_files import write_data_package
from tallytree.views.export.tables import ExportedTable

GEOMETRY = "geometry"


def with_boundaries(
    tables: Sequence[ExportedTable], boundaries: Mapping[str, Boundaries], *, named: bool
) -> tuple[ExportedTable, ...]:
    """The tables whose areas, or both of whose ends, have boundaries.

    Args:
        tables: to choose from.
        boundaries: by level.
        named: whether the user named the tables, so that none may be left out.

    Raises:
        ValueError: no table has boundaries, or not all that were named have.
    """
    found = tuple(table for table in tables if _sides_on_map(table, boundaries))
    if not found or (named and len(found) < len(tables)):
        missing = next(table.name for table in tables if table not in found)
        raise ValueError(
            f"boundaries: {', '.join(map(repr, boundaries)) or 'none'} given, but the areas of {missing!r} have none; "
            "give LEVEL=FILE for the level of its areas (of flows, for the levels of both ends)"
        )
    return found


def write_geoparquet_files(tables: Sequence[ExportedTable], boundaries: Mapping[str, Boundaries], folder: Path) -> None:
    """Write a GeoParquet file for each table, and `datapackage.json`.

    Args:
        tables: as `with_boundaries` returns them.
        boundaries: by level.
        folder: where to, an empty folder.
    """
    files, columns = {}, {}
    for table in tables:
        path = f"{table.stem}.parquet"
        sides = _sides_on_map(table, boundaries)
        if len(sides) == 1:
            frame, columns[path] = _areas(table, sides[0], boundaries)
        else:
            frame, columns[path] = _lines(table, sides, boundaries)
        frame.to_parquet(folder / path, compression="zstd", index=False)
        flush(folder / path)
        files[path] = table
    write_data_package(folder, files, tables[0].statement, kind="parquet", columns=columns)


def _sides_on_map(table: ExportedTable, boundaries: Mapping[str, Boundaries]) -> tuple[TreeSide, ...]:
    """The side with the areas of a table, or two of a table over pairs of areas. None where flows lack one."""
    paths = set(table.paths)
    sides = [side for side in table.sides if paths & set(side.columns) and _has_shapes(side, table, boundaries)]
    if not paths or len(sides) < len(kind_of(table.statement).sides):
        return ()
    return tuple(sides[:2])


def _has_shapes(side: TreeSide, table: ExportedTable, boundaries: Mapping[str, Boundaries]) -> bool:
    """Whether there are boundaries of the areas: another hierarchy may have a level of the same name."""
    found = boundaries.get(_level(side, table))
    return found is not None and found.fits(side.hierarchy)


def _level(side: TreeSide, table: ExportedTable) -> str:
    return side.hierarchy.levels[side.depth(side.named_in(table.paths))]


def _areas(table: ExportedTable, side: TreeSide, boundaries: Mapping[str, Boundaries]) -> tuple[Any, list[Column]]:
    """One row for each area: its path, its numbers (or lists of them), its shape."""
    import geopandas

    named = side.named_in(table.paths)
    of_area, count = side.columns[:named], side.size(named)
    paths = side.paths(np.arange(count, dtype=np.int64), named)
    parts, nodes, coarser = [], [], paths.slice(0, 0)
    for rows in table.coded_slices():
        node = _nodes(side, of_area, rows)
        # Rows that say how much is not listed of a coarser area follow the areas, one for each of these.
        others = decoded(rows.select(list(of_area)).filter(pa.array(node < 0))).cast(paths.schema)
        coarser = pa.concat_tables([coarser, others]).group_by(list(of_area), use_threads=False).aggregate([])
        nodes.append(node)
        parts.append(decoded(rows))
    whole, node = pa.concat_tables(parts), np.concatenate(nodes)
    if coarser.num_rows:
        place = {tuple(row.values()): count + i for i, row in enumerate(coarser.to_pylist())}
        others = whole.select(list(of_area)).filter(pa.array(node < 0)).to_pylist()
        node[node < 0] = [place[tuple(row.values())] for row in others]
        paths, count = pa.concat_tables([paths, coarser]), count + coarser.num_rows
    named_paths = side.with_names(paths) if table.with_names else paths
    beside = [name for name in whole.column_names if _labels_before(table, name) in of_area]  # labels, and their names
    rest = whole.drop_columns(beside)
    order = np.argsort(node, kind="stable")
    offsets = np.searchsorted(node[order], np.arange(count + 1))
    one_each = len(node) == count and bool((np.diff(offsets) == 1).all())
    rest = rest.take(pa.array(order)).combine_chunks()
    described = {column.name: column for column in table.columns}
    frame = {name: column.to_pandas() for name, column in zip(beside, named_paths.columns, strict=True)}
    columns = [described[name] for name in beside]
    for name in rest.column_names:
        values, column = rest.column(name).combine_chunks(), described[name]
        if not one_each:
            values = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)
            note = " A list, with an item for each published row of the area."
            column = replace(column, kind="array", role="value", description=column.description + note)
        frame[name] = values.to_pandas()
        columns.append(column)
    boundary = boundaries[_level(side, table)].frame
    shapes = np.append(boundary.geometry.to_numpy(), np.full(coarser.num_rows, None))
    made = geopandas.GeoDataFrame(frame, geometry=shapes, crs=boundary.crs)
    return made, [*columns, _geometry_column("The shape of the area.", made, table)]


def _labels_before(table: ExportedTable, column: str) -> str:
    """The column of labels that a column is, or has the names of; empty where it has numbers."""
    labels = ""
    for each in table.columns:
        labels = each.name if each.role.startswith("path") else labels
        if each.name == column:
            return labels if each.role.startswith(("path", "name")) else ""
    return ""


def _lines(
    table: ExportedTable, sides: Sequence[TreeSide], boundaries: Mapping[str, Boundaries]
) -> tuple[Any, list[Column]]:
    """The rows of pairs of areas, each with a line between its ends; a point where both ends are the same."""
    import geopandas
    import shapely

    rows = pa.concat_tables(table.coded_slices())
    ends, crs, placed = [], None, np.ones(rows.num_rows, dtype=np.bool_)
    for side in sides:
        frame = boundaries[_level(side, table)].frame
        crs = frame.crs
        points = frame.geometry.representative_point().to_numpy()
        nodes = _nodes(side, side.columns[: side.named_in(table.paths)], rows)
        placed &= (nodes >= 0) & ~shapely.is_missing(points)[nodes]
        ends.append(np.stack([shapely.get_x(points), shapely.get_y(points)], axis=1)[nodes])
    shapes = np.full(rows.num_rows, None, dtype=object)
    shapes[placed] = shapely.linestrings(np.stack(ends, axis=1)[placed])
    same = (ends[0] == ends[-1]).all(axis=1) & placed
    shapes[same] = shapely.points(ends[0][same])
    made = geopandas.GeoDataFrame(decoded(rows).to_pandas(), geometry=shapes, crs=crs)
    first, second = kind_of(table.statement).sides or [side.name for side in sides]
    meaning = f"A line from a point within the {first} to a point within the {second}; a point where these are one."
    return made, [*table.columns, _geometry_column(meaning, made, table)]


def _nodes(side: TreeSide, columns: Sequence[str], rows: pa.Table) -> IntArray:
    return side.nodes([rows.column(name) for name in columns], rows.num_rows)


def _geometry_column(meaning: str, made: Any, table: ExportedTable) -> Column:
    meaning += " Longitude and latitude in degrees, as WKB."
    if not made.geometry.isna().any():
        return Column(GEOMETRY, "any", "geometry", "", meaning)
    coarser = ", or the row says how much is not listed of a coarser area" if lists_remainders(table.statement) else ""
    return Column(GEOMETRY, "any", "shape or empty", "", f"{meaning} Empty: an area has no shape{coarser}.")
