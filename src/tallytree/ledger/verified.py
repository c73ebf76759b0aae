"""What this process has verified of each ledger, and the transactions that begin where that ends.

**What is verified when.** The chain is verified as a whole at the first operation of a process on a ledger, and by
everything that lists entries (`tallytree ledger`). Each later operation verifies the events that were added since, from
the head that this process knows. The whole chain is verified again where that is not the end of the story:

* another file is at the path (device or inode), or another ledger is in it;
* the new events do not follow the known head;
* the file's times or size changed, and there is no new event.

What is known of earlier events was computed from their texts when these were verified, and lies in this process alone.
So a change to them in the file has no effect on what this process admits, also where it is not noticed. A text that is
read again (an earlier entry of a run) is compared with its digest, which is remembered.

**Never backwards.** A file that begins with the known first event and lacks the last event that was verified is
refused: it is an older copy, which lacks what was spent since, or was changed. A file with another first event is
another ledger, and is read from its start.

**No lock for long.** A chain of which more than `CHUNK` events are unknown is read in pieces, each in a reading
transaction of its own, before the write lock is taken. Events are only added, so pieces that follow each other are the
whole. The check of SQLite's own pages takes one reading transaction.

A child process made by fork starts with nothing known. See `docs/decisions/0054-ledger-sums.md`.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tallytree.ledger.books import Books, OpenBooks, Running
from tallytree.ledger.chain import BEFORE_ALL, Head, lacking, read_digest, read_head, read_links
from tallytree.ledger.database import check_pages, transaction

CHUNK = 10_000
"""How many events are read in one transaction."""

_MOST_LEDGERS = 16
"""How many ledgers are remembered; the one that was used least recently is forgotten."""

Signature = tuple[int, int, int, int, int]
"""A file's device, inode, times of change (ns) of its content and of its entry, and size."""


@dataclass
class _Memory:
    """What is known of one ledger.

    Attributes:
        running: the state at the known head.
        complete: whether that was once the last event; else the whole chain is being verified.
        signature: of the file when it was last read.
        first: the digest of the first event, when the whole ledger was last read; None before that.
        last: the last event then.
        lock: held while the state is carried on.
        keep: whether the texts of releases are kept.
    """

    running: Running = field(default_factory=Running)
    complete: bool = False
    signature: Signature | None = None
    first: str | None = None
    last: Head = BEFORE_ALL
    lock: threading.Lock = field(default_factory=threading.Lock)
    keep: bool = False

    def start_anew(self) -> None:
        """Know nothing but the first and the last event."""
        self.running, self.complete, self.signature = Running(keep=self.keep), False, None

    def check_not_older(self, digest: Callable[[int], str | None], path: Path) -> None:
        """Refuse the same ledger without the last event that was verified.

        Args:
            digest: of an event of the file by its number; None without one.
            path: the ledger's file.

        Raises:
            ValueError: it is an older copy, or was changed.
        """
        number = self.last.number
        if number and digest(number) != self.last.digest and digest(1) == self.first:
            raise lacking(path, number)


_memories: OrderedDict[Path, _Memory] = OrderedDict()
_memories_lock = threading.Lock()


def forget() -> None:
    """Forget all ledgers, as a new process would know nothing of them."""
    global _memories_lock
    _memories_lock = threading.Lock()
    _memories.clear()


os.register_at_fork(after_in_child=forget)


def forget_ledger(path: Path) -> None:
    """Forget a ledger that was deleted: this process has made another one at its path."""
    with _memories_lock:
        _memories.pop(path.absolute(), None)


@contextmanager
def opened_books(path: Path, timeout: float, begin: Literal["BEGIN", "BEGIN IMMEDIATE"]) -> Iterator[OpenBooks]:
    """The books of a ledger of any format, verified up to its last event, within a transaction.

    Args:
        path: the ledger's file.
        timeout: how many seconds to wait while another process writes.
        begin: whether SQLite's write lock is taken; no more than `CHUNK` events are read while it is held.

    Raises:
        ValueError: the file is no ledger, was changed, or is damaged.
        OSError: see `database.transaction`.
    """
    memory = _memory_of(path)
    while True:
        with transaction(path, timeout, begin) as connection:
            books = _caught_up(connection, path, memory, only_if_near=True)
            if books is not None:
                yield books
        if books is not None:
            _remember_written(path, memory, books)
            return
        with transaction(path, timeout, "BEGIN") as connection:
            _caught_up(connection, path, memory)


