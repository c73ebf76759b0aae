"""The examples for operators, as far as they run without Docker, cron and Airflow; the page on operations."""

import importlib.util
import json
import re
import shlex
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tallytree.datasets.commutes import commutes
from typer.testing import CliRunner

from tallytree.cli import app
from tallytree.release import Release

REPOSITORY = Path(__file__).parents[2]
CONTAINER = REPOSITORY / "examples/container"
NIGHT, NEXT = "2026-11-22", "2026-11-23"


@pytest.fixture(scope="module")
def tallytree(with_program):
    """Runs a command in a folder, with more variables of the environment."""

    def run(folder, *arguments, **more):
        command = ["bash", "-c", 'tallytree "$@"', "bash", *arguments]
        given = {**with_program, **more}
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False, env=given)

    return run


@pytest.fixture(scope="module")
def work(tmp_path_factory, tallytree):
    """The folder of the container: the spec, the data of two nights, a ledger with its limit, a secret."""
    tmp_path = tmp_path_factory.mktemp("work")
    movement = commutes(500)
    for name in ("data", "state", "secret"):
        (tmp_path / name).mkdir()
    for night in (NIGHT, NEXT):
        pq.write_table(movement.commutes, tmp_path / f"data/commutes-{night}.parquet")
    pq.write_table(movement.municipalities, tmp_path / "data/municipalities.parquet")
    spec = (CONTAINER / "commutes.yaml").read_text(encoding="utf-8")
    (tmp_path / "commutes.yaml").write_text(spec, encoding="utf-8")
    limit = re.search(r"made once:  tallytree (.*)", spec)[1]
    done = tallytree(tmp_path, *shlex.split(limit))
    assert done.returncode == 0, done.stderr
    assert tallytree(tmp_path, "secret", "new", "secret/key").returncode == 0
    return tmp_path


def instructions():
    """Instruction and text of every line of the Dockerfile."""
    lines = (CONTAINER / "Dockerfile").read_text(encoding="utf-8").splitlines()
    return [tuple(line.split(" ", 1)) for line in lines if line and not line.startswith("#")]


def environment():
    return dict(text.split("=", 1) for name, text in instructions() if name == "ENV")


@pytest.mark.slow
def test_the_container_checks_the_spec_when_it_starts(work, tallytree):
    (entry,) = (json.loads(text) for name, text in instructions() if name == "ENTRYPOINT")
    (command,) = (json.loads(text) for name, text in instructions() if name == "CMD")
    assert entry == ["tallytree"]
    done = tallytree(work, *command, DATE=NIGHT, TALLYTREE_LOG_FORMAT=environment()["TALLYTREE_LOG_FORMAT"])
    assert (done.returncode, done.stderr) == (0, "")
    assert "commutes.yaml is ready to be released" in done.stdout


def test_every_command_of_the_image_exists(run_help):
    commands = [part for name, text in instructions() if name == "RUN" for part in text.split("&&")]
    ours = [shlex.split(command)[1:] for command in commands if shlex.split(command)[0] == "tallytree"]
    assert ours == [["warm"]]  # tests/cli/test_warm_command.py runs it
    assert run_help("warm").startswith("Usage: tallytree warm")


def test_the_cache_of_the_image_is_where_its_user_may_write():
    text = "\n".join(text for name, text in instructions() if name == "RUN")
    assert f"mkdir -m 0700 {environment()['NUMBA_CACHE_DIR']} " in text


@pytest.fixture
def run_help():
    return lambda *command: CliRunner().invoke(app, [*command, "--help"]).stdout


def nightly():
    """The words after the image's name in the line of the crontab, with the night in place of today."""
    (line,) = (
        line for line in (CONTAINER / "crontab").read_text(encoding="utf-8").splitlines() if line.startswith("15 2 ")
    )
    command = line.split(" ", 5)[5].replace("\\%", "%").replace("$(date -u +%F)", NIGHT).partition(" 2>>")[0]
    words = shlex.split(command)
    assert words[:3] == ["docker", "run", "--rm"]
    return words[words.index("commutes") + 1 :]


def test_the_night_of_the_crontab_uses_what_the_command_line_has(run_help):
    known = run_help("release")
    options = [word for word in nightly() if word.startswith("--")]
    assert options
    assert all(option in known for option in options)


@pytest.mark.slow
def test_the_night_of_the_crontab_is_released(work, tallytree):
    done = tallytree(work, *nightly(), TALLYTREE_LOG_FORMAT="json")
    assert done.returncode == 0, done.stderr
    stages = [json.loads(line)["stage"] for line in done.stderr.splitlines()]
    assert stages == ["plan", "tabulate", "record", "measure", "reconcile", "save"]
    assert Release.load(work / "state/releases" / NIGHT).statement["ledger"]["dataset"] == "commutes"
    again = tallytree(work, *nightly(), TALLYTREE_LOG_FORMAT="json")
    assert again.returncode == 0, again.stderr


@pytest.fixture
def tasks():
    """The Airflow example, as a module."""
    place = REPOSITORY / "examples/airflow/commutes.py"
    found = importlib.util.spec_from_file_location("commutes_under_airflow", place)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_tasks_for_airflow_publish_a_night(work, tasks):
    tasks.check(NEXT, work)
    out = tasks.release(NEXT, work)
    tasks.add_errors(NEXT, work)
    release = Release.load(out)
    assert "ci_upper" in release.table("destination_region").column_names
    assert (out / "tables/destination_region.csv").exists()


@pytest.mark.parametrize("code", [2, 3, 4])
def test_a_mistake_is_not_tried_again(tasks, monkeypatch, tmp_path, code):
    ended = subprocess.CompletedProcess([], code)
    monkeypatch.setattr(tasks.subprocess, "run", lambda *arguments, **options: ended)
    with pytest.raises(tasks.NeedsSomebodyError, match=f"tallytree release ended with exit code {code}"):
        tasks.release(NIGHT, tmp_path)


@pytest.mark.parametrize("code", [1, 5, 143])
def test_what_a_retry_may_mend_is_tried_again(tasks, monkeypatch, tmp_path, code):
    ended = subprocess.CompletedProcess([], code)
    monkeypatch.setattr(tasks.subprocess, "run", lambda *arguments, **options: ended)
    with pytest.raises(subprocess.CalledProcessError):
        tasks.release(NIGHT, tmp_path)


def test_the_page_lists_the_keys_of_a_line():
    from tallytree.cli.logs import KEYS

    page = (REPOSITORY / "docs/how-to/operations.md").read_text(encoding="utf-8")
    assert tuple(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == KEYS
