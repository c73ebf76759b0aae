"""SQLite's errors, as built-in exceptions with messages that say what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def damaged(path: Path) -> ValueError:
    """What to raise for a file that is damaged, or is not a ledger."""
    return ValueError(
        f"ledger: {str(path)!r} is not a tallytree ledger, or a damaged one; give the path of one, or restore it from "
        "a copy that has all releases"
    )


def altered(path: Path, what: str) -> ValueError:
    """What to raise for a ledger whose content does not agree with itself."""
    return ValueError(
        f"ledger: {str(path)!r} was changed, or is damaged: {what}; restore it from a copy that has all releases"
    )


def lacking(path: Path, number: int) -> ValueError:
    """What to raise for a ledger without an event that this process has verified."""
    return altered(
        path,
        f"event {number}, which this process has verified, is no longer in it, as in an older copy (only a new process "
        "takes it as it is; reduce its limits first by what was spent since)",
    )


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
