"""Boundaries: the shapes of a level's nodes, for maps and for exports that programs for maps read.

They are public, come from a file of the publisher, and meet the hierarchy by a code. A map must not leave an area out
without a word. So every shape needs a node, and nodes without a shape, such as "other", are listed beside the map.
"""

from __future__ import annotations

import importlib.util
import io
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import Hierarchy
from tallytree.release.manifest import file_stem
from tallytree.release.view.sides import nodes_by_labels
from tallytree.support.arrays import BoolArray, IntArray
from tallytree.support.validate import path_text, require_packages, text
from tallytree.support.whole_files import write_whole

SUFFIXES = (".geojson", ".json", ".topojson", ".parquet", ".geoparquet")
COORDINATES = "EPSG:4326"
"""Longitude and latitude in degrees, as GeoJSON has them."""
KEPT = "boundaries"
"""The folder within that of a release in which boundaries are kept."""
SHOWN = 5
"""How many codes a message names."""


@dataclass(frozen=True)
class Boundaries:
    """The shapes of the nodes of a level, as far as they have one.

    Attributes:
        level: the level's name.
        frame: a geopandas GeoDataFrame in longitude and latitude; one row per node, in node order, with the columns
            `node` (int64, its number within the level), `label` (its own label) and `geometry` (None for no shape).
        hierarchy: the public tree.
    """

    level: str
    frame: Any
    hierarchy: Hierarchy

    @property
    def drawn(self) -> Any:
        """The rows with a shape."""
        return self.frame[self.frame.geometry.notna()]

    @property
    def paths(self) -> pa.Table:
        """The labels of each node, from the top down."""
        return self.hierarchy.path_table(self.hierarchy.levels.index(self.level), np.arange(len(self.frame)))

    def fits(self, hierarchy: Hierarchy) -> bool:
        """Whether a tree has the same nodes at the level, in the same order."""
        same = self.level in hierarchy.columns and hierarchy.size(hierarchy.levels.index(self.level)) == len(self.frame)
        return same and Boundaries(self.level, self.frame, hierarchy).paths.equals(self.paths)

    def simplified(self, max_points: int) -> Boundaries:
        """The rows with a shape, with fewer points, for pictures; shared borders stay shared.

        Args:
            max_points: about how many points all shapes may have together. Small shapes keep the few that they need,
                so it can be exceeded.
        """
        import shapely

        frame = self.drawn
        points = int(shapely.get_num_coordinates(frame.geometry.to_numpy()).sum())
        west, south, east, north = (float(each) for each in frame.total_bounds)
        tolerance = max(east - west, north - south, 1e-9) / 10_000
        for _ in range(12):  # each time twice as coarse, up to 2/5 of the picture
            if points <= max_points:
                break
            shapes = self.drawn.geometry.simplify_coverage(tolerance)
            frame = self.drawn.set_geometry(shapes)
            points = int(shapely.get_num_coordinates(shapes.to_numpy()).sum())
            tolerance *= 2
        return Boundaries(self.level, frame, self.hierarchy)

    def above(self) -> Boundaries | None:
        """The shapes of the level above: the shapes of its nodes' children together. None where no column has it."""
        depth = self.hierarchy.levels.index(self.level)
        if depth == 0 or self.hierarchy.levels[depth - 1] not in self.hierarchy.columns:
            return None
        parents = self.drawn.assign(node=self.hierarchy.parent[depth][self.drawn["node"]]).dissolve(by="node")
        return _of_nodes(self.hierarchy, depth - 1, parents.index.to_numpy(), parents.geometry)

    def features(self) -> list[dict[str, Any]]:
        """As GeoJSON features, each with the properties `node` and `label`; coordinates to about ten metres."""
        rounded = self.drawn.set_geometry(self.drawn.geometry.set_precision(1e-4))
        return list(json.loads(rounded.to_json())["features"])


