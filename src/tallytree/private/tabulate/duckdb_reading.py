"""How DuckDB reads located records: Parquet files itself, all else as Arrow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tallytree.private.tabulate.records import Records, enumerate_names
from tallytree.private.tabulate.renamed_columns import renamed_columns


def source(records: Records, register: Callable[[str, Any], None]) -> tuple[str, dict[str, list[str]]]:
    """A query that yields the wanted columns under our names, and its parameters.

    Args:
        records: where the rows are.
        register: lets SQL read an Arrow table or stream under a name.
    """
    arrow = records.arrow()
    if arrow is not None:
        register("records", arrow)
        values = [name for name, _ in enumerate_names(records.wanted)]
        return f"SELECT {renamed_columns(records, values, records.layouts[0].types)} FROM records", {}
    queries, files = [], {}
    for i, layout in enumerate(records.layouts):
        names = ", ".join(name for name, _ in enumerate_names(range(layout.width)))
        values = [f"c{position}" for position in layout.positions]
        queries.append(
            f"SELECT {renamed_columns(records, values, layout.types)} "
            f"FROM read_parquet($files{i}, hive_partitioning = false) AS file({names})"
        )
        files[f"files{i}"] = [_literal_path(path) for path in layout.paths]
    return " UNION ALL ".join(queries), files


def _literal_path(path: str) -> str:
    """A path that DuckDB's globbing takes for what it is (and for a file's, not an address's)."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in str(Path(path).absolute()))
