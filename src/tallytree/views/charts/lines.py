"""Lines with bands: numbers of several releases, a small picture for each area."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tallytree.views.charts.basis import NUMBERS, WHOLE, data, described, values
from tallytree.views.charts.theme import LIGHT, Scheme, styled

PANEL, GAP, HEIGHT = 210, 70, 110
"""Pixels: of a small picture with its axis, of its axis, and its height."""


def lines(
    rows: pa.Table | Iterable[Mapping[str, Any]],
    *,
    releases: Sequence[str],
    areas: Sequence[str],
    unit: str = "count",
    width: int = 420,
    scheme: Scheme = LIGHT,
    description: str = "",
) -> Any:
    """A line over the releases for each area, with a band where the true number probably is; each on its own scale.

    Args:
        rows: `area` and `release` (places among their labels) and `value`; `lower` and `upper` where known.
        releases: the labels of the releases, in order.
        areas: the labels of the areas, in order.
        unit: what the numbers are.
        width: in pixels, of all.
        scheme: the colors.
        description: the chart in words.
    """
    import altair as alt

    columns = max(min(width // PANEL, len(areas)), 1)
    texts = [json.dumps([*labels]) for labels in (releases, areas)]  # labels may be anything, so places stand for them
    axis = alt.Axis(labelExpr=f"{texts[0]}[datum.value]", labelAngle=0, ticks=False)
    x = alt.X("release:O", title=None, axis=axis, scale=alt.Scale(padding=0.4))
    y = alt.Y("value:Q", title=None, axis=alt.Axis(format=NUMBERS, tickCount=3), scale=alt.Scale(zero=False))
    base = alt.Chart()
    known = base.transform_filter("isValid(datum.lower)")
    band = known.mark_area(color=scheme.accent, opacity=0.25).encode(x, alt.Y("lower:Q", title=None), alt.Y2("upper:Q"))
    ends = known.mark_rule(color=scheme.interval).encode(x, alt.Y("lower:Q"), alt.Y2("upper:Q"))
    tips = [alt.Tooltip("value:Q", title=unit, format=WHOLE)]
    line = base.mark_line(color=scheme.accent, point={"color": scheme.accent}).encode(x, y, tooltip=tips)
    heads = alt.Header(title=None, labelExpr=f"{texts[1]}[datum.value]", labelAnchor="middle")
    made = alt.layer(band, ends, line, data=data(values(rows))).properties(width=width // columns - GAP, height=HEIGHT)
    made = made.facet(facet=alt.Facet("area:O", header=heads), columns=columns, spacing=18)
    return styled(described(made.resolve_scale(y="independent"), "", description), scheme)
