"""The tabulation in SQL: records are grouped where they are and never loaded into Python row by row.

One pass over the records finds each record's leaf and groups by leaf numbers; every check then works on the grouped
rows. A record that cannot be counted is kept apart in the same pass: its number `fault` is not 0. What is grouped by is
numbers and ids, never text that is only needed for a message: rows with text as keys are not spilled well.
Columns have names of ours (see `columns`), so no name given by a user is part of a statement, and values are
always parameters. The statements are kept once, in DuckDB's dialect, for every engine (see `session`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tallytree.private.tabulate.columns import id_columns, joined_leaves
from tallytree.private.tabulate.contribution_bound import (
    Cells,
    ContributionBound,
    count_people,
    fingerprint,
    keep_bounded,
)
from tallytree.private.tabulate.leaf_statistics import MAX_TOTAL, LeafCounts, LeafGroups, LeafHouseholds
from tallytree.private.tabulate.records import Records, Wanted, hint_on_types, key_types, named
from tallytree.private.tabulate.session import Session
from tallytree.sources.reading import refuse_repeated
from tallytree.support.arrays import IntArray
from tallytree.trees.impossible import Impossible
from tallytree.trees.leaf_keys import LeafKey

FEW_CELLS = 2**16
"""Up to so many cells, records are grouped by their paths first, and only the groups' leaves are looked up.

