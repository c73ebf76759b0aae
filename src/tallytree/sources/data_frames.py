"""Data frames of pandas, polars and other libraries, as Arrow tables."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import narwhals as nw
import pyarrow as pa
from narwhals.dependencies import is_into_dataframe

from tallytree.sources.type_names import NOT_READ


def is_frame(table: Any) -> bool:
    """Whether it is a data frame in memory, of any library that narwhals knows."""
    return is_into_dataframe(table)


def arrow_of_frame(table: Any, argument: str, columns: Collection[str] | None = None) -> pa.Table:
    """The columns of a data frame; the index of a pandas frame is left out.

    Args:
        table: the frame.
        argument: its name in messages.
        columns: those that are asked for; None: all. The others have the type `NOT_READ`.

    Raises:
        ValueError: two columns have one name.
        TypeError: a column that is asked for has no Arrow type.
    """
    labels = list(table.columns)
    # A name is not shown: where a file without a header was read, the names are the first record.
    first: dict[Any, int] = {}
    for place, label in enumerate(labels, 1):
        if first.setdefault(label, place) != place:
            raise ValueError(
                f"{argument}: columns {first[label]} and {place} have one name; give each column its own name"
            )
    frame = nw.from_native(table, eager_only=True)
    columns_of_table = []
    for place, label in enumerate(labels, 1):
        if columns is not None and str(label) not in columns:
            columns_of_table.append(pa.nulls(len(frame), NOT_READ))
            continue
        try:
            columns_of_table.append(frame.get_column(label).to_arrow())
            fits = True
        except Exception:  # noqa: BLE001 (every library has exceptions of its own; what they say may quote a record)
            fits = False
        if not fits:
            raise TypeError(
                f"{argument}: column {place} of the {frame.implementation.value} frame mixes types or has one that "
                "Arrow does not know; give it one type (for instance with .astype(str)) or leave it out"
            )
    return pa.table(columns_of_table, [str(label) for label in labels])
