"""The wheel holds the package and nothing else; `make test` runs every test against it."""

import os
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import tallytree
from helpers.inside import SCRIPTS, STYLES
from tallytree.lab.reproduce import EXPERIMENTS

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        str(REPOSITORY),
    ]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built)


@pytest.mark.slow
def test_the_wheel_holds_every_module_and_is_typed(wheel):
    packed = {name for name in wheel.namelist() if name.startswith("tallytree/")}
    packed -= {name for name in packed if name.startswith("tallytree/support/compiled/")}  # of the Makefile's wheel
    source = REPOSITORY / "src"
    expected = {str(path.relative_to(source)) for path in source.rglob("*.py")}
    expected |= {"tallytree/py.typed", "tallytree/ledger/schema.sql"}
    expected |= {f"tallytree/views/report/templates/report.{kind}" for kind in ("html", "css")}
    expected |= {"tallytree/release/opendp_deployments_schema.yaml"}
    page = ("index.html", *STYLES, *SCRIPTS)
    expected |= {f"tallytree/views/explore/{name}" for name in ("icon.svg", *(f"page/{each}" for each in page))}
    named = [one.name for one in EXPERIMENTS if one.published_in]
    expected |= {f"tallytree/lab/reproduce/published_figures/{name}.csv" for name in named}
    assert packed == expected
    assert {name.split("/")[0] for name in wheel.namelist()} == {
        "tallytree",
        f"tallytree-{tallytree.__version__}.dist-info",
    }


@pytest.mark.slow
def test_the_wheel_installs_a_command_and_its_licence(wheel):
    info = f"tallytree-{tallytree.__version__}.dist-info"
    assert "tallytree = tallytree.cli.app:main" in wheel.read(f"{info}/entry_points.txt").decode()
    assert "Apache License" in wheel.read(f"{info}/licenses/LICENSE").decode()


@pytest.mark.skipif("TALLYTREE_TEST_INSTALLED" not in os.environ, reason="only `make test` installs the wheel first")
def test_the_tests_run_against_the_installed_wheel():
    installed = Path(tallytree.__file__)
    assert REPOSITORY / "src" not in installed.parents
    assert metadata.version("tallytree") == tallytree.__version__
    assert installed.read_bytes() == (REPOSITORY / "src/tallytree/__init__.py").read_bytes()
