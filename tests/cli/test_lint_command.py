"""`tallytree lint`: what is found is in a private file; terminal, log and exit code say nothing of it."""

from __future__ import annotations

import json
import re
import stat
import unicodedata

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import tallytree as tt
from helpers.inside import lint_records
from tallytree.cli.app import app
from tallytree.spec import load_spec

DIRTY = [
    *["A,01,7,1"] * 20, *["A,1,8,1"] * 3, *["A , 02,9,x"] * 2, "a,01,,1", *["A,b1,10,1"] * 2, *["A,SECRET,11,-2"] * 4,
    "B,B1,007,1", ",b1,12,1", "C,,13,1", "A,1.0,14,1", "B, 0B1,15,1", "A,02.0,16,1",
]  # fmt: skip
NULL = "null (of CSV an empty cell)"
CLEAN = ["A,01,7,1", "B,b1,8,1"]
SPEC = """\
statistic: counts
records: records.csv
hierarchy: {path: areas.csv, levels: [state, county]}
person: id
count: n
max_contributions: 5
neighboring: add_remove
budget: {epsilon: 1}
on_unknown: drop
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "areas.csv").write_text("state,county\nA,01\nA,02\nB,b1\n")
    (tmp_path / "spec.yaml").write_text(SPEC)
    return write(tmp_path, DIRTY)


def write(folder, rows):
    (folder / "records.csv").write_text("\n".join(["state,county,id,n", *rows]) + "\n")
    return folder


def lint(*options, file="out.txt"):
    return CliRunner().invoke(app, ["lint", "spec.yaml", "--private-out", str(file), *options])


def found(folder, file="out.txt"):
    """Rows by column and defect; and the values of each."""
    rows, values = {}, {}
    for line in (folder / file).read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"(\S.*): (.+): ([0-9,]+) rows", line):
            key = heading[1], heading[2]
            rows[key] = int(heading[3].replace(",", ""))
        elif value := re.fullmatch(r"    (.+): ([0-9,]+)", line):
            values.setdefault(key, {})[value[1]] = int(value[2])
    return rows, values


def test_every_defect_is_counted_by_column_with_its_values(folder):
    assert lint().exit_code == 0
    rows, values = found(folder)
    spelled = "an id that is also written in another way (spaces, letter case, leading zeros, decimals)"
    assert rows == {
        ("state", "padded with spaces"): 2, ("state", NULL): 1, ("state", "other letter case"): 1,
        ("state", "unknown code"): 1, ("county", "unknown code"): 4, ("county", "other leading zeros"): 3,
        ("county", "padded with spaces"): 2, ("county", NULL): 1, ("county", "other letter case"): 1,
        ("county", "written as a decimal"): 1, ("county", "several of spaces, letter case, leading zeros, decimals"): 2,
        ("state, county", "labels that do not belong together"): 2, ("id", "null or empty"): 1, ("id", spelled): 21,
        ("id", "more rows of a person than max_contributions (5)"): 20,
        ("n", "not an integer from 0 to 2^62, or empty"): 6,
    }  # fmt: skip
    assert values["county", "unknown code"] == {"'SECRET'": 4}
    assert values["state", "padded with spaces"] == {"'A '": 2}
    assert values["state, county", "labels that do not belong together"] == {"'A > b1'": 2}
    text = (folder / "out.txt").read_text()
    assert text.startswith("PRIVATE. DO NOT PUBLISH")
    assert "is outside the guarantee" in text
    assert (
        "\n38 rows\n26 rows repeat another one in all columns (but nested ones).\n"
        "26 rows repeat the id of another one (id).\n"
        "18 rows are outside the hierarchy, or impossible; by on_unknown, they are left out.\n"
    ) in text


def test_what_is_left_out_is_what_a_release_leaves_out(folder):
    whole = [row for row in DIRTY if row.split(",")[2] and row.split(",")[3] == "1"]
    assert any("" in row.split(",")[:2] for row in whole)  # a null code cannot be placed either
    write(folder, whole)
    (folder / "spec.yaml").write_text(
        SPEC.replace("epsilon: 1", "epsilon: 100000").replace("person: id\n", "seed: 1\n")
    )
    assert lint().exit_code == 0
    (said,) = re.findall(r"([0-9]+) rows are outside", (folder / "out.txt").read_text())
    released = load_spec("spec.yaml").release("out")
    assert released.table("total")["count"].to_pylist() == [len(whole) - int(said)]


def test_the_file_is_its_owners_alone_and_in_no_release(folder):
    assert lint().exit_code == 0
    assert stat.S_IMODE((folder / "out.txt").stat().st_mode) == 0o600
    before = (folder / "out.txt").read_bytes()
    again = lint()
    assert (again.exit_code, "exists; it is not overwritten" in again.stderr) == (4, True)
    assert (folder / "out.txt").read_bytes() == before
    write(folder, CLEAN)
    load_spec("spec.yaml").release("release")
    (folder / "link").symlink_to(folder / "release" / "tables")
    for place in ("release/defects.txt", "release/tables/defects.txt", "link/defects.txt"):
        refused = lint(file=place)
        assert refused.exit_code != 0
        assert "lies in the folder of a release" in refused.stderr
        assert not (folder / place).exists()
    assert "is not a folder; make it first" in lint(file="nowhere/out.txt").stderr
    assert not [each.name for each in folder.rglob("*.partial")]


def test_the_terminal_the_log_and_the_exit_code_do_not_depend_on_the_records(folder):
    said = []
    for rows in (DIRTY, CLEAN, DIRTY * 50, []):
        write(folder, rows)
        (folder / "out.txt").unlink(missing_ok=True)
        result = lint("--log-format", "json")
        events = [json.loads(line) for line in result.stderr.splitlines()]
        kept = [{key: each[key] for key in each if key not in ("time", "seconds")} for each in events]
        said.append((result.exit_code, result.stdout, kept))
        assert "SECRET" not in result.output
    assert all(each == said[0] for each in said)
    assert "No defects were found in the rows that were looked at." in (folder / "out.txt").read_text()


def test_flows_tables_and_group_sizes_are_looked_at_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    areas = pa.table({"state": ["A", "A", "B"], "county": ["01", "02", "b1"]})
    pq.write_table(areas, "areas.parquet")
    records = pa.table({
        "home": ["01", "02 ", "b1", None], "work": ["B1", "01", "9", "9"], "sex": ["f", "m", "m", "f"],
        "house": ["h1", "h2", "h3", "h3"], "who": [1, 2, 3, 3],
    })  # fmt: skip
    pq.write_table(records, "records.parquet")
    hierarchy = "{path: areas.parquet, levels: [state, county]}"
    common = "neighboring: add_remove\nbudget: {epsilon: 1}\n"
    (tmp_path / "spec.yaml").write_text(
        f"statistic: flows\ntrips: records.parquet\norigins: {hierarchy}\ndestinations: {hierarchy}\n{common}"
        "origin: [s1, c1]\ndestination: [s2, c2]\nleaf: {origin: home, destination: work}\n"
    )
    assert lint(file="flows.txt").exit_code == 0
    assert found(tmp_path, "flows.txt")[0] == {
        ("home", "padded with spaces"): 1, ("home", NULL): 1, ("work", "other letter case"): 1,
        ("work", "unknown code"): 2,
    }  # fmt: skip
    pq.write_table(pa.table({"sex": ["f"], "work": ["9"]}), "impossible.parquet")
    (tmp_path / "spec.yaml").write_text(
        f"statistic: tables\nrecords: records.parquet\n{common}tables: [total, [county]]\nleaf: {{area: home}}\n"
        f"hierarchy: {{attributes: {{area: {hierarchy}, sex: {{path: sexes.csv, levels: [sex]}}, "
        "work: {path: works.csv, levels: [work]}}, impossible: impossible.parquet}\n"
    )
    (tmp_path / "sexes.csv").write_text("sex\nf\nm\n")
    (tmp_path / "works.csv").write_text("work\n01\n9\nB1\n")
    assert lint(file="tables.txt").exit_code == 0
    assert found(tmp_path, "tables.txt")[0] == {
        ("home", "padded with spaces"): 1, ("home", NULL): 1,
        ("sex, work", "a combination that is listed as impossible"): 1,
    }  # fmt: skip
    pq.write_table(records.set_column(3, "house", pa.array(["h1", "H1", "h1", None])), "records.parquet")
    (tmp_path / "spec.yaml").write_text(
        f"statistic: group_sizes\nrecords: records.parquet\nhierarchy: {hierarchy}\n{common}leaf: home\n"
        "group: house\nperson: who\n"
    )
    assert lint(file="sizes.txt").exit_code == 0
    rows, values = found(tmp_path, "sizes.txt")
    assert rows["house", "null or empty"] == 1
    assert values["house", "a group in several leaves"] == {"'h1'": 2}
    assert values["who", "more rows of a person than max_contributions (1)"] == {"'3'": 2}


def test_of_a_period_its_rows_are_looked_at(folder):
    days = ["2026-03-04", "2026-03-04", "2026-03-05", "2026-03-06", "", "04/03/2026", "04/03/2026", "soon"]
    (folder / "records.csv").write_text("county,day\n01," + "\n9,".join(days) + "\n")
    spec = SPEC.replace("person: id\ncount: n\nmax_contributions: 5\n", "leaf: county\nperiod_column: day\n")
    (folder / "spec.yaml").write_text(spec + "period: 2026-03-04\n".replace("2026-03-04", '"2026-03-04"'))
    assert lint().exit_code == 0
    assert (
        "\n2 rows in the period\n2 rows are outside the period, and 1 have no date: they are left out, not looked at."
        " These are most of the rows: is this the file of another day, or the wrong column?\n"
        "0 rows repeat another one in all columns (but nested ones).\n1 rows are outside the hierarchy"
    ) in (folder / "out.txt").read_text()
    rows, values = found(folder)
    unreadable = ("day", "no date in a form that is read (2026-03-04, 2026-03, 2026-W10)")
    assert rows == {unreadable: 3, ("county", "unknown code"): 1}
    assert values[unreadable] == {"'04/03/2026'": 2, "'soon'": 1}


@pytest.mark.parametrize("name", ["records.csv", "records.parquet", "day={}/records.parquet"])
def test_a_file_that_is_there_twice_is_seen_by_its_rows(tmp_path, monkeypatch, name):
    """Of all columns that the files have in common, whether the spec names them or not."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "areas.csv").write_text("county\n01\n02\n")
    trips = pa.table({"county": ["01", "01", "02"], "who": [1, 2, 3], "at": ["a", "b", None], "shape": [[1], [2], [3]]})
    for place in ("1", "2"):
        path = tmp_path / "trips" / (name.format(place) if "{" in name else f"{place}-{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        table = trips.append_column("batch", pa.array([int(place)] * 3)) if place == "2" else trips
        if name.endswith("csv"):
            pa.csv.write_csv(table.drop_columns("shape"), path)
        else:
            pq.write_table(table, path)
    pattern = "trips/*.csv" if name.endswith("csv") else "trips"
    (tmp_path / "spec.yaml").write_text(
        f"statistic: counts\nrecords: {pattern}\nhierarchy: {{path: areas.csv, levels: [county]}}\nperson: who\n"
        "max_contributions: 2\nneighboring: add_remove\nbudget: {epsilon: 1}\n"
    )
    assert lint().exit_code == 0
    text = (tmp_path / "out.txt").read_text()
    assert (
        "\n6 rows\n3 rows repeat another one in all columns (but nested ones).\n"
        "3 rows repeat the id of another one (who).\n" in text
    )
    assert "No defects were found in the rows that were looked at." in text


def test_nulls_and_empty_texts_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "areas.csv").write_text("county\n01\n02\n")
    pq.write_table(pa.table({"county": ["01", None, "", ""]}), "records.parquet")
    (tmp_path / "spec.yaml").write_text(
        "statistic: counts\nrecords: records.parquet\nhierarchy: {path: areas.csv, levels: [county]}\n"
        "neighboring: add_remove\nbudget: {epsilon: 1}\non_unknown: drop\n"
    )
    assert lint().exit_code == 0
    assert found(tmp_path)[0] == {("county", NULL): 1, ("county", "empty text"): 2}
    assert (
        "\n3 rows are outside the hierarchy, or impossible; by on_unknown, they are left out."
        in (tmp_path / "out.txt").read_text()
    )


