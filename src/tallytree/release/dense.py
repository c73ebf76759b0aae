"""Published tables with all their cells, those that are 0 included.

Flows, large tables and group sizes list the cells that are not 0. Whoever counts cells, or joins them with others,
needs all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import Hierarchy, Levels
from tallytree.kinds.registry import kind_of
from tallytree.product import Product
from tallytree.release.level_tables import LevelTable, beside_paths, read_all
from tallytree.release.remainders import refuse_remainders
from tallytree.release.view.sides import node_numbers
from tallytree.support.arrays import IntArray
from tallytree.tables import TableLayout
from tallytree.tables.layout import table_of

NUMBERS = ("count", "size", "groups", "persons", "tail_count")
"""The columns that have a value in every cell; the others are errors."""
MOST_CELLS = 10**8
"""More cells do not fit in the memory of most machines."""


def dense_table(
    table: LevelTable,
    tree: Hierarchy | Product | None,
    depth: int,
    statement: Mapping[str, Any],
    spec: Mapping[str, Any],
) -> pa.Table:
    """All cells of a level or table, in the hierarchy's own order; path columns are dictionaries.

    Numbers of cells without a row are 0, and their errors are null: nothing published says what they are. Group sizes
    have a row for each node and size, from the least size to K.

    Args:
        table: as published.
        tree: the public tree.
        depth: the place of the level or table.
        statement: of the release.
        spec: of the release.

    Raises:
        ValueError: more cells than `MOST_CELLS`; people by their number of records, or what is listed in part.
    """
    if tree is None:
        raise ValueError("dense: people by their number of records have no tree with cells to list; use dense=False")
    refuse_remainders(statement, "dense", "a cell without a row is not 0; use dense=False")
    levels, place = _levels(tree, depth, statement)
    first, last = _sizes(statement, spec)
    sizes = last - first + 1
    cells = levels.size(place) * sizes
    if cells > MOST_CELLS:
        raise ValueError(
            f"dense: the table {statement['levels'][depth]['level']!r} has {cells:,} cells, more than "
            f"{MOST_CELLS:,}; use dense=False, which lists those that are not 0"
        )
    rows = read_all(table).unify_dictionaries()
    everywhere = _in_order(levels, place)
    rank = np.empty(levels.size(place), dtype=np.int64)
    rank[everywhere] = np.arange(len(everywhere))
    nodes = rank[node_numbers(levels, place, rows, rows.num_rows)]
    known = set(levels.path_columns(place))
    numbers = rows.select([column for column in rows.column_names if column not in known])
    at = nodes if sizes == 1 else nodes * sizes + (numbers.column("size").to_numpy() - first)
    filled = {
        column: _filled(numbers.column(column), at, len(everywhere) * sizes, is_number=column in NUMBERS)
        for column in numbers.column_names
    }
    if "size" in filled:
        filled["size"] = pa.array(np.tile(np.arange(first, last + 1, dtype=np.int64), len(everywhere)))
        everywhere = np.repeat(everywhere, sizes)
    if "tail_count" in filled:
        groups = filled["groups"].to_numpy().reshape(-1, sizes)
        filled["tail_count"] = pa.array(groups[:, ::-1].cumsum(axis=1)[:, ::-1].ravel())
    return beside_paths(levels, place, everywhere, pa.table(filled))


def _levels(tree: Hierarchy | Product, depth: int, statement: Mapping[str, Any]) -> tuple[Levels, int]:
    """Whose nodes the cells are, and at which of its levels."""
    if not kind_of(statement).has_tables or not isinstance(tree, Product):
        return tree, depth
    layout = TableLayout(tree, [table_of(tree, statement["levels"][depth]["table"], "release")], 1)
    return layout, 0


def _in_order(levels: Levels, place: int) -> IntArray:
    """All nodes of a level in the order in which they are published: family after family, from the root."""
    if not isinstance(levels, Product):
        return np.arange(levels.size(place), dtype=np.int64)
    nodes = np.zeros(1, dtype=np.int64)
    for depth in range(place):
        nodes = levels.children(depth, nodes)[0]
    return nodes


def _sizes(statement: Mapping[str, Any], spec: Mapping[str, Any]) -> tuple[int, int]:
    """The least size and K of group sizes; one size, 0, of other statistics."""
    if not kind_of(statement).by_size:
        return 0, 0
    last = largest_size(statement, spec)
    if last is None:
        raise ValueError("dense: this release does not say its largest size; use dense=False")
    return int(spec.get("min_group_size") or 0), last


def largest_size(statement: Mapping[str, Any], spec: Mapping[str, Any]) -> int | None:
    """K of a release of group sizes: larger groups count as this size. None where it is not known."""
    found = (statement.get("maximum") or {}).get("max_group_size", spec.get("max_group_size"))
    return int(found) if isinstance(found, int) else None


def _filled(column: pa.ChunkedArray, at: IntArray, cells: int, *, is_number: bool) -> pa.Array:
    """A column with a value for every cell: 0 where a number has no row, null where an error has none."""
    found = column.to_numpy()
    made = np.zeros(cells, dtype=found.dtype)
    made[at] = found
    if is_number:
        return pa.array(made)
    absent = np.ones(cells, dtype=np.bool_)
    absent[at] = False
    return pa.array(made, mask=absent)
