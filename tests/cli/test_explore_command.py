"""`tallytree explore`: what it says where it cannot start."""

import importlib.util
import json
import shutil
import socket

import pytest

from helpers.explored import counts
from tallytree._explore import PACKAGES
from tallytree.cli.failures import ExitCode

pytestmark = pytest.mark.needs("nicegui", "vl_convert")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return counts().save(tmp_path_factory.mktemp("explored") / "counts")


def test_a_port_in_use_is_named(folder, refusal):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = refusal("explore", folder, "--port", port, "--no-open", code=ExitCode.SYSTEM)
    assert message == f"port: {port} is in use, or not allowed; give another with --port, or leave it out"


def test_without_its_extra_it_is_refused_in_one_sentence(folder, refusal, monkeypatch):
    find_spec = importlib.util.find_spec
    for module, package in PACKAGES.items():
        with monkeypatch.context() as absent:
            absent.setattr(
                importlib.util, "find_spec", lambda name, *rest, m=module: None if name == m else find_spec(name)
            )
            message = refusal("explore", folder, code=ExitCode.SYSTEM)
        assert (
            message
            == f'explore: the explorer needs {package}, which is not installed: pip install "tallytree[explore]"'
        )


def test_what_is_no_release_is_refused(folder, tmp_path, refusal):
    assert "does not exist" in refusal("explore", tmp_path / "none", code=ExitCode.INPUT)
    shutil.copytree(folder, tmp_path / "half", ignore=shutil.ignore_patterns("release.json"))
    assert "not a complete release" in refusal("explore", tmp_path / "half", code=ExitCode.INPUT)
    shutil.copytree(folder, tmp_path / "tampered")
    with (tmp_path / "tampered" / "tables" / "town.parquet").open("r+b") as file:
        file.seek(8)
        file.write(b"XX")
    assert "town.parquet" in refusal("explore", tmp_path / "tampered", code=ExitCode.INPUT)


def test_boundaries_that_do_not_match_are_named(folder, tmp_path, refusal):
    pytest.importorskip("geopandas")
    shape = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}
    (tmp_path / "x.geojson").write_text(
        json.dumps({"type": "FeatureCollection", "features": [
            {"type": "Feature", "properties": {"region": "West"}, "geometry": shape}]})
    )  # fmt: skip
    message = refusal("explore", folder, "--boundaries", f"region={tmp_path / 'x.geojson'}", code=ExitCode.INPUT)
    assert "'West' of the boundaries is no area; 'N', 'S' have no boundary" in message
