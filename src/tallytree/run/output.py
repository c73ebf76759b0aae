"""Where a release is saved: what happens where the folder exists, and where it cannot be written.

A release that was paid for is not thrown away because its folder cannot be written: it is kept in another one, which
the error names.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import pyarrow as pa

from tallytree.errors import KEPT
from tallytree.release import Release, refuse_existing, require_writable
from tallytree.release.replacing import replace_folder
from tallytree.support.validate import choice

IfExists = Literal["error", "skip", "replace"]
"""What happens where the folder exists: an error; nothing, if it holds the run; or the new release takes its place."""


@dataclass(frozen=True)
class Output:
    """The folder that a release is to be saved in.

    Attributes:
        folder: where to.
        if_exists: what happens where it exists.
        fallback: the folder in which the release is kept, under its own name, if `folder` cannot be written; by
            default among the temporary files of the system.
        csv: whether every published table is written as CSV too.
        on_repeated: called with the number of the ledger's entry, where the run was made again.
    """

    folder: str | os.PathLike[str]
    if_exists: IfExists | str = "error"
    fallback: str | os.PathLike[str] | None = None
    csv: bool = False
    on_repeated: Callable[[int], None] | None = None

    def check(self, *, revises: str | os.PathLike[str] | None = None) -> None:
        """Find out, before anything is spent, whether the folder can be made.

        Args:
            revises: the folder of the release that this one takes the place of.

        Raises:
            FileExistsError: a folder exists, which the release would not replace.
            ValueError: what is to be replaced is not a release, or is the one that is revised.
            OSError: a place cannot be written to.
            TypeError: not a path.
        """
        choice(self.if_exists, "if_exists", get_args(IfExists))
        if revises is not None and Path(self.folder).resolve() == Path(revises).resolve():
            raise ValueError(
                f"folder: {os.fspath(self.folder)!r} is that of the release that is revised, which stays for its "
                "readers; choose another folder"
            )
        if self.if_exists == "replace" and os.path.lexists(self.folder):
            self.loaded()
            require_writable(Path(os.path.abspath(self.folder)))  # noqa: PTH100  (a link is resolved when it is replaced)
        else:
            require_writable(refuse_existing(self.folder))
        if self.fallback is not None:
            require_writable(Path(os.path.abspath(self.fallback)) / "release")  # noqa: PTH100

    def save(self, release: Release) -> Path:
        """Save the release in the folder, all or nothing.

        Where the folder is to be left as it is and another process has saved this very release there, it is. A note on
        an error says where the release was kept instead, or that it could not be kept.

        Raises:
            OSError, MemoryError, ArrowException: the folder cannot be written.
            ValueError: what is to be replaced is no release any more.
        """
        try:
            if self.if_exists == "replace" and os.path.lexists(self.folder):
                return self._replace(release)
            return release.save(self.folder, csv=self.csv)
        except (OSError, MemoryError, ValueError, pa.ArrowException) as error:
            if isinstance(error, FileExistsError) and self._holds(release):
                return Path(self.folder)
            error.add_note(self._kept_elsewhere(release))
            raise

    def _holds(self, release: Release) -> bool:
        """Whether `if_exists` is `"skip"` and the folder has this release: the id is that of one ledger entry."""
        if self.if_exists != "skip":
            return False
        try:
            held = self.loaded().statement["release"]
        except (OSError, MemoryError, ValueError, pa.ArrowException):  # it holds something else, or cannot be read
            return False
        return bool(held == release.statement["release"])

    def loaded(self) -> Release:
        """The release in the folder.

        Raises:
            ValueError: it is damaged, or is none.
        """
        try:
            return Release.load(self.folder)
        except ValueError as error:
            raise ValueError(f"{error}; or move the folder away and repeat the run") from None

    def _replace(self, release: Release) -> Path:
        target = Path(self.folder).resolve()
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", suffix=".partial", dir=target.parent) as aside:
            return replace_folder(release.save(Path(aside) / target.name, csv=self.csv), target)

    def _kept_elsewhere(self, release: Release) -> str:
        """Save the release in the other folder; what an error has to say about it."""
        made: Path | None = None
        try:
            parent = Path(self.fallback or tempfile.gettempdir())
            parent.mkdir(parents=True, exist_ok=True)
            name = Path(self.folder).name
            made = Path(tempfile.mkdtemp(prefix=f"tallytree-{name}-", dir=parent))
            kept = release.save(made / name, csv=self.csv)
            return f"{KEPT}was saved in {str(kept)!r} instead; move it to {os.fspath(self.folder)!r}"
        except (OSError, MemoryError, ValueError, pa.ArrowException):
            if made is not None:
                shutil.rmtree(made, ignore_errors=True)
        return f"{KEPT}could not be saved in another folder either; give one with fallback (--fallback-out)"
