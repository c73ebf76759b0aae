"""The tables of a release, written to files slice by slice while they are made: for what does not fit in memory.

The files are those that `Release.save` writes, row group for row group. They lie in a folder of the run's own until the
release is saved (`tallytree.support.spill_folders.KeptFolder`); what they hold may be published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Literal, Self

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import Levels
from tallytree.kinds.measurements import Measurement
from tallytree.release.files import TableWriter
from tallytree.release.level_tables import ROWS_AT_ONCE, FileTable, LevelTable, NodeTable, in_slices
from tallytree.release.released_tables import CELLS_AT_ONCE, MeasuredTable, published_cells
from tallytree.support.arrays import IntArray
from tallytree.support.large_arrays import LargeArrays
from tallytree.support.spill_folders import KeptFolder
from tallytree.tables import FittedTables, TableLayout


class _SliceWriter:
    """One file, to which slices are written; it is opened with the first of them."""

    def __init__(self, folder: KeptFolder, name: str, metadata: Mapping[bytes, bytes] | None) -> None:
        self._folder, self._path, self._metadata = folder, folder.path / name, metadata
        self._writer: TableWriter | None = None
        self._rows = 0

    def write(self, rows: pa.Table) -> None:
        if self._metadata:
            rows = rows.replace_schema_metadata({**(rows.schema.metadata or {}), **self._metadata})
        if self._writer is None:
            self._writer = TableWriter(self._path, rows.schema)
        self._writer.write(rows)
        self._rows += rows.num_rows

    def write_all(self, table: LevelTable) -> None:
        for rows in in_slices(table):
            self.write(rows)

    @property
    def begun(self) -> bool:
        return self._writer is not None

    def close(self) -> FileTable:
        if self._writer is not None:
            self._writer.close()
        return FileTable(self._path, self._rows, self._folder)


class TableFiles:
    """Writes the released tables of all levels, each in order, in pieces of any length.

    Use it in a `with` block, which closes the files; `done` returns the tables.

    Args:
        tree: the levels.
        empty: a table without rows, with the columns beside the paths.
        folder: where the files are made, and with which they are removed.
        metadata: of the schema of every file.
    """

    def __init__(
        self, tree: Levels, empty: pa.Table, folder: KeptFolder, metadata: Mapping[bytes, bytes] | None = None
    ) -> None:
        self._tree, self._empty = tree, empty
        self._files = [_SliceWriter(folder, f"table-{depth}.parquet", metadata) for depth in range(len(tree.levels))]
        self._waiting: list[list[tuple[IntArray, pa.Table]]] = [[] for _ in tree.levels]
        self._rows = [0] * len(tree.levels)

    def __enter__(self) -> Self:
        """The writer."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    def append(self, depth: int, nodes: IntArray, columns: pa.Table) -> None:
        """Write rows after those that the level has.

        Args:
            depth: the level.
            nodes: int64 (n,), the node of each row.
            columns: n rows, the columns beside the paths.
        """
        self._waiting[depth].append((nodes, columns))
        self._rows[depth] += len(nodes)
        if self._rows[depth] >= ROWS_AT_ONCE:
            nodes, columns = self._joined(depth)
            whole = len(nodes) - len(nodes) % ROWS_AT_ONCE
            self._files[depth].write_all(NodeTable(self._tree, depth, nodes[:whole], columns.slice(0, whole)))
            # Copied, so that the rows that are written do not stay in memory.
            rest = nodes[whole:].copy(), columns.slice(whole).take(pa.array(np.arange(len(nodes) - whole)))
            self._waiting[depth], self._rows[depth] = [rest], len(nodes) - whole

    def done(self) -> dict[str, LevelTable]:
        """The tables by level, root first, complete."""
        for depth, file in enumerate(self._files):
            if self._rows[depth] or not file.begun:
                nodes, columns = self._joined(depth)
                file.write_all(NodeTable(self._tree, depth, nodes, columns))
        return {level: file.close() for level, file in zip(self._tree.levels, self._files, strict=True)}

    def _joined(self, depth: int) -> tuple[IntArray, pa.Table]:
        """The rows that wait; one chunk a column."""
        waiting = self._waiting[depth]
        nodes = np.concatenate([np.empty(0, dtype=np.int64), *(each for each, _ in waiting)])
        return nodes, pa.concat_tables([self._empty, *(each for _, each in waiting)]).combine_chunks()


