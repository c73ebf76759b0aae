"""Charts as SVG, drawn by vl-convert, which needs neither a browser nor a network."""

from __future__ import annotations

import re
from typing import Any

from tallytree.charts.theme import LIGHT, css_variables
from tallytree.validate import require_packages

PACKAGES = {"altair": "altair", "vl_convert": "vl-convert-python", "jinja2": "jinja2"}
"""Modules of the extra `report`, and the packages that have them."""
SPOKEN = re.compile(r'\s(?:role|aria-label|aria-roledescription|aria-hidden|tabindex)="[^"]*"')


def svg(chart: Any) -> str:
    """A chart as SVG, in the colors of its scheme."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(chart.to_dict(format="vega-lite")))


def png(chart: Any) -> bytes:
    """A chart as PNG, twice as many pixels across as the SVG has."""
    import vl_convert

    return bytes(vl_convert.vegalite_to_png(chart.to_dict(format="vega-lite"), scale=2))


def svg_in_page(chart: Any, prefix: str = "chart") -> str:
    """A chart in the light scheme as SVG whose colors are variables of the page's style sheet.

    One drawing then serves a light and a dark page, and print. What a screen reader says is up to the element around
    it: the drawing's own hundreds of labels are dropped.

    Args:
        chart: in the light scheme.
        prefix: of the ids within the drawing, unique within the page.
    """
    drawn = svg(chart)
    names = {color: f"var({name})" for name, color in css_variables(LIGHT).items()}
    colored = re.sub(
        r'(fill|stroke|stop-color)="(#[0-9a-fA-F]{6})"',
        lambda found: f'{found[1]}="{names.get(found[2].lower(), found[2])}"',
        drawn,
    )
    named = re.sub(r'(\sid="|url\(#|href="#)', rf"\g<1>{prefix}-", colored)
    return SPOKEN.sub("", named)


def require_charts(argument: str, what: str) -> None:
    """Refuse to draw where the packages of the extra `report` are absent.

    Raises:
        ModuleNotFoundError: a package is not installed.
    """
    require_packages(argument, what, PACKAGES, "report")