def read_boundaries(path: str | Path, hierarchy: Hierarchy, level: str, *, code: str | None = None) -> Boundaries:
    """Read the shapes of a level's nodes from a file.

    Args:
        path: a GeoJSON file (.geojson, .json), a TopoJSON file (.topojson, .json) or a GeoParquet file (.parquet,
            .geoparquet).
        hierarchy: the public tree.
        level: the level whose nodes the shapes are. A node may have none.
        code: the property (the column) that has the nodes' labels; by default it is named like the level, or, where
            there is none, the features' own `id`. Where labels repeat within the level, the file must have a column for
            every level of the path.

    Raises:
        ValueError: an unknown level; a file that is missing, or of another kind, or has no such column; codes that
            repeat, or are no labels; no shape at all; no coordinate reference system.
        ModuleNotFoundError: geopandas is not installed.
    """
    name = text(level, "boundaries", "the name of a level")
    if name not in hierarchy.columns:
        raise ValueError(
            f"boundaries: {name!r} is not one of the hierarchy's levels {', '.join(hierarchy.columns)}; give "
            "LEVEL=FILE with one of them"
        )
    frame, depth = _read(_checked_file(path), name), hierarchy.levels.index(name)
    return _met(frame, hierarchy, depth, _code_columns(frame, hierarchy, depth, code))


def _met(frame: Any, hierarchy: Hierarchy, depth: int, columns: Sequence[str]) -> Boundaries:
    """The shapes of a frame by the nodes that these columns name.

    Raises:
        ValueError: they name none, or one twice; or there are no shapes.
    """
    codes = [_as_text(frame[column], column) for column in columns]
    nodes = (
        nodes_by_labels(hierarchy, depth, codes, len(frame))
        if len(columns) > 1
        else _by_label(hierarchy.labels[depth], codes[0])
    )
    _refuse_mismatch(nodes, codes[-1].to_pylist(), hierarchy.labels[depth], columns[-1])
    there = _has_shape(frame)
    if not there.any():
        raise ValueError("boundaries: no area has a shape; give another file")
    return _of_nodes(hierarchy, depth, nodes[there], frame.geometry[there])


def _of_nodes(hierarchy: Hierarchy, depth: int, nodes: IntArray, shapes: Any) -> Boundaries:
    """The boundaries of a level with the shapes of some of its nodes."""
    import geopandas

    every = np.arange(hierarchy.size(depth), dtype=np.int64)
    placed = geopandas.GeoSeries(shapes.to_numpy(), index=nodes, crs=shapes.crs).reindex(every)
    frame = geopandas.GeoDataFrame({"node": every, "label": hierarchy.labels[depth].to_pylist()}, geometry=placed)
    return Boundaries(hierarchy.levels[depth], frame, hierarchy)


def boundary_files(given: Sequence[str]) -> dict[str, str]:
    """What `--boundaries LEVEL=FILE` says, by level.

    Raises:
        ValueError: one is not of the form LEVEL=FILE, or a level is there twice.
    """
    found: dict[str, str] = {}
    for each in given:
        level, sign, path = (part.strip() for part in each.partition("="))
        if not (level and sign and path):
            raise ValueError(f"boundaries: {each[:80]!r} must be LEVEL=FILE, such as county=counties.geojson")
        if level in found:
            raise ValueError(f"boundaries: {level!r} is given twice; give one file for each level")
        found[level] = path
    return found


def boundaries_of(
    given: Sequence[str] | Mapping[str, Any], hierarchies: Mapping[str, Hierarchy], *, code: str | None = None
) -> dict[str, Boundaries]:
    """What `--boundaries LEVEL=FILE` names, by level, and the levels above, whose shapes follow.

    Args:
        given: texts LEVEL=FILE; or, by level, files or `Boundaries`.
        hierarchies: by the name of a level, the public tree that has it.
        code: the property with the labels, of all files.

    Raises:
        ValueError: not of that form, a level twice, or as `read_boundaries`.
    """
    found: dict[str, Boundaries] = {}
    for name, each in (given if isinstance(given, Mapping) else boundary_files(given)).items():
        if name not in hierarchies:
            raise ValueError(
                f"boundaries: {name!r} is not one of the release's levels {', '.join(hierarchies)}; give LEVEL=FILE "
                "with one of them"
            )
        tree = hierarchies[name]
        found[name] = each if isinstance(each, Boundaries) else read_boundaries(each, tree, name, code=code)
    for below in list(found.values()):
        above = below.above()
        while above is not None and above.level not in found:
            found[above.level] = above
            above = above.above()
    return found


