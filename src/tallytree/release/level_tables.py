"""The tables of a release, in memory or on disk, readable in slices.

Path columns are read as Arrow dictionaries: the labels once, and an int32 code per row. `decoded` (in
`tallytree.hierarchy`) makes plain strings of them, for whoever is to see a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from tallytree.hierarchy import Levels
from tallytree.sources.column_types import is_text_type
from tallytree.support.arrays import IntArray
from tallytree.support.spill_folders import KeptFolder

ROWS_AT_ONCE = 1_000_000


class LevelTable(Protocol):
    """One table of a release, readable in slices."""

    @property
    def num_rows(self) -> int:
        """How many rows it has."""

    def read(self, start: int, stop: int) -> pa.Table:
        """Rows `start` … `stop` − 1."""

    def slices(self) -> Iterator[slice]:
        """All rows, in slices that may be read at once without much memory."""


@dataclass(frozen=True, eq=False)
class NodeTable:
    """A table in memory whose rows are about nodes; the path columns, as dictionaries, are made when they are read.

    Attributes:
        tree: the public tree.
        depth: the level.
        nodes: int64 (n,), the node of each row.
        columns: the other columns, n rows.
    """

    tree: Levels
    depth: int
    nodes: IntArray
    columns: pa.Table

    @property
    def num_rows(self) -> int:
        """How many rows it has."""
        return len(self.nodes)

    def read(self, start: int, stop: int) -> pa.Table:
        """Rows `start` … `stop` − 1."""
        return beside_paths(self.tree, self.depth, self.nodes[start:stop], self.columns.slice(start, stop - start))

    def slices(self) -> Iterator[slice]:
        """Slices of equally many rows."""
        return row_slices(self.num_rows)


@dataclass(frozen=True, eq=False)
class PartlyListedTable:
    """Listed nodes of a level, and after them how much of some nodes above is not listed there.

    Attributes:
        listed: the listed nodes.
        unlisted: per level above, root first, nodes of it and the numbers of what is not listed below them.
    """

    listed: NodeTable
    unlisted: tuple[NodeTable, ...]

    @property
    def num_rows(self) -> int:
        """How many rows it has."""
        return self.listed.num_rows + sum(each.num_rows for each in self.unlisted)

    def read(self, start: int, stop: int) -> pa.Table:
        """Rows `start` … `stop` − 1: those that say how much is not listed are null in the finer columns."""
        parts, first = [], 0
        schema = self.listed.read(0, 0).schema
        for table in (self.listed, *self.unlisted):
            begin, end = max(start - first, 0), min(stop - first, table.num_rows)
            if begin < end:
                rows = table.read(begin, end)
                columns = {
                    field.name: rows.column(field.name)
                    if field.name in rows.column_names
                    else pa.nulls(rows.num_rows, field.type)
                    for field in schema
                }
                parts.append(pa.table(columns, schema))
            first += table.num_rows
        return pa.concat_tables(parts).unify_dictionaries() if parts else schema.empty_table()

    def slices(self) -> Iterator[slice]:
        """Slices of equally many rows."""
        return row_slices(self.num_rows)


@dataclass(frozen=True, eq=False)
class PlainTable:
    """A small table in memory, without paths.

    Attributes:
        rows: the table.
    """

    rows: pa.Table

    @property
    def num_rows(self) -> int:
        """How many rows it has."""
        return int(self.rows.num_rows)

    def read(self, start: int, stop: int) -> pa.Table:
        """Rows `start` … `stop` − 1."""
        return self.rows.slice(start, stop - start)

    def slices(self) -> Iterator[slice]:
        """All rows at once."""
        return iter((slice(0, self.num_rows),))


@dataclass(frozen=True, eq=False)
class ChangedTable:
    """A table some of whose columns are made, or left out, when it is read.

    Attributes:
        table: the table.
        change: from rows and the number of the first of them to as many rows.
    """

    table: LevelTable
    change: Callable[[pa.Table, int], pa.Table]

    @property
    def num_rows(self) -> int:
        """How many rows it has."""
        return self.table.num_rows

    def read(self, start: int, stop: int) -> pa.Table:
        """Rows `start` … `stop` − 1."""
        return self.change(self.table.read(start, stop), start)

    def slices(self) -> Iterator[slice]:
        """Those of the table."""
        return self.table.slices()


def row_slices(rows: int) -> Iterator[slice]:
    """Slices of equally many rows."""
    return (slice(start, start + ROWS_AT_ONCE) for start in range(0, rows, ROWS_AT_ONCE))


def beside_paths(tree: Levels, depth: int, nodes: IntArray, numbers: pa.Table) -> pa.Table:
    """Numbers about nodes of a level, with the nodes' path columns before them, as dictionaries."""
    path = tree.coded_paths(depth, nodes)
    return pa.table({name: table.column(name) for table in (path, numbers) for name in table.column_names})


@dataclass(frozen=True)
class FileTable:
    """A table of a saved release, or of one that was made with `memory` and is not saved yet.

    Attributes:
        path: its Parquet file.
        num_rows: how many rows it has.
        folder: what the file lives with, where it is not a saved release's: the folder is removed with this object.
    """

    path: Path
    num_rows: int
    folder: KeptFolder | None = field(default=None, compare=False, repr=False)

    def read(self, start: int, stop: int) -> pa.Table:
        """Rows `start` … `stop` − 1; only the row groups that hold them are read."""
        with pa.parquet.ParquetFile(self.path, read_dictionary=self._texts) as file:
            ends = np.cumsum([file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)])
            first, last = np.searchsorted(ends, [start, stop - 1], side="right")
            rows = file.read_row_groups(range(first, min(last + 1, len(ends))))
        return rows.slice(start - (int(ends[first - 1]) if first else 0), stop - start)

    def slices(self) -> Iterator[slice]:
        """The row groups of the file, as they were written."""
        metadata = pa.parquet.read_metadata(self.path)
        ends = np.cumsum([0, *(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))])
        return (slice(int(start), int(stop)) for start, stop in pairwise(ends) if start < stop)

    @cached_property
    def _texts(self) -> list[str]:
        """The columns of paths."""
        schema = pa.parquet.read_schema(self.path)
        return [field.name for field in schema if is_text_type(field.type)]


def read_all(table: LevelTable) -> pa.Table:
    """All rows."""
    return table.read(0, table.num_rows)


def in_slices(table: LevelTable) -> Iterator[pa.Table]:
    """All rows, slice by slice; one empty slice of a table without rows."""
    for rows in table.slices() if table.num_rows else (slice(0, 0),):
        yield table.read(rows.start, min(rows.stop, table.num_rows))
