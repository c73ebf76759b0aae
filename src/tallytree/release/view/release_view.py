"""`ReleaseView`: a release as everything that is made from it reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import RESERVED, TOTAL, Hierarchy, Levels
from tallytree.kinds.columns import TAIL_COLUMNS
from tallytree.kinds.kind import Kind
from tallytree.kinds.measurements import Noise, Statistic
from tallytree.kinds.registry import kind_of
from tallytree.product import Product
from tallytree.release.dense import largest_size
from tallytree.release.intervals import stated_errors, with_intervals
from tallytree.release.level_tables import ChangedTable, LevelTable, NodeTable, in_slices, read_all
from tallytree.release.release import Release
from tallytree.release.remainders import lists_remainders
from tallytree.release.view.layouts import layout_of
from tallytree.release.view.recorded_measurements import nodes_of_paths, path_texts, recorded_noise
from tallytree.release.view.sides import TreePlace, TreeSide, named_at, sides_of
from tallytree.sources.leaf_paths import decoded
from tallytree.sources.public_names import languages_of
from tallytree.support.arrays import IntArray, NumberArray
from tallytree.tables import TableLayout


@dataclass(frozen=True)
class PublishedTable:
    """A published table.

    Attributes:
        level: the name by which the release has it.
        title: its name for people.
        named: per side, how many of its columns the table has.
    """

    level: str
    title: str
    named: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Span:
    """The nodes of one side, of a table's level, that rows are about: int64 (n,) each.

    Attributes:
        first: the row's node; of a row that says how much is not listed, the first one below the node that it names.
        stop: the one after the last.
        named: how many columns the row names.
    """

    first: IntArray
    stop: IntArray
    named: IntArray


@dataclass(frozen=True, eq=False)
class PublishedLevel:
    """A published table as arrays: node, size (of group sizes) and number of each row."""

    nodes: IntArray
    sizes: IntArray | None
    numbers: NumberArray


def path_columns(table: pa.Table) -> list[str]:
    """The columns of a published table that say what a row is about, without sizes.

    They come first.
    """
    return list(takewhile(lambda column: column not in RESERVED, table.column_names))


@dataclass(frozen=True, eq=False)
class ReleaseView:
    """A release as it is read.

    Attributes:
        release: the release; of persons and households the tables of persons.
        hierarchy: the public tree that its rows are looked up in, where that is not its own.
        language: of names and words that people read; None for the first that each is in.
    """

    release: Release
    hierarchy: Hierarchy | Product | None = None
    language: str | None = None

    def __post_init__(self) -> None:
        """Take the part of persons: households by size have what their own methods tell, and are a release too."""
        if self.language is not None and self.language not in (known := self.languages):
            shown = f"is not one of {', '.join(known)}" if known else "has no use: no name or word has a language"
            raise ValueError(f"language: {str(self.language)[:50]!r} {shown}; leave it out for the first that there is")
        if self.kind.parts:
            object.__setattr__(self, "release", self.release.parts[self.kind.parts[0]])  # type: ignore[attr-defined]

    @property
    def statement(self) -> Mapping[str, Any]:
        """Its privacy statement."""
        return self.release.statement

    @property
    def kind(self) -> Kind:
        """What it is of."""
        return kind_of(self.statement)

    @property
    def statistic(self) -> str:
        """The name of what it is of."""
        return self.kind.name

    @property
    def number(self) -> str:
        """The column of its tables with what was published."""
        return self.kind.number

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the levels, or tables, root first."""
        return self.release.levels

    @cached_property
    def tree(self) -> Hierarchy | Product | None:
        """The public tree; None of people by their number of records."""
        return self.release.tree if self.hierarchy is None else self.hierarchy

    @property
    def known_tree(self) -> Hierarchy | Product:
        """The public tree.

        Raises:
            ValueError: the release has none.
        """
        if self.tree is None:
            raise ValueError(
                "release: people by their number of records are not counted by place; give a release of counts, "
                "flows, tables or group_sizes"
            )
        return self.tree

    @cached_property
    def layout(self) -> TableLayout:
        """The tables of a release of tables; see `layout_of`."""
        return layout_of(self.statement, self.known_tree)

    @property
    def cells(self) -> Levels:
        """The levels whose nodes published rows are about: the tree, or tables over it."""
        return self.layout if self.kind.has_tables else self.known_tree

    @property
    def noise(self) -> dict[str, tuple[Statistic, Noise]]:
        """What was measured at each measured level, root first, and the noise's exact law; see `recorded_noise`."""
        return recorded_noise(self.statement, self.cells)

    @property
    def largest_size(self) -> int | None:
        """K of a release of group sizes: larger groups count as this size. None where it is not known."""
        return largest_size(self.statement, self.release.spec)

    # Sides and places

    @cached_property
    def sides(self) -> tuple[TreeSide, ...]:
        """The hierarchies; none of a release without places (people by their number of records)."""
        return sides_of(self.tree, self.language)

    @property
    def languages(self) -> Sequence[str]:
        """The languages of names and words, in the order in which the publisher gave them."""
        every = [*(texts for side in self.sides for texts in side.hierarchy.names.values())]
        return languages_of([*every, *(texts for side in self.sides for texts in side.words.values())])

    def word(self, name: str) -> str:
        """What people read in place of the name of a level, a column or an attribute."""
        return next((side.word(name) for side in self.sides if name in side.words), name)

    def title_of(self, level: str) -> str:
        """What people read in place of the name of a level or a table, such as towns × sex."""
        about: Mapping[str, Any] = next((each for each in self.statement["levels"] if each["level"] == level), {})
        return (" × ".join(map(self.word, about["table"])) or TOTAL) if "table" in about else self.word(level)

    def shown(self, rows: pa.Table) -> pa.Table:
        """Rows of a table with what people read in place of labels: names where there are any."""
        for side in self.sides:
            rows = side.shown(rows)
        return rows

    @cached_property
    def tables(self) -> tuple[PublishedTable, ...]:
        """The published tables, coarsest first; where levels are tables, those that were asked for."""
        if not self.sides:
            return tuple(PublishedTable(level, level, ()) for level in self.levels)
        if self.kind.has_tables:
            asked = [each for each in self.statement["levels"] if each["asked"]]
            named = [tuple(self._named(side, each["table"]) for side in self.sides) for each in asked]
            titles = [self.title_of(each["level"]) for each in asked]
            return tuple(map(PublishedTable, [each["level"] for each in asked], titles, named))
        tree = self.known_tree
        return tuple(
            PublishedTable(level, self.word(level), named_at(tree, depth)) for depth, level in enumerate(self.levels)
        )

    def _named(self, side: TreeSide, levels: Sequence[str]) -> int:
        return max((side.columns.index(level) + 1 for level in levels if level in side.columns), default=0)

    def table(self, level: str) -> PublishedTable | None:
        """The table of that name; None if there is none."""
        return next((table for table in self.tables if table.level == level), None)

    @cached_property
    def lists_all(self) -> bool:
        """Whether row i of a table is about node i, zeros included."""
        return self.kind.counts_nodes and isinstance(self.tree, Hierarchy)

    @cached_property
    def partly_listed(self) -> bool:
        """Whether tables have rows that say how much is not listed: a row of a table then may name fewer columns."""
        return lists_remainders(self.statement)

    def places(self, table: PublishedTable, rows: pa.Table) -> list[tuple[TreePlace, ...]]:
        """Per row of a slice of the table, and side, the place that it names."""
        columns = []
        for side, span, named in zip(self.sides, self.spans(table, rows), table.named, strict=True):
            each = zip(span.first.tolist(), span.named.tolist(), strict=True)
            columns.append([side.above(TreePlace(named, first), here) for first, here in each])
        return list(zip(*columns, strict=True))

    def spans(self, table: PublishedTable, rows: pa.Table) -> list[Span]:
        """Per side, what each row of a slice of the table is about."""
        found = []
        for side, named in zip(self.sides, table.named, strict=True):
            columns = [rows.column(name) for name in side.columns[:named]]
            there = np.full(rows.num_rows, named, dtype=np.int64)
            for column in columns if self.partly_listed else ():
                there -= column.is_null().to_numpy()
            first, stop = np.zeros_like(there), np.ones_like(there)
            for here in np.unique(there).tolist():
                these = there == here
                if not here:
                    stop[these] = side.size(named)
                    continue
                labels = (
                    columns[:here] if these.all() else [column.filter(pa.array(these)) for column in columns[:here]]
                )
                nodes = side.nodes(labels, int(these.sum()))
                first[these], stop[these] = side.spread(nodes, here, named)
            found.append(Span(first, stop, there))
        return found

    def nodes(self, table: PublishedTable, rows: pa.Table) -> list[IntArray]:
        """Per side, the node of each row of a slice of the table."""
        return [span.first for span in self.spans(table, rows)]

    # Tables

    def rows(self, level: str) -> int:
        """How many rows a table has."""
        return self.release.level_tables[level].num_rows

    def read(self, level: str, start: int, stop: int) -> pa.Table:
        """Rows `start` … `stop` − 1 of a table, labels as dictionaries."""
        return self.release.level_tables[level].read(start, stop)

    def schema(self, level: str) -> pa.Schema:
        """The columns of a table."""
        return self.read(level, 0, 0).schema

    def slices(self, level: str) -> Iterator[pa.Table]:
        """The rows of a table, slice by slice, labels as dictionaries; one empty slice of a table without rows."""
        return in_slices(self.release.level_tables[level])

    def whole(self, level: str, alpha: float | None = None) -> pa.Table:
        """A small table, labels as strings; with `alpha` also with intervals, where its errors are known."""
        return self.with_intervals(level, decoded(read_all(self.release.level_tables[level])), alpha)

    def column(self, level: str, name: str) -> NumberArray:
        """A column of numbers of a table, whole: (rows,)."""
        return np.concatenate([rows.column(name).to_numpy() for rows in self.slices(level)])

    def has(self, level: str, column: str) -> bool:
        """Whether a table has a column."""
        return column in self.schema(level).names

    def paths(self, level: str) -> list[str]:
        """The path columns of a table."""
        return path_columns(self.read(level, 0, 0))

    @property
    def public_groups(self) -> str | None:
        """Which numbers of groups are exact: of every place (`leaf`), of all together (`total`), or none."""
        invariants = [str(each) for each in self.statement.get("invariants", ())]
        if any(each.startswith("the number of groups in every leaf") for each in invariants):
            return "leaf"
        return "total" if any(each.startswith("the total number of ") for each in invariants) else None

    def with_intervals(self, level: str, rows: pa.Table, alpha: float | None) -> pa.Table:
        """Rows of a table with intervals at `alpha`, where their errors are known."""
        if alpha is None or not {"std_dev", TAIL_COLUMNS[1]} & {*rows.column_names}:
            return rows
        return with_intervals(rows, alpha, stated_errors(self.statement, level))

    def published(self, depth: int) -> PublishedLevel:
        """A published table as arrays; see `published_level`."""
        return published_level(self.release.level_tables[self.levels[depth]], self.cells, depth)

    def all_published(self) -> list[PublishedLevel]:
        """All published tables as arrays, root first."""
        cells = self.cells
        return [published_level(table, cells, depth) for depth, table in enumerate(self.release.level_tables.values())]

    def cells_of_table(self, depth: int) -> IntArray:
        """Of tables, the number of every cell of one of them, int64 (areas, cells of an area): 0 where not listed."""
        level = self.published(depth)
        found = np.zeros(self.layout.size(depth), dtype=np.int64)
        found[level.nodes] = np.rint(level.numbers)
        return found.reshape(self.layout.areas(depth), -1)

    def all_cells(self) -> dict[str, IntArray]:
        """Of tables, the number of every cell of every table, int64 (cells,): 0 where it is not listed."""
        return {name: self.cells_of_table(depth).ravel() for depth, name in enumerate(self.levels)}


