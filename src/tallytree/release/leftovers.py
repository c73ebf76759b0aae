"""Folders beside a release that killed runs left: found, and described in one sentence with the remedy.

A release is built in `.NAME.xxxxxxxx.partial`, and one that is replaced is renamed to `.NAME.xxxxxxxx.earlier`
before it is removed. A process that is killed leaves these. They hold published numbers only.
"""

from __future__ import annotations

import os
import re
import shlex
import warnings
from pathlib import Path

from tallytree.release.manifest import MANIFEST
from tallytree.support.locked_folders import is_locked

SUFFIXES = (".partial", ".earlier")


def leftovers_of(target: Path) -> list[Path]:
    """The folders beside a release that a dead run left while it made or replaced the release, in order.

    Args:
        target: the release's folder, an absolute path; it need not exist.
    """
    # tempfile's random names have eight characters.
    name = re.compile(re.escape(f".{target.name}.") + r"[a-z0-9_]{8}(" + "|".join(map(re.escape, SUFFIXES)) + ")")
    try:
        beside = [entry for entry in os.scandir(target.parent) if name.fullmatch(entry.name)]
    except OSError:  # the folder above does not exist yet, or may not be listed
        return []
    found = [target.parent / entry.name for entry in beside if entry.is_dir(follow_symlinks=False)]
    return sorted(path for path in found if not is_locked(path))


def warn_of_leftovers(target: Path) -> None:
    """Warn of what killed runs left beside a folder that is written or replaced now, each with the remedy."""
    for left in leftovers_of(target):
        whole = _whole_release(left, target.name)
        if whole is None:
            remedy = f"it holds no whole release; remove it with: rm -r {_quoted(left)}"
        else:
            remedy = (
                f"{str(whole)!r} is a whole release (one that was to take the place of {target.name!r}, or that was "
                f"replaced); keep it with: mv {_quoted(whole)} OTHER-NAME, or remove it with: rm -r {_quoted(left)}"
            )
        warnings.warn(f"folder: {str(left)!r} was left by a run that was killed; {remedy}", stacklevel=3)


def how_to_put_back(target: Path) -> str:
    """For the message that a release is missing: where a killed run left it whole, and how to put it back; or ''."""
    if os.path.lexists(target):
        return ""
    whole = [found for left in leftovers_of(target) if (found := _whole_release(left, target.name)) is not None]
    # What was renamed away last is what had the name.
    whole.sort(key=lambda path: path.suffix == ".partial" or path.parent.suffix == ".partial")
    ways = " or ".join(f"mv {_quoted(path)} {_quoted(target)}" for path in whole)
    return f"; a run that was killed left a whole release beside it: put it back with {ways}" if ways else ""


def _whole_release(left: Path, name: str) -> Path | None:
    """Where in a leftover folder a release lies; its manifest is written last, so that its presence means whole."""
    return next((place for place in (left, left / name) if (place / MANIFEST).is_file()), None)


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
