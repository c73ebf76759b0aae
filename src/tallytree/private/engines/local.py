"""Tabulation on this machine, with DuckDB."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tallytree.compute.address_space import require_address_space
from tallytree.private.tabulate.contribution_bound import ContributionBound
from tallytree.private.tabulate.leaf_statistics import MAX_TOTAL, LeafCounts, LeafGroups
from tallytree.private.tabulate.records import LeafKey, Records, Wanted, check_records, close
from tallytree.terms import OnUnknown
from tallytree.validate import integer, memory_text, path_text, safe_text

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tallytree.private.tabulate.with_duckdb import Session

MAX_THREADS = 1_024
"""More threads than processors gain nothing, and DuckDB crashes where the system has no room for them."""


@dataclass(frozen=True)
class Local:
    """Tabulates on this machine; records may be larger than memory, since DuckDB spills to disk.

    Spilled rows lie in a separate folder `tallytree-spill-*` (mode 0700) that is removed at the end and after an error.
    A process that is killed cannot remove it: the next run of the same user with the same `temp_directory` does. The
    same holds for a process that is ended by SIGTERM or SIGHUP, unless the program turns the signal into an exception,
    as the command line does.

    Attributes:
        memory_limit: for the grouping, e.g. `"4GB"`; by default 80 % of the machine's memory.
        threads: by default one per core. The result does not depend on it.
        temp_directory: an existing folder on the disk to spill to; by default the system's.

    Raises:
        ValueError: a field's value is not possible.
        TypeError: a field's value is of the wrong kind.
    """

    memory_limit: str | None = None
    threads: int | None = None
    temp_directory: str | os.PathLike[str] | None = None

    name: ClassVar[str] = "local"
    software: ClassVar[tuple[str, ...]] = ("duckdb",)

    def __post_init__(self) -> None:
        if self.memory_limit is not None:
            memory_text(self.memory_limit, "memory_limit")
        if self.threads is not None:
            integer(self.threads, "threads", least=1, most=MAX_THREADS)
        if self.temp_directory is not None:
            path_text(self.temp_directory, "temp_directory")
            if not Path(self.temp_directory).is_dir():
                raise ValueError(f"temp_directory: {os.fspath(self.temp_directory)!r} is not a folder; make it first")

    def check_counts(
        self,
        table: Any,
        keys: Sequence[LeafKey],
        *,
        count: str | None,
        argument: str = "records",
        person: str | None = None,
        on_unknown: OnUnknown = "error",
    ) -> None:
        """Raise what `count_records` would raise for the columns and their types; no row is read."""
        close(_count_columns(table, keys, count, person, argument, _drops(on_unknown)).source, table)

    def check_group_sizes(
        self,
        table: Any,
        key: LeafKey,
        *,
        group: str,
        quantity: str | None = None,
        argument: str = "records",
        on_unknown: OnUnknown = "error",
        person: str | None = None,
    ) -> None:
        """Raise what `group_sizes` would raise for the columns and their types; no row is read."""
        records = _member_columns(table, key, group, person, quantity, argument, drop=_drops(on_unknown))
        close(records.source, table)

    def check_group_rows(
        self,
        table: Any,
        key: LeafKey,
        *,
        size: str,
        groups: str,
        argument: str = "records",
        on_unknown: OnUnknown = "error",
    ) -> None:
        """Raise what `group_rows` would raise for the columns and their types; no row is read."""
        close(_group_columns(table, key, size, groups, argument, _drops(on_unknown)).source, table)

    def count_records(
        self,
        table: Any,
        keys: Sequence[LeafKey],
        *,
        count: str | None = None,
        on_unknown: OnUnknown = "error",
        argument: str = "records",
        bound: ContributionBound | None = None,
    ) -> LeafCounts:
        """Count records per combination of leaves, one leaf per key.

        Args:
            table: the records (see `tallytree.sources.locate.locate`); a stream is read once.
            keys: the columns that say where a record belongs.
            count: a column with the number of records that a row stands for (≥ 0); None: each row is one.
            on_unknown: what to do with a record outside a hierarchy: raise, or leave it out.
            argument: the table's name in messages.
            bound: the most records of one person that count, and whose they are; None: all count.

        Raises:
            ValueError: a missing column; a null key; a null id of a person; a record outside the hierarchy; a count
                that is not an integer from 0 to 2^62, or counts that add up to more. Of the records, messages name
                only the path of one outside the hierarchy.
            TypeError: a column's type does not fit its use; `table` is not a table.
            MemoryError: memory, or room for spilled rows, ran out.
            OSError: a file cannot be read.
        """
        drop = _drops(on_unknown)
        records = _count_columns(table, keys, count, None if bound is None else bound.person, argument, drop)
        try:
            from tallytree.private.tabulate import with_duckdb

            with self._session(argument) as db:
                return with_duckdb.count_records(db, records, keys, drop, bound)
        finally:
            close(records.source, table)

    def group_sizes(
        self,
        table: Any,
        key: LeafKey,
        *,
        group: str,
        quantity: str | None = None,
        max_quantity: int = 1,
        smallest: int,
        largest: int,
        on_unknown: OnUnknown = "error",
        argument: str = "records",
        bound: ContributionBound | None = None,
    ) -> LeafGroups:
        """Count groups per leaf and size, from one row per member.

        A group's size is its number of rows, or the sum of their quantities; with a bound, of those that count.

        Args:
            table: the members (see `tallytree.sources.locate.locate`); a stream is read once.
            key: the columns that say where a member belongs.
            group: the column with the group's id (text, integer or another exact scalar).
            quantity: a column with what each row adds to its group's size (≥ 0); None: 1.
            max_quantity: larger quantities are cut to this one.
            smallest: sizes below are counted as this one.
            largest: sizes above are counted as this one.
            on_unknown: what to do with a member outside the hierarchy: raise, or leave it out (its group then has the
                size of the rest).
            argument: the table's name in messages.
            bound: the most memberships of one person that count, and whose they are; None: all count.

        Raises:
            ValueError: as for `count_records`; a null id; a group with members in more than one leaf.
            TypeError, MemoryError, OSError: as for `count_records`.
        """
        drop = _drops(on_unknown)
        _require_range(smallest, largest)
        _require_integer(max_quantity, "max_quantity")
        person = None if bound is None else bound.person
        records = _member_columns(table, key, group, person, quantity, argument, drop=drop)
        try:
            from tallytree.private.tabulate import with_duckdb

            with self._session(argument) as db:
                return with_duckdb.group_sizes(db, records, key, max_quantity, smallest, largest, drop, bound)
        finally:
            close(records.source, table)

    def group_rows(
        self,
        table: Any,
        key: LeafKey,
        *,
        size: str,
        groups: str,
        smallest: int,
        largest: int,
        on_unknown: OnUnknown = "error",
        argument: str = "records",
    ) -> LeafGroups:
        """Count groups per leaf and size, from rows that each state a leaf, a size and a number of groups.

        Args:
            table: the rows (see `tallytree.sources.locate.locate`); those of one leaf and size add up.
            key: the columns that name the leaf.
            size: the column with the size.
            groups: the column with the number of groups of that size.
            smallest: sizes below are counted as this one.
            largest: sizes above are counted as this one.
            on_unknown: what to do with a row outside the hierarchy: raise, or leave it out.
            argument: the table's name in messages.

        Raises:
            ValueError, TypeError, MemoryError, OSError: as for `count_records`, for both columns of numbers.
        """
        drop = _drops(on_unknown)
        _require_range(smallest, largest)
        records = _group_columns(table, key, size, groups, argument, drop)
        try:
            from tallytree.private.tabulate import with_duckdb

            with self._session(argument) as db:
                return with_duckdb.group_rows(db, records, key, smallest, largest, drop)
        finally:
            close(records.source, table)

    def _session(self, argument: str) -> AbstractContextManager[Session]:
        require_address_space(self.threads)
        from tallytree.private.tabulate import with_duckdb

        folder = None if self.temp_directory is None else os.fspath(self.temp_directory)
        return with_duckdb.session(
            argument, memory_limit=self.memory_limit, threads=self.threads, temp_directory=folder
        )


def _count_columns(
    table: Any, keys: Sequence[LeafKey], count: str | None, person: str | None, argument: str, drop: bool
) -> Records:
    people = [] if person is None else [Wanted(person, "person", "person")]
    numbers = [] if count is None else [Wanted(count, "number", "count")]
    return check_records(table, keys, [*people, *numbers], argument, drop_unknown=drop)


def _member_columns(
    table: Any, key: LeafKey, group: str, person: str | None, quantity: str | None, argument: str, *, drop: bool
) -> Records:
    people = [] if person is None else [Wanted(person, "person", "person")]
    numbers = [] if quantity is None else [Wanted(quantity, "number", "quantity")]
    columns = [Wanted(group, "group", "group"), *people, *numbers]
    return check_records(table, [key], columns, argument, drop_unknown=drop)


def _group_columns(table: Any, key: LeafKey, size: str, groups: str, argument: str, drop: bool) -> Records:
    numbers = [Wanted(size, "number", "size"), Wanted(groups, "number", "groups")]
    return check_records(table, [key], numbers, argument, drop_unknown=drop)


def _drops(on_unknown: str) -> bool:
    if on_unknown not in ("error", "drop"):
        raise ValueError(f"on_unknown: {on_unknown!r} must be 'error' or 'drop'")
    return on_unknown == "drop"


def _require_range(smallest: int, largest: int) -> None:
    _require_integer(smallest, "smallest")
    _require_integer(largest, "largest")
    if not 0 <= smallest <= largest <= MAX_TOTAL:
        raise ValueError(f"smallest, largest: 0 ≤ {smallest} ≤ {largest} ≤ 2^62 must hold")


def _require_integer(value: object, argument: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{argument}: {safe_text(value)} must be an integer")
