"""A fork waits until no other thread uses SQLite, or its child uses no ledger.

A child made by fork has SQLite's mutexes and its list of file locks as they were at that moment. A mutex that another
thread had is never given back there, and a lock that it had seems to be the child's own. So a fork waits for the
threads that are in a ledger operation, and no other begins one meanwhile. It does not wait for ever: a thread may wait
itself, for another process or for what the forking thread holds. The child is refused all ledgers then.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 5.0
"""How many seconds a fork waits for other threads, and they for it."""


class _Gate:
    """Which threads are in SQLite, and which ones fork.

    Attributes:
        changed: held while these are read or changed.
        inside: by thread, how many times it is in SQLite.
        forking: the threads that fork.
        unsafe: whether this process was made by fork while a thread was in SQLite.
    """

    def __init__(self, *, unsafe: bool = False) -> None:
        self.changed = threading.Condition()
        self.inside: Counter[int] = Counter()
        self.forking: set[int] = set()
        self.unsafe = unsafe

    def before_fork(self) -> None:
        """Wait for other threads, unless this one is in SQLite itself: its child is refused all ledgers anyway."""
        with self.changed:
            self.forking.add(threading.get_ident())
            if threading.get_ident() not in self.inside:
                self.changed.wait_for(lambda: not self.inside, PATIENCE)

    def after_fork(self) -> None:
        """Let others go on, in the parent."""
        with self.changed:
            self.forking.discard(threading.get_ident())
            self.changed.notify_all()


_gate = _Gate()


@contextmanager
def apart_from_forks(path: Path) -> Iterator[None]:
    """The use of SQLite by this thread, during which no other thread forks, or only one whose child is refused.

    Raises:
        OSError: this process was made by fork while SQLite was in use; `path` names the ledger in the message.
    """
    gate, me = _gate, threading.get_ident()
    if gate.unsafe:
        raise OSError(
            f"ledger: {str(path)!r} cannot be used in this process, which was made by fork while a ledger was in use; "
            "start processes by spawn, or before the ledger is used"
        )
    with gate.changed:
        if me not in gate.inside:
            gate.changed.wait_for(lambda: not gate.forking, PATIENCE)
        gate.inside[me] += 1
    try:
        yield
    finally:
        if gate is _gate:  # else this is a child, made meanwhile
            with gate.changed:
                gate.inside[me] -= 1
                if not gate.inside[me]:
                    del gate.inside[me]
                gate.changed.notify_all()


def _in_child() -> None:
    """Begin anew: no other thread is here, and no lock of theirs is given back."""
    global _gate
    _gate = _Gate(unsafe=_gate.unsafe or bool(_gate.inside))


os.register_at_fork(
    before=lambda: _gate.before_fork(), after_in_parent=lambda: _gate.after_fork(), after_in_child=_in_child
)
