"""`release.json`: what a folder must say to be a complete release, and how its files are named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FORMAT_VERSION = 1
MANIFEST = "release.json"


def file_stem(level: str) -> str:
    """A level's name as a file name: percent-encoded where a file system could mind (letters of any script stay)."""
    stem = "".join(c if c.isalnum() or c in "_- " else "".join(f"%{byte:02X}" for byte in c.encode()) for c in level)
    if len(stem.encode()) > 150:  # file systems allow 255 bytes, and the suffix and a temporary prefix need some
        stem = f"{stem.encode()[:100].decode(errors='ignore')}-{hashlib.sha256(level.encode()).hexdigest()[:32]}"
    return stem


def read_manifest(place: Path) -> dict[str, Any]:
    """What release.json says, once it has all that a release needs.

    Raises:
        ValueError: it cannot be read, is of another format version, or misses something.
    """
    if not place.is_dir():
        raise ValueError(f"folder: {str(place)!r} does not exist, or is no folder; give the folder of a saved release")
    try:
        manifest = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise ValueError(f"folder: {str(place)!r} is not a complete release; it has no readable {MANIFEST}") from None
    version = manifest.get("format_version") if isinstance(manifest, dict) else None
    if version != FORMAT_VERSION:
        raise ValueError(
            f"folder: {str(place)!r} has format version {version!r}; this tallytree reads {FORMAT_VERSION}"
        )
    missing = _missing_from(manifest)
    if missing:
        raise ValueError(
            f"folder: {str(place)!r} is not a complete release; its {MANIFEST} has no usable {missing}; take a fresh "
            "copy of the release"
        )
    return dict(manifest)


def _missing_from(manifest: Mapping[str, Any]) -> str | None:
    """The first part of a manifest that is not as `Release._write` writes it; None if there is no such part."""
    kinds = {"levels": list, "statement": dict, "spec": dict, "files": dict}
    for key, kind in kinds.items():
        if not isinstance(manifest.get(key), kind):
            return repr(key)
    levels, files = manifest["levels"], manifest["files"]
    if not levels or not all(isinstance(level, str) for level in levels) or len({*levels}) < len(levels):
        return "'levels'"
    needed = [f"{kind}/{file_stem(level)}.parquet" for kind in ("tables", "measurements") for level in levels]
    for name in (*needed, *files):
        facts = files.get(name)
        rows = facts.get("rows") if isinstance(facts, dict) else None
        if type(rows) is not int or rows < 0 or not isinstance(facts.get("sha256"), str):
            return f"entry for {name!r} in 'files'"
    return None