A few paths are grouped faster than each record's leaf is found. Many paths are grouped slowly, as text: then leaves
are found first, and numbers are grouped.
"""


@dataclass(frozen=True)
class _Statistic:
    """What is added up, and by what.

    Attributes:
        each: what a record stands for, in the columns of the source.
        size: a further column to group by, in those columns; "" for none.
        by: the columns to group by, beside the leaves'.
        parameters: of the expressions.
    """

    each: str = "1"
    size: str = ""
    by: tuple[str, ...] = ()
    parameters: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class Tabulation:
    """The statements of one tabulation, and what they share.

    Attributes:
        db: where they run.
        records: their columns.
        keys: the columns that say where a record belongs.
        drop_unknown: whether records outside the hierarchies are left out; otherwise they are refused.
        bound: the most records of one person that count; None: all count.
        impossible: combinations of leaves that no record can have; a record that has one is outside.
    """

    db: Session
    records: Records
    keys: Sequence[LeafKey]
    drop_unknown: bool
    bound: ContributionBound | None = None
    impossible: Sequence[Impossible] = ()

    @cached_property
    def leaves(self) -> list[str]:
        """Our names of the leaf numbers, a column for each key."""
        return [f"leaf{i}" for i in range(len(self.keys))]

    @cached_property
    def numbers(self) -> list[Wanted]:
        """The columns of numbers."""
        return [column for column in self.records.wanted if column.use == "number"]

    @cached_property
    def inside(self) -> str:
        """The condition under which a row is inside all hierarchies."""
        return " AND ".join(f"{leaf} IS NOT NULL" for leaf in self.leaves)

    def count_records(self) -> LeafCounts:
        """Records per combination of leaves; where a column of numbers follows the keys', its sum.

        With a bound, of every person only the records that count; those outside the hierarchy, or with a combination of
        leaves that is impossible, are left out before.
        """
        counted = _Statistic(each="v0" if self.numbers else "1", by=() if self.bound is None else ("g",))
        few = self.bound is None and not self.records.is_public
        few = few and prod(key.hierarchy.n_leaves for key in self.keys) <= FEW_CELLS
        self._tabulate(counted, paths_first=few)
        if self.records.is_public:
            self._require_each_leaf()
        people, found, amounts = None, None, "matched"
        if self.bound is not None:
            cells = Cells.of_records(self.leaves)
            people, found = count_people(self.db, self.bound, cells), fingerprint(self.db, self.bound, cells)
            keep_bounded(self.db, self.bound, cells)
            amounts = "counting"
        self._refuse_large_total(self.numbers, amounts)
        *parts, counts = self._result(self.leaves, amounts)
        return LeafCounts(tuple(parts), counts, people, found)

    def _require_each_leaf(self) -> None:
        """Refuse a public table of exact numbers that lists a leaf twice, and say how many it does not list."""
        key, argument, columns = self.keys[0], self.records.argument, self.records.keys[0]
        n_leaves = key.hierarchy.n_leaves
        leaves, times = self.db.arrays("SELECT leaf0, listed FROM matched ORDER BY leaf0")
        labels = {name: each.take(leaves) for name, each in zip(columns, key.leaf_columns(columns), strict=True)}
        refuse_repeated(times, labels, f"{argument}: the area", "list every area once, with its whole number")
        if missing := n_leaves - len(leaves):
            said = f"{missing:,} of {n_leaves:,} areas are not listed, so that 0 is published for them as exact"
            warnings.warn(f"{argument}: {said}; list every area, with 0 where there is none", stacklevel=2)

    def group_rows(self, smallest: int, largest: int) -> LeafGroups:
        """Groups per leaf and clamped size, from rows that state (leaf, size, groups)."""
        size = "greatest(least(v0, $largest), $smallest)"
        stated = _Statistic("v1", size, ("size",), {"smallest": smallest, "largest": largest})
        few = self.keys[0].hierarchy.n_leaves * (largest - smallest + 1) <= FEW_CELLS
        self._tabulate(stated, paths_first=few)
        self._refuse_large_total(self.records.wanted[-1:], "matched")
        return LeafGroups(*self._result(["leaf0", "size"], "matched"))

    def group_sizes(self, max_quantity: int, smallest: int, largest: int) -> LeafGroups:
        """Groups per leaf and clamped size, from one row per member, each counting 1 or its quantity, cut to the most.

        With a bound, of every person only the memberships that count. A group of which none counts has size 0.
        """
        people: IntArray | None = None
        found: IntArray | None = None
        parameters: dict[str, Any] = {}
        if self.bound is not None:
            people, found = self._bound_memberships(max_quantity, self.bound)
            members = "SELECT g, leaf0, amount, 0 AS fault, CAST(NULL AS VARCHAR) AS stray FROM amounts"
            total = "exact_sum(amount)"
        else:
            added = _Statistic("least(v0, $most)", parameters={"most": max_quantity}) if self.numbers else _Statistic()
            members, parameters = self._placed(added)
            total = _total(added.each)
        by, stray = self._with_stray("g", "fault")
        by_leaf, _ = self._with_stray("leaf", "size", "fault")
        # A group is one row here unless some of its records have a fault; `spans`: it has records in several leaves.
        self.db.make(
            "sizes",
            f"""
            WITH entire_group AS (
                SELECT g, fault, {stray}, min(leaf0) AS leaf, max(leaf0) AS other, {total} AS members
                FROM ({members}) AS placed GROUP BY {by}
            )
            SELECT leaf AS leaf0, CAST(greatest(least(members, $largest), $smallest) AS BIGINT) AS size, fault,
                {stray}, count(*) AS amount, bool_or(leaf <> other) AS spans
            FROM entire_group GROUP BY {by_leaf}
            """,
            smallest=smallest,
            largest=largest,
            **parameters,
        )
        if self.bound is None:
            self._refuse_faults("sizes")
        (spans,) = self.db.run("SELECT coalesce(bool_or(spans), false) FROM sizes WHERE fault = 0")[0]
        if spans:
            raise ValueError(
                f"{self.records.argument}: a group (column {self._named_for('group')!r}) has records in more than one "
                "leaf; give every group one leaf, for instance by an id that is made of the leaf and the group"
            )
        leaves, sizes, groups = self._result(["leaf0", "size"], "sizes")
        return LeafGroups(leaves, sizes, groups, people, found)

    def count_households(self) -> LeafHouseholds:
        """Records per combination of leaves, in households and outside; households per leaf of the first key and size.

        Both are of the same records: those inside all hierarchies and, with a bound, those that count. A household of
        which no record counts is none.
        """
        leaves, known = self.leaves, self.inside
        self._tabulate(_Statistic(by=("g",) if self.bound is None else ("g", "p")))
        # Whether a household has several leaves does not depend on which of its records count.
        (spans,) = self.db.run(
            "SELECT coalesce(bool_or(leaf <> other), false) FROM (SELECT min(leaf0) AS leaf, max(leaf0) AS other "
            f"FROM matched WHERE {known} AND g IS NOT NULL GROUP BY g) AS entire_household"
        )[0]
        if spans:
            raise ValueError(
                f"{self.records.argument}: a household (column {self._named_for('household')!r}) has records in more "
                "than one leaf; give every household one leaf, for instance by an id that is made of the leaf and the "
                "household, and no id (null) to persons who live in none"
            )
        amounts = "matched"
        if self.bound is not None:
            keep_bounded(self.db, self.bound, Cells.of_persons(leaves))
            amounts = "counting"
        outside, is_outside = f"leaf{len(leaves)}", "CASE WHEN g IS NULL THEN 1 ELSE 0 END"
        self.db.make(
            "inside",
            f"SELECT {_listed(leaves)}, {is_outside} AS {outside}, exact_sum(amount) AS amount "
            f"FROM {amounts} WHERE {known} GROUP BY {_listed([*leaves, is_outside])}",
        )
        *parts, counts = self._result([*leaves, outside], "inside")
        self.db.make(
            "sizes",
            "SELECT leaf0, size, count(*) AS amount FROM (SELECT leaf0, exact_sum(amount) AS size "
            f"FROM {amounts} WHERE {known} AND g IS NOT NULL GROUP BY leaf0, g) AS homes GROUP BY leaf0, size",
        )
        return LeafHouseholds(LeafCounts(tuple(parts), counts), LeafGroups(*self._result(["leaf0", "size"], "sizes")))

    def _bound_memberships(
        self, max_quantity: int, bound: ContributionBound
    ) -> tuple[IntArray | None, IntArray | None]:
        """`amounts` has every group of every leaf, with the amounts of the memberships that count; 0 where none does.

        Every group keeps a row in each of its leaves: whether one has several does not depend on which memberships
        count.

        Returns:
            How many people have how many memberships, and the fingerprint of the memberships, where they are asked for.
        """
        quantity, most = ("least(v0, $most)", {"most": max_quantity}) if self.numbers else ("1", {})
        memberships = _Statistic("1", quantity, ("g", "p", "size"), most)
        self._tabulate(memberships)
        self.db.make("every_group", "SELECT DISTINCT leaf0, g FROM matched WHERE leaf0 IS NOT NULL")
        cells = Cells.of_memberships()
        found = count_people(self.db, bound, cells), fingerprint(self.db, bound, cells)
        keep_bounded(self.db, bound, cells)
        self.db.make(
            "amounts",
            "SELECT leaf0, g, amount * size AS amount FROM counting UNION ALL SELECT leaf0, g, 0 FROM every_group",
        )
        return found

    def _named_for(self, use: str) -> str:
        """The column of that use, as the records name it."""
        return next(column.name for column in self.records.wanted if column.use == use)

    def _tabulate(self, statistic: _Statistic, *, paths_first: bool = False) -> None:
        """The one pass over the records: `matched` has each distinct (leaves, `statistic.by`) and its amount.

        Leaf numbers are NULL outside the hierarchy, and the first one is where their combination is impossible.
        """
        placed, parameters = self._placed(statistic, paths_first=paths_first)
        by, stray = self._with_stray(*self.leaves, *statistic.by, "fault")
        total = "exact_sum(amount)" if paths_first else _total(statistic.each)
        listed = ", count(*) AS listed" if self.records.is_public else ""
        known = _listed([*self.leaves, *statistic.by, "fault"])
        grouped = f"SELECT {known}, {stray}, {total} AS amount{listed} FROM ({placed}) AS placed GROUP BY {by}"
        self.db.make("matched", grouped, **parameters)
        self._refuse_faults("matched")

    def _with_stray(self, *columns: str) -> tuple[str, str]:
        """What rows are grouped by beside some columns, and what stands for the path of a record outside.

        It is NULL where there is no fault, so it divides no group that counts.
        """
        return (_listed([*columns, "stray"]), "stray") if self.db.spread else (_listed(columns), _FIRST_STRAY)

    def _placed(self, statistic: _Statistic, *, paths_first: bool = False) -> tuple[str, dict[str, Any]]:
        """A query that yields records (or, paths first, groups of them) with their leaf numbers; and its parameters."""
        source, parameters = self.db.source(self.records)
        path = [f"k{i}" for i in range(sum(len(columns) for columns in self.records.keys))]  # the columns of all paths
        ids = id_columns(self.records)
        may_be_null = [column.use == "household" for column in self.records.wanted if column.use in _IDS]
        faults = [f"v{i} IS NULL" for i in range(len(self.numbers))]
        faults += ["undated" for column in self.records.wanted if column.unreadable == "refused"]
        amount, groups = statistic.each, ""
        if paths_first:
            amount = "count(*)" if amount == "1" else f"exact_sum({amount})"
            faults = [f"bool_or({fault})" for fault in faults]
            groups = f"GROUP BY {_listed([*path, 'size' if statistic.size else ''])}"
        size = statistic.size and f"{statistic.size} AS size"
        named_faults = [f"{fault} AS fault{i}" for i, fault in enumerate(faults)]
        columns = _listed([*path, *ids, size, f"{amount} AS amount", *named_faults])
        nulls: list[str] = []
        joins, leaves = [], []
        for found in joined_leaves(self.db, self.records, self.keys):
            joins.append(found.join)
            other = found.key.other_leaf
            leaves.append(found.leaf if other is None else f"coalesce({found.leaf}, {other})")
            for place, (k, may_be) in enumerate(zip(found.path, found.may_be_null, strict=True)):
                null = f"k{k} IS NULL" + (f" AND {found.leaf} IS NULL" if may_be else "")
                fault = other is None and not self.drop_unknown and place < found.unknown_from
                nulls.append(null if fault else "FALSE")
        refused = []
        for i, each in enumerate(self.impossible):
            self.db.register(f"impossible{i}", each.leaves)
            same = [f"impossible{i}.leaf{side} = {leaves[side]}" for side in each.sides]
            joins.append(f"LEFT JOIN impossible{i} ON {' AND '.join(same)}")
            refused.append(f"impossible{i}.leaf{each.sides[0]} IS NOT NULL")
        if refused:
            leaves[0] = f"CASE WHEN {' OR '.join(refused)} THEN NULL ELSE {leaves[0]} END"
        numbers = [f"fault{i}" for i in range(len(faults))]
        no_ids = ["FALSE" if fine else f"{name} IS NULL" for name, fine in zip(ids, may_be_null, strict=True)]
        first_fault = _first_fault([*nulls, *no_ids, *numbers], leaves, refused)
        kept = [*(f"{leaf} AS leaf{i}" for i, leaf in enumerate(leaves)), *ids, "size" if size else "", "amount"]
        return (
            f"SELECT {_listed(kept)}, {first_fault} AS fault, {_stray(path, leaves, self.drop_unknown)} AS stray "
            f"FROM (SELECT {columns} FROM ({source}) AS source {groups}) AS rows_of_source {' '.join(joins)}",
            {**parameters, **statistic.parameters},
        )

    def _refuse_faults(self, grouped: str) -> None:
        """Refuse records that are at fault, and those outside the hierarchy unless they are left out.

        Raises:
            ValueError: there are some; of a private record the message names at most the column that is at fault.
        """
        counted = [column for column in self.records.wanted if column.use != "period" or column.unreadable == "refused"]
        strays = f"fault = {len(counted) + 1}"  # an impossible combination has no leaf either
        outside = [f"coalesce(bool_or({leaf} IS NULL AND {strays}), false)" for leaf in self.leaves]
        first_fault, *found = self.db.run(f"SELECT min(fault), {_listed(outside)} FROM {grouped} WHERE fault > 0")[0]
        if first_fault is not None and first_fault <= len(counted):
            column = counted[first_fault - 1]
            raise ValueError(f"{self.records.argument}: column {column.name!r} {named(column)}{_FAULTS[column.use]}")
        if self.drop_unknown:
            return
        if first_fault == len(counted) + 2:
            raise ValueError(
                f"{self.records.argument}: a record has a combination of attributes that is listed as impossible; "
                "correct the record or the list, or leave such records out with on_unknown='drop'"
            )
        first = 1
        for i, (columns, unknown) in enumerate(zip(self.records.keys, found, strict=True)):
            places = range(first, first + len(columns))
            first = places.stop
            if unknown:
                # The first in order, so that the message does not depend on threads.
                texts = [f"stray[{place}] AS label{place}" for place in places]
                labels = self.db.run(
                    f"SELECT {_listed(texts)} FROM {grouped} WHERE leaf{i} IS NULL AND {strays} "
                    f"ORDER BY {_listed([f'label{place}' for place in places])} LIMIT 1"
                )[0]
                where, remedy = _outside(self.records.is_public, self.keys[i], columns, labels)
                raise ValueError(
                    f"{self.records.argument}: a record is outside the hierarchy, {where}; add the missing leaf to the "
                    f"hierarchy's table, {remedy}{self._hint_on_types(i)}"
                )

    def _hint_on_types(self, i: int) -> str:
        """What of the types of the ith key's columns may put a record outside; the first such thing among the files."""
        found = (list(key_types(self.keys, self.records.keys, layout))[i] for layout in self.records.layouts)
        return next(
            (hint for key, columns, types in found if (hint := hint_on_types(columns, types, key.hierarchy))), ""
        )

    def _refuse_large_total(self, numbers: Sequence[Wanted], amounts: str) -> None:
        (too_large,) = self.db.run(
            f"SELECT coalesce(exact_sum(amount), 0) > {MAX_TOTAL} FROM {amounts} WHERE {self.inside}"
        )[0]
        if too_large:
            column = "".join(f"column {column.name!r} {named(column)}" for column in numbers)
            raise ValueError(f"{self.records.argument}: {column}adds up to more than 2^62; use a coarser unit")

    def _result(self, columns: Sequence[str], amounts: str) -> list[IntArray]:
        """The rows of `amounts` inside the hierarchy that have an amount, in order."""
        known = " AND ".join(f"{column} IS NOT NULL" for column in columns if column.startswith("leaf"))
        integers = [f"CAST({column} AS BIGINT) AS {column}" for column in [*columns, "amount"]]
        return self.db.arrays(
            f"SELECT {_listed(integers)} FROM {amounts} WHERE {known} AND amount > 0 ORDER BY {_listed(columns)}"
        )


