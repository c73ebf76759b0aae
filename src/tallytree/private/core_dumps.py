"""No core dumps while private rows are in memory.

A core dump is a copy of the memory of a process that crashed, private rows and the noise key included, and is often
kept, or sent to a collector of crashes. See `docs/explanation/security.md` for what this covers.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

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
