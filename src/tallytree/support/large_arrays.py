"""Large arrays, and work on them part by part: in memory, or mapped from files where they would not fit.

An array in a file is an ordinary one, so the same code works on both and gives the same numbers. The system reads and
writes its pages as they are used; after each part the process lets go of them. A file has no name once it is made: its
room on the disk is given back with the array, and when the process ends, however it ends. The room is reserved when the
array is made, so a full disk is an error there and not a crash later.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tallytree.support.arrays import IntArray, chunks
from tallytree.support.machine import described_bytes, side_by_side

LEAST_BYTES = 2**24
"""Smaller arrays are in memory."""
AT_ONCE = 2**17
"""Cells that a thread works on at once: they stay in the cache of a processor."""
HELD, TOUCHED = 2**22, 8
"""Cells after which pages are let go; and how many cells that are touched count as one that is worked on."""
FILLED_AT_ONCE = 2**24

Done = TypeVar("Done")

_mapped: weakref.WeakKeyDictionary[mmap.mmap, Path] = weakref.WeakKeyDictionary()
"""All arrays in files that somebody holds, and the folder of each."""
_lock = threading.Lock()


@dataclass(frozen=True, eq=False)
class LargeArrays:
    """Makes the large arrays of a computation, and works on them.

    Attributes:
        threads: how many work at once; None takes one per processor. No result depends on it.
        folder: where files are made; None to have all in memory. The numbers may be private: who makes it decides who
            can read it.
        least: arrays of fewer bytes are in memory.
        at_once: how many cells a thread works on at once; one row, or family, is never divided.
    """

    threads: int | None = None
    folder: Path | None = None
    least: int = LEAST_BYTES
    at_once: int = AT_ONCE

    def zeros(self, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
        """An array of zeros.

        Raises:
            OSError: the disk is full, or the folder cannot be written to.
        """
        kind = np.dtype(dtype)
        size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        if self.folder is None or size < max(self.least, 1):
            return np.zeros(shape, kind)
        view = _unnamed(self.folder, size)
        with _lock:
            _mapped[view] = self.folder
        return np.frombuffer(view, kind).reshape(shape)

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
        """An array of anything.

        Raises:
            OSError: as for `zeros`.
        """
        return np.empty(shape, dtype) if self.folder is None else self.zeros(shape, dtype)

    def each(self, work: Callable[[slice], Done], cells: IntArray, touched: IntArray | None = None) -> list[Done]:
        """Do the work for consecutive rows, so many at once that they have at most `at_once` cells.

        Args:
            work: what is done with some rows, in any thread.
            cells: how many each row has.
            touched: how many cells lie in the memory that is touched for each row, where that is more: of rows of all
                tables, work on a narrow one touches all pages. An eighth of them counts as cells at least.

        Returns:
            What the work returned, in the order of the rows.
        """
        touched = cells if touched is None else touched
        parts, found, held = list(chunks(np.maximum(cells, touched // TOUCHED), self.at_once)), [], 0
        for part, each in zip(parts, side_by_side(work, parts, threads=self.threads), strict=True):
            found.append(each)
            held += int(touched[part].sum())
            if held >= HELD:
                self.let_go()
                held = 0
        self.let_go()
        return found

    def parts(self, cells: IntArray) -> Iterator[slice]:
        """Consecutive rows, so many at once that they have at most `at_once` cells, one part after the other.

        Args:
            cells: how many each row has.
        """
        for part in chunks(cells, self.at_once * (HELD // AT_ONCE)):
            yield part
            self.let_go()

    def let_go(self) -> None:
        """Hold no page of a file of the folder in memory, until it is used again."""
        if self.folder is not None and hasattr(mmap, "MADV_DONTNEED"):
            with _lock:
                held = [each for each, place in _mapped.items() if place == self.folder]
            for each in held:
                each.madvise(mmap.MADV_DONTNEED)


@contextmanager
def emptied(folder: Path) -> Iterator[None]:
    """At the end, empty the files in a folder or below whose arrays something still holds, as an error does.

    Where the system cannot do that, their room is given back with the arrays.
    """
    try:
        yield
    finally:
        with _lock:
            held = [each for each, place in _mapped.items() if folder in (place, *place.parents)]
        for each in held if hasattr(mmap, "MADV_REMOVE") else ():
            with suppress(OSError):
                each.madvise(mmap.MADV_REMOVE)


def require_room(folder: Path, size: int) -> None:
    """Refuse to begin where a disk has less room than arrays take.

    Raises:
        OSError: it has less.
    """
    free = shutil.disk_usage(folder).free
    if free < size:
        raise OSError(
            errno.ENOSPC,
            f"temp_directory: the disk has {described_bytes(free)} of the {described_bytes(size)} that this may take; "
            "name a folder on another disk (tt.engines.Local, in a spec engine: {temp_directory: …}), or free some",
        )


def _unnamed(folder: Path, size: int) -> mmap.mmap:
    """A file of so many zeros, mapped, without a name; its room on the disk is taken."""
    handle, name = tempfile.mkstemp(dir=folder, prefix="array-")
    try:
        Path(name).unlink()
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(handle, 0, size)
        else:  # macOS
            with os.fdopen(os.dup(handle), "wb") as file:
                for start in range(0, size, FILLED_AT_ONCE):
                    file.write(bytes(min(FILLED_AT_ONCE, size - start)))
        return mmap.mmap(handle, size)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from None
    finally:
        os.close(handle)
