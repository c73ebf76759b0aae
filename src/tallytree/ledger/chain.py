"""The events of a ledger file, in a chain of digests, so that a change to any of them is noticed.

An event is one line of JSON: what happened, when, and the facts. Its digest is SHA-256 of the digest before it and of
its own number and text:

    digest(n) = SHA-256(digest(n − 1) in hex, newline, n in decimal, newline, the text of event n in UTF-8)

with 64 zeros before the first event. So an event that is altered, left out, put in or moved makes the chain break at
its place, and `head`, which holds the last number and digest, misses events that were cut off at the end. The whole
chain is computed anew at every reading and before every writing.

The chain is no signature: who can write the file can also compute a new chain. Nor can it tell that the whole file is
an older copy. Both are noticed by whoever has noted the last digest (`Ledger.head`) elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tallytree.ledger.sqlite_errors import altered

Facts = Mapping[str, Any]
"""What an event says, by name; `event` is its kind."""

START = "0" * 64
"""In place of a digest before the first event."""


@dataclass(frozen=True)
class Chain:
    """The events of a ledger, whose digests agree.

    Attributes:
        texts: the events' texts, in order.
        head: the digest of the last one.
    """

    texts: tuple[bytes, ...]
    head: str


def encoded(facts: Facts) -> bytes:
    """The text of an event; equal facts have equal texts."""
    return json.dumps(facts, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode()


def linked(texts: Iterable[bytes], after: int = 0, digest: str = START) -> list[str]:
    """The digests of events that follow event number `after`, whose digest is given."""
    found = []
    for number, text in enumerate(texts, after + 1):
        digest = hashlib.sha256(b"%b\n%d\n%b" % (digest.encode(), number, text)).hexdigest()
        found.append(digest)
    return found


def read_chain(connection: sqlite3.Connection, path: Path) -> Chain:
    """All events of a ledger, within a transaction.

    Raises:
        ValueError: their digests do not agree: the file was changed, or is damaged.
    """
    connection.text_factory = bytes  # damaged text is not always UTF-8
    try:
        rows = connection.execute("SELECT number, facts, digest FROM events ORDER BY number").fetchall()
        heads = connection.execute("SELECT number, digest FROM head").fetchall()
    finally:
        connection.text_factory = str
    texts = tuple(text for _, text, _ in rows)
    if not all(isinstance(text, bytes) for text in texts):
        raise altered(path, "an event has no text")
    digest = START
    for place, (digest, (number, _, kept)) in enumerate(zip(linked(texts), rows, strict=True), 1):
        if number != place or kept != digest.encode():
            raise altered(path, f"event {place} does not agree with its digest")
    if heads != [(len(rows), digest.encode())]:
        raise altered(path, f"it does not end with event {len(rows)}")
    return Chain(texts, digest)


def append(connection: sqlite3.Connection, chain: Chain, texts: Iterable[bytes]) -> Chain:
    """The chain with further events, which are inserted, within a transaction that has read the chain."""
    added = tuple(texts)
    if not added:
        return chain
    before = len(chain.texts)
    digests = linked(added, before, chain.head)
    rows = [(before + i, text.decode(), digest) for i, (text, digest) in enumerate(zip(added, digests, strict=True), 1)]
    connection.executemany("INSERT INTO events (number, facts, digest) VALUES (?, ?, ?)", rows)
    if before:
        connection.execute("UPDATE head SET number = ?, digest = ?", (before + len(added), digests[-1]))
    else:
        connection.execute("INSERT INTO head VALUES (1, ?, ?)", (len(added), digests[-1]))
    return Chain((*chain.texts, *added), digests[-1])
