"""The icicle of a tree: a row for each level, a box for each node, as wide as its share of what was counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.support.arrays import FloatArray, IntArray
from tallytree.views.charts.basis import WHOLE, data, described, values
from tallytree.views.charts.theme import LIGHT, Scheme, styled

NARROWEST = 0.002
"""Narrower boxes, as a share of the whole width, are drawn together."""
ROW = 46
TITLE = ("probable error,", "as a share of the number")
NARROW = 300
"""Pixels: on narrower pictures the legend's title has two lines."""
LETTER = 6.6
"""About how wide a letter is, in pixels."""
SURENESS = ("exact", "within 2 %", "within 20 %", "more than 20 %", "not stated")
"""Of how far a number probably is off, as a share of it."""


@dataclass(frozen=True)
class LevelNodes:
    """The nodes of a level, for an icicle.

    Attributes:
        name: of the level.
        parent: int64 (n,), their parents' places among the nodes of the level above; empty for the root.
        labels: (n,) texts.
        counts: (n,) published numbers.
        std_dev: float64 (n,), NaN where unknown; None where all are.
    """

    name: str
    parent: IntArray
    labels: pa.Array
    counts: FloatArray | IntArray
    std_dev: FloatArray | None = None


def boxes(levels: Sequence[LevelNodes], narrowest: float = NARROWEST) -> pa.Table:
    """Where each box lies; narrow ones that are side by side are one box, colored as most of them would be.

    A family shares its parent's width, as its counts are to each other. All nodes of a level are placed at once.

    Args:
        levels: root first.
        narrowest: the least width of a box, as a share of the whole.

    Returns:
        `depth`, `level`, `label`, `left`, `right` (0 … 1), `count`, `std_dev` (null where unknown, and of several
        nodes), `together` (how many nodes the box is of), `sureness` and `nodes`, how many nodes the level has.
    """
    found = []
    left, right = np.zeros(1), np.ones(1)
    for depth, level in enumerate(levels):
        counts = np.maximum(np.asarray(level.counts, dtype=np.float64), 0.0)
        if depth:
            left, right = _placed(level.parent, counts, left, right)
        found.append(_boxes_of_level(depth, level, left, right, narrowest))
    return pa.concat_tables(found)


def _boxes_of_level(depth: int, level: LevelNodes, left: FloatArray, right: FloatArray, narrowest: float) -> pa.Table:
    counts = np.asarray(level.counts, dtype=np.float64)
    errors = np.full(len(counts), np.nan) if level.std_dev is None else level.std_dev
    alone = right - left >= narrowest
    # A box begins at each node that is drawn alone, and at the first of each run of others.
    first = np.flatnonzero(alone | np.concatenate([[True], alone[:-1]]))
    last = np.append(first[1:], len(counts)) - 1
    together = last - first + 1
    sure = _sureness(counts, errors)
    of_box = np.repeat(np.arange(len(first)), together)
    votes = np.bincount(of_box * len(SURENESS) + sure, minlength=len(first) * len(SURENESS))
    most = votes.reshape(len(first), len(SURENESS)).argmax(axis=1)
    wide = np.flatnonzero((right[last] - left[first] >= narrowest) | alone[first])
    names = level.labels.take(pa.array(first[wide])).cast(pa.string()).to_pylist()
    numbers = together[wide].tolist()
    shown = [name if n == 1 else f"{n:,} small nodes" for name, n in zip(names, numbers, strict=True)]
    single = np.where(together == 1, errors[first], np.nan)
    return pa.table(
        {
            "depth": np.full(len(wide), depth),
            "level": pa.array([level.name] * len(wide), pa.string()),
            "label": pa.array(shown, pa.string()),
            "left": left[first][wide],
            "right": right[last][wide],
            "count": np.add.reduceat(counts, first)[wide],
            "std_dev": pa.array(single[wide], pa.float64(), from_pandas=True),
            "together": together[wide],
            "sureness": pa.array([SURENESS[each] for each in most[wide].tolist()], pa.string()),
            "nodes": np.full(len(wide), len(counts)),
        }
    )


