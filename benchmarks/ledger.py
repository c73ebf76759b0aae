"""A ledger with many releases: what one more costs, and what the first operation of a process costs.

    python benchmarks/ledger.py [--releases 10000 100000 1000000] [--folder FOLDER]

The peer of a release is a bare insert of the same text into a SQLite file, with the same pragmas and
as many commits. That of the first operation is to fetch the same rows, compute SHA-256 of each and parse it as
JSON. Both take turns in one process. The ledger is on the disk of FOLDER (by default that of temporary files), so the
ratio is of two programs that wait for the same disk.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import secrets
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

from ratios import LeftOut, Ratio, best, least_seconds

import tallytree as tt
from tallytree.accounting.spending import Loss, Posting
from tallytree.ledger import Ledger, verified
from tallytree.ledger.chain import append, encoded, read_head
from tallytree.ledger.database import _PRAGMAS
from tallytree.ledger.events import event_text, release_text

RELEASES = 100_000
POSTING = Posting(
    dataset="people",
    statistic="counts",
    mechanism="LeastSquares",
    neighboring="add_remove",
    max_contributions=1,
    unit="record",
    loss=Loss(Fraction(1, 7), Fraction(0), Fraction(1, 98)),
    plan="ab" * 32,
)
_runs = itertools.count()


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", type=int, nargs="+", default=[10_000, RELEASES, 1_000_000])
    parser.add_argument("--folder", type=Path, help="where the ledger is made")
    arguments = parser.parse_args()
    print("| what | peer | ours, s | peer's, s | ours / peer's |\n" + "| --- " * 5 + "|")
    for releases in arguments.releases:
        for each in measured(releases, arguments.folder):
            print(f"| {each.name} | {each.peer} | {each.ours:.4f} | {each.theirs:.4f} | {each.ratio:.1f} |", flush=True)


def ratios() -> Iterator[Ratio | LeftOut]:
    """Of a ledger of 100,000 releases."""
    yield from measured(RELEASES)


def measured(releases: int, folder: Path | None = None) -> Iterator[Ratio]:
    """The ratios of a ledger with so many releases."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path, peer = Path(place) / "ledger.db", Path(place) / "peer.db"
        make_ledger(path, releases)
        make_peer(peer)
        ledger = Ledger(path, timeout=60)

        def first() -> None:
            verified.forget()
            ledger.remaining("people")

        times = 3 if releases <= RELEASES else 1
        yield Ratio(
            f"the first operation on a ledger of {releases:,} releases",
            "fetch, SHA-256 and JSON of the same rows",
            best(first, times),
            best(lambda: read_rows(path), times),
        )
        texts = [release_text(POSTING, 1, "ab" * 16, None), event_text("finish", number=1)]
        seconds = least_seconds({"ours": lambda: release(ledger), "peer": lambda: insert(peer, texts)}, times=25)
        yield Ratio(
            f"check, record and finish a release in a ledger of {releases:,}",
            "two inserts and commits in SQLite",
            seconds["ours"],
            seconds["peer"],
        )


def make_ledger(path: Path, releases: int) -> None:
    """A ledger with so many finished releases, each of a run of its own."""
    ledger = Ledger(path)
    ledger.set_limit("people", tt.Budget(epsilon=10**7), neighboring="add_remove")
    release_facts = json.loads(release_text(POSTING, 1, "cd" * 16, "ef" * 32))
    finish_facts = json.loads(event_text("finish", number=1))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        for start in range(1, releases + 1, 1_000):
            texts = []
            for number in range(start, min(start + 1_000, releases + 1)):
                facts = {"number": number, "release_id": secrets.token_hex(16), "run": f"run {number}"}
                texts += [encoded(release_facts | facts), encoded(finish_facts | {"number": number})]
            append(connection, read_head(connection, path), texts)
        connection.execute("COMMIT")


def make_peer(path: Path) -> None:
    """A table for texts."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE events (number INTEGER PRIMARY KEY, facts TEXT NOT NULL)")


def read_rows(path: Path) -> None:
    """What the peer of the first operation does."""
    with closing(sqlite3.connect(path)) as connection:
        for number, facts, _ in connection.execute("SELECT number, facts, digest FROM events"):
            hashlib.sha256(b"%d\n%b" % (number, facts.encode())).hexdigest()
            json.loads(facts)


def release(ledger: Ledger) -> None:
    """A release, as a ledger sees it."""
    posting = Posting(**{**vars(POSTING), "run": f"new {next(_runs)}"})
    ledger.check(posting)
    number = ledger.record(posting, statistics=lambda release_id: "cd" * 32).number
    ledger.finish(number)


def insert(path: Path, texts: list[bytes]) -> None:
    """What the peer of a release does."""
    for text in texts:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            for pragma in _PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO events (facts) VALUES (?)", (text.decode(),))
            connection.execute("COMMIT")


if __name__ == "__main__":
    main()
