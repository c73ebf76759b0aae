"""`tallytree explore`: what it writes, and what it says where it cannot start."""

import json
import shutil
import socket

import pytest

from helpers.explored import counts, data_of
from tallytree.cli.failures import ExitCode


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return counts().save(tmp_path_factory.mktemp("explored") / "counts")


def test_static_writes_the_page_and_ends(folder, tmp_path, output):
    before = {each: each.stat().st_mtime_ns for each in folder.rglob("*")}
    said = output("explore", folder, "--static", tmp_path / "out")
    assert said == f"Nothing was spent. Page: {tmp_path / 'out' / 'index.html'}\n"
    assert data_of(tmp_path / "out" / "index.html")[0]["title"] == "counts"
    assert {each: each.stat().st_mtime_ns for each in folder.rglob("*")} == before


def test_a_static_page_takes_no_port_and_no_folder_that_exists(folder, tmp_path, refusal):
    message = refusal("explore", folder, "--static", tmp_path / "out", "--port", 9000, code=ExitCode.INPUT)
    assert message == "port: 9000 has no use with --static, which serves nothing; leave it out"
    message = refusal("explore", folder, "--static", tmp_path, code=ExitCode.EXISTS)
    assert message == f"static: '{tmp_path}' exists; choose another name, or move it away"


def test_a_port_in_use_is_named(folder, refusal):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = refusal("explore", folder, "--port", port, "--no-open", code=ExitCode.SYSTEM)
    assert message == f"port: {port} is in use, or not allowed; give another with --port, or leave it out"


@pytest.mark.parametrize("options", [[], ["--static", "page"]])
def test_what_is_no_release_is_refused(folder, tmp_path, refusal, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    assert "does not exist" in refusal("explore", tmp_path / "none", *options, code=ExitCode.INPUT)
    shutil.copytree(folder, tmp_path / "half", ignore=shutil.ignore_patterns("release.json"))
    assert "not a complete release" in refusal("explore", tmp_path / "half", *options, code=ExitCode.INPUT)
    shutil.copytree(folder, tmp_path / "tampered")
    with (tmp_path / "tampered" / "tables" / "town.parquet").open("r+b") as file:
        file.seek(8)
        file.write(b"XX")
    assert "town.parquet" in refusal("explore", tmp_path / "tampered", *options, code=ExitCode.INPUT)
    assert not (tmp_path / "page").exists()


def boundaries(place, *labels):
    """A file of shapes, a triangle for each label."""
    shape = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}
    features = [{"type": "Feature", "properties": {"region": label}, "geometry": shape} for label in labels]
    place.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return f"region={place}"


def test_boundaries_that_do_not_match_are_named(folder, tmp_path, refusal):
    pytest.importorskip("geopandas")
    shapes = boundaries(tmp_path / "x.geojson", "West")
    message = refusal("explore", folder, "--boundaries", shapes, code=ExitCode.INPUT)
    assert "'West' of the boundaries is no area" in message
    assert message.endswith("; every boundary needs an area, and no area has two")


def test_areas_may_have_no_shape(folder, tmp_path, output):
    pytest.importorskip("geopandas")
    output("explore", folder, "--static", tmp_path / "out", "--boundaries", boundaries(tmp_path / "x.geojson", "S"))
    about, parts = data_of(tmp_path / "out" / "index.html")
    assert about["maps"] == ["region"]
    assert parts["map-region"]["node"] == [1]
    assert parts["map-region"]["path"][0].startswith("M0.0,")
