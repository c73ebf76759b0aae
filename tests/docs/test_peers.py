"""The page of peers is what its program makes of the results that are kept, and every peer is on it."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def program():
    place = REPOSITORY / "benchmarks" / "peers_page.py"
    spec = importlib.util.spec_from_file_location("peers_page", place)
    module = importlib.util.module_from_spec(spec)
    sys.modules["peers_page"] = module  # which its dataclasses look for
    spec.loader.exec_module(module)
    yield module
    del sys.modules["peers_page"]


@pytest.fixture(scope="module")
def results(program):
    return json.loads(program.RESULTS.read_text(encoding="utf-8"))


def test_the_page_is_made_of_the_results(program, results):
    assert program.PAGE.read_text(encoding="utf-8") == program.page(results)


def test_every_program_has_figures_or_a_reason(program, results):
    rows = {(row["task"], row["program"]): row for row in results["rows"]}
    assert set(rows) == {(task.title, one.name) for task in program.TASKS for one in task.programs}
    assert all({"seconds", "peak", "error", "valid", "version"} <= set(row) or row["failed"] for row in rows.values())
    text = program.PAGE.read_text(encoding="utf-8").lower()
    for peer in ("inf-tda", "opendp", "mbi", "mintrace", "scikit-learn", "clarabel", "pipelinedp", "diffprivlib"):
        assert peer in text


def test_where_a_peer_is_better_comes_first(program, results):
    task = program.TASKS[0]
    ours = {"seconds": 2.0, "peak": 100.0, "error": 1.0, "standard_error": 0.1}
    rows = {(task.title, one.name): dict(ours) for one in task.programs}
    assert program.better(task, rows) == []
    rows[task.title, task.programs[1].name]["seconds"] = 1.0
    assert program.better(task, rows) == [f"{task.title}: {task.programs[1].name} takes 0.50 of our time."]
    page = program.page(results)
    assert page.index("## Where a peer is better") < page.index(f"| {task.title}")


def test_peers_of_which_the_same_is_true_are_in_one_sentence(program):
    task = program.TASKS[0]
    ours = {"seconds": 2.0, "peak": 100.0, "error": 1.0, "standard_error": 0.1}
    rows = {(task.title, one.name): dict(ours) for one in task.programs}
    for peer in task.programs[1:]:
        rows[task.title, peer.name]["peak"] = 50.0
    names = " and ".join(peer.name for peer in task.programs[1:])
    assert program.better(task, rows) == [f"{task.title}: each of {names} needs 50 MiB, where we need 100."]


def test_a_program_that_failed_is_shown_with_its_reason(program):
    shown = program.figures(program.TASKS[0].programs[1], {"failed": "cannot be installed"})
    assert shown == "OpenDP: cannot be installed"
