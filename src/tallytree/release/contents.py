"""The files in the folder of a release, compared with what its release.json says of them.

Nothing here quotes a row of a file: a path in a damaged or forged release.json may lead to any table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from tallytree.kinds.columns import LISTED_FROM, PROBABILITY_ZERO, TYPICAL_ERROR, UNBIASED
from tallytree.kinds.contributions import CONTRIBUTIONS
from tallytree.kinds.registry import kind_of
from tallytree.release.files import sha256
from tallytree.release.manifest import FOLDERS, MANIFEST, NOT_ITS_TREE, contributions_files, detail_files, table_name
from tallytree.sources.failures import Withheld

_TYPES = {"std_dev": "float", "ci_lower": "integer", "ci_upper": "integer", "size": "integer", "value": "integer"}
_TYPES |= {"records_from": "integer", "records_to": "integer", "people": "integer"}
_TYPES |= {
    "tail_count": "integer",
    "tail_std_dev": "float",
    "persons": "integer",
    "persons_std_dev": "float",
    "households_std_dev": "float",
    TYPICAL_ERROR: "float",
    UNBIASED: "float",
    LISTED_FROM: "float",
    PROBABILITY_ZERO: "float",
}
_TYPES |= {"count": "number", "groups": "number", "values": "integers"}


def check_files(place: Path, manifest: Mapping[str, Any]) -> None:
    """Compare every file with the manifest and the statement: where it is, its checksum, its rows and its columns.

    Args:
        place: the folder, an absolute path.
        manifest: of the release, as `read_manifest` returns it.

    Raises:
        ValueError: a file is missing, changed or outside the folder; it has other rows than the manifest says; or other
            columns, or another number of rows, than a release with this statement has.
    """
    root = place.resolve()
    _require_inside(root, place, MANIFEST)
    for name, facts in manifest["files"].items():
        _require_inside(root, place, name)
        if sha256(place / name) != facts["sha256"]:
            raise ValueError(_changed(place / name))
    kind = kind_of(manifest["statement"])
    if kind.parts:
        return  # these compare their files themselves
    for name in contributions_files(manifest["statement"])[:1]:
        _check_people(place, manifest, name)
    if kind.has_tree:
        _check_hierarchies(place, manifest)
    for depth, about in enumerate(manifest["statement"]["levels"]):
        _check_level(place, manifest, depth, about)
    for name in detail_files(manifest["statement"]):
        _check_detail(place, manifest, name)


def _changed(path: Path) -> str:
    return f"folder: {str(path)!r} is missing or was changed; take a fresh copy of the release"


def _require_inside(root: Path, place: Path, name: str) -> None:
    """Refuse a file that is missing or that a link leads out of the folder to."""
    try:
        real = (place / name).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):  # a missing file, a loop of links, a name with a null character
        raise ValueError(_changed(place / name)) from None
    if not real.is_relative_to(root):
        raise ValueError(
            f"folder: {str(place / name)!r} leads outside the folder; a release has all its files in its own folder, "
            "so take a fresh copy of it"
        )
    if not real.is_file():
        raise ValueError(_changed(place / name))


def _check_level(place: Path, manifest: Mapping[str, Any], depth: int, about: Mapping[str, Any]) -> None:
    kind, level = kind_of(manifest["statement"]), about["level"]
    paths = _path_columns(manifest, depth)
    published, measured = (table_name(folder, level, kind) for folder in FOLDERS)
    schema, rows = _opened(place, manifest, published)
    if not any(_has_columns(schema, paths, (*kind.keys, kind.number, *errors)) for errors in kind.errors):
        raise ValueError(_other_columns(place / published))
    listed = about["zeros_listed"] if kind.has_tables else kind.has_tree and manifest["tree"]["kind"] == "hierarchy"
    if not kind.by_size and (rows > about["nodes"] or (listed and rows < about["nodes"])):
        raise ValueError(_other_rows(place / published))
    schema, rows = _opened(place, manifest, measured)
    if not _has_columns(schema, paths, (*kind.measured, "std_dev")):
        raise ValueError(_other_columns(place / measured))
    if rows > (about["nodes"] if about["measured"] else 0):
        raise ValueError(_other_rows(place / measured))


def _check_people(place: Path, manifest: Mapping[str, Any], name: str) -> None:
    """Refuse a file of people by their number of records that has other columns."""
    schema, _ = _opened(place, manifest, name)
    if not _has_columns(schema, (), (*CONTRIBUTIONS.keys, CONTRIBUTIONS.number, "std_dev")):
        raise ValueError(_other_columns(place / name))


def _check_detail(place: Path, manifest: Mapping[str, Any], name: str) -> None:
    """Refuse a file of the cells that all tables are sums of that has not the columns of every table, and a number."""
    schema, _ = _opened(place, manifest, name)
    sides = manifest["tree"].get("attributes", [])
    paths = [column for side in sides for column in _down_to(side["columns"], schema.names)]
    tables = [column for depth in range(len(manifest["levels"])) for column in _path_columns(manifest, depth)]
    whole = _has_columns(schema, paths, ("count",)) and schema.field("count").type == pa.int64()
    if not whole or not set(tables) <= set(paths):
        raise ValueError(_other_columns(place / name))


def _check_hierarchies(place: Path, manifest: Mapping[str, Any]) -> None:
    tree = manifest["tree"]
    sides = [tree] if tree["kind"] == "hierarchy" else tree["attributes"]
    leaves = []
    for side in sides:
        schema, rows = _opened(place, manifest, side["file"])
        names = [column for by_language in side.get("labels", {}).values() for column in by_language.values()]
        if not _has_columns(schema, [*side["levels"], *names], ()):
            raise ValueError(f"folder: {str(place)!r} {NOT_ITS_TREE}; take a fresh copy of the release")
        leaves.append(rows)
    finest = manifest["statement"]["levels"][-1]
    if kind_of(manifest["statement"]).nested and prod(leaves) != finest["nodes"]:  # a table need not have all leaves
        raise ValueError(_other_rows(place / sides[0]["file"]))


def _opened(place: Path, manifest: Mapping[str, Any], name: str) -> tuple[pa.Schema, int]:
    """The columns of a Parquet file and its number of rows, once that is the number in the manifest."""
    schema: pa.Schema | None = None
    rows = 0
    with Withheld(pa.ArrowException, OSError, ValueError), pa.parquet.ParquetFile(place / name) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
    if schema is None:
        raise ValueError(
            f"folder: {str(place / name)!r} is not a readable Parquet file; take a fresh copy of the release"
        )
    if rows != manifest["files"][name]["rows"]:
        raise ValueError(_other_rows(place / name))
    return schema, rows


def _other_rows(path: Path) -> str:
    return f"folder: {str(path)!r} has another number of rows than {MANIFEST} says; take a fresh copy of the release"


def _other_columns(path: Path) -> str:
    return (
        f"folder: {str(path)!r} has other columns than a release with this statement; take a fresh copy of the release"
    )


def _path_columns(manifest: Mapping[str, Any], depth: int) -> Sequence[str]:
    """The path columns of a level."""
    kind = kind_of(manifest["statement"])
    if not kind.has_tree:
        return ()
    tree = manifest["tree"]
    if tree["kind"] == "hierarchy":
        root_added = len(tree["levels"]) < len(manifest["levels"])
        return list(tree["levels"][: depth + (0 if root_added else 1)])
    if kind.has_tables:
        named = manifest["statement"]["levels"][depth]["table"]
        return [column for side in tree["attributes"] for column in _down_to(side["columns"], named)]
    refined = tree["order"][:depth]
    return [column for side in tree["attributes"] for column in side["columns"][: refined.count(side["name"])]]


def _down_to(columns: Sequence[str], named: Sequence[str]) -> Sequence[str]:
    """The columns of a hierarchy down to the one that a table is named by; none where it names none."""
    depths = [depth for depth, column in enumerate(columns, 1) if column in named]
    return columns[: max(depths, default=0)]


def _has_columns(schema: pa.Schema, paths: Sequence[str], numbers: Sequence[str]) -> bool:
    """Whether a file has exactly the path columns, as text, and after them the columns of numbers."""
    if schema.names != [*paths, *numbers]:
        return False
    wanted = [*["text"] * len(paths), *(_TYPES[name] for name in numbers)]
    return all(_is(kind, field.type) for kind, field in zip(wanted, schema, strict=True))


def _is(kind: str, type_: pa.DataType) -> bool:
    if kind == "text":
        return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))
    if kind == "integers":
        return bool(pa.types.is_list(type_)) and type_.value_type == pa.int64()
    allowed = {"integer": [pa.int64()], "float": [pa.float64()], "number": [pa.int64(), pa.float64()]}
    return type_ in allowed[kind]
