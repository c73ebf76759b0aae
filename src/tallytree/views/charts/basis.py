"""What all charts share: rows for Altair, and how numbers are written.

Rows have the columns that a chart's docstring names, and no others matter. Names of levels and labels of nodes come
from whoever made the hierarchy. They are values of rows and titles, never the names of fields: a name with a dot or a
bracket would mean something else to Vega-Lite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

NUMBERS = ",.3~s"
"""How axes write numbers (D3's format): three digits, with k and M."""
WHOLE = ",.0f"
"""How tooltips write counts."""


def most_ticks(width: int) -> int:
    """About how many ticks an axis of numbers has at a width in pixels, so that their labels do not touch."""
    return min(max(width // 70, 2), 5)


def values(rows: pa.Table | Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows as Altair takes them; numbers that are not finite become null, which JSON has."""
    listed = rows.to_pylist() if isinstance(rows, pa.Table) else [dict(row) for row in rows]
    return [
        {name: None if isinstance(each, float) and not math.isfinite(each) else each for name, each in row.items()}
        for row in listed
    ]


def data(rows: pa.Table | Iterable[Mapping[str, Any]]) -> Any:
    """Rows as inline data; unlike a data frame, of any length, and without another package."""
    import altair

    return altair.Data(values=values(rows))


def described(chart: Any, title: str, description: str) -> Any:
    """A chart with its title and its text for those who cannot see it; empty ones are left out."""
    titled = chart.properties(title=title) if title else chart
    return titled.properties(description=description) if description else titled
