"""The SQLite file of a ledger: how it is made, and how a transaction on it is opened.

**Why the sum holds across processes.** Reading the total, comparing and inserting are one transaction that begins by
taking SQLite's write lock (`BEGIN IMMEDIATE`). The journal is a rollback journal, not a write-ahead log: a
release writes once, a log needs shared memory that network file systems lack, and a log keeps entries in a second file
that a copy of the first one lacks. With a rollback journal `synchronous=EXTRA` is needed: with FULL, a power cut just
after a commit can bring the journal back and undo it.
"""

from __future__ import annotations

import os
import re
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Literal

from tallytree.ledger.chain import BEFORE_ALL, append
from tallytree.ledger.forks import apart_from_forks
from tallytree.ledger.schema import check_tables, create_tables
from tallytree.ledger.sqlite_errors import translated
from tallytree.support.locked_folders import is_locked, locked
from tallytree.support.whole_files import flush

FileIdentity = tuple[int, int]
"""A file's device and inode, which stay as they are while SQLite writes to it."""

_PRAGMAS = ("synchronous = EXTRA", "fullfsync = ON", "foreign_keys = ON", "cell_size_check = ON")

_BLANK = "ledger"
"""The file in the folder in which a new ledger is made."""

_MOMENT = 2.0
"""How many seconds another process may take to remove that file, when the ledger has its name."""


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
