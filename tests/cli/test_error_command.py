"""`tallytree error`: errors added to a release at the command line, and the release replaced as a whole."""

import os
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.explored import group_sizes
from helpers.manifests import rewrite
from tallytree.cli.failures import ExitCode
from tallytree.release import replacing
from tallytree.release.intervals import COVERS
from tallytree.release.replacing import replace_release

TOWNS = pa.table({"state": ["A", "A", "B"], "town": ["x", "y", "x"]})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a release of counts, with CSV."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    tree = tt.Hierarchy.from_table(TOWNS, ["state", "town"])
    people = pa.table({"state": ["A"] * 500 + ["B"] * 100, "town": ["y"] * 500 + ["x"] * 100})
    tt.release_counts(people, tree, tt.Budget(epsilon=1), neighboring="change_one").save("out", csv=True)
    return tmp_path


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_columns_are_added_in_place_and_all_else_stays(folder, run):
    (folder / "out/notes").mkdir()
    (folder / "out/notes/mine.txt").write_text("kept")
    before, first = contents(folder / "out"), tt.Release.load("out")
    tables = {level: first.table(level) for level in first.levels}
    result = run("error", "out", "--replicates", "20", "--seed", "1")
    assert (result.exit_code, result.stderr) == (0, "")
    made = tt.Release.load("out")
    after = contents(folder / "out")
    assert after.keys() == before.keys()
    for name in after:
        if name.startswith(("measurements/", "hierarchies/", "notes/")):
            assert after[name] == before[name]
    for level, table in tables.items():
        again = made.table(level)
        numbers = [name for name in table.column_names if name not in ("std_dev", "typical_error", "quality")]
        assert again.column_names == [*numbers, "std_dev", "ci_lower", "ci_upper", "quality"]
        assert again.select(numbers).equals(table.select(numbers))
        assert after[f"tables/{level}.csv"].splitlines()[0].endswith(b'"std_dev","ci_lower","ci_upper","quality"')
    assert sorted(path.name for path in folder.iterdir()) == ["out"]
    shown = re.sub(r"\d+\.?\d*", "#", result.stdout)
    assert re.sub(" +", " ", shown) == (
        "level rows median std dev median width (# %)\n"
        + "─" * len(result.stdout.splitlines()[1])
        + "\nall # # #\nstate # # #\ntown # # #\n"
        + COVERS
        + "\nNothing was spent. Release: out\n"
    )


def test_where_cells_are_absent_their_bound_is_shown(folder, run):
    group_sizes().save("sizes")
    result = run("error", "sizes", "--replicates", "20", "--seed", "1")
    assert result.exit_code == 0
    assert "absent cells: at most" in result.stdout.splitlines()[0]
    assert re.fullmatch(
        r"town +[0-9]+ .* [0-9]+", next(each for each in result.stdout.splitlines() if "town" in each).rstrip()
    )


def test_what_else_lies_in_the_folder_is_kept(folder, run):
    (folder / "out" / "notes").mkdir()
    (folder / "out" / "empty" / "deep").mkdir(parents=True)
    (folder / "out" / "notes" / "mine.txt").write_text("mine")
    (folder / "out" / "there").symlink_to(folder)
    (folder / "out" / "nowhere").symlink_to("gone")
    assert run("error", "out", "--replicates", "10").exit_code == 0
    assert (folder / "out" / "notes" / "mine.txt").read_text() == "mine"
    assert (folder / "out" / "empty" / "deep").is_dir()
    assert (folder / "out" / "there").readlink() == folder
    assert str((folder / "out" / "nowhere").readlink()) == "gone"


def test_a_copy_leaves_the_release_as_it_was(folder, run):
    before = contents(folder / "out")
    result = run("error", "out", "--replicates", "10", "--alpha", "0.05", "--out", "copy")
    assert result.exit_code == 0, result.output
    assert contents(folder / "out") == before
    assert tt.Release.load("copy").statement["errors"]["alpha"] == 0.05


def test_what_cannot_be_known_is_said(folder, run):
    budget, stable = tt.Budget(epsilon=1, delta=1e-6), tt.counts.StabilityHistogram()
    tree = tt.Hierarchy.from_table(TOWNS, ["state", "town"])
    people = pa.table({"state": ["A"] * 500 + ["B"] * 100, "town": ["y"] * 500 + ["x"] * 100})
    tt.release_counts(people, tree, budget, neighboring="change_one", mechanism=stable).save("stable")
    result = run("error", "stable", "--replicates", "10")
    assert result.exit_code == 0
    rows = {line.split()[0]: line for line in result.stdout.splitlines() if line.strip()}
    assert "not known" in rows["all"]
    assert "not known" in rows["state"]
    assert "not known" not in rows["town"]


def test_it_may_be_done_again(folder, run):
    assert run("error", "out", "--replicates", "10").exit_code == 0
    assert run("error", "out", "--replicates", "12").exit_code == 0
    assert tt.Release.load("out").statement["errors"]["replicates"] == 12


def test_what_cannot_be_used_is_refused_in_one_line(folder, refusal):
    before = contents(folder)
    assert refusal("error", "nothing").startswith("folder: ")
    (folder / "empty").mkdir()
    assert "is not a complete release" in refusal("error", "empty")
    assert refusal("error", "out", "--replicates", "1").startswith("replicates: 1 are too few")
    assert refusal("error", "out", "--alpha", "1.5").startswith("alpha: 1.5 must lie strictly between 0 and 1")
    assert "exists" in refusal("error", "out", "--out", "empty", code=ExitCode.EXISTS)
    rewrite(folder / "out", lambda manifest: manifest["statement"]["mechanism"].update(name="Magic"))
    assert refusal("error", "out", "--replicates", "10").startswith("release: its mechanism is 'Magic'")
    assert contents(folder).keys() == before.keys()


