"""What an engine is, and what it is asked to count: the columns, how their values are read, and the statements.

An engine turns private tables into true statistics, and checks their schema without reading a row. All checks of
columns and types are here, so they are the same in every engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

from tallytree.accounting.periods import Period
from tallytree.kinds.terms import OnUnknown
from tallytree.private.tabulate.contribution_bound import ContributionBound
from tallytree.private.tabulate.defects import Defects, find_defects
from tallytree.private.tabulate.leaf_statistics import MAX_TOTAL, LeafCounts, LeafGroups, LeafHouseholds
from tallytree.private.tabulate.records import Records, Unreadable, Wanted, with_every_column
from tallytree.private.tabulate.session import Session
from tallytree.support.validate import safe_text
from tallytree.trees.impossible import Impossible
from tallytree.trees.leaf_keys import LeafKey

Found_co = TypeVar("Found_co", LeafCounts, LeafGroups, LeafHouseholds, Defects, covariant=True)


@dataclass(frozen=True)
class InPeriod:
    """The column that says when a record was, and the days whose records are counted; the others are left out."""

    column: str
    days: Period


class Request(Protocol[Found_co]):
    """What is counted; implemented by the classes below."""

    @property
    def argument(self) -> str:
        """The table's name in messages."""

    @property
    def keys(self) -> Sequence[LeafKey]:
        """The columns that say where a record belongs, per hierarchy."""

    @property
    def others(self) -> Sequence[Wanted]:
        """The other columns that are read."""

    @property
    def drop_unknown(self) -> bool:
        """Whether records outside a hierarchy are left out; otherwise they are an error."""

    @property
    def bound(self) -> ContributionBound | None:
        """The most records of one person that count."""

    def require_bound(self) -> None:
        """Refuse to count where a column of people is named, but not how many of their records count.

        Raises:
            ValueError: it is so.
        """

    def statistics(self, db: Session, records: Records) -> Found_co:
        """Count; the records have the columns that are asked for.

        Raises:
            ValueError, MemoryError, OSError: see the request's class.
        """


class _Request:
    """What all requests share: whose records are counted, and whether unknown ones are left out.

    Attributes:
        on_unknown: what to do with a record (a row, a member of a group) outside a hierarchy: raise, or leave it out.
        argument: the table's name in messages.
        person: the column with the person's id, for a check without a bound.
        bound: the most records (of groups: memberships) of one person that count, and whose they are; None: all count.
        impossible: combinations of leaves that no record can have: a record that has one is outside the hierarchy.
        period: the days whose records are counted; None: all are.
    """

    on_unknown: OnUnknown
    person: str | None
    bound: ContributionBound | None
    period: InPeriod | None = None

    @property
    def drop_unknown(self) -> bool:
        """Whether records outside a hierarchy are left out."""
        return self.on_unknown == "drop"

    def require_bound(self) -> None:
        """Refuse to count where a column of people is named, but not how many of their records count."""
        if self.bound is None and self.person is not None:
            raise ValueError(f"person: {self.person!r} is named without a contribution bound; give the bound")

    @property
    def _people(self) -> list[Wanted]:
        person = self.person if self.bound is None else self.bound.person
        return [] if person is None else [Wanted(person, "person", "person")]

    @property
    def _when(self) -> list[Wanted]:
        if self.period is None:
            return []
        unreadable: Unreadable = "left out" if self.drop_unknown else "refused"
        return [Wanted(self.period.column, "period", "period_column", self.period.days, unreadable)]


@dataclass(frozen=True)
class CountRecords(_Request):
    """The number of records of every combination of leaves that has any; with a bound, of those that count.

    Attributes:
        keys: the columns that say where a record belongs, one leaf per key.
        count: a column with the number of records that a row stands for (≥ 0); None: each row is one.
        … and what all requests share: see `_Request`.

    Raises:
        ValueError: `on_unknown` is another word. When it is counted: a missing column; a null key; a null id of a
            person; a record outside the hierarchy; a count that is not an integer from 0 to 2^62, or counts that add
            up to more. Of private records, messages name at most the column by which one is outside the hierarchy.
        TypeError: when it is counted: a column's type does not fit its use; the table is not a table.
        MemoryError: when it is counted: memory, or room for spilled rows, ran out.
        OSError: when it is counted: a file cannot be read.
    """

    keys: tuple[LeafKey, ...]
    count: str | None = None
    on_unknown: OnUnknown = "error"
    argument: str = "records"
    person: str | None = None
    bound: ContributionBound | None = None
    impossible: tuple[Impossible, ...] = ()
    period: InPeriod | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", tuple(self.keys))
        _require_drop_or_error(self.on_unknown)

    @property
    def others(self) -> list[Wanted]:
        """The columns of the person and of the count."""
        return [*self._people, *_numbers(count=self.count), *self._when]

    def statistics(self, db: Session, records: Records) -> LeafCounts:
        """Count the records."""
        from tallytree.private.tabulate.statements import Tabulation

        tabulation = Tabulation(db, records, self.keys, self.drop_unknown, self.bound, self.impossible)
        return tabulation.count_records()


