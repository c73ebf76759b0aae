"""`release.json`: what a folder must say to be a complete release, and how its files are named.

`digest` covers the whole manifest, and the manifest has the checksum of every other file. So a folder that was damaged,
or edited in one place, is refused. A digest is not a signature: whoever can write to the folder can compute it again.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tallytree.kinds.kind import Kind
from tallytree.kinds.registry import kind_of

FORMATS = WITHOUT_DETAIL, FORMAT_VERSION = 3, 4
"""The formats that are written and read: that of folders without a detail of tables, and that of all others."""
MANIFEST = "release.json"
REPORT = "report.html"
"""The report on the other files; not one of those that the manifest names."""
_DIGEST = "digest"
FOLDERS = ("tables", "measurements")
"""Each has a Parquet file for every level."""
_OF_TREE = "hierarchies/"
DETAIL_FILE = "detail.parquet"
"""The cells that all tables are sums of, where they are published; `detail` in the statement says so."""
CONTRIBUTIONS = "contributions"
"""The stem of the file of people by their number of records beside other tables, and their key in a statement."""


def file_stem(level: str) -> str:
    """A level's name as a file name: percent-encoded where a file system could mind (letters of any script stay)."""
    stem = "".join(c if c.isalnum() or c in "_- " else "".join(f"%{byte:02X}" for byte in c.encode()) for c in level)
    if len(stem.encode()) > 150:  # file systems allow 255 bytes, and the suffix and a temporary prefix need some
        stem = f"{stem.encode()[:100].decode(errors='ignore')}-{hashlib.sha256(level.encode()).hexdigest()[:32]}"
    return stem


def table_stem(level: str, kind: Kind) -> str:
    """The stem of a level's file; a table is named by its levels with dots between them, which stay."""
    if not kind.has_tables:
        return file_stem(level)
    stem = ".".join(file_stem(part) for part in level.split("."))
    return stem if len(stem.encode()) <= 150 else file_stem(level)


def table_name(folder: str, level: str, kind: Kind) -> str:
    """The Parquet file of a level in `"tables"` or `"measurements"`, relative to the folder of the release."""
    return f"{folder}/{table_stem(level, kind)}.parquet"


def manifest_text(manifest: Mapping[str, Any]) -> str:
    """The text of release.json, with the digest of all the rest.

    Args:
        manifest: what it says, JSON-able, without a digest.
    """
    # Parsed again first: a reader has the parsed keys and values only, and the digest is of these.
    plain = json.loads(json.dumps(manifest, ensure_ascii=False, allow_nan=False))
    return json.dumps(plain | {_DIGEST: digest_of(plain)}, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def digest_of(manifest: Mapping[str, Any]) -> str:
    """The sha256, in hexadecimal, of a parsed manifest without its digest.

    It is taken of the canonical text: keys sorted, no spaces, characters outside ASCII escaped.
    """
    rest = {key: value for key, value in manifest.items() if key != _DIGEST}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()).hexdigest()


def read_manifest(place: Path) -> dict[str, Any]:
    """What release.json says, once it has all that a release needs and agrees with its digest.

    Raises:
        ValueError: it cannot be read, is of another format version, misses something, contradicts itself, names files
            that are no part of a release, or was changed since it was written.
    """
    try:
        manifest = _parsed(place / MANIFEST)
    except (OSError, ValueError, RecursionError):
        raise ValueError(f"folder: {str(place)!r} is not a complete release; it has no readable {MANIFEST}") from None
    version = manifest.get("format_version") if isinstance(manifest, dict) else None
    if type(version) is not int or version not in FORMATS:
        raise ValueError(
            f"folder: {str(place)!r} has format version {version!r}; this tallytree reads "
            f"{' and '.join(map(str, FORMATS))}; read it with the version that wrote it, or make the release again"
        )
    missing = _missing_from(manifest)
    if missing:
        raise ValueError(
            f"folder: {str(place)!r} is not a complete release; its {MANIFEST} has no usable {missing}; take a fresh "
            "copy of the release"
        )
    fault = _tree_fault(manifest) or _digest_fault(manifest) or _contradiction(manifest)
    if fault:
        raise ValueError(f"folder: {str(place)!r} {fault}; take a fresh copy of the release")
    return dict(manifest)


