"""DuckDB, for one tabulation: a connection with settings of its own, and errors that quote nothing of a record.

What DuckDB says when it fails may quote a record, so its exceptions end here: see `DuckDBSession.run`.

DuckDB reads Parquet files of this machine itself, and all else as Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import duckdb
import pyarrow as pa

from tallytree.private.tabulate.columns import kept_rows, renamed_columns
from tallytree.private.tabulate.records import ColumnLayout, Records, enumerate_names
from tallytree.private.tabulate.session import DUCKDB_FUNCTIONS
from tallytree.sources.duckdb_files import SETTINGS
from tallytree.sources.failures import SourceError
from tallytree.sources.partitions import disagreement, in_the_files_form
from tallytree.sources.scans import Scan
from tallytree.support.spill_folders import core_dumps_disabled, spill_folder
from tallytree.support.stages import observed

_T = TypeVar("_T")


class DuckDBSession:
    """A tabulation with a DuckDB connection: a `tallytree.private.tabulate.session.Session`.

    Args:
        connection: its connection.
        argument: the name of the table of records in messages.
        temp_directory: where tables that are queries spill; None: the system's place.
    """

    spread: ClassVar[bool] = False

    def __init__(self, connection: Any, argument: str, temp_directory: str | None = None) -> None:
        self._connection = connection
        self._argument = argument
        self._temp_directory = temp_directory
        self._failures: list[SourceError] = []
        self._functions = dict(DUCKDB_FUNCTIONS)

    def source(self, records: Records) -> tuple[str, dict[str, Any]]:
        """A query that yields the wanted columns under our names, and its parameters.

        Raises:
            SourceError: files disagree with the names of their folders.
        """
        if isinstance(records.source, Scan):
            records = replace(records, source=records.source.spilling_to(self._temp_directory))
        self._failures = records.failures
        queries: list[str] = []
        parameters: dict[str, list[str | None]] = {}
        streams = [] if records.local_parquet else records.streams()
        for i, layout in enumerate(records.layouts):
            if records.local_parquet:
                files = _ParquetFiles(records, i, layout)
                files.require_agreement(self.run)
                parameters |= files.parameters
                origin, values = files.origin, files.values
            else:
                self.register(f"records{i}", streams[i])
                origin, values = f"records{i}", [name for name, _ in enumerate_names(records.wanted)]
            columns = renamed_columns(records, values, layout.types)
            queries.append(f"SELECT {columns} FROM {origin}{kept_rows(records, values, layout.types)}")
        return " UNION ALL ".join(queries), parameters

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


class _ParquetFiles:
    """Files of one layout in SQL. A column in the names of folders is looked up by the number of the file.

    Attributes:
        origin: what stands behind FROM.
        values: per wanted column, the expression that reads it.
        parameters: the paths of the files, and per partition column its value in each.
    """

    def __init__(self, records: Records, i: int, layout: ColumnLayout) -> None:
        self._records, self._layout, self._files = records, layout, f"files{i}"
        names = ", ".join(name for name, _ in enumerate_names(range(layout.width)))
        self.origin = f"read_parquet($files{i}, hive_partitioning = false) AS file({names})"
        self.parameters: dict[str, list[str | None]] = {
            f"files{i}": [_literal_path(path, records) for path in layout.paths]
        }
        self.values: list[str] = []
        self._in_both: list[tuple[str, str, str]] = []
        for place, (wanted, position) in enumerate(zip(records.wanted, layout.positions, strict=True)):
            part = f"part{i}_{place}"
            by_file = self._by_file(wanted.name, layout.types[place])
            self.values.append(f"c{position}" if position < layout.width else _looked_up(part))
            if by_file is None:
                continue
            self.parameters[part] = by_file
            if position < layout.width:
                self._in_both.append((wanted.name, f"c{position}", part))

    def _by_file(self, column: str, kind: pa.DataType) -> list[str | None] | None:
        """The value of a column that is in the names of folders, for each file; None of another column."""
        files: Any = self._records.source
        values = [dict(files.partition_values(path)) for path in self._layout.paths]
        named = [column in each for each in values]
        if not any(named):
            return None
        if not all(named):
            raise SourceError(
                f"{self._records.argument}: some of the files lie in folders that are named {column}=…, and others do "
                "not; give files of one kind"
            )
        return [in_the_files_form(each[column], kind) for each in values]

    def require_agreement(self, run: Callable[..., Any]) -> None:
        """Refuse a column in the files that says something else than the names of their folders."""
        for name, value, part in self._in_both:
            query = (
                f"SELECT min(file_index) FROM {self.origin} "
                f"WHERE CAST({value} AS VARCHAR) IS DISTINCT FROM {_looked_up(part)}"
            )
            used = {each: given for each, given in self.parameters.items() if each in (self._files, part)}
            place = run(query, **used)[0][0]
            if place is not None:
                files: Any = self._records.source
                raise disagreement(files.named(self._layout.paths[place]), name, self._records.argument)
            del self.parameters[part]  # what the files have is read


def _looked_up(part: str) -> str:
    return f"(${part})[CAST(file_index AS BIGINT) + 1]"


def _literal_path(path: str, records: Records) -> str:
    """A path that DuckDB's globbing takes for what it is (and for a file's, not an address's).

    Raises:
        SourceError: it cannot be written so: to the globbing, a backslash parts folders.
    """
    if "\\" in path and any(letter in path for letter in "*?["):
        files: Any = records.source
        raise SourceError(
            f"{records.argument}: the file name {files.named(path)!r} has a backslash and one of * ? [; rename the file"
        )
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in str(Path(path).absolute()))


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
