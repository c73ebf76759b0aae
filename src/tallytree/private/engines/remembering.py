"""An engine that tabulates a table once, however often it is released: for experiments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tallytree.private.engines.engine import Engine
from tallytree.private.engines.local import Local
from tallytree.private.tabulate.leaf_statistics import LeafCounts, LeafGroups


class Remembering:
    """Another engine, whose statistics of pyarrow tables are kept as long as this object lives.

    An experiment releases one table hundreds of times, and tabulating is most of the time of a release of flows. The
    statistics are private like the records, and are kept in memory only. Tables that could have changed in between
    (files, data frames, relations) are tabulated every time, and so are tables with a contribution bound, whose key
    differs each time. Do not change an array that a pyarrow table was made of: the old statistics would be returned.

    Args:
        engine: which tabulates; `Local()` by default.
    """

    def __init__(self, engine: Engine | None = None) -> None:
        self._engine: Any = Local() if engine is None else engine
        # A table and a hierarchy are compared by `id`; the entry holds them, so that no other object gets the same id.
        self._kept: dict[Any, tuple[Any, Any]] = {}

    def __repr__(self) -> str:
        """The engine; nothing of the statistics."""
        return f"Remembering({self._engine!r})"

    @property
    def name(self) -> str:
        """That of the engine."""
        name: str = self._engine.name
        return name

    @property
    def software(self) -> tuple[str, ...]:
        """That of the engine."""
        software: tuple[str, ...] = self._engine.software
        return software

    def check_counts(self, *arguments: Any, **options: Any) -> None:
        """As the engine does."""
        self._engine.check_counts(*arguments, **options)

    def check_group_sizes(self, *arguments: Any, **options: Any) -> None:
        """As the engine does."""
        self._engine.check_group_sizes(*arguments, **options)

    def check_group_rows(self, *arguments: Any, **options: Any) -> None:
        """As the engine does."""
        self._engine.check_group_rows(*arguments, **options)

    def count_records(self, table: Any, *arguments: Any, **options: Any) -> LeafCounts:
        """As the engine does, once for equal arguments."""
        counts: LeafCounts = self._once(self._engine.count_records, table, arguments, options)
        return counts

    def group_sizes(self, table: Any, *arguments: Any, **options: Any) -> LeafGroups:
        """As the engine does, once for equal arguments."""
        groups: LeafGroups = self._once(self._engine.group_sizes, table, arguments, options)
        return groups

    def group_rows(self, table: Any, *arguments: Any, **options: Any) -> LeafGroups:
        """As the engine does, once for equal arguments."""
        groups: LeafGroups = self._once(self._engine.group_rows, table, arguments, options)
        return groups

    def _once(
        self, tabulate: Callable[..., Any], table: Any, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        if not isinstance(table, pa.Table) or options.get("bound") is not None:
            return tabulate(table, *arguments, **options)
        hashable = (tuple(one) if isinstance(one, list) else one for one in arguments)
        key = (tabulate.__name__, id(table), *hashable, *sorted(options.items()))
        if key not in self._kept:
            self._kept[key] = (table, tabulate(table, *arguments, **options))
        return self._kept[key][1]
