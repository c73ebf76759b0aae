"""An engine that tabulates a table once, however often it is released: for experiments."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tallytree.private.engines.engine import Engine, Found
from tallytree.private.engines.local import Local
from tallytree.private.engines.requests import Request


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
        self._engine: Engine = Local() if engine is None else engine
        # A table and a hierarchy are compared by `id`; the entry holds them, so that no other object gets the same id.
        self._kept: dict[Any, tuple[Any, Any]] = {}

    def __repr__(self) -> str:
        """The engine; nothing of the statistics."""
        return f"Remembering({self._engine!r})"

    @property
    def name(self) -> str:
        """That of the engine."""
        return self._engine.name

    @property
    def software(self) -> tuple[str, ...]:
        """That of the engine."""
        return self._engine.software

    def check(self, table: Any, request: Request[Found]) -> None:
        """As the engine does."""
        self._engine.check(table, request)

    def tabulate(self, table: Any, request: Request[Found]) -> Found:
        """As the engine does, once for equal requests."""
        if not isinstance(table, pa.Table) or request.bound is not None:
            return self._engine.tabulate(table, request)
        key = (id(table), request)
        if key not in self._kept:
            self._kept[key] = (table, self._engine.tabulate(table, request))
        found: Found = self._kept[key][1]
        return found
