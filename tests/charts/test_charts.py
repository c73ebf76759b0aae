"""Charts draw what their rows hold, with labels of any kind."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tallytree.charts import (
    LevelNodes,
    bars,
    boxes,
    errors_by_level,
    icicle,
    matrix,
    size_distribution,
    svg,
    svg_in_page,
)
from tallytree.charts.matrix import edges_of

pytestmark = pytest.mark.needs("altair", "vl_convert")
AWKWARD = ["<script>alert(1)</script>", 'it\'s "quoted" \\', "בְּרֵאשִׁית", "a.b[0]", "x" * 300]


def texts(drawing: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", drawing)


def levels() -> list[LevelNodes]:
    none, two = np.empty(0, np.int64), np.array([0, 0])
    return [
        LevelNodes("all", none, pa.array(["all"]), np.array([100]), np.array([0.0])),
        LevelNodes("state", two, pa.array(["A", "B"]), np.array([75, 25]), np.array([1.0, 5.0])),
        LevelNodes("county", np.array([0, 0, 1]), pa.array(["x", "y", "z"]), np.array([75, 0, 25]), None),
    ]


def test_boxes_share_their_parents_width_as_their_counts_are() -> None:
    made = boxes(levels()).to_pylist()
    assert [(row["label"], row["left"], row["right"]) for row in made] == [
        ("all", 0.0, 1.0), ("A", 0.0, 0.75), ("B", 0.75, 1.0), ("x", 0.0, 0.75), ("z", 0.75, 1.0),
    ]  # fmt: skip
    assert [row["nodes"] for row in made] == [1, 2, 2, 3, 3]
    assert made[-1]["std_dev"] is None


def test_boxes_of_many_nodes_are_few() -> None:
    n = 200_000
    many = [
        LevelNodes("all", np.empty(0, np.int64), pa.array(["all"]), np.array([n])),
        LevelNodes("leaf", np.zeros(n, np.int64), pa.array([str(i) for i in range(n)]), np.ones(n, np.int64)),
    ]
    assert boxes(many).num_rows == 1


@pytest.mark.parametrize(
    "draw",
    [
        lambda: icicle(boxes(levels())),
        lambda: bars([{"label": "A", "value": 3, "lower": 1, "upper": 5}, {"label": "A", "value": 2}]),
        lambda: errors_by_level([{"level": "all", "least": 0.0, "median": 1.0, "most": 2.0}]),
        lambda: size_distribution([{"size": 0, "groups": 4}, {"size": 1, "groups": 2}]),
        lambda: matrix([{"row": "A", "column": "B", "value": 3}]),
    ],
    ids=["icicle", "bars", "errors", "sizes", "matrix"],
)
def test_a_chart_is_drawn_with_the_colors_of_the_page(draw: Callable[[], Any]) -> None:
    drawing = svg_in_page(draw())
    assert drawing.startswith("<svg")
    assert "var(--tt-" in drawing
    assert "aria-label" not in drawing
    assert not re.search(r'(fill|stroke)="#[0-9a-f]{6}"', drawing)


def test_labels_are_text_in_a_drawing_whatever_is_in_them() -> None:
    rows = [{"label": label, "value": 5} for label in AWKWARD]
    drawing = svg(bars(rows))
    assert "<script" not in drawing
    assert "&lt;script&gt;" in drawing
    assert "a.b[0]" in texts(drawing)
    assert "it's &quot;quoted&quot; \\" in texts(drawing) or 'it\'s "quoted" \\' in texts(drawing)
    assert "<script" not in svg(matrix([{"row": one, "column": one, "value": 1} for one in AWKWARD]))


def test_the_last_size_is_called_as_it_is_meant() -> None:
    rows = [{"size": size, "groups": 100 - size} for size in range(6)]
    assert "5+" in texts(svg(size_distribution(rows, last_label="5+")))
    wide = [{"size": size, "groups": 100} for size in range(200)]
    assert "199+" in texts(svg(size_distribution(wide, last_label="199+", log=True, cumulative=True)))


def test_the_cumulative_view_adds_up_from_the_largest_size() -> None:
    chart = size_distribution([{"size": 0, "groups": 4}, {"size": 2, "groups": 3}], cumulative=True).to_dict()
    found = [row["groups"] for row in chart["data"]["values"]]
    assert found == [7, 3]


def test_colors_begin_at_round_numbers() -> None:
    assert edges_of(3, 6) == [1.0, 2.0, 3.0]
    assert edges_of(0, 6) == [1.0]
    edges = edges_of(123_456, 6)
    assert edges == sorted(set(edges))
    assert len(edges) <= 5
    assert edges[-1] < 123_456