def keep_boundaries(folder: str | Path, boundaries: Mapping[str, Boundaries]) -> None:
    """Write boundaries into the folder of a release, from where `kept_boundaries` reads them for its next report.

    They are public, and beside the release: release.json does not name them, so that it stays as it is. An area is
    named by its path.

    Raises:
        OSError: they cannot be written.
    """
    if not boundaries:
        return
    import geopandas

    place = Path(folder) / KEPT
    place.mkdir(exist_ok=True)
    for level, each in boundaries.items():
        named = geopandas.GeoDataFrame(each.paths.to_pandas(), geometry=each.frame.geometry)
        write_whole(place / f"{file_stem(level)}.parquet", named.to_parquet)


def kept_boundaries(folder: str | Path, hierarchies: Mapping[str, Hierarchy]) -> dict[str, Boundaries]:
    """The boundaries in the folder of a release, by level; none where geopandas is not installed.

    Those whose areas are not those of the tree are left out: an earlier release may have been in the folder.

    Args:
        folder: of the release.
        hierarchies: by the name of a level, the public tree that has it.

    Raises:
        ValueError: a file cannot be read.
    """
    found: dict[str, Boundaries] = {}
    if importlib.util.find_spec("geopandas") is None:
        return found
    for level, hierarchy in hierarchies.items():
        file = Path(folder) / KEPT / f"{file_stem(level)}.parquet"
        if level in hierarchy.columns and file.is_file():
            frame, depth = _read(file, level), hierarchy.levels.index(level)
            path = hierarchy.path_columns(depth)
            with suppress(ValueError):
                if {*path} <= {*frame.columns}:
                    found[level] = _met(frame, hierarchy, depth, path)
    return found


def _checked_file(path: str | Path) -> Path:
    place = Path(path_text(path, "boundaries"))
    if place.suffix.lower() not in SUFFIXES:
        raise ValueError(
            f"boundaries: {place.name!r} must be GeoJSON (.geojson, .json), TopoJSON (.topojson) or GeoParquet "
            "(.parquet)"
        )
    if not place.is_file():
        raise ValueError(f"boundaries: {str(place)!r} is no file; give the path of a GeoJSON or GeoParquet file")
    require_packages("boundaries", repr(place.name), ("geopandas", "shapely"), "maps")
    return place


def _read(place: Path, level: str) -> Any:
    """The file as a GeoDataFrame in longitude and latitude, of valid areas; ids of features are the column `id`.

    JSON is parsed here: GDAL would take a file of that name for whatever its content says, and some of its formats name
    other files, and addresses.
    """
    import geopandas

    of_parquet = place.suffix.lower() in (".parquet", ".geoparquet")
    try:
        frame = geopandas.read_parquet(place) if of_parquet else _of_json(place, level)
        shapes = frame.geometry
    except Exception as error:  # noqa: BLE001  (each of its readers has errors of its own)
        kind = "GeoParquet" if of_parquet else "GeoJSON"
        raise ValueError(
            f"boundaries: {place.name!r} cannot be read as {kind} ({type(error).__name__}); give another file"
        ) from None
    if len(frame) == 0:
        raise ValueError(f"boundaries: {place.name!r} has no shapes; give one for each area")
    if shapes.crs is None:
        raise ValueError(
            f"boundaries: {place.name!r} does not say its coordinate reference system; write it with one, such as "
            f"{COORDINATES}"
        )
    return _areas_alone(frame.to_crs(COORDINATES), place)


def _of_json(place: Path, level: str) -> Any:
    import geopandas

    found = json.loads(place.read_text(encoding="utf-8"))
    if found["type"] == "Topology":  # GDAL takes a text that begins so for nothing else
        topology = io.BytesIO(json.dumps({"type": "Topology", **found}).encode())
        layer = level if level in found["objects"] else next(iter(found["objects"]))
        return geopandas.read_file(topology, layer=layer).set_crs(COORDINATES)
    named = found.get("crs")  # of GeoJSON before RFC 7946
    given = COORDINATES if named is None else named["properties"]["name"]
    frame = geopandas.GeoDataFrame.from_features(found["features"], crs=given)
    ids = [each.get("id") for each in found["features"]]
    return frame if "id" in frame.columns or not any(each is not None for each in ids) else frame.assign(id=ids)


