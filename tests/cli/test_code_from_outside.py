"""Mechanisms from outside in specs and commands: what is imported when, exit codes, marks; entry points."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.inside import foreign
from tallytree.cli.failures import ExitCode
from tallytree.spec import load_spec

HELPERS = Path(__file__).parents[1] / "helpers"
SPEC = """\
statistic: counts
records: people.parquet
hierarchy: {path: areas.parquet, levels: [state, county]}
budget: {epsilon: 0.5}
neighboring: add_remove
mechanism: {name: "helpers.foreign:UniformBelow", options: {level: state}}
"""
BROKEN = """
from dataclasses import dataclass
from helpers.foreign import Rounded
from tallytree.mechanisms import ReleasedCounts


@dataclass(frozen=True)
class OnlyHere(Rounded):
    def reconcile(self, tree, total, measurer):
        levels = super().reconcile(tree, total, measurer)
        if 250 < sum(levels[-1].counts) < 350:
            levels[0] = ReleasedCounts(levels[0].nodes, levels[0].counts + 7)
        return levels
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with tables and specs that name code."""
    areas = {"state": ["A", "A", "B"], "county": ["x", "y", "x"]}
    pq.write_table(pa.table(areas), tmp_path / "areas.parquet")
    pq.write_table(pa.table({name: values * 100 for name, values in areas.items()}), tmp_path / "people.parquet")
    (tmp_path / "counts.yaml").write_text(SPEC)
    (tmp_path / "plain.yaml").write_text(SPEC.partition("mechanism")[0])
    (tmp_path / "only_here.py").write_text(BROKEN)
    broken = SPEC.replace("helpers.foreign:UniformBelow", "only_here:OnlyHere").replace(", options: {level: state}", "")
    (tmp_path / "broken.yaml").write_text(broken)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("only_here", None)


@pytest.fixture
def entry_points(monkeypatch):
    """Installs entry points: names and values of the group, for as long as the test lasts."""

    class Point:
        def __init__(self, name, value):
            self.name, self.value = name, value

    def install(*pairs):
        points = [Point(*pair) for pair in pairs]
        monkeypatch.setattr(foreign, "entry_points", lambda *, group: points if group == foreign.GROUP else [])

    return install


COMMANDS = [
    ("check", "broken.yaml"),
    ("release", "broken.yaml", "--out", "out"),
    ("plan", "broken.yaml"),
    ("lint", "broken.yaml", "--private-out", "found.json"),
    ("contributions", "broken.yaml", "--out", "out"),
    ("reconcile", "earlier", "broken.yaml", "--out", "out"),
    ("audit", "--mechanism", "only_here:OnlyHere"),
    ("audit", "--replay", "--mechanism", "only_here:OnlyHere"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_no_command_imports_code_that_was_not_allowed(folder, refusal, command):
    if "earlier" in command:
        tt.release_counts("people.parquet", _areas(), tt.Budget(epsilon=1), neighboring="add_remove").save("earlier")
    said = refusal(*command)
    assert "'only_here:OnlyHere' is code from outside, which runs beside the private data and is not audited" in said
    assert said.endswith("allow it with --allow-code (in Python allow_code=True)")
    assert "only_here" not in sys.modules
    assert not (folder / "out").exists()


def test_python_allows_code_by_an_argument(folder):
    with pytest.raises(ValueError, match=r"^broken.yaml, line 6, mechanism.name: 'only_here:OnlyHere'"):
        load_spec("broken.yaml")
    assert "only_here" not in sys.modules
    with pytest.raises(ValueError, match="is code from outside"):
        tt.plan("broken.yaml")
    assert type(load_spec("broken.yaml", allow_code=True).plan().mechanism).__name__ == "OnlyHere"
    assert tt.plan("broken.yaml", allow_code=True).mechanism == "OnlyHere"


@pytest.mark.slow
def test_a_release_by_code_is_checked_made_read_and_replicated(folder, run, output, refusal):
    said = output("check", "counts.yaml", "--allow-code")
    assert "is code from outside, not audited by tallytree" in said
    assert "is code from outside, not audited" in output("release", "counts.yaml", "--out", "out", "--allow-code")
    sys.modules.pop("helpers.foreign", None)
    for command in (("report", "out", "--out", "r.html"), ("export", "out", "--to", "csv", "--out", "csv")):
        output(*command)
    assert "not audited by tallytree" in (folder / "r.html").read_text()
    assert tt.Release.load("out").table("county").num_rows == 3
    assert "helpers.foreign" not in sys.modules
    said = refusal("error", "out")
    assert said.startswith("release: its mechanism 'helpers.foreign:UniformBelow' is code from outside, which is not")
    assert "helpers.foreign" not in sys.modules
    pq.write_table(pa.table({"state": ["A"], "county": ["x"]}), "chosen.parquet")
    output("total", "out", "chosen.parquet", "--replicates", "10", "--allow-code")
    output("error", "out", "--replicates", "10", "--allow-code")
    covers = tt.Release.load("out").statement["errors"]["covers"]
    assert "What it assumes beside its measurements is in the published numbers" in covers


def test_a_broken_promise_has_an_exit_code_of_its_own_and_is_made_right(folder, run, output):
    made = run("release", "broken.yaml", "--out", "out", "--allow-code")
    assert made.exit_code == ExitCode.BROKEN == 7
    assert "BROKEN PROMISE. OnlyHere (only_here:OnlyHere)" in made.stdout
    lines = made.stderr.splitlines()
    assert lines[0].startswith("warning: BROKEN PROMISE.")
    assert lines[-1] == "error: out is saved, and marked: its mechanism broke a promise (adds_up)"
    output("report", "out", "--out", "r.html")
    assert "BROKEN PROMISE" in (folder / "r.html").read_text()
    assert run("release", "broken.yaml", "--out", "again", "--allow-code", "--quiet").exit_code == ExitCode.BROKEN
    assert "BROKEN" not in output("reconcile", "out", "plain.yaml", "--out", "right")
    right = json.loads((folder / "right" / "release.json").read_text())["statement"]
    assert (right["mechanism"]["name"], right["constraint_violations"]) == ("LeastSquares", 0)


def test_an_installed_mechanism_is_named_by_its_entry_point(folder, output, entry_points):
    entry_points(("uniform", "helpers.foreign:UniformBelow"), ("other", "no_such_module:Other"))
    (folder / "counts.yaml").write_text(SPEC.replace("helpers.foreign:UniformBelow", "uniform"))
    output("release", "counts.yaml", "--out", "out", "--no-report")
    sys.modules.pop("helpers.foreign", None)
    output("error", "out", "--replicates", "10", "--no-report")
    assert "no_such_module" not in sys.modules


@pytest.mark.parametrize(
    ("name", "options", "points", "says"),
    [
        ("uniform", "{level: state}", [("uniform", "a:B"), ("uniform", "c:D")], "several installed packages offer 'u"),
        ("unifrom", "{level: state}", [("uniform", "a:B")], "'unifrom' is not a mechanism for counts; did you mean u"),
        ("uniform", "{level: state}", [("uniform", "no_such_module:B")], r"'no_such_module:B' cannot be imported \(Mo"),
        ("helpers.foreign:Nobody", "{}", [], r"'helpers.foreign:Nobody' cannot be imported \(AttributeError: "),
        ("helpers.foreign:LeafTails", "{}", [], "'helpers.foreign:LeafTails' is the class LeafTails; it must be a fro"),
        ("os:system", "{}", [], "'os:system' is builtin_function_or_method; it must be a frozen dataclass whose base"),
        ("a b:c", "{}", [], "'a b:c' must be module:Class, such as my_package.uniform:Uniform"),
        ("helpers.foreign:UniformBelow", "{lvel: state}", [], "'lvel' is .*did you mean level"),
        ("helpers.foreign:UniformBelow", "{level: town}", [], "level: 'town' must be one of state, county"),
    ],
)  # fmt: skip
def test_names_and_options_that_are_wrong_are_refused(folder, refusal, entry_points, name, options, points, says):
    entry_points(*points)
    (folder / "counts.yaml").write_text(
        SPEC.replace("helpers.foreign:UniformBelow", name).replace("{level: state}", options)
    )
    said = refusal("check", "counts.yaml", "--allow-code")
    assert said.startswith("counts.yaml")
    assert re.search(says, said), said


def test_a_class_that_refuses_its_options_is_named(folder, refusal):
    (folder / "strict.py").write_text(
        "from dataclasses import dataclass\nfrom helpers.foreign import UniformBelow\n\n\n@dataclass(frozen=True)\n"
        "class Strict(UniformBelow):\n    def __post_init__(self):\n        raise RuntimeError('no')\n"
    )
    (folder / "counts.yaml").write_text(SPEC.replace("helpers.foreign:UniformBelow", "strict:Strict"))
    assert refusal("check", "counts.yaml", "--allow-code") == (
        "counts.yaml, line 6, mechanism: 'strict:Strict' does not take the options level (RuntimeError: no); correct "
        "them"
    )


def test_a_mechanism_of_the_library_keeps_its_name(folder, entry_points):
    entry_points(("TopDown", "no_such_module:TopDown"))
    (folder / "counts.yaml").write_text(SPEC.partition("mechanism")[0] + "mechanism: {name: TopDown}\n")
    assert load_spec("counts.yaml").plan().mechanism == tt.counts.TopDown()


AUDIT = ("audit", "--mechanism", "helpers.foreign:UniformBelow", "--allow-code")


@pytest.mark.slow
def test_the_audit_takes_a_mechanism_from_outside(folder, run):
    found = run(*AUDIT, "--option", "level=county", "--runs", "100")
    assert found.exit_code == 0, found.output
    assert "18 of 18 passed" in found.stdout


def test_what_the_audit_does_not_take_is_refused(folder, refusal):
    assert refusal(*AUDIT, "--option", "level") == "option: 'level' must be KEY=VALUE, such as level=county"
    assert refusal("audit", "--option", "level=county").startswith("option: it is of a mechanism from outside; name ")
    assert refusal("audit", "--replay", "--mechanism", "TopDown").startswith("mechanism: 'TopDown' is no mechanism ")
    assert refusal(*AUDIT, "--option", "level=town").startswith("mechanism: UniformBelow(level='town', add=0) refuses")


@pytest.mark.slow
def test_an_entry_point_that_is_really_installed_is_found(tmp_path):
    """In a process of its own, with the metadata of a package on its path."""
    about = tmp_path / "uniform-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: uniform\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[tallytree.mechanisms]\nuniform-below = helpers.foreign:UniformBelow\n")
    script = (
        "from tallytree.kinds.foreign import installed, installed_class\n"
        "from tallytree.mechanisms import CountsMechanism\n"
        "print(installed(), installed_class('uniform-below', CountsMechanism).__name__)"
    )
    paths = os.pathsep.join([str(tmp_path), str(HELPERS.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    found = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split("\n")[0] == "['uniform-below'] UniformBelow"


def _areas():
    return tt.Hierarchy.from_table("areas.parquet", levels=["state", "county"])
