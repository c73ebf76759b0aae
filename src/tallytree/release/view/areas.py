"""The areas of a total: a public table of nodes, of one or several levels, that no two rows overlap in.

A row names a node by its path columns; the columns of lower levels are null or absent. Of a product, such as flows,
each side may be named down to a level of its own, and a side that is not named is meant as a whole: "all trips from
here". Rows that name the same columns make a block; rows and cells are compared by the nodes that they have in common
columns, as flat keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import RESERVED, Hierarchy
from tallytree.product import Product
from tallytree.release.view.sides import TreePlace, TreeSide, named_at, sides_of
from tallytree.sources.column_types import text_column, text_or_null
from tallytree.sources.locate import Files, Scan, locate
from tallytree.sources.reading import column_names, read_public, require_columns
from tallytree.support.arrays import BoolArray, IntArray, concatenate_ranges, sum_by_key
from tallytree.support.validate import text

ARGUMENT = "areas"
"""The name of the table in messages. It is public, so they may quote it."""

_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Block:
    """Rows that name the same columns.

    Attributes:
        named: per side, how many of its columns.
        depth: the first level of the tree whose nodes lie in a row as a whole, or not at all.
        nodes: per side, int64 (n,), the node of each row.
        areas: int64 (n,), the area of each row.
    """

    named: tuple[int, ...]
    depth: int
    nodes: tuple[IntArray, ...]
    areas: IntArray


@dataclass(frozen=True, eq=False)
class SummedAreas:
    """Areas of a tree: disjoint sets of its leaves, each given by rows.

    Attributes:
        tree: the public tree.
        by: the column that gave every row its area; None where all rows are one area.
        names: the value of that column of each area, in the order of their first rows; one null without it.
        blocks: the rows.
    """

    tree: Hierarchy | Product
    by: str | None
    names: pa.Array
    blocks: tuple[Block, ...]

    def __len__(self) -> int:
        """How many areas there are."""
        return len(self.names)

    def members(self, block: Block, depth: int, nodes: IntArray) -> tuple[IntArray, IntArray]:
        """Which nodes of a level share leaves with which areas, by the rows of a block.

        At the block's depth and below, such a node lies in one area as a whole.

        Returns:
            Places in `nodes` and areas: int64 (k,) each, no pair twice.
        """
        sides, level = sides_of(self.tree), named_at(self.tree, depth)
        wanted = tuple(map(min, level, block.named))
        rows = _keys(sides, block.nodes, block.named, wanted)
        pairs = _distinct(rows, block.areas)
        cells = _keys(sides, _split(sides, level, nodes), level, wanted)
        places, at = _matches(pairs[0], cells)
        return places, pairs[1][at]

    def shares(self, depth: int, nodes: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """How many leaves of some nodes of a level lie in which areas.

        Returns:
            Places in `nodes`, areas and numbers of leaves, > 0: int64 (k,) each, no pair of the first two twice.
        """
        sides, level = sides_of(self.tree), named_at(self.tree, depth)
        own = _split(sides, level, nodes)
        keys, numbers = [_NONE], [_NONE]
        for block in self.blocks:
            wanted = tuple(map(min, level, block.named))
            of_rows, of_nodes = np.ones_like(block.areas), np.ones_like(nodes)
            for side, row, named, node, here in zip(sides, block.nodes, block.named, own, level, strict=True):
                if named > here:
                    of_rows *= side.leaves(row, named)
                else:
                    of_nodes *= side.leaves(node, here)
            rows, areas, leaves = _summed(_keys(sides, block.nodes, block.named, wanted), block.areas, of_rows)
            cells = _keys(sides, own, level, wanted)
            places, at = _matches(rows, cells)
            keys.append(places * len(self) + areas[at])
            numbers.append(of_nodes[places] * leaves[at])
        key, leaves = sum_by_key(np.concatenate(keys), np.concatenate(numbers))
        return *np.divmod(key, len(self)), leaves

    def leaves_below(self, depth: int, nodes: IntArray) -> IntArray:
        """How many leaves each of some nodes of a level has: int64 (n,)."""
        sides, level = sides_of(self.tree), named_at(self.tree, depth)
        found = np.ones_like(nodes)
        for side, node, named in zip(sides, _split(sides, level, nodes), level, strict=True):
            found *= side.leaves(node, named)
        return found

    @cached_property
    def leaves(self) -> IntArray:
        """How many leaves each area has: int64 (areas,)."""
        sides = sides_of(self.tree)
        total = np.zeros(len(self), dtype=np.int64)
        for block in self.blocks:
            of_rows = np.ones(len(block.areas), dtype=np.int64)
            for side, nodes, named in zip(sides, block.nodes, block.named, strict=True):
                of_rows *= side.leaves(nodes, named)
            np.add.at(total, block.areas, of_rows)
        return total


def read_areas(tree: Hierarchy | Product, table: Any, by: str | None) -> SummedAreas:
    """The areas of a table: one of all rows, or, with `by`, one for each value of that column.

    Raises:
        ValueError: no rows; a column that is missing, or is no column of paths where some of these are absent; a row
            without a node, with a label below a null, or of a node that is not in the tree; rows that overlap; nulls in
            the column `by`.
        TypeError: not a table, or columns that hold neither text nor integers.
    """
    sides = sides_of(tree)
    rows, columns = _read(sides, table, by)
    if not rows.num_rows:
        raise ValueError(f"{ARGUMENT}: the table has no rows; give one row for each node")
    if by is None:
        names, areas = pa.nulls(1, pa.string()), np.zeros(rows.num_rows, dtype=np.int64)
    else:
        encoded = text_column(rows, by, ARGUMENT).dictionary_encode()
        names, areas = encoded.dictionary.cast(pa.string()), encoded.indices.to_numpy().astype(np.int64)
    paths = {name: text_or_null(rows, name, ARGUMENT) for name in columns}
    named = np.stack([_columns_named(side, paths, rows.num_rows) for side in sides], axis=1)
    if not named.any(axis=1).all():
        raise ValueError(
            f"{ARGUMENT}: row {int(np.argmin(named.any(axis=1))) + 1} names no node; each row names one by its path "
            "columns"
        )
    blocks = tuple(
        _block(tree, sides, paths, areas, np.flatnonzero((named == kind).all(axis=1)), tuple(map(int, kind)))
        for kind in np.unique(named, axis=0)
    )
    _refuse_overlaps(sides, blocks)
    return SummedAreas(tree, by, names, blocks)


def _split(sides: Sequence[TreeSide], named: Sequence[int], nodes: IntArray) -> tuple[IntArray, ...]:
    """The node of each side in the numbers of a level's nodes."""
    parts: list[IntArray] = []
    for side, each in zip(reversed(sides), reversed(named), strict=True):
        nodes, part = np.divmod(nodes, side.size(each))
        parts.append(part)
    return tuple(reversed(parts))


