"""The page of a release as files: one `index.html`, or one with its data beside it, loaded when they are shown."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from tallytree.release.view.release_view import ReleaseView
from tallytree.views.boundaries import Boundaries
from tallytree.views.charts.theme import DARK, FONT, LIGHT, css_variables
from tallytree.views.explore.columns import Part, facts, labels_of, rows_of, totals_of_flows

ONE_FILE = 100_000
"""Rows and places up to which a page is one file."""
SCRIPTS = ("data.js", "draw.js", "charts.js", "views.js", "context.js", "main.js")
"""The script of the page, in the order of its parts."""
STYLES = ("explorer.css", "marks.css")
"""The style of the page; rules for narrow windows are in the last."""
MAP_WIDTH = 1_000
"""Of a map, in its own units."""
MOST_POINTS = 40_000
"""Of all shapes of a map."""


def write_page(
    view: ReleaseView, folder: Path, *, title: str, links: Mapping[str, str], boundaries: Mapping[str, Boundaries]
) -> None:
    """Write the page of a release into an empty folder.

    Up to `ONE_FILE` rows it is the file `index.html` alone. Of more it is `index.html`, `explorer.js`, `explorer.css`
    and the folder `data`, with a file for each table and each level of labels.

    Args:
        view: of the release.
        folder: exists, and is empty.
        title: of the page.
        links: pages that it links to: what readers see, and the address from this page.
        boundaries: by level, what maps are drawn from.

    Raises:
        OSError: the folder cannot be written to.
    """
    about = facts(view, title) | {"links": [*links.items()]}
    totals = list(totals_of_flows(view))
    about["tables"] += [{"title": "totals", "named": names, "totals": True} for names, _ in totals]
    about["maps"] = sorted(boundaries)
    parts = _parts(view, [part for _, part in totals], boundaries)
    size = sum(view.rows(table.level) for table in view.tables) + sum(sum(side["sizes"]) for side in about["sides"])
    if size <= ONE_FILE:
        page = _page(about, dict(parts), f"<style>{_style()}</style>", f"<script>{_script()}</script>", inline=True)
    else:
        (folder / "data").mkdir()
        for name, part in parts:
            text = f"tallytree_part({json.dumps(name)},JSON.parse({_quoted(_json(part))}))"
            (folder / "data" / f"{name}.js").write_text(text, encoding="utf-8")
        (folder / "explorer.css").write_text(_style(), encoding="utf-8")
        (folder / "explorer.js").write_text(_script(), encoding="utf-8")
        style, script = '<link rel="stylesheet" href="explorer.css">', '<script src="explorer.js"></script>'
        page = _page(about, None, style, script, inline=False)
    (folder / "index.html").write_text(page, encoding="utf-8")


def _parts(view: ReleaseView, totals: list[Part], boundaries: Mapping[str, Boundaries]) -> Iterator[tuple[str, Part]]:
    """What the page loads, by name, one after the other: tables are not held together."""
    for position, side in enumerate(view.sides):
        for named in range(1, len(side.columns) + 1):
            yield f"labels-{position}-{named}", labels_of(side, named)
    for number, table in enumerate(view.tables):
        yield f"table-{number}", rows_of(view, table)
    for number, part in enumerate(totals, len(view.tables)):
        yield f"table-{number}", part
    for level in sorted(boundaries):
        yield f"map-{level}", shapes_of(boundaries[level])


def _page(about: Part, parts: dict[str, Part] | None, style: str, script: str, *, inline: bool) -> str:
    policy = (
        f"default-src 'none'; img-src data:; style-src {_source(_style(), inline)}; "
        f"script-src {_source(_script(), inline)}; base-uri 'none'; form-action 'none'"
    )
    filled = {
        "POLICY": html.escape(policy),
        "TITLE": html.escape(about["title"]),
        "ICON": base64.b64encode(resources.files(__package__).joinpath("icon.svg").read_bytes()).decode(),
        "STYLE": style,
        "DATA": _json({"about": about, "parts": parts}),
        "SCRIPT": script,
    }
    page = _text("index.html")
    pieces = page.split("@@")  # odd pieces are names
    return "".join(filled[piece] if i % 2 else piece for i, piece in enumerate(pieces))


def _source(text: str, inline: bool) -> str:
    """What the policy of the page allows: an inline text by its hash, or files beside the page."""
    if not inline:
        return "'self' file:"
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(value: Any) -> str:
    """JSON that may stand in a script element: without `<`, so that no label ends the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _quoted(text: str) -> str:
    """A text without line breaks as JavaScript; browsers read JSON in a text faster than they read a script."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@cache
def _style() -> str:
    light, dark = (
        "".join(f"{name}:{color};" for name, color in css_variables(scheme).items()) for scheme in (LIGHT, DARK)
    )
    schemes = f":root{{{light}}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
    return f"{schemes}body{{font-family:{FONT}}}\n" + "".join(_text(name) for name in STYLES)


@cache
def _script() -> str:
    return "(()=>{'use strict';\n" + "\n".join(_text(name) for name in SCRIPTS) + "\n})()"


def _text(name: str) -> str:
    return resources.files(__package__).joinpath("page", name).read_text(encoding="utf-8")


def shapes_of(boundaries: Boundaries) -> dict[str, Any]:
    """The paths of areas, and the width and height of the picture that holds them.

    Longitudes and latitudes are scaled evenly, with a degree of longitude as wide as it is at the middle latitude.

    Returns:
        `width`, `height`, `node` (the number of each area in its level) and `path`, one for each area with a shape.
    """
    frame = boundaries.simplified(MOST_POINTS).frame
    west, south, east, north = (float(each) for each in frame.total_bounds)
    narrow = max(math.cos(math.radians((south + north) / 2)), 0.05)
    scale = MAP_WIDTH / max((east - west) * narrow, (north - south), 1e-9)

    def ring(points: Any) -> str:
        placed = (f"{(x - west) * narrow * scale:.1f},{(north - y) * scale:.1f}" for x, y, *_ in points)
        return "M" + "L".join(placed) + "Z"

    return {
        "width": round((east - west) * narrow * scale, 1),
        "height": round((north - south) * scale, 1),
        "node": [int(node) for node in frame["node"]],
        "path": ["".join(ring(points) for points in _rings(shape)) for shape in frame.geometry],
    }


def _rings(shape: Any) -> Iterator[Any]:
    """The points of every ring of an area; other parts of a mended shape (lines, points) have none."""
    if shape.geom_type == "Polygon":
        if not shape.is_empty:
            yield from (ring.coords for ring in (shape.exterior, *shape.interiors))
        return
    for part in getattr(shape, "geoms", ()):
        yield from _rings(part)
