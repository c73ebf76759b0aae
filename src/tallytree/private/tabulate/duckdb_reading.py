"""How DuckDB reads located records: Parquet files of this machine itself, all else as Arrow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from tallytree.private.tabulate.in_period import kept_rows
from tallytree.private.tabulate.records import ColumnLayout, Records, enumerate_names
from tallytree.private.tabulate.renamed_columns import renamed_columns
from tallytree.sources.failures import SourceError
from tallytree.sources.partitions import disagreement, in_the_files_form


def source(
    records: Records, register: Callable[[str, Any], None], run: Callable[..., Any]
) -> tuple[str, dict[str, list[str | None]]]:
    """A query that yields the wanted columns under our names, and its parameters.

    Args:
        records: where the rows are.
        register: lets SQL read an Arrow table or stream under a name.
        run: runs a query and fetches its rows.

    Raises:
        SourceError: files disagree with the names of their folders.
    """
    queries: list[str] = []
    parameters: dict[str, list[str | None]] = {}
    if records.local_parquet:
        for i, layout in enumerate(records.layouts):
            file = _ParquetFiles(records, i, layout)
            file.require_agreement(run)
            parameters |= file.parameters
            columns = renamed_columns(records, file.values, layout.types)
            kept = kept_rows(records, file.values, layout.types)
            queries.append(f"SELECT {columns} FROM {file.origin}{kept}")
    else:
        for i, (layout, stream) in enumerate(zip(records.layouts, records.streams(), strict=True)):
            register(f"records{i}", stream)
            values = [name for name, _ in enumerate_names(records.wanted)]
            kept = kept_rows(records, values, layout.types)
            queries.append(f"SELECT {renamed_columns(records, values, layout.types)} FROM records{i}{kept}")
    return " UNION ALL ".join(queries), parameters


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
