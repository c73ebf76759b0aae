"""Late and corrected data at the command line: a finished run whose files were replaced, and its revision."""

import json
import os
import re
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from tallytree.cli.failures import ExitCode
from tallytree.engines import Local
from tallytree.ledger import Ledger
from tallytree.release import Release

SPEC = """\
statistic: counts
records: people.parquet
hierarchy: {path: areas.parquet, levels: [state, county]}
budget: {epsilon: 0.5}
neighboring: add_remove
ledger: ledger.db
dataset: people
"""
AREAS = {"state": ["A", "A", "B"], "county": ["x", "y", "x"]}
DAY = ("--run", "2026-03-04", "--secret", "secret")
SKIP = ("--if-exists", "skip")
MADE = ("release", "counts.yaml", "--out", "day", *DAY, *SKIP)
REVISED = ("release", "counts.yaml", "--out", "revised", *DAY, "--revises", "day")


def write_people(place, times):
    pq.write_table(pa.table({name: values * times for name, values in AREAS.items()}), place)


@pytest.fixture
def folder(tmp_path, monkeypatch, output):
    pq.write_table(pa.table(AREAS), tmp_path / "areas.parquet")
    write_people(tmp_path / "people.parquet", 100)
    (tmp_path / "counts.yaml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    output("secret", "new", "secret")
    output("limit", "ledger.db", "people", "--epsilon", "2", "--neighboring", "add_remove")
    return tmp_path


def touch(place):
    os.utime(place, ns=(1, place.stat().st_mtime_ns + 1))


def test_a_finished_run_whose_file_was_replaced_is_left_with_an_exit_code_of_its_own(folder, output, refusal):
    output(*MADE)
    before = {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()}
    write_people(folder / "people.parquet", 99)
    said = refusal(*MADE, code=ExitCode.CHANGED)
    assert said.startswith("run: the input may have changed since the release of '2026-03-04' in 'day'")
    assert "--revises" in said
    before[folder / "people.parquet"] = (folder / "people.parquet").read_bytes()
    assert {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()} == before
    assert len(Ledger("ledger.db").entries()) == 1


def test_what_is_said_does_not_depend_on_the_size_of_the_file(folder, output, refusal):
    output(*MADE)
    touch(folder / "people.parquet")
    touched = refusal(*MADE, code=ExitCode.CHANGED)
    write_people(folder / "people.parquet", 50)
    assert refusal(*MADE, code=ExitCode.CHANGED) == touched


def test_a_run_that_is_made_again_from_a_copy_has_the_copy_as_its_input(folder, output, run, refusal):
    output(*MADE)
    touch(folder / "people.parquet")
    refusal(*MADE, code=ExitCode.CHANGED)
    again = run("release", "counts.yaml", "--out", "day", *DAY, "--if-exists", "replace")
    assert again.stderr == "This run is entry 1 of the ledger. It was made again; nothing more was spent.\n"
    assert output(*MADE) == "day holds the run '2026-03-04', finished. Nothing was done or spent.\n"
    assert Ledger("ledger.db").spent("people") == {"epsilon": 0.5}
    assert len(Ledger("ledger.db").entries()) == 1


@pytest.mark.parametrize("how", ["no secret", "no file", "no digest in the ledger"])
def test_where_nothing_is_known_of_the_input_the_run_is_skipped(folder, output, how, monkeypatch):
    command = ("release", "counts.yaml", "--out", "day", "--run", "2026-03-04", *SKIP)
    with_secret = (*command, "--secret", "secret")
    if how == "no digest in the ledger":
        monkeypatch.setattr("tallytree.run.order.inputs_digest", lambda *_: None)
    output(*(command if how == "no secret" else with_secret))
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    if how == "no file":
        (folder / "people.parquet").unlink()
    else:
        touch(folder / "people.parquet")
    said = output(*(command if how == "no secret" else with_secret)).replace("\n", " ")
    assert "Nothing was done or spent. Whether its input has changed since is not known." in said


def test_the_ledger_has_a_keyed_digest_of_the_input_and_the_release_nothing(folder, output):
    output(*MADE)
    output("release", "counts.yaml", "--out", "other", "--run", "2026-03-05", "--secret", "secret")
    first, second = Ledger("ledger.db").entries()
    assert len(first.inputs) == 64
    assert first.inputs != second.inputs  # of one file: without the secret nobody can tell that it is one
    for place in ("day", "other"):
        for file in (folder / place).rglob("*"):
            content = file.read_bytes() if file.is_file() else b""
            assert first.inputs.encode() not in content
            assert str((folder / "people.parquet").stat().st_mtime_ns).encode() not in content


def test_a_revision_names_the_release_that_it_revises_and_is_charged(folder, output):
    output(*MADE)
    write_people(folder / "people.parquet", 110)
    said = output(*REVISED)
    earlier, later = (Release.load(each).statement["release"] for each in ("day", "revised"))
    assert f"Takes the place of the release {earlier['id'][:8]} in day." in said
    assert later["revises"] == {"id": earlier["id"], "folder": "day"}
    assert (later["run"], later["period"]) == (earlier["run"], earlier["period"]) == ("2026-03-04", "2026-03-04")
    assert "revises" not in earlier
    first, second = Ledger("ledger.db").entries()
    assert (first.revises, second.revises) == (None, earlier["id"])
    assert Ledger("ledger.db").spent("people") == {"epsilon": 1}
    assert output("ledger", "ledger.db").count(earlier["id"][:8]) == 2  # its own line, and that of its revision
    shown = json.loads(output("ledger", "ledger.db", "--json"))["datasets"][0]["releases"]
    assert [each["revises"] for each in shown] == [None, earlier["id"]]


def test_a_revision_has_other_noise_also_where_nothing_changed(folder, output):
    output(*MADE)
    output(*REVISED)
    earlier, later = (Release.load(each) for each in ("day", "revised"))
    assert later.statement["prior"]["release"] == earlier.statement["release"]["id"]
    assert not earlier.measurements("county").equals(later.measurements("county"))
    changes = tt.change("day", "revised", "county")
    assert changes["std_dev"].to_pylist()[0] > 0
    assert set(changes["verdict"].to_pylist()) <= {"increase", "decrease", "no change can be told"}


def test_a_revision_is_repeated_free_of_charge_and_skipped(folder, output, run, refusal):
    output(*MADE)
    write_people(folder / "people.parquet", 110)
    output(*REVISED)
    first = {each.name: each.read_bytes() for each in (folder / "revised" / "measurements").iterdir()}
    assert "finished" in output(*REVISED, *SKIP)
    shutil.rmtree(folder / "revised")
    again = run(*REVISED)
    assert again.stderr == "This run is entry 2 of the ledger. It was made again; nothing more was spent.\n"
    assert {each.name: each.read_bytes() for each in (folder / "revised" / "measurements").iterdir()} == first
    write_people(folder / "people.parquet", 120)
    assert "its statistics differ" in refusal("release", "counts.yaml", "--out", "more", *DAY, "--revises", "day")
    output("release", "counts.yaml", "--out", "more", *DAY, "--revises", "revised")
    assert Ledger("ledger.db").spent("people") == {"epsilon": 1.5}


def test_a_run_is_skipped_where_its_last_revision_was_made_from_the_same_files(folder, output, refusal):
    output(*MADE)
    for name, earlier, times in (("r2", "day", 110), ("r3", "r2", 120)):
        write_people(folder / "people.parquet", times)
        refusal(*MADE, code=ExitCode.CHANGED)
        output("release", "counts.yaml", "--out", name, *DAY, "--revises", earlier)
    said = output(*MADE)
    assert said.endswith("finished. Nothing was done or spent. Entry 3 of the ledger revises it.\n")
    touch(folder / "people.parquet")
    refusal(*MADE, code=ExitCode.CHANGED)


def test_the_run_that_was_revised_is_not_made_again(folder, output, refusal):
    output(*MADE)
    output(*REVISED)
    said = refusal("release", "counts.yaml", "--out", "again", *DAY)
    assert "that one is a revision; give another run name" in said


def test_a_run_of_another_name_may_revise(folder, output):
    output(*MADE)
    output("release", "counts.yaml", "--out", "revised", "--run", "2026-03-04 r2", "--revises", "day", "--secret",
           "secret", "--set", "period='2026-03-04'")  # fmt: skip
    assert [each.revises is None for each in Ledger("ledger.db").entries()] == [True, False]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--out", "new", "--revises", "nowhere"), "revises: '.*nowhere' does not exist"),
        (
            ("--out", "day", "--if-exists", "replace", "--revises", "day"),
            "folder: 'day' is that of the release that",
        ),
        (("--out", "day", *SKIP, "--revises", "day"), "folder: 'day' holds a release that revises none"),
        (("--out", "new", "--revises", "day", "--dataset", "others"), "revises: the release in 'day' is counted for"),
        (
            ("--out", "new", "--revises", "day", "--ledger", "b.db"),
            "revises: the ledger 'b.db' does not have the release",
        ),
        (
            ("--out", "new", "--revises", "day", "--set", "period='2026-03-05'"),
            "revises: the release in 'day' has the period 2026-03-04.*, and this one 2026-03-05",
        ),
        (("--out", "new", "--revises", "day", "--set", "hierarchy.path=more.parquet"), "revises: .* another public hi"),
        (("--out", "new", "--revises", "day", "--set", "hierarchy.path=deep.parquet"), "revises: .* another public hi"),
    ],
)
def test_what_cannot_be_revised_is_refused_before_records_are_read(folder, output, refusal, monkeypatch, options, says):
    output(*MADE)
    pq.write_table(pa.table({"state": ["A", "A", "C"], "county": ["x", "y", "x"]}), folder / "more.parquet")
    pq.write_table(pa.table({"state": ["A", "B"], "county": ["x", "y"]}), folder / "deep.parquet")
    read = Local.tabulate

    def public_only(self, table, request):
        return read(self, table, request) if request.argument == "prior" else pytest.fail("records were read")

    monkeypatch.setattr(Local, "tabulate", public_only)
    output("limit", "b.db", "people", "--epsilon", "2", "--neighboring", "add_remove")
    assert re.search(says, refusal("release", "counts.yaml", *DAY, *options))
    assert len(Ledger("ledger.db").entries()) == 1


