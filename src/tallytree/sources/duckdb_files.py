"""DuckDB files: a table or a view, opened read-only and read in batches; and files that are written in slices.

Whoever made the file wrote the queries of its views. So a view reads other files only where the caller allows it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from tallytree.sources.failures import SourceError, Withheld
from tallytree.sources.kinds import DuckDB
from tallytree.sources.scans import BATCH_ROWS, Batches, Scan, quoted
from tallytree.support.spill_folders import spill_folder

SETTINGS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
    "preserve_insertion_order": "false",
}
"""Of every connection of ours: nothing is downloaded, no secret is kept, and a name in SQL is no variable of Python."""


@dataclass(frozen=True, eq=False, repr=False)
class DuckDBScan(Scan):
    """A table or a view of a file.

    Attributes:
        given: the file, and the table as the caller names it.
        name: in SQL.
        spill_place: see `Scan.spilling_to`.
    """

    given: DuckDB
    name: str
    spill_place: str | None = None

    def spilling_to(self, place: str | None) -> DuckDBScan:
        """See `Scan`."""
        return replace(self, spill_place=place)

    def batches(self, columns: Sequence[str], argument: str) -> Batches:
        """See `Scan`. What does not fit in memory is spilled to a folder of our own, not beside the file."""
        wanted = ", ".join(quoted(column) for column in columns)
        with (
            spill_folder(self.spill_place) as folder,
            _opened(self.given, argument, temp_directory=str(folder)) as connection,
        ):
            query = f"SELECT {wanted or '1'} FROM {self.name}"
            reader = self._shielded(lambda: connection.sql(query).to_arrow_reader(BATCH_ROWS), argument)
            while (batch := self._shielded(lambda: next(reader, None), argument)) is not None:
                yield batch

    def _shielded(self, work: Callable[[], Any], argument: str) -> Any:
        with Withheld(duckdb.Error, pa.ArrowException, OSError, RuntimeError) as error:
            return work()
        if error.kind is duckdb.PermissionException:
            raise SourceError(f"{argument}: {_outside(self.given)}")
        raise SourceError(
            f"{argument}: DuckDB cannot read the table to its end (what it says is withheld, since it may quote a "
            "record); is the query of the view right, and is there memory and disk enough?"
        )


def identity(path: str, name: str) -> frozenset[Any]:
    """What is the same however a table of a file is named: DuckDB's names do not depend on capitals."""
    try:
        about = Path(path).stat()
        which: tuple[Any, ...] = (about.st_dev, about.st_ino)
    except OSError:
        which = (str(Path(path).resolve()),)
    return frozenset({("duckdb", *which, name.casefold())})


def scan_of_duckdb(given: DuckDB, argument: str) -> DuckDBScan:
    """A table or a view of a file; only its schema is read.

    Raises:
        ValueError: no such file or table; it is no DuckDB file, or is open elsewhere; the view reads another file.
    """
    path = os.fspath(given.path)
    if not Path(path).is_file():
        raise ValueError(f"{argument}: no file at {path!r}; give the path of a DuckDB file")
    name = table_name(given.table)
    with _opened(given, argument) as connection:
        try:
            schema = connection.sql(f"SELECT * FROM {name} LIMIT 0").to_arrow_table().schema
        except duckdb.PermissionException:
            schema, problem = None, _outside(given)
        except duckdb.Error:
            schema, problem = None, f"{path!r} has no table or view {given.table!r} that can be read; name another"
    if schema is None:
        raise ValueError(f"{argument}: {problem}")
    return DuckDBScan(schema, given, name)


def _outside(given: DuckDB) -> str:
    """Why a view is refused, and the remedy; what the view reads is not said."""
    return (
        f"the view {given.table!r} of {os.fspath(given.path)!r} reads something outside the database file; copy its "
        "rows into a table of the file, or, if you know what its query reads, give external_access=True, in a spec "
        "{duckdb: path, table: …, external_access: true}"
    )


def table_name(table: str) -> str:
    """A table's name with its schema, each part quoted; "main" is the schema that is meant where none is given."""
    schema, _, name = table.rpartition(".")
    return f"{quoted(schema or 'main')}.{quoted(name)}"


@contextmanager
def _opened(given: DuckDB, argument: str, **settings: str) -> Iterator[Any]:
    path = os.fspath(given.path)
    access = {"enable_external_access": "true" if given.external_access else "false"}
    try:
        connection = duckdb.connect(path, read_only=True, config=SETTINGS | access | settings)
    except duckdb.ConnectionException:
        problem = "is open in this process with other settings; close that connection first"
    except duckdb.IOException as error:
        locked = "lock" in str(error).lower()
        problem = "is open for writing elsewhere; close it there first" if locked else "cannot be read as a DuckDB file"
    except duckdb.Error:
        problem = "cannot be read as a DuckDB file"
    else:
        with closing(connection):
            connection.execute("SET enable_progress_bar = false")
            connection.execute("SET lock_configuration = true")
            yield connection
        return
    raise ValueError(f"{argument}: {path!r} {problem}")


@dataclass(frozen=True)
class DatabaseTable:
    """A table to write.

    Attributes:
        name: of the table.
        schema: its columns, of which no two have the same name but for capitals.
        comment: what it holds.
        comments: what each column means.
        slices: its rows.
    """

    name: str
    schema: pa.Schema
    comment: str
    comments: Sequence[str]
    slices: Iterable[pa.Table]


def write_database(path: Path, tables: Iterable[DatabaseTable]) -> None:
    """Make a DuckDB database with these tables, each with its comments.

    Args:
        path: of the file; it must not exist.
        tables: what to write; slice by slice, so that memory holds one slice.

    Raises:
        OSError: it cannot be written.
    """
    try:
        _write(path, tables)
    except (duckdb.IOException, duckdb.FatalException) as error:
        # What is written is published, so DuckDB's words may be shown.
        raise OSError(f"out: {path.name!r} could not be written: {str(error).splitlines()[0]}") from error


def _write(path: Path, tables: Iterable[DatabaseTable]) -> None:
    with duckdb.connect(str(path), config={"autoinstall_known_extensions": "false"}) as database:
        for table in tables:
            name = quoted(table.name)
            database.register("rows_to_write", table.schema.empty_table())
            database.execute(f"CREATE TABLE {name} AS FROM rows_to_write")
            for rows in table.slices:
                database.register("rows_to_write", rows)
                database.execute(f"INSERT INTO {name} FROM rows_to_write")
            database.unregister("rows_to_write")
            database.execute(f"COMMENT ON TABLE {name} IS {_text(table.comment)}")
            for column, comment in zip(table.schema.names, table.comments, strict=True):
                database.execute(f"COMMENT ON COLUMN {name}.{quoted(column)} IS {_text(comment)}")
        database.execute("CHECKPOINT")


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
