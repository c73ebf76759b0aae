"""What the statements of a tabulation need of an engine that runs SQL: a session, and the functions of our own.

The statements are DuckDB's SQL, in the subset that sqlglot renders for other engines. What it cannot render is one of
`DUCKDB_FUNCTIONS`. DuckDB has each as a macro with the definition below; another engine puts its own expression in
place of each call.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import pyarrow as pa

from tallytree.private.tabulate.records import Records

DUCKDB_FUNCTIONS = {
    # Whether all of a text matches a pattern (in the syntax that RE2 and Java have in common).
    "full_match(content, pattern)": "regexp_full_match(content, pattern)",
    # The sum of 64-bit integers, exact beyond 64 bits.
    "exact_sum(number)": "sum(number)",
    # The length of a text in bytes of UTF-8.
    "utf8_length(content)": "strlen(content)",
    # The day of a moment (a timestamp with a time zone) in UTC, whatever the session's zone is.
    "utc_day(moment)": "CAST(make_timestamp(epoch_us(CAST(moment AS TIMESTAMPTZ))) AS DATE)",
    # The first 60 bits of sha256(key ‖ content in UTF-8), as BIGINT: see `contribution_bound`.
    "keyed_place(key, content)": "CAST('0x' || left(sha256(key || encode(content)), 15) AS BIGINT)",
}
"""Signature: its definition in DuckDB's dialect."""


class Session(Protocol):
    """One tabulation in an engine: where the records are read and the statements run.

    Statements are in DuckDB's dialect; another engine renders them for itself. Parameters are written
    `$name`. A name of a table is always one of ours.

    Attributes:
        spread: whether rows are spread over processes. Then what costs is how often a statement moves them, and how
            many statements there are; and texts are grouped faster than the least of them is found.
    """

    spread: ClassVar[bool]

    def source(self, records: Records) -> tuple[str, dict[str, Any]]:
        """A query that yields the wanted columns of the records under our names, and its parameters.

        The names and the checks of numbers are those of `columns`. The query may be run only once.
        """

    def register(self, name: str, table: pa.Table) -> None:
        """Let statements read a public table under a name."""

    def make(self, name: str, query: str, **parameters: Any) -> None:
        """Run a query once and keep its rows under a name until the end of the session or `drop`."""

    def drop(self, name: str) -> None:
        """Forget the rows that were kept under a name."""

    def run(self, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """Run a query and fetch its few rows.

        Raises:
            MemoryError: memory or room for temporary files ran out.
            OSError: a file cannot be read.
            ValueError: anything else that the engine refuses; the message quotes nothing of a record.
        """

    def arrays(self, query: str, **parameters: Any) -> list[Any]:
        """Run a query and fetch its columns as NumPy arrays; no column has a null.

        Raises:
            MemoryError, OSError, ValueError: as for `run`.
        """
