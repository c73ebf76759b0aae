"""`Release.records`: rows that give every published number back when they are counted. Nothing is spent.

A release of counts has one row for each unit of a leaf's count; one of tables, of a cell of the detail; one of group
sizes, for each member of a group, with a made-up number for the group. All levels and tables are sums of these numbers.

The rows are made slice by slice. A label is held once, as an Arrow dictionary, and each row of the published table is
repeated as often as it counts, so that 10^8 rows need the memory of one slice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.numbers.households import (
    RANDOM_HOUSEHOLDS,
    HouseholdSizes,
    put_into_households,
    seed_of,
    table_of_persons,
)
from tallytree.release import HouseholdsRelease, LevelTable, Release
from tallytree.release.counted_unit import counted_unit
from tallytree.release.households_release import IN_HOUSEHOLD, IN_OR_OUTSIDE
from tallytree.release.level_tables import ROWS_AT_ONCE, in_slices
from tallytree.release.remainders import refuse_remainders
from tallytree.release.view.release_view import ReleaseView, path_columns
from tallytree.sources.leaf_paths import decoded
from tallytree.support.arrays import IntArray, chunks, numbered
from tallytree.support.validate import integer
from tallytree.trees.leaf_codes import codes_by_side

NOBODYS = (
    "No row is about a person. The rows are made from published numbers with noise: they are there to be counted, and "
    "two rows have nothing to do with each other."
)
COUNTED = (
    "Counted by the columns of a published table, they give all of its numbers back. Only these numbers, and sums of "
    "them, have known errors, which the release tells. Finer counts are mostly noise."
)
GROUPED = (
    "The column {!r} numbers the groups of this file; it is made up. Groups without members have no row, and groups "
    "that were cut to the largest size, or raised to the least one, have that many rows."
)


@dataclass(frozen=True, eq=False)
class MadeUpRecords:
    """The records of a release, made from rows of a published table.

    Attributes:
        source: the finest table, or the detail of tables: rows with a number each.
        statement: of the release.
        codes: columns with the code of a leaf, by the name that the private records have for it: the column whose
            labels these are.
        group: the name of the column that numbers groups; None where rows are not members of groups.
    """

    source: LevelTable
    statement: Mapping[str, Any]
    codes: Mapping[str, str] = field(default_factory=dict)
    group: str | None = None

    @cached_property
    def num_rows(self) -> int:
        """How many records there are.

        Raises:
            ValueError: a number of the table is negative, or has a fraction.
        """
        total = 0
        for rows in in_slices(self.source):
            number = rows.column(self._number)
            if not pa.types.is_integer(number.type) or (rows.num_rows and number.to_numpy().min() < 0):
                raise ValueError(_not_whole(self.statement))
            total += int(_units(rows).sum())
        return total

    @property
    def _number(self) -> str:
        return "count" if self.group is None else "groups"

    @property
    def made_up(self) -> tuple[str, str, str] | None:
        """The column of made-up numbers, its role in a data dictionary, and what it means; None without one."""
        said = "A made-up number: rows with the same one are members of one group."
        return None if self.group is None else (self.group, "made up", said)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What a reader must know of them, the most important first."""
        unit = (
            "one member of a group (one unit of its size)"
            if self.group
            else f"one of what was counted: {counted_unit(self.statement)}"
        )
        grouped = () if self.group is None else (GROUPED.format(self.group),)
        return (NOBODYS, COUNTED, *grouped, f"A row stands for {unit}.")

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns, with labels as dictionaries; the metadata say what the records are."""
        empty = self._repeated(self.source.read(0, 0), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
        return empty.schema.with_metadata({"records": " ".join(self.sentences)})

    def slices(self, rows_at_once: int = ROWS_AT_ONCE) -> Iterator[pa.Table]:
        """The records in the order of the published table, at most so many at once; labels as dictionaries."""
        first_group = 1
        for rows in in_slices(self.source):
            units = _units(rows)
            ends = np.cumsum(units)
            with_members = _with_members(rows)
            groups = first_group + np.cumsum(with_members) - with_members
            for start in range(0, int(ends[-1]) if len(ends) else 0, rows_at_once):
                stop = min(start + rows_at_once, int(ends[-1]))
                span = slice(int(np.searchsorted(ends, start, "right")), int(np.searchsorted(ends, stop, "left")) + 1)
                begins = ends[span] - units[span]
                times = np.minimum(ends[span], stop) - np.maximum(begins, start)
                number = None
                if self.group is not None:
                    place = np.arange(start, stop) - np.repeat(begins, times)
                    sizes = rows.column("size").to_numpy()[span]
                    number = np.repeat(groups[span], times) + place // np.repeat(sizes, times)
                yield self._repeated(rows.slice(span.start, span.stop - span.start), times, number)
            first_group += int(with_members.sum())

    def _repeated(self, rows: pa.Table, times: IntArray, group: IntArray | None) -> pa.Table:
        """Each of some rows so many times, without numbers; and the number of the group of each of these."""
        columns = {name: _repeated(rows.column(name), times) for name in path_columns(rows)}
        columns |= {code: columns[column] for code, column in self.codes.items()}
        if self.group is not None:
            columns[self.group] = pa.array(group, pa.int64())
        return pa.table(columns, metadata=None)


def _repeated(column: pa.ChunkedArray, times: IntArray) -> pa.DictionaryArray:
    """A column of labels with each row so many times, and a dictionary of those that it has."""
    coded = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    used, codes = numbered(coded.indices.to_numpy().astype(np.int64), len(coded.dictionary))
    labels = coded.dictionary.take(pa.array(used)).cast(pa.large_string())
    return pa.DictionaryArray.from_arrays(pa.array(np.repeat(codes.astype(np.int32), times)), labels)


def _units(rows: pa.Table) -> IntArray:
    """How many records each row of a published table stands for."""
    if "size" not in rows.column_names:
        return np.asarray(rows.column("count").to_numpy(), dtype=np.int64)
    return np.asarray(rows.column("size").to_numpy() * rows.column("groups").to_numpy(), dtype=np.int64)


def _with_members(rows: pa.Table) -> IntArray:
    """How many groups with members each row of group sizes stands for; 0 in other tables."""
    if "size" not in rows.column_names:
        return np.zeros(rows.num_rows, dtype=np.int64)
    return np.where(rows.column("size").to_numpy() > 0, rows.column("groups").to_numpy(), 0)


@dataclass(frozen=True, eq=False)
class HouseholdRecords(MadeUpRecords):
    """The records of persons, put into the households of their leaf.

    Attributes:
        household: the name of the column that numbers households; null in it are persons who live in none.
        persons: int64 (leaves,), how many persons in households each leaf has.
        sizes: the households of all leaves.
        seed: of the shuffle.
    """

    household: str = field(kw_only=True)
    persons: IntArray = field(kw_only=True)
    sizes: HouseholdSizes = field(kw_only=True)
    seed: int = field(kw_only=True)

    @property
    def made_up(self) -> tuple[str, str, str]:
        """See `MadeUpRecords.made_up`."""
        said = "A made-up number: rows with the same one were put into one household. Empty of persons in none."
        return (self.household, "made up or empty", said)

    @property
    def sentences(self) -> tuple[str, ...]:
        """See `MadeUpRecords.sentences`."""
        first, *others = super().sentences
        return (first, RANDOM_HOUSEHOLDS.format(self.household), *others)

    @cached_property
    def schema(self) -> pa.Schema:
        """See `MadeUpRecords.schema`."""
        return super().schema.append(pa.field(self.household, pa.int64()))

    def slices(self, rows_at_once: int = ROWS_AT_ONCE) -> Iterator[pa.Table]:
        """See `MadeUpRecords.slices`."""
        numbers, ready = self._numbers(), np.zeros(0, dtype=np.int64)
        for rows in super().slices(rows_at_once):
            coded = rows.column(IN_HOUSEHOLD).chunk(0)
            inside = (pc.equal(coded.dictionary, IN_OR_OUTSIDE[0]).to_numpy(zero_copy_only=False))[coded.indices]
            wanted = int(inside.sum())
            while len(ready) < wanted:
                ready = np.concatenate([ready, next(numbers)])
            household = np.zeros(rows.num_rows, dtype=np.int64)
            household[inside], ready = ready[:wanted], ready[wanted:]
            yield rows.append_column(self.household, pa.array(household, mask=~inside))

    def _numbers(self) -> Iterator[IntArray]:
        """The household of each person who lives in one, from 1 on, for some leaves after the other."""
        random, first = np.random.Philox(self.seed), 1
        for part in chunks(self.persons, ROWS_AT_ONCE):
            sizes = self.sizes.of_leaves(part)
            yield first + put_into_households(self.persons[part], sizes, random)
            first += int(sizes.households.sum())


def records_of(release: Release, seed: int | None = None) -> MadeUpRecords:
    """The records of a release, not made yet.

    Args:
        release: the release.
        seed: of persons and households, shuffles persons over the households of their leaf; by default it follows from
            the statement.

    Raises:
        ValueError: the release has none; see `Release.records`.
    """
    if isinstance(release, HouseholdsRelease):
        return _household_records(release, seed_of(release.statement) if seed is None else integer(seed, "seed"))
    if seed is not None:
        raise ValueError("seed: it puts persons into households, and this release has no households; leave it out")
    statement = release.statement
    if release.tree is None:
        raise ValueError(
            "records: the release has people by their number of records and no places, so there is no record to make; "
            "take its one table"
        )
    refuse_remainders(
        statement, "records", 'which lies at no leaf, so that records would not add up; release with unlisted="zero"'
    )
    if statement.get("negative_numbers") or statement.get("fractional_numbers"):
        raise ValueError(_not_whole(statement))
    if statement.get("constraint_violations"):
        raise ValueError(
            f"records: the levels by {statement['mechanism']['name']} do not add up, so that no records give all of "
            "them back; release with another mechanism, such as the default one"
        )
    view = ReleaseView(release)
    source = _detail(view) if view.kind.has_tables else release.level_tables[release.levels[-1]]
    paths = path_columns(source.read(0, 0))
    if not paths:
        raise ValueError("records: the release has its total alone, so that records would have no columns")
    codes = {
        code: column
        for code, column in _code_columns(view, release.spec.get("leaf")).items()
        if column in paths and code not in paths
    }
    group = _free("group", (*paths, *codes)) if view.kind.by_size else None
    rows = MadeUpRecords(source, statement, codes, group)
    rows.num_rows  # noqa: B018 (refuses numbers that no rows have)
    return rows


def _household_records(release: HouseholdsRelease, seed: int) -> HouseholdRecords:
    """The records of a release of persons and households; see `records_of`."""
    rows = records_of(release.persons)
    view = ReleaseView(release.persons)
    leaves = len(view.layout.product.attributes[0].hierarchy.levels) - 1
    persons = view.cells_of_table(table_of_persons(view, leaves, "records"))[:, 0]
    households, largest = ReleaseView(release.households), int(release.statement["max_household_size"])
    sizes_of_leaves = households.published(len(households.levels) - 1)
    sizes = np.asarray(sizes_of_leaves.sizes, dtype=np.int64)
    members = households.column(households.levels[-1], "persons")
    last = np.bincount(sizes_of_leaves.nodes, weights=np.where(sizes == largest, members, 0), minlength=len(persons))
    numbers = np.asarray(sizes_of_leaves.numbers, dtype=np.int64)
    return HouseholdRecords(
        rows.source,
        rows.statement,
        rows.codes,
        household=_free("household", tuple(rows.schema.names)),
        persons=persons,
        sizes=HouseholdSizes(sizes_of_leaves.nodes, sizes, numbers, largest, last.astype(np.int64)),
        seed=seed,
    )


def _detail(view: ReleaseView) -> LevelTable:
    """The cells that all tables are sums of: a published table, where it has them all, or the file of the detail."""
    place = view.layout.place(view.layout.finest)
    if place is not None:
        return view.release.level_tables[view.levels[place]]
    if view.release.detail is None:
        raise ValueError(
            "records: the release does not hold the cells that all of its tables are sums of; release it with "
            "keep_detail=True (keep_detail: true in the spec; a run with a secret can be repeated with it, free of "
            f"charge), or publish the table {view.layout.finest.levels}"
        )
    return view.release.detail


def _code_columns(view: ReleaseView, leaf: Any) -> dict[str, str]:
    """By the column with the code of a leaf in the private records, the published column that has it."""
    if leaf is None:
        return {}
    last = {side.name: side.columns[-1] for side in view.sides}
    named = {view.sides[0].name: leaf} if len(last) == 1 and isinstance(leaf, str) else codes_by_side(leaf, last)
    return {str(code): last[side] for side, code in named.items()}


def _free(name: str, taken: tuple[str, ...]) -> str:
    """A name for a column that no other has: with lines below it where it is taken."""
    while name.casefold() in {each.casefold() for each in taken}:
        name += "_"
    return name


def _not_whole(statement: Mapping[str, Any]) -> str:
    return (
        f"records: numbers by {statement['mechanism']['name']} are negative or have fractions, and no rows count so; "
        "release with a mechanism of non-negative integers, such as the default one"
    )


def records(release: Release, *, dictionaries: bool = False, seed: int | None = None) -> pa.RecordBatchReader:
    """See `Release.records`."""
    of_release = records_of(release, seed)
    schema = of_release.schema if dictionaries else decoded(of_release.schema.empty_table()).schema

    def batches() -> Iterator[pa.RecordBatch]:
        for rows in of_release.slices():
            yield from (rows if dictionaries else decoded(rows)).replace_schema_metadata(schema.metadata).to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())
