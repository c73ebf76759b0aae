"""What this machine gives a run: memory, as users write amounts of it; processors, side by side; room for addresses."""

from __future__ import annotations

import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import TypeVar

_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*([KMGT]i?)?B", re.IGNORECASE | re.ASCII)

_BYTES = {
    "": 1,
    **{f"{letter}{i}": (1024 if i else 1000) ** power for power, letter in enumerate("KMGT", 1) for i in ("", "I")},
}

LEAST, MOST = 1_000_000, 10**15
"""Bytes that a run may be given: with less it cannot be cut; more DuckDB cannot count."""
LEAST_LIMIT = 8_000_000
"""Bytes of a limit of DuckDB: with 2 MB it does not read a table of 9 rows, with 4 MB it now and then fails."""


def memory_bytes(amount: str, argument: str, least: int = LEAST) -> int:
    """How many bytes an amount of memory is: a number and a unit (B, kB, MB, GB, TB; KiB, …, TiB), such as `"4GB"`.

    Args:
        amount: what the user gave.
        argument: its name in messages.
        least: bytes that are of use there; whole MB.

    Raises:
        ValueError: no number with a unit, less than is of use, or more than 1000TB.
    """
    found = _AMOUNT.fullmatch(amount)
    if found is None:
        raise ValueError(f"{argument}: {amount[:40]!r} must be a number and a unit, such as '4GB'")
    bytes_ = float(found[1]) * _BYTES[(found[2] or "").upper()]
    if not least <= bytes_ <= MOST:
        raise ValueError(f"{argument}: {amount[:40]!r} must be between {least // 10**6}MB and 1000TB, such as '4GB'")
    return int(bytes_)


def enough_memory(needed: int) -> str:
    """The least amount, as users write it with two or three digits, that is not less than so many bytes."""
    unit, name = (10**9, "GB") if needed >= 10**9 else (10**6, "MB")
    tenths = -(-10 * needed // unit)
    return f"{-(-tenths // 10)}{name}" if tenths >= 100 else f"{tenths / 10:g}{name}"


def machine_bytes() -> int:
    """The machine's memory in bytes; where the system does not say, the size of the address space."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**47


def described_bytes(amount: float) -> str:
    """An amount for a message: in GB with one decimal, or in MB where it is less than one."""
    return f"{amount / 1e9:.1f} GB" if amount >= 1e9 else f"{amount / 1e6:.0f} MB"


Item = TypeVar("Item")
Done = TypeVar("Done")


def available_threads() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(work: Callable[[Item], Done], items: Iterable[Item], *, threads: int | None = None) -> Iterator[Done]:
    """Do the work for every item in threads; results come in the order of the items.

    Items are taken in the caller's thread, one after the other, and no more are held at once than there are threads and
    one: so they may be large, and come from what must not be used from several threads. After an error nothing runs any
    more when it reaches the caller.

    Args:
        work: what is done with an item.
        items: read one by one.
        threads: how many; None takes one per processor. With at most 1, and for a single item, all is done in the
            caller's thread.
    """
    workers = available_threads() if threads is None else threads
    rest = iter(items)
    first = list(islice(rest, 2))  # a thread costs more than a small item
    if workers <= 1 or len(first) < 2:
        yield from map(work, chain(first, rest))
        return
    running: deque[Future[Done]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for item in chain(first, rest):
            running.append(pool.submit(work, item))
            if len(running) > workers:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


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