@dataclass(frozen=True)
class CountGroups(_Request):
    """The number of groups of every (leaf, size), from one row per member.

    A group's size is its number of rows, or the sum of their quantities; with a bound, of those that count: a group of
    which no membership counts has size 0. Where a member is left out, its group has the size of the rest.

    Attributes:
        key: the columns that say where a member belongs.
        group: the column with the group's id (text, integer or another exact scalar).
        smallest: sizes below are counted as this one.
        largest: sizes above are counted as this one.
        quantity: a column with what each row adds to its group's size (≥ 0); None: 1.
        max_quantity: larger quantities are cut to this one.
        … and what all requests share: see `_Request`.

    Raises:
        ValueError: as for `CountRecords`; sizes that are no range; when it is counted, a null id, or a group with
            members in more than one leaf.
        TypeError: as for `CountRecords`; numbers that are not integers.
        MemoryError, OSError: as for `CountRecords`.
    """

    key: LeafKey
    group: str
    smallest: int = 0
    largest: int = MAX_TOTAL
    quantity: str | None = None
    max_quantity: int = 1
    on_unknown: OnUnknown = "error"
    argument: str = "records"
    person: str | None = None
    bound: ContributionBound | None = None
    period: InPeriod | None = None

    def __post_init__(self) -> None:
        _require_drop_or_error(self.on_unknown)
        _require_range(self.smallest, self.largest)
        _require_integer(self.max_quantity, "max_quantity")

    @property
    def keys(self) -> tuple[LeafKey, ...]:
        """The one key."""
        return (self.key,)

    @property
    def others(self) -> list[Wanted]:
        """The columns of the group, the person and the quantity."""
        return [Wanted(self.group, "group", "group"), *self._people, *_numbers(quantity=self.quantity), *self._when]

    def statistics(self, db: Session, records: Records) -> LeafGroups:
        """Count the groups."""
        from tallytree.private.tabulate.statements import Tabulation

        tabulation = Tabulation(db, records, self.keys, self.drop_unknown, self.bound)
        return tabulation.group_sizes(self.max_quantity, self.smallest, self.largest)


@dataclass(frozen=True)
class CountHouseholds(_Request):
    """Persons of every combination of leaves, in households and outside, and households of every (leaf, size).

    Attributes:
        keys: the columns that say where a person belongs, one leaf per key; the first are the areas'.
        household: the column with the id of the household (text, integer or another exact scalar); null for a person
            who lives in none.
        … and what all requests share: see `_Request`.

    Raises:
        ValueError, TypeError, MemoryError, OSError: as for `CountRecords`; a household with records in several leaves.
    """

    keys: tuple[LeafKey, ...]
    household: str
    on_unknown: OnUnknown = "error"
    argument: str = "records"
    person: str | None = None
    bound: ContributionBound | None = None
    impossible: tuple[Impossible, ...] = ()
    period: InPeriod | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", tuple(self.keys))
        _require_drop_or_error(self.on_unknown)

    @property
    def others(self) -> list[Wanted]:
        """The columns of the household and of the person."""
        return [Wanted(self.household, "household", "household"), *self._people, *self._when]

    def statistics(self, db: Session, records: Records) -> LeafHouseholds:
        """Count persons and households."""
        from tallytree.private.tabulate.statements import Tabulation

        tabulation = Tabulation(db, records, self.keys, self.drop_unknown, self.bound, self.impossible)
        return tabulation.count_households()


