"""Tables whose arrays are in files: kills and full disks at each step of a run.

A named run that is repeated goes on with the same noise, and is charged once. An unnamed one starts anew with other
noise, and is charged again. Nothing but names of empty folders and of files without content stays on the disk of true
cells, and no key at all.
"""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.file_calls import CHANGES, ends_of_runs
from helpers.inside import remove_leftovers
from helpers.paid_runs import TERMS
from helpers.release_folders import PRIVATE, files, tables
from tallytree.ledger import Ledger
from tallytree.release import Release

SPEC = (
    "statistic: tables\nrecords: people.parquet\ntables: [[town, sex], [county], []]\nhierarchy: {attributes: {area: "
    "{path: areas.parquet, levels: [county, town]}, sex: {path: sexes.parquet, levels: [sex]}}}\n"
    + TERMS.replace("{threads: 1}", "{threads: 1, temp_directory: spill}")
)
COMMAND = ("release", "day.yaml", "--memory", "2GB", "--out", "out")


@pytest.fixture
def inputs(faults):
    """The tables, the spec, a ledger whose limit admits two releases, and the file of the noise keys of all runs."""
    towns = {"county": [f"c{i // 3}" for i in range(12)], "town": [f"t{i}" for i in range(12)]}
    people = {name: [values[i * i % 12] for i in range(90)] for name, values in towns.items()}
    people |= {"sex": ["f", "m"] * 45, "who": [f"{PRIVATE}{i % 31}" for i in range(90)]}
    for name, columns in (("people", people), ("areas", towns), ("sexes", {"sex": ["f", "m"]})):
        pq.write_table(pa.table(columns), faults.below / f"{name}.parquet")
    (faults.below / "day.yaml").write_text(SPEC)
    (faults.below / "spill").mkdir()
    tt.new_secret(faults.below / "secret")
    Ledger(faults.below / "ledger.db").set_limit("people", tt.Budget(epsilon=1), neighboring="add_remove")
    faults.environment = {"TALLYTREE_TEST_KEYS": str(faults.below.parent / "keys")}
    return faults.below


def noted_keys(below):
    """The noise keys of the last run."""
    return (below.parent / "keys").read_text().split()


def in_the_workspace(calls):
    """Those about the files of the run that change something, or take room: of an array its file, name and room."""
    for call in ends_of_runs(calls):
        if call.place.startswith("spill") and (call.name in CHANGES or "fallocate" in call.name):
            yield call


def check_what_is_left(below, keys, fault):
    """Of a run that failed: no key anywhere, and of true cells not even a file with content."""
    everything = b"".join(files(below).values())
    for key in keys:
        forms = (bytes.fromhex(key), key.encode(), key.upper().encode())
        assert not any(form in everything for form in forms), fault
    left = [file for file in (below / "spill").rglob("*") if file.is_file()]
    if fault[0] == "fail" and fault[2] not in ("rmdir", "unlink", "unlinkat"):
        assert not left, (fault, left)
    # Of arrays that are being made when a run is killed; and of what is published, which is noisy.
    arrays = [file for file in left if not file.name.startswith(("measured-", "table-", "lock"))]
    assert all(file.stat().st_size == 0 for file in arrays), (fault, arrays)


@pytest.mark.slow
def test_a_named_run_that_was_killed_or_whose_disk_was_full_goes_on_with_the_same_noise(faults, inputs, seen):
    command = (*COMMAND, "--run", "Monday", "--if-exists", "skip")
    faults.keep_start()
    for fault, status in faults.each_fault(*command, choose=in_the_workspace, stride=24):
        keys = noted_keys(inputs)
        entries = Ledger(inputs / "ledger.db").entries()
        assert len(entries) <= 1, fault
        assert entries or not [*inputs.rglob("tables")], fault
        check_what_is_left(inputs, keys, fault)
        seen[fault[0], "paid" if entries else "not paid", "made" if status == 0 else "not made"] += 1
        made = tables(inputs / "out") if (inputs / "out").exists() else None
        assert faults.run(*command)[0] == 0, (fault, faults.log)
        (entry,) = Ledger(inputs / "ledger.db").entries()
        assert entry.state == "finished"
        assert Release.load(inputs / "out").statement["release"]["id"] == entry.release_id
        assert made in (None, tables(inputs / "out")), fault
        again = noted_keys(inputs)
        if entries and keys and again:
            assert keys[-1] == again[-1], fault  # and so the same noise
            seen["the same key", "", ""] += 1
        remove_leftovers(inputs / "spill")
        assert not [*(inputs / "spill").iterdir()], fault
    assert seen["kill", "paid", "not made"] > 0
    assert seen["fail", "paid", "not made"] > 0
    assert seen["the same key", "", ""] > 0


@pytest.mark.slow
def test_a_run_without_a_name_that_was_killed_starts_anew_and_is_charged_again(faults, inputs, seen):
    (inputs / "day.yaml").write_text(SPEC.replace("secret: secret\n", ""))
    faults.keep_start()
    for fault, _ in faults.each_fault(*COMMAND, choose=in_the_workspace, stride=60):
        keys, paid = noted_keys(inputs), len(Ledger(inputs / "ledger.db").entries())
        check_what_is_left(inputs, keys, fault)
        if (inputs / "out").exists():
            continue
        assert faults.run(*COMMAND)[0] == 0, (fault, faults.log)
        assert len(Ledger(inputs / "ledger.db").entries()) == paid + 1, fault
        assert not {*keys} & {*noted_keys(inputs)}, fault
        seen[fault[0], "paid" if paid else "not paid"] += 1
    assert sum(number for (_, paid), number in seen.items() if paid == "paid") > 0
