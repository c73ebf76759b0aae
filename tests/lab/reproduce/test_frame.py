"""The frame of the experiments: the tidy table, the published figures, the figure, the page and the files."""

import dataclasses
import json
import math
import re

import pyarrow as pa
import pyarrow.csv
import pytest

from helpers.inside import DARK, LIGHT, svg
from tallytree.lab.reproduce import EXPERIMENTS, Experiment, Found, Settings, reproduce, running
from tallytree.lab.reproduce.catalogue import experiment_named
from tallytree.lab.reproduce.figure import PUBLISHED, Plot, drawn
from tallytree.lab.reproduce.marks import EXACT, MARKS, colors, shapes
from tallytree.lab.reproduce.measured import AS_RUN, NOT_RUN, SCHEMA, MeasuredRows, tidy
from tallytree.lab.reproduce.page import MOST_ROWS, cells_of, command, page, shown
from tallytree.lab.reproduce.published import FOLDER, PAPERS, published

charts = pytest.mark.needs("altair", "vl_convert", "jinja2")
ERROR = "error (members)"


def found(settings):
    values = [100.0 + settings.seed, 110.0, 120.0][: settings.n_runs(small=2, full=3)]
    return Found(
        [
            MeasuredRows("taxi", "Hc", ERROR, values, epsilon=1.0, level=0),
            MeasuredRows("taxi", "Hg", ERROR, [0.0] * len(values), AS_RUN, 1.0, 0),
        ],
        Plot("level", "level", ERROR),
        ["A note."],
    )


@pytest.fixture
def made_up(monkeypatch):
    """An experiment of two figures, one of them published as 110."""
    experiment = Experiment("made-up", "kuo", "nothing", "none", found, 1, 1, "Table 9")
    monkeypatch.setattr(running, "experiment_named", lambda name: experiment)
    monkeypatch.setattr(running, "published", lambda name: {("taxi", "Hc", ERROR, 1.0, 0, None): 110.0})
    return experiment


def test_a_mean_has_students_interval_and_its_ratio_to_what_was_published():
    one = MeasuredRows("d", "Hc", ERROR, [11, 12, 13], epsilon=0.5, level=1)
    (row,) = tidy("name", [one], {one.key: 24.0}).to_pylist()
    assert row["mean"] == 12
    assert row["standard_error"] == pytest.approx(1 / math.sqrt(3))
    assert row["upper"] - row["mean"] == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)  # t at 0.975, 2 degrees
    assert row["mean"] - row["lower"] == pytest.approx(row["upper"] - row["mean"])
    assert (row["ratio"], row["ratio_upper"]) == (0.5, row["upper"] / 24)


def test_the_interval_of_what_is_never_negative_begins_at_0_or_above():
    times, differences = MeasuredRows("d", "Hc", ERROR, [0.1, 9.0]), MeasuredRows("d", "Hg", ERROR, [-0.1, 9.0])
    assert [row["lower"] for row in tidy("name", [times], {}).to_pylist()] == [0]
    assert [row["lower"] < 0 for row in tidy("name", [differences], {}).to_pylist()] == [True]


@pytest.mark.parametrize("theirs", [None, 0.0])
def test_there_is_no_ratio_to_nothing(theirs):
    one = MeasuredRows("d", "Hc", ERROR, [1])
    (row,) = tidy("name", [one], {} if theirs is None else {one.key: theirs}).to_pylist()
    assert (row["published"], row["ratio"], row["standard_error"], row["lower"]) == (theirs, None, None, None)


PICTURES = {
    "kuo-figure-error-by-size", "kuo-figure-merging", "kuo-figure-mixes", "kuo-figure-three-levels",
    "fioretto-figure7", "fioretto-figure8", "inftda-theorem4",
}  # fmt: skip
"""Of these the papers and their repositories have no numbers."""


def test_an_experiment_has_published_figures_where_the_paper_has_numbers_and_says_where():
    for experiment in EXPERIMENTS:
        figures = published(experiment.name)
        assert bool(figures) == bool(experiment.published_in) == (experiment.name not in PICTURES), experiment.name
        assert {mechanism for _, mechanism, *_ in figures} <= set(MARKS) | {EXACT}, experiment.name
        assert all(math.isfinite(value) for value in figures.values())
    assert {file.stem for file in FOLDER.iterdir()} == {one.name for one in EXPERIMENTS} - PICTURES


def test_published_figures_are_the_papers():
    distance = "earth mover's distance (members)"
    assert published("kuo-table4")["taxi", "Hc matched", distance, 1.0, 2, None] == 1601.8
    assert published("fioretto-table7")["census", "TopDown", "L1 error (groups)", 0.5, 2, None] == 228_400
    assert published("inftda-figure3")["Italy", "SH", "largest error (trips)", 1.0, 6, None] == 36.6


