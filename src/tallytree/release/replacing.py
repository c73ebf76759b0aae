"""A saved release replaced by one with more columns; the folder is complete at every moment."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Container
from pathlib import Path

from tallytree.release import Release
from tallytree.release.files import flush
from tallytree.release.manifest import MANIFEST


def replace_release(release: Release, folder: str | os.PathLike[str], *, csv: bool = False) -> Path:
    """Save a release in the place of an earlier one.

    It is written to a sibling folder first; then the earlier folder is renamed away, the new one takes its name, and
    the earlier one is deleted. So the folder never holds a half-made release: a crash leaves the earlier one, at worst
    under the name `.DIR.….earlier` beside it. CSV files are written if there were any, and files that are not the
    release's own are kept.

    Args:
        release: what to save; its tables may be read from the folder itself.
        folder: a saved release.
        csv: write every published table as CSV too, also where there was none.

    Returns:
        The folder's path.

    Raises:
        OSError: the disk is full, or the place cannot be written to; the earlier release is as it was.
    """
    target = Path(os.path.abspath(folder))  # noqa: PTH100  (resolve() would follow a link, which is to be kept)
    if target.is_symlink():
        target = target.resolve()
    own = json.loads((target / MANIFEST).read_text(encoding="utf-8"))["files"]
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
    earlier = aside.with_suffix(".earlier")
    try:
        made = release.save(aside / target.name, csv=csv or any(name.endswith(".csv") for name in own))
        _keep_others(target, made, own)
        made.chmod(target.stat().st_mode)
        try:
            target.rename(earlier)
            made.rename(target)
        except BaseException:  # Ctrl-C too
            if os.path.lexists(earlier) and not os.path.lexists(target):
                earlier.rename(target)
            raise
        flush(target.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    shutil.rmtree(earlier, ignore_errors=True)
    return target


def _keep_others(target: Path, made: Path, own: Container[str]) -> None:
    """Copy what is not the release's own: files, links as links, folders that are empty, too."""
    for place, folders, files in os.walk(target):
        here = Path(place).relative_to(target)
        (made / here).mkdir(exist_ok=True)
        links = [name for name in folders if (target / here / name).is_symlink()]
        for name in (*files, *links):
            path = here / name
            if path.as_posix() not in own and path.as_posix() != MANIFEST and not os.path.lexists(made / path):
                shutil.copy2(target / path, made / path, follow_symlinks=False)
