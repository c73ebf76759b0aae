"""Lines on standard error: warnings, errors and stages, as text and as JSON."""

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tallytree.cli.failures import ExitCode
from tallytree.cli.logs import KEYS

SPEC = """\
statistic: counts
records: people.parquet
hierarchy: {path: areas.parquet, levels: [state, county]}
budget: {epsilon: 1}
neighboring: add_remove
"""
STAGES = ["plan", "tabulate", "record", "measure", "reconcile", "save"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a spec of counts and its tables."""
    areas = {"state": ["A", "A", "B"], "county": ["x", "y", "x"]}
    pq.write_table(pa.table(areas), tmp_path / "areas.parquet")
    pq.write_table(pa.table({name: values * 137 for name, values in areas.items()}), tmp_path / "people.parquet")
    (tmp_path / "counts.yaml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def lines(run):
    """Runs a command that logs JSON; gives its exit code and its lines."""

    def command(*arguments):
        result = run(*arguments, "--log-format", "json")
        return result.exit_code, [json.loads(line) for line in result.stderr.splitlines()]

    return command


def test_stages_are_one_line_each(folder, run):
    result = run("release", "counts.yaml", "--out", "out", "--verbose")
    shown = [
        re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (\w+): \d+\.\d s", line)[1]
        for line in result.stderr.splitlines()
    ]
    assert (result.exit_code, shown) == (0, STAGES)
    assert "Release: out" in result.stdout


def test_without_verbose_nothing_is_said(folder, run):
    assert run("release", "counts.yaml", "--out", "out").stderr == ""


def test_each_line_of_json_has_all_keys(folder, lines, run):
    run("limit", "ledger.db", "people", "--epsilon", "9", "--neighboring", "add_remove")
    at = ["--ledger", "ledger.db", "--dataset", "people"]
    code, found = lines("release", "counts.yaml", "--out", "out", "-v", *at)
    assert code == 0
    assert [line["stage"] for line in found] == STAGES
    for line in found:
        assert tuple(line) == KEYS
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", line["time"])
        assert (line["level"], line["event"], line["dataset"]) == ("info", "stage", "people")
        assert round(line["seconds"], 1) == line["seconds"]


def test_no_line_holds_a_number_of_records(folder, run):
    shown = run("release", "counts.yaml", "--out", "out", "-v", "--log-format", "json").stderr
    assert not re.search(r"137|274|411", re.sub(r'"time": "[^"]*"', "", shown))


def test_warnings_are_lines_too(folder, lines):
    (folder / "counts.yaml").write_text(SPEC + "seed: 7\n")
    code, found = lines("check", "counts.yaml")
    assert code == 0
    assert [(line["level"], line["event"]) for line in found] == [("warning", "warning")]
    assert found[0]["message"].startswith("NOT PRIVATE. The noise is drawn from seed 7")


def test_what_is_published_exactly_is_said_in_lines_too(folder, lines):
    code, found = lines("release", "counts.yaml", "--out", "out", "--quiet")
    assert code == 0
    assert [line["event"] for line in found] == ["invariants"] * 2
    assert found[1]["message"] == "the hierarchy"


def test_an_error_is_a_line_with_its_exit_code(folder, lines):
    (folder / "out").mkdir()
    code, found = lines("release", "counts.yaml", "--out", "out")
    assert code == ExitCode.EXISTS
    assert [(line["level"], line["event"], line["exit_code"]) for line in found] == [("error", "error", code)]
    assert found[0]["message"].startswith("folder: ")


def test_the_stage_that_failed_is_said(folder, lines):
    pq.write_table(pa.table({"state": ["Nowhere"], "county": ["x"]}), folder / "people.parquet")
    code, found = lines("release", "counts.yaml", "--out", "out", "-v")
    assert code == ExitCode.INPUT
    assert [line["stage"] for line in found] == ["plan", "tabulate", None]
    assert found[1]["message"].startswith("tabulate: failed after ")


def test_the_format_can_be_set_for_all_commands(folder, run, monkeypatch):
    monkeypatch.setenv("TALLYTREE_LOG_FORMAT", "json")
    result = run("check", "nowhere.yaml")
    assert json.loads(result.stderr)["exit_code"] == result.exit_code == ExitCode.INPUT


def test_another_format_is_a_usage_error(folder, run):
    assert run("check", "counts.yaml", "--log-format", "xml").exit_code == ExitCode.INPUT