def table_files(
    layout: TableLayout,
    fitted: FittedTables,
    arrays: LargeArrays,
    folder: KeptFolder,
    metadata: Mapping[bytes, bytes] | None,
) -> dict[str, LevelTable]:
    """`published_tables`, written to files part by part.

    Args:
        layout: all tables.
        fitted: what a mechanism made.
        arrays: makes the sums of its cells.
        folder: where the files are made, and with which they are removed.
        metadata: of the schema of every file.
    """
    none = slice(0, 0)
    _, empty = published_cells(layout, 0, fitted, np.zeros((layout.areas(0), layout.width(0)), dtype=np.int64), none)
    with TableFiles(layout, empty, folder, metadata) as files:
        for depth in range(len(layout.levels)):
            counts = layout.summed(fitted.leaves, depth, arrays)
            for areas in arrays.parts(np.full(*counts.shape)):
                files.append(depth, *published_cells(layout, depth, fitted, counts, areas))
        return files.done()


class MeasurementFiles:
    """Writes noisy measurements as they are taken, level by level; `take` is the `keep` of a `Measurer`.

    Measurements of one level come in order; those of different levels in any order. Use it in a `with` block.

    Args:
        tree: the levels.
        column: how the values of a node are published: `"value"`, one number, or `"values"`, a list of them.
        folder: where the files are made, and with which they are removed.
    """

    def __init__(self, tree: Levels, column: Literal["value", "values"], folder: KeptFolder) -> None:
        self._tree = tree
        self._column: Literal["value", "values"] = column
        self._depths = {level: depth for depth, level in enumerate(tree.levels)}
        self._files = [_SliceWriter(folder, f"measured-{depth}.parquet", None) for depth in range(len(tree.levels))]
        self._waiting: list[list[Measurement]] = [[] for _ in tree.levels]
        self._rows, self._cells = [0] * len(tree.levels), [0] * len(tree.levels)

    def __enter__(self) -> Self:
        """The writer."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    def take(self, measurement: Measurement) -> None:
        """Write a measurement after those that the level has."""
        depth = self._depths[measurement.level]
        full = self._rows[depth] > ROWS_AT_ONCE or self._cells[depth] > CELLS_AT_ONCE
        if full and measurement.first_cell == 0:  # the node of the last row has all its parts
            self._write_but_last(depth)
        self._waiting[depth].append(measurement)
        self._rows[depth] += len(measurement.nodes)
        self._cells[depth] += len(measurement.values) + len(measurement.nodes)

    def done(self) -> dict[str, LevelTable]:
        """The tables by level, root first, complete."""
        for depth, file in enumerate(self._files):
            if self._waiting[depth] or not file.begun:
                file.write_all(self._table(depth))
        return {level: file.close() for level, file in zip(self._tree.levels, self._files, strict=True)}

    def _table(self, depth: int) -> MeasuredTable:
        return MeasuredTable.of(self._tree, depth, self._waiting[depth], self._column)

    def _write_but_last(self, depth: int) -> None:
        """Write all slices but the last, which may go on."""
        table = self._table(depth)
        *whole, last = table.slices()
        for rows in whole:
            self._files[depth].write(table.read(rows.start, rows.stop))
        kept: list[Measurement] = []
        rows_before = 0
        for measurement in self._waiting[depth]:
            first = rows_before - (measurement.first_cell > 0)  # a part goes on in the row before
            rows_before = first + len(measurement.nodes)
            if first >= last.start:
                kept.append(measurement)
            elif rows_before > last.start:
                kept.append(_from_row(measurement, last.start - first))
        self._waiting[depth] = kept
        self._rows[depth] = sum(len(each.nodes) for each in kept)
        self._cells[depth] = sum(len(each.values) + len(each.nodes) for each in kept)


def _from_row(measurement: Measurement, row: int) -> Measurement:
    """The measurement without its first nodes, copied, so that what is written does not stay in memory."""
    begin = measurement.offsets[row]
    nodes, values = measurement.nodes[row:].copy(), measurement.values[begin:].copy()
    return replace(measurement, nodes=nodes, values=values, offsets=measurement.offsets[row:] - begin)
