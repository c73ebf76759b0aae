"""Equal tables are counted once in a process: most of the time of a test's small release is spent in DuckDB.

What an engine counts follows from the rows and from what is asked for, and nothing changes it later. Tests of how it is
counted (`private`, `sources`, `support`, `faults`), and of what must not differ (`lab/replay`), count anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pandas as pd
import pyarrow as pa

from tallytree.engines import Local

MOST_ROWS = 10_000
"""Of more rows the digest would not be free, and such tables are seldom counted again."""
ANEW = ("private", "sources", "support", "faults", "lab/replay")
"""Folders whose tests count every time."""


def counted_once(tabulate: Callable[..., Any], wanted: list[bool]) -> Callable[..., Any]:
    """`Local.tabulate`, which remembers while `wanted` is not empty; see `tallytree.engines.Remembering`."""
    kept: dict[Any, Any] = {}

    def remembering(engine: Local, table: Any, request: Any) -> Any:
        digest = _digest(table) if wanted and request.bound is None and engine == Local() else None
        if digest is None:
            return tabulate(engine, table, request)
        key = (digest, request)
        if key not in kept:
            kept[key] = tabulate(engine, table, request)
        return kept[key]

    return remembering


def _digest(table: Any) -> bytes | None:
    """Of the columns' names, types and values of a small table in memory; None of anything else."""
    if isinstance(table, pd.DataFrame) and len(table) <= MOST_ROWS:
        with suppress(pa.ArrowException):  # of columns that Arrow has no type for
            table = pa.Table.from_pandas(table)
    if not isinstance(table, pa.Table) or table.num_rows > MOST_ROWS:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return hashlib.blake2b(sink.getvalue()).digest()
