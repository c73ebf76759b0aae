"""Flat int64 arrays in files, for what does not fit in memory: written in order, and read in slices.

A slice is read with ordinary reads, not mapped, so that the memory of a process is what it has asked for. The files
are raw little-endian numbers, for the process that wrote them; who makes them decides where they lie. Those of private
statistics lie in a spill folder (`tallytree.support.spill_folders`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np

from tallytree.support.arrays import IntArray, offsets_of, sum_by_key

ROWS_AT_ONCE = 2**22
"""Rows that are read at once where a whole file is walked through."""

_ITEM = np.dtype("<i8")


@dataclass(frozen=True)
class FileArray:
    """An int64 array in a file.

    Attributes:
        path: the file.
        length: how many numbers it has.
    """

    path: Path
    length: int

    def __len__(self) -> int:
        """How many numbers it has."""
        return self.length

    def read(self, start: int = 0, stop: int | None = None) -> IntArray:
        """The numbers `start` … `stop` − 1 (by default all from `start` on): int64.

        Raises:
            OSError: the file cannot be read, or has fewer numbers.
        """
        count = max((self.length if stop is None else min(stop, self.length)) - start, 0)
        found = np.fromfile(self.path, dtype=_ITEM, count=count, offset=start * _ITEM.itemsize) if count else _NONE
        if len(found) != count:
            raise OSError(f"temp_directory: the file {self.path.name!r} is shorter than it was written")
        return found.astype(np.int64, copy=False)

    def blocks(self, rows: int = ROWS_AT_ONCE) -> Iterator[IntArray]:
        """All numbers, in order, so many at once."""
        return (self.read(start, start + rows) for start in range(0, self.length, rows))

    def place(self, value: int) -> int:
        """Where a value stands, or would stand, in ascending numbers: how many are smaller."""
        low, high = 0, self.length
        while high - low > 1024:
            middle = (low + high) // 2
            if int(self.read(middle, middle + 1)[0]) < value:
                low = middle + 1
            else:
                high = middle
        return low + int(np.searchsorted(self.read(low, high), value))

    def remove(self) -> None:
        """Remove the file; what is still read of the array fails from then on."""
        self.path.unlink(missing_ok=True)


_NONE = np.empty(0, dtype=np.int64)


class ArrayWriter:
    """Writes an int64 array to a file, piece by piece.

    Args:
        path: a file that does not exist yet.

    Raises:
        OSError: it exists or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        self._file: BinaryIO = os.fdopen(handle, "wb", buffering=0)
        self._length = 0

    def __enter__(self) -> Self:
        """The writer."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Close the file."""
        self._file.close()

    def __len__(self) -> int:
        """How many numbers were written."""
        return self._length

    def append(self, numbers: IntArray) -> None:
        """Write numbers (int64) after those before.

        Raises:
            OSError: the disk is full.
        """
        view = np.ascontiguousarray(numbers, dtype=_ITEM).view(np.uint8).data
        while view.nbytes:
            view = view[self._file.write(view) :]
        self._length += len(numbers)

    def done(self) -> FileArray:
        """Close the file; the array in it."""
        self._file.close()
        return FileArray(self._path, self._length)


def written(path: Path, numbers: IntArray) -> FileArray:
    """An array, written to a file."""
    with ArrayWriter(path) as writer:
        writer.append(numbers)
    return writer.done()


def sum_files(
    keys: FileArray,
    values: FileArray,
    key_of: Callable[[IntArray], IntArray],
    folder: Path,
    name: str,
    *,
    rows: int = ROWS_AT_ONCE,
) -> tuple[FileArray, FileArray]:
    """`sum_by_key` of files: the distinct `key_of(keys)`, ascending, and the sum of the values of each.

    Blocks are summed one by one; the sums of each block are a sorted run, and the runs are merged key range by key
    range. So any order of the keys will do, and no more than some `rows` rows are in memory.

    Args:
        keys: int64 (n,).
        values: int64 (n,).
        key_of: of some keys, the key that each is summed by, int64.
        folder: where the files are made.
        name: how their names begin.
        rows: how many rows are in memory at once.

    Returns:
        `NAME-keys` and `NAME-values`.
    """
    runs: list[tuple[int, int]] = []
    with ArrayWriter(folder / f"{name}-run-keys") as run_keys, ArrayWriter(folder / f"{name}-run-values") as run_values:
        for start in range(0, len(keys), rows):
            stop = start + rows
            here, sums = sum_by_key(key_of(keys.read(start, stop)), values.read(start, stop))
            runs.append((len(run_keys), len(run_keys) + len(here)))
            run_keys.append(here)
            run_values.append(sums)
    return _merged(run_keys.done(), run_values.done(), runs, folder, name, rows)


