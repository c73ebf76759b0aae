"""The noisy measurements of a level as a table of the release: kept as narrow integers, widened where they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import Levels
from tallytree.kinds.measurements import Measurement
from tallytree.release.level_tables import ROWS_AT_ONCE, LevelTable, beside_paths, row_slices
from tallytree.support.arrays import IntArray, chunks
from tallytree.tables import TableLayout

MAX_LIST_CELLS = 2**30
"""A list array of Arrow addresses its cells with 32 bits."""
CELLS_AT_ONCE = 2**24
"""What the lists of a slice may hold; each row counts for so many that no slice has more than `ROWS_AT_ONCE`."""


@dataclass(frozen=True, eq=False)
class MeasuredTable:
    """Every measurement of a level, one row per node: its path, its noisy values and their standard deviation.

    Attributes:
        tree: the public tree.
        depth: the level.
        nodes: int64 (n,), the node of each row.
        offsets: int64 (n + 1,), where each row's values begin in the values of all measurements, one after the other.
        values: the measurements' values, integers of any width.
        column: `"value"`, one number per row, or `"values"`, a list of them.
        std_dev: of the noise.
    """

    tree: Levels
    depth: int
    nodes: IntArray
    offsets: IntArray
    values: Sequence[IntArray]
    column: Literal["value", "values"]
    std_dev: float

    @classmethod
    def of(
        cls, tree: Levels, depth: int, taken: Sequence[Measurement], column: Literal["value", "values"]
    ) -> MeasuredTable:
        """The measurements of one level, in the order they were taken; the parts of a node are one row."""
        nodes: list[IntArray] = []
        lengths: list[IntArray] = []
        for measurement in taken:
            cells = np.diff(measurement.offsets)
            if measurement.first_cell > 0:  # it goes on where the one before it ended
                lengths[-1][-1] += cells[0]
            else:
                nodes.append(measurement.nodes)
                lengths.append(cells)
        offsets = np.cumsum(np.concatenate([np.zeros(1, dtype=np.int64), *lengths]))
        std_dev = taken[0].noise.std_dev if taken else 0.0
        values = [measurement.values for measurement in taken]
        return cls(tree, depth, np.concatenate([np.empty(0, np.int64), *nodes]), offsets, values, column, std_dev)

    @classmethod
    def of_cells(cls, tree: Levels, depth: int, taken: Sequence[Measurement]) -> MeasuredTable:
        """The measurements of all cells of a table, in order, one row per cell; no rows where it was not measured."""
        cells = sum(len(measurement.values) for measurement in taken)
        nodes = np.arange(cells, dtype=np.int64)
        offsets = np.arange(cells + 1, dtype=np.int64)
        std_dev = taken[0].noise.std_dev if taken else 0.0
        return cls(tree, depth, nodes, offsets, [measurement.values for measurement in taken], "value", std_dev)

    @property
    def num_rows(self) -> int:
        """How many rows it has."""
        return len(self.nodes)

    def read(self, start: int, stop: int) -> pa.Table:
        """Rows `start` … `stop` − 1."""
        nodes = self.nodes[start:stop]
        kind = pa.int64() if self.column == "value" else pa.list_(pa.int64())
        numbers = pa.table(
            {
                self.column: pa.chunked_array(list(self._arrays(start, stop)), kind),
                "std_dev": np.full(len(nodes), self.std_dev),
            }
        )
        return beside_paths(self.tree, self.depth, nodes, numbers)

    def slices(self) -> Iterator[slice]:
        """Rows that may be read at once: few where rows are long lists."""
        if self.column == "value":
            return row_slices(self.num_rows)
        return chunks(np.diff(self.offsets) + CELLS_AT_ONCE // ROWS_AT_ONCE, CELLS_AT_ONCE)

    def _arrays(self, start: int, stop: int) -> Iterator[pa.Array]:
        offsets = self.offsets[start : stop + 1]
        if self.column == "value":
            yield pa.array(self._widened(offsets[0], offsets[-1]))
            return
        for part in chunks(np.diff(offsets), MAX_LIST_CELLS):
            cuts = offsets[part.start : part.stop + 1]
            lists = pa.array((cuts - cuts[0]).astype(np.int32))
            yield pa.ListArray.from_arrays(lists, pa.array(self._widened(cuts[0], cuts[-1])))

    def _widened(self, begin: int, end: int) -> IntArray:
        """Values begin … end − 1 of all measurements, as int64."""
        begins = np.cumsum([0, *(len(values) for values in self.values)])
        wide = np.empty(end - begin, dtype=np.int64)
        first, last = np.searchsorted(begins, [begin, end], side="right") - 1
        for i in range(first, min(last + 1, len(self.values))):
            here = self.values[i][max(begin - begins[i], 0) : end - begins[i]]
            at = max(begins[i] - begin, 0)
            wide[at : at + len(here)] = here
        return wide


def measurement_tables(
    tree: Levels, taken: Sequence[Measurement], column: Literal["value", "values"]
) -> dict[str, LevelTable]:
    """The noisy measurements of every level, in the order they were taken; levels not measured have no rows."""
    of_level = {level: [each for each in taken if each.level == level] for level in tree.levels}
    if isinstance(tree, TableLayout):
        return {name: MeasuredTable.of_cells(tree, i, of_level[name]) for i, name in enumerate(tree.levels)}
    return {level: MeasuredTable.of(tree, depth, of_level[level], column) for depth, level in enumerate(tree.levels)}
