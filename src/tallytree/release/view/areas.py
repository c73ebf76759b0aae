"""The areas of a total: a public table of nodes, of one or several levels, that no two rows overlap in.

A row names a node by its path columns; the columns of lower levels are null or absent. Of a product, such as flows,
each side may be named down to a level of its own, and a side that is not named is meant as a whole: "all trips from
here". Rows that name the same columns make a block; rows and cells are compared by the nodes that they have in common
columns, as flat keys. With a column of weights, a row counts its node so many times, and areas may share nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from tallytree.support.arrays import BoolArray, FloatArray, IntArray, NumberArray, concatenate_ranges, sum_by_key
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
        weights: float64 (n,), how often each row counts; None for once.
    """

    named: tuple[int, ...]
    depth: int
    nodes: tuple[IntArray, ...]
    areas: IntArray
    weights: FloatArray | None = None

    @property
    def often(self) -> FloatArray:
        """How often each row counts: float64 (n,)."""
        return np.ones(len(self.areas)) if self.weights is None else self.weights


@dataclass(frozen=True, eq=False)
class SummedAreas:
    """Areas of a tree: sets of its leaves, each given by rows. Without weights they are disjoint.

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

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""
        return any(block.weights is not None for block in self.blocks)

    def members(self, block: Block, depth: int, nodes: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Which nodes of a level share leaves with which areas, by the rows of a block, and how often they count.

        At the block's depth and below, such a node lies in an area as a whole. Above, it counts as often as the row
        below it whose weight is the largest.

        Returns:
            Places in `nodes` and areas, int64 (k,) each, no pair twice; and weights, float64 (k,).
        """
        sides, level = sides_of(self.tree), named_at(self.tree, depth)
        wanted = tuple(map(min, level, block.named))
        rows = _keys(sides, block.nodes, block.named, wanted)
        order = np.lexsort((-np.abs(block.often), block.areas, rows))
        rows, areas = rows[order], block.areas[order]
        first = _first_of_each(rows, areas)
        cells = _keys(sides, _split(sides, level, nodes), level, wanted)
        places, at = _matches(rows[first], cells)
        return places, areas[first][at], block.often[order][first][at]

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
        return self.sums_of_rows(lambda block: self._leaves_of_rows(block)).astype(np.int64)

    @property
    def largest(self) -> FloatArray:
        """How often the row that counts most of each area does: float64 (areas,)."""
        most = np.zeros(len(self))
        for block in self.blocks:
            np.maximum.at(most, block.areas, np.abs(block.often))
        return most

    @property
    def squares(self) -> FloatArray:
        """The sum over the leaves of each area of the square of how often they count: float64 (areas,)."""
        return self.sums_of_rows(lambda block: self._leaves_of_rows(block) * block.often**2)

    def sums_of_rows(self, number: Callable[[Block], NumberArray]) -> FloatArray:
        """Numbers of the rows of each block, summed over areas: float64 (areas,)."""
        of_blocks = [np.bincount(each.areas, weights=number(each), minlength=len(self)) for each in self.blocks]
        return np.asarray(np.sum(of_blocks, axis=0), dtype=np.float64)

    def _leaves_of_rows(self, block: Block) -> IntArray:
        rows = np.ones(len(block.areas), dtype=np.int64)
        for side, nodes, named in zip(sides_of(self.tree), block.nodes, block.named, strict=True):
            rows *= side.leaves(nodes, named)
        return rows


def read_areas(tree: Hierarchy | Product, table: Any, by: str | None, weight: str | None = None) -> SummedAreas:
    """The areas of a table: one of all rows, or, with `by`, one for each value of that column.

    With `weight`, a column of numbers, each row counts so many times, and a node may lie in several areas.

    Raises:
        ValueError: no rows; a column that is missing, or is no column of paths where some of these are absent; a row
            without a node, with a label below a null, or of a node that is not in the tree; rows that overlap; nulls in
            the column `by`; weights that are null, negative or not finite.
        TypeError: not a table, or columns that hold neither text nor integers.
    """
    sides = sides_of(tree)
    rows, columns = _read(sides, table, by, weight)
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
    weights = None if weight is None else weights_in(rows, weight, ARGUMENT)
    blocks = tuple(
        _block(tree, sides, paths, areas, weights, np.flatnonzero((named == kind).all(axis=1)), tuple(map(int, kind)))
        for kind in np.unique(named, axis=0)
    )
    _refuse_overlaps(sides, blocks, apart=1 if weight is None else len(names))
    return SummedAreas(tree, by, names, blocks)


def contrasted(tree: Hierarchy | Product, first: tuple[int, int], second: tuple[int, int]) -> SummedAreas:
    """One area, in which a node of a tree with one side counts as 1 and another one as −1: columns and node of each."""
    zero = np.zeros(1, dtype=np.int64)
    parts = [
        areas_of_nodes(tree, named, np.array([node]), zero, np.array([sign]))
        for sign, (named, node) in ((1.0, first), (-1.0, second))
    ]
    return SummedAreas(tree, None, parts[0].names, (*parts[0].blocks, *parts[1].blocks))


