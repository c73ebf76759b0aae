"""A table, a view or a query of PostgreSQL, through ADBC: some columns, in batches, in a read-only transaction.

The password is libpq's: the environment variable PGPASSWORD, or ~/.pgpass. What the server says when it refuses may
quote a value of a row, so all of its messages end here; of an error only SQLSTATE is told, which has five signs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa

from tallytree.sources.failures import SourceError
from tallytree.sources.kinds import PostgreSQL
from tallytree.sources.scans import Batches, Scan, quoted
from tallytree.support.validate import require_packages

_T = TypeVar("_T")

BATCH_BYTES = 4 << 20
"""About how many bytes a batch has."""

CONNECT_SECONDS, WAIT_SECONDS, QUERY_SECONDS = 30, 60, 3600
"""The most that a connection, a lock of a table, and a query with all of its rows take."""

_NETWORK = {
    "connect_timeout": str(CONNECT_SECONDS), "keepalives_idle": "30", "keepalives_interval": "10",
    "keepalives_count": "3", "tcp_user_timeout": "60000",
}  # fmt: skip
"""Of libpq: a server that is gone is noticed within a minute."""

_READ_ONLY = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
"""One snapshot of the data, and nothing of a query can write."""


@dataclass(frozen=True, eq=False, repr=False)
class PostgreSQLScan(Scan):
    """A table, a view or a query.

    Attributes:
        url: without a password.
        origin: what stands behind FROM.
        read_as: per column the expression that reads it.
    """

    url: str
    origin: str
    read_as: dict[str, str]

    numbers_are_text: ClassVar[bool] = True
    """Values of the type numeric come as decimal text, which has all of their digits."""

    def batches(self, columns: Sequence[str], argument: str) -> Batches:
        """See `Scan`. The server sends the rows as COPY does; no more than some batches are in memory."""
        wanted = ", ".join(f"{self.read_as[column]} AS {quoted(column)}" for column in columns)
        schema = pa.schema([(column, self.schema.field(column).type) for column in columns])
        with _opened(self.url, argument) as cursor:
            cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(BATCH_BYTES)})
            _shielded(lambda: cursor.execute(f"SELECT {wanted} FROM {self.origin}"), argument)
            reader = _shielded(cursor.fetch_record_batch, argument)
            if [field.type for field in reader.schema] != schema.types:
                raise SourceError(f"{argument}: the columns of the table changed while it was read; run again")
            while (batch := _shielded(lambda: next(reader, None), argument)) is not None:
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def identity(given: PostgreSQL) -> frozenset[Any]:
    """What is the same however the database of a table is addressed."""
    return frozenset({(*_database(given.url), _origin(given, "public"))})


def relations(given: PostgreSQL) -> set[tuple[str, ...]]:
    """The tables that a table, a view or a query reads, as the server knows them; none where it does not tell.

    They are those of the server's plan; nothing is run. A partition is the table that it is a part of, and so is a
    table that inherits: its rows are that table's too.

    Returns:
        For each the identifier of the server's data, and the numbers of the database and of the table.
    """
    found: list[tuple[Any, ...]] = []
    # What cannot be read is refused where it is read.
    with suppress(SourceError, ModuleNotFoundError), _opened(given.url, "") as cursor:
        explain = f"EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) SELECT * FROM {_origin(given)}"
        cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
        _shielded(lambda: cursor.execute(explain), "")
        plan = _shielded(lambda: cursor.fetchone()[0], "")
        if scanned := sorted(set(_scanned(json.loads(plan)))):
            _shielded(lambda: cursor.execute(_NUMBERS.format(", ".join(scanned))), "")
            found = _shielded(cursor.fetchall, "")
    return {("postgresql", *map(str, each)) for each in found}


_NUMBERS = """
WITH RECURSIVE parts(number) AS (
    SELECT c.oid FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE (n.nspname, c.relname) IN ({})
    UNION SELECT inherited.inhparent FROM parts JOIN pg_catalog.pg_inherits AS inherited ON inhrelid = number
)
SELECT (SELECT system_identifier FROM pg_catalog.pg_control_system())::text,
    (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())::bigint,
    number::bigint
