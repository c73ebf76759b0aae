"""Fixtures that several tests share, and what a test needs to run."""

import gc
import os
import shutil
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pytest
import typer.testing
from hypothesis import settings

import tallytree as tt
from helpers.counted_once import ANEW, counted_once
from helpers.inside import order
from helpers.order import TESTS, in_order
from helpers.spark import ended, forget, started
from helpers.tools import check_release
from tallytree.release.release import Release

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


def is_short(config):
    """Whether this is what `make test` runs."""
    return config.option.markexpr == "not slow"


def pytest_configure(config):
    """Keep the files of `make test` in memory where there is room: on a disk, all that is saved waits for fsync."""
    memory = Path("/dev/shm")  # noqa: S108
    if is_short(config) and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 1 << 32:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With `--dist loadfile`, all tests of Spark are run by one process."""
    if config.getvalue("dist") != "loadfile":
        return None
    from helpers.scheduling import FilesAndSpark

    return FilesAndSpark(config, log)


def pytest_collection_finish():
    """Python need not look through ten thousand tests each time it looks for what can be freed."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config, items):
    """Make property tests short in `make test`, and order the files."""
    if is_short(config):
        for item in items:
            try_fewer_examples(item)
    files = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    items[:] = [item for path in in_order(files) for item in files[path]]


def try_fewer_examples(item):
    """A quarter of the examples, but 10 where there are as many; `make test-all` tries all of them.

    Hypothesis has no other way to change the settings that a test's decorator has set.
    """
    test = getattr(item, "obj", None)
    given = getattr(test, "_hypothesis_internal_use_settings", None)
    if given is not None:
        fewer = settings(given, max_examples=min(given.max_examples, max(10, given.max_examples // 4)))
        getattr(test, "__func__", test)._hypothesis_internal_use_settings = fewer


def pytest_runtest_setup(item):
    """Skip a test marked `needs("package", ...)` where a package of an optional extra is not installed.

    The package is looked for, not imported: OR-tools and highspy cannot be loaded in one process.
    """
    CHECKED[:] = [] if item.get_closest_marker("planted") else [True]
    folder = item.path.parent.relative_to(TESTS).as_posix()
    REMEMBERED[:] = [] if f"{folder}/".startswith(tuple(f"{each}/" for each in ANEW)) else [True]
    for marker in item.iter_markers("needs"):
        for package in marker.args:
            if find_spec(package) is None:
                pytest.skip(f"{package}, of the extra tallytree[{EXTRA_OF[package]}], is not installed")


REMEMBERED = [True]
"""Empty while a test runs that counts every time."""
CHECKED = [True]
"""Empty while a test runs that plants a fault, which is marked `planted`."""


@pytest.fixture(autouse=True, scope="session")
def every_release_is_checked():
    """Each release that a test makes or saves is checked by a program that has nothing of tallytree."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "as_released", checked_when_made(order.as_released))
        patch.setattr(Release, "save", checked_when_saved(Release.save))
        yield


@pytest.fixture(autouse=True, scope="session")
def equal_tables_are_counted_once():
    """By all releases of a process, but in the tests of how they are counted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tt.engines.Local, "tabulate", counted_once(tt.engines.Local.tabulate, REMEMBERED))
        yield


@pytest.fixture(autouse=True, scope="session")
def commands_are_made_once():
    """Typer makes all commands anew for each one that a test invokes, which takes as long as a small release."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", cache(typer.main.get_command))
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
def honest(tmp_path_factory):
    """The folder of an honest release, by its name. Each is made once; a test that changes it copies it."""
    from helpers.honest_releases import HONEST

    folders = {}

    def folder(name, csv=True):
        if (name, csv) not in folders:
            release = HONEST[name]()
            options = {"csv": True} if csv and release.statement["statistic"] != "households" else {}
            folders[name, csv] = release.save(tmp_path_factory.mktemp("honest") / "release", **options)
        return folders[name, csv]

    return folder


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
