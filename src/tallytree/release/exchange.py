"""Two folders that swap their names in one step, where the system and the file system can do that."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
# An old kernel or file system, or a container's filter of system calls. A place that cannot be written to (EPERM too)
# is found out by the renames that are tried instead.
_NOT_HERE = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EPERM}


def exchange(first: Path, second: Path) -> bool:
    """Swap the names of two files or folders on one file system, atomically (Linux: `renameat2`, RENAME_EXCHANGE).

    Returns:
        Whether they were swapped; False where the system or the file system cannot do so, and nothing was changed.

    Raises:
        OSError: one of them is missing, or they may not be renamed; nothing was changed.
    """
    call = _renameat2()
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_HERE:
        return False
    raise OSError(number, os.strerror(number), str(first), None, str(second))


def _renameat2() -> ctypes._NamedFuncPointer | None:
    try:
        found = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # glibc before 2.28, other C libraries, other systems
        return None
    found.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    found.restype = ctypes.c_int
    return found
