"""`tallytree audit` at the command line."""

import pytest
from typer.testing import CliRunner

from helpers.inside import KeyedNoise, audit_progress
from tallytree.cli.app import app
from tallytree.lab.audit import auditing
from tallytree.lab.audit import library as library_of_audits
from tallytree.mechanisms import Noise


class HalfScale(KeyedNoise):
    """A noise source with a fault."""

    def draw(self, noise, address, cells):
        return super().draw(Noise(noise.distribution, noise.scale / 2), address, cells)


@pytest.fixture(autouse=True)
def few_cases(monkeypatch):
    """Counts with pure budgets, which is four audits."""
    everything = library_of_audits.library_cases

    def some(epsilon, mechanism):
        cases = everything(epsilon, mechanism)
        return [case for case in cases if (case.name, case.budget.kind) == ("counts TopDown()", "pure")]

    monkeypatch.setattr(library_of_audits, "library_cases", some)
    monkeypatch.setenv("COLUMNS", "120")


def run(*arguments):
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


@pytest.mark.slow
def test_the_library_passes_and_a_table_says_so():
    result = run("--runs", 2_000)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["mechanism", "neighboring", "m", "stated", "at", "least", "exact", "verdict"]
    assert lines[2].startswith("counts TopDown()  add_remove   1  ε 1")
    assert "4 of 4 passed. Each lower bound is right with confidence 0.9999, from 2,000 runs" in result.stdout
    assert result.stderr == ""


@pytest.mark.slow
def test_a_fault_is_shown_and_the_exit_code_is_1(monkeypatch):
    # The true losses are 2, and 4/3 for change_one with m = 3.
    monkeypatch.setattr(auditing, "KeyedNoise", HalfScale)
    monkeypatch.setitem(auditing.audit_subject.__kwdefaults__, "source", HalfScale)
    result = run("--runs", 30_000, "--mechanism", "TopDown")
    assert result.exit_code == 1
    assert "FAILED" in result.stdout
    assert "error" not in result.output


def test_the_stated_loss_can_be_chosen():
    assert "ε 0.3" in run("--runs", 500, "--epsilon", 0.3).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mechanism", "Magic"], "error: mechanism: 'Magic' is not known; choose one of LeafGaussian, "),
        (["--runs", 3], "error: runs: 3 must be at least 100"),
        (["--epsilon", 0], "error: epsilon: 0.0 must be greater than 0"),
    ],
)
def test_mistakes_are_one_line(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1


def test_progress_is_drawn_where_it_is_wanted_and_nowhere_else(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    for shown in (False, True):
        with audit_progress(shown, 2) as begin:
            begin("counts TopDown()")
            begin("[red] brackets")
        drawn = capsys.readouterr()
        assert drawn.out == ""
        assert ("brackets" in drawn.err) == shown
