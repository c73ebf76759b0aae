"""The distribution of group sizes of a node: groups by size, with an error band, or cumulative."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.views.charts.basis import NUMBERS, WHOLE, data, described, values
from tallytree.views.charts.theme import LIGHT, Scheme, styled

MOST_BARS = 60
"""With more sizes than this, a line is drawn in place of bars."""
MOST_POINTS = 400
"""Of the line of groups of a size or more; with more sizes it is drawn through some of them."""


def size_distribution(
    rows: pa.Table | Iterable[Mapping[str, Any]],
    *,
    title: str = "",
    log: bool = False,
    cumulative: bool = False,
    last_label: str = "",
    unit: str = "groups",
    one: str = "group",
    width: int = 420,
    height: int = 240,
    scheme: Scheme = LIGHT,
    description: str = "",
) -> Any:
    """Groups by size, or groups of so many members or more.

    Args:
        rows: `size`, `groups`; `lower` and `upper` where known. Sizes ascend. For the cumulative view the numbers of
            groups of that size or more are in `tail`, with `tail_lower` and `tail_upper` where known; where `tail` is
            absent it is added up from `groups`.
        title: of the chart.
        log: a logarithmic axis of sizes; size 0 is then left out.
        cumulative: show the numbers of groups of that size or more, which have no gaps.
        last_label: what the last size is called, such as "50+", where it also has the larger groups.
        unit: what groups are called.
        one: what a group is called.
        width: in pixels.
        height: in pixels.
        scheme: the colors.
        description: the chart in words.
    """
    import altair as alt

    listed = values(rows)
    if cumulative:
        listed = spread(tails(listed), MOST_POINTS)
    if log:
        listed = [row for row in listed if row["size"] > 0]
    listed = [{"lower": None, "upper": None, **row} for row in listed]
    as_bars = len(listed) <= MOST_BARS and not cumulative and not log
    x = _size_axis(listed, last_label, f"size of the {one}", as_bars=as_bars, log=log)
    what = f"{unit} of that size or more" if cumulative else unit
    y = alt.Y("groups:Q", title=what, axis=alt.Axis(format=NUMBERS, tickCount=5))
    base = alt.Chart(data(listed))
    tips = [alt.Tooltip("size:Q", format=WHOLE), alt.Tooltip("groups:Q", title=what, format=WHOLE)]
    known = base.transform_filter("isValid(datum.lower)")
    if as_bars:
        layers = [
            base.mark_bar(color=scheme.accent).encode(x, y, tooltip=tips),
            known.mark_rule(color=scheme.interval, strokeWidth=1.5).encode(x, alt.Y("lower:Q"), alt.Y2("upper:Q")),
        ]
    else:
        mark = {"color": scheme.accent, "interpolate": "step-after"} if cumulative else {"color": scheme.accent}
        band = known.mark_area(color=scheme.step_3, interpolate=mark.get("interpolate", "linear"))
        layers = [
            band.encode(x, alt.Y("lower:Q", title=what), alt.Y2("upper:Q")),
            base.mark_line(**mark).encode(x, y, tooltip=tips),
        ]
    made = alt.layer(*layers).properties(width=width, height=height)
    return styled(described(made, title, description), scheme)


def _size_axis(rows: list[dict[str, Any]], last_label: str, title: str, *, as_bars: bool, log: bool) -> Any:
    """The axis of sizes, on which the last size is called `last_label`, if that is given."""
    import altair as alt

    axis = alt.Axis(format=",d", labelOverlap=True, grid=False)
    if last_label and rows:
        axis.labelExpr = f"datum.value == {int(rows[-1]['size'])} ? {_quoted(last_label)} : datum.label"
        if not as_bars:
            last = int(rows[-1]["size"])
            axis.values = [*_ticks(int(rows[0]["size"]), last, log), last]
    kind = "O" if as_bars else "Q"
    scale = {"scale": alt.Scale(type="log", nice=False)} if log else {"scale": alt.Scale(zero=False, nice=False)}
    if as_bars:
        axis.labelAngle = 0
    return alt.X(f"size:{kind}", title=title, axis=axis, **({} if as_bars else scale))


def tails(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The numbers of groups of each size or more, as `groups`, `lower`, `upper`."""
    if all(row.get("tail") is not None for row in rows):
        ends = ("tail_lower", "tail_upper")
        return [
            {"size": row["size"], "groups": row["tail"], "lower": row.get(ends[0]), "upper": row.get(ends[1])}
            for row in rows
        ]
    found, total = [], 0
    for row in reversed(rows):
        total += row["groups"]
        found.append({"size": row["size"], "groups": total})
    return found[::-1]


def spread(rows: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """Some rows, spread over all of them evenly on a logarithmic scale, the first and the last among them."""
    if len(rows) <= most:
        return rows
    places = np.unique(np.round(np.geomspace(1, len(rows), most)).astype(int) - 1)
    return [rows[int(place)] for place in places]


def _ticks(first: int, last: int, log: bool) -> list[int]:
    """Round sizes below the last one, far enough from it that the labels do not meet."""
    if log:
        powers = [10**power * part for power in range(10) for part in (1, 2, 5)]
        return [size for size in powers if first <= size < last / 2]
    step = max((last - first) // 5, 1)
    size = 10 ** (len(str(step)) - 1)
    step = next(part * size for part in (1, 2, 5, 10) if part * size >= step)
    return [place for place in range(first - first % step, last, step) if first <= place <= last - step]


def _quoted(text: str) -> str:
    import json

    return json.dumps(text)
