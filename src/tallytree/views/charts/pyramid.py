"""The population pyramid: two groups back to back, by age; and small ones, one for each area, on one scale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tallytree.views.charts.basis import NUMBERS, WHOLE, data, described, most_ticks, values
from tallytree.views.charts.theme import LIGHT, Scheme, styled

BAR_HEIGHT, SMALL_BAR_HEIGHT = 18, 16
"""Pixels: a label fits beside each bar."""
GAP = 36
"""Pixels beside a small pyramid, for its labels."""


def pyramid(
    rows: pa.Table | Iterable[Mapping[str, Any]],
    *,
    groups: Sequence[str],
    order: Sequence[str],
    group_title: str = "",
    order_title: str = "",
    unit: str = "count",
    areas: Sequence[str] = (),
    title: str = "",
    width: int = 420,
    scheme: Scheme = LIGHT,
    description: str = "",
) -> Any:
    """Numbers of two groups to the left and to the right, a bar for each step of an order; the last step on top.

    Args:
        rows: `group`, `step` (labels) and `value`; `lower` and `upper` where known; `area`, where `areas` are given.
        groups: the labels of the two groups, left and right.
        order: the labels of all steps, from the bottom.
        group_title: what groups are.
        order_title: what steps are.
        unit: what the numbers are.
        areas: labels of areas, each with a small pyramid of its own, on one scale; by default there is one pyramid.
        title: of the chart.
        width: in pixels, of all.
        scheme: the colors.
        description: the chart in words.
    """
    import altair as alt

    # Labels may be anything, so places stand for them: the left side has negative numbers, which only the axis sees.
    sides = dict(zip(groups, (-1, 1), strict=True))
    step_of = {label: len(order) - 1 - place for place, label in enumerate(order)}
    listed = []
    for row in values(rows):
        sign = sides[str(row["group"])]
        ends = {end: None if row.get(end) is None else sign * row[end] for end in ("lower", "upper")}
        listed.append({**row, "at": step_of[str(row["step"])], "signed": sign * row["value"], **ends})
    most = max((max(row["value"], abs(row["upper"] or 0)) for row in listed), default=1)
    small = bool(areas)
    columns = max(min(width // 210, len(areas)), 1) if small else 1
    inner = width // columns - GAP if small else width
    labels = [*order][::-1]
    scale = alt.Scale(domain=[-most, most])
    ticks = alt.Axis(
        labelExpr=f"format(abs(datum.value), '{NUMBERS}')", tickCount=4 if small else most_ticks(width), grid=True
    )
    y = alt.Y(
        "at:O",
        title=None if small else order_title,
        sort=[*range(len(labels))],
        axis=alt.Axis(labelExpr=f"{_listed(labels)}[datum.value]", ticks=False),
    )
    base = alt.Chart()
    tips = [
        alt.Tooltip("group:N", title=group_title or "group"),
        alt.Tooltip("step:N", title=order_title or "step"),
        alt.Tooltip("value:Q", title=unit, format=WHOLE),
    ]
    color = alt.Color(
        "group:N",
        title=group_title or None,
        sort=[*groups],
        scale=alt.Scale(domain=[*groups], range=[scheme.accent, scheme.orange]),
        legend=alt.Legend(orient="top", symbolType="square"),
    )
    x = alt.X("signed:Q", title=unit, axis=ticks, scale=scale)
    layers = [base.mark_bar(height={"band": 0.85}).encode(x, y, color, tooltip=tips)]
    if not small:
        known = base.transform_filter("isValid(datum.lower)")
        layers.append(known.mark_rule(color=scheme.interval).encode(alt.X("lower:Q"), alt.X2("upper:Q"), y))
    height = len(labels) * (SMALL_BAR_HEIGHT if small else BAR_HEIGHT)
    made: Any = alt.layer(*layers, data=data(listed)).properties(width=inner, height=height)
    if small:
        heads = alt.Header(title=None, labelExpr=f"{_listed(areas)}[datum.value]", labelAnchor="middle")
        placed = [{**row, "place": [*areas].index(str(row["area"]))} for row in listed]
        made = alt.layer(*layers, data=data(placed)).properties(width=inner, height=height)
        made = made.facet(facet=alt.Facet("place:O", header=heads), columns=columns, spacing=18)
    return styled(described(made, title, description), scheme)


def _listed(labels: Sequence[str]) -> str:
    """An array of Vega's expressions with the labels."""
    import json

    return json.dumps([str(label) for label in labels])