def _areas_alone(frame: Any, place: Path) -> Any:
    """The frame, once every shape that is there is an area on the globe; those that cross themselves are mended."""
    present = _has_shape(frame)
    kinds = set(frame.geometry[present].geom_type) - {"Polygon", "MultiPolygon"}
    if kinds:
        raise ValueError(
            f"boundaries: {place.name!r} has a {min(kinds)}; every shape must be a Polygon or a MultiPolygon"
        )
    if present.any():
        ends = frame.geometry[present].total_bounds
        if not (np.isfinite(ends).all() and ends[0] >= -361 and ends[2] <= 361 and ends[1] >= -91 and ends[3] <= 91):
            raise ValueError(
                f"boundaries: {place.name!r} has coordinates that are no longitude and latitude; is its coordinate "
                "reference system right?"
            )
    # "structure" makes polygons of polygons, and no lines beside them, which cannot be simplified.
    return frame.set_geometry(frame.geometry.make_valid(method="structure", keep_collapsed=False))


def _has_shape(frame: Any) -> BoolArray:
    """Whether each row has one; none is null or empty."""
    import shapely

    shapes = frame.geometry.to_numpy()
    return np.asarray(~(shapely.is_missing(shapes) | shapely.is_empty(shapes)))


def _code_columns(frame: Any, hierarchy: Hierarchy, depth: int, code: str | None) -> list[str]:
    """The columns by which shapes meet nodes: the code alone, or the whole path where labels repeat."""
    labels = hierarchy.labels[depth]
    own = hierarchy.levels[depth] if code is None else text(code, "boundary_code", "the name of a column")
    path = list(hierarchy.path_columns(depth))
    if code is None and own not in frame.columns and "id" in frame.columns:
        own = "id"
    columns = [own] if len(labels.unique()) == len(labels) else [*path[:-1], own]
    missing = [column for column in columns if column not in frame.columns or column == frame.geometry.name]
    if missing:
        known = ", ".join(str(column) for column in frame.columns if column != frame.geometry.name)
        why = "" if len(columns) == 1 else f" (labels of {path[-1]!r} repeat, so the whole path is needed)"
        raise ValueError(
            f"boundary_code: the boundaries have no column {missing[0]!r}{why}; they have {known or 'none'}: name the "
            "one with the labels"
        )
    return columns


def _as_text(column: Any, name: str) -> pa.ChunkedArray:
    """A column of codes as text; whole numbers as decimal text."""
    if column.isna().any():
        raise ValueError(f"boundary_code: the column {name!r} of the boundaries has empty codes; fill them in")
    if column.dtype.kind == "f" and (column % 1 == 0).all():
        column = column.astype("int64")
    return pa.chunked_array([pa.array([str(value) for value in column], pa.large_string())])


def _by_label(labels: pa.Array, codes: pa.ChunkedArray) -> IntArray:
    """The place of each code among distinct labels, −1 for none."""
    import pyarrow.compute as pc

    places = pc.index_in(codes, labels.cast(pa.large_string())).fill_null(-1)
    return np.asarray(places.to_numpy(), dtype=np.int64)


def _refuse_mismatch(nodes: IntArray, codes: list[str], labels: pa.Array, column: str) -> None:
    """Refuse codes that are no label or come twice; each is named."""
    unknown = np.flatnonzero(nodes < 0)
    numbers, times = np.unique(nodes[nodes >= 0], return_counts=True)
    missing, twice = np.setdiff1d(np.arange(len(labels)), numbers), numbers[times > 1]
    faults = []
    if len(unknown):
        faults.append(f"{_named(codes, unknown)} of the boundaries {'is' if len(unknown) == 1 else 'are'} no area")
        if len(missing):
            faults.append(f"{_named(labels, missing)} {'has' if len(missing) == 1 else 'have'} no boundary")
    if len(twice):
        faults.append(f"{_named(labels, twice)} {'comes' if len(twice) == 1 else 'come'} twice")
    if faults:
        raise ValueError(
            f"boundaries: the codes in {column!r} do not match: {'; '.join(faults)}; every boundary needs an area, and "
            "no area has two"
        )


def _named(labels: Any, places: IntArray) -> str:
    """The first few labels, and how many more there are."""
    shown = ", ".join(repr(str(labels[int(place)])[:60]) for place in places[:SHOWN])
    return shown if len(places) <= SHOWN else f"{shown} and {len(places) - SHOWN:,} more"
