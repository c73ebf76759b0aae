"""DuckDB, for one tabulation: a connection with settings of its own, and errors that quote nothing of a record.

What DuckDB says when it fails may quote a record, so its exceptions end here: see `DuckDBSession.run`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar

import duckdb

from tallytree.private.core_dumps import core_dumps_disabled
from tallytree.private.tabulate import duckdb_reading
from tallytree.private.tabulate.dialect import DUCKDB_FUNCTIONS
from tallytree.private.tabulate.records import Records
from tallytree.sources.duckdb_files import SETTINGS
from tallytree.sources.failures import SourceError
from tallytree.sources.scans import Scan
from tallytree.support.spill_folders import spill_folder
from tallytree.support.stages import observed

_T = TypeVar("_T")


class DuckDBSession:
    """A tabulation with a DuckDB connection: a `tallytree.private.tabulate.session.Session`.

    Args:
        connection: its connection.
        argument: the name of the table of records in messages.
        temp_directory: where tables that are queries spill; None: the system's place.
    """

    def __init__(self, connection: Any, argument: str, temp_directory: str | None = None) -> None:
        self._connection = connection
        self._argument = argument
        self._temp_directory = temp_directory
        self._failures: list[SourceError] = []
        self._functions = dict(DUCKDB_FUNCTIONS)

    def source(self, records: Records) -> tuple[str, dict[str, Any]]:
        """A query that yields the wanted columns under our names, and its parameters."""
        if isinstance(records.source, Scan):
            records = replace(records, source=records.source.spilling_to(self._temp_directory))
        self._failures = records.failures
        return duckdb_reading.source(records, self.register, self.run)

    def register(self, name: str, table: Any) -> None:
        """Let SQL read an Arrow table or stream under a name of ours."""
        self._shield(lambda: self._connection.register(name, table))

    def make(self, name: str, query: str, **parameters: Any) -> None:
        """Run a query once and keep its rows, in memory or spilled, under a name that a public table may have left."""
        self.run(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}", **parameters)

    def drop(self, name: str) -> None:
        """Free the rows that were kept under a name."""
        self.run(f"DROP TABLE {name}")

    def run(self, query: str, **parameters: Any) -> Any:
        """Run a statement and fetch the rows that it returns.

        Raises:
            MemoryError: memory or room for temporary files ran out.
            OSError: a file cannot be read.
            ValueError: anything else that the engine refuses.
        """
        return self._shield(lambda: self._executed(query, parameters).fetchall())

    def arrays(self, query: str, **parameters: Any) -> list[Any]:
        """Run a query and fetch its columns as arrays."""
        return list(self._shield(lambda: self._executed(query, parameters).fetchnumpy()).values())

    def _executed(self, query: str, parameters: dict[str, Any]) -> Any:
        """Run a statement, once the functions of ours that it calls are defined; most statements call one or none."""
        for signature in [each for each in self._functions if each.partition("(")[0] in query]:
            self._connection.execute(f"CREATE OR REPLACE TEMP MACRO {signature} AS {self._functions.pop(signature)}")
        return self._connection.execute(query, parameters)

    def _shield(self, work: Callable[[], _T]) -> _T:
        try:
            return work()
        except Exception as error:  # noqa: BLE001 (user's streams raise whatever they like)
            # What a source says of itself is in words of ours, and DuckDB would say it in its own.
            refusal = self._failures[0] if self._failures else _refusal(error, self._argument)
        # Raised out here, so that not even `__context__` holds the original, whose message may quote a record.
        raise refusal


def _refusal(error: Exception, argument: str) -> BaseException:
    if isinstance(error, duckdb.InterruptException) or (
        isinstance(error, RuntimeError) and str(error) == "Query interrupted"  # what DuckDB makes of Ctrl-C
    ):
        return KeyboardInterrupt()
    if isinstance(error, duckdb.OutOfMemoryException | MemoryError):
        return MemoryError(
            f"{argument}: memory ran out while the records were grouped; give a larger memory, or memory_limit "
            "(tt.engines.Local, in a spec engine: {memory_limit: …}), fewer threads, or a temp_directory with more room"
        )
    if isinstance(error, duckdb.IOException | OSError):
        return OSError(f"{argument}: a file cannot be read, or a temporary one not be written; is the disk full?")
    return ValueError(
        f"{argument}: the records cannot be read ({type(error).__name__}); what the reader said is withheld because it "
        "may quote a record. Is every file complete, in UTF-8 (else name it: tt.sources.CSV(path, encoding='latin-1'), "
        "in a spec {csv: path, encoding: latin-1}), and its CSV quoted as in RFC 4180, with as many cells in every row "
        "as in the header?"
    )


@contextmanager
def opened(
    memory_limit: str | None, threads: int | None, temp_directory: str | None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection whose spilled rows only this user can read, and which are removed at the end, also after an error.

    Spilled rows that dead runs left in the same place are removed first: see `tallytree.support.spill_folders`.

    DuckDB could encrypt them, but only with an extension that has to be downloaded.

    Args:
        memory_limit: as DuckDB writes it, e.g. `"4GB"`; None: 80 % of the machine's.
        threads: None: one per core.
        temp_directory: where the folder for spilled rows is made; None: the system's place.
    """
    with spill_folder(temp_directory) as folder, core_dumps_disabled():
        settings: dict[str, Any] = SETTINGS | {"temp_directory": str(folder)}
        if memory_limit is not None:
            settings["memory_limit"] = memory_limit
        if threads is not None:
            settings["threads"] = threads
        with closing(duckdb.connect(":memory:", config=settings)) as connection:
            _without_bar(connection)
            connection.execute("SET lock_configuration = true")
            yield connection


def _without_bar(connection: duckdb.DuckDBPyConnection) -> None:
    """Let DuckDB draw no bar of its own; it cannot be told so while connecting.

    It counts what it has read only where it believes that a bar is drawn. In a notebook without ipywidgets it draws
    none, and refuses every change of the setting.
    """
    with suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = false")
        if observed():
            connection.execute("SET enable_progress_bar = true")
            connection.execute("SET enable_progress_bar_print = false")
