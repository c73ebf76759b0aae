"""Numbers of several releases side by side, of the areas of the last one.

What a crosswalk makes of an earlier release is a sum of its cells, whose error is that of the sum: its parts err
together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.kinds.columns import LISTED_FROM, UNBIASED
from tallytree.numbers.cells import ReleasedCells
from tallytree.numbers.crosswalk import HOW, ONLY_EARLIER, ONLY_LATER, SAME, Crosswalk, Mapped
from tallytree.numbers.totals import Totals, with_floor
from tallytree.release import Release
from tallytree.release.intervals import stated_errors
from tallytree.release.view.release_view import path_columns
from tallytree.release.view.sides import TreeSide, named_at, named_nodes, row_codes
from tallytree.support.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class ComparedNumbers:
    """The numbers of one release: (n,) each.

    Attributes:
        count: int64, published; 0 where there is no row.
        middle: float64, unbiased where the release has such estimates, else as published.
        variance: float64, NaN where it is not known.
        lower: float64, the interval of the number alone; NaN where it is not known.
        upper: float64, its other end.
        listed: bool, whether the cell has a row because of its measurement.
        replicates: from which the errors are; None where they are known.
    """

    count: IntArray
    middle: FloatArray
    variance: FloatArray
    lower: FloatArray
    upper: FloatArray
    listed: BoolArray
    replicates: int | None

    @classmethod
    def published(cls, release: Release, level: str, table: pa.Table) -> ComparedNumbers:
        """Those of a published table with intervals."""
        columns = {name: table.column(name).to_numpy().astype(np.float64) for name in ("count", "std_dev")}
        lower, upper = (table.column(name).to_numpy().astype(np.float64) for name in ("ci_lower", "ci_upper"))
        errors, unbiased = stated_errors(release.statement, level), UNBIASED in table.column_names
        variance = columns["std_dev"] ** 2
        variance = variance + (0.0 if unbiased else errors.rounding) * (variance > 0)
        if errors.replicates is not None:
            variance = with_floor(variance, columns["count"], errors.upward_std_dev)
        listed = np.zeros(table.num_rows, dtype=np.bool_)
        if LISTED_FROM in table.column_names:
            listed = np.isfinite(table.column(LISTED_FROM).to_numpy())
        middle = table.column(UNBIASED).to_numpy() if unbiased else columns["count"]
        return cls(columns["count"].astype(np.int64), middle, variance, lower, upper, listed, errors.replicates)

    @classmethod
    def of_totals(cls, totals: Totals, alpha: float) -> ComparedNumbers:
        """Those of sums."""
        count = np.rint(totals.numbers).astype(np.int64)
        lower, upper = (np.asarray(end, dtype=np.float64) for end in totals.ends(alpha))
        listed = np.zeros(len(count), dtype=np.bool_)
        middle = np.asarray(totals.estimate, dtype=np.float64)
        variance, replicates = totals.variance, totals.errors.replicates
        return cls(count, middle, variance, np.floor(lower), np.ceil(upper), listed, replicates)

    def at(self, places: IntArray) -> ComparedNumbers:
        """The numbers at some places, −1 for a cell without a row: 0, with an error that is not known."""
        none = np.array([np.nan])
        absent = ComparedNumbers(np.array([0]), np.zeros(1), none, none, none, np.array([True]), None)
        return self._changed(lambda name: np.append(getattr(self, name), getattr(absent, name))[places])

    def followed_by(self, other: ComparedNumbers) -> ComparedNumbers:
        """These, then those."""
        return self._changed(lambda name: np.append(getattr(self, name), getattr(other, name)))

    def _changed(self, change: Callable[[str], Any]) -> ComparedNumbers:
        return replace(self, **{field.name: change(field.name) for field in fields(self)[:-1]})


@dataclass(frozen=True, eq=False)
class ReleasedTable:
    """A table of one release, whose areas are those of the last one as far as a crosswalk says.

    Attributes:
        cells: of the release.
        level: the table.
        rows: with the path columns, which come first.
        numbers: of each row.
        mapped: what the areas became; None without a crosswalk.
        last: the areas of the last release.
    """

    cells: ReleasedCells
    level: str
    rows: pa.Table
    numbers: ComparedNumbers
    mapped: Mapped | None = None
    last: TreeSide | None = None

    @property
    def named(self) -> tuple[int, ...]:
        """Per side, how many columns name a row."""
        return named_at(self.cells.view.cells, self.cells.view.levels.index(self.level))

    def onto(self, later: ReleasedTable, crosswalk: Crosswalk, alpha: float) -> ReleasedTable:
        """The table with the areas of a later one."""
        side, last, named = self.cells.view.sides[0], later.cells.view.sides[0], crosswalk.named
        mapped = crosswalk.mapped(side, last)
        paths = path_columns(self.rows)
        area = named_nodes(side, named, self.rows.select(side.columns[:named]))
        target = mapped.target[area]
        kept = self.rows.select(paths)
        moved = last.paths(np.maximum(target, 0), named)
        for place, name in enumerate(side.columns[:named]):
            labels = pc.if_else(pa.array(target >= 0), moved.column(name), kept.column(name))
            kept = kept.set_column(place, name, labels)
        stay = np.flatnonzero((target >= 0) | mapped.gone[area])
        rows, numbers = kept.take(pa.array(stay)), self.numbers.at(stay)
        if len(mapped.summed):
            tree, depth = self.cells.view.cells, self.cells.view.levels.index(self.level)
            width = tree.size(depth) // side.size(named)
            weights = None if (mapped.weights == 1).all() else mapped.weights
            totals = self.cells.sums(self.level, named, mapped.old, mapped.sums, weights)
            new = last.paths(np.repeat(mapped.summed, width), named)
            inside = tree.path_table(depth, np.arange(width, dtype=np.int64)).select(paths[named:])
            every = np.tile(np.arange(width), len(mapped.summed))
            added = pa.table({name: new.column(name) for name in new.column_names})
            for name in inside.column_names:
                added = added.append_column(name, inside.column(name).take(pa.array(every)))
            text_rows = rows.cast(pa.schema([(name, pa.large_string()) for name in paths]))
            rows = pa.concat_tables([text_rows, added.cast(text_rows.schema)])
            numbers = numbers.followed_by(ComparedNumbers.of_totals(totals, alpha))
        return replace(self, rows=rows, numbers=numbers, mapped=mapped, last=last)

    def has(self, rows: pa.Table) -> BoolArray:
        """Whether the release has the cells of some rows, listed or not: bool (rows,)."""
        view = self.cells.view
        there = np.ones(rows.num_rows, dtype=np.bool_)
        for place, (side, named) in enumerate(zip(view.sides, self.named, strict=True)):
            if named:
                labels = rows.select(side.columns[:named])
                nodes = named_nodes(side, named, labels)
                if place or self.mapped is None or self.last is None:
                    there &= nodes >= 0
                    continue
                new = named_nodes(self.last, named, labels)
                becomes = self.mapped.how != HOW.index(ONLY_LATER)
                there &= np.where(new >= 0, becomes[new], (nodes >= 0) & self.mapped.gone[nodes])
        return there

    def how(self, rows: pa.Table) -> IntArray:
        """How the areas of some rows are compared, the place in `HOW`: int64 (rows,)."""
        if self.mapped is None or self.last is None:
            return np.full(rows.num_rows, HOW.index(SAME))
        new = named_nodes(self.last, self.named[0], rows.select(self.last.columns[: self.named[0]]))
        return np.where(new >= 0, self.mapped.how[new], HOW.index(ONLY_EARLIER)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class JoinedTables:
    """Tables of several releases, of the same areas.

    Attributes:
        paths: the path columns of all rows, those of the last release first.
        numbers: of each release.
        there: per release, bool (rows,), whether it has the cell.
        how: per release, int64 (rows,), how the area is compared, the place in `HOW`.
    """

    paths: dict[str, pa.ChunkedArray]
    numbers: list[ComparedNumbers]
    there: list[BoolArray]
    how: list[IntArray]

    @classmethod
    def of(cls, tables: Sequence[ReleasedTable], names: Sequence[str]) -> JoinedTables:
        """Those of some tables, by their releases' names.

        Raises:
            ValueError: no cell is in two of them.
        """
        columns = path_columns(tables[-1].rows)
        each = [table.rows.select([*columns]) if columns else table.rows for table in tables]
        codes = row_codes(each, columns)
        order = np.concatenate(codes[::-1])
        first = np.sort(np.unique(order, return_index=True)[1])
        every = {
            name: pa.chunked_array(
                [c for t in each[::-1] for c in t.column(name).cast(pa.large_string()).chunks], pa.large_string()
            )
            for name in columns
        }
        paths = {name: column.take(pa.array(first)) for name, column in every.items()}
        place = np.full(int(order.max(initial=-1)) + 1, -1, dtype=np.int64)
        numbers = []
        for table, own in zip(tables, codes, strict=True):
            place[:] = -1
            place[own] = np.arange(len(own))
            numbers.append(table.numbers.at(place[order[first]]))
        rows = pa.table(paths) if columns else pa.table({"": order[first]})
        there = [table.has(rows) for table in tables]
        if len(tables) > 1 and rows.num_rows and not (np.sum(there, axis=0) > 1).any():
            raise ValueError(
                f"{names[0]}: none of the {rows.num_rows} areas or cells of the table is in two of the releases; give "
                "releases over the same hierarchy, or a crosswalk"
            )
        return cls(paths, numbers, there, [table.how(rows) for table in tables])
