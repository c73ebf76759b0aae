"""What the statements of a tabulation need of an engine that runs SQL."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa

from tallytree.private.tabulate.records import Records


class Session(Protocol):
    """One tabulation in an engine: where the records are read and the statements run.

    Statements are in DuckDB's dialect (see `dialect`); another engine renders them for itself. Parameters are written
    `$name`. A name of a table is always one of ours.
    """

    def source(self, records: Records) -> tuple[str, dict[str, Any]]:
        """A query that yields the wanted columns of the records under our names, and its parameters.

        The names and the checks of numbers are those of `renamed_columns`. The query may be run only once.
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
