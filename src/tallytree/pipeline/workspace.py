"""Where a run that may take so much memory keeps what does not fit: `memory` of `SharedArguments`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tallytree.bands import ForcedCut
from tallytree.compute.memory import memory_bytes
from tallytree.compute.spill_folders import KeptFolder, spill_folder
from tallytree.private.engines import Engine, Local

BAND_SHARE = 4
"""A band's work gets this part of the memory; the rest is for the libraries, the engine and what is being written."""


@dataclass(frozen=True, eq=False)
class Workspace:
    """What a run in bands works with.

    Attributes:
        memory: bytes that the run may take, about.
        private: a folder for true statistics, removed when the run ends; mode 0700.
        published: a folder for released tables and noisy measurements, which the release keeps.
        forced: the cut that a test wants; None to choose one by memory.
    """

    memory: int
    private: Path
    published: KeptFolder
    forced: ForcedCut | None = None

    @property
    def band_bytes(self) -> int:
        """Bytes that the work on a band may take."""
        return self.memory // BAND_SHARE


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
    with spill_folder(place) as private:
        published = KeptFolder(place)
        try:
            yield Workspace(memory_bytes(memory, "memory"), private, published, forced)
        except BaseException:
            published.remove()
            raise


def limited(engine: Engine, memory: str | None) -> Engine:
    """The engine, with half of the memory that a run may take for its limit where it has none of its own.

    The other half is for what it has found. Engines elsewhere have their own limits.
    """
    if memory is None or not isinstance(engine, Local) or engine.memory_limit is not None:
        return engine
    limit: Any = f"{max(memory_bytes(memory, 'memory') // 2, 10**6)}B"
    return replace(engine, memory_limit=limit)