def _placed(parent: IntArray, counts: FloatArray, left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Where the nodes of a level lie below their parents: two float64 (n,). Families are consecutive."""
    sums = np.bincount(parent, weights=counts, minlength=len(left))
    shares = np.divide(counts, sums[parent], out=np.zeros_like(counts), where=sums[parent] > 0)
    ends = np.cumsum(shares)
    first = np.searchsorted(parent, np.arange(len(left)))  # families are in the order of their parents
    before = np.concatenate([[0.0], ends])[first][parent]
    width = (right - left)[parent]
    begin = left[parent] + width * np.clip(ends - shares - before, 0.0, 1.0)
    return begin, left[parent] + width * np.clip(ends - before, 0.0, 1.0)


def icicle(
    rows: pa.Table | Iterable[Mapping[str, Any]],
    *,
    title: str = "",
    width: int = 720,
    scheme: Scheme = LIGHT,
    description: str = "",
) -> Any:
    """The boxes of a tree, colored by how far their numbers are off.

    Args:
        rows: as `boxes` gives them.
        title: of the chart.
        width: in pixels.
        scheme: the colors.
        description: the chart in words.
    """
    import altair as alt

    listed = [_drawn(row, width) for row in values(rows)]
    depth = max((row["depth"] for row in listed), default=0) + 1
    levels = {row["depth"]: f"{row['level']} ({row['nodes']:,})" for row in listed}
    colors = [scheme.step_1, scheme.sure, scheme.unsure, scheme.vague, scheme.surface]
    used = {row["sureness"] for row in listed}
    shown = [each for each in SURENESS if each in used]
    base = alt.Chart(data(listed))
    box = base.mark_rect(stroke=scheme.line, strokeWidth=0.6).encode(
        alt.X("left:Q", axis=None, scale=alt.Scale(domain=[0, 1], nice=False)),
        alt.X2("right:Q"),
        alt.Y("top:Q", axis=None, scale=alt.Scale(domain=[0, depth], reverse=True, nice=False)),
        alt.Y2("bottom:Q"),
        alt.Color(
            "sureness:N",
            title=[*TITLE] if width < NARROW else " ".join(TITLE),
            sort=shown,
            scale=alt.Scale(domain=shown, range=[colors[SURENESS.index(each)] for each in shown]),
            legend=alt.Legend(orient="bottom", columns=2 if width < 500 else 4, symbolType="square"),
        ),
        tooltip=[
            alt.Tooltip("level:N"),
            alt.Tooltip("label:N", title="node"),
            alt.Tooltip("count:Q", format=WHOLE),
            alt.Tooltip("std_dev:Q", format=",.3~r"),
        ],
    )
    names, numbers = (
        base.transform_filter(f"datum.{field} != ''")
        .mark_text(align="left", baseline="middle", dx=5, dy=shift, fontSize=size, color=scheme.text)
        .encode(alt.X("left:Q"), alt.Y("middle:Q"), alt.Text(f"{field}:N"))
        for field, shift, size in (("shown", -8, 12), ("number", 8, 11))
    )
    captions = _captions(levels, scheme)
    made = alt.layer(box, names, numbers, captions).properties(width=width, height=ROW * depth)
    return styled(described(made, title, description), scheme)


def _captions(levels: Mapping[int, str], scheme: Scheme) -> Any:
    """The names of the levels, at the left of their rows."""
    import altair as alt

    return (
        alt.Chart(data([{"middle": at + 0.5, "caption": text} for at, text in levels.items()]))
        .mark_text(align="right", baseline="middle", dx=-8, fontSize=12, limit=110, color=scheme.muted)
        .encode(alt.XValue(0), alt.Y("middle:Q"), alt.Text("caption:N"))
    )


def _drawn(row: dict[str, Any], width: int) -> dict[str, Any]:
    """A box with its text, as far as that fits into it."""
    pixels = (row["right"] - row["left"]) * width - 8
    letters = int(pixels / LETTER)
    label, number = str(row["label"]), f"{row['count']:,.0f}"
    fits = len(label) <= letters or letters >= 7
    named = (label if len(label) <= letters else label[: letters - 1] + "…") if fits else ""
    return {
        **row,
        "top": row["depth"],
        "bottom": row["depth"] + 1,
        "middle": row["depth"] + 0.5,
        "shown": named,
        "number": number if named and len(number) <= letters else "",
    }


def _sureness(counts: FloatArray, std_dev: FloatArray) -> IntArray:
    """How large 1.64 standard deviations, which nine errors in ten stay within, are beside each number.

    Returns:
        Places in `SURENESS`: int64 (n,).
    """
    reach = 1.645 * std_dev
    found = np.select(
        [np.isnan(std_dev), std_dev == 0, reach <= 0.02 * counts, reach <= 0.2 * counts], [4, 0, 1, 2], default=3
    )
    return found.astype(np.int64)
