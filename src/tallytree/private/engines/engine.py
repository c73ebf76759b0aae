"""What an engine is: it turns private tables into true statistics, and checks their schema without reading a row."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

from tallytree.private.engines.requests import Request
from tallytree.private.tabulate.defects import Defects
from tallytree.private.tabulate.leaf_statistics import LeafCounts, LeafGroups, LeafHouseholds

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
