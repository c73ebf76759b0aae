"""From taxi trips to the groups of Kuo et al. 2018: taxis by neighbourhood and number of pickups."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from tallytree.hierarchy import Hierarchy
from tallytree.support.arrays import IntArray
from tallytree.support.validate import path_text, require_packages
from tallytree.views.boundaries import Boundaries, read_boundaries

__all__ = ["read_boundaries", "taxis_from_trips"]


def taxis_from_trips(
    trips: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    areas: Hierarchy,
    boundaries: Boundaries,
    *,
    taxi: str = "medallion",
    longitude: str = "pickup_longitude",
    latitude: str = "pickup_latitude",
) -> pa.Table:
    """Count the pickups of each taxi in each neighbourhood, and then the taxis by that number.

    A taxi is a group of each neighbourhood where it has a pickup, as in the paper (section 6.1: 143,540,889 trips of
    2013 in Manhattan's 28 neighbourhoods). Trips that begin elsewhere are left out. Trips are read in parts.

    Args:
        trips: CSV files with a header, or Parquet files. Spaces around the columns' names do not matter: the files
            `trip_data_1.csv` to `trip_data_12.csv` of 2013 have them.
        areas: the neighbourhoods, for instance with the levels `half` and `neighbourhood`.
        boundaries: their shapes, from `read_boundaries`.
        taxi: the column that tells taxis apart.
        longitude: the column of the pickup's longitude, in degrees.
        latitude: of its latitude.

    Returns:
        The path columns of `areas`, `size` (pickups, ≥ 1) and `groups` (taxis), in the areas' order, then by size.

    Raises:
        ValueError: no file, or a column that is missing.
        ModuleNotFoundError: the extra `maps` is not installed.
    """
    require_packages("boundaries", "the search for a trip's neighbourhood", ("geopandas", "shapely"), "maps")
    files = [trips] if isinstance(trips, str | os.PathLike) else list(trips)
    if not files:
        raise ValueError("trips: no file is given; give at least one")
    labels: dict[str, int] = {}
    counted: dict[int, int] = {}
    for file in files:
        path = path_text(file, "trips")
        source = pyarrow.dataset.dataset(path, format="parquet" if path.endswith(".parquet") else "csv")
        columns = _found(source.schema.names, (taxi, longitude, latitude), path)
        for batch in source.to_batches(columns=columns):
            node = _nodes(batch, columns, boundaries)
            number = np.array([labels.setdefault(name, len(labels)) for name in _distinct(batch[columns[0]])])
            keys = number[_codes(batch[columns[0]])] * areas.n_leaves + node
            for key, pickups in zip(*np.unique(keys[node >= 0], return_counts=True), strict=True):
                counted[int(key)] = counted.get(int(key), 0) + int(pickups)
    return _by_size(areas, counted)


def _found(names: Sequence[str], wanted: Sequence[str], path: str) -> list[str]:
    stripped = {name.strip(): name for name in names}
    missing = [name for name in wanted if name not in stripped]
    if missing:
        raise ValueError(f"trips: column {missing[0]!r} is missing in {path!r}; it has {', '.join(stripped)}")
    return [stripped[name] for name in wanted]


def _nodes(batch: pa.RecordBatch, columns: Sequence[str], boundaries: Boundaries) -> IntArray:
    """The neighbourhood of each trip: int64 (rows,), −1 elsewhere."""
    import shapely

    degrees = [pc.cast(batch[name], pa.float64()).to_numpy(zero_copy_only=False) for name in columns[1:]]
    points = shapely.points(*degrees)
    node = np.full(batch.num_rows, -1, dtype=np.int64)
    trip, shape = shapely.STRtree(boundaries.frame.geometry.to_numpy()).query(points, predicate="intersects")
    node[trip] = boundaries.frame["node"].to_numpy()[shape]
    return node


def _distinct(column: pa.Array) -> list[str]:
    return [str(name) for name in column.dictionary_encode().dictionary.to_pylist()]


def _codes(column: pa.Array) -> IntArray:
    codes: IntArray = column.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _by_size(areas: Hierarchy, counted: dict[int, int]) -> pa.Table:
    """Numbers of pickups by (taxi, leaf) as groups by leaf and size."""
    leaf = np.fromiter(counted, dtype=np.int64, count=len(counted)) % areas.n_leaves
    size = np.fromiter(counted.values(), dtype=np.int64, count=len(counted))
    pairs, groups = np.unique(np.stack([leaf, size]), axis=1, return_counts=True)
    table = areas.leaf_table().take(pa.array(pairs[0]))
    return table.append_column("size", pa.array(pairs[1])).append_column("groups", pa.array(groups))
