"""The shapes of a level's areas as paths of SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tallytree.views.boundaries import Boundaries

WIDTH = 1_000
"""Of the picture, in its own units."""
MOST_POINTS = 40_000


def shapes_of(boundaries: Boundaries) -> dict[str, Any]:
    """The paths of areas, and the width and height of the picture that holds them.

    Longitudes and latitudes are scaled evenly, with a degree of longitude as wide as it is at the middle latitude.

    Returns:
        `width`, `height`, `node` (the number of each area in its level) and `path`, one for each area with a shape.
    """
    frame = boundaries.simplified(MOST_POINTS).frame
    west, south, east, north = (float(each) for each in frame.total_bounds)
    narrow = max(math.cos(math.radians((south + north) / 2)), 0.05)
    scale = WIDTH / max((east - west) * narrow, (north - south), 1e-9)

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
