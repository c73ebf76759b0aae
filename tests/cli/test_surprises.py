"""Whole-day accidents at the command line: before the payment, and in warnings after it."""

import re

import pytest

import tallytree as tt
from tallytree.cli.failures import ExitCode
from tallytree.ledger import Ledger

SPEC = """\
statistic: counts
records: trips/*.csv
hierarchy: {path: areas.csv, levels: [town]}
period_column: day
neighboring: add_remove
budget: {epsilon: 1}
ledger: ledger.db
dataset: trips
"""
ASKED = " Are the files and the period right? `tallytree lint` looks at the records."


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "areas.csv").write_text("town\na\nb\n")
    (tmp_path / "spec.yaml").write_text(SPEC)
    (tmp_path / "trips").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")
    return tmp_path


def rows(day, n):
    return [f"{'ab'[i % 2]},{day}" for i in range(n)]


@pytest.fixture
def release(run, folder):
    """Releases a day from its files; gives the warnings without what is asked in each."""

    def made(day, *files, out=None, options=()):
        for old in (folder / "trips").iterdir():
            old.unlink()
        for i, lines in enumerate(files):
            (folder / "trips" / f"{i}.csv").write_text("\n".join(["town,day", *lines]) + "\n")
        result = run("release", "spec.yaml", "--out", folder / "days" / (out or day), "--run", day, "--quiet", *options)
        assert result.exit_code == 0, result.stderr
        found = [line for line in result.stderr.splitlines() if line.startswith("warning")]
        assert all(line.endswith(ASKED) for line in found)
        return [line.removeprefix("warning: ").removesuffix(ASKED) for line in found]

    return made


def test_the_file_of_the_day_before_is_seen_by_what_is_published(release, folder):
    friday = rows("2024-03-01", 10_000)
    assert release("2024-03-01", friday) == []
    said = release("2024-03-02", friday)
    now, before = (tt.Release.load(f"days/2024-03-0{day}").table("total").to_pylist()[0] for day in (2, 1))
    if now["count"] == 0 or now["quality"] == "not_distinguishable_from_0":  # by the noise, in nine of ten cases
        assert said.pop(0) == "The total is not distinguishable from 0."
    count, before = now["count"], before["count"]
    assert said[0] == f"The total is far from the run before (-100%): {count:,}, and {before:,} in '2024-03-01'."
    assert release("2024-03-03", rows("2024-03-03", 9_000))[0].startswith("The total is far from the run before")
    # Runs are in order of their days, whatever was released last, or is in the folder besides.
    (folder / "days" / "other").mkdir()
    (folder / "days" / "other" / "release.json").write_text("{}")
    assert release("2024-02-29", rows("2024-02-29", 6_000)) == []
    assert release("2024-03-01", rows("2024-03-01", 7_000), out="again", options=("--on-changed", "charge")) == []


def test_a_file_that_is_there_twice_is_seen_in_the_doubled_total(release):
    day = rows("2024-03-05", 1_000)
    assert release("2024-03-04", rows("2024-03-04", 1_100)) == []
    (said,) = release("2024-03-05", day, day)
    assert re.fullmatch(
        r"The total is far from the run before \(\+8\d%\): [12],\d{3}, and 1,\d{3} in '2024-03-04'\.", said
    )


def test_dates_of_another_form_spend_nothing(run, folder):
    (folder / "trips" / "a.csv").write_text("town,day\na,2024-03-01\nb,01/03/2024\n")
    refused = run("release", "spec.yaml", "--out", "days", "--run", "2024-03-01")
    assert refused.exit_code == ExitCode.INPUT
    assert "column 'day' (period_column) has text that is no date in a form that is read" in refused.stderr
    assert "01/03" not in refused.stderr
    assert not Ledger("ledger.db").path.exists() or Ledger("ledger.db").entries() == ()
    assert not (folder / "days").exists()
    dropped = run("release", "spec.yaml", "--out", "days", "--run", "2024-03-01", "--set", "on_unknown=drop", "--quiet")
    assert dropped.exit_code == 0