def test_a_failure_leaves_the_earlier_release(folder, monkeypatch):
    before = contents(folder / "out")
    made = tt.replicate_errors("out", 10)
    whole = pq.ParquetWriter.write_table
    monkeypatch.setattr(pq.ParquetWriter, "write_table", lambda *_: (_ for _ in ()).throw(OSError(28, "disk full")))
    with pytest.raises(OSError, match="disk full"):
        replace_release(made, "out")
    monkeypatch.setattr(pq.ParquetWriter, "write_table", whole)
    assert contents(folder / "out") == before
    assert [path.name for path in folder.iterdir()] == ["out"]


@pytest.mark.parametrize("failure", [OSError(5, "no"), KeyboardInterrupt()])
def test_a_failed_swap_leaves_the_earlier_release(folder, monkeypatch, failure):
    before, rename = contents(folder), os.rename
    made = tt.replicate_errors("out", 10)
    monkeypatch.setattr(replacing, "exchange", lambda *_: False)

    def fails_to_take_the_name(source, target, *others, **options):
        if str(target) == str(folder / "out") and ".partial" in str(source):
            assert not (folder / "out").exists()  # the earlier release has been renamed away
            raise failure
        return rename(source, target, *others, **options)

    monkeypatch.setattr(os, "rename", fails_to_take_the_name)
    with pytest.raises(type(failure)):
        replace_release(made, "out")
    assert contents(folder) == before


def test_a_link_to_a_release_stays_a_link(folder, run):
    (folder / "latest").symlink_to("out")
    assert run("error", "latest", "--replicates", "10").exit_code == 0
    assert (folder / "latest").is_symlink()
    assert "errors" in tt.Release.load("latest").statement


@pytest.mark.parametrize("arguments", [[], ["--replicates", "0"]], ids=["absent", "zero"])
def test_without_replicates_the_errors_of_the_fit_stay(folder, run, arguments):
    first = tt.Release.load("out")
    before = {level: first.table(level, alpha=0.2) for level in first.levels}
    result = run("error", "out", "--alpha", "0.2", *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "These errors are those of the release's own fit" in result.stdout
    made = tt.Release.load("out")
    errors = made.statement["errors"]
    assert (errors["method"], errors["replicates"], errors["alpha"]) == ("fit", None, 0.2)
    for level, table in before.items():
        assert made.table(level).equals(table)
        assert made.table(level, alpha=0.1).equals(first.table(level, alpha=0.1))


def test_replicates_replace_them_where_they_are_asked_for(folder, run):
    own = tt.Release.load("out").table("town")["std_dev"]
    assert run("error", "out").exit_code == 0
    assert run("error", "out", "--replicates", "10", "--seed", "1").exit_code == 0
    made = tt.Release.load("out")
    assert made.statement["errors"]["method"] == "replicates"
    assert not made.table("town")["std_dev"].equals(own)
    assert run("error", "out", "--alpha", "0.2").exit_code == 0  # what replicates replaced is gone
    assert tt.Release.load("out").statement["errors"]["replicates"] == 50


def test_a_release_without_errors_of_its_own_gets_replicates(folder, run, refusal):
    tree = tt.Hierarchy.from_table(TOWNS, ["state", "town"])
    budget, top_down = tt.Budget(epsilon=1), tt.counts.TopDown()
    tt.release_counts(TOWNS, tree, budget, neighboring="add_remove", mechanism=top_down).save("other")
    assert refusal("error", "other", "--replicates", "0").startswith("replicates: 0 are too few")
    assert run("error", "other").exit_code == 0
    assert tt.Release.load("other").statement["errors"]["replicates"] == 50


def test_csv_is_written_where_it_is_asked_for(folder, run):
    tt.Release.load("out").save("plain")
    assert run("error", "plain", "--csv").exit_code == 0
    assert run("error", "plain", "--csv", "--out", "copy").exit_code == 0
    for place in ("plain", "copy"):
        heading = (folder / place / "tables/town.csv").read_text().splitlines()[0]
        assert heading == '"state","town","count","std_dev","typical_error","ci_lower","ci_upper","quality"'
    assert run("error", "copy", "--out", "without").exit_code == 0
    assert not list((folder / "without").rglob("*.csv"))


def test_tables_have_the_errors_of_their_fit_or_of_replicates(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    areas = tt.Hierarchy.from_table(TOWNS, ["state", "town"])
    product = tt.Product({"area": areas, "sex": tt.Hierarchy.from_values("sex", ["f", "m"])})
    people = pa.table({"state": ["A"] * 60, "town": ["x", "y"] * 30, "sex": ["f", "m", "m"] * 20})
    options = {"neighboring": "add_remove", "tables": [("town", "sex"), ("sex",)], "budget_split": "even"}
    release = tt.release_tables(people, product, tt.Budget(epsilon=1), **options)
    release.save("out", csv=True)
    result = run("error", "out", "--out", "fitted")
    assert result.exit_code == 0, result.output
    assert "the release's own fit" in result.stdout
    fitted = tt.Release.load("fitted").table("town", "sex")
    assert fitted.drop_columns(["ci_lower", "ci_upper"]) == release.table("town", "sex")
    result = run("error", "out", "--replicates", "10", "--seed", "1")
    assert result.exit_code == 0, result.output
    assert "town.sex" in result.stdout
    assert tt.Release.load("out").table("sex") == tt.replicate_errors(release, 10, seed=1).table("sex")
