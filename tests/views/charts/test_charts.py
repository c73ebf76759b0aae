"""Charts draw what their rows hold, with labels of any kind."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from tallytree.views.charts import (
    LevelNodes,
    bars,
    boxes,
    drawing,
    errors_by_level,
    hundred_dots,
    icicle,
    matrix,
    one_drawing_process,
    pyramid,
    size_distribution,
    svg,
    svg_in_page,
)
from tallytree.views.charts.matrix import edges_of

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
    whole, rest = boxes(many).to_pylist()
    assert (rest["label"], rest["together"], rest["count"]) == ("200,000 small nodes", n, n)
    assert (rest["left"], rest["right"]) == (0.0, pytest.approx(1.0))
    assert whole["sureness"] == rest["sureness"] == "not stated"


def test_small_nodes_are_drawn_together_and_colored_as_most_of_them() -> None:
    counts = np.concatenate([[500.0], np.ones(300), [200.0]])
    std_dev = np.concatenate([[1.0], np.full(200, 5.0), np.full(100, 0.1), [5.0]])
    level = LevelNodes("leaf", np.zeros(302, np.int64), pa.array([str(i) for i in range(302)]), counts, std_dev)
    root = LevelNodes("all", np.empty(0, np.int64), pa.array(["all"]), np.array([1000]), np.array([0.0]))
    _, large, small, other = boxes([root, level]).to_pylist()
    assert [each["sureness"] for each in (large, small, other)] == ["within 2 %", "more than 20 %", "within 20 %"]
    assert (small["label"], small["count"], small["std_dev"]) == ("300 small nodes", 300.0, None)
    assert large["right"] == pytest.approx(small["left"])
    assert small["right"] == pytest.approx(other["left"])


@pytest.mark.slow
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


@pytest.mark.slow
def test_labels_are_text_in_a_drawing_whatever_is_in_them() -> None:
    rows = [{"label": label, "value": 5} for label in AWKWARD]
    drawing = svg(bars(rows))
    assert "<script" not in drawing
    assert "&lt;script&gt;" in drawing
    assert "a.b[0]" in texts(drawing)
    assert "it's &quot;quoted&quot; \\" in texts(drawing) or 'it\'s "quoted" \\' in texts(drawing)
    assert "<script" not in svg(matrix([{"row": one, "column": one, "value": 1} for one in AWKWARD]))


@pytest.mark.slow
def test_the_last_size_is_called_as_it_is_meant() -> None:
    rows = [{"size": size, "groups": 100 - size} for size in range(6)]
    assert "5+" in texts(svg(size_distribution(rows, last_label="5+")))
    wide = [{"size": size, "groups": 100} for size in range(200)]
    assert "199+" in texts(svg(size_distribution(wide, last_label="199+", log=True, cumulative=True)))


def test_the_cumulative_view_adds_up_from_the_largest_size() -> None:
    chart = size_distribution([{"size": 0, "groups": 4}, {"size": 2, "groups": 3}], cumulative=True).to_dict()
    found = [row["groups"] for row in chart["data"]["values"]]
    assert found == [7, 3]


def pyramid_rows(areas: list[str]) -> list[dict[str, Any]]:
    return [
        {"area": area, "step": step, "group": group, "value": 10 * place + side, "lower": 1, "upper": 90}
        for area in areas
        for place, step in enumerate(AWKWARD)
        for side, group in enumerate(AWKWARD[:2])
    ]


def test_a_pyramid_has_one_group_at_each_side_and_the_last_step_on_top() -> None:
    made = pyramid(pyramid_rows([""]), groups=AWKWARD[:2], order=AWKWARD).to_dict()
    shown = made["data"]["values"]
    assert [row["signed"] for row in shown if row["group"] == AWKWARD[0]] == [0, -10, -20, -30, -40]
    assert [row["signed"] for row in shown if row["group"] == AWKWARD[1]] == [1, 11, 21, 31, 41]
    assert {row["lower"] for row in shown if row["group"] == AWKWARD[0]} == {-1}
    assert next(row["at"] for row in shown if row["step"] == AWKWARD[-1]) == 0
    drawn = svg(pyramid(pyramid_rows([""]), groups=AWKWARD[:2], order=AWKWARD))
    assert "<script" not in drawn
    assert {"&lt;script&gt;alert(1)&lt;/script&gt;", "a.b[0]"} <= {*texts(drawn)}


def test_small_pyramids_have_the_names_of_their_areas() -> None:
    drawn = svg(
        pyramid(pyramid_rows(["a.b[0]", "North"]), groups=AWKWARD[:2], order=AWKWARD, areas=["North", "a.b[0]"])
    )
    assert {"North", "a.b[0]"} <= {*texts(drawn)}


def test_rows_of_small_pyramids_are_as_high_as_their_labels() -> None:
    made = pyramid(pyramid_rows(["North"]), groups=AWKWARD[:2], order=AWKWARD, areas=["North"]).to_dict()
    assert made["spec"]["height"] >= 16 * len(AWKWARD)


def test_labels_of_numbers_do_not_touch_where_a_chart_is_narrow() -> None:
    rows = [{"label": "a", "value": 3_700}]
    ticks = [each for each in texts(svg(bars(rows, width=230))) if each[:1].isdigit()]
    assert ticks == ["0", "1k", "2k", "3k", "4k"]


@pytest.mark.parametrize("width", [230, 640])
def test_a_hundred_dots_are_those_of_a_guess_those_of_an_attack_and_the_others(width: int) -> None:
    made = hundred_dots(5, 14, width=width).to_dict()
    kinds = [row["kind"] for row in made["data"]["values"]]
    assert sorted(map(kinds.count, {*kinds})) == [5, 9, 86]
    assert kinds[:5] == ["found by a blind guess too"] * 5


def test_colors_begin_at_round_numbers() -> None:
    assert edges_of(3, 6) == [1.0, 2.0, 3.0]
    assert edges_of(0, 6) == [1.0]
    edges = edges_of(123_456, 6)
    assert edges == sorted(set(edges))
    assert len(edges) <= 5
    assert edges[-1] < 123_456


@pytest.mark.needs("geopandas", "shapely")
def test_maps_have_a_step_for_each_area() -> None:
    import geopandas
    import shapely

    from tallytree.views.boundaries import Boundaries
    from tallytree.views.charts import choropleth, flow_map

    labels = ["<b>", "B", "C", "other"]
    squares = [*(shapely.box(place, 45, place + 1, 46) for place in range(3)), None]
    frame = geopandas.GeoDataFrame({"node": range(4), "label": labels}, geometry=squares, crs="EPSG:4326")
    shapes = Boundaries("town", frame, tt.Hierarchy.from_values("town", labels))
    areas = choropleth(shapes, [0, 5_000, 90, 1e9])  # the last one has no shape, and no part in the colors
    found = [feature["properties"] for feature in areas.to_dict()["data"]["values"]]
    assert [each["value"] for each in found] == [0, 5_000, 90]
    assert len({each["step"] for each in found}) == 3
    assert "<b>" not in svg(areas)
    flows = [{"origin": 0, "destination": 1, "value": 7}, {"origin": 1, "destination": 1, "value": 900}]
    flows.append({"origin": 1, "destination": 3, "value": 800})
    lines = flow_map(shapes, flows).to_dict()["layer"][1]["data"]["values"]
    assert [(each["from"], each["to"], each["value"]) for each in lines] == [("<b>", "B", 7)]  # none within an area


def test_a_crash_of_the_drawing_library_ends_its_process_alone(monkeypatch, tmp_path):
    crashing = tmp_path / "crashing.py"
    crashing.write_text("import os\nos.abort()\n")
    monkeypatch.setattr(drawing, "PROGRAM", crashing)
    with pytest.raises(ChildProcessError, match="charts ended with code -6 before"):
        svg(bars([{"label": "A", "value": 1}]))
    monkeypatch.undo()
    assert "A" in texts(svg(bars([{"label": "A", "value": 1}])))


@pytest.mark.slow
def test_charts_of_a_block_are_drawn_by_one_process(monkeypatch):
    started = []
    starting = drawing.subprocess.Popen
    monkeypatch.setattr(drawing.subprocess, "Popen", lambda *a, **k: started.append(starting(*a, **k)) or started[-1])
    with one_drawing_process():
        for label in AWKWARD[2:4]:
            svg(bars([{"label": label, "value": 1}]))
        assert len(started) == 1
        started[0].kill()
        with pytest.raises(ChildProcessError, match="code -9"):
            svg(bars([{"label": "A", "value": 1}]))
        svg(bars([{"label": "A", "value": 1}]))
    assert len(started) == 2
    assert all(each.poll() == -9 for each in started)


def test_a_chart_that_cannot_be_drawn_is_an_error_in_this_process():
    class Chart:
        def to_dict(self, **_):
            return {"mark": "no such mark"}

    with pytest.raises(RuntimeError, match="ValueError"):
        svg(Chart())