@dataclass(frozen=True)
class GroupRows(_Request):
    """The number of groups of every (leaf, size), from rows that each state a leaf, a size and a number of groups.

    Rows of one leaf and size add up.

    Attributes:
        key: the columns that name the leaf.
        size: the column with the size.
        groups: the column with the number of groups of that size.
        smallest: sizes below are counted as this one.
        largest: sizes above are counted as this one.
        … and what all requests share: see `_Request`.

    Raises:
        ValueError, TypeError, MemoryError, OSError: as for `CountRecords`, for both columns of numbers; sizes that are
            no range.
    """

    key: LeafKey
    size: str
    groups: str
    smallest: int = 0
    largest: int = MAX_TOTAL
    on_unknown: OnUnknown = "error"
    argument: str = "records"

    person = None
    bound = None

    def __post_init__(self) -> None:
        _require_drop_or_error(self.on_unknown)
        _require_range(self.smallest, self.largest)

    @property
    def keys(self) -> tuple[LeafKey, ...]:
        """The one key."""
        return (self.key,)

    @property
    def others(self) -> list[Wanted]:
        """The columns of the size and of the groups."""
        return _numbers(size=self.size, groups=self.groups)

    def statistics(self, db: Session, records: Records) -> LeafGroups:
        """Count the groups."""
        from tallytree.private.tabulate.statements import Tabulation

        return Tabulation(db, records, self.keys, self.drop_unknown).group_rows(self.smallest, self.largest)


@dataclass(frozen=True)
class FindDefects(_Request):
    """What is wrong with the records that another request would count; only `Local` finds it.

    Attributes:
        counted: the other request.
        most: the most records of a person.

    Raises:
        TypeError, MemoryError, OSError: as for the other request.
        ValueError: when it is counted, a missing column, or a file that cannot be read.
    """

    counted: CountRecords | CountGroups | CountHouseholds | GroupRows
    most: int

    on_unknown = "error"  # so that a column is not refused for its type: its labels are what is looked at
    person = None
    bound = None

    @property
    def argument(self) -> str:
        """That of the other request."""
        return self.counted.argument

    @property
    def keys(self) -> Sequence[LeafKey]:
        """Those of the other request."""
        return self.counted.keys

    @property
    def others(self) -> Sequence[Wanted]:
        """Those of the other request, by which no record is left out."""
        return [replace(column, unreadable="shown") for column in self.counted.others]

    def statistics(self, db: Session, records: Records) -> Defects:
        """Look for defects."""
        named = self.counted.person is not None
        return find_defects(
            db,
            with_every_column(records, self.keys, self.others),
            self.keys,
            impossible=self.counted.impossible if isinstance(self.counted, CountRecords | CountHouseholds) else (),
            most=self.most if named else None,
            in_one_leaf=isinstance(self.counted, CountGroups | CountHouseholds),
        )


def _numbers(**columns: str | None) -> list[Wanted]:
    return [Wanted(name, "number", argument) for argument, name in columns.items() if name is not None]


def _require_drop_or_error(on_unknown: object) -> None:
    if on_unknown not in ("error", "drop"):
        raise ValueError(f"on_unknown: {on_unknown!r} must be 'error' or 'drop'")


def _require_range(smallest: int, largest: int) -> None:
    _require_integer(smallest, "smallest")
    _require_integer(largest, "largest")
    if not 0 <= smallest <= largest <= MAX_TOTAL:
        raise ValueError(f"smallest, largest: 0 ≤ {smallest} ≤ {largest} ≤ 2^62 must hold")


def _require_integer(value: object, argument: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{argument}: {safe_text(value)} must be an integer")


Found = TypeVar("Found", LeafCounts, LeafGroups, LeafHouseholds, Defects)


@runtime_checkable
class Engine(Protocol):
    """Tabulates records; implemented by `Local`. Every engine returns the same statistics for the same records."""

    @property
    def name(self) -> str:
        """Its name in specs, which is its key in `tallytree.private.engines.ENGINES`."""

    @property
    def software(self) -> tuple[str, ...]:
        """The packages that it tabulates with, whose versions a statement lists."""

    def check(self, table: Any, request: Request[Found]) -> None:
        """Raise what `tabulate` would raise for the columns and their types; no row is read."""

    def tabulate(self, table: Any, request: Request[Found]) -> Found:
        """The true statistics that the request asks for.

        Args:
            table: the records, as the engine reads them (see `tallytree.sources.locate.locate`); a stream is read once.
            request: what is counted.

        Raises:
            ValueError, TypeError, MemoryError, OSError: see `CountRecords`, `CountGroups` and `GroupRows`.
        """
