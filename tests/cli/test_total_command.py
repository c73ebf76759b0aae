"""`tallytree total`: sums over areas at the command line."""

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from tallytree.cli.failures import ExitCode
from tallytree.release.intervals import COVERS

TOWNS = pa.table({"state": ["A", "A", "B"], "town": ["x", "y", "x"]})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a release of counts and a table of areas."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    tree = tt.Hierarchy.from_table(TOWNS, ["state", "town"])
    people = pa.table({"state": ["A"] * 500 + ["B"] * 100, "town": ["y"] * 500 + ["x"] * 100})
    tt.release_counts(people, tree, tt.Budget(epsilon=1), neighboring="change_one").save("out")
    (tmp_path / "areas.csv").write_text("state,town,district\nA,x,west\nA,y,east\nB,,west\n")
    return tmp_path


def test_totals_are_shown(folder, output):
    shown = output("total", "out", "areas.csv").splitlines()
    assert shown[0].split() == ["count", "std_dev", "ci_lower", "ci_upper", "quality"]
    assert shown[2].split() == ["600", "0", "600", "600", "exact"]
    assert shown[3:] == [COVERS, "Nothing was spent."]
    by = output("total", "out", "areas.csv", "--by", "district").splitlines()
    assert [by[2].split()[0], by[3].split()[0]] == ["west", "east"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_totals_are_written(folder, output, suffix):
    shown = output("total", "out", "areas.csv", "--by", "district", "--alpha", "0.2", "--out", f"totals.{suffix}")
    assert shown.splitlines()[-1] == f"Nothing was spent. Totals: totals.{suffix}"
    found = (csv.read_csv if suffix == "csv" else pq.read_table)(folder / f"totals.{suffix}")
    expected = tt.Release.load("out").total("areas.csv", by="district", alpha=0.2)
    assert found.to_pylist() == expected.to_pylist()
    assert sorted(path.name for path in folder.iterdir()) == ["areas.csv", "out", f"totals.{suffix}"]


def test_replicates_are_used_where_they_are_asked_for(folder, output):
    options = ("--replicates", "10", "--seed", "1")
    output("total", "out", "areas.csv", "--by", "district", *options, "--out", "totals.parquet")
    expected = tt.Release.load("out").total("areas.csv", by="district", replicates=10, seed=1)
    assert pq.read_table("totals.parquet").equals(expected)


def test_what_a_threshold_left_out_is_said(folder, output):
    tree = tt.Hierarchy.from_table(TOWNS, ["state", "town"])
    people = pa.table({"state": ["A"] * 500, "town": ["y"] * 500})
    budget, stable = tt.Budget(epsilon=1, delta=1e-6), tt.counts.StabilityHistogram()
    tt.release_counts(people, tree, budget, neighboring="change_one", mechanism=stable).save("stable")
    shown = output("total", "stable", "areas.csv")
    assert "The errors of these sums are not known" in shown
    assert "std_dev" not in shown


def test_folders_above_the_file_are_made(folder, output):
    output("total", "out", "areas.csv", "--out", "new/folder/totals.csv")
    assert (folder / "new" / "folder" / "totals.csv").is_file()


def test_what_cannot_be_used_is_refused_in_one_line(folder, refusal):
    assert refusal("total", "nothing", "areas.csv").startswith("folder: ")
    assert refusal("total", "out", "areas.csv", "--by", "zone").startswith("areas: column 'zone' is missing")
    assert refusal("total", "out", "areas.csv", "--out", "totals.txt").startswith("out: 'totals.txt' must end in .csv")
    assert "exists" in refusal("total", "out", "areas.csv", "--out", "areas.csv", code=ExitCode.EXISTS)
    assert refusal("total", "out", "areas.csv", "--replicates", "2").startswith("replicates: 2 are too few")