def test_a_figure_of_one_experiment_is_not_published_for_another_with_the_same_key():
    """Table 4 has ε = 1 in all; the talk's figures have ε = 1 for each level, and no numbers."""
    key = "taxi", "Hc matched", "earth mover's distance (members)", 1.0, 0, None
    one = MeasuredRows(*key[:3], [1.0], "as stated", *key[3:])
    assert tidy("kuo-table4", [one], published("kuo-table4"))["published"][0].as_py() == 10_547
    assert tidy("kuo-figure-merging", [one], published("kuo-figure-merging"))["published"][0].as_py() is None


def test_what_was_published_and_not_measured_is_a_row_without_a_mean():
    measured = MeasuredRows("d", "Hc", ERROR, [1, 3], epsilon=1.0, level=0)
    figures = {measured.key: 4.0, ("d", "Hg", ERROR, 1.0, 0, None): 5.0, ("d", "Hg", ERROR, 2.0, 0, None): 6.0}
    rows = tidy("n", [measured], figures, "Table 9").to_pylist()
    assert [(row["mechanism"], row["variant"], row["runs"], row["mean"], row["published"]) for row in rows] == [
        ("Hc", "as stated", 2, 2.0, 4.0),
        ("Hg", NOT_RUN, 0, None, 5.0),  # not that of ε = 2, which nothing was measured at
    ]
    assert {row["published_in"] for row in rows} == {"Table 9"}
    assert cells_of(rows)[1][1] == ["Hg", NOT_RUN, "5", NOT_RUN, "", ""]


def test_published_figures_are_those_of_the_references(shared_data):
    reference = pyarrow.csv.read_csv(shared_data.parent / "reference" / "inftda_published.csv").to_pylist()
    figures = {name: published(f"inftda-figure{name}") for name in (3, 4, 5)}
    names = {"InfTDA": "InfTDA", "StabilityHistogram": "SH", "LeafGaussian": "VanillaGauss",
             "TopDown-chebyshev-blackbox": "TDA, black box", "TopDown-euclidean": "TDA, Euclidean"}  # fmt: skip
    for row in reference:
        about = row["dataset"], names[row["mechanism"]]
        italy, sparse = row["dataset"] == "Italy", row["dataset"].endswith("sparse")
        for column, quantity, number in (
            ("max_abs_error_mean", "largest error (trips)", 3 if italy else 4),
            ("mean_abs_error", "mean error (trips)", 3 if italy else None),
            ("false_discovery_pct", "false discoveries (%)", 3 if italy else 5 if sparse else None),
        ):
            if number is not None:
                assert figures[number].get((*about, quantity, row["epsilon"], row["level"], None)) == row[column]
    assert len(reference) == 1254


def test_a_mechanism_has_one_color_and_shape_that_no_other_has():
    assert len(set(MARKS.values())) == len(MARKS)
    for scheme in (LIGHT, DARK):
        assert all(color.startswith("#") for color in colors([*MARKS, EXACT], scheme))
    assert len(shapes([*MARKS, EXACT])) == len(MARKS) + 1


@charts
def test_a_figure_shows_what_was_published_once_and_leaves_out_what_a_logarithm_cannot_show():
    ours = [MeasuredRows("d", "Hc", ERROR, [2, 4], variant, 1.0, level) for level in (0, 1) for variant in ("a", "b")]
    ours.append(MeasuredRows("d", "Hg", ERROR, [0.0], level=0))
    table = tidy("name", ours, {one.key: 3.0 for one in ours})
    points = drawn(table, Plot("level", "level", ERROR), "t").to_dict()["data"]["values"]
    assert [point["source"] for point in points if point["mechanism"] == "Hc"].count(PUBLISHED) == 2
    assert [point["source"] for point in points if point["mechanism"] == "Hg"] == [PUBLISHED]
    linear = drawn(table, Plot("level", "level", ERROR, y_scale="linear"), "t").to_dict()["data"]["values"]
    assert len(linear) == len(points) + 1


@charts
def test_an_interval_below_0_ends_at_the_mean_where_the_axis_is_logarithmic():
    table = tidy("name", [MeasuredRows("d", "Hc", ERROR, [1, 9], level=0)], {})
    (point,) = drawn(table, Plot("level", "level", ERROR), "t").to_dict()["data"]["values"]
    assert point["lower"] == 5
    assert point["upper"] > 5


