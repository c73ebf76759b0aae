"""The figure of an experiment: what was measured, with error bars, beside what was published."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Literal

import pyarrow as pa

from tallytree.lab._internals import LIGHT, NUMBERS, Scheme, described, styled
from tallytree.lab._internals import chart_data as data
from tallytree.lab.reproduce.marks import colors, shapes
from tallytree.lab.reproduce.measured import AS_STATED

PUBLISHED = "published"
HOLLOW = ([5, 4], 0.0, 1.0, 170)
"""How what was published looks: its dashes, how opaque the insides and the outlines of its points are, their area.

Published points alone are hollow, and large, so that one of ours at the same place is seen within it.
"""
FILLED = (([1, 0], 1.0, 0.0, 60), ([2, 2], 0.45, 0.0, 60), ([8, 3], 0.7, 0.0, 110), ([1, 3], 0.3, 0.0, 110))
"""How ours look, variant by variant: filled, dark or light, and without an outline."""
PLAIN = f"format(datum.value, abs(datum.value) < 1 ? '~g' : '{NUMBERS}')"
"""Numbers of a vertical axis: 0.1 and not 100m."""
PANEL_WIDTH, PANEL_HEIGHT = 250, 210


@dataclass(frozen=True)
class Plot:
    """What a figure shows of the tidy table.

    Attributes:
        x: the column on the horizontal axis; `level` and `data` are in steps. With `"variant"` each mechanism and
            variant has a line of its own, and the quantity is on the horizontal axis.
        x_title: the title of that axis, with its unit.
        y_title: of the vertical axis, with its unit; empty: the quantity, panel by panel.
        log_x: whether the horizontal axis is logarithmic.
        y_scale: of the vertical axis. On a logarithmic one, what is not above 0 is left out; `"symlog"` is linear
            near 0 and logarithmic beyond.
        panels: columns whose values get a panel each.
        columns: how many panels are in a row.
        quantities: only these; empty: all.
        shared_y: whether all panels have the same vertical axis.
    """

    x: Literal["level", "epsilon", "x", "data", "variant"]
    x_title: str
    y_title: str = ""
    log_x: bool = False
    y_scale: Literal["log", "linear", "symlog"] = "log"
    panels: tuple[str, ...] = ("data",)
    columns: int = 3
    quantities: tuple[str, ...] = ()
    shared_y: bool = False


def drawn(table: pa.Table, plot: Plot, title: str, scheme: Scheme = LIGHT) -> Any:
    """The figure as an Altair chart: hollow points are published, filled ones ours; bars are intervals of means.

    Args:
        table: from `measured.tidy`.
        plot: what to show.
        title: of the figure.
        scheme: the colors.
    """
    import altair as alt

    rows = list(_points(table, plot))
    if plot.x == "variant" and len({row["mechanism"] for row in rows}) == 1:
        rows = [{**row, "place": row["place"].partition(", ")[2]} for row in rows]
    mechanisms = list(dict.fromkeys(row["mechanism"] for row in rows))
    sources = list(dict.fromkeys(row["source"] for row in rows))
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    lone = plot.x == "variant"  # the lines of the axis name the variants
    ours = sorted((source for source in sources if source != PUBLISHED), key=lambda source: source != AS_STATED)
    looks_of = dict(zip(ours, repeat(FILLED[0]) if lone else FILLED, strict=False))
    looks = [HOLLOW if source == PUBLISHED else looks_of[source] for source in sources]
    by_source = [alt.Scale(type="ordinal", domain=sources, range=list(each)) for each in zip(*looks, strict=True)]
    color = alt.Color(
        "mechanism:N", title=None, scale=alt.Scale(domain=mechanisms, range=colors(mechanisms, scheme)), sort=None
    )
    shape = alt.Shape("mechanism:N", title=None, scale=alt.Scale(domain=mechanisms, range=shapes(mechanisms)))
    insides = {0.0: "hollow", 1.0: "filled"}
    named = {
        source: f"{'ours' if lone and source in ours else source} ({insides.get(look[1], 'light')})"
        for source, look in zip(sources, looks, strict=True)
    }
    in_key = [source for source in sources if source == PUBLISHED or source == ours[0] or not lone]
    key = alt.Legend(
        symbolType="stroke", symbolSize=400, symbolStrokeWidth=1.5, symbolStrokeColor=scheme.muted,
        values=in_key, labelExpr=f"{json.dumps(named, ensure_ascii=False)}[datum.label]",
    )  # fmt: skip
    dash, inside, outline, area = (
        channel("source:N", title=None, scale=scale, legend=shown)
        for channel, scale, shown in zip(
            (alt.StrokeDash, alt.FillOpacity, alt.StrokeOpacity, alt.Size),
            by_source,
            (key, None, None, None),
            strict=True,
        )
    )
    x, y = _axes(plot, [row["place"] for row in rows])
    ends = {"x": "lower:Q", "x2": "upper:Q", "y": y} if lone else {"x": x, "y": "lower:Q", "y2": "upper:Q"}
    base = alt.Chart().encode(color=color, detail=["mechanism:N", "source:N"])
    lines = base.mark_line(strokeWidth=1.5).encode(x=x, y=y, strokeDash=dash)
    bars = base.mark_rule(strokeWidth=1.5).transform_filter("isValid(datum.lower)").encode(**ends)
    points = base.mark_point(strokeWidth=1.5, filled=True, opacity=1).encode(
        x=x, y=y, shape=shape, fillOpacity=inside, strokeOpacity=outline, size=area, fill=color,
        stroke=color,
    )  # fmt: skip
    ordered = plot.x not in ("data", "variant")  # what has no order has no lines
    drawings = [lines, bars, points] if ordered else [bars.encode(strokeDash=dash), points]
    layered = alt.layer(*drawings, data=data(rows)).properties(width=PANEL_WIDTH, height=PANEL_HEIGHT)
    facets = alt.Facet("panel:N", title=None, sort=panels, header=alt.Header(labelFontWeight="bold"))
    shown = layered.facet(facet=facets, columns=min(plot.columns, len(panels)))
    shown = shown.resolve_scale(x="independent", y="shared" if plot.shared_y else "independent")
    return styled(described(shown, title, words(table, plot, title)), scheme)


def words(table: pa.Table, plot: Plot, title: str) -> str:
    """The figure in words, for those who cannot see it."""
    mechanisms = ", ".join(dict.fromkeys(row["mechanism"] for row in _points(table, plot)))
    return f"{title}. {plot.x_title} across; {plot.y_title or 'each quantity'} upward; for {mechanisms}."


def _axes(plot: Plot, places: list[Any]) -> tuple[Any, Any]:
    import altair as alt

    if plot.x == "variant":
        upward = alt.Y(
            "place:N", title=None, sort=list(dict.fromkeys(places)), axis=alt.Axis(grid=True, labelLimit=300)
        )
        scale = alt.Scale(type=plot.y_scale, nice=False, padding=12)
        return alt.X("value:Q", title=plot.y_title, scale=scale, axis=alt.Axis(format=NUMBERS, tickCount=5)), upward
    steps = plot.x in ("level", "data")
    kind = "log" if plot.log_x else "linear"
    scale = alt.Undefined if steps else alt.Scale(type=kind, zero=False, nice=False, padding=8)
    order = None if plot.x == "data" else "ascending"  # rows of a level may begin below the root
    turned = alt.Axis(labelAngle=0, labelOverlap=True) if steps else alt.Axis(format=NUMBERS, tickCount=6)
    if plot.x == "epsilon":
        turned = alt.Axis(format="~g", values=sorted(set(places)), labelFlush=False)
    x = alt.X(f"place:{'O' if steps else 'Q'}", title=plot.x_title, axis=turned, scale=scale, sort=order)
    scale_y = alt.Scale(zero=True) if plot.y_scale == "linear" else alt.Scale(type=plot.y_scale, nice=False, padding=8)
    y = alt.Y("value:Q", title=plot.y_title or None, scale=scale_y, axis=alt.Axis(labelExpr=PLAIN, tickCount=5))
    return x, y


def _points(table: pa.Table, plot: Plot) -> Iterator[dict[str, Any]]:
    """One row for each point: what was published once, and what was measured."""
    seen = set()
    for row in table.to_pylist():
        if (plot.quantities and row["quantity"] not in plot.quantities) or row[plot.x] is None:
            continue
        shared = {
            "mechanism": row["mechanism"],
            "place": f"{row['mechanism']}, {row['variant']}" if plot.x == "variant" else row[plot.x],
            "panel": " · ".join(_named(name, row[name]) for name in plot.panels if row[name] is not None),
        }
        theirs = (*shared.values(), row["published"])
        if row["published"] is not None and theirs not in seen and _visible(row["published"], plot):
            seen.add(theirs)
            yield {**shared, "source": PUBLISHED, "value": row["published"], "lower": None, "upper": None}
        if row["mean"] is not None and _visible(row["mean"], plot):
            lower, upper = row["lower"], row["upper"]
            if lower is not None and lower <= 0:  # no quantity is below 0, which few runs do not show
                lower = row["mean"] if plot.y_scale == "log" else 0.0
            yield {**shared, "source": row["variant"], "value": row["mean"], "lower": lower, "upper": upper}


def _visible(value: float, plot: Plot) -> bool:
    return value > 0 or plot.y_scale != "log"


def _named(column: str, value: Any) -> str:
    """What the header of a panel says of a column."""
    symbols: dict[str, str] = {"epsilon": "ε = ", "level": "level "}
    return f"{symbols.get(column, '')}{value:g}" if isinstance(value, int | float) else str(value)
