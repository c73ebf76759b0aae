"""`release --prior-run`: the release of an earlier run, in a folder beside, is the prior."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tallytree.ledger import Ledger
from tallytree.release import Release
from tallytree.release.manifest import manifest_text

SPEC = """\
statistic: tables
variables: [DAY]
records: trips-${DAY}.parquet
hierarchy:
  attributes:
    zone: {path: zones.parquet, levels: [zone]}
    mode: {path: modes.parquet, levels: [mode]}
tables: [[zone, mode], [zone], total]
budget: {rho: 0.01}
neighboring: add_remove
"""
HERE = ("--ledger", "ledger.db", "--dataset", "trips", "--secret", "secret", "--no-report", "--quiet")


def made(day, *options):
    return ("release", "traffic.yaml", "--set", f"variables.DAY={day}", "--run", f"traffic-{day}", *HERE, *options)


@pytest.fixture
def folder(tmp_path, monkeypatch, output):
    rng = np.random.default_rng(1)
    zones, modes = [f"z{i:02d}" for i in range(30)], ["bike", "bus", "car"]
    pq.write_table(pa.table({"zone": zones}), tmp_path / "zones.parquet")
    pq.write_table(pa.table({"mode": modes}), tmp_path / "modes.parquet")
    for day in (1, 2):
        trips = {"zone": rng.choice(zones, 2_000), "mode": rng.choice(modes, 2_000)}
        pq.write_table(pa.table(trips), tmp_path / f"trips-{day}.parquet")
    (tmp_path / "traffic.yaml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    output("secret", "new", "secret")
    return tmp_path


def test_the_release_of_the_run_is_the_prior_and_a_repetition_is_free(folder, run):
    assert run(*made(1, "--out", "out/1")).exit_code == 0
    assert run(*made(2, "--out", "out/2", "--prior-run", "traffic-1")).exit_code == 0
    first, second = (Release.load(f"out/{day}") for day in (1, 2))
    assert second.statement["prior"]["release"] == first.statement["release"]["id"]
    again = run(*made(2, "--out", "out/again", "--prior-run", "traffic-1"))
    assert "nothing more was spent" in again.stderr
    for table in first.levels:
        assert Release.load("out/again").table(table).equals(second.table(table))


def test_a_repeated_run_has_the_prior_that_it_had_also_if_that_was_revised_since(folder, run):
    assert run(*made(1, "--out", "out/1")).exit_code == 0
    assert run(*made(2, "--out", "out/2", "--prior-run", "traffic-1")).exit_code == 0
    assert run(*made(1, "--out", "out/1-r2", "--revises", "out/1")).exit_code == 0
    again = run(*made(2, "--out", "out/2", "--prior-run", "traffic-1", "--if-exists", "skip"))
    assert (again.exit_code, again.stderr) == (0, "")
    assert len(Ledger("ledger.db").entries("trips")) == 3


def test_a_run_or_a_folder_that_is_not_there_is_refused(folder, run, refusal):
    assert run(*made(1, "--out", "out/1")).exit_code == 0
    assert refusal(*made(2, "--out", "out/2", "--prior-run", "traffic-9")).startswith(
        "prior_run: the ledger 'ledger.db'"
    )
    assert "no folder in 'elsewhere'" in refusal(*made(2, "--out", "elsewhere/2", "--prior-run", "traffic-1"))
    both = made(2, "--out", "out/2", "--prior-run", "traffic-1", "--set", "prior=out/1")
    assert "the spec names a prior" in refusal(*both)


def test_equal_copies_of_the_release_are_one_and_others_are_named(folder, run, refusal):
    assert run(*made(1, "--out", "out/1")).exit_code == 0
    shutil.copytree("out/1", "out/copy")
    assert run(*made(2, "--out", "out/2", "--prior-run", "traffic-1")).exit_code == 0
    manifest = json.loads((folder / "out/copy/release.json").read_text())
    del manifest["digest"]
    manifest["statement"]["notes"] = ["Another."]
    (folder / "out/copy/release.json").write_text(manifest_text(manifest))
    said = refusal(*made(2, "--out", "out/again", "--prior-run", "traffic-1"))
    assert "prior_run: folders in 'out' have the release of the run 'traffic-1' and differ: '1', 'copy'" in said
    assert "give the one that is meant as prior" in said


def test_it_needs_a_ledger_and_a_statistic_that_takes_a_prior(folder, refusal):
    plain = ("release", "traffic.yaml", "--set", "variables.DAY=1", "--out", "out/1", "--prior-run", "traffic-1")
    assert "name ledger and dataset" in refusal(*plain)
    (folder / "sizes.yaml").write_text(
        "statistic: group_sizes\nrecords: trips-1.parquet\nhierarchy: {path: zones.parquet, levels: [zone]}\n"
        "group: mode\nbudget: {rho: 0.01}\nneighboring: add_remove\n"
    )
    assert "group_sizes take no prior" in refusal("release", "sizes.yaml", "--out", "out/1", "--prior-run", "traffic-1")


def test_check_plans_with_the_prior_of_a_run_as_release_does(folder, run, output, refusal):
    assert run(*made(1, "--out", "out/1")).exit_code == 0
    checked = ("check", "traffic.yaml", "--set", "variables.DAY=2", "--run", "traffic-2", *HERE[:-2])
    said = output(*checked, "--out", "out/2", "--prior-run", "traffic-1")
    name = Release.load("out/1").statement["release"]["id"][:8]
    assert f"Prior: the release {name}. What is measured does not depend on it." in " ".join(said.split())
    assert "Prior:" not in output(*checked)
    assert not (folder / "out/2").exists()
    assert "no run 'traffic-9'" in refusal(*checked, "--out", "out/2", "--prior-run", "traffic-9")
    assert "name that by --out" in refusal(*checked, "--prior-run", "traffic-1")


def test_plan_says_how_many_numbers_a_revision_moves(folder, run, output):
    assert run(*made(1, "--out", "out/1")).exit_code == 0
    said = output("plan", "traffic.yaml", "--set", "variables.DAY=1", "--revises", "out/1", "--replicates", "5")
    assert "moved" in said
    assert "if no record changed" in " ".join(said.split())
    less = output("plan", "traffic.yaml", "--set", "variables.DAY=1", "--like", "out/1", "--replicates", "5")
    assert "moved" not in less


def test_commands_describe_what_is_revised_in_the_same_words(output):
    said = {command: " ".join(output(command, "--help").split()) for command in ("plan", "check", "release")}
    about = {text[text.index("--revises DIR") :][:90] for text in said.values()}
    assert len(about) == 1