def test_names_that_look_alike_in_two_unicode_forms_are_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    composed, apart = (unicodedata.normalize(form, "Zürich") for form in ("NFC", "NFD"))
    pq.write_table(pa.table({"town": [composed, "b"]}), "areas.parquet")
    pq.write_table(pa.table({"town": [apart, composed, "Zurich"]}), "records.parquet")
    (tmp_path / "spec.yaml").write_text(
        "statistic: counts\nrecords: records.parquet\nhierarchy: {path: areas.parquet, levels: [town]}\n"
        "neighboring: add_remove\nbudget: {epsilon: 1}\n"
    )
    assert lint().exit_code == 0
    assert found(tmp_path)[0] == {
        ("town", "looks the same, in another Unicode form (NFC, NFD)"): 1, ("town", "unknown code"): 1,
    }  # fmt: skip


def test_a_bound_that_is_chosen_later_and_another_engine(folder):
    auto = SPEC.replace("max_contributions: 5", "max_contributions: auto\ncontributions: {share: 0.1, at_most: 9}")
    (folder / "spec.yaml").write_text(auto)
    assert lint().exit_code == 0
    assert ("id", "more rows of a person than max_contributions (9)") in found(folder)[0]
    planned = load_spec("spec.yaml").plan()
    other = tt.engines.Remembering()
    object.__setattr__(planned, "engine", other)
    with pytest.raises(ValueError, match=r"^engine: .* does not look for defects"):
        lint_records(planned, folder / "other.txt")
