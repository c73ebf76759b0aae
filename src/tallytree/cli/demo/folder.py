"""The demo's folder. It is replaced only where a demo made it and the user has changed or added nothing."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from tallytree.cli.demo.specs import SPECS

MARKER = ".tallytree-demo"
MARKER_TITLE = "Made by `tallytree demo`, which may replace this folder. Checksums of the specs as they were made:"
ENTRIES = {MARKER, "data", *SPECS, "households-release", "commutes-release"}


def replaceable(folder: str | os.PathLike[str]) -> Path:
    """The folder as an absolute path, if it does not exist, or is a demo that the user has not changed.

    Raises:
        FileExistsError: the folder exists and is something else.
    """
    path = Path(os.path.abspath(folder))  # noqa: PTH100  (resolve() would follow a link)
    if os.path.lexists(path):
        reason = _why_not_ours(path)
        if reason:
            raise FileExistsError(f"{path}: {reason}; choose another folder with --out, or move it away")
    return path


def _why_not_ours(path: Path) -> str | None:
    marker = path / MARKER
    if path.is_symlink() or not path.is_dir():
        return "is not a folder made by an earlier demo"
    if marker.is_symlink() or not marker.is_file():
        return f"exists and was not made by `tallytree demo` (it has no {MARKER})"
    title, _, checksums = marker.read_text(encoding="utf-8", errors="replace").partition("\n")
    if title != MARKER_TITLE:
        return f"exists, and its {MARKER} was not written by `tallytree demo`"
    added = sorted(entry.name for entry in path.iterdir() if entry.name not in ENTRIES)
    if added:
        return f"is an earlier demo, but {added[0]!r} was added to it"
    for name in SPECS:
        if (path / name).is_file() and _checksum_line((path / name).read_bytes(), name) not in checksums.splitlines():
            return f"is an earlier demo, but {name} was edited"
    return None


def marker_text() -> str:
    """The text of the marker file: the checksums of the specs as they were made."""
    checksums = [_checksum_line(text.encode(), name) for name, text in SPECS.items()]
    return "\n".join([MARKER_TITLE, *checksums]) + "\n"


def _checksum_line(content: bytes, name: str) -> str:
    return f"{hashlib.sha256(content).hexdigest()}  {name}"


def swap(building: Path, target: Path) -> None:
    """Replace the old folder by the new one. The old one is kept until the new one is in its place."""
    replaceable(target)
    if not os.path.lexists(target):
        building.rename(target)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".old", dir=target.parent))
    try:
        target.rename(aside / "demo")
        building.rename(target)
    except BaseException:
        if not os.path.lexists(target):
            (aside / "demo").rename(target)
            aside.rmdir()
        raise
    shutil.rmtree(aside, ignore_errors=True)
