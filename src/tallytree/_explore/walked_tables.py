"""The tables of a release as something to walk in: by the places of their hierarchies, each with what lies below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from tallytree._compute.arrays import IntArray
from tallytree.hierarchy import Hierarchy
from tallytree.product import Product
from tallytree.release.manifest import CONTRIBUTIONS, TABLES
from tallytree.release.paths import nodes_by_labels
from tallytree.release.release import Release
from tallytree.release.remainders import lists_remainders


@dataclass(frozen=True, eq=False)
class Side:
    """A hierarchy of the release, and its columns in the published tables, top first.

    Attributes:
        name: of the attribute; of a release on one hierarchy, of its lowest level.
        hierarchy: the public tree.
        columns: the names of its columns in the published tables. An added root has none.
    """

    name: str
    hierarchy: Hierarchy
    columns: tuple[str, ...]

    @cached_property
    def root(self) -> Place:
        """All of the side: its only top node, where that has a column."""
        return Place(1, 0) if self.size(1) == 1 and len(self.columns) == len(self.hierarchy.levels) else ALL

    def depth(self, named: int) -> int:
        """The level of the hierarchy that `named` columns go down to; 0 is the root."""
        return max(len(self.hierarchy.levels) - 1 - (len(self.columns) - named), 0)

    def size(self, named: int) -> int:
        """How many places are named by `named` columns."""
        return self.hierarchy.size(self.depth(named)) if named else 1

    def above(self, place: Place, named: int) -> Place:
        """The place, named by `named` columns, that a place lies in; the place itself where it is no deeper."""
        node = place.node
        for depth in range(self.depth(place.named), self.depth(named), -1):
            node = int(self.hierarchy.parent[depth][node])
        return Place(min(place.named, named), node if named else 0) if place.named > named else place

    def below(self, place: Place, named: int) -> slice:
        """The nodes, of the level that `named` columns go down to, that lie in a place: they follow each other."""
        first, stop = place.node, place.node + 1
        if place.named == 0:
            return slice(0, self.size(named))
        for depth in range(self.depth(place.named), self.depth(named)):
            first, stop = (int(self.hierarchy.first_child[depth][each]) for each in (first, stop))
        return slice(first, stop)

    def spread(self, nodes: IntArray, named: int, wanted: int) -> tuple[IntArray, IntArray]:
        """The first node, and the one after the last, that `wanted` columns name below nodes that `named` name."""
        first, stop = nodes, nodes + 1
        for depth in range(self.depth(named), self.depth(wanted)):
            first, stop = (self.hierarchy.first_child[depth][each] for each in (first, stop))
        return first, stop

    def path(self, place: Place) -> tuple[str, ...]:
        """The labels of a place, top first; none for all."""
        labels, node = [], place.node
        for named in range(place.named, 0, -1):
            depth = self.depth(named)
            labels.append(str(self.hierarchy.labels[depth][node]))
            node = int(self.hierarchy.parent[depth][node]) if depth else 0
        return tuple(reversed(labels))


@dataclass(frozen=True)
class Place:
    """A node of a side.

    Attributes:
        named: how many of the side's columns name it; 0 is all of the side.
        node: its number within its level; 0 for all.
    """

    named: int = 0
    node: int = 0


ALL = Place()


@dataclass(frozen=True)
class WalkedTable:
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
class WalkedTables:
    """All tables of a release, and the sides that they share."""

    release: Release

    @property
    def tree(self) -> Hierarchy | Product | None:
        """The public tree."""
        return self.release.tree

    @cached_property
    def sides(self) -> tuple[Side, ...]:
        """The hierarchies; none of a release without places (people by their number of records)."""
        tree = self.tree
        if self.release.statement["statistic"] == CONTRIBUTIONS:
            return ()
        if isinstance(tree, Hierarchy):
            return (Side(tree.levels[-1], tree, tree.columns),)
        if isinstance(tree, Product):
            return tuple(Side(each.name, each.hierarchy, tuple(each.columns)) for each in tree.attributes)
        return ()

    @cached_property
    def tables(self) -> tuple[WalkedTable, ...]:
        """The published tables, coarsest first; of the statistic `tables` those that were asked for."""
        statement, tree = self.release.statement, self.tree
        if not self.sides:
            return tuple(WalkedTable(level, level, ()) for level in self.release.levels)
        if statement["statistic"] == TABLES:
            asked = [each for each in statement["levels"] if each["asked"]]
            named = [tuple(self._named(side, each["table"]) for side in self.sides) for each in asked]
            titles = [" × ".join(each["table"]) or "total" for each in asked]
            return tuple(map(WalkedTable, [each["level"] for each in asked], titles, named))
        found = []
        for depth, level in enumerate(self.release.levels):
            if isinstance(tree, Product):
                found.append(WalkedTable(level, level, tuple(len(part[1]) for part in tree.parts(depth))))
            else:
                found.append(WalkedTable(level, level, (len(self.sides[0].hierarchy.path_columns(depth)),)))
        return tuple(found)

    def _named(self, side: Side, levels: list[str]) -> int:
        return max((side.columns.index(level) + 1 for level in levels if level in side.columns), default=0)

    def table(self, level: str) -> WalkedTable | None:
        """The table of that name; None if there is none."""
        return next((table for table in self.tables if table.level == level), None)

    @cached_property
    def lists_all(self) -> bool:
        """Whether row i of a table is about node i, zeros included."""
        return self.release.statement["statistic"] == "counts" and isinstance(self.tree, Hierarchy)

    def nodes(self, table: WalkedTable, rows: pa.Table) -> list[IntArray]:
        """Per side, the node of each row of a slice of the table."""
        return [span.first for span in self.spans(table, rows)]

    @cached_property
    def partly_listed(self) -> bool:
        """Whether tables have rows that say how much is not listed: a row of a table then may name fewer columns."""
        return lists_remainders(self.release.statement)

    def is_listed(self, table: WalkedTable, places: Sequence[Place]) -> bool:
        """Whether the row of a table that is about these places is about nodes of the table's level."""
        return all(place.named == named for place, named in zip(places, table.named, strict=True))

    def places(self, table: WalkedTable, rows: pa.Table) -> list[tuple[Place, ...]]:
        """Per row of a slice of the table, and side, the place that it names."""
        columns = []
        for side, span, named in zip(self.sides, self.spans(table, rows), table.named, strict=True):
            each = zip(span.first.tolist(), span.named.tolist(), strict=True)
            columns.append([side.above(Place(named, first), here) for first, here in each])
        return list(zip(*columns, strict=True))

    def spans(self, table: WalkedTable, rows: pa.Table) -> list[Span]:
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
                nodes = nodes_by_labels(side.hierarchy, side.depth(here), labels, int(these.sum()))
                first[these], stop[these] = side.spread(nodes, here, named)
            found.append(Span(first, stop, there))
        return found
