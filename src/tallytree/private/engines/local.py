"""Tabulation on this machine, with DuckDB; and an engine that tabulates a table once, however often it is released."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from tallytree.private.engines.engine import Engine, Found, Request
from tallytree.private.tabulate.records import Records, check_records, close
from tallytree.support.machine import LEAST_LIMIT, require_address_space
from tallytree.support.stages import reading
from tallytree.support.validate import integer, memory_text, path_text

if TYPE_CHECKING:
    from tallytree.private.tabulate.session import Session


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
    support: ClassVar[dict[str, str]] = {
        "Parquet files": "scanned by DuckDB",
        "CSV files": "streamed",
        "address of files (`s3://…`)": "streamed",
        "table in memory, record batches, DuckDB relation": "in memory, or streamed",
        "Spark data frame": "fetched to this machine",
        "group's id": "text, integer, decimal, date, time, timestamp, binary, UUID",
        "person's id": "text, integer, UUID",
    }

    def __post_init__(self) -> None:
        if self.memory_limit is not None:
            memory_text(self.memory_limit, "memory_limit", LEAST_LIMIT)
        if self.threads is not None:
            integer(self.threads, "threads", least=1, most=MAX_THREADS)
        if self.temp_directory is not None:
            path_text(self.temp_directory, "temp_directory")
            if not Path(self.temp_directory).is_dir():
                raise ValueError(f"temp_directory: {os.fspath(self.temp_directory)!r} is not a folder; make it first")

    def check(self, table: Any, request: Request[Found]) -> None:
        """Raise what `tabulate` would raise for the columns and their types; no row is read."""
        close(_records(table, request).source, table)

    def tabulate(self, table: Any, request: Request[Found]) -> Found:
        """The true statistics that the request asks for: see `Engine`."""
        request.require_bound()
        records = _records(table, request)
        try:
            with self._session(request.argument, public=records.is_public) as db:
                return request.statistics(db, records)
        finally:
            close(records.source, table)

    @contextmanager
    def _session(self, argument: str, *, public: bool = False) -> Iterator[Session]:
        """One tabulation. DuckDB is closed after it, but after a public table only at the end of `one_release`."""
        require_address_space(self.threads)
        from tallytree.private.tabulate import duckdb_session

        folder = None if self.temp_directory is None else os.fspath(self.temp_directory)
        settings = self.memory_limit, self.threads, folder
        release = _release.get()
        closing, connection = release.left_open.pop(settings, (ExitStack(), None)) if release else (ExitStack(), None)
        with closing:
            connection = connection or closing.enter_context(duckdb_session.opened(*settings))
            with reading(connection.query_progress):
                yield duckdb_session.DuckDBSession(connection, argument, folder)
            if public and release and not release.ended and settings not in release.left_open:
                release.left_open[settings] = closing.pop_all(), connection


@dataclass
class _Release:
    """A release that is at work: DuckDB by its settings, with what closes it."""

    left_open: dict[Any, tuple[ExitStack, Any]] = field(default_factory=dict)
    ended: bool = False  # a context that was copied meanwhile still names it


_release: ContextVar[_Release | None] = ContextVar("release", default=None)
"""None outside of `one_release`."""


@contextmanager
def one_release() -> Iterator[None]:
    """Plan and run one release in the block: DuckDB is opened once for its public table and its records.

    It is left open after a public table only, so no row of a record lies in a DuckDB that is not at work.
    """
    release = _Release()
    token = _release.set(release)
    with ExitStack() as closings:
        try:
            yield
        finally:
            release.ended = True
            _release.reset(token)
            for closing, _ in release.left_open.values():
                closings.push(closing)
            release.left_open.clear()


def _records(table: Any, request: Request[Found]) -> Records:
    return check_records(table, request.keys, request.others, request.argument, drop_unknown=request.drop_unknown)


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
