"""The SQLite file of a ledger: how it is made, and how a transaction on it is opened.

**Why the sum holds across processes.** Reading the total, comparing and inserting are one transaction that begins by
taking SQLite's write lock (`BEGIN IMMEDIATE`). The journal is a rollback journal, not a write-ahead log: a
release writes once, a log needs shared memory that network file systems lack, and a log keeps entries in a second file
that a copy of the first one lacks. With a rollback journal `synchronous=EXTRA` is needed: with FULL, a power cut just
after a commit can bring the journal back and undo it.

**What a ledger file is**: exactly the tables and triggers of `schema.sql`.

**Forks.** A fork waits until no other thread uses SQLite, or its child uses no ledger. A child made by fork has
SQLite's mutexes and its list of file locks as they were at that moment. A mutex that another thread had is never given
back there, and a lock that it had seems to be the child's own. So a fork waits for the threads that are in a ledger
operation, and no other begins one meanwhile. It does not wait for ever: a thread may wait itself, for another process
or for what the forking thread holds. The child is refused all ledgers then.
"""

from __future__ import annotations

import os
import re
import sqlite3
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

from tallytree.ledger.chain import BEFORE_ALL, append, damaged
from tallytree.support.spill_folders import is_locked, locked
from tallytree.support.whole_files import flush

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


APPLICATION_ID = 0x54546C67
FORMAT_VERSION = 2


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables and triggers of a ledger, within a transaction that the caller has begun."""
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
    for statement in _statements():
        connection.execute(statement)


def check_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that is not a ledger, has other tables, or comes from another version.

    Raises:
        ValueError: it is one of these; `path` names it in the message.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID:
        raise ValueError(f"ledger: {str(path)!r} is not a tallytree ledger; give the path of one")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != FORMAT_VERSION:
        raise ValueError(
            f"ledger: {str(path)!r} has format version {version}; this tallytree reads {FORMAT_VERSION}; read it with "
            "the version that wrote it, and set the limits of a new ledger to what is left"
        )
    if _tables(connection) != expected_tables():
        raise damaged(path)


def check_pages(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file in which SQLite's own structure is damaged; its time grows with the file.

    Raises:
        ValueError: it is; `path` names it in the message.
    """
    if connection.execute("PRAGMA quick_check(1)").fetchall() != [("ok",)]:
        raise damaged(path)


@cache
def expected_tables() -> dict[str, str]:
    """The definitions of the tables and triggers, by name."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for statement in _statements():
            connection.execute(statement)
        return _tables(connection)


@cache
def _statements() -> tuple[str, ...]:
    """The statements of the file of definitions, one by one: a script would commit the transaction that it runs in."""
    text = resources.files("tallytree.ledger").joinpath("schema.sql").read_text(encoding="utf-8")
    found, statement = [], ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            found.append(statement)
            statement = ""
    return tuple(found)


def _tables(connection: sqlite3.Connection) -> dict[str, str]:
    """The definitions of tables and triggers by name, without those of SQLite itself."""
    return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"))


FileIdentity = tuple[int, int]
"""A file's device and inode, which stay as they are while SQLite writes to it."""

_PRAGMAS = ("synchronous = EXTRA", "fullfsync = ON", "foreign_keys = ON", "cell_size_check = ON")

_BLANK = "ledger"
"""The file in the folder in which a new ledger is made."""

_MOMENT = 2.0
"""How many seconds another process may take to remove that file, when the ledger has its name."""


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as built-in exceptions that name the file, chosen by SQLite's primary error code."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # SQLite's messages quote damaged text
        name = str(path)
        match getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                refusal: Exception = TimeoutError(
                    f"ledger: {name!r} is locked by another process; try again when that is done"
                )
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
                refusal = PermissionError(f"ledger: {name!r} cannot be written to; a release has to be recorded in it")
            case sqlite3.SQLITE_CANTOPEN:
                refusal = PermissionError(
                    f"ledger: {name!r} cannot be opened; it and its folder have to be readable and writable"
                )
            case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR:
                refusal = OSError(f"ledger: {name!r} could not be written ({error}); is the disk full?")
            case sqlite3.SQLITE_NOMEM:
                refusal = MemoryError(f"ledger: {name!r} needs more memory than there is")
            case _:
                refusal = damaged(path)
        raise refusal from error


