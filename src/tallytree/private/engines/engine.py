"""What an engine is: it turns private tables into true statistics, and checks their schema without reading a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from tallytree.private.tabulate.contribution_bound import ContributionBound
from tallytree.private.tabulate.leaf_statistics import LeafCounts, LeafGroups
from tallytree.private.tabulate.records import LeafKey
from tallytree.terms import OnUnknown


@runtime_checkable
class Engine(Protocol):
    """Tabulates records; implemented by `Local`. Every engine returns the same statistics for the same records."""

    @property
    def name(self) -> str:
        """Its name in specs, which is its key in `tallytree.private.engines.ENGINES`."""

    @property
    def software(self) -> tuple[str, ...]:
        """The packages that it tabulates with, whose versions a statement lists."""

    def check_counts(
        self,
        table: Any,
        keys: Sequence[LeafKey],
        *,
        count: str | None,
        argument: str,
        person: str | None = None,
        on_unknown: OnUnknown = "error",
    ) -> None:
        """Raise what `count_records` would raise for the columns and their types; no row is read."""

    def check_group_sizes(
        self,
        table: Any,
        key: LeafKey,
        *,
        group: str,
        quantity: str | None,
        argument: str,
        on_unknown: OnUnknown = "error",
        person: str | None = None,
    ) -> None:
        """Raise what `group_sizes` would raise for the columns and their types; no row is read."""

    def check_group_rows(
        self, table: Any, key: LeafKey, *, size: str, groups: str, argument: str, on_unknown: OnUnknown = "error"
    ) -> None:
        """Raise what `group_rows` would raise for the columns and their types; no row is read."""

    def count_records(
        self,
        table: Any,
        keys: Sequence[LeafKey],
        *,
        count: str | None,
        on_unknown: OnUnknown,
        argument: str,
        bound: ContributionBound | None = None,
    ) -> LeafCounts:
        """The number of records of every combination of leaves that has any; with a bound, of those that count."""

    def group_sizes(
        self,
        table: Any,
        key: LeafKey,
        *,
        group: str,
        quantity: str | None,
        max_quantity: int,
        smallest: int,
        largest: int,
        on_unknown: OnUnknown,
        argument: str,
        bound: ContributionBound | None = None,
    ) -> LeafGroups:
        """The number of groups of every (leaf, size), from one row per entity; quantities cut, sizes clamped.

        With a bound, of the memberships that count; a group of which none does has size 0.
        """

    def group_rows(
        self,
        table: Any,
        key: LeafKey,
        *,
        size: str,
        groups: str,
        smallest: int,
        largest: int,
        on_unknown: OnUnknown,
        argument: str,
    ) -> LeafGroups:
        """The number of groups of every (leaf, size), from (leaf, size, groups) rows; sizes clamped."""
