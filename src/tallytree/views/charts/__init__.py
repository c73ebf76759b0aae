"""Charts by Altair from small tables: the tree as an icicle, bars with intervals, matrices, sizes, errors, maps.

They need the extra `report`. Rows are what a picture shows, at most some hundreds: what to show of a large release is
chosen by the floors above.
"""

from tallytree.views.charts.bars import bars, errors_by_level
from tallytree.views.charts.dots import hundred_dots
from tallytree.views.charts.drawing import html, one_drawing_process, require_charts, svg, svg_in_page
from tallytree.views.charts.icicle import LevelNodes, boxes, icicle
from tallytree.views.charts.lines import lines
from tallytree.views.charts.maps import choropleth, flow_map
from tallytree.views.charts.matrix import matrix
from tallytree.views.charts.pyramid import pyramid
from tallytree.views.charts.sizes import size_distribution
from tallytree.views.charts.theme import DARK, LIGHT, Scheme, config, contrast, css_variables, styled

__all__ = [
    "DARK", "LIGHT", "LevelNodes", "Scheme", "bars", "boxes", "choropleth", "config", "contrast", "css_variables",
    "errors_by_level", "flow_map", "html", "hundred_dots", "icicle", "lines", "matrix", "one_drawing_process",
    "pyramid", "require_charts", "size_distribution", "styled", "svg", "svg_in_page",
]  # fmt: skip
