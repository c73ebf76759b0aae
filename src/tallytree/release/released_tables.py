"""Released numbers and noisy measurements as the tables of a release, and what a statement says about the numbers.

Measurements are kept as narrow integers, and widened where they are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from tallytree.counts.released_counts import ListedErrors, ReleasedCounts
from tallytree.hierarchy import Hierarchy, Levels, Tree
from tallytree.kinds.columns import LISTED_FROM, PROBABILITY_ZERO, TAIL_COLUMNS, TYPICAL_ERROR, UNBIASED
from tallytree.kinds.measurements import Measurement
from tallytree.release.level_tables import (
    ROWS_AT_ONCE,
    LevelTable,
    NodeTable,
    PartlyListedTable,
    beside_paths,
    row_slices,
)
from tallytree.sizes import SizesDomain
from tallytree.sizes.mechanism import (
    ReleasedSizes,
    count_fractional,
    count_negative,
    count_violations,
    keeps_public_groups,
)
from tallytree.support.arrays import IntArray, chunks
from tallytree.tables import FittedTables, TableLayout

MAX_LIST_CELLS = 2**30
"""A list array of Arrow addresses its cells with 32 bits."""
CELLS_AT_ONCE = 2**24
"""What the lists of a slice may hold; each row counts for so many that no slice has more than `ROWS_AT_ONCE`."""


def count_tables(tree: Tree, levels: Sequence[ReleasedCounts]) -> dict[str, LevelTable]:
    """The released tables of counts, root first; with the standard deviation where the mechanism knows it.

    Below nodes that have children which are not listed, rows that are null in the finer columns say how much that is.
    """
    found: dict[str, LevelTable] = {}
    unlisted: list[NodeTable] = []
    for depth, (name, level) in enumerate(zip(tree.levels, levels, strict=True)):
        table = NodeTable(tree, depth, level.nodes, count_columns(level))
        found[name] = PartlyListedTable(table, tuple(unlisted)) if unlisted else table
        if level.unlisted is not None:
            unlisted.append(NodeTable(tree, depth, level.unlisted.nodes, count_columns(level.unlisted)))
    return found


def count_columns(level: ReleasedCounts) -> pa.Table:
    """The columns beside the paths of a table of counts."""
    known = {} if level.std_dev is None else {"std_dev": level.std_dev}
    if level.typical_error is not None:
        known[TYPICAL_ERROR] = level.typical_error
    if level.unbiased is not None:
        known[UNBIASED] = level.unbiased
    if level.errors is not None:
        known = _listed_columns(level.errors)
    return pa.table({"count": level.counts, **known})


def _listed_columns(errors: ListedErrors) -> dict[str, Any]:
    """The columns about the errors of nodes that are listed by their measurements; what is left over has no chance."""
    least = pa.array(np.where(np.isfinite(errors.listed_from), errors.listed_from, np.nan), from_pandas=True)
    columns: dict[str, Any] = {"std_dev": errors.std_dev, UNBIASED: errors.unbiased, LISTED_FROM: least}
    if errors.probability_zero is not None:
        columns[PROBABILITY_ZERO] = pa.array(errors.probability_zero, from_pandas=True)
    return columns


def published_tables(layout: TableLayout, fitted: FittedTables) -> dict[str, NodeTable]:
    """The released tables: all cells where these are not too many, else those that are not 0."""
    found = {}
    for depth, name in enumerate(layout.levels):
        counts = layout.summed(fitted.leaves, depth)
        found[name] = NodeTable(layout, depth, *published_cells(layout, depth, fitted, counts, slice(0, len(counts))))
    return found


def published_cells(
    layout: TableLayout, depth: int, fitted: FittedTables, counts: IntArray, areas: slice
) -> tuple[IntArray, pa.Table]:
    """The cells of some areas that a table lists, and its columns beside the paths.

    Args:
        layout: all tables.
        depth: the table.
        fitted: what a mechanism made.
        counts: (areas, cells of an area), the table.
        areas: some of them.
    """
    name, own = layout.levels[depth], counts[areas]
    known = {}
    if name in fitted.std_devs:  # a mechanism from outside may know no errors
        known["std_dev"] = np.broadcast_to(fitted.std_devs[name][areas], own.shape)
    if name in fitted.typical_errors:
        known[TYPICAL_ERROR] = np.round(fitted.typical_errors[name][areas], 4)
    if name in fitted.unbiased:
        known[UNBIASED] = fitted.unbiased[name][areas]
    own = own.ravel()
    listed = np.arange(len(own), dtype=np.int64) if layout.lists_zeros(depth) else np.flatnonzero(own)
    columns = {"count": own[listed], **{column: values.ravel()[listed] for column, values in known.items()}}
    return listed + areas.start * counts.shape[1], pa.table(columns)


def size_tables(hierarchy: Hierarchy, levels: Sequence[ReleasedSizes]) -> dict[str, LevelTable]:
    """The released tables of group sizes, root first."""
    return {
        name: NodeTable(hierarchy, depth, level.nodes, size_columns(level))
        for depth, (name, level) in enumerate(zip(hierarchy.levels, levels, strict=True))
    }


def size_columns(level: ReleasedSizes) -> pa.Table:
    """The columns beside the paths of a table of group sizes; with tail counts where their errors are known."""
    known = {} if level.std_dev is None else dict(zip(TAIL_COLUMNS, (level.tail_counts(), level.std_dev), strict=True))
    return pa.table({"size": level.sizes, "groups": level.groups, **known})


def about_size_tables(domain: SizesDomain, levels: Sequence[ReleasedSizes]) -> dict[str, Any]:
    """What a statement says about released tables of group sizes."""
    return {
        "constraint_violations": count_violations(domain.hierarchy, levels, domain.largest),
        "negative_numbers": count_negative(levels),
        "fractional_numbers": count_fractional(levels),
        "public_groups_kept": keeps_public_groups(domain, levels),
    }


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


def cell_by_cell(measurement: Measurement) -> Measurement:
    """A measurement of whole areas of a table as one of cells, which are the rows that are published."""
    cells = len(measurement.values) // max(len(measurement.nodes), 1)
    nodes = (measurement.nodes[:, None] * cells + np.arange(cells)).ravel()
    return replace(measurement, nodes=nodes, offsets=np.arange(len(nodes) + 1, dtype=np.int64))


def measurement_tables(
    tree: Levels, taken: Sequence[Measurement], column: Literal["value", "values"]
) -> dict[str, LevelTable]:
    """The noisy measurements of every level, in the order they were taken; levels not measured have no rows."""
    of_level = {level: [each for each in taken if each.level == level] for level in tree.levels}
    if isinstance(tree, TableLayout):
        return {name: MeasuredTable.of_cells(tree, i, of_level[name]) for i, name in enumerate(tree.levels)}
    return {level: MeasuredTable.of(tree, depth, of_level[level], column) for depth, level in enumerate(tree.levels)}
