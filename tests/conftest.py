"""Fixtures that several tests share, and what a test needs to run."""

import os
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import settings

import tallytree as tt
from helpers.order import in_order
from helpers.spark import ended, forget, started
from helpers.tools import check_release
from tallytree.release.release import Release
from tallytree.run import order

# No test finds what an earlier one, or the user, has computed of a plan; subprocesses inherit it.
os.environ["TALLYTREE_CACHE_DIR"] = ""
os.environ["TALLYTREE_REPORT"] = "0"  # a report takes a second; the tests of reports ask for them

# How long an example takes says nothing of the code: the machine may be busy.
settings.register_profile("tallytree", deadline=None)
settings.load_profile("tallytree")

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
EXTRA_OF = {
    "opendp": "opendp",
    "altair": "report",
    "vl_convert": "report",
    "jinja2": "report",
    "playwright": "dev",
    "axe_playwright_python": "dev",
    "riskcal": "risk",
    "pyspark": "spark",
    "sqlglot": "spark",
    "fsspec": "cloud",
    "moto": "dev",
    "pip_audit": "dev",
    "adbc_driver_postgresql": "postgres",
    "xlsxwriter": "export",
    "pysdmx": "export",
    "jsonschema": "registry",
    "ruamel": "registry",
    "geopandas": "maps",
    "shapely": "maps",
} | dict.fromkeys(("cvxpy", "clarabel", "highspy", "osqp", "scs", "ortools", "pyscipopt"), "papers")


def pytest_collection_modifyitems(config, items):
    """Make property tests short in `make test`, and order the files."""
    if config.option.markexpr == "not slow":
        for item in items:
            try_fewer_examples(item)
    files = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    items[:] = [item for path in in_order(files) for item in files[path]]


def try_fewer_examples(item):
    """A quarter of the examples, and 10 at least; `make test-all` tries all of them.

    Hypothesis has no other way to change the settings that a test's decorator has set.
    """
    test = getattr(item, "obj", None)
    given = getattr(test, "_hypothesis_internal_use_settings", None)
    if given is not None:
        fewer = settings(given, max_examples=max(10, given.max_examples // 4))
        getattr(test, "__func__", test)._hypothesis_internal_use_settings = fewer


def pytest_runtest_setup(item):
    """Skip a test marked `needs("package", ...)` where a package of an optional extra is not installed.

    The package is looked for, not imported: OR-tools and highspy cannot be loaded in one process.
    """
    CHECKED[:] = [] if item.get_closest_marker("planted") else [True]
    for marker in item.iter_markers("needs"):
        for package in marker.args:
            if find_spec(package) is None:
                pytest.skip(f"{package}, of the extra tallytree[{EXTRA_OF[package]}], is not installed")


CHECKED = [True]
"""Empty while a test runs that plants a fault, which is marked `planted`."""


@pytest.fixture(autouse=True, scope="session")
def every_release_is_checked():
    """Each release that a test makes or saves is checked by a program that has nothing of tallytree."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "as_released", checked_when_made(order.as_released))
        patch.setattr(Release, "save", checked_when_saved(Release.save))
        yield


def checked_when_made(as_released):
    def made_and_checked(*args, **kwargs):
        release = as_released(*args, **kwargs)
        if not CHECKED:
            return release
        findings = check_release.Findings()
        manifest = {"statement": release.statement, "spec": release.spec, "levels": release.levels}
        check_release.check_statement(manifest, findings)
        assert findings.wrong == []
        return release

    return made_and_checked


def checked_when_saved(save):
    def save_and_check(release, *args, **kwargs):
        folder = save(release, *args, **kwargs)
        if CHECKED and "neighboring" in release.statement:  # else it is made up, to be saved
            assert check_release.check(folder).wrong == []
        return folder

    return save_and_check


@pytest.fixture(scope="session")
def shared_data():
    """The papers' data sets, where they lie beside the repository."""
    if not SHARED.is_dir():
        pytest.skip(f"the papers' data sets, which are optional, are not at {SHARED}")
    return SHARED


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory):
    """Where the Spark session of the tests has its files."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="session")
def spark_sessions(spark_folder):
    """The one Spark session of all tests, once a test has asked for it: starting it takes seconds."""
    from py4j.protocol import Py4JError

    sessions = []
    yield sessions
    for session in sessions:
        with suppress(Py4JError, OSError):  # where Java has ended
            session.stop()


@pytest.fixture
def spark(spark_folder, spark_sessions):
    """A Spark session: the one of the tests before, unless the machine has ended its Java process."""
    if spark_sessions and ended(spark_sessions[0]):
        forget(spark_sessions.pop())
    if not spark_sessions:
        spark_sessions.append(started(spark_folder))
    return spark_sessions[0]


@pytest.fixture(scope="session")
def areas():
    """Two states with three counties and one; 'x' is a county of both."""
    table = pa.table({"state": ["A", "A", "A", "B"], "county": ["x", "y", "z", "x"]})
    return tt.Hierarchy.from_table(table, ["state", "county"])
