"""Boundaries: the shapes of a level's nodes, for maps and for exports that programs for maps read.

They are public, come from a file of the publisher, and meet the hierarchy by a code. A map must not leave an area out
without a word. So every node of the level needs exactly one shape, and every shape a node, but for pages that list the
nodes without one, such as "abroad".
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree._compute.arrays import IntArray
from tallytree._compute.whole_files import write_whole
from tallytree._validate import path_text, require_packages, text
from tallytree.hierarchy import Hierarchy
from tallytree.release.manifest import file_stem
from tallytree.release.view.sides import nodes_by_labels

SUFFIXES = (".geojson", ".json", ".parquet", ".geoparquet")
COORDINATES = "EPSG:4326"
"""Longitude and latitude in degrees, as GeoJSON has them."""
KEPT = "boundaries"
"""The folder within that of a release in which boundaries are kept."""
SHOWN = 5
"""How many codes a message names."""


@dataclass(frozen=True)
class Boundaries:
    """The shapes of all nodes of a level, or of those that have one.

    Attributes:
        level: the level's name.
        frame: a geopandas GeoDataFrame in longitude and latitude; one row per shape, in node order, with the columns
            `node` (int64, its number within the level), `label` (its own label) and `geometry`.
    """

    level: str
    frame: Any

    def simplified(self, max_points: int) -> Boundaries:
        """The same with fewer points, for pictures; shared borders stay shared.

        Args:
            max_points: about how many points all shapes may have together. Small shapes keep the few that they need,
                so it can be exceeded.
        """
        import shapely

        frame = self.frame
        points = int(shapely.get_num_coordinates(frame.geometry.to_numpy()).sum())
        west, south, east, north = (float(each) for each in frame.total_bounds)
        tolerance = max(east - west, north - south, 1e-9) / 10_000
        for _ in range(12):  # each time twice as coarse, up to 2/5 of the picture
            if points <= max_points:
                break
            shapes = self.frame.geometry.simplify_coverage(tolerance)
            frame = self.frame.set_geometry(shapes)
            points = int(shapely.get_num_coordinates(shapes.to_numpy()).sum())
            tolerance *= 2
        return Boundaries(self.level, frame)

    def above(self, hierarchy: Hierarchy) -> Boundaries | None:
        """The shapes of the level above: the shapes of its nodes' children together. None where no column has it."""
        depth = hierarchy.levels.index(self.level)
        if depth == 0 or hierarchy.levels[depth - 1] not in hierarchy.columns:
            return None
        parents = self.frame.assign(node=hierarchy.parent[depth][self.frame["node"]]).dissolve(by="node").reset_index()
        labels = hierarchy.labels[depth - 1].take(pa.array(parents["node"])).to_pylist()
        return Boundaries(hierarchy.levels[depth - 1], parents.assign(label=labels)[["node", "label", "geometry"]])

    def features(self) -> list[dict[str, Any]]:
        """As GeoJSON features, each with the properties `node` and `label`; coordinates to about ten metres."""
        rounded = self.frame.set_geometry(self.frame.geometry.set_precision(1e-4))
        return list(json.loads(rounded.to_json())["features"])


def read_boundaries(
    path: str | Path, hierarchy: Hierarchy, level: str, *, code: str | None = None, all_areas: bool = True
) -> Boundaries:
    """Read the shapes of a level's nodes from a file.

    Args:
        path: a GeoJSON file (.geojson, .json) or a GeoParquet file (.parquet, .geoparquet).
        hierarchy: the public tree.
        level: the level whose nodes the shapes are.
        code: the property (the column) that has the nodes' labels; by default it is named like the level. Where labels
            repeat within the level, the file must have a column for every level of the path.
        all_areas: whether every node must have a shape.

    Raises:
        ValueError: an unknown level; a file that is missing, or of another kind, or has no such column; codes that
            repeat, or do not match the labels; a shape that is missing; no coordinate reference system.
        ModuleNotFoundError: geopandas is not installed.
    """
    name = text(level, "boundaries", "the name of a level")
    if name not in hierarchy.columns:
        raise ValueError(
            f"boundaries: {name!r} is not one of the hierarchy's levels {', '.join(hierarchy.columns)}; give "
            "LEVEL=FILE with one of them"
        )
    place = _checked_file(path)
    frame = _read(place)
    depth = hierarchy.levels.index(name)
    columns = _code_columns(frame, hierarchy, depth, code)
    codes = [_as_text(frame[column], column) for column in columns]
    nodes = (
        nodes_by_labels(hierarchy, depth, codes, len(frame))
        if len(columns) > 1
        else _by_label(hierarchy.labels[depth], codes[0])
    )
    _refuse_mismatch(nodes, codes[-1].to_pylist(), hierarchy.labels[depth], columns[-1], all_areas=all_areas)
    order = np.argsort(nodes)
    shapes, nodes = frame.geometry.iloc[order].reset_index(drop=True), nodes[order]
    missing = (shapes.isna() | shapes.is_empty).to_numpy()
    if missing.any() and not all_areas:
        shapes, nodes = shapes[~missing].reset_index(drop=True), nodes[~missing]
    elif missing.any():
        absent = nodes[missing]
        raise ValueError(
            f"boundaries: {place.name!r} has no shape for {_named(hierarchy.labels[depth], absent)}; "
            "give every area one"
        )
    import geopandas

    made = geopandas.GeoDataFrame(
        {"node": nodes, "label": hierarchy.labels[depth].take(pa.array(nodes)).to_pylist()}, geometry=shapes
    )
    return Boundaries(name, made)


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
    given: Sequence[str], hierarchies: Mapping[str, Hierarchy], *, code: str | None = None, all_areas: bool = True
) -> dict[str, Boundaries]:
    """What `--boundaries LEVEL=FILE` names, by level, and the levels above, whose shapes follow.

    Args:
        given: texts LEVEL=FILE.
        hierarchies: by the name of a level, the public tree that has it.
        code: the property with the labels, of all files.
        all_areas: whether every node must have a shape.

    Raises:
        ValueError: not of that form, a level twice, or as `read_boundaries`.
    """
    found: dict[str, Boundaries] = {}
    for name, path in boundary_files(given).items():
        if name not in hierarchies:
            raise ValueError(
                f"boundaries: {name!r} is not one of the release's levels {', '.join(hierarchies)}; give LEVEL=FILE "
                "with one of them"
            )
        found[name] = read_boundaries(path, hierarchies[name], name, code=code, all_areas=all_areas)
    for below in list(found.values()):
        tree, above = hierarchies[below.level], below.above(hierarchies[below.level])
        while above is not None and above.level not in found:
            found[above.level] = above
            above = above.above(tree)
    return found