def test_a_release_of_other_numbers_is_not_revised(tmp_path):
    areas = tt.Hierarchy.from_table(pa.table(AREAS), levels=["state", "county"])
    records, terms = pa.table(AREAS), {"neighboring": "add_remove", "seed": 1}
    tt.release_counts(records, areas, tt.Budget(epsilon=1), **terms).save(tmp_path / "counts")
    sized = records.append_column("group", pa.array(["a", "b", "c"]))
    with pytest.raises(ValueError, match=r"^revises: the release in 'counts' has the statistic counts, and this"):
        tt.release_group_sizes(
            sized, areas, tt.Budget(epsilon=1), group="group", revises=tmp_path / "counts", **terms, max_group_size=5
        )
    with pytest.raises(ValueError, match=r"^revises: of the release in 'counts' and this one, one has a seed"):
        tt.release_counts(records, areas, tt.Budget(epsilon=1), neighboring="add_remove", revises=tmp_path / "counts")
    revised = tt.release_counts(records, areas, tt.Budget(epsilon=1), revises=tmp_path / "counts", **terms)
    assert revised.statement["release"]["revises"]["folder"] == "counts"
    with pytest.raises(TypeError, match=r"^revises: int must be the folder of an earlier release"):
        tt.release_counts(records, areas, tt.Budget(epsilon=1), revises=3, **terms)


@pytest.mark.slow
@pytest.mark.needs("altair", "vl_convert", "jinja2")
def test_the_report_of_a_revision_names_what_it_takes_the_place_of(folder, output):
    for made in (MADE, REVISED):
        output(*made)
    for each in ("day", "revised"):
        output("report", each)
    first, later = ((folder / each / "report.html").read_text(encoding="utf-8") for each in ("day", "revised"))
    earlier = Release.load("day").statement["release"]["id"]
    assert f"day, release {earlier}" in later
    assert "Takes the place of" not in first
    assert "2026-03-04 (assumed: " in first
