"""`tallytree export`: the published tables in other formats."""

import pyarrow as pa
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


def test_what_exists_is_left_alone(folder, refusal):
    said = refusal("export", "release", "--to", "csv", "--out", "release", code=ExitCode.EXISTS)
    assert said == f"out: {str(folder / 'release')!r} exists; choose another name, or move it away"


def test_half_a_release_is_refused(folder, refusal):
    (folder / "release/tables/town.parquet").unlink()
    assert "is missing or was changed" in refusal("export", "release", "--to", "csv", "--out", "other")