def _total(each: str) -> str:
    return "count(*)" if each == "1" else "exact_sum(amount)"


def _first_fault(faults: Sequence[str], leaves: Sequence[str], refused: Sequence[str]) -> str:
    """The number, from 1, of the first wanted column that is at fault; 0 for a record without a fault.

    One more outside the hierarchy, and two more where a combination is impossible.
    """
    outside = " OR ".join(f"{leaf} IS NULL" for leaf in leaves)
    numbered = " ".join(f"WHEN {fault} THEN {number}" for number, fault in enumerate(faults, 1))
    if refused:
        numbered += f" WHEN {' OR '.join(refused)} THEN {len(faults) + 2}"
    return f"CASE {numbered} WHEN {outside} THEN {len(faults) + 1} ELSE 0 END"


def _stray(path: Sequence[str], leaves: Sequence[str], drop_unknown: bool) -> str:
    """The path of a record outside the hierarchy, as a list of texts, where a message may name it; else NULL."""
    if drop_unknown:
        return "CAST(NULL AS VARCHAR)"
    labels = [f"CAST({name} AS VARCHAR)" for name in path]
    return f"CASE WHEN {' OR '.join(f'{leaf} IS NULL' for leaf in leaves)} THEN [{_listed(labels)}] END"


_IDS = ("group", "household", "person")
"""The uses of columns with ids."""
_FIRST_STRAY = "min(stray) FILTER (WHERE fault > 0) AS stray"
"""Without the filter, every group of records has texts compared."""

