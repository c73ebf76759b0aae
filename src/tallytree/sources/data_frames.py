"""Data frames of pandas, polars and other libraries, as Arrow tables."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import pyarrow as pa
from narwhals.dependencies import is_into_dataframe


def is_frame(table: Any) -> bool:
    """Whether it is a data frame in memory, of any library that narwhals knows."""
    return is_into_dataframe(table)


def arrow_of_frame(table: Any, argument: str) -> pa.Table:
    """The columns of a data frame; the index of a pandas frame is left out.

    Args:
        table: the frame.
        argument: its name in messages.

    Raises:
        ValueError: two columns have one name.
        TypeError: a column has no Arrow type.
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
    # narwhals turns an index into columns of the Arrow table, unless it is the default one.
    try:
        return nw.maybe_reset_index(frame).to_arrow()
    except Exception:  # noqa: BLE001 (every library has exceptions of its own; what they say may quote a record)
        culprit = next((place for place, name in enumerate(labels, 1) if not _fits_arrow(frame, name)), None)
    raise TypeError(
        f"{argument}: column {culprit} of the {frame.implementation.value} frame mixes types or has one that Arrow "
        "does not know; give it one type (for instance with .astype(str)) or leave it out"
    )


def _fits_arrow(frame: nw.DataFrame[Any], name: Any) -> bool:
    try:
        frame[name].to_arrow()
    except Exception:  # noqa: BLE001 (as above)
        return False
    return True