def _merged(
    keys: FileArray, values: FileArray, runs: Sequence[tuple[int, int]], folder: Path, name: str, rows: int
) -> tuple[FileArray, FileArray]:
    # Invariant: of run i, the rows before places[i] are read and those of heads[i] not yet written; all rows that are
    # written have smaller keys than all others.
    places = [start for start, _ in runs]
    heads = [(_NONE, _NONE) for _ in runs]
    each = max(rows // max(len(runs), 1), 1)
    with ArrayWriter(folder / f"{name}-keys") as out_keys, ArrayWriter(folder / f"{name}-values") as out_values:
        while True:
            for i, (_, stop) in enumerate(runs):
                if not len(heads[i][0]) and places[i] < stop:
                    ahead = min(places[i] + each, stop)
                    heads[i] = keys.read(places[i], ahead), values.read(places[i], ahead)
                    places[i] = ahead
            left = [i for i, head in enumerate(heads) if len(head[0])]
            if not left:
                break
            # Every row up to this key is in the heads: the head of each run that goes on reaches so far.
            goes_on = [int(heads[i][0][-1]) for i in left if places[i] < runs[i][1]]
            last = min(goes_on, default=max(int(heads[i][0][-1]) for i in left))
            cuts = {i: int(np.searchsorted(heads[i][0], last, side="right")) for i in left}
            here, sums = sum_by_key(
                np.concatenate([heads[i][0][: cuts[i]] for i in left]),
                np.concatenate([heads[i][1][: cuts[i]] for i in left]),
            )
            out_keys.append(here)
            out_values.append(sums)
            for i in left:
                heads[i] = heads[i][0][cuts[i] :], heads[i][1][cuts[i] :]
    keys.remove()
    values.remove()
    return out_keys.done(), out_values.done()


def partition_files(
    arrays: Sequence[FileArray],
    parts: Callable[[IntArray], IntArray],
    lengths: IntArray,
    folder: Path,
    name: str,
    *,
    rows: int = ROWS_AT_ONCE,
) -> list[FileArray]:
    """Rows of several columns, part after part, in order within each part: a stable sort by the part.

    Args:
        arrays: int64 (n,) each, the columns.
        parts: from some values of the first column to the part of each, int64 from 0.
        lengths: int64 (parts,), how many rows each part has.
        folder: where the files are made.
        name: how their names begin.
        rows: how many rows are in memory at once.

    Returns:
        A file for each column; part i begins where the lengths before it add up to.
    """
    next_free = offsets_of(lengths)[:-1]
    made = [folder / f"{name}-{i}" for i in range(len(arrays))]
    handles = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600) for path in made]
    try:
        for start in range(0, len(arrays[0]), rows):
            columns = [array.read(start, start + rows) for array in arrays]
            part = parts(columns[0])
            order = np.argsort(part, kind="stable")
            here = part[order]
            begins = np.flatnonzero(np.concatenate([[True], here[1:] != here[:-1]]))
            for begin, end in pairwise([*begins.tolist(), len(here)]):
                place = int(next_free[here[begin]])
                for handle, column in zip(handles, columns, strict=True):
                    _write_at(handle, column[order[begin:end]], place)
                next_free[here[begin]] += end - begin
    finally:
        for handle in handles:
            os.close(handle)
    return [FileArray(path, int(lengths.sum())) for path in made]


def _write_at(handle: int, numbers: IntArray, place: int) -> None:
    view = np.ascontiguousarray(numbers, dtype=_ITEM).view(np.uint8).data
    offset = place * _ITEM.itemsize
    while view.nbytes:
        written_bytes = os.pwrite(handle, view, offset)
        view, offset = view[written_bytes:], offset + written_bytes
