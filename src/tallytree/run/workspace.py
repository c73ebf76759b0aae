"""Where a run that may take so much memory keeps what does not fit: `memory` of `SharedArguments`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tallytree.engines import Engine, Local
from tallytree.kinds.measurements import Measurement
from tallytree.private import BandPlace, HasBandPlace, OneByOne
from tallytree.support.large_arrays import AT_ONCE, LargeArrays, emptied, require_room
from tallytree.support.machine import enough_memory, memory_bytes
from tallytree.support.spill_folders import KeptFolder, spill_folder
from tallytree.trees.bands import ForcedCut

BAND_SHARE = 4
"""A band's work gets this part of the memory; the rest is for the libraries, the engine and what is being written."""

LEAST_ENGINE = 64 * 10**6
"""Bytes for the engine in any case: with much less DuckDB does not get through."""

ANY_BAND = 2**63
"""Bytes of a band where only `memory` is a limit."""

ROW_BYTES = 256
"""Bytes that a row of a file takes while it is worked on, with all copies."""

Taken = Callable[[Measurement], None]
"""What is done with a measurement."""


def not_taken(measurement: Measurement) -> None:
    """A measurement that is not kept: it is not wanted, or was taken before."""


@dataclass(frozen=True, eq=False)
class Workspace:
    """What a run in bands works with.

    Attributes:
        memory: bytes that the run may take, about.
        private: a folder for true statistics, removed when the run ends; mode 0700.
        published: a folder for released tables and noisy measurements, which the release keeps.
        forced: the cut that a test wants; None to choose one by memory.
        place: where the work on bands is done.
        largest_band: bytes that the work on a band may take there, at most.
    """

    memory: int
    private: Path
    published: KeptFolder
    forced: ForcedCut | None = None
    place: BandPlace = field(default_factory=OneByOne)
    largest_band: int = ANY_BAND

    @property
    def rows(self) -> int:
        """How many rows of files are in memory at once."""
        if self.forced is not None and self.forced.rows is not None:
            return self.forced.rows
        return min(max(self.band_bytes // ROW_BYTES, 2**14), 2**22)

    def arrays(self, needed: int) -> LargeArrays:
        """Makes the arrays of work on all cells at once: in files where it needs more bytes than the run may take."""
        if self.forced is not None:
            return LargeArrays(folder=self.private, least=0, at_once=self.forced.rows or AT_ONCE)
        return LargeArrays(folder=self.private if needed > self.memory else None)

    def require_room(self, needed: int) -> None:
        """Refuse work on arrays of so many bytes if they are in files and the disk has less room.

        Raises:
            OSError: it has less.
        """
        if needed > self.memory:
            require_room(self.private, needed)

    @property
    def band_bytes(self) -> int:
        """Bytes that the work on a band may take."""
        return min(self.memory // BAND_SHARE, self.largest_band)


def band_bytes(memory: str, engine: Engine) -> int:
    """Bytes that the work on a band may take in a run with so much memory."""
    largest = engine.largest_band if isinstance(engine, HasBandPlace) else ANY_BAND
    return min(memory_bytes(memory, "memory") // BAND_SHARE, largest)


@contextmanager
def workspace(memory: str | None, engine: Engine, forced: ForcedCut | None = None) -> Iterator[Workspace | None]:
    """The folders of a run with `memory`; None for a run all in memory.

    They are made where the engine spills. That of private statistics is removed at the end, also after an error; that
    of what is released lives as long as the release, and after an error no longer than the error.

    Raises:
        OSError: a folder cannot be made.
    """
    if memory is None:
        yield None
        return
    place: str | os.PathLike[str] | None = getattr(engine, "temp_directory", None)
    with spill_folder(place) as private, emptied(private):
        published = KeptFolder(place)
        try:
            if isinstance(engine, HasBandPlace):
                with engine.bands(private) as bands:
                    yield Workspace(
                        memory_bytes(memory, "memory"), private, published, forced, bands, engine.largest_band
                    )
            else:
                yield Workspace(memory_bytes(memory, "memory"), private, published, forced)
        except BaseException:
            published.remove()
            raise


def require_fits(memory: str | None, needed: int, why: str) -> None:
    """Refuse a run with less memory than what it works on at once takes; from public facts, before anything is read.

    Args:
        memory: the argument.
        needed: bytes that the work may take at once.
        why: why it takes them, and what to do about it.

    Raises:
        ValueError: they are more.
    """
    if memory is not None and needed > memory_bytes(memory, "memory"):
        raise ValueError(f"memory: {memory!r} is less than the {enough_memory(needed)} that this may take; {why}")


def limited(engine: Engine, memory: str | None) -> Engine:
    """The engine, with half of the memory that a run may take for its limit where it has none of its own.

    The other half is for what it has found. Engines elsewhere have their own limits.
    """
    if memory is None or not isinstance(engine, Local) or engine.memory_limit is not None:
        return engine
    limit: Any = f"{max(memory_bytes(memory, 'memory') // 2, LEAST_ENGINE)}B"
    return replace(engine, memory_limit=limit)
