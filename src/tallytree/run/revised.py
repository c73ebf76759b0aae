"""The earlier release that a release takes the place of (`revises`): which one it is.

A revision is a new release: it has an entry and noise of its own, and is charged like any other. With a secret its
noise key has its own release id in it (`release_keys`), also under the name of the run that it revises, and whether the
records have changed or not. So two outputs never have one noise, and that they differ tells nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from tallytree.release import Release


@dataclass(frozen=True)
class Revised:
    """An earlier release.

    Attributes:
        release: what was published.
        release_id: its id.
        folder: the name of its folder, without those above.
    """

    release: Release
    release_id: str
    folder: str

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Revised:
        """The release in a folder.

        Raises:
            ValueError: there is none, it is damaged, or it is a part of another.
        """
        try:
            release = Release.load(folder)
        except ValueError as error:
            raise ValueError(f"revises: {str(error).removeprefix('folder: ')}") from None
        name = os.path.basename(os.path.abspath(folder))  # noqa: PTH100, PTH119  (as Release.load finds it)
        if "part_of" in release.statement:  # its id is that of the whole release, which would count as revised
            raise ValueError(
                f"revises: {name!r} is a part of a release of persons and households, and is revised with the other "
                "part; give the folder of the whole release"
            )
        return cls(release, release.statement["release"]["id"], name)

    @property
    def stated(self) -> dict[str, str]:
        """As the statement of the later release names it."""
        return {"id": self.release_id, "folder": self.folder}
