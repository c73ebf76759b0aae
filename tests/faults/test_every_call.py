"""Every file system call of a command fails once, is cut short once, and is the last one of the process once.

After each fault: no noise is on the disk that the ledger does not have; what is in place is complete, or is not there;
a message says what happened in one line and quotes no record; and the same command, repeated, ends as if there had been
no fault, and is charged once.
"""

import hashlib
import shutil
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from tallytree.ledger import Ledger
from tallytree.release import Release

SPEC = """\
statistic: counts
records: people.parquet
hierarchy: {path: areas.parquet, levels: [state]}
budget: {epsilon: 0.5}
neighboring: add_remove
person: who
max_contributions: 2
ledger: ledger.db
dataset: people
secret: secret
engine: {threads: 1}
"""
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
PRIVATE = "NAME-"
MOVES = ("read", "write", "pread", "pread64", "pwrite", "pwrite64")
"""The calls that move bytes, and so can move fewer than they were asked to."""

CHANGES = (
    "create", "write", "pwrite", "pwrite64", "ftruncate", "ftruncate64", "mkdir", "rmdir", "unlink", "unlinkat",
    "rename", "renameat2", "link", "chmod", "fchmod",
)  # fmt: skip
"""The calls that change what is on the disk; a kill before any other leaves what one before the next of these does."""


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


def files(folder):
    """Every file below a folder, byte for byte."""
    return {str(each.relative_to(folder)): each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file()}


def tables(folder):
    """Every published file of a release but its manifest, byte for byte; the release is loaded, which checks it."""
    Release.load(folder)
    return {name: content for name, content in files(folder).items() if name != "release.json"}


def digest(folder):
    return hashlib.sha256(repr(files(folder)).encode()).digest()


def back_to(folder, start):
    """Put a folder back to what it was, whatever a fault has left in it."""
    for each in folder.iterdir():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        else:
            each.unlink()
    shutil.copytree(start, folder, dirs_exist_ok=True)


def every_fault(faults, start, *argv, step=1):
    """Run a command with every fault in turn (or every so many), from the start; gives the fault and the exit code."""
    status, calls = faults.run(*argv)
    assert status == 0, faults.log
    assert len(calls) > 10
    for kind in ("fail", "short", "kill"):
        for at, call in list(enumerate(calls, 1))[::step]:
            if (kind == "short" and call not in MOVES) or (kind == "kill" and call not in CHANGES):
                continue
            back_to(faults.below, start)
            status, _ = faults.run(*argv, at=at, kind=kind)
            fault = (kind, at, call)
            check_message(faults, fault, status)
            yield fault, status
    back_to(faults.below, start)


def check_message(faults, fault, status):
    """A command that fails says so in one line, without a record; one that is killed cannot."""
    log = faults.log
    assert PRIVATE not in log, fault
    assert "Traceback" not in log, (fault, log)
    if fault[0] == "kill":
        assert status in (-9, 0), (fault, log)
    elif status:
        assert log.count("error: ") == 1, (fault, status, log)


def say(command, seen):
    print(f"{command}: {sum(seen.values())} faults")  # noqa: T201  (docs/reliability.md gives these counts)
    for key, number in sorted(seen.items()):
        print(f"  {number:5} {key}")  # noqa: T201


