"""Work that releases the interpreter lock, side by side."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import TypeVar

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
