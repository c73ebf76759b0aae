"""Bars with intervals: numbers of a few nodes or cells beside each other, and errors by level."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from tallytree.views.charts.basis import NUMBERS, WHOLE, data, described, most_ticks, values
from tallytree.views.charts.theme import LIGHT, Scheme, styled

ROW_HEIGHT = 24
LABEL_WIDTH = 300
"""Pixels: two names, or one and what is not listed of it."""
LETTER_WIDTH, OTHER_FONTS = 6, 0.12
"""Pixels; and how much wider a reader's font may be than the one that labels were measured with: else they are cut."""


def bars(
    rows: pa.Table | Iterable[Mapping[str, Any]],
    *,
    title: str = "",
    unit: str = "count",
    width: int = 420,
    scheme: Scheme = LIGHT,
    description: str = "",
) -> Any:
    """One bar for each row, with its interval where it has one.

    Args:
        rows: `label`, `value`; `lower` and `upper` where known (null elsewhere). In the order to show.
        title: of the chart.
        unit: what the numbers are.
        width: of the bars, in pixels.
        scheme: the colors.
        description: the chart in words, for those who cannot see it.
    """
    import altair as alt

    listed = [{"lower": None, "upper": None, **row, "place": place} for place, row in enumerate(values(rows))]
    axis = alt.Axis(labelExpr=_labels("label", listed), labelLimit=LABEL_WIDTH, ticks=False, domain=False)
    place = alt.Y("place:O", title=None, axis=axis)
    tips = [alt.Tooltip("label:N", title="node"), alt.Tooltip("value:Q", title=unit, format=WHOLE)]
    base = alt.Chart(data(listed))
    shown = base.mark_bar(height={"band": 0.65}, color=scheme.accent).encode(
        alt.X("value:Q", title=unit, axis=alt.Axis(format=NUMBERS, tickCount=most_ticks(width))), place, tooltip=tips
    )
    known = base.transform_filter("isValid(datum.lower)")
    line = known.mark_rule(color=scheme.interval, strokeWidth=1.5).encode(alt.X("lower:Q"), alt.X2("upper:Q"), place)
    ends = [
        known.mark_tick(color=scheme.interval, thickness=1.5, size=9).encode(alt.X(f"{end}:Q"), place)
        for end in ("lower", "upper")
    ]
    height = ROW_HEIGHT * max(len(listed), 1)
    made = alt.layer(shown, line, *ends).properties(width=width, height=height)
    longest = max((len(str(row["label"])) for row in listed), default=0)
    wider = min(longest * LETTER_WIDTH, LABEL_WIDTH) * OTHER_FONTS
    made = made.properties(padding={"left": 5 + round(wider), "top": 5, "right": 5, "bottom": 5})
    return styled(described(made, title, description), scheme)


def errors_by_level(
    rows: pa.Table | Iterable[Mapping[str, Any]],
    *,
    title: str = "",
    width: int = 420,
    scheme: Scheme = LIGHT,
    description: str = "",
) -> Any:
    """How far the numbers of each level are off: the middle one of its standard deviations, and their range.

    Args:
        rows: `level`, and of its numbers' typical errors `median`, `least` and `most`; root first.
        title: of the chart.
        width: in pixels.
        scheme: the colors.
        description: the chart in words.
    """
    import altair as alt

    listed = [{**row, "place": place} for place, row in enumerate(values(rows))]
    axis = alt.Axis(labelExpr=_labels("level", listed), labelLimit=200, ticks=False, domain=False)
    place = alt.Y("place:O", title=None, axis=axis)
    base = alt.Chart(data(listed))
    x = alt.Axis(format=NUMBERS, tickCount=most_ticks(width))
    known = [row["most"] for row in listed if row["most"]]
    top = alt.Scale(domain=[0, max(known, default=1.0)], nice=True)
    line = base.mark_rule(color=scheme.accent, strokeWidth=3).encode(
        alt.X("least:Q", scale=top), alt.X2("most:Q"), place
    )
    dot = base.mark_point(color=scheme.accent, size=90).encode(
        alt.X("median:Q", title="typical error", axis=x, scale=top),
        place,
        tooltip=[alt.Tooltip("level:N"), alt.Tooltip("median:Q", title="typical error, middle", format=",.3~r")],
    )
    made = alt.layer(dot, line).properties(width=width, height=ROW_HEIGHT * max(len(listed), 1))
    return styled(described(made, title, description), scheme)


def _labels(name: str, rows: list[dict[str, Any]]) -> str:
    """An expression that writes the labels of rows by their place: labels may repeat, places do not."""
    import json

    # A string of JSON is one of Vega's expressions, with every character beyond ASCII escaped.
    return f"{json.dumps([str(row[name]) for row in rows])}[datum.value]"
