"""The events of a ledger file, in a chain of digests, so that a change to any of them is noticed.

An event is one line of JSON: what happened, when, and the facts. Its digest is SHA-256 of the digest before it and of
its own number and text:

    digest(n) = SHA-256(digest(n − 1) in hex, newline, n in decimal, newline, the text of event n in UTF-8)

with 64 zeros before the first event. So an event that is altered, left out, put in or moved makes the chain break at
its place, and `head`, which holds the last number and digest, misses events that were cut off at the end. `verified`
says when the chain is computed.

The chain is no signature: who can write the file can also compute a new chain. Nor can it tell that the whole file is
an older copy. Both are noticed by whoever has noted the last digest (`Ledger.head`) elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple


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


Facts = Mapping[str, Any]
"""What an event says, by name; `event` is its kind."""

START = "0" * 64
"""In place of a digest before the first event."""

_LEAST_NUMBER = -(2**63)


class Head(NamedTuple):
    """The last of some events.

    Attributes:
        number: its number; 0 before the first event.
        digest: its digest; `START` before the first event.
    """

    number: int = 0
    digest: str = START


BEFORE_ALL = Head()
"""What the first event follows."""


def encoded(facts: Facts) -> bytes:
    """The text of an event; equal facts have equal texts."""
    return json.dumps(facts, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode()


def digest_after(before: str, number: int, text: bytes) -> str:
    """The digest of an event that follows one with this digest."""
    return hashlib.sha256(b"%b\n%d\n%b" % (before.encode(), number, text)).hexdigest()


def linked(texts: Iterable[bytes], after: Head = BEFORE_ALL) -> list[str]:
    """The digests of events that follow another one."""
    found, digest = [], after.digest
    for number, text in enumerate(texts, after.number + 1):
        digest = digest_after(digest, number, text)
        found.append(digest)
    return found


def read_head(connection: sqlite3.Connection, path: Path) -> Head:
    """The last event as the file states it, within a transaction.

    Raises:
        ValueError: there is no such statement, or more than one.
    """
    heads = _rows(connection, "SELECT number, digest FROM head")
    match heads:
        case [(int() as number, bytes() as digest)] if number >= 1:
            return Head(number, digest.decode(errors="replace"))
    raise altered(path, "it does not say which event is the last")


def read_links(
    connection: sqlite3.Connection, path: Path, after: Head, stated: Head, most: int
) -> list[tuple[bytes, str]]:
    """The texts and digests of the next events, within a transaction.

    Args:
        connection: to the ledger.
        path: the ledger's file, for messages.
        after: the last event that is known; the next one has to be linked to its digest.
        stated: the last event as the file states it, not before `after`. If it is among those that are read, the chain
            has to end with it.
        most: how many events are read at most.

    Raises:
        ValueError: the digests do not agree: the file was changed, or is damaged.
    """
    missing = stated.number - after.number
    first, number_of = after.number + 1 if after.number else _LEAST_NUMBER, min(missing + 1, most)
    query = "SELECT number, facts, digest FROM events WHERE number >= ? ORDER BY number LIMIT ?"
    found, digest = [], after.digest
    for place, (number, text, kept) in enumerate(_rows(connection, query, first, number_of), after.number + 1):
        if not isinstance(text, bytes):
            raise altered(path, "an event has no text")
        digest = digest_after(digest, place, text)
        if number != place or kept != digest.encode():
            raise altered(path, f"event {place} does not agree with its digest")
        found.append((text, digest))
    last = Head(after.number + len(found), digest)
    if len(found) < most if missing >= most else last != stated:
        raise altered(path, f"it does not end with event {last.number}")
    return found


def read_digest(connection: sqlite3.Connection, number: int) -> str | None:
    """The digest of an event as the file has it; None without one."""
    rows = _rows(connection, "SELECT digest FROM events WHERE number = ?", number)
    return rows[0][0].decode(errors="replace") if rows and isinstance(rows[0][0], bytes) else None


def read_text(connection: sqlite3.Connection, path: Path, number: int, digest: str) -> bytes:
    """The text of an event whose digest is known.

    Raises:
        ValueError: it is not the text that had this digest. (No other text, nor another digest before it, has it.)
    """
    rows = dict(_rows(connection, "SELECT number, facts FROM events WHERE number = ?", number))
    before = START if number == 1 else read_digest(connection, number - 1)
    text = rows.get(number)
    if before is None or not isinstance(text, bytes) or digest_after(before, number, text) != digest:
        raise altered(path, f"event {number} does not agree with its digest")
    return text


def append(connection: sqlite3.Connection, head: Head, texts: Iterable[bytes]) -> list[str]:
    """The digests of further events, which are inserted, within a transaction that has read the head."""
    added = tuple(texts)
    if not added:
        return []
    digests, last = linked(added, head), head.number + len(added)
    rows = [
        (number, text.decode(), digest)
        for number, text, digest in zip(range(head.number + 1, last + 1), added, digests, strict=True)
    ]
    connection.executemany("INSERT INTO events (number, facts, digest) VALUES (?, ?, ?)", rows)
    if head.number:
        connection.execute("UPDATE head SET number = ?, digest = ?", (last, digests[-1]))
    else:
        connection.execute("INSERT INTO head VALUES (1, ?, ?)", (last, digests[-1]))
    return digests


def _rows(connection: sqlite3.Connection, query: str, *values: int) -> list[tuple[Any, ...]]:
    """The rows, with text as bytes: damaged text is not always UTF-8."""
    connection.text_factory = bytes
    try:
        return connection.execute(query, values).fetchall()
    finally:
        connection.text_factory = str
