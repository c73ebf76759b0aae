"""A scatter of lines and points as SVG, with a logarithmic vertical axis; plain text, so that it can be reviewed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 460, 330, 52, 12, 30, 44
COLOURS = ("#1b6ca8", "#c8553d", "#444444", "#2e7d32")
TICKS = (0.3, 0.5, 1, 2, 5, 10, 20, 50, 100)

Series = Mapping[str, Sequence[tuple[float, float, str]]]
"""By name, points (x in percent, y > 0, label); several points are joined by a line."""


def panels(titles: Mapping[str, Series], x: str, y: str) -> str:
    """One plot beside the other."""
    plots = (_plot(title, series, x, y) for title, series in titles.items())
    drawn = [f'<g transform="translate({i * WIDTH},0)">{plot}</g>' for i, plot in enumerate(plots)]
    size = f'viewBox="0 0 {WIDTH * len(titles)} {HEIGHT}"'
    style = "<style>text{font:11px sans-serif}.title{font-size:13px;font-weight:bold}</style>"
    back = '<rect width="100%" height="100%" fill="white"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{style}{back}{"".join(drawn)}</svg>\n'


def _plot(title: str, series: Series, x: str, y: str) -> str:
    values = [point[1] for points in series.values() for point in points]
    low, high = math.log10(min(values)) - 0.08, math.log10(max(values)) + 0.08

    def at(percent: float, value: float) -> tuple[float, float]:
        across = LEFT + (WIDTH - LEFT - RIGHT) * percent / 100
        return round(across, 1), round(
            HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (math.log10(value) - low) / (high - low), 1
        )

    parts = [f'<text class="title" x="{LEFT}" y="18">{title}</text>']
    for percent in range(0, 101, 20):
        across, down = at(percent, 10**low)
        parts.append(f'<line x1="{across}" y1="{TOP}" x2="{across}" y2="{down}" stroke="#ddd"/>')
        parts.append(f'<text x="{across}" y="{down + 16}" text-anchor="middle">{percent}</text>')
    for tick in (t for t in TICKS if low <= math.log10(t) <= high):
        across, down = at(0, tick)
        parts.append(f'<line x1="{across}" y1="{down}" x2="{WIDTH - RIGHT}" y2="{down}" stroke="#ddd"/>')
        parts.append(f'<text x="{across - 6}" y="{down + 4}" text-anchor="end">{tick:g}</text>')
    for colour, (name, points) in zip(COLOURS, series.items(), strict=False):
        places = [at(percent, value) for percent, value, _ in points]
        line = " ".join(f"{a},{b}" for a, b in places)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        for (a, b), (percent, _, label) in zip(places, points, strict=True):
            parts.append(f'<circle cx="{a}" cy="{b}" r="3" fill="{colour}"/>')
            anchor = "end" if len(label) > 5 and percent > 60 else "start" if len(label) > 5 else "middle"
            parts.append(f'<text x="{a}" y="{b - 7}" text-anchor="{anchor}" fill="{colour}">{label}</text>')
        a, b = places[-1]
        if len(points) > 1:
            parts.append(f'<text x="{a - 8}" y="{b + 4}" text-anchor="end" fill="{colour}">{name}, κ =</text>')
    parts.append(f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{x}</text>')
    parts.append(f'<text transform="translate(14,{HEIGHT / 2}) rotate(-90)" text-anchor="middle">{y}</text>')
    return "".join(parts)