@contextmanager
def transaction(path: Path, timeout: float, begin: Literal["BEGIN", "BEGIN IMMEDIATE"]) -> Iterator[sqlite3.Connection]:
    """A transaction on a checked file: committed at the end, rolled back after an error.

    The file must not be opened by other means in this process: closing it would release SQLite's locks.

    Args:
        path: the ledger's file.
        timeout: how many seconds to wait while another process writes.
        begin: whether SQLite's write lock is taken at the start.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not a ledger, has other tables, another journal mode or several names, or was replaced
            meanwhile.
        OSError: it cannot be read or written; TimeoutError where another process keeps it locked.
    """
    if not path.exists():
        raise FileNotFoundError(f"ledger: no file at {str(path)!r}; give the path of a ledger")
    if not path.is_file():
        raise ValueError(f"ledger: {str(path)!r} is not a file; give the path of a ledger")
    _check_one_name(path)
    opened = file_identity(path)
    uri = f"{path.absolute().as_uri()}?mode=rw"  # this mode never creates the file
    with (
        apart_from_forks(path),
        translated(path),
        closing(sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)) as connection,
    ):
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
        if journal != "delete":
            raise ValueError(
                f"ledger: {str(path)!r} has the journal mode {journal!r}, in which a copy can miss entries; "
                "set it back with `PRAGMA journal_mode = DELETE`"
            )
        connection.execute(begin)
        try:
            check_tables(connection, path)
            if file_identity(path) != opened:  # what is known of a file would be taken for that of another
                raise ValueError(f"ledger: {str(path)!r} was replaced while it was opened; run the command again")
            yield connection
            if connection.in_transaction:
                connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.rollback()


def _check_one_name(path: Path) -> None:
    """Refuse a file with hard links, before SQLite opens it.

    SQLite finds the journal of a killed process by the file's name. Under another name the file is used without it, and
    who opens it by the first name later rolls back what was recorded since.

    Raises:
        ValueError: it has several names.
    """
    last = time.monotonic() + _MOMENT
    while (names := path.stat().st_nlink) > 1:
        remove_leftovers(path.resolve())  # a ledger has two names until the folder in which it was made is gone
        if time.monotonic() > last:
            raise ValueError(
                f"ledger: {str(path)!r} is a file with {names} names (hard links), under which entries can be lost; "
                "keep one of them, that with a `-journal` file beside it if there is one, and make symbolic links of "
                "the others"
            )
        time.sleep(_MOMENT / 100)


def file_identity(path: Path) -> FileIdentity | None:
    """Which file is at the path now; None if there is none."""
    if not path.exists():
        return None
    status = path.stat()
    return status.st_dev, status.st_ino


def make_ledger(path: Path, first_event: bytes) -> bool:
    """Make the file with all its tables in one step, so that no process finds an incomplete one; False if it exists."""
    with blank_ledger(path, first_event) as blank:
        try:
            os.link(blank, path)
        except FileExistsError:
            return False
    flush(path.absolute().parent)
    return True


@contextmanager
def blank_ledger(path: Path, first_event: bytes) -> Iterator[Path]:
    """A ledger with nothing but its first event, in a folder beside the path, removed when the context ends.

    The folder is locked, and not the file: to close a handle of the file would release SQLite's locks.
    """
    above = path.absolute().parent
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".partial", dir=above))  # mode 0700
    except OSError as error:
        remedy = f"{error.strerror}; the ledger {path.name!r} cannot be made there"
        raise type(error)(error.errno, remedy, str(above)) from None
    try:
        with locked(folder):  # others do not take it for one that a killed process left
            blank = folder / _BLANK
            os.close(os.open(blank, os.O_CREAT | os.O_EXCL, 0o600))
            with (
                apart_from_forks(path),
                translated(path),
                closing(sqlite3.connect(blank, isolation_level=None)) as connection,
            ):
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("BEGIN")
                create_tables(connection)
                append(connection, BEFORE_ALL, [first_event])
                connection.execute("COMMIT")
            yield blank
    finally:
        _remove(folder)


def remove_leftovers(path: Path) -> None:
    """Remove the folders in which killed processes made this ledger; they hold an empty ledger, or none."""
    name = re.compile(re.escape(f".{path.name}.") + r"[a-z0-9_]{8}\.partial")  # as tempfile names it
    with suppress(OSError):  # the folder above does not exist, or may not be listed
        for entry in os.scandir(path.absolute().parent):
            if name.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                folder = Path(entry.path)
                if {*os.listdir(folder)} <= {_BLANK, f"{_BLANK}-journal"} and not is_locked(folder):  # noqa: PTH208
                    _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a folder of `blank_ledger`; one that cannot be removed stays."""
    with suppress(OSError):
        for name in (_BLANK, f"{_BLANK}-journal"):
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()