def _keys(
    sides: Sequence[TreeSide], nodes: Sequence[IntArray], named: Sequence[int], wanted: Sequence[int]
) -> IntArray:
    """One number for the ancestors of all sides by `wanted` columns each."""
    key = np.zeros_like(nodes[0])
    for side, each, here, above in zip(sides, nodes, named, wanted, strict=True):
        key = key * side.size(above) + side.ancestors(each, here, above)
    return key


def _matches(keys: IntArray, cells: IntArray) -> tuple[IntArray, IntArray]:
    """All pairs of equal numbers: places among the cells, and among the keys, which ascend."""
    first = np.searchsorted(keys, cells, side="left")
    found = np.searchsorted(keys, cells, side="right") - first
    return np.repeat(np.arange(len(cells)), found), concatenate_ranges(first, found)[0]


def _distinct(rows: IntArray, areas: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct pairs, ascending."""
    return _summed(rows, areas, np.zeros_like(rows))[:2]


def _summed(rows: IntArray, areas: IntArray, numbers: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """The distinct pairs, ascending, and the sum of the numbers of each."""
    order = np.lexsort((areas, rows))
    rows, areas = rows[order], areas[order]
    new = np.ones(len(rows), dtype=np.bool_)
    new[1:] = (rows[1:] != rows[:-1]) | (areas[1:] != areas[:-1])
    return rows[new], areas[new], np.add.reduceat(numbers[order], np.flatnonzero(new))


def _read(sides: Sequence[TreeSide], table: Any, by: str | None) -> tuple[pa.Table, list[str]]:
    """The columns of the table that are used, and those that are columns of paths."""
    wanted = [column for side in sides for column in side.columns]
    asked = [] if by is None else [text(by, "by", "the name of a column")]
    known = isinstance(table, Files | Scan)
    source = table if known else locate(table, ARGUMENT, [*wanted, *asked], public=True)
    present = column_names(source, ARGUMENT)
    columns = [column for column in wanted if column in present]
    require_columns(present, asked, ARGUMENT, public=True)
    if not columns:
        raise ValueError(f"{ARGUMENT}: it has none of the columns {', '.join(wanted)}; each row names a node by these")
    if len(columns) < len(wanted):
        # A misspelt column would be taken for one that is absent, and its rows for nodes of a higher level.
        strange = [name for name in present if name not in (*wanted, by, *RESERVED)]
        if strange:
            raise ValueError(
                f"{ARGUMENT}: column {strange[0]!r} is none of {', '.join(wanted)}, of which "
                f"{next(name for name in wanted if name not in present)!r} is absent; name the columns as in the "
                "release, and leave out others"
            )
    if by in RESERVED:
        raise ValueError(f"by: {by!r} is a column of the totals; rename the column")
    used = list(dict.fromkeys([*columns, *asked]))
    return read_public(source, used, ARGUMENT), columns


def _columns_named(side: TreeSide, paths: dict[str, pa.ChunkedArray], n_rows: int) -> IntArray:
    """How many of the columns of a side each row names: int64 (rows,).

    The column of a top level with a single value may be absent where a lower one is not.

    Raises:
        ValueError: a label below a null.
    """
    _add_single_top(side, paths)
    absent = np.zeros(n_rows, dtype=np.bool_)
    there: list[BoolArray] = [
        np.asarray(paths[column].is_valid().to_numpy()) if column in paths else absent for column in side.columns
    ]
    for above, below, column, upper in zip(there, there[1:], side.columns[1:], side.columns, strict=False):
        wrong = below & ~above
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"{ARGUMENT}: row {row + 1} has {column}={paths[column][row].as_py()!r}, but no {upper}; give the "
                "labels of all levels down to the node"
            )
    return np.asarray(np.sum(there, axis=0, dtype=np.int64))


def _add_single_top(side: TreeSide, paths: dict[str, pa.ChunkedArray]) -> None:
    top = side.columns[0]
    if top in paths or side.hierarchy.root_added or len(side.columns) < len(side.hierarchy.levels):
        return
    if any(column in paths for column in side.columns[1:]):
        label = side.hierarchy.labels[0][0].as_py()
        below = [paths[column].is_valid().to_numpy() for column in side.columns[1:] if column in paths]
        named = np.any(below, axis=0)
        paths[top] = pa.chunked_array([pa.array([label if each else None for each in named], pa.large_string())])


def _block(
    tree: Hierarchy | Product,
    sides: Sequence[TreeSide],
    paths: dict[str, pa.ChunkedArray],
    areas: IntArray,
    rows: IntArray,
    named: tuple[int, ...],
) -> Block:
    """The rows that name the same columns, with the nodes that they name."""
    places = pa.array(rows)
    nodes = []
    for side, columns in zip(sides, named, strict=True):
        labels = [paths[column].take(places) for column in side.columns[:columns]]
        found = side.nodes(labels, len(rows)) if columns else np.zeros(len(rows), np.int64)
        if (found < 0).any():
            row = int(np.argmax(found < 0))
            label = ", ".join(f"{name}={part[row].as_py()!r}" for name, part in zip(side.columns, labels, strict=False))
            raise ValueError(
                f"{ARGUMENT}: row {int(rows[row]) + 1} names {label}, which is not in the hierarchy; name nodes of the "
                "release"
            )
        nodes.append(found)
    depths = range(len(tree.levels))
    depth = next(d for d in depths if all(map(int.__ge__, named_at(tree, d), named)))
    return Block(named, depth, tuple(nodes), areas[rows])


def _refuse_overlaps(sides: Sequence[TreeSide], blocks: Sequence[Block]) -> None:
    """Refuse two rows that have a leaf in common.

    Raises:
        ValueError: there are such rows.
    """
    for block in blocks:
        keys = np.sort(_keys(sides, block.nodes, block.named, block.named))
        repeated = keys[1:] == keys[:-1]
        if repeated.any():
            _refuse(sides, block, int(keys[int(np.argmax(repeated))]), block.named, "is listed twice")
    for first, second in combinations(blocks, 2):
        common = tuple(map(min, first.named, second.named))
        shared = np.intersect1d(
            _keys(sides, first.nodes, first.named, common), _keys(sides, second.nodes, second.named, common)
        )
        if len(shared):
            _refuse(sides, second, int(shared[0]), common, "overlaps another row")


def _refuse(sides: Sequence[TreeSide], block: Block, key: int, named: Sequence[int], what: str) -> None:
    row = int(np.argmax(_keys(sides, block.nodes, block.named, named) == key))
    labels = [
        f"{name}={label!r}"
        for side, nodes, columns in zip(sides, block.nodes, block.named, strict=True)
        for name, label in zip(side.columns, side.path(TreePlace(columns, int(nodes[row]))), strict=False)
    ]
    raise ValueError(f"{ARGUMENT}: {', '.join(labels)} {what}; no place may be counted twice")
