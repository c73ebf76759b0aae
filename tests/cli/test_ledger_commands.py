"""The ledger at the command line."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.metadata import version

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.inside import Approval
from helpers.ledger_entries import posting, pure
from tallytree.cli.failures import ExitCode
from tallytree.ledger import Ledger
from tallytree.release import Release

SPEC = """\
statistic: counts
records: people.parquet
hierarchy: {path: areas.parquet, levels: [state, county]}
budget: {epsilon: 0.5}
neighboring: add_remove
"""
HERE = ["--ledger", "ledger.db", "--dataset", "people"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    areas = {"state": ["A", "A", "B"], "county": ["x", "y", "x"]}
    pq.write_table(pa.table(areas), tmp_path / "areas.parquet")
    pq.write_table(pa.table({name: values * 100 for name, values in areas.items()}), tmp_path / "people.parquet")
    (tmp_path / "counts.yaml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def test_releases_are_recorded_until_the_limit_is_reached(folder, output, refusal):
    said = output("limit", "ledger.db", "people", "--epsilon", "1.2", "--neighboring", "add_remove")
    assert said == "Ledger: ledger.db: people: 0 releases spent epsilon 0 of epsilon 1.2; epsilon 1.2 is left.\n"
    for number, left in (
        (1, "1 release spent epsilon 0.5 of epsilon 1.2; epsilon 0.7"),
        (2, "2 releases spent epsilon 1"),
    ):
        assert f"ledger.db: people: {left}" in output("release", "counts.yaml", "--out", f"out{number}", *HERE)
    assert refusal("release", "counts.yaml", "--out", "out3", *HERE, code=ExitCode.BUDGET) == (
        "budget: epsilon 0.5 is more than the epsilon 0.2 that is left of the limit of the data set 'people', "
        "epsilon 1.2; give a smaller budget, or raise the limit with `tallytree limit`"
    )
    assert not (folder / "out3").exists()
    assert Release.load("out2").statement["ledger"] == {"dataset": "people", "recorded": True}
    assert str(folder) not in (folder / "out2" / "release.json").read_text()


def moments(entries):
    return [each.replace("T", " ").rstrip("Z") for each in entries]


def test_a_ledger_is_listed(folder, output, monkeypatch):
    monkeypatch.setenv("COLUMNS", "130")
    for number in (1, 2):
        output("release", "counts.yaml", "--out", f"out{number}", *HERE)
    output("limit", "ledger.db", "people", "--rho", "0.2", "--approved-by", "A. Person", "--ticket", "DP-7")
    output("limit", "ledger.db", "trips", "--rho", "0.1", "--neighboring", "bounded", "--unit", "trip")
    ledger = Ledger("ledger.db")
    when = moments(entry.recorded_at for entry in ledger.entries())
    ids = [[entry.release_id[:8], entry.plan[:8]] for entry in ledger.entries()]
    (limit,) = ledger.dataset("people").limits
    (other,) = ledger.dataset("trips").limits
    table, _, end = output("ledger", "ledger.db").partition("Limit of")
    assert [re.split(" {2,}", line.strip()) for line in table.splitlines()] == [
        ["people: add_remove, unit person; limit rho 0.2"],
        ["entry", "recorded (UTC)", "statistic", "mechanism", "m", "spent", "in all", "state", "release", "plan"],
        [table.splitlines()[2]],
        ["1", when[0], "counts", "LeastSquares", "1", "epsilon 0.5", "rho 0.0416667", "finished", *ids[0]],
        ["2", when[1], "counts", "LeastSquares", "1", "epsilon 0.5", "rho 0.0833334", "finished", *ids[1]],
        ["limit", *moments([limit.set_at]), "at most rho 0.2", "set"],
    ]
    assert end == (
        f" {moments([limit.set_at])[0]}: approved by A. Person; ticket DP-7.\n"
        "2 releases spent rho 0.0833334 of rho 0.2; rho 0.116666 is left.\n"
        "\n"
        "trips: change_one, one trip per person; limit rho 0.1\n"
        "entry       recorded (UTC)  in all           state\n"
        "──────────────────────────────────────────────────\n"
        f"limit  {moments([other.set_at])[0]}  at most rho 0.1  set  \n"
        "0 releases spent rho 0 of rho 0.1; rho 0.1 is left.\n"
        "\n"
        f"Head: {ledger.head}\n"
    )
    assert output("ledger", "ledger.db", "--dataset", "trips").startswith("trips: ")


def test_a_listing_fits_80_columns_and_names_the_run(folder, output, monkeypatch):
    """Where the table is too wide, each entry is a paragraph."""
    monkeypatch.setenv("COLUMNS", "80")
    given = posting(pure("1/2"), run="2026-11-22", plan="ab" * 32, approval=Approval(reason="a long reason " * 30))
    Ledger("ledger.db").record(given, statistics=lambda release_id: "cd" * 32)
    (entry,) = Ledger("ledger.db").entries()
    listed = output("ledger", "ledger.db")
    paragraph = " ".join(listed.splitlines()[1:4])
    assert all(len(line) <= 80 for line in listed.splitlines() if not line.startswith("Entry 1: reason: a long reason"))
    for fact in ("1: recorded (UTC)", "m 1", "run 2026-11-22", f"release {entry.release_id[:8]}", "plan abababab"):
        assert fact in paragraph


def test_a_limit_needs_an_amount(folder, refusal):
    assert refusal("limit", "ledger.db", "people", "--neighboring", "add_remove") == (
        "epsilon: no amount is given; add --epsilon NUMBER, with --delta or without, or --rho NUMBER"
    )


def test_a_ledger_without_a_limit_says_so(folder, output):
    output("release", "counts.yaml", "--out", "out", *HERE)
    listed = output("ledger", "ledger.db")
    assert listed.startswith("people: add_remove, unit person; no limit\n")
    assert "\n1 release spent epsilon 0.5; no limit is set (`tallytree limit` sets one).\n" in listed
    empty = Ledger.create("empty.db", strict=True)
    assert output("ledger", "empty.db") == (
        f"The ledger is empty.\nStrict: releases of data sets without a limit are refused.\nHead: {empty.head}\n"
    )


def test_a_ledger_is_json_too_with_exact_amounts(folder, output):
    output("limit", "ledger.db", "people", "--epsilon", "0.5", "--neighboring", "add_remove", "--reason", "a test")
    output("release", "counts.yaml", "--out", "out", *HERE)
    ledger = json.loads(output("ledger", "ledger.db", "--json"))
    (people,) = ledger.pop("datasets")
    assert ledger == {"strict": True, "events": 5, "head": Ledger("ledger.db").head}
    (release,) = people.pop("releases")
    (limit,) = people.pop("limits")
    assert people == {
        "dataset": "people",
        "neighboring": "add_remove",
        "max_contributions": None,
        "unit": "person",
        "limit": {"epsilon": 0.5},
        "spent": {"epsilon": 0.5},
        "remaining": {"epsilon": 0.0},
        "window_limits": {},
    }
    assert limit.pop("set_at").endswith("Z")
    assert limit == {
        "event": 3,
        "limit": {"epsilon": 0.5},
        "exact": {"epsilon": "1/2"},
        "window": "all",
        "raised": False,
        "approved_by": None,
        "reason": "a test",
        "ticket": None,
    }
    (entry,) = Ledger("ledger.db").entries()
    assert release.pop("recorded_at").endswith("Z")
    assert release == {
        "number": 1,
        "event": 4,
        "release_id": entry.release_id,
        "run": entry.run,
        "period": None,
        "revises": None,
        "prior": None,
        "plan": entry.plan,
        "statistics": None,
        "inputs": None,
        "statistic": "counts",
        "mechanism": "LeastSquares",
        "max_contributions": 1,
        "unit": "record",
        "state": "finished",
        "spent": {"epsilon": 0.5},
        "exact": {"epsilon": "1/2", "delta": "0", "rho": "1/24"},
        "approved_by": None,
        "reason": None,
        "ticket": None,
        "version": version("tallytree"),
    }


def test_check_shows_the_room_and_records_nothing(folder, output, refusal):
    assert "people: 0 releases spent epsilon 0; no limit is set" in output("check", "counts.yaml", *HERE)
    assert not (folder / "ledger.db").exists()
    output("limit", "ledger.db", "people", "--epsilon", "0.4", "--neighboring", "add_remove")
    message = refusal("check", "counts.yaml", *HERE, code=ExitCode.BUDGET)
    assert message.startswith("budget: epsilon 0.5 is more than the epsilon 0.4 ")
    output("limit", "ledger.db", "people", "--epsilon", "0.6", "--reason", "a second release")
    assert "of epsilon 0.6; epsilon 0.6 is left.\n" in output("check", "counts.yaml", *HERE)
    assert Ledger("ledger.db").entries() == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ledger", "nowhere.db"], "ledger: no file at 'nowhere.db'; give the path of a ledger"),
        (["ledger", "counts.yaml"], "ledger: 'counts.yaml' is not a tallytree ledger, or a damaged one; "),
        (["ledger", "one.db", "--dataset", "x"], "dataset: the ledger 'one.db' has no 'x'; it has 'people'"),
        (["limit", "one.db", "people"], "epsilon: no amount is given; add --epsilon NUMBER"),
        (["limit", "one.db", "people", "--epsilon", "one"], "epsilon: 'one' must be a number"),
        (["limit", "one.db", "people", "--epsilon", "1e99999"], "epsilon: 1e99999 is out of range"),
        (["limit", "one.db", "people", "--epsilon", "-1"], "epsilon: -1 must be greater than 0"),
        (["limit", "one.db", "people", "--epsilon", "0"], "epsilon: 0 must be greater than 0"),
        (["limit", "one.db", "people", "--epsilon", "1", "--delta", "1.5"], "delta: 1.5 must lie strictly between "),
        (["limit", "one.db", "people", "--delta", "1e-8"], "epsilon: none is given beside the delta 1e-8; add --eps"),
        (["limit", "one.db", "people", "--rho", "1", "--epsilon", "2"], "epsilon: 2 has no place beside --rho; give "),
        (["limit", "one.db", "people", "--rho", "1", "--delta", "1e-8"], "delta: 1e-8 has no place beside --rho; "),
        (["limit", "one.db", "--epsilon", "1"], "dataset: no data set is named; give its name after the ledger"),
        (["limit", "one.db"], "dataset: no data set is named; give its name after the ledger"),
        (["limit", "nowhere.db", "people", "--epsilon", "1"], "neighboring: the ledger does not know the data set "),
        (["limit", "nowhere.db", "--strict"], "ledger: no file at 'nowhere.db'; give the path of a ledger"),
        (["limit", "one.db", "people", "--epsilon", "4"], "reason: the limit of the data set 'people', epsilon 3, "),
        (["limit", "one.db", "people", "--epsilon", "1", "--ticket", ""], "ticket: '' must be one line of 1 to 500 "),
        (["ledger", "plan", "one.db", "--dataset", "x", "--runs", "7"], "dataset: the ledger 'one.db' has no 'x'; "),
        (["ledger", "plan", "one.db", "--dataset", "people", "--runs", "0"], "runs: 0 must be at least 1"),
        (["ledger", "plan", "one.db", "--dataset", "people", "--runs", "7", "--delta", "2"], "delta: 2 must lie "),
        (["limit", "one.db", "x", "--rho", "1"], "neighboring: the ledger does not know the data set 'x' yet; "),
        (["limit", "one.db", "people", "--rho", "1", "--neighboring", "change_one"], "neighboring: 'change_one' is "),
        (["limit", "one.db", "people", "--rho", "1", "--unit", "house"], "unit: 'house' is not known; "),
        (["release", "counts.yaml", "--out", "out", "--ledger", "one.db"], "counts.yaml: dataset: the ledger 'one.db'"),
        (["release", "counts.yaml", "--out", "out", "--dataset", "x"], "counts.yaml: dataset: 'x' is a name in a "),
        (
            ["release", "counts.yaml", "--out", "out", "--ledger", "counts.yaml", "--dataset", "x"],
            "counts.yaml: ledger: ",
        ),
    ],
)
def test_a_mistake_is_one_line(folder, refusal, arguments, message):
    Ledger("one.db").set_limit("people", tt.Budget(epsilon=3), neighboring="add_remove")
    assert refusal(*arguments).startswith(message)
    assert Ledger("one.db").entries() == ()


def test_a_seeded_spec_is_refused(folder, run):
    (folder / "counts.yaml").write_text(SPEC + "seed: 1\n")
    result = run("release", "counts.yaml", "--out", "out", *HERE)
    assert result.exit_code == ExitCode.INPUT
    assert (
        "error: counts.yaml, line 6, seed: 1 makes a release that is not private, so no ledger takes it"
        in result.stderr
    )
    assert not (folder / "ledger.db").exists()


def test_a_ledger_that_cannot_be_read_afterwards_does_not_make_a_saved_release_fail(folder, run, monkeypatch):
    def fail(self, name):
        raise TimeoutError("ledger: 'ledger.db' is locked by another process")

    monkeypatch.setattr(Ledger, "standing", fail)
    result = run("release", "counts.yaml", "--out", "out", *HERE)
    assert result.exit_code == 0
    assert result.stderr == "warning: The ledger cannot be shown: ledger: 'ledger.db' is locked by another process\n"
    assert Release.load("out").levels == ("all", "state", "county")


def test_a_release_that_cannot_be_saved_stays_started_and_spent(folder, output, refusal, monkeypatch):
    def fail(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tallytree.release.release.sha256", fail)
    refusal("release", "counts.yaml", "--out", "out", *HERE, code=ExitCode.SYSTEM)
    (entry,) = Ledger("ledger.db").entries()
    assert entry.state == "started"
    assert Ledger("ledger.db").spent("people") == {"epsilon": entry.loss.epsilon}
    assert output("ledger", "ledger.db").count("started") == 1


def start(*arguments, program="from tallytree.cli import main; main()"):
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.slow
def test_a_release_that_is_killed_while_it_is_saved_counts_as_spent(folder, output, refusal):
    output("limit", "ledger.db", "people", "--epsilon", "0.5", "--neighboring", "add_remove")
    program = (
        "import time\n"
        "from pathlib import Path\n"
        "from tallytree import cli\n"
        "from tallytree.release import release\n"
        "def wait(path):\n"
        "    Path('saving').touch()\n"
        "    time.sleep(600)\n"
        "release.sha256 = wait\n"
        "cli.main()\n"
    )
    with start("release", "counts.yaml", "--out", "out", *HERE, program=program) as process:
        while not (folder / "saving").exists() and process.poll() is None:
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
    assert not (folder / "out").exists()
    assert output("ledger", "ledger.db").count("started") == 1
    message = refusal("release", "counts.yaml", "--out", "out", *HERE, code=ExitCode.BUDGET)
    assert message.startswith("budget: epsilon 0.5 is more than the ")


@pytest.mark.slow
def test_two_releases_at_once_cannot_both_pass(folder, output):
    output("limit", "ledger.db", "people", "--epsilon", "0.9", "--neighboring", "add_remove")
    both = [start("release", "counts.yaml", "--out", f"out{i}", *HERE) for i in range(2)]
    ends = [(process.communicate(timeout=600), process.returncode) for process in both]
    assert sorted(code for _, code in ends) == [0, ExitCode.BUDGET], ends
    assert [(folder / f"out{i}").exists() for i in range(2)] == [code == 0 for _, code in ends]
    assert len(Ledger("ledger.db").entries()) == 1


@pytest.mark.slow
def test_limits_of_windows_are_set_listed_and_reported(folder, output, refusal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    said = output("limit", "ledger.db", "people", "--epsilon", "1", "--neighboring", "add_remove", "--per", "week")
    assert said == (
        "Ledger: ledger.db: people: 0 releases spent epsilon 0; no limit is set for all time (`tallytree limit` sets "
        "one); at most epsilon 1 in a week.\n"
    )
    for day in ("02", "04", "09"):
        output("release", "counts.yaml", *HERE, "--out", day, "--set", f"run='2026-03-{day}'")
    more = ["release", "counts.yaml", *HERE, "--out", "more", "--set", "period=2026-W10"]
    assert "2026-03-02/2026-03-08" in refusal(*more, code=ExitCode.BUDGET)
    listed = output("ledger", "ledger.db", "--period", "week")
    assert re.search(r"2026-03-02/2026-03-08 +2 +epsilon 1 +epsilon [0-9.]+ +epsilon 1 +epsilon 0", listed)
    assert "limit epsilon 1 in a week" in (listed := output("ledger", "ledger.db"))
    assert "; most in 2026-03-02/2026-03-08: epsilon 1 of the epsilon 1 of a week." in listed
    found = json.loads(output("ledger", "ledger.db", "--period", "month", "--json"))["datasets"][0]
    assert [(each["window"], each["releases"]) for each in found["windows"]] == [("2026-03-01/2026-03-31", 3)]
    assert output("ledger", "report", "ledger.db", "--out", "page.html") == "Report: page.html\n"
    page = (folder / "page.html").read_text()
    assert "2026-03-09/2026-03-15" in page
    assert "has all 3 releases" in page
    # Of (1.5, 0) the bound is exp(1.5) · 0.05 = 0.224; of the ρ of nine levels with ε = 1/6 each, 0.148.
    assert "in at most 15 of 100 cases; blind guessing finds it out in 5%." in page
    assert "Approved by" in page
    again = refusal("ledger", "report", "ledger.db", "--out", "page.html", code=ExitCode.EXISTS)
    assert "exists; choose another name" in again
    assert "has no limit of all time in the ledger" in refusal(
        "ledger", "plan", "ledger.db", "--dataset", "people", "--runs", "2"
    )
    output("limit", "ledger.db", "people", "--epsilon", "9")
    planned = output("ledger", "plan", "ledger.db", "--dataset", "people", "--runs", "2")
    assert planned.splitlines()[-1] == (
        "This is the limit of all time alone. Each run also has to fit into its windows: epsilon 1 in a week."
    )
    assert "period: 'day' is not known" in refusal("ledger", "ledger.db", "--period", "day")
    assert "begins: 'soon' is no day" in refusal(
        "limit", "ledger.db", "people", "--epsilon", "1", "--per", "week", "--begins", "soon"
    )


def test_everything_in_the_page_for_a_board_is_escaped(folder, output):
    output("limit", "ledger.db", "<b>people</b>", "--epsilon", "1", "--neighboring", "add_remove")
    output("ledger", "report", "ledger.db", "--out", "page.html")
    page = (folder / "page.html").read_text()
    assert "&lt;b&gt;people" in page
    assert "<b>" not in page
