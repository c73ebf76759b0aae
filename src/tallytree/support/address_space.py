"""Whether a limit on the address space (`ulimit -v`) leaves room for the threads and compiled code of a release."""

from __future__ import annotations

import sys

from tallytree.support.threads import available_threads

BASE = 2 * 10**9
"""Bytes of address space, about, that Python with its libraries and the compiled kernels take; most is never used."""

PER_THREAD = 200 * 10**6
"""Bytes of address space of one more thread: its stacks, and the arenas of its allocator."""


def require_address_space(threads: int | None = None) -> None:
    """Refuse to begin where the address space is limited to less than a release takes.

    Within such a limit libraries crash, or wait for ever, in the middle of a release: after the budget is spent. Where
    the memory of a process is to be limited, a limit on its resident memory (a container's, a cgroup's) does no harm.

    Args:
        threads: of the engine; None for one per processor.

    Raises:
        MemoryError: the limit is too low.
    """
    limit = _limit()
    needed = BASE + PER_THREAD * max(available_threads() if threads is None else threads, available_threads())
    if limit is not None and limit < needed:
        raise MemoryError(
            f"engine: the address space of this process is limited to {limit / 1e9:.1f} GB (ulimit -v), but a release "
            f"takes {needed / 1e9:.1f} GB of it with so many threads, most of it unused; raise that limit, or limit "
            "resident memory in its place"
        )


def _limit() -> int | None:
    """Bytes that the address space is limited to; None for no limit."""
    if sys.platform == "win32":
        return None
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft
