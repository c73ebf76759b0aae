"""`tallytree report`, and the reports that other commands write."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers import releases
from tallytree.cli.failures import ExitCode

pytestmark = pytest.mark.needs("altair", "vl_convert", "jinja2")


@pytest.fixture(scope="module")
def areas():
    return tt.Hierarchy.from_table(pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"]}), ["state", "county"])


@pytest.fixture
def saved(areas, tmp_path):
    return releases.counts(areas, mechanism=tt.counts.TopDown(), budget=tt.Budget(rho=0.5)).save(tmp_path / "counts")


@pytest.fixture
def spec(areas, tmp_path):
    pq.write_table(releases.PEOPLE, tmp_path / "people.parquet")
    pq.write_table(areas.leaf_table(), tmp_path / "areas.parquet")
    text = {
        "statistic": "counts",
        "records": "people.parquet",
        "hierarchy": {"path": "areas.parquet", "levels": ["state", "county"]},
        "budget": {"epsilon": 1.0},
        "neighboring": "add_remove",
    }
    (tmp_path / "spec.yaml").write_text(json.dumps(text))
    return tmp_path / "spec.yaml"


def shapes(codes):
    squares = [
        {
            "type": "Feature",
            "properties": {"state": code},
            "geometry": {
                "type": "Polygon",
                "coordinates": [[[i, 0], [i + 1, 0], [i + 1, 1], [i, 1], [i, 0]]],
            },
        }
        for i, code in enumerate(codes)
    ]
    return json.dumps({"type": "FeatureCollection", "features": squares})


@pytest.mark.slow
def test_the_report_is_written_into_the_folder_which_still_loads(output, saved):
    said = output("report", saved)
    assert "Nothing was spent. Report:" in " ".join(said.split())
    assert (saved / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    tt.Release.load(saved)
    output("report", saved)


@pytest.mark.needs("geopandas", "shapely")
def test_boundaries_add_a_map_and_those_that_do_not_match_are_named(run, output, saved, tmp_path):
    bad = tmp_path / "bad.geojson"
    bad.write_text(shapes(["A", "Z"]))
    (tmp_path / "one.geojson").write_text(shapes(["A"]))
    output("report", saved, "--out", tmp_path / "one.html", "--boundaries", f"state={tmp_path / 'one.geojson'}")
    count = tt.Release.load(saved).table("state").to_pylist()[1]["count"]
    assert f"Map: records by state. Without a shape: B {count:,}<" in (tmp_path / "one.html").read_text(
        encoding="utf-8"
    )
    result = run("report", saved, "--out", tmp_path / "none.html", "--boundaries", f"state={bad}")
    assert result.exit_code == ExitCode.INPUT
    assert "'Z'" in result.stderr
    assert "'B'" in result.stderr
    assert not (tmp_path / "none.html").exists()


@pytest.mark.slow
@pytest.mark.needs("geopandas", "shapely")
def test_boundaries_are_kept_for_the_reports_that_follow(output, saved, tmp_path):
    file = tmp_path / "good.geojson"
    file.write_text(shapes(["A", "B"]))
    manifest = (saved / "release.json").read_bytes()
    output("report", saved, "--boundaries", f"state={file}")
    file.unlink()
    assert (saved / "release.json").read_bytes() == manifest
    output("report", saved, "--out", tmp_path / "again.html")
    output("error", saved, "--replicates", "10", "--seed", "1", "--out", tmp_path / "new", "--report")
    output("error", saved, "--replicates", "10", "--seed", "1", "--report")
    for page in (tmp_path / "again.html", saved / "report.html", tmp_path / "new" / "report.html"):
        assert "Map: records by state" in page.read_text(encoding="utf-8")
    assert tt.Release.load(tmp_path / "new").levels == tt.Release.load(saved).levels


def test_what_is_no_whole_release_is_refused(run, saved, tmp_path):
    for folder, said in ((tmp_path / "nowhere", "does not exist"), (tmp_path, "release.json")):
        result = run("report", folder)
        assert result.exit_code == ExitCode.INPUT
        assert said in result.stderr
    table = saved / "tables" / "county.parquet"
    table.write_bytes(table.read_bytes()[:-1] + b"x")
    result = run("report", saved)
    assert result.exit_code == ExitCode.INPUT
    assert "was changed; take a fresh copy of the release" in result.stderr
    assert not (saved / "report.html").exists()


@pytest.mark.slow
def test_release_writes_a_report_unless_it_is_told_not_to(output, spec, tmp_path):
    output("release", spec, "--out", tmp_path / "with", "--report")
    assert "In plain words" in (tmp_path / "with" / "report.html").read_text(encoding="utf-8")
    output("release", spec, "--out", tmp_path / "without", "--no-report")
    output("release", spec, "--out", tmp_path / "by-environment")  # TALLYTREE_REPORT=0 in tests
    assert not (tmp_path / "without" / "report.html").exists()
    assert not (tmp_path / "by-environment" / "report.html").exists()


def test_without_the_extra_a_release_says_so_and_report_fails(run, spec, saved, tmp_path, monkeypatch):
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "altair" else found(name, *a))
    result = run("release", spec, "--out", tmp_path / "made", "--report")
    assert result.exit_code == 0
    assert 'No report is written: a report needs altair, which is not installed: pip install "tallytree[report]"' in (
        " ".join(result.stderr.split())
    )
    assert not (tmp_path / "made" / "report.html").exists()
    result = run("report", saved)
    assert result.exit_code == ExitCode.SYSTEM
    assert 'pip install "tallytree[report]"' in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--report", "--no-report"])
def test_new_errors_leave_no_report_of_the_earlier_tables(output, saved, option):
    (saved / "report.html").write_text("stale")
    output("error", saved, "--replicates", "10", "--seed", "1", option)
    if option == "--report":
        assert "Nine in ten numbers are within" in (saved / "report.html").read_text(encoding="utf-8")
    else:
        assert not (saved / "report.html").exists()
