"""`tallytree export`: the published tables in other formats."""

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from tallytree.cli.failures import ExitCode


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a release of counts."""
    monkeypatch.chdir(tmp_path)
    towns = pa.table({"state": ["A", "A", "B"], "town": ["x", "y", "z"]})
    tree = tt.Hierarchy.from_table(towns, ["state", "town"])
    tt.release_counts(towns, tree, tt.Budget(epsilon=1), neighboring="add_remove", seed=1).save("release")
    return tmp_path


def test_tables_are_exported_and_named(folder, output):
    shown = output("export", "release", "--to", "csv", "--out", "tables", "--table", "town", "--alpha", "0.2")
    assert shown.splitlines() == ["town: 3 rows", "Nothing was spent. Export: tables"]
    header, *rows = (folder / "tables/town.csv").read_text("utf-8").splitlines()
    assert header.endswith('"std_dev","ci_lower","ci_upper","quality"')
    assert len(rows) == 3


def test_a_map_leaves_out_what_has_no_boundaries_and_says_so(folder, output):
    geopandas, shapely = pytest.importorskip("geopandas"), pytest.importorskip("shapely")
    boxes = [shapely.box(i, 0, i + 1, 1) for i in range(3)]
    geopandas.GeoDataFrame({"code": ["z", "x", "y"]}, geometry=boxes, crs="EPSG:4326").to_file("towns.geojson")
    options = ("--boundaries", "town=towns.geojson", "--boundary-code", "code")
    shown = output("export", "release", "--to", "geoparquet", "--out", "map", *options).splitlines()
    assert shown == [
        "state: 2 rows",
        "town: 3 rows",
        "Left out, without boundaries: all",
        "Nothing was spent. Export: map",
    ]


SPEC = """\
statistic: tables
records: people.parquet
hierarchy:
  attributes:
    area: {path: areas.parquet, levels: [state]}
    sex: {path: sexes.parquet, levels: [sex]}
tables: [[state], [sex]]
keep_detail: true
budget: {epsilon: 1}
neighboring: add_remove
"""


def test_records_are_exported_from_a_detail_which_is_named_when_it_is_published(folder, output):
    people = {"state": ["A", "A", "B"] * 20, "sex": ["f", "m"] * 30}
    tables = {"people": people, "areas": {"state": ["A", "B"]}, "sexes": {"sex": ["f", "m"]}}
    for name, table in tables.items():
        pq.write_table(pa.table(table), folder / f"{name}.parquet")
    (folder / "spec.yaml").write_text(SPEC)
    shown = output("release", "spec.yaml", "--out", "out", "--no-report")
    assert "Published too: the detail, 4 cells of 4, which are mostly noise." in shown
    total = tt.Release.load("out").total()["count"][0].as_py()
    shown = output("export", "out", "--to", "records", "--out", "records.csv")
    assert shown.splitlines() == [f"records: {total} rows", "Nothing was spent. Export: records.csv"]
    assert len((folder / "records.csv").read_text("utf-8").splitlines()) == total + 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--boundaries", "town"), "boundaries: 'town' must be LEVEL=FILE, such as county=counties.geojson"),
        (
            ("--boundaries", "a=b", "--boundaries", "a=c"),
            "boundaries: 'a' is given twice; give one file for each level",
        ),
        (("--table", "city"), "tables: 'city' is not in the release, which has 'all', 'state', 'town'"),
    ],
)
def test_a_wrong_option_is_one_line(folder, refusal, options, message):
    assert refusal("export", "release", "--to", "csv", "--out", "other", *options) == message
    assert [path.name for path in folder.iterdir()] == ["release"]


@pytest.fixture
def mixed(folder):
    """A release with a large and a small town."""
    towns = pa.table({"state": ["A", "A"], "town": ["large", "small"], "n": [10_000, 1]})
    tree = tt.Hierarchy.from_table(towns, ["state", "town"])
    tt.release_counts(towns, tree, tt.Budget(epsilon=0.1), neighboring="add_remove", count="n", seed=1).save("mixed")
    return folder


READERS = {
    "csv": lambda path: pd.read_csv(path / "town.csv"),
    "parquet": lambda path: pd.read_parquet(path / "town.parquet"),
    "duckdb": lambda path: duckdb.connect(str(path)).sql("SELECT * FROM town").df(),
}


@pytest.mark.parametrize("kind", ["csv", "parquet", "duckdb"])
def test_unreliable_numbers_are_left_empty_where_that_is_asked_for(mixed, output, kind):
    out = "careful.duckdb" if kind == "duckdb" else "careful"
    output("export", "mixed", "--to", kind, "--out", out, "--alpha", "0.1", "--suppress", "unreliable")
    large, small = READERS[kind](mixed / out).to_dict("records")
    assert (large["quality"], small["quality"]) == ("reliable", "not_distinguishable_from_0")
    assert large["count"] > 9_000
    assert all(pd.isna(small[name]) for name in ("count", "ci_lower", "ci_upper"))
    assert small["std_dev"] == large["std_dev"] > 0


def test_the_limits_of_verdicts_are_options(mixed, output, refusal):
    strict = ("--reliable-below", "0.0001", "--unreliable-above", "0.0002")
    output("export", "mixed", "--to", "csv", "--out", "strict", *strict)
    assert list(READERS["csv"](mixed / "strict")["quality"]) == ["unreliable", "not_distinguishable_from_0"]
    said = refusal("export", "mixed", "--to", "csv", "--out", "other", "--suppress", "small")
    assert said.startswith("suppress: 'small'")


def test_what_exists_is_left_alone(folder, refusal):
    said = refusal("export", "release", "--to", "csv", "--out", "release", code=ExitCode.EXISTS)
    assert said == f"out: {str(folder / 'release')!r} exists; choose another name, or move it away"


def test_half_a_release_is_refused(folder, refusal):
    (folder / "release/tables/town.parquet").unlink()
    assert "is missing or was changed" in refusal("export", "release", "--to", "csv", "--out", "other")
