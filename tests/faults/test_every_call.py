"""Every file system call of a command fails once, is cut short once, and is the last one of the process once.

Of the same calls in a row on the same file the first and the last are taken, but all writes to the ledger.

After each fault: no noise is on the disk that the ledger does not have; what is in place is complete, or is not there;
a message says what happened in one line and quotes no record; and the same command, repeated, ends as if there had been
no fault, and is charged once.
"""

import re
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.file_calls import ends_of_runs
from helpers.inside import Approval, remove_leftovers
from helpers.paid_runs import TERMS, check_paid
from helpers.release_folders import PRIVATE, digest, tables
from tallytree.ledger import Ledger
from tallytree.release import Release

SPEC = f"statistic: counts\nrecords: people.parquet\nhierarchy: {{path: areas.parquet, levels: [state]}}\n{TERMS}"
SIZES = """\
statistic: group_sizes
records: people.parquet
hierarchy: {path: areas.parquet, levels: [state]}
budget: {epsilon: 0.5}
neighboring: add_remove
group: who
max_group_size: 20
engine: {threads: 1}
"""


@pytest.fixture
def inputs(faults):
    """The tables, the specs, the secret and a ledger whose limit admits one release."""
    people = {"state": ["A", "A", "B"] * 20, "who": [f"{PRIVATE}{i % 21}" for i in range(60)]}
    pq.write_table(pa.table(people), faults.below / "people.parquet")
    pq.write_table(pa.table({"state": ["A", "B"]}), faults.below / "areas.parquet")
    (faults.below / "day.yaml").write_text(SPEC)
    (faults.below / "sizes.yaml").write_text(SIZES)
    tt.new_secret(faults.below / "secret")
    Ledger(faults.below / "ledger.db").set_limit("people", tt.Budget(epsilon=0.5), neighboring="add_remove")
    return faults.below


OPTIONS = ("--run", "Monday", "--out", "out", "--if-exists", "skip", "--fallback-out", "kept")


@pytest.mark.slow
@pytest.mark.parametrize(("command", "stride"), [("release", 6), ("contributions", 12)])
def test_every_fault_of_a_release_leaves_nothing_unpaid_and_nothing_half_made(faults, inputs, seen, command, stride):
    faults.keep_start()
    argv = (command, "day.yaml", *OPTIONS)
    check_paid(faults, argv, faults.each_fault(*argv, stride=stride), seen)
    if command == "release":
        assert seen["kill", "paid", "no folder"] > 0
        assert seen["kill", "not paid", "no folder"] > 0


REVISED = ("release", "day.yaml", "--run", "2026-03-04", "--if-exists", "skip", "--fallback-out", "kept")


@pytest.fixture
def corrected(faults, inputs):
    """A release of a day whose records are corrected then, and room for one more."""
    Ledger(inputs / "ledger.db").set_limit("people", tt.Budget(epsilon=1), approval=Approval(reason="a correction"))
    assert faults.run(*REVISED, "--out", "first")[0] == 0, faults.log
    pq.write_table(pq.read_table(inputs / "people.parquet").slice(6), inputs / "people.parquet")
    return inputs


@pytest.mark.slow
def test_every_fault_of_a_revision_leaves_the_earlier_release_and_a_whole_later_one_or_none(faults, corrected, seen):
    faults.keep_start()
    argv, earlier = (*REVISED, "--revises", "first", "--out", "out"), digest(corrected / "first")
    for fault, status in faults.each_fault(*argv, stride=24):
        entries, made = Ledger(corrected / "ledger.db").entries(), (corrected / "out").exists()
        assert len(entries) == 2 or not [*corrected.rglob("out/tables")], fault
        assert status != 0 or made, fault
        seen[fault[0], "paid" if len(entries) == 2 else "not paid", "folder" if made else "no folder"] += 1
        shutil.rmtree(corrected / "kept", ignore_errors=True)
        assert faults.run(*argv)[0] == 0, (fault, faults.log)
        first, later = Ledger(corrected / "ledger.db").entries()
        assert (later.revises, later.state) == (first.release_id, "finished"), fault
        stated = Release.load(corrected / "out").statement["release"]
        assert (stated["id"], stated["revises"]["id"]) == (later.release_id, first.release_id), fault
        assert digest(corrected / "first") == earlier, fault
    assert {paid for _, paid, _ in seen} == {"paid", "not paid"}


@pytest.mark.slow
def test_every_fault_of_a_look_at_a_run_whose_files_were_replaced_changes_nothing(faults, corrected, seen):
    """Also where the look fails, the run is not taken for one whose files are the same."""
    faults.keep_start()
    argv, before = (*REVISED, "--out", "first"), digest(corrected)
    assert faults.run(*argv)[0] == 6, faults.log
    for fault, status in faults.each_fault(*argv, ends=6, stride=4):
        assert digest(corrected) == before, fault
        assert status != 0 or fault[3] == "people.parquet", fault  # then nothing is known of the file
        seen[fault[0], status] += 1


