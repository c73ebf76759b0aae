"""Files that are written in one step: as they were, or complete, at every moment."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def write_whole(
    path: Path, content: str | bytes | Callable[[Path], None], *, mode: int = 0o644, replace: bool = True
) -> None:
    """Write a file in one step, and wait until it is on the disk.

    Args:
        path: the file. Its folder is made where there is none.
        content: of the file, or what writes it.
        mode: of the file. Until it is written it is 0600.
        replace: whether it may take the place of another file.

    Raises:
        FileExistsError: there is one, and it may not be replaced.
        OSError: the file cannot be written, and what was there is as it was; or the file is there, and its folder
            cannot be flushed.
    """
    folder = path.absolute().parent
    if not os.path.lexists(folder):
        folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=folder)
    os.close(handle)
    building = Path(name)
    try:
        if callable(content):
            content(building)
        else:
            building.write_bytes(content.encode() if isinstance(content, str) else content)
        building.chmod(mode)
        flush(building)
        if replace:
            building.replace(path)
        else:
            os.link(building, path)
        flush(path.absolute().parent)
    finally:
        building.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
