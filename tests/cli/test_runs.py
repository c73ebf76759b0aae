"""Named runs at the command line: repeated, skipped, replaced, kept where the folder cannot be written."""

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.inside import Output, make_release, order
from tallytree.cli.failures import ExitCode
from tallytree.ledger import Ledger
from tallytree.release import Release
from tallytree.spec import load_spec

SPEC = """\
statistic: counts
records: people.parquet
hierarchy: {path: areas.parquet, levels: [state, county]}
budget: {epsilon: 0.5}
neighboring: add_remove
ledger: ledger.db
dataset: people
"""
MONDAY = ("--run", "Monday", "--secret", "secret")


@pytest.fixture
def folder(tmp_path, monkeypatch, output):
    areas = {"state": ["A", "A", "B"], "county": ["x", "y", "x"]}
    pq.write_table(pa.table(areas), tmp_path / "areas.parquet")
    pq.write_table(pa.table({name: values * 100 for name, values in areas.items()}), tmp_path / "people.parquet")
    (tmp_path / "counts.yaml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    output("secret", "new", "secret")
    output("limit", "ledger.db", "people", "--epsilon", "1", "--neighboring", "add_remove")
    return tmp_path


def test_a_secret_is_made_once(folder, output, refusal):
    assert (
        output("secret", "new", "other") == "other is made, with mode 0600. Keep it as confidential as the records.\n"
    )
    assert refusal("secret", "new", "other", code=ExitCode.EXISTS).startswith(
        "secret: 'other' exists; a secret is never overwritten"
    )


def test_a_run_is_repeated_with_identical_files_and_charged_once(folder, output, run, monkeypatch):
    output("release", "counts.yaml", "--out", "first", *MONDAY)
    monkeypatch.setenv("TALLYTREE_SECRET_FILE", "secret")
    repeated = run("release", "counts.yaml", "--out", "again", "--run", "Monday")
    assert (repeated.exit_code, repeated.stderr) == (
        0, "This run is entry 1 of the ledger. It was made again; nothing more was spent.\n",
    )  # fmt: skip
    first, again = (
        {str(each.relative_to(place)): each.read_bytes() for each in place.rglob("*") if each.is_file()}
        for place in (folder / "first", folder / "again")
    )
    assert len(first) > 6
    assert again == first
    assert Ledger("ledger.db").spent("people") == {"epsilon": 0.5}


def test_a_finished_run_is_skipped(folder, output):
    output("release", "counts.yaml", "--out", "out", *MONDAY, "--if-exists", "skip")
    before = json.loads((folder / "out" / "release.json").read_text())
    said = output("release", "counts.yaml", "--out", "out", *MONDAY, "--if-exists", "skip")
    assert said == "out holds the run 'Monday', finished. Nothing was done or spent.\n"
    assert json.loads((folder / "out" / "release.json").read_text()) == before


@pytest.mark.slow
@pytest.mark.needs("altair", "vl_convert", "jinja2")
def test_a_finished_run_without_a_report_gets_one(folder, output):
    release = ("release", "counts.yaml", "--out", "out", *MONDAY, "--if-exists", "skip", "--report")
    output(*release)
    report = folder / "out" / "report.html"
    before = report.read_bytes()
    report.unlink()  # as after a kill while it was made
    assert "report" not in output(*release, "--no-report")
    assert not report.exists()
    assert output(*release).splitlines()[1:] == ["It has no report; that is made now."]
    assert report.read_bytes() == before
    assert len(output(*release).splitlines()) == 1


def test_a_changed_run_is_refused_or_charged(folder, output, refusal):
    output("release", "counts.yaml", "--out", "out", *MONDAY)
    people = pq.read_table("people.parquet")
    pq.write_table(people.slice(1), "people.parquet")
    assert refusal("release", "counts.yaml", "--out", "other", *MONDAY).startswith("counts.yaml: run: 'Monday'")
    output("release", "counts.yaml", "--out", "other", *MONDAY, "--on-changed", "charge")
    assert Ledger("ledger.db").remaining("people") == {"epsilon": 0}


def test_check_says_what_a_run_would_meet(folder, output, refusal):
    output("check", "counts.yaml", *MONDAY)
    output("release", "counts.yaml", "--out", "out", *MONDAY)
    output("check", "counts.yaml", *MONDAY)
    (folder / "counts.yaml").write_text(SPEC.replace("0.5", "0.25"))
    assert "plan" in refusal("check", "counts.yaml", *MONDAY)


def test_a_release_is_replaced_on_request_only(folder, output, refusal):
    output("release", "counts.yaml", "--out", "out", "--run", "Monday")
    assert "exists" in refusal("release", "counts.yaml", "--out", "out", "--run", "Tuesday", code=ExitCode.EXISTS)
    output("release", "counts.yaml", "--out", "out", "--run", "Tuesday", "--if-exists", "replace")
    assert Release.load("out").statement["release"]["run"] == "Tuesday"


def test_a_release_whose_folder_cannot_be_written_is_kept_and_the_error_says_where(folder, run, monkeypatch):
    real = Release.save

    def save(self, place, *, csv=False):
        if str(place) == "out":
            raise OSError(28, "No space left on device", "out")
        return real(self, place, csv=csv)

    monkeypatch.setattr(Release, "save", save)
    result = run("release", "counts.yaml", "--out", "out", *MONDAY, "--fallback-out", "kept")
    assert result.exit_code != 0
    found = re.fullmatch(
        r"error: out: No space left on device; fallback: the release was saved in '(.*/kept/tallytree-out-\w+/out)' "
        r"instead; move it to 'out'; ledger: the budget of this release is spent \(ledger entry 1\); repeat the run "
        r"'Monday' with the same secret, free of charge\n",
        result.stderr,
    )
    assert Release.load(found[1]).statement["release"]["run"] == "Monday"
    monkeypatch.undo()
    again = run("release", folder / "counts.yaml", "--out", folder / "out", "--run", "Monday", "--secret",
                folder / "secret", "--fallback-out", folder / "kept")  # fmt: skip
    assert (again.exit_code, again.stderr) == (
        0, "This run is entry 1 of the ledger. It was made again; nothing more was spent.\n",
    )  # fmt: skip


def another_node_first(monkeypatch, place, name, run):
    """Before a function is called for the first time, another node makes the run, which is here this process too."""
    real, results = getattr(place, name), []

    def later(*args, **kwargs):
        if not results:
            results.append(None)
            results[0] = run("release", "counts.yaml", "--out", "out", *MONDAY, "--if-exists", "skip")
        return real(*args, **kwargs)

    monkeypatch.setattr(place, name, later)
    return results


@pytest.mark.parametrize(("place", "name"), [(Output, "check"), (order, "paid_noise"), (Output, "save")])
def test_of_two_nodes_that_race_on_a_run_both_end_well_and_nothing_is_left(folder, run, monkeypatch, place, name):
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("TMPDIR", str(elsewhere))
    monkeypatch.setattr("tempfile.tempdir", None)
    winner = another_node_first(monkeypatch, place, name, run)
    loser = run("release", "counts.yaml", "--out", "out", *MONDAY, "--if-exists", "skip")
    assert (winner[0].exit_code, loser.exit_code) == (0, 0), loser.stderr
    assert [each.name for each in elsewhere.glob("tallytree-out-*")] == []
    assert [entry.state for entry in Ledger("ledger.db").entries()] == ["finished"]


def test_another_release_that_took_the_folder_is_no_finished_run(folder, run, monkeypatch):
    real = Release.save

    def save(self, place, *, csv=False):
        monkeypatch.undo()
        monkeypatch.chdir(folder)
        assert run("release", "counts.yaml", "--out", "out", "--run", "Tuesday", "--secret", "secret").exit_code == 0
        return real(self, place, csv=csv)

    monkeypatch.setattr(Release, "save", save)
    result = run("release", "counts.yaml", "--out", "out", *MONDAY, "--if-exists", "skip", "--fallback-out", "kept")
    assert result.exit_code == ExitCode.EXISTS
    assert len(list((folder / "kept").glob("tallytree-out-*/out"))) == 1


@pytest.mark.parametrize("error", [ValueError("damaged"), OSError(5, "Input/output error"), MemoryError(), None])
def test_a_folder_with_something_else_is_no_finished_run_and_what_was_paid_is_kept(folder, monkeypatch, error):
    release = make_release(load_spec("counts.yaml").plan())
    (folder / "out").mkdir()
    output = Output("out", "skip", folder / "kept")

    def loaded(_):
        if error is None:
            return Release({"release": {"id": "of another"}}, {}, {}, {}, None)
        raise error

    monkeypatch.setattr(Output, "loaded", loaded)
    with pytest.raises(FileExistsError):
        output.save(release)
    assert len(list((folder / "kept").glob("tallytree-out-*/out"))) == 1


@pytest.mark.parametrize(
    ("change", "which"),
    [
        ("budget.epsilon=0.3", "the spec"),
        ("hierarchy.path=others.parquet", "the public hierarchy"),
        (None, "the version of the software"),
    ],
)
def test_a_finished_run_of_another_plan_stays_with_a_warning_that_says_what_differs(
    folder, output, run, monkeypatch, change, which
):
    output("release", "counts.yaml", "--out", "out", *MONDAY)
    pq.write_table(pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "z"]}), folder / "others.parquet")
    if change is None:
        monkeypatch.setattr("tallytree.release.statement.versions", lambda packages: dict.fromkeys(packages, "99"))
    options = ("--if-exists", "skip", *(() if change is None else ("--set", change)))
    with pytest.warns(UserWarning, match=rf"^run: the release of 'Monday' in the folder has another plan \({which}\)"):
        run("release", "counts.yaml", "--out", "out", *MONDAY, *options)


