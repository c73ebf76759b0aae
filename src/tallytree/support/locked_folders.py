"""Whether the run that made a folder still lives: it holds a lock on the folder, which ends with the process.

A process number in a file would not do: numbers are used again, and differ between containers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
