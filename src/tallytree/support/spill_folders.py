"""What a run must not leave behind: folders for rows that do not fit in memory, and core dumps.

Spilled rows are private rows in clear. Their folder has mode 0700 and is removed when the work ends, also after an
error. A process that is killed cannot do so. So every new run removes what dead runs of the same user left in the same
place. A run is dead if nobody holds the lock of the file `lock` in its folder: the system gives a lock back when a
process ends, however it ends, while the number of a process may belong to another one by then, and differs between
containers. `locked` and `is_locked` say the same of other folders that a run makes.

A core dump is a copy of the memory of a process that crashed, private rows and the noise key included, and is often
kept, or sent to a collector of crashes. See `docs/explanation/security.md` for what this covers.

The module is public, not under `private/`, because the command line removes these folders when a signal ends it. It
sees names of folders only, and no record.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import shutil
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

if sys.platform != "win32":
    import resource

_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4  # linux/prctl.h


@dataclass
class _Earlier:
    """How many users there are now, and what was set before the first."""

    users: int = 0
    soft_limit: int | None = None
    dumpable: int | None = None


_lock = threading.Lock()
_earlier = _Earlier()


@contextmanager
def core_dumps_disabled() -> Iterator[None]:
    """Let the process write no core dump, until the last of all nested and concurrent uses has ended.

    The soft limit RLIMIT_CORE is set to 0. On Linux the process is also made not dumpable (PR_SET_DUMPABLE), since the
    limit does not hold where the kernel pipes dumps to a program. While it is not dumpable, other processes of the same
    user cannot attach to it or read its memory, and its files under /proc belong to root. Both settings are of the
    entire process; afterwards they are as they were. A setting that cannot be changed stays as it is.
    """
    with _lock:
        if _earlier.users == 0:
            _earlier.soft_limit, _earlier.dumpable = _disable_limit(), _disable_dumpable()
        _earlier.users += 1
    try:
        yield
    finally:
        with _lock:
            _earlier.users -= 1
            if _earlier.users == 0:
                _restore(_earlier.soft_limit, _earlier.dumpable)


def _disable_limit() -> int | None:
    """Set the soft limit to 0; what it was, or None where it stays."""
    if sys.platform == "win32":
        return None
    with suppress(OSError, ValueError):
        soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
        if soft != 0:
            resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
            return int(soft)
    return None


def _disable_dumpable() -> int | None:
    """Make the process not dumpable; what it was, or None where it stays, or must not be set again (2)."""
    was = _prctl(_PR_GET_DUMPABLE)
    if was in (None, -1, 0) or _prctl(_PR_SET_DUMPABLE, 0) != 0:
        return None
    return was if was == 1 else None  # only 0 and 1 may be set; 2 is the kernel's, after a change of user


def _restore(soft_limit: int | None, dumpable: int | None) -> None:
    """Set back what was changed, unless somebody else has changed it meanwhile; never fails."""
    if sys.platform != "win32" and soft_limit is not None:
        with suppress(OSError, ValueError):
            soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
            if soft == 0:
                lower = soft_limit if hard == resource.RLIM_INFINITY else hard
                wanted = lower if soft_limit == resource.RLIM_INFINITY else min(soft_limit, lower)
                resource.setrlimit(resource.RLIMIT_CORE, (wanted, hard))
    if dumpable is not None and _prctl(_PR_GET_DUMPABLE) == 0:
        _prctl(_PR_SET_DUMPABLE, dumpable)


def _prctl(option: int, value: int = 0) -> int | None:
    """The result of the system call; None where there is none."""
    if sys.platform != "linux":
        return None
    try:
        call = ctypes.CDLL(None).prctl
    except (AttributeError, OSError):
        return None
    call.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
    return int(call(option, value, 0, 0, 0))


if sys.platform != "win32":  # there nothing is locked, and nothing is taken for left behind
    import fcntl


def try_lock(handle: int) -> bool | None:
    """Take the lock of an open file or folder, which ends when it is closed.

    Returns:
        True: taken; False: somebody else has it; None: the system or the file system has no locks.
    """
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@contextmanager
def locked(folder: Path) -> Iterator[bool | None]:
    """Hold the lock of a folder, if the file system has locks; it stays with the folder when that is renamed.

    Yields:
        Whether the lock is held; see `try_lock`.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield try_lock(handle)
    finally:
        os.close(handle)


def is_locked(folder: Path) -> bool:
    """Whether a live process holds the lock of a folder, or may do so: the folder cannot be opened or locked."""
    try:
        with locked(folder) as free:
            return not free
    except OSError:
        return True


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
