"""The matrix of origins and destinations: a box for each pair of nodes, darker where more was counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from tallytree.charts.basis import WHOLE, data, values
from tallytree.charts.theme import LIGHT, Scheme, styled

MOST_LABELLED = 12
"""With more columns than this, boxes have no numbers in them."""


def matrix(
    rows: pa.Table | Iterable[Mapping[str, Any]],
    *,
    row_title: str = "origin",
    column_title: str = "destination",
    unit: str = "count",
    title: str = "",
    width: int = 420,
    scheme: Scheme = LIGHT,
    description: str = "",
) -> Any:
    """Numbers by two sides.

    Args:
        rows: `row`, `column` (labels, of which the first appearances give the order) and `value`; pairs without a row
            count as 0.
        row_title: what rows are.
        column_title: what columns are.
        unit: what the numbers are.
        title: of the chart.
        width: in pixels.
        scheme: the colors.
        description: the chart in words.
    """
    import altair as alt

    listed = values(rows)
    down, across = ([*dict.fromkeys(str(each[side]) for each in listed)] for side in ("row", "column"))
    found = {(str(each["row"]), str(each["column"])): each["value"] for each in listed}
    most = max(found.values(), default=0)
    edges = edges_of(most, len(scheme.steps))
    full = [
        {"row": row, "column": column, "value": found.get((row, column), 0)}
        for row in down
        for column in across
    ]  # fmt: skip
    side = max(width // max(len(across), 1), 8)
    base = alt.Chart(data(full)).encode(
        alt.X("column:N", sort=across, title=column_title, axis=alt.Axis(orient="top", labelAngle=-45, labelLimit=110)),
        alt.Y("row:N", sort=down, title=row_title, axis=alt.Axis(labelLimit=110)),
    )
    color = alt.Color(
        "value:Q",
        title=unit,
        scale=alt.Scale(type="threshold", domain=edges, range=scheme.steps[: len(edges) + 1]),
        legend=alt.Legend(orient="bottom", format=",.3~r", direction="horizontal", gradientLength=min(width, 300)),
    )
    tips = [
        alt.Tooltip("row:N", title=row_title),
        alt.Tooltip("column:N", title=column_title),
        alt.Tooltip("value:Q", title=unit, format=WHOLE),
    ]
    layers = [base.mark_rect(stroke=scheme.background, strokeWidth=1).encode(color, tooltip=tips)]
    if len(across) <= MOST_LABELLED and side >= 34:
        turn = edges[2] if len(edges) > 2 else most + 1
        ink = alt.condition(f"datum.value >= {turn}", alt.value(scheme.on_steps), alt.value(scheme.text))
        layers.append(base.mark_text(fontSize=11).encode(alt.Text("value:Q", format=",.3~s"), color=ink))
    made = alt.layer(*layers).properties(width=side * len(across), height=max(min(side, 40), 8) * len(down))
    if title:
        made = made.properties(title=title)
    if description:
        made = made.properties(description=description)
    return styled(made, scheme)


def edges_of(most: float, steps: int) -> list[float]:
    """Where each next color begins: at most `steps` − 1 round numbers, each a few times the one before."""
    if most <= steps - 1:
        return [float(edge) for edge in range(1, max(int(most), 1) + 1)]
    ratio = max(2.0, most ** (1 / steps))
    edges = {_rounded(most / ratio**power) for power in range(1, steps)}
    return sorted(edge for edge in edges if edge >= 1)


def _rounded(number: float) -> float:
    """The number with one significant digit."""
    return float(f"{number:.1g}")
