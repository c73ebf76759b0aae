"""The matrix of origins and destinations: a box for each pair of nodes, darker where more was counted."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from tallytree.views.charts.basis import WHOLE, data, described, values
from tallytree.views.charts.theme import LIGHT, Scheme, styled

WIDEST = 150
"""Pixels of a box."""
MOST_LABELLED = 12
"""With more columns than this, boxes have no numbers in them."""


def matrix(
    rows: pa.Table | Iterable[Mapping[str, Any]],
    *,
    row_title: str = "origin",
    column_title: str = "destination",
    unit: str = "count",
    title: str = "",
    row_order: Sequence[str] | None = None,
    column_order: Sequence[str] | None = None,
    absent: int | None = 0,
    width: int = 420,
    scheme: Scheme = LIGHT,
    description: str = "",
) -> Any:
    """Numbers by two sides.

    Args:
        rows: `row`, `column` (labels) and `value`.
        row_title: what rows are.
        column_title: what columns are.
        unit: what the numbers are.
        title: of the chart.
        row_order: the labels of all rows; by default those that appear, as they first appear.
        column_order: the labels of all columns.
        absent: the number of pairs without a row; None leaves them without a color.
        width: in pixels.
        scheme: the colors.
        description: the chart in words.
    """
    import altair as alt

    listed = values(rows)
    down, across = (
        [*(order if order is not None else dict.fromkeys(str(each[side]) for each in listed))]
        for side, order in (("row", row_order), ("column", column_order))
    )
    found = {(str(each["row"]), str(each["column"])): each["value"] for each in listed}
    most = max(found.values(), default=0)
    least = min(found.values(), default=0) if len(found) == len(down) * len(across) else 0
    edges = edges_of(most, len(scheme.steps), least)
    full = _all_pairs(down, across, found, edges, absent)
    side = min(max(width // max(len(across), 1), 8), WIDEST)
    base = alt.Chart(data(full)).encode(
        alt.X("column:N", sort=across, title=column_title, axis=alt.Axis(orient="top", labelAngle=-45, labelLimit=110)),
        alt.Y("row:N", sort=down, title=row_title, axis=alt.Axis(labelLimit=110)),
    )
    color = step_color("step:N", edges, unit, width, scheme)
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
    return styled(described(made, title, description), scheme)


def _all_pairs(
    down: Sequence[str],
    across: Sequence[str],
    found: Mapping[tuple[str, str], float],
    edges: Sequence[float],
    absent: int | None,
) -> list[dict[str, Any]]:
    """A row for each pair, with the step that its number is in."""
    names = step_names(edges)
    rows = []
    for row in down:
        for column in across:
            value = found.get((row, column), absent)
            if value is None:
                continue
            rows.append({"row": row, "column": column, "value": value, "step": names[bisect_right(edges, value)]})
    return rows


def step_names(edges: Sequence[float]) -> list[str]:
    """What the colors between the edges mean, in words."""
    shown = [f"{edge:,.0f}" if float(edge).is_integer() else f"{edge:,}" for edge in edges]
    between = [f"{low} to {high}" for low, high in pairwise(shown)]
    return [f"below {shown[0]}", *between, f"{shown[-1]} or more"]


def step_color(field: str, edges: Sequence[float], title: str, width: int, scheme: Scheme) -> Any:
    """The color of a step, which rows name as `step_names` does; its legend has a box for each step."""
    import altair as alt

    names = step_names(edges)
    return alt.Color(
        field,
        title=title,
        sort=names,
        scale=alt.Scale(domain=names, range=scheme.steps[: len(names)]),
        legend=alt.Legend(orient="bottom", symbolType="square", columns=max(width // 125, 2)),
    )


def edges_of(most: float, steps: int, least: float = 0.0) -> list[float]:
    """Where each next color begins: at most `steps` − 1 round numbers.

    Each is a few times the one before; or, where the least number is not far below the most, at the same distance.
    """
    if least > most / 10 and most - least > steps:
        return sorted({_rounded(least + (most - least) * part / steps, 2) for part in range(1, steps)})
    if most <= steps - 1:
        return [float(edge) for edge in range(1, max(int(most), 1) + 1)]
    ratio = max(2.0, most ** (1 / steps))
    edges = {_rounded(most / ratio**power) for power in range(1, steps)}
    return sorted(edge for edge in edges if edge >= 1)


def _rounded(number: float, digits: int = 1) -> float:
    """The number with so many significant digits."""
    return float(f"{number:.{digits}g}")
