"""`tallytree reconcile`: tables made again at the command line."""

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from tallytree.cli.failures import ExitCode
from tallytree.ledger import Ledger
from tallytree.release import Release

SPEC = """\
statistic: group_sizes
records: homes.parquet
size: n
groups: homes
hierarchy: {path: areas.parquet, levels: [state, county]}
max_group_size: 9
budget: {epsilon: 1.5}
budget_split: even
neighboring: add_remove
"""
JOINT = "mechanism: {name: Joint, options: {smoothness: 1}}\n"


@pytest.fixture
def folder(tmp_path, run, monkeypatch):
    """A working folder with tables, a release that a ledger has, and a spec with another mechanism."""
    pq.write_table(pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"]}), tmp_path / "areas.parquet")
    homes = {"state": ["A", "A", "B"], "county": ["x", "y", "x"], "n": [2, 3, 2], "homes": [300, 200, 100]}
    pq.write_table(pa.table(homes), tmp_path / "homes.parquet")
    (tmp_path / "first.yaml").write_text(SPEC)
    (tmp_path / "joint.yaml").write_text(SPEC + JOINT + "ledger: ledger.db\ndataset: homes\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    assert run("release", "first.yaml", "--out", "out", "--ledger", "ledger.db", "--dataset", "homes").exit_code == 0
    (tmp_path / "homes.parquet").unlink()
    return tmp_path


def test_tables_are_made_again_without_records_and_nothing_is_spent(folder, run):
    result = run("reconcile", "out", "joint.yaml", "--out", "again", "--csv")
    assert (result.exit_code, result.stderr) == (0, "")
    again = Release.load("again")
    rows = [str(again.table(level).num_rows) for level in again.levels]
    shown = re.sub(r"(?m)^(all|state|county)( +)(\d+) ", lambda m: f"{m[1]}{m[2]}{'#':>{len(m[3])}} ", result.stdout)
    assert re.findall(r"(?m)^(?:all|state|county) +(\d+) ", result.stdout) == rows
    assert re.sub(" +", " ", shown) == (
        "Published: of every node, the number of groups of each size\n"
        "level rows nodes\n"
        "───────────────────\n"
        "all # 1\n"
        "state # 2\n"
        "county # 3\n"
        "Noise: discrete Laplace, std dev 2.8 at every measured level.\n"
        "PUBLISHED EXACTLY, not protected (invariants):\n"
        " * the hierarchy\n"
        " * the number of groups in every leaf (that a group exists, and where)\n"
        "Nothing was spent. The measurements had spent epsilon 1.5 of epsilon 1.5 (Joint, accounting: exact).\n"
        "Guarantee: epsilon = 1.5 (pure differential privacy) for adding or removing one person, who has one "
        "membership of a group, given the invariants.\n"
        "Risk: An attacker who knows all other records has at most 4.49 % true positives at 1 % false positives, and "
        "at most 22.41 % at 5 %.\n"
        "Measurements:\n"
        "level measured share sensitivity scale std dev\n"
        "────────────────────────────────────────────────────────\n"
        "all tail_counts 0.3333 L1 1 2 2.79918\n"
        "state tail_counts 0.3333 L1 1 2 2.79918\n"
        "county tail_counts 0.3333 L1 1 2 2.79918\n"
        "Release: again\n"
    )
    assert again.statement["mechanism"]["options"]["smoothness"] == 1
    assert again.statement["reconciled"]["measured_for"]["name"] == "Joint"
    assert (folder / "again/tables/county.csv").is_file()
    assert len(Ledger("ledger.db").dataset("homes").entries) == 1


def test_a_spec_without_a_mechanism_means_the_default(folder, run):
    assert run("reconcile", "out", "joint.yaml", "--out", "joint").exit_code == 0
    assert run("reconcile", "joint", "first.yaml", "--out", "back").exit_code == 0
    first, back = Release.load("out"), Release.load("back")
    assert all(back.table(level).equals(first.table(level)) for level in first.levels)


def test_a_seeded_release_says_not_private(folder, run):
    pq.write_table(pa.table({"state": ["A"], "county": ["x"], "n": [2], "homes": [300]}), folder / "homes.parquet")
    (folder / "seeded.yaml").write_text(SPEC + "seed: 3\n")
    assert run("release", "seeded.yaml", "--out", "seeded").exit_code == 0
    result = run("reconcile", "seeded", "joint.yaml", "--out", "again")
    assert result.exit_code == 0
    assert result.stderr == "WARNING: NOT PRIVATE. The noise was drawn from a seed.\n"
    assert "Guarantee: NOT PRIVATE: " in result.stdout


def test_mistakes_are_one_line_and_leave_nothing(folder, refusal):
    before = sorted(folder.iterdir())
    assert re.fullmatch(r"folder: '.*nowhere' does not exist, or is no folder; give the folder of a saved release",
                        refusal("reconcile", "nowhere", "joint.yaml", "--out", "again"))  # fmt: skip
    assert refusal("reconcile", "out", "joint.yaml", "--out", "areas.parquet", code=ExitCode.EXISTS).startswith(
        "folder: "
    )
    (folder / "joint.yaml").write_text(SPEC + "mechanism: {name: Chain}\n")
    assert refusal("reconcile", "out", "joint.yaml", "--out", "again").startswith(
        "joint.yaml, line 10, mechanism: Chain(calibration='valid') wants 'chain_tail_counts' measured at 'all', but "
    )
    (folder / "joint.yaml").write_text(SPEC + "mechanism: {name: Joint, options: {smoothness: -1}}\n")
    assert refusal("reconcile", "out", "joint.yaml", "--out", "again").startswith(
        "joint.yaml, line 10, mechanism.options.smoothness: -1 must be at least 0"
    )
    (folder / "joint.yaml").write_text(SPEC.replace("[state, county]", "[county]"))
    assert "joint.yaml, line 5, hierarchy" in refusal("reconcile", "out", "joint.yaml", "--out", "again")
    (folder / "joint.yaml").write_text(SPEC)
    pq.write_table(pa.table({"state": ["A", "A", "B"], "county": ["y", "x", "x"]}), "areas.parquet")
    assert refusal("reconcile", "out", "joint.yaml", "--out", "again").startswith(
        "joint.yaml, line 5, hierarchy: node 0 of the level 'county' is state='A', county='y', but in the release "
    )
    assert sorted(folder.iterdir()) == before


def test_a_spec_of_counts_and_a_release_of_counts_are_refused(folder, refusal):
    counts = (
        SPEC.replace("group_sizes", "counts").replace("size: n\ngroups: homes\n", "").replace("max_group_size: 9\n", "")
    ).partition("mechanism:")[0]
    (folder / "counts.yaml").write_text(counts)
    assert refusal("reconcile", "out", "counts.yaml", "--out", "again").startswith(
        "release: its statistic is 'group_sizes', and these are made again of counts and flows; "
    )
    areas = tt.Hierarchy.from_table("areas.parquet", levels=["state", "county"])
    table = pa.table({"state": ["A"], "county": ["x"]})
    tt.release_counts(table, areas, tt.Budget(epsilon=1), neighboring="change_one").save("counts")
    assert refusal("reconcile", "counts", "joint.yaml", "--out", "again").startswith(
        "release: its statistic is 'counts'; "
    )


def test_the_help_says_what_is_read(folder, run):
    result = run("reconcile", "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: tallytree reconcile [OPTIONS] {DIR} {SPEC.yaml}\n")
    assert "Make the tables of a release again; spends nothing." in result.stdout
    assert "records are not opened" in " ".join(result.stdout.split())
