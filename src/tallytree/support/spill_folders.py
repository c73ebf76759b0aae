"""Folders for rows that do not fit in memory: private, removed at the end, and by a later run after a kill.

Spilled rows are private rows in clear. Their folder has mode 0700 and is removed when the work ends, also after an
error. A process that is killed cannot do so. So every new run removes what dead runs of the same user left in the same
place. A run is dead if nobody holds the lock of the file `lock` in its folder: the system gives a lock back when a
process ends, however it ends, while the number of a process may belong to another one by then.

The module is public, not under `private/`, because the command line removes these folders when a signal ends it. It
sees names of folders only.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from tallytree.support.locked_folders import try_lock

logger = logging.getLogger(__name__)

PREFIX = "tallytree-spill-"
_LOCK = "lock"
_MODE = 0o700
_ATTEMPTS = 20

_in_use: set[Path] = set()


@contextmanager
def spill_folder(place: str | os.PathLike[str] | None) -> Iterator[Path]:
    """A new folder for spilled rows, after what dead runs of this user left in the same place was removed.

    Args:
        place: the folder to make it in; None: the system's for temporary files.

    Yields:
        Its path; mode 0700, with a locked file `lock`.

    Raises:
        OSError: it cannot be made.
    """
    folder, lock = _begun(place)
    try:
        yield folder
    finally:
        _end(folder, lock, os.getpid())


class KeptFolder:
    """A spill folder that lives as long as this object: for the tables of a release that were not saved yet.

    It is removed when the object is garbage collected, by `remove`, at the end of the process, and otherwise like every
    spill folder. A forked child does not remove it.

    Args:
        place: as for `spill_folder`.

    Attributes:
        path: the folder, mode 0700.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, place: str | os.PathLike[str] | None = None) -> None:
        self.path, lock = _begun(place)
        self._finalizer = weakref.finalize(self, _end, self.path, lock, os.getpid())

    def __repr__(self) -> str:
        """Where it is."""
        return f"KeptFolder({str(self.path)!r})"

    def __copy__(self) -> KeptFolder:
        """The same folder."""
        return self

    def __deepcopy__(self, memo: object) -> KeptFolder:
        """The same folder."""
        return self

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: another process could not tell when to remove it."""
        raise TypeError("a release in temporary files cannot be pickled; save it, and load it in the other process")

    def remove(self) -> None:
        """Remove it now."""
        self._finalizer()


def _begun(place: str | os.PathLike[str] | None) -> tuple[Path, int]:
    """A new folder in use, and its open lock, after leftovers were removed."""
    above = Path(tempfile.gettempdir() if place is None else place).absolute()
    remove_leftovers(above)
    folder, lock = _made_and_locked(above)
    _in_use.add(folder)
    return folder, lock


def _end(folder: Path, lock: int, process: int) -> None:
    """Remove a folder of this process. The lock is given back last: until then, no other run removes it too."""
    if os.getpid() != process:
        return
    _remove(folder)
    _in_use.discard(folder)
    os.close(lock)


def remove_folders_in_use() -> None:
    """Remove every spill folder of this process, at once; for a process that is about to end."""
    for folder in [*_in_use]:
        _remove(folder)


# Where a program ends while a daemon thread still tabulates.
atexit.register(remove_folders_in_use)


def _remove(folder: Path) -> None:
    """Remove a folder; again where a thread of DuckDB has just written one more file."""
    for _ in range(_ATTEMPTS):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            return


def _made_and_locked(above: Path) -> tuple[Path, int]:
    """A new folder and the open, locked file in it; a new one where another run took it for a leftover meanwhile."""
    for _ in range(_ATTEMPTS):
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=above))  # mode 0700
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:
            continue
        except OSError:
            with suppress(OSError):
                folder.rmdir()
            raise
        # None: the file system has no locks, so other runs cannot take one either, and remove nothing.
        if try_lock(lock) is not False and os.fstat(lock).st_nlink == 1:
            return folder, lock
        os.close(lock)
    raise OSError(f"temp_directory: no folder for temporary files could be made in {str(above)!r}; try again")


def remove_leftovers(above: Path) -> None:
    """Remove the spill folders that dead runs of this user left in a place, and nothing else.

    Links are not followed, and folders of other users, with another mode than 0700, or whose lock is held stay.

    Args:
        above: the folder that they lie in.
    """
    if not hasattr(os, "geteuid"):
        return
    try:
        handle = os.open(above, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        for name in sorted(os.listdir(handle)):  # noqa: PTH208  (of a handle)
            # What cannot be opened or removed is not ours to remove, or another run removes it at the same time.
            with suppress(OSError):
                if name.startswith(PREFIX):
                    _remove_if_dead(handle, name, above)
    finally:
        os.close(handle)


def _open_own_folder(above: int, name: str) -> int | None:
    """A handle of a private folder of this user; None of anything else. All that follows is relative to the handle."""
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    about = os.fstat(folder)
    if about.st_uid == os.geteuid() and about.st_mode & 0o777 == _MODE:
        return folder
    os.close(folder)
    return None


def _remove_if_dead(above: int, name: str, place: Path) -> None:
    folder = _open_own_folder(above, name)
    if folder is None:
        return
    lock = -1
    try:
        lock = os.open(_LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600, dir_fd=folder)
        if try_lock(lock) is not True or os.fstat(lock).st_nlink != 1:
            return
        for entry in os.listdir(folder):  # noqa: PTH208
            if entry != _LOCK:
                _remove_entry(folder, entry)
        os.unlink(_LOCK, dir_fd=folder)
        os.rmdir(name, dir_fd=above)
        logger.info("removed %s, which a run that was killed had left", place / name)
    finally:
        if lock >= 0:
            os.close(lock)
        os.close(folder)


def _remove_entry(folder: int, entry: str) -> None:
    try:
        os.unlink(entry, dir_fd=folder)
    except (IsADirectoryError, PermissionError):
        shutil.rmtree(entry, dir_fd=folder)
