"""Views of a release: what is shown of a place, without anything of how it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree._compute.arrays import IntArray
from tallytree._explore.found_rows import FoundRows
from tallytree.hierarchy import decoded
from tallytree.release.intervals import LevelErrors, stated_errors, with_intervals, without_hidden
from tallytree.release.quality import with_quality
from tallytree.release.release import Release
from tallytree.release.remainders import NOT_LISTED
from tallytree.release.view.release_view import PublishedTable, ReleaseView
from tallytree.release.view.sides import ALL, TreePlace, TreeSide

PAGE = 50
"""Rows of a page."""
MAX_FOUND = 30
"""Places that a search lists."""
ORDERS = ("largest", "hierarchy")


@dataclass(frozen=True)
class Page:
    """Some rows of a table about a place.

    Attributes:
        rows: as they are published, with intervals where errors are known; for group sizes one row per place, with
            `groups` and `members` (of sizes that stand for larger ones, at least so many).
        places: per row and side, the place that it is about; of a row that says how much is not listed, a coarser one.
        first: the first row's position among all.
        total: how many rows there are in all.
        in_part: how much is not listed of cells that have a part in the place that is viewed and a part elsewhere.
    """

    rows: pa.Table
    places: list[tuple[TreePlace, ...]]
    first: int
    total: int
    in_part: int = 0


@dataclass(frozen=True, eq=False)
class Walk:
    """A release, to be walked.

    Attributes:
        release: as loaded.
    """

    release: Release
    _summaries: dict[str, pa.Table] = field(default_factory=dict)

    @cached_property
    def view(self) -> ReleaseView:
        """Its tables."""
        return ReleaseView(self.release)

    @cached_property
    def found(self) -> FoundRows:
        """Its rows."""
        return FoundRows(self.view)

    @property
    def statistic(self) -> str:
        """What it counts."""
        return self.view.statistic

    @property
    def sides(self) -> tuple[TreeSide, ...]:
        """Its hierarchies."""
        return self.view.sides

    def shown_in(self, table: PublishedTable, places: Sequence[TreePlace]) -> tuple[TreePlace, ...]:
        """The places as the table can tell them apart: those that lie deeper are replaced by what they lie in."""
        return tuple(
            side.above(place, named) for side, place, named in zip(self.sides, places, table.named, strict=True)
        )

    def page(
        self,
        table: PublishedTable,
        places: Sequence[TreePlace],
        *,
        alpha: float | None = 0.1,
        order: str = "largest",
        first: int = 0,
        length: int = PAGE,
    ) -> Page:
        """The rows of a table that lie in all places.

        Args:
            table: one of the release's.
            places: one per side.
            alpha: of intervals, where errors are known.
            order: `"largest"` first, or that of the hierarchy.
            first: how many rows to leave out.
            length: how many rows to give at most.
        """
        if not self.sides:
            rows = self.view.whole(table.level)
            return Page(
                rows.slice(first, length), [()] * min(length, max(rows.num_rows - first, 0)), first, rows.num_rows
            )
        places = self.shown_in(table, places)
        if self.statistic == "group_sizes":
            return self._summed_page(table, places, order, first, length)
        numbers, published = self.found.of(table, places)
        if order == "largest" and len(numbers) > 1:
            if published is None:
                published = self._counts(table, numbers)
            numbers = numbers[np.argsort(-published, kind="stable")]
        shown = numbers[first : first + length]
        rows = self.found.read(table, shown)
        if self.view.partly_listed:
            about, in_part = self.view.places(table, rows), self.found.in_part(table, places)
        else:
            about, in_part = self._places(table, self.found.nodes(table, shown, rows)), 0
        shown_rows = without_hidden(self.view.with_intervals(table.level, rows, alpha))
        shown_rows = decoded(with_quality(shown_rows, stated_errors(self.view.statement, table.level)))
        return Page(shown_rows, about, first, len(numbers), in_part)

    def _counts(self, table: PublishedTable, rows: IntArray) -> IntArray:
        """The counts of rows that follow each other."""
        read = self.view.read(table.level, int(rows[0]), int(rows[-1]) + 1)
        found: IntArray = read.column("count").to_numpy()
        return found

    def _places(self, table: PublishedTable, nodes: Sequence[IntArray]) -> list[tuple[TreePlace, ...]]:
        columns = [
            [TreePlace(named, int(node)) if named else ALL for node in part]
            for named, part in zip(table.named, nodes, strict=True)
        ]
        return list(zip(*columns, strict=True))

    def _summed_page(
        self, table: PublishedTable, places: tuple[TreePlace, ...], order: str, first: int, length: int
    ) -> Page:
        (side,), (place,) = self.sides, places
        sums, within = self._summary(table), side.below(place, table.named[0])
        nodes = np.arange(within.start, within.stop, dtype=np.int64)
        if order == "largest":
            nodes = nodes[np.argsort(-sums.column("groups").to_numpy()[nodes], kind="stable")]
        shown = nodes[first : first + length]
        paths = side.paths(shown, table.named[0])
        columns = {name: paths.column(name) for name in paths.column_names}
        taken = sums.take(pa.array(shown))
        columns |= {name: taken.column(name) for name in taken.column_names}
        return Page(pa.table(columns), self._places(table, [shown]), first, len(nodes))

    def _summary(self, table: PublishedTable) -> pa.Table:
        """Groups and members of every node of a level of group sizes, and where its rows begin; made once."""
        if table.level not in self._summaries:
            size = self.sides[0].size(table.named[0])
            groups, members, listed = np.zeros(size), np.zeros(size), np.zeros(size, dtype=np.int64)
            for read in self.view.slices(table.level):
                (nodes,) = self.view.nodes(table, read)
                number, of_size = (read.column(name).to_numpy() for name in ("groups", "size"))
                groups += np.bincount(nodes, number, minlength=size)
                members += np.bincount(nodes, number * of_size, minlength=size)
                listed += np.bincount(nodes, minlength=size)
            whole = pa.types.is_integer(self.view.schema(table.level).field("groups").type)
            kind = np.int64 if whole else np.float64
            first = np.concatenate([[0], np.cumsum(listed)[:-1]])
            self._starts[table.level] = first, listed
            self._summaries[table.level] = pa.table({"groups": groups.astype(kind), "members": members.astype(kind)})
        return self._summaries[table.level]

    @cached_property
    def _starts(self) -> dict[str, tuple[IntArray, IntArray]]:
        """By level of group sizes, where the rows of each node begin, and how many they are."""
        return {}

    def headline(self, places: Sequence[TreePlace], alpha: float) -> pa.Table | None:
        """The published row about the places themselves; None where no table has it, or it is 0 and not listed."""
        table = self.own_table(places)
        if table is None:
            return None
        page = self.page(table, places, alpha=alpha, length=2)
        return page.rows if page.total == 1 and self.view.is_listed(table, page.places[0]) else None

    def own_table(self, places: Sequence[TreePlace]) -> PublishedTable | None:
        """The table whose rows are about exactly such places."""
        wanted = tuple(place.named for place in places)
        exact = [table for table in self.view.tables if table.named == wanted]
        if exact:
            return exact[0]
        # A root that has a column, such as country, is named or not: it is the same place.
        return next((table for table in self.view.tables if self._same(table.named, wanted)), None)

    def _same(self, one: Sequence[int], other: Sequence[int]) -> bool:
        return all(
            a == b or (max(a, b) == 1 and side.size(1) == 1) for side, a, b in zip(self.sides, one, other, strict=True)
        )

    def table_below(self, places: Sequence[TreePlace]) -> PublishedTable:
        """The first table whose rows are finer than the places; where there is none, theirs, or the finest."""
        for table in self.view.tables:
            finer = [named > place.named for named, place in zip(table.named, places, strict=True)]
            kept = [named >= place.named for named, place in zip(table.named, places, strict=True)]
            if all(kept) and any(finer) and not self._same(table.named, [place.named for place in places]):
                return table
        return self.own_table(places) or max(self.view.tables, key=lambda table: sum(table.named))

    def is_about(self, table: PublishedTable, places: Sequence[TreePlace]) -> bool:
        """Whether each row of the table that lies in the places is about them as a whole."""
        return self._same(table.named, [place.named for place in places])

    def siblings(self, places: Sequence[TreePlace]) -> tuple[TreePlace, ...] | None:
        """Where the siblings of the lowest place lie: the places, with that one's parent in its stead."""
        deepest = max(range(len(places)), key=lambda i: places[i].named, default=None)
        if deepest is None or places[deepest].named == 0:
            return None
        side, place = self.sides[deepest], places[deepest]
        if place == side.root:
            return None
        above = side.above(place, max(place.named - 1, side.root.named))
        return tuple(above if i == deepest else place for i, place in enumerate(places))

    def sizes(self, place: TreePlace) -> pa.Table | None:
        """The published group sizes of a place: `size`, `groups`, and the tail columns where they are known."""
        table = self.own_table((place,))
        if self.statistic != "group_sizes" or table is None:
            return None
        self._summary(table)
        first, listed = self._starts[table.level]
        start = int(first[place.node])
        rows = self.view.read(table.level, start, start + int(listed[place.node]))
        return rows.select([name for name in rows.column_names if name not in self.sides[0].columns])

    def size_rows(self, sizes: pa.Table, alpha: float) -> list[dict[str, Any]]:
        """Group sizes as the chart takes them: `size`, `groups`, `tail`, and the ends of intervals where known."""
        known = "std_dev" in sizes.column_names or "tail_std_dev" in sizes.column_names
        rows = with_intervals(sizes, alpha, LevelErrors()) if known else sizes
        names = {"ci_lower": "lower", "ci_upper": "upper", "tail_count": "tail", "tail_ci_lower": "tail_lower",
                 "tail_ci_upper": "tail_upper"}  # fmt: skip
        return [{names.get(name, name): value for name, value in row.items()} for row in rows.to_pylist()]

    @property
    def last_size(self) -> int | None:
        """The size that stands for itself and all larger ones; None where the release is not of group sizes."""
        return self.view.largest_size if self.statistic == "group_sizes" else None

    def search(self, text: str) -> list[tuple[int, TreePlace, tuple[str, ...]]]:
        """Places whose own label contains the text, whatever the case: side, place and path; higher levels first."""
        wanted = text.strip()
        found: list[tuple[int, TreePlace, tuple[str, ...]]] = []
        if not wanted:
            return found
        for number, side in enumerate(self.sides):
            for named in range(1, len(side.columns) + 1):
                labels = side.hierarchy.labels[side.depth(named)]
                hits = np.flatnonzero(
                    pc.match_substring(labels, wanted, ignore_case=True).to_numpy(zero_copy_only=False)
                )
                exact = [i for i in hits[:1000] if str(labels[int(i)]).casefold() == wanted.casefold()]
                for node in [*exact, *(i for i in hits[:MAX_FOUND] if i not in exact)]:
                    place = TreePlace(named, int(node))
                    found.append((number, place, side.path(place)))
                    if len(found) == MAX_FOUND:
                        return found
        return found

    def total(self, table: PublishedTable, chosen: Sequence[tuple[TreePlace, ...]], alpha: float) -> pa.Table:
        """The sum of chosen rows of a table, with its error; of tables, rows that are all areas by all attributes.

        Raises:
            ValueError: nothing is chosen, or a row that says how much is not listed; or, of tables, the rows are not
                such a block.
        """
        if not chosen:
            raise ValueError("selection: no row is ticked; tick some")
        if self.view.partly_listed and not all(self.view.is_listed(table, row) for row in chosen):
            raise ValueError(f"selection: a row {NOT_LISTED!r} is about no place of its own; untick it")
        sides = range(len(self.sides))
        if self.statistic != "tables":
            columns: dict[str, list[str]] = {}
            for i in sides:
                paths = [self.sides[i].path(row[i]) for row in chosen]
                for at, name in enumerate(self.sides[i].columns[: table.named[i]]):
                    columns[name] = [path[at] for path in paths]
            return self.release.total(pa.table(columns) if columns else None, alpha=alpha)
        return self._total_of_table(table, chosen, alpha)

    def _total_of_table(self, table: PublishedTable, chosen: Sequence[tuple[TreePlace, ...]], alpha: float) -> pa.Table:
        by_side = [sorted({row[i] for row in chosen}, key=lambda place: place.node) for i in range(len(self.sides))]
        if int(np.prod([len(each) for each in by_side])) != len(set(chosen)):
            raise ValueError(
                "selection: the ticked rows must be a block, the same labels of every attribute for each area; tick or "
                "untick some"
            )
        area = max(range(len(self.sides)), key=lambda i: self.sides[i].hierarchy.n_leaves * (table.named[i] > 0))
        where = {
            self.sides[i].columns[table.named[i] - 1]: [self.sides[i].path(place)[-1] for place in by_side[i]]
            for i in range(len(self.sides))
            if i != area and table.named[i]
        }
        names = self.sides[area].columns[: table.named[area]]
        paths = [self.sides[area].path(place) for place in by_side[area]]
        areas = pa.table({name: [path[at] for path in paths] for at, name in enumerate(names)}) if names else None
        return self.release.total(areas, where=where or None, alpha=alpha)