@charts
def test_published_points_alone_are_hollow_and_variants_differ():
    """Also where no variant has one of the names of the two readings."""
    ours = [MeasuredRows("d", "Hc", ERROR, [2], variant, 1.0, level) for level in (0, 1) for variant in "abcd"]
    drawing = drawn(tidy("name", ours, {one.key: 3.0 for one in ours}), Plot("level", "level", ERROR), "t").to_dict()
    (points,) = (layer for layer in drawing["spec"]["layer"] if layer["mark"]["type"] == "point")
    scales = {name: points["encoding"][name]["scale"] for name in ("fillOpacity", "strokeOpacity", "size")}
    inside, outline = (
        dict(zip(scales[name]["domain"], scales[name]["range"], strict=True))
        for name in ("fillOpacity", "strokeOpacity")
    )
    assert {source for source, opacity in inside.items() if opacity == 0} == {PUBLISHED}
    assert {source for source, opacity in outline.items() if opacity == 1} == {PUBLISHED}
    assert len(set(inside.values())) == 5
    assert "hollow" in json.dumps(drawing)


@charts
def test_an_axis_of_epsilon_has_the_values_that_were_used():
    ours = [MeasuredRows("d", "Hc", ERROR, [2], epsilon=epsilon) for epsilon in (0.1, 0.5, 1.0)]
    drawing = svg(drawn(tidy("name", ours, {}), Plot("epsilon", "ε", ERROR, log_x=True), "t"))
    assert re.findall(r"<text[^>]*>([\d.]+m?)</text>", drawing)[:3] == ["0.1", "0.5", "1"]


@charts
def test_a_line_for_each_variant_has_published_beside_ours():
    ours = [MeasuredRows("d", "Naive", ERROR, [2, 4], f"reading {number}", 1.0, 0) for number in range(7)]
    drawing = drawn(tidy("name", ours, {ours[0].key: 3.0}), Plot("variant", "", ERROR), "t").to_dict()
    points = drawing["data"]["values"]
    assert [point["place"] for point in points if point["source"] == PUBLISHED] == [
        f"reading {number}" for number in range(7)
    ]
    assert len(points) == 14


@charts
def test_levels_are_in_order_whichever_row_is_first():
    table = tidy("name", [MeasuredRows("d", "Hc", ERROR, [500 + level], level=level) for level in (2, 0, 1)], {})
    drawing = svg(drawn(table, Plot("level", "level", ERROR), "t"))
    places = [float(x) for x in re.findall(r"<text[^>]*translate\(([\d.]+),[^>]*>[012]</text>", drawing)]
    labels = re.findall(r"<text[^>]*>([012])</text>", drawing)
    assert [label for _, label in sorted(zip(places, labels, strict=True))] == ["0", "1", "2"]


@pytest.mark.slow
@charts
def test_table_figure_and_page_are_written(made_up, tmp_path):
    made = reproduce("made-up", tmp_path / "new" / "folder")
    assert [file.name for file in made.files] == ["made-up.csv", "made-up.svg", "made-up.png", "made-up.md"]
    assert pyarrow.csv.read_csv(made.files[0]).column_names == SCHEMA.names
    assert made.files[1].read_text().startswith("<svg")
    assert made.files[2].read_bytes()[:4] == b"\x89PNG"
    text = made.files[3].read_text()
    assert "`tallytree reproduce made-up`" in text
    assert "* A note." in text
    assert "(made-up.svg)" in text
    assert "| Hc | as stated | 110 | 105.5 | 0.96 |" in text


@pytest.mark.slow
@charts
def test_equal_seeds_write_equal_tables_and_runs_can_be_chosen(made_up, tmp_path):
    first, again = (reproduce("made-up", tmp_path / name, runs=3).files[0].read_bytes() for name in ("a", "b"))
    assert first == again
    assert reproduce("made-up", tmp_path, seed=2, runs=3).table["mean"][0].as_py() == pytest.approx(332 / 3)
    assert reproduce("made-up", tmp_path, full=True).table["runs"].to_pylist() == [3, 3]


def test_a_page_of_many_figures_has_one_row_for_each_mechanism_published_or_not():
    many = [MeasuredRows("d", "Hc", ERROR, [level + 1], level=level) for level in range(MOST_ROWS + 1)]
    figures = {one.key: 2.0 for one in many}
    many.append(MeasuredRows("d", "Hg", ERROR, [7], level=0))
    text = page(EXPERIMENTS[0], Settings(), Found(many, None), tidy("name", many, figures), "1")
    assert f"| d | Hc | as stated |  | {ERROR} | {MOST_ROWS + 1} | 1 | 121 | 30.50 | 0.50 | 60.50 |" in text
    assert f"| d | Hg | as stated |  | {ERROR} | 1 | 7 | 7 |  |  |  |" in text


