"""File system calls that a command makes, and those of them that a test lets fail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

MOVES = ("read", "write", "pread", "pread64", "pwrite", "pwrite64")
"""The calls that move bytes, and so can move fewer than they were asked to."""

CHANGES = (
    "create", "write", "pwrite", "pwrite64", "ftruncate", "ftruncate64", "mkdir", "rmdir", "unlink", "unlinkat",
    "rename", "renameat2", "link", "chmod", "fchmod",
)  # fmt: skip
"""The calls that change what is on the disk; a kill before any other leaves what one before the next of these does."""


OUTPUT = "<stdout>"
"""The place of a write to standard output."""


@dataclass(frozen=True)
class Call:
    """A file system call: its number from 1, its name, and the path of its file below the folder, or `OUTPUT`."""

    at: int
    name: str
    place: str


def ends_of_runs(calls: Iterable[Call]) -> Iterator[Call]:
    """The calls without those between the first and the last of the same calls in a row on the same file.

    A library writes a file of Parquet, or reads one, by many such calls; what is on the disk before and after is the
    same but for bytes of a file that is not complete. The writes to a ledger (`pwrite64`) are all kept.
    """
    for (name, _), run in groupby(calls, key=lambda call: (call.name, call.place)):
        same = list(run)
        yield from same if name == "pwrite64" else same[:1] + same[1:][-1:]