def keep_boundaries(folder: str | Path, boundaries: Mapping[str, Boundaries]) -> None:
    """Write boundaries into the folder of a release, from where `kept_boundaries` reads them for its next report.

    They are public, and beside the release: release.json does not name them, so that it stays as it is.

    Raises:
        OSError: they cannot be written.
    """
    place = Path(folder) / KEPT
    if boundaries:
        place.mkdir(exist_ok=True)
    for level, each in boundaries.items():
        write_whole(place / f"{file_stem(level)}.parquet", each.frame.to_parquet)


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
            frame = _read(file)
            labels = hierarchy.labels[hierarchy.levels.index(level)].to_pylist()
            if "label" in frame.columns and frame["label"].tolist() == labels:
                found[level] = Boundaries(level, frame)
    return found


def _checked_file(path: str | Path) -> Path:
    place = Path(path_text(path, "boundaries"))
    if place.suffix.lower() not in SUFFIXES:
        raise ValueError(f"boundaries: {place.name!r} must be GeoJSON (.geojson, .json) or GeoParquet (.parquet)")
    if not place.is_file():
        raise ValueError(f"boundaries: {str(place)!r} is no file; give the path of a GeoJSON or GeoParquet file")
    require_packages("boundaries", repr(place.name), ("geopandas", "shapely"), "maps")
    return place


def _read(place: Path) -> Any:
    """The file as a GeoDataFrame in longitude and latitude, of valid areas.

    GeoJSON is parsed here: GDAL would take a file of that name for whatever its content says, and some of its formats
    name other files, and addresses.
    """
    import geopandas

    of_parquet = place.suffix.lower() in (".parquet", ".geoparquet")
    try:
        frame = geopandas.read_parquet(place) if of_parquet else _of_geojson(place)
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


def _of_geojson(place: Path) -> Any:
    import geopandas

    found = json.loads(place.read_text(encoding="utf-8"))
    named = found.get("crs")  # of GeoJSON before RFC 7946
    given = COORDINATES if named is None else named["properties"]["name"]
    return geopandas.GeoDataFrame.from_features(found["features"], crs=given)


def _areas_alone(frame: Any, place: Path) -> Any:
    """The frame, once every shape that is there is an area on the globe; those that cross themselves are mended."""
    present = frame.geometry.notna() & ~frame.geometry.is_empty
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
    return frame.set_geometry(frame.geometry.make_valid())


def _code_columns(frame: Any, hierarchy: Hierarchy, depth: int, code: str | None) -> list[str]:
    """The columns by which shapes meet nodes: the code alone, or the whole path where labels repeat."""
    labels = hierarchy.labels[depth]
    own = hierarchy.levels[depth] if code is None else text(code, "boundary_code", "the name of a column")
    path = list(hierarchy.path_columns(depth))
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


def _refuse_mismatch(nodes: IntArray, codes: list[str], labels: pa.Array, column: str, *, all_areas: bool) -> None:
    """Refuse codes that are no label or come twice, and, of `all_areas`, labels without a code; each is named."""
    unknown = np.flatnonzero(nodes < 0)
    missing = np.setdiff1d(np.arange(len(labels)), nodes)
    faults = []
    if len(unknown):
        faults.append(f"{_named(codes, unknown)} of the boundaries {'is' if len(unknown) == 1 else 'are'} no area")
    if len(missing) and all_areas:
        faults.append(f"{_named(labels, missing)} {'has' if len(missing) == 1 else 'have'} no boundary")
    if not faults:
        numbers, times = np.unique(nodes, return_counts=True)
        twice = numbers[times > 1]
        if len(twice):
            faults.append(f"{_named(labels, twice)} {'comes' if len(twice) == 1 else 'come'} twice")
    if faults:
        needed = "every area needs one boundary, and every boundary an area"
        if not all_areas:
            needed = "every boundary needs an area, and no area has two"
        raise ValueError(f"boundaries: the codes in {column!r} do not match: {'; '.join(faults)}; {needed}")


def _named(labels: Any, places: IntArray) -> str:
    """The first few labels, and how many more there are."""
    shown = ", ".join(repr(str(labels[int(place)])[:60]) for place in places[:SHOWN])
    return shown if len(places) <= SHOWN else f"{shown} and {len(places) - SHOWN:,} more"