def _parsed(path: Path) -> Any:
    """The JSON in a file; no key twice, since readers differ in which of the two they take, and finite numbers only."""
    if not path.is_file():  # a named pipe would be waited for
        raise ValueError

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            raise ValueError
        return made

    def finite(number: str) -> float:
        if not math.isfinite(float(number)):
            raise ValueError
        return float(number)

    text = path.read_text(encoding="utf-8")
    return json.loads(text, object_pairs_hook=once, parse_constant=finite, parse_float=finite)


def _missing_from(manifest: Mapping[str, Any]) -> str | None:
    """The first part of a manifest that is not as `Release._write` writes it; None if there is no such part."""
    types = {"levels": list, "statement": dict, "spec": dict, "files": dict}
    for key, type_ in types.items():
        if not isinstance(manifest.get(key), type_):
            return repr(key)
    levels, files, statement = manifest["levels"], manifest["files"], manifest["statement"]
    try:
        kind = kind_of(statement)
    except ValueError:
        return "'statistic' in 'statement'"
    if kind.has_tree and not isinstance(manifest.get("tree"), dict):
        return "'tree'"
    if not levels or not all(isinstance(level, str) for level in levels) or len({*levels}) < len(levels):
        return "'levels'"
    detail: tuple[str, ...] = ()
    if kind.parts:  # all files are theirs, and their own manifests have them
        level_of, of_csv = {}, {}
        needed = beside = tuple(f"{part}/{MANIFEST}" for part in kind.parts)
    else:
        level_of = {table_name(folder, level, kind): level for folder in FOLDERS for level in levels}
        of_csv = {f"tables/{table_stem(level, kind)}.csv": level for level in levels}
        beside, detail = contributions_files(statement), detail_files(statement)
        needed = (*beside[:1], *detail)
    for name in (*level_of, *needed, *files):
        facts = files.get(name)
        rows = facts.get("rows") if isinstance(facts, dict) else None
        if type(rows) is not int or rows < 0 or not isinstance(facts.get("sha256"), str):
            return f"entry for {name!r} in 'files'"
        level = (level_of | of_csv).get(name)
        known = level is not None or name.startswith(_OF_TREE) or name in (*beside, *detail)
        if facts.get("level") != level or not known:
            return f"entry for {name!r} in 'files'"
        if name in of_csv and rows != files[table_name("tables", of_csv[name], kind)]["rows"]:
            return f"entry for {name!r} in 'files'"
    return _missing_from_statement(statement, levels, kind)


def contributions_files(statement: Mapping[str, Any]) -> tuple[str, ...]:
    """The files of people by their number of records that are beside the tables: the Parquet file, and maybe a CSV."""
    if CONTRIBUTIONS not in kind_of(statement).measured_beside(statement):
        return ()
    return (f"{CONTRIBUTIONS}.parquet", f"{CONTRIBUTIONS}.csv")


def detail_files(statement: Mapping[str, Any]) -> tuple[str, ...]:
    """The file of the cells that all tables are sums of, if the statement says that they are published."""
    return (DETAIL_FILE,) if "detail" in statement and kind_of(statement).has_tables else ()