def areas_of_nodes(
    tree: Hierarchy | Product, named: int, nodes: IntArray, of: IntArray, weights: FloatArray | None = None
) -> SummedAreas:
    """Areas that are sets of nodes of a tree with one side.

    Args:
        tree: the public tree.
        named: how many columns name the nodes.
        nodes: int64 (n,).
        of: int64 (n,), the area of each.
        weights: float64 (n,), how often each counts; None for once.
    """
    depth = next(each for each in range(len(tree.levels)) if named_at(tree, each)[0] >= named)
    names = pa.nulls(int(of.max(initial=-1)) + 1, pa.string())
    return SummedAreas(tree, None, names, (Block((named,), depth, (nodes,), of, weights),))


def weights_in(rows: pa.Table, column: str, argument: str) -> FloatArray:
    """A column of weights: float64 (rows,).

    Raises:
        ValueError: one is null, negative or not finite, or they are no numbers.
    """
    given = rows.column(column)
    try:
        weights = np.asarray(given.cast(pa.float64()).to_numpy(), dtype=np.float64)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ValueError(f"{argument}: the column {column!r} has values that are no numbers; give weights") from None
    wrong = ~(np.isfinite(weights) & (weights >= 0))  # a null is NaN here
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"{argument}: row {row + 1} has {column}={given[row].as_py()!r}, which must be a number of 0 or more; give "
            "each row its weight, such as the share of the place that counts"
        )
    return weights


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


def _first_of_each(rows: IntArray, areas: IntArray) -> BoolArray:
    """Whether each of some pairs, which ascend, is another than the one before it."""
    new = np.ones(len(rows), dtype=np.bool_)
    new[1:] = (rows[1:] != rows[:-1]) | (areas[1:] != areas[:-1])
    return new


def _summed(rows: IntArray, areas: IntArray, numbers: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """The distinct pairs, ascending, and the sum of the numbers of each."""
    order = np.lexsort((areas, rows))
    rows, areas = rows[order], areas[order]
    new = _first_of_each(rows, areas)
    return rows[new], areas[new], np.add.reduceat(numbers[order], np.flatnonzero(new))


def _read(sides: Sequence[TreeSide], table: Any, by: str | None, weight: str | None) -> tuple[pa.Table, list[str]]:
    """The columns of the table that are used, and those that are columns of paths."""
    wanted = [column for side in sides for column in side.columns]
    given = {"by": by, "weight": weight}
    asked = [text(name, option, "the name of a column") for option, name in given.items() if name is not None]
    known = isinstance(table, Files | Scan)
    source = table if known else locate(table, ARGUMENT, [*wanted, *asked], public=True)
    present = column_names(source, ARGUMENT)
    columns = [column for column in wanted if column in present]
    require_columns(present, asked, ARGUMENT, public=True)
    if not columns:
        raise ValueError(f"{ARGUMENT}: it has none of the columns {', '.join(wanted)}; each row names a node by these")
    if len(columns) < len(wanted):
        # A misspelt column would be taken for one that is absent, and its rows for nodes of a higher level.
        strange = [name for name in present if name not in (*wanted, *asked, *RESERVED)]
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
    weights: FloatArray | None,
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
    return Block(named, depth, tuple(nodes), areas[rows], None if weights is None else weights[rows])


def _refuse_overlaps(sides: Sequence[TreeSide], blocks: Sequence[Block], apart: int) -> None:
    """Refuse two rows that have a leaf in common.

    Args:
        sides: of the tree.
        blocks: the rows.
        apart: how many areas may share leaves with each other; 1 for none.

    Raises:
        ValueError: there are such rows.
    """
    for block in blocks:
        keys = np.sort(_keys(sides, block.nodes, block.named, block.named) * apart + block.areas % apart)
        repeated = keys[1:] == keys[:-1]
        if repeated.any():
            key = int(keys[int(np.argmax(repeated))]) // apart
            _refuse(sides, block, key, block.named, "is listed twice")
    for first, second in combinations(blocks, 2):
        common = tuple(map(min, first.named, second.named))
        both = [_keys(sides, each.nodes, each.named, common) * apart + each.areas % apart for each in (first, second)]
        shared = np.intersect1d(both[0], both[1])
        if len(shared):
            _refuse(sides, second, int(shared[0]) // apart, common, "overlaps another row")


def _refuse(sides: Sequence[TreeSide], block: Block, key: int, named: Sequence[int], what: str) -> None:
    row = int(np.argmax(_keys(sides, block.nodes, block.named, named) == key))
    labels = [
        f"{name}={label!r}"
        for side, nodes, columns in zip(sides, block.nodes, block.named, strict=True)
        for name, label in zip(side.columns, side.path(TreePlace(columns, int(nodes[row]))), strict=False)
    ]
    raise ValueError(f"{ARGUMENT}: {', '.join(labels)} {what}; no place may be counted twice")
