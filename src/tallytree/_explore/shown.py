"""The release that is shown, and whether its folder still holds it.

A release is replaced as a whole folder (`tallytree error`, a publisher's `mv`). Rows are read when they are asked for.
So each view asks before and after it has read whether the folder is still the same: nothing of two releases is ever
shown together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tallytree._boundaries import Boundaries, boundaries_of
from tallytree._explore.walk import Walk
from tallytree.release.manifest import MANIFEST
from tallytree.release.release import Release
from tallytree.release.view.sides import hierarchies_by_level

Seen = TypeVar("Seen")


class ReleaseReplacedError(Exception):
    """The folder holds another release than the one that is shown, or none."""


@dataclass(frozen=True, eq=False)
class OpenedRelease:
    """A release as it was opened.

    Attributes:
        folder: where it is.
        walk: what is shown of it.
        boundaries: by level.
        stamp: what tells its release.json from that of another release.
    """

    folder: Path
    walk: Walk
    boundaries: Mapping[str, Boundaries]
    stamp: tuple[int, ...] | None

    @property
    def replaced(self) -> bool:
        """Whether the folder holds something else now."""
        return _stamp(self.folder) != self.stamp

    def reading(self, view: Callable[[], Seen]) -> Seen:
        """What a view reads, if the release is the same before and after.

        Raises:
            ReleaseReplacedError: it is not, or its files could not be read any more.
        """
        if self.replaced:
            raise ReleaseReplacedError
        try:
            found = view()
        except OSError:
            if self.replaced:
                raise ReleaseReplacedError from None
            raise
        if self.replaced:
            raise ReleaseReplacedError
        return found


def open_release(folder: str | Path, boundaries: list[str], code: str | None) -> OpenedRelease:
    """Open a release to be shown.

    Args:
        folder: of the release.
        boundaries: `LEVEL=FILE` each.
        code: the property of the boundaries that has the labels.

    Raises:
        ValueError: no complete release, or boundaries that do not match it.
    """
    place = Path(folder).absolute()
    stamp = _stamp(place)
    walk = Walk(Release.load(place))
    if not walk.sides and walk.statistic != "contributions":
        raise ValueError(
            f"folder: {str(place)!r} was written by an earlier tallytree without its hierarchies, which are needed "
            "here; release it again, or read its tables by tallytree.Release.load"
        )
    trees = hierarchies_by_level(walk.view.tree)
    return OpenedRelease(place, walk, boundaries_of(boundaries, trees, code=code) if boundaries else {}, stamp)


def _stamp(folder: Path) -> tuple[int, ...] | None:
    try:
        found = (folder / MANIFEST).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