def _missing_from_statement(statement: Mapping[str, Any], levels: list[str], kind: Kind) -> str | None:
    listed = statement.get("levels")
    if not isinstance(listed, list) or [each.get("level") for each in listed if isinstance(each, dict)] != levels:
        return "'levels' in 'statement'"
    for each in listed:
        if type(each.get("nodes")) is not int or type(each.get("measured")) is not bool:
            return f"level {each['level']!r} in 'statement'"
    if kind.has_tables:
        for each in listed:
            named = isinstance(each.get("table"), list) and all(isinstance(level, str) for level in each["table"])
            if not named or type(each.get("asked")) is not bool or type(each.get("zeros_listed")) is not bool:
                return f"table {each['level']!r} in 'statement'"
    for key, inner in (("release", "id"), ("mechanism", "name")):
        part = statement.get(key)
        if not isinstance(part, dict) or not isinstance(part.get(inner), str):
            return f"{key!r} in 'statement'"
    return None if isinstance(statement.get("counted"), str) else "'counted' in 'statement'"


def _hierarchy_files(manifest: Mapping[str, Any]) -> set[str]:
    """The names that the files of the tree may have; none where the description of the tree is damaged."""
    tree = manifest.get("tree")
    if not isinstance(tree, dict):
        return set()
    if tree.get("kind") == "hierarchy":
        return {f"{_OF_TREE}hierarchy.parquet"}
    return {f"{_OF_TREE}{file_stem(side['name'])}.parquet" for side in _sides(tree)}


def _sides(tree: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The attributes of a described product that have a name; of anything else none."""
    sides = tree.get("attributes")
    if not isinstance(sides, list):
        return []
    return [side for side in sides if isinstance(side, dict) and isinstance(side.get("name"), str)]


NOT_ITS_TREE = "does not describe its tree as tallytree writes it"


def _tree_fault(manifest: Mapping[str, Any]) -> str | None:
    """What is wrong with the description of the tree, or with the files that it names."""
    files = {name for name in manifest["files"] if name.startswith(_OF_TREE)}
    if "tree" not in manifest:  # of what is not counted by place
        return NOT_ITS_TREE if files else None
    tree = manifest["tree"]
    if not isinstance(tree, dict) or tree.get("kind") not in ("hierarchy", "product"):
        return NOT_ITS_TREE
    if tree["kind"] == "hierarchy":
        whole = _is_texts(tree.get("levels"))
        named = [tree.get("file")]
    else:
        sides, order = _sides(tree), tree.get("order")
        unordered = order == [] and kind_of(manifest["statement"]).has_tables
        whole = bool(sides) and len(sides) == len(tree["attributes"]) and (unordered or _is_texts(order))
        whole = whole and len({side["name"] for side in sides}) == len(sides)
        whole = whole and all(_is_texts(side.get("levels")) and _is_texts(side.get("columns")) for side in sides)
        named = [side.get("file") for side in sides]
    if not whole or not _is_texts(named) or {*named} != files or not files <= _hierarchy_files(manifest):
        return NOT_ITS_TREE
    return None


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)


def _digest_fault(manifest: Mapping[str, Any]) -> str | None:
    try:
        same = manifest.get(_DIGEST) == digest_of(manifest)
    except RecursionError:
        same = False
    return None if same else f"was changed since it was written (the digest in its {MANIFEST} is of another text)"


def _contradiction(manifest: Mapping[str, Any]) -> str | None:
    """Where a statement says of one thing that it is private, and of another that its noise was seeded."""
    statement = manifest["statement"]
    seeded = statement.get("seeded")
    traces = [
        statement.get("private") is False,
        "infinity" in _amounts([statement]),
        str(statement.get("guarantee")).startswith("NOT PRIVATE"),
    ]
    measured = [level for level in statement["levels"] if level["measured"]]
    if measured:
        traces.append("infinity" in _amounts(measured))
    if seeded and statement.get("ledger") is not None:
        return "contradicts itself: its statement says that its noise was drawn from a seed, and that a ledger has it"
    if type(seeded) is not bool or type(statement.get("private")) is not bool or {*traces} != {seeded}:
        return (
            "contradicts itself: its statement says both that the noise was drawn from a seed and that the release is "
            "private"
        )
    return None


def _amounts(spenders: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Every amount under `spent`."""
    spent = [each.get("spent") for each in spenders]
    return [amount for each in spent if isinstance(each, dict) for amount in each.values()]