@pytest.mark.parametrize(
    ("name", "figures", "sentence"),
    [
        ("kuo-figure-mixes", {}, "The paper shows this as a picture or a formula, without numbers."),
        ("inftda-figure3", {}, "Nothing is published for these data."),
        (
            "inftda-figure3",
            {("d", "Hc", ERROR, None, None, None): 1.0},
            "Published: results of the authors' repository",
        ),
        ("kuo-table4", {("d", "Hc", ERROR, None, None, None): 1.0}, "Published: Table 4 of the poster"),
    ],
)
def test_a_page_says_where_the_published_numbers_stand(name, figures, sentence):
    table = tidy("n", [MeasuredRows("d", "Hc", ERROR, [1, 2])], figures)
    assert sentence in page(experiment_named(name), Settings(), Found([], None), table, "1")


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (0.0, "0"), (1234.0, "1,234"), (1234.6, "1,235"), (12.345, "12.35"), (0.012345, "0.01235")],
)
def test_figures_have_four_digits_or_more(value, text):
    assert shown(value) == text


def test_columns_that_say_nothing_are_left_out():
    table = tidy("n", [MeasuredRows("d", name, ERROR, [1]) for name in ("Hc", "Hg")], {})
    assert cells_of(table.to_pylist())[0] == ["mechanism", "ours", "interval"]


def test_the_command_on_a_page_measures_the_same_again(tmp_path):
    settings = Settings(full=True, runs=4, seed=2, data=tmp_path)
    assert command("kuo-table3", settings) == "tallytree reproduce kuo-table3 --full --runs 4 --seed 2 --data DIR"


@pytest.mark.parametrize(
    ("changed", "error", "sentence"),
    [
        ({"name": "kuo-table33"}, ValueError, "name: 'kuo-table33' is no experiment; did you mean 'kuo-table3"),
        ({"name": "zzz"}, ValueError, "name: 'zzz' is no experiment; tallytree reproduce --list shows all"),
        ({"name": 3}, TypeError, "name: int must be text"),
        ({"runs": 0}, ValueError, "runs: 0 must be at least 1"),
        ({"seed": -1}, ValueError, "seed: -1 must be at least 0"),
        ({"data": "nowhere"}, ValueError, "data: 'nowhere' is no folder; give the folder that has the data sets"),
    ],
)
@charts
def test_what_cannot_be_reproduced_is_refused(changed, error, sentence, tmp_path):
    arguments = {"name": "kuo-table4"} | changed
    with pytest.raises(error, match="^" + sentence.replace("(", r"\(")):
        reproduce(out=tmp_path, **arguments)
    assert list(tmp_path.iterdir()) == []


def test_without_a_package_of_the_extra_the_full_size_alone_is_refused(monkeypatch, tmp_path, made_up):
    small = dataclasses.replace(made_up, needs=("no_such_solver",))
    monkeypatch.setattr(running, "experiment_named", lambda name: small)
    pytest.importorskip("altair")
    assert reproduce("made-up", tmp_path / "small").table.num_rows == 2
    experiment = dataclasses.replace(EXPERIMENTS[0], needs=("no_such_solver",))
    monkeypatch.setattr(running, "experiment_named", lambda name: experiment)
    monkeypatch.setattr(running, "require_charts", lambda argument, what: None)
    with pytest.raises(ModuleNotFoundError, match=r'--full needs no_such_solver, .*pip install "tallytree\[papers\]"'):
        reproduce("kuo-table3", tmp_path, full=True)


def test_names_are_distinct_and_found():
    assert len({one.name for one in EXPERIMENTS}) == len(EXPERIMENTS)
    assert {one.paper for one in EXPERIMENTS} <= set(PAPERS)
    assert all(experiment_named(one.name) is one for one in EXPERIMENTS)


@charts
@pytest.mark.slow
@pytest.mark.parametrize("name", [one.name for one in EXPERIMENTS])
def test_every_experiment_runs_in_its_small_size(name, tmp_path):
    made = reproduce(name, tmp_path, runs=1)
    assert made.table.num_rows > 0
    assert set(made.table["mechanism"].to_pylist()) <= set(MARKS) | {EXACT}
    assert all(file.stat().st_size for file in made.files)
    for row in made.table.to_pylist():
        assert math.isfinite(row["mean"] if row["variant"] != NOT_RUN else row["published"])
    for file in made.files:
        if file.suffix == ".svg":
            assert json.dumps(name)[1:-1] in file.read_text()


def test_the_tidy_table_has_its_types():
    assert tidy("n", [], {}).schema == SCHEMA
    assert isinstance(tidy("n", [MeasuredRows("d", "Hc", ERROR, [1])], {}), pa.Table)