def listed_books(path: Path, timeout: float) -> Books:
    """All that a ledger holds, each entry included; the whole chain is verified, whatever is known of it.

    Raises:
        ValueError, OSError: see `opened_books`.
    """
    known = _memory_of(path)
    memory = _Memory(Running(keep=True), first=known.first, last=known.last, keep=True)
    while True:
        with transaction(path, timeout, "BEGIN") as connection:
            books = _caught_up(connection, path, memory)
        if books is not None:
            return books.listed()


def _memory_of(path: Path) -> _Memory:
    """What is known of the ledger at a path."""
    key = path.absolute()
    with _memories_lock:
        memory = _memories.setdefault(key, _Memory())
        _memories.move_to_end(key)
        if len(_memories) > _MOST_LEDGERS:
            _memories.popitem(last=False)
        return memory


def _caught_up(
    connection: sqlite3.Connection, path: Path, memory: _Memory, *, only_if_near: bool = False
) -> OpenBooks | None:
    """The books at the last event, within a transaction; None where more events have to be read before.

    Args:
        connection: to the ledger.
        path: the ledger's file.
        memory: what is known of it, which is carried on by at most `CHUNK` events.
        only_if_near: read nothing if more than `CHUNK` events are unknown.
    """
    stated, signature = read_head(connection, path), _signature(path)
    with memory.lock:
        memory.check_not_older(lambda number: read_digest(connection, number), path)
        if memory.running.head.number and not _goes_on(connection, memory, stated, signature):
            memory.start_anew()
        while True:
            was_complete = memory.complete
            if only_if_near and stated.number - memory.running.head.number > CHUNK:
                return None
            try:
                _carry_on(connection, path, memory, stated)
            except BaseException as error:
                memory.start_anew()  # the events may have been taken in by half
                if was_complete and isinstance(error, ValueError):
                    continue  # what is new does not follow the known head: it may follow another one
                raise
            memory.signature = signature
            memory.complete = memory.running.head == stated
            if not memory.complete:
                return None
            memory.first, memory.last = memory.running.first, stated
            return OpenBooks(connection, path, memory.running)


def _goes_on(connection: sqlite3.Connection, memory: _Memory, stated: Head, signature: Signature) -> bool:
    """Whether the file still has the known head, and was not written to without an event."""
    known, before = memory.running.head, memory.signature
    if before is None or signature[:2] != before[:2] or stated.number < known.number:
        return False
    if stated.number == known.number:
        return stated == known and (signature == before or not memory.complete)
    return read_digest(connection, known.number) == known.digest


def _carry_on(connection: sqlite3.Connection, path: Path, memory: _Memory, stated: Head) -> None:
    """Take in the next events, at most `CHUNK`.

    Raises:
        ValueError: the file was changed, or is damaged; the state is of no use then.
    """
    if not memory.running.head.number:
        check_pages(connection, path)
    memory.running.take(read_links(connection, path, memory.running.head, stated, CHUNK), path)


def _remember_written(path: Path, memory: _Memory, books: OpenBooks) -> None:
    """Take in what was written, after it was committed, unless another thread has read it by now."""
    if not books.written:
        return
    with memory.lock:
        if memory.last == books.written_after:
            memory.last = Head(memory.last.number + len(books.written), books.written[-1][1])
        if memory.running is not books.running or memory.running.head != books.written_after:
            return
        try:
            memory.running.take(books.written, path)
            memory.signature = _signature(path)
        except BaseException as error:
            memory.start_anew()  # the next operation verifies all
            if not isinstance(error, ValueError | OSError | MemoryError):
                raise


def _signature(path: Path) -> Signature:
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size