def published_level(table: LevelTable, tree: Levels, depth: int) -> PublishedLevel:
    """A published table as arrays.

    Raises:
        ValueError: a column is missing, or a row is about no node of the tree.
    """
    while isinstance(table, ChangedTable):  # changes are of error columns
        table = table.table
    if isinstance(table, NodeTable) and _same_nodes(table, tree, depth):  # made in this process
        return PublishedLevel(table.nodes, *_numbers(table.columns))
    parts = [_published_part(part, tree, depth) for part in (in_slices(table) if table.num_rows else ())]
    none = np.zeros(0, dtype=np.int64)
    listed_sizes = [part.sizes for part in parts if part.sizes is not None]
    return PublishedLevel(
        np.concatenate([none, *(part.nodes for part in parts)]),
        np.concatenate([none, *listed_sizes]) if len(listed_sizes) == len(parts) else None,
        np.concatenate([none, *(part.numbers for part in parts)]),
    )


def _published_part(part: pa.Table, tree: Levels, depth: int) -> PublishedLevel:
    numbers = "groups" if "size" in part.column_names else "count"
    paths = path_texts(part, tree, depth, f"release: the table of {tree.levels[depth]!r}", (numbers,))
    return PublishedLevel(nodes_of_paths(paths, tree, depth, part.num_rows), *_numbers(part))


def _same_nodes(table: NodeTable, tree: Levels, depth: int) -> bool:
    """Whether the nodes of a table are those of the tree; of tables, cells of the same table of the same product."""
    if isinstance(tree, TableLayout) and isinstance(table.tree, TableLayout):
        same = tree.product is table.tree.product
        return same and tree.tables[depth].refined == table.tree.tables[table.depth].refined
    return table.tree is tree


def _numbers(columns: pa.Table) -> tuple[IntArray | None, NumberArray]:
    """Sizes, if there are any, and numbers."""
    if "count" in columns.column_names:
        return None, columns.column("count").to_numpy()
    return columns.column("size").to_numpy(), columns.column("groups").to_numpy()
