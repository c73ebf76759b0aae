"""What is in the folder of a release, byte for byte, and the text that marks a private record."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tallytree.release import Release

PRIVATE = "NAME-"
"""Every id of a person in the tests of faults begins so."""


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, byte for byte."""
    return {str(each.relative_to(folder)): each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file()}


def tables(folder: Path) -> dict[str, bytes]:
    """Every published file of a release but its manifest, byte for byte; the release is loaded, which checks it."""
    Release.load(folder)
    return {name: content for name, content in files(folder).items() if name != "release.json"}


def digest(folder: Path) -> bytes:
    """A digest of every file below a folder."""
    return hashlib.sha256(repr(files(folder)).encode()).digest()
