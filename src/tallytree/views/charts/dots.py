"""A risk as 100 dots: how many of 100 cases an attacker finds out, and how many a guess finds out."""

from __future__ import annotations

from typing import Any

from tallytree.views.charts.basis import data, described
from tallytree.views.charts.theme import LIGHT, Scheme, styled

DOTS = 100
WIDE_ROWS, NARROW_ROWS = 4, 10
NARROW_FROM = 400
"""Pixels: dots lie in ten rows where the picture is narrower."""


def hundred_dots(
    by_guess: int, by_attack: int, *, title: str = "", width: int = 420, scheme: Scheme = LIGHT, description: str = ""
) -> Any:
    """100 dots, of which some are found by a guess, and more by an attack.

    Args:
        by_guess: how many a blind guess finds.
        by_attack: how many an attacker finds at most, those by a guess among them.
        title: of the chart.
        width: in pixels.
        scheme: the colors.
        description: the chart in words.
    """
    import altair as alt

    names = ["found by a blind guess too", "found with this release, at most", "not found"]
    rows = NARROW_ROWS if width < NARROW_FROM else WIDE_ROWS
    listed = [
        {"column": place // rows, "row": place % rows, "kind": names[(place >= by_guess) + (place >= by_attack)]}
        for place in range(DOTS)
    ]
    columns = DOTS // rows
    side = min(width / columns, 26)
    color = alt.Color(
        "kind:N",
        title=None,
        sort=names,
        scale=alt.Scale(domain=names, range=[scheme.muted, scheme.orange, scheme.step_2]),
        legend=alt.Legend(
            orient="bottom",
            symbolType="circle",
            columns=1 if width < NARROW_FROM else 3,
            labelLimit=320,
            columnPadding=48,  # a reader's font may be wider than the one that labels were measured with
        ),
    )
    made = (
        alt.Chart(data(listed))
        .mark_circle(size=(side * 0.72) ** 2, opacity=1)
        .encode(
            alt.X("column:Q", axis=None, scale=alt.Scale(domain=[-0.5, columns - 0.5], nice=False)),
            alt.Y("row:Q", axis=None, scale=alt.Scale(domain=[-0.5, rows - 0.5], reverse=True, nice=False)),
            color,
        )
        .properties(width=side * columns, height=side * rows)
    )
    return styled(described(made, title, description), scheme)
