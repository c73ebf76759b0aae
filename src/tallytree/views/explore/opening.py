"""The release that is explored, and its page in a folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tallytree.release.files import require_writable, whole_folder
from tallytree.release.households_release import part_folders
from tallytree.release.manifest import MANIFEST
from tallytree.release.release import Release
from tallytree.release.statement import description_of
from tallytree.release.view.release_view import ReleaseView
from tallytree.release.view.sides import hierarchies_by_level
from tallytree.views.boundaries import boundaries_of, kept_boundaries
from tallytree.views.explore.writing import REPORT, write_page


def fill_folder(
    place: Path, folder: Path, boundaries: Sequence[str], code: str | None, language: str | None = None
) -> None:
    """Write the page of the release in `folder` into the empty folder `place`.

    A release is replaced as a whole folder (`tallytree error`, a publisher's `mv`), and its rows are read one table
    after the other. So the folder is compared before and after: no page has numbers of two releases.

    Args:
        place: the empty folder.
        folder: of the release; of persons and households, the tables of persons are explored.
        boundaries: `LEVEL=FILE` each.
        code: the property of the boundaries that has the labels.
        language: of names and words; None for the first that each is in.

    Raises:
        ValueError: no complete release, one that was replaced meanwhile, or boundaries that do not match it.
        OSError: the folder cannot be written to.
    """
    source = part_folders(folder.absolute())[0]
    before = _stamp(source)
    view = ReleaseView(Release.load(source), language=language)
    hierarchies = hierarchies_by_level(view.tree)
    shapes = kept_boundaries(folder.absolute(), hierarchies) | boundaries_of(boundaries, hierarchies, code=code)
    report = folder.absolute() / REPORT
    title = str(description_of(view.statement).get("title") or folder.absolute().name)
    try:
        write_page(view, place, title=title, report=report if report.is_file() else None, boundaries=shapes)
    finally:
        if _stamp(source) != before:
            raise ValueError(f"folder: the release in {str(source)!r} was replaced while it was read; explore it again")


def write_static(
    folder: Path, out: Path, boundaries: Sequence[str], code: str | None, language: str | None = None
) -> None:
    """Write the page of the release in `folder` as the folder `out`, in one step.

    Raises:
        FileExistsError: `out` exists.
        ValueError: as `fill_folder`.
        OSError: it cannot be written; nothing is left behind.
    """
    target = out.absolute()
    if os.path.lexists(target):
        raise FileExistsError(f"static: {str(target)!r} exists; choose another name, or move it away")
    require_writable(target)
    with whole_folder(target) as building:
        fill_folder(building, folder, boundaries, code, language)


def _stamp(folder: Path) -> tuple[int, ...] | None:
    """What tells a release from another in the same folder."""
    try:
        found = (folder / MANIFEST).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
