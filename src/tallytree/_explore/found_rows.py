"""Which rows of a published table are about a place, without the table being held.

Tables of counts list every node in order, so the rows of a place follow each other. Other tables list what is not 0.
Their nodes are looked up once, slice by slice: of tables with up to `MAX_KEPT` rows 4 bytes for each row and side are
kept, and the number of each row; larger ones are read again for each view.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tallytree._compute.arrays import BoolArray, IntArray, NumberArray
from tallytree.hierarchy import decoded
from tallytree.release.quality import number_column
from tallytree.release.view.release_view import PublishedTable, ReleaseView
from tallytree.release.view.sides import ALL, TreePlace

MAX_KEPT = 10_000_000
"""Rows."""
MAX_SLICES = 4
"""Slices of a table that are kept as they were read, for pages that follow each other."""


@dataclass(frozen=True, eq=False)
class _Looked:
    """A slice of a table: per side int32 (n,), the node of each row; and the number that the row publishes.

    Where rows say how much is not listed, the node is the first one of several, and `stops` has the one after the last.
    """

    rows: slice
    nodes: list[npt.NDArray[np.int32]]
    stops: list[npt.NDArray[np.int32]] | None
    numbers: NumberArray

    def inside(self, wanted: Sequence[slice]) -> BoolArray:
        """Which rows lie in ranges of nodes, one for each side, as a whole."""
        found = np.ones(len(self.numbers), dtype=np.bool_)
        for side, (nodes, within) in enumerate(zip(self.nodes, wanted, strict=True)):
            found &= nodes >= within.start
            found &= nodes < within.stop if self.stops is None else self.stops[side] <= within.stop
        return found

    def reached(self, wanted: Sequence[slice]) -> BoolArray:
        """Which rows lie there as a whole or in part."""
        found = np.ones(len(self.numbers), dtype=np.bool_)
        for nodes, stops, within in zip(self.nodes, self.stops or self.nodes, wanted, strict=True):
            found &= (nodes < within.stop) & (stops > within.start)
        return found


@dataclass(eq=False)
class FoundRows:
    """Finds and reads the rows of places."""

    tables: ReleaseView
    _kept: dict[str, list[_Looked]] = field(default_factory=dict)
    _slices: OrderedDict[tuple[str, int], pa.Table] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def of(self, table: PublishedTable, places: Sequence[TreePlace]) -> tuple[IntArray, NumberArray | None]:
        """The rows of the table that lie in all places.

        Returns:
            int64 (n,), their numbers in the table, in its order; and the published number of each, or None where rows
            are listed without being read.
        """
        wanted = self._wanted(table, places)
        if self.tables.lists_all:
            (only,) = wanted
            return np.arange(only.start, only.stop, dtype=np.int64), None
        rows: list[IntArray] = [np.zeros(0, dtype=np.int64)]
        numbers: list[NumberArray] = [np.zeros(0, dtype=np.int64)]
        everything = all(place == ALL for place in places)
        for part in self._looked(table):
            inside = np.ones(len(part.numbers), dtype=np.bool_) if everything else part.inside(wanted)
            rows.append(np.flatnonzero(inside) + part.rows.start)
            numbers.append(part.numbers[inside])
        return np.concatenate(rows), np.concatenate(numbers)

    def in_part(self, table: PublishedTable, places: Sequence[TreePlace]) -> int:
        """How much is not listed of cells that have a part in the places and a part elsewhere."""
        if not self.tables.partly_listed:
            return 0
        wanted = self._wanted(table, places)
        return sum(int(part.numbers[part.reached(wanted) & ~part.inside(wanted)].sum()) for part in self._looked(table))

    def _wanted(self, table: PublishedTable, places: Sequence[TreePlace]) -> list[slice]:
        """Per side, the nodes of the table's level that lie in a place."""
        sides = self.tables.sides
        return [side.below(place, named) for side, place, named in zip(sides, places, table.named, strict=True)]

    def _looked(self, table: PublishedTable) -> Iterator[_Looked]:
        """The slices of a table with the nodes of their rows; kept where the table is not too large."""
        kept = self._kept.get(table.level)
        if kept is not None:
            yield from kept
            return
        keep: list[_Looked] | None = [] if self.tables.rows(table.level) <= MAX_KEPT else None
        start = 0
        for read in self.tables.slices(table.level):
            spans = self.tables.spans(table, read)
            nodes = [span.first.astype(np.int32) for span in spans]
            stops = [span.stop.astype(np.int32) for span in spans] if self.tables.partly_listed else None
            numbers = read.column(number_column(read)).to_numpy()
            looked = _Looked(slice(start, start := start + read.num_rows), nodes, stops, numbers)
            if keep is not None:
                keep.append(looked)
            yield looked
        if keep is not None:
            self._kept[table.level] = keep

    def read(self, table: PublishedTable, rows: IntArray) -> pa.Table:
        """Those rows of the table, in the order given; labels as dictionaries. For a page: some hundreds."""
        source = self.tables.release.level_tables[table.level]
        order = np.argsort(rows, kind="stable")
        pieces, at = [], rows[order]
        for part in source.slices() if source.num_rows else ():
            first, stop = np.searchsorted(at, [part.start, part.stop])
            if first < stop:
                places = pa.array(at[first:stop] - part.start)
                pieces.append(decoded(self._slice(table, part).take(places)))
        if not pieces:
            return decoded(source.read(0, 0))
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return pa.concat_tables(pieces).take(pa.array(back))

    def nodes(self, table: PublishedTable, rows: IntArray, read: pa.Table) -> list[IntArray]:
        """Per side, the node of each of those rows; `read` are the same rows, as `read` gives them."""
        if self.tables.lists_all:
            return [rows]
        kept = self._kept.get(table.level)
        if kept is None:
            return self.tables.nodes(table, read)
        starts = np.array([part.rows.start for part in kept], dtype=np.int64)
        which = np.searchsorted(starts, rows, side="right") - 1
        found = [np.zeros(len(rows), dtype=np.int64) for _ in table.named]
        for at, (part, row) in enumerate(zip(which.tolist(), rows.tolist(), strict=True)):  # of one page
            for side, nodes in enumerate(kept[part].nodes):
                found[side][at] = nodes[row - starts[part]]
        return found

    def _slice(self, table: PublishedTable, part: slice) -> pa.Table:
        key = (table.level, part.start)
        with self._lock:
            if key in self._slices:
                self._slices.move_to_end(key)
                return self._slices[key]
        source = self.tables.release.level_tables[table.level]
        read = source.read(part.start, min(part.stop, source.num_rows))
        with self._lock:
            self._slices[key] = read
            while len(self._slices) > MAX_SLICES:
                self._slices.popitem(last=False)
        return read
