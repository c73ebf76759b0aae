"""Maps, where boundaries are given: areas colored by their numbers, and the largest flows between them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tallytree.views.boundaries import Boundaries
from tallytree.views.charts.basis import WHOLE, data, described, values
from tallytree.views.charts.matrix import edges_of, step_color, step_names
from tallytree.views.charts.theme import LIGHT, Scheme, styled

MOST_POINTS = 8_000
"""Points of all shapes together: about 150 kB of a drawing."""
MOST_FLOWS = 40


def choropleth(
    boundaries: Boundaries,
    numbers: Sequence[float],
    *,
    unit: str = "count",
    title: str = "",
    width: int = 420,
    height: int = 420,
    scheme: Scheme = LIGHT,
    description: str = "",
) -> Any:
    """Areas colored by their numbers; those without a shape are for the text beside it.

    Args:
        boundaries: of a level.
        numbers: one for each of its nodes, in node order.
        unit: what the numbers are.
        title: of the chart.
        width: in pixels.
        height: in pixels.
        scheme: the colors.
        description: the chart in words.
    """
    import altair as alt

    features = boundaries.simplified(MOST_POINTS).features()
    found = [float(numbers[feature["properties"]["node"]]) for feature in features]
    edges = edges_of(max(found, default=0.0), len(scheme.steps), min(found, default=0.0))
    names = step_names(edges)
    for feature, value in zip(features, found, strict=True):
        feature["properties"] |= {"value": value, "step": names[bisect_right(edges, value)]}
    areas = (
        alt.Chart(alt.Data(values=features))
        .mark_geoshape(stroke=scheme.line, strokeWidth=0.5)
        .encode(
            step_color("properties.step:N", edges, unit, width, scheme),
            tooltip=[
                alt.Tooltip("properties.label:N", title=boundaries.level),
                alt.Tooltip("properties.value:Q", title=unit, format=WHOLE),
            ],
        )
    )
    return styled(_finished(areas, width, height, title, description), scheme)


def flow_map(
    boundaries: Boundaries,
    flows: pa.Table | Iterable[Mapping[str, Any]],
    *,
    unit: str = "count",
    title: str = "",
    width: int = 420,
    height: int = 420,
    scheme: Scheme = LIGHT,
    description: str = "",
) -> Any:
    """The largest flows between areas as lines, the wider the larger; a dot is at the destination.

    Args:
        boundaries: of the level of both sides.
        flows: `origin` and `destination` (node numbers) and `value`. Flows within an area, and of one without a shape,
            are not drawn.
        unit: what the numbers are.
        title: of the chart.
        width: in pixels.
        height: in pixels.
        scheme: the colors.
        description: the chart in words.
    """
    import altair as alt

    places = boundaries.frame.geometry.representative_point()
    labels = boundaries.frame["label"].tolist()
    shown = {*boundaries.drawn["node"]}
    placed = [row for row in values(flows) if {row["origin"], row["destination"]} <= shown]
    between = [row for row in placed if row["origin"] != row["destination"] and row["value"] > 0]
    largest = sorted(between, key=lambda row: -row["value"])[:MOST_FLOWS]
    lines = [
        {
            "from": str(labels[row["origin"]]), "to": str(labels[row["destination"]]), "value": row["value"],
            "x": places.iloc[row["origin"]].x, "y": places.iloc[row["origin"]].y,
            "x2": places.iloc[row["destination"]].x, "y2": places.iloc[row["destination"]].y,
        }
        for row in reversed(largest)  # the largest on top
    ]  # fmt: skip
    ground = alt.Chart(alt.Data(values=boundaries.simplified(MOST_POINTS).features())).mark_geoshape(
        fill=scheme.surface, stroke=scheme.line, strokeWidth=0.5
    )
    tips = [
        alt.Tooltip("from:N", title="from"),
        alt.Tooltip("to:N", title="to"),
        alt.Tooltip("value:Q", title=unit, format=WHOLE),
    ]
    drawn = alt.Chart(data(lines))
    width_of = alt.StrokeWidth(
        "value:Q",
        title=unit,
        scale=alt.Scale(range=[0.8, 7]),
        legend=alt.Legend(
            orient="bottom", values=_few(largest), symbolType="stroke", symbolStrokeColor=scheme.accent, symbolSize=300
        ),
    )
    rules = drawn.mark_rule(color=scheme.accent, opacity=0.75, strokeCap="round").encode(
        alt.Longitude("x:Q"), alt.Latitude("y:Q"), alt.Longitude2("x2:Q"), alt.Latitude2("y2:Q"), width_of, tooltip=tips
    )
    dots = drawn.mark_circle(color=scheme.orange, size=28, opacity=1).encode(
        alt.Longitude("x2:Q"), alt.Latitude("y2:Q"), tooltip=tips
    )
    return styled(_finished(alt.layer(ground, rules, dots), width, height, title, description), scheme)


def _few(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """A few round numbers up to the largest, for a legend."""
    most = max((row["value"] for row in rows), default=1)
    return sorted({float(f"{most * part:.1g}") for part in (0.1, 0.4, 0.9)})


def _finished(chart: Any, width: int, height: int, title: str, description: str) -> Any:
    """With its size, its texts and the projection of maps, in which the shapes fill the picture."""
    made = chart.project(type="mercator").properties(width=width, height=height)
    return described(made, title, description)
