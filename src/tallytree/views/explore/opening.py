"""The release that is explored, and its page in a folder."""

from __future__ import annotations

import os
import shutil
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
from tallytree.views.explore.writing import write_page

INDEX, REPORT = "index.html", "report.html"


def fill_folder(
    place: Path, folder: Path, boundaries: Sequence[str], code: str | None, language: str | None = None
) -> None:
    """Write the page of the release in `folder` into the empty folder `place`.

    A release is replaced as a whole folder (`tallytree error`, a publisher's `mv`), and its rows are read one table
    after the other. So the folder is compared before and after: no page has numbers of two releases.

    Args:
        place: the empty folder.
        folder: of the release; of persons and households, both parts have a page, and these link to each other.
        boundaries: `LEVEL=FILE` each.
        code: the property of the boundaries that has the labels.
        language: of names and words; None for the first that each is in.

    Raises:
        ValueError: no complete release, one that was replaced meanwhile, or boundaries that do not match it.
        OSError: the folder cannot be written to.
    """
    sources = part_folders(folder.absolute())
    before = [*map(_stamp, sources)]
    views = [ReleaseView(Release.load(each), language=language) for each in sources]
    hierarchies = hierarchies_by_level(views[0].tree)
    shapes = kept_boundaries(folder.absolute(), hierarchies) | boundaries_of(boundaries, hierarchies, code=code)
    links = {"Report": REPORT} if (folder / REPORT).is_file() else {}
    if links:
        shutil.copyfile(folder / REPORT, place / REPORT)
    title = str(description_of(views[0].statement).get("title") or folder.absolute().name)
    pages = [INDEX, *(f"{source.name}/{INDEX}" for source in sources[1:])]  # the first part has the page of the release
    try:
        for number, (source, view) in enumerate(zip(sources, views, strict=True)):
            here, up = (place / source.name, "../") if number else (place, "")
            here.mkdir(exist_ok=True)
            others = {each.name.capitalize(): page for each, page in zip(sources, pages, strict=True) if each != source}
            to = {text: up + page for text, page in (links | others).items()}
            write_page(view, here, title=title, links=to, boundaries=shapes)
    finally:
        if [*map(_stamp, sources)] != before:
            raise ValueError(f"folder: the release in {str(folder)!r} was replaced while it was read; explore it again")


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