@pytest.mark.slow
def test_every_fault_of_a_release_leaves_nothing_unpaid_and_nothing_half_made(faults, inputs, tmp_path):
    start = tmp_path / "start"
    shutil.copytree(inputs, start)
    options = ("--run", "Monday", "--out", "out", "--if-exists", "skip", "--fallback-out", "kept")
    command = ("release", "day.yaml", *options)
    assert faults.run(*command)[0] == 0, faults.log
    files_of_a_release, seen = tables(inputs / "out").keys(), Counter()
    back_to(inputs, start)
    repeated = {digest(inputs)}  # from here the command was run just now
    for fault, status in every_fault(faults, start, *command):
        left = digest(inputs)
        entries = Ledger(inputs / "ledger.db").entries()
        assert len(entries) <= 1, fault
        assert entries or not [*inputs.rglob("tables")], fault
        assert status != 0 or (inputs / "out").exists(), fault
        made = [tables(place) for place in (inputs / "out", *inputs.glob("kept/*/out")) if place.exists()]
        assert all(each.keys() == files_of_a_release for each in made), fault
        seen[fault[0], "paid" if entries else "not paid", "folder" if (inputs / "out").exists() else "no folder"] += 1
        if left in repeated:
            continue
        repeated.add(left)
        shutil.rmtree(inputs / "kept", ignore_errors=True)
        assert faults.run(*command)[0] == 0, (fault, faults.log)
        (entry,) = Ledger(inputs / "ledger.db").entries()
        assert entry.state == "finished"
        assert Release.load(inputs / "out").statement["release"]["id"] == entry.release_id
        assert tables(inputs / "out").keys() == files_of_a_release, fault
        # The noise depends on the entry's random id: a repetition has that of what the faulty attempt has made.
        assert all(each == tables(inputs / "out") for each in made), fault
    say("release", seen)
    assert seen["kill", "paid", "no folder"] > 0
    assert seen["kill", "not paid", "no folder"] > 0


@pytest.mark.slow
def test_faults_of_a_release_in_bands_leave_no_files_of_private_statistics(faults, inputs, tmp_path):
    spec = SPEC.replace("{threads: 1}", "{threads: 1, temp_directory: spill}") + "mechanism: {name: TopDown}\n"
    (inputs / "day.yaml").write_text(spec)
    (inputs / "spill").mkdir()
    (inputs / "spill" / "keep").touch()
    start = tmp_path / "start"
    shutil.copytree(inputs, start)
    command = ("release", "day.yaml", "--memory", "1GB", "--run", "Monday", "--out", "out", "--if-exists", "skip")
    seen = Counter()
    for fault, status in every_fault(faults, start, *command, step=40):
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
        assert [file.name for file in (inputs / "spill").iterdir()] == ["keep"], fault
        assert made is None or tables(inputs / "out") == made, fault
    say("release in bands", seen)
    assert seen["kill", "paid", "files"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("command", ["error", "reconcile"])
def test_every_fault_of_post_processing_leaves_a_complete_release(faults, inputs, tmp_path, command):
    assert faults.run("release", "sizes.yaml", "--out", "out")[0] == 0, faults.log
    start = tmp_path / "start"
    shutil.copytree(inputs, start)
    before, seen = tables(inputs / "out"), Counter()
    argv = {
        "error": ("error", "out", "--replicates", "10", "--seed", "7"),
        "reconcile": ("reconcile", "out", "sizes.yaml", "--out", "again"),
    }[command]
    place = inputs / {"error": "out", "reconcile": "again"}[command]
    assert faults.run(*argv)[0] == 0, faults.log
    expected = tables(place)
    back_to(inputs, start)
    for fault, status in every_fault(faults, start, *argv):
        made = tables(place) if place.exists() else None
        assert made in (before if command == "error" else None, expected), fault
        assert status != 0 or made == expected, fault
        if command == "reconcile":
            assert tables(inputs / "out") == before, fault
        seen[fault[0], "done" if made == expected else "as before"] += 1
    say(command, seen)
    assert seen["kill", "as before"] > 0


@pytest.mark.slow
def test_every_fault_of_a_limit_leaves_the_earlier_limit_or_the_new_one(faults, inputs, tmp_path):
    start = tmp_path / "start"
    shutil.copytree(inputs, start)
    seen = Counter()
    argv = ("limit", "ledger.db", "people", "--epsilon", "3", "--reason", "a year more")
    for fault, status in every_fault(faults, start, *argv):
        limit = Ledger(inputs / "ledger.db").dataset("people").limit
        assert limit in (tt.Budget(epsilon=0.5), tt.Budget(epsilon=3)), fault
        assert status != 0 or limit == tt.Budget(epsilon=3), fault
        seen[fault[0], str(limit)] += 1
    say("limit", seen)
    assert len(seen) > 2