def test_a_damaged_folder_is_named_with_the_remedy(folder, output, refusal):
    output("release", "counts.yaml", "--out", "out", *MONDAY)
    (folder / "out" / "tables" / "state.parquet").write_bytes(b"")
    for if_exists in ("skip", "replace"):
        message = refusal("release", "counts.yaml", "--out", "out", *MONDAY, "--if-exists", if_exists)
        assert message.endswith("is missing or was changed; take a fresh copy of the release; or move the folder away "
                                "and repeat the run")  # fmt: skip


def test_the_secret_of_the_environment_is_for_named_runs(folder, output, monkeypatch):
    monkeypatch.setenv("TALLYTREE_SECRET_FILE", "secret")
    output("check", "counts.yaml")
    output("release", "counts.yaml", "--out", "out")
    assert "fresh for this release" in (folder / "out" / "release.json").read_text()
    output("release", "counts.yaml", "--out", "named", "--run", "Monday")
    assert "derived from the publisher's secret" in (folder / "named" / "release.json").read_text()


def test_check_names_the_entry_of_a_run(folder, output):
    output("release", "counts.yaml", "--out", "out", *MONDAY)
    assert "The ledger has the run 'Monday' as entry 1, finished." in output("check", "counts.yaml", *MONDAY)


def test_a_run_may_stand_in_the_spec(folder, output):
    (folder / "counts.yaml").write_text(SPEC + "run: '2026-11-22'\nsecret: secret\nreason: daily\n")
    output("release", "counts.yaml", "--out", "out")
    (entry,) = Ledger("ledger.db").entries()
    assert (entry.run, entry.approval.reason) == ("2026-11-22", "daily")
    spec = (folder / "out" / "release.json").read_text()
    assert "ledger.db" not in spec
    assert '"secret"' not in spec