FROM parts WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_inherits WHERE inhrelid = number)
"""
"""Partitions are in `pg_inherits` too, as are tables that inherit: both are part of the table at the top."""


def _scanned(plan: Any) -> Iterator[str]:
    """The schema and name of each table in a plan, as a row of SQL."""
    if isinstance(plan, dict) and "Relation Name" in plan:
        yield f"({_text(plan['Schema'])}, {_text(plan['Relation Name'])})"
    if isinstance(plan, dict | list):
        for inside in plan.values() if isinstance(plan, dict) else plan:
            yield from _scanned(inside)


def _text(name: str) -> str:
    return "E'" + name.replace("\\", "\\\\").replace("'", "''") + "'"


def scan_of_postgresql(given: PostgreSQL, argument: str) -> PostgreSQLScan:
    """A table, a view or a query; the server describes its columns, and runs nothing.

    Raises:
        ModuleNotFoundError: the driver is not installed.
        ValueError: the table or query cannot be read.
        SourceError: the server cannot be reached.
    """
    origin = _origin(given)
    with _opened(given.url, argument) as cursor:
        described = _described(cursor, f"SELECT * FROM {origin}")
        what = "the query" if given.table is None else f"the table {given.table!r}"
        if isinstance(described, str):
            raise ValueError(f"{argument}: {what} cannot be read (SQLSTATE {described}); {_remedy(described)}")
        enums = _shielded(lambda: _enums(cursor, described), argument)
    read_as, fields = {}, []
    for field in described:
        name, kind = field.name, _type(field)
        read_as[name] = quoted(name)
        if kind == "numeric":
            read_as[name] = f"CAST(trim_scale({quoted(name)}) AS text)"  # 1.0 and 1.00 are one number
        elif kind in ("bpchar", "uuid", *enums):
            read_as[name] = f"CAST({quoted(name)} AS text)"  # of char(n) without the blanks that fill it
        fields.append((name, field.type if read_as[name] == quoted(name) else pa.string()))
    return PostgreSQLScan(pa.schema(fields), given.url, origin, read_as)


def _origin(given: PostgreSQL, default: str = "") -> str:
    """What stands behind FROM; `default` is the schema of a table whose schema is not given."""
    if given.table is None:
        query = (given.query or "").strip().rstrip(";")
        return f"({query}\n) AS source"  # a comment may end the query
    schema, _, name = given.table.rpartition(".")
    return ".".join(quoted(part) for part in (schema or default, name) if part)


def _database(url: str) -> tuple[str, ...]:
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    host = options.get("host") or unquote(parts.netloc.rpartition("@")[2].rpartition(":")[0] or parts.hostname or "")
    port = options.get("port") or str(parts.port or 5432)
    return "postgresql", host.casefold(), port, options.get("dbname") or unquote(parts.path.strip("/"))


def _type(field: pa.Field) -> str:
    return str((field.metadata or {}).get(b"POSTGRESQL:type", b"").decode())


def _described(cursor: Any, query: str) -> pa.Schema | str:
    """The columns of a query, or the SQLSTATE by which the server refuses it."""
    try:
        return cursor.adbc_execute_schema(query)
    except Exception as error:  # noqa: BLE001 (what it says quotes the query)
        return getattr(error, "sqlstate", None) or "unknown"


def _enums(cursor: Any, described: pa.Schema) -> set[str]:
    """Of the types that the driver does not know, those that are enums, as the driver names them."""
    unknown = {_type(field) for field in described if _type(field).startswith("unnamed<oid:")}
    if not unknown:
        return set()
    oids = ", ".join(str(int(each.removeprefix("unnamed<oid:").rstrip(">"))) for each in unknown)
    cursor.execute(f"SELECT oid::bigint FROM pg_catalog.pg_type WHERE typtype = 'e' AND oid IN ({oids})")
    return {f"unnamed<oid:{oid}>" for (oid,) in cursor.fetchall()}


def _remedy(state: str) -> str:
    return {
        "42P01": "there is no such table: give its name, with its schema, letter for letter",
        "3F000": "there is no such schema: give its name letter for letter",
        "42501": "the user has no right to read it: ask for SELECT",
        "42703": "a column of it does not exist: check the query",
        "42601": "it is not valid SQL: give one SELECT",
    }.get(state, "check the name, the query, and the right of the user to read it")


@contextmanager
def _opened(url: str, argument: str) -> Iterator[Any]:
    require_packages(argument, "postgresql://", {"adbc_driver_postgresql": "adbc-driver-postgresql"}, "postgres")
    from adbc_driver_postgresql import dbapi

    try:
        connection = dbapi.connect(_with_limits(url))
        problem = False
    except Exception:  # noqa: BLE001 (what it says may hold parts of the URL)
        problem = True
    if problem:
        raise SourceError(
            f"{argument}: the PostgreSQL database cannot be opened; is the server running, are host, port, user and "
            "database right, and is the password in PGPASSWORD or ~/.pgpass?"
        )
    with closing(connection), closing(connection.cursor()) as cursor:
        _shielded(lambda: cursor.execute(_READ_ONLY), argument)
        _shielded(lambda: cursor.execute(_limits()), argument)
        yield cursor


def _with_limits(url: str) -> str:
    """A URL with what it does not say itself of how long to wait; the environment may say more of connections."""
    said = {name for name, _ in parse_qsl(urlsplit(url).query)}
    if "PGCONNECT_TIMEOUT" in os.environ:
        said.add("connect_timeout")
    added = "&".join(f"{name}={value}" for name, value in _NETWORK.items() if name not in said)
    return f"{url}{'&' if '?' in url else '?'}{added}"


def _limits() -> str:
    """SQL that limits how long a query takes, where the server, the role or PGOPTIONS have no limit of their own."""
    return (
        "SELECT pg_catalog.set_config(name, CASE name WHEN 'lock_timeout' "
        f"THEN '{WAIT_SECONDS * 1000:.0f}' ELSE '{QUERY_SECONDS * 1000:.0f}' END, true) "
        "FROM pg_catalog.pg_settings WHERE name IN ('statement_timeout', 'lock_timeout') AND setting = '0'"
    )


def _shielded(work: Callable[[], _T], argument: str) -> _T:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 (what the server says may quote a value of a row)
        state = getattr(error, "sqlstate", None)
    told = f" (SQLSTATE {state})" if state else ""
    raise SourceError(
        f"{argument}: PostgreSQL did not give the rows to their end{told}; what it says is withheld, since it may "
        "quote a record. Is the query right, does the server still run, and is there time enough (statement_timeout, "
        "lock_timeout)?"
    )