def in_the_workspace(calls):
    """Every third of those about the files of the run; all others are made without `memory`, too."""
    return [call for call in ends_of_runs(calls) if call.place.startswith("spill")][::3]


RELEASED = re.compile(r"lock|(measured|table)-[0-9]+\.parquet(\..*)?")
"""Files of what is released; those of true counts have other names."""


@pytest.mark.slow
def test_faults_of_a_release_in_bands_leave_no_files_of_private_statistics(faults, inputs, seen):
    spec = SPEC.replace("{threads: 1}", "{threads: 1, temp_directory: spill}") + "mechanism: {name: TopDown}\n"
    (inputs / "day.yaml").write_text(spec)
    (inputs / "spill").mkdir()
    (inputs / "spill" / "keep").touch()
    faults.keep_start()
    command = ("release", "day.yaml", "--memory", "1GB", "--run", "Monday", "--out", "out", "--if-exists", "skip")
    for fault, status in faults.each_fault(*command, choose=in_the_workspace, stride=2):
        entries = Ledger(inputs / "ledger.db").entries()
        assert len(entries) <= 1, fault
        left = [file.name for file in (inputs / "spill").iterdir() if file.name != "keep"]
        assert fault[0] == "kill" or fault[2] in ("rmdir", "unlink", "unlinkat") or not left, fault
        made = tables(inputs / "out") if (inputs / "out").exists() else None
        assert status != 0 or made is not None, fault
        seen[fault[0], "paid" if entries else "not paid", "files" if left else "no files"] += 1
        assert faults.run(*command)[0] == 0, (fault, faults.log)
        (entry,) = Ledger(inputs / "ledger.db").entries()
        assert entry.state == "finished"
        if made is not None:
            assert tables(inputs / "out") == made, fault
            # The repetition had nothing to do. What is left is what was released; a run that works removes it.
            left = [file.name for file in (inputs / "spill").glob("*/*")]
            assert all(RELEASED.fullmatch(name) for name in left), (fault, left)
            remove_leftovers(inputs / "spill")
        assert [file.name for file in (inputs / "spill").iterdir()] == ["keep"], fault
    assert seen["kill", "paid", "files"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("command", ["error", "reconcile"])
def test_every_fault_of_post_processing_leaves_a_complete_release(faults, inputs, seen, command):
    assert faults.run("release", "sizes.yaml", "--out", "out")[0] == 0, faults.log
    faults.keep_start()
    before = tables(inputs / "out")
    argv = {
        "error": ("error", "out", "--replicates", "10", "--seed", "7"),
        "reconcile": ("reconcile", "out", "sizes.yaml", "--out", "again"),
    }[command]
    place = inputs / {"error": "out", "reconcile": "again"}[command]
    assert faults.run(*argv)[0] == 0, faults.log
    expected = tables(place)
    faults.back()
    for fault, status in faults.each_fault(*argv, stride=6):
        made = tables(place) if place.exists() else None
        assert made in (before if command == "error" else None, expected), fault
        assert status != 0 or made == expected, fault
        if command == "reconcile":
            assert tables(inputs / "out") == before, fault
        seen[fault[0], "done" if made == expected else "as before"] += 1
    assert seen["kill", "as before"] > 0


@pytest.mark.slow
def test_every_fault_of_a_limit_leaves_the_earlier_limit_or_the_new_one(faults, inputs, seen):
    faults.keep_start()
    argv = ("limit", "ledger.db", "people", "--epsilon", "3", "--reason", "a year more")
    for fault, status in faults.each_fault(*argv, stride=3):
        limit = Ledger(inputs / "ledger.db").dataset("people").limit
        assert limit in (tt.Budget(epsilon=0.5), tt.Budget(epsilon=3)), fault
        assert status != 0 or limit == tt.Budget(epsilon=3), fault
        seen[fault[0], str(limit)] += 1
    assert len(seen) > 2


@pytest.mark.slow
def test_every_fault_of_a_first_limit_leaves_a_whole_ledger_or_none_and_nothing_beside_it(faults, inputs, seen):
    faults.keep_start()
    argv = ("limit", "new.db", "people", "--epsilon", "3", "--neighboring", "add_remove")
    for fault, status in faults.each_fault(*argv, stride=3):
        made = (inputs / "new.db").exists()
        limit = Ledger(inputs / "new.db").standings() if made else None
        assert status != 0 or limit, fault
        left = len([*inputs.glob(".new.db.*")])
        assert fault[0] == "kill" or fault[2] in ("rmdir", "unlink", "unlinkat") or not left, fault
        seen[fault[0], "made" if made else "not made", f"{left} beside"] += 1
        assert faults.run(*argv)[0] == 0, fault
        assert Ledger(inputs / "new.db").standing("people").limit == tt.Budget(epsilon=3), fault
        assert not [*inputs.glob(".new.db.*")], fault
    assert seen["kill", "not made", "1 beside"] > 0