_FAULTS = {
    "key": "has null keys (or empty cells); drop or fill those rows",
    "group": "has null ids (or empty cells); drop or fill those rows",
    "person": "has null ids (or empty cells), so whose records these are is not known; drop or fill those rows",
    "number": (
        "must hold integers from 0 to 2^62 (floats: below 2^53), but some are negative, fractional, missing, too "
        "large or not numbers; correct or drop those rows"
    ),
    "period": (
        "has text that is no date in a form that is read: a day (2026-03-04, also with a time after it), a month "
        "(2026-03) or an ISO week (2026-W10); write dates so, or leave such records out with on_unknown='drop'"
    ),
}


def _outside(public: bool, key: LeafKey, columns: Sequence[str], labels: Sequence[str]) -> tuple[str, str]:
    """Where a record is outside its hierarchy, as a message may say it, and the remedy.

    The path of a public record; of a private one the first column whose label the hierarchy does not have below the
    labels before it, and never the label.
    """
    if public:
        path = ", ".join(f"{column}={label!r}" for column, label in zip(columns, labels, strict=True))
        return f"at {path}", "or correct the record"
    remedy = "correct the record, or leave such records out with on_unknown='drop'"
    inside: Any = None
    for place, (leaves, label) in enumerate(zip(key.leaf_columns(columns), labels, strict=True)):
        same = pc.equal(pc.cast(leaves, pa.string()), pa.scalar(label, pa.string()))
        inside = same if inside is None else pc.and_(inside, same)
        if not pc.any(inside).as_py():
            above = " below the record's labels above it" if place else ""
            return f"by its label of {columns[place]!r}, which the hierarchy does not have{above}", remedy
    return f"by its label of {columns[-1]!r}", remedy


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(column for column in columns if column)
