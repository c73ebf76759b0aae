"""Charts by Altair from small tables: the tree as an icicle, bars with intervals, matrices, sizes, errors, maps.

They need the extra `report`. Rows are what a picture shows, at most some hundreds: what to show of a large release is
chosen by the floors above.
"""

from tallytree._charts.bars import bars, errors_by_level
from tallytree._charts.dots import hundred_dots
from tallytree._charts.drawing import html, one_drawing_process, require_charts, svg, svg_in_page
from tallytree._charts.icicle import LevelNodes, boxes, icicle
from tallytree._charts.maps import choropleth, flow_map
from tallytree._charts.matrix import matrix
from tallytree._charts.pyramid import pyramid
from tallytree._charts.sizes import size_distribution
from tallytree._charts.theme import DARK, LIGHT, Scheme, config, contrast, css_variables, styled

__all__ = [
    "DARK", "LIGHT", "LevelNodes", "Scheme", "bars", "boxes", "choropleth", "config", "contrast", "css_variables",
    "errors_by_level", "flow_map", "html", "hundred_dots", "icicle", "matrix", "one_drawing_process", "pyramid",
    "require_charts", "size_distribution", "styled", "svg", "svg_in_page",
]  # fmt: skip
