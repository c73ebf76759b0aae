"""The total has one name, "total", wherever tables are named; files and statements keep "all"."""

from __future__ import annotations

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import tallytree as tt
from tallytree.cli.app import app

AREAS = pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"]})


def people_and_records():
    areas = tt.Hierarchy.from_table(AREAS, ["state", "county"])
    people = tt.Product({"area": areas, "sex": tt.Hierarchy.from_values("sex", ["f", "m"])})
    return people, pa.concat_tables([AREAS] * 30).append_column("sex", pa.array(["f", "m", "f"] * 30))


@pytest.fixture(scope="module")
def release():
    people, records = people_and_records()
    return tt.release_tables(
        records, people, tt.Budget(epsilon=1), neighboring="add_remove", seed=1,
        tables=["county, sex", "total"], precision={"total": 20, "county, sex": 5},
    )  # fmt: skip


@pytest.mark.parametrize("name", [(), ("total",), ("",), ("all",)])
def test_the_total_has_one_name_and_earlier_ones_stay(release, name):
    assert release.table(*name).equals(release.table())
    assert release.measurements(*name).equals(release.measurements())


def test_a_release_is_the_same_by_whichever_name_its_total_is_asked_for(release):
    people, records = people_and_records()
    for total in ((), "", ("total",)):
        other = tt.release_tables(
            records, people, tt.Budget(epsilon=1), neighboring="add_remove", seed=1,
            tables=[("county", "sex"), total], precision={"": 20, ("county", "sex"): 5},
        )  # fmt: skip
        assert (other.statement, other.spec) == (release.statement, release.spec)
        assert other.table().equals(release.table())


def test_files_and_statements_keep_the_stored_name(release, tmp_path):
    release.save(tmp_path / "out")
    assert (tmp_path / "out" / "tables" / "all.parquet").exists()
    assert [each["level"] for each in release.statement["levels"]] == ["county.sex", "all"]


def test_no_level_has_that_name():
    with pytest.raises(ValueError, match=r"^levels: 'Total' .*rename the level"):
        tt.Hierarchy.from_values("Total", ["a", "b"])


def test_group_sizes_and_counts_have_it_too():
    people = pa.table({"county": ["x", "x", "y"], "home": ["1", "1", "2"]})
    one, several = (tt.Hierarchy.from_table(pa.table({"county": codes}), ["county"]) for codes in (["x"], ["x", "y"]))
    for areas, root in ((one, "county"), (several, "all")):
        terms = {"group": "home", "neighboring": "add_remove", "max_group_size": 3, "on_unknown": "drop", "seed": 1}
        made = tt.release_group_sizes(people, areas, tt.Budget(epsilon=9), **terms)
        assert made.mean(seed=1).equals(made.mean(root, seed=1))
        assert made.table("total").equals(made.table(root))
    with pytest.raises(ValueError, match="budget_split: it has two weights for the total"):
        tt.release_counts(
            people, several, tt.Budget(epsilon=1), neighboring="add_remove",
            budget_split={"total": 1, "all": 3, "county": 1},
        )  # fmt: skip


def test_messages_have_the_one_name(release):
    people, records = people_and_records()
    with pytest.raises(ValueError, match=r"^level: .* which are \(county, sex\); \(total\)"):
        release.table("state")
    for options, said in (
        (
            {"precision": {"state": 3}},
            "precision: the table 'state' is not asked for; the tables are county.sex, total",
        ),
        ({"precision": {"total": 3, "": 4}}, "precision: the table 'total' is named twice"),
        ({"budget_split": {"total": 1, "county, sex": 0}}, "budget_split"),
        ({"tables": [("county", "total")]}, "tables: 'total' is no level; name the table 'total' alone"),
    ):
        given = {"tables": ["county, sex", "total"], **options}
        with pytest.raises(ValueError, match=f"^{said}"):
            tt.release_tables(records, people, tt.Budget(epsilon=1), neighboring="add_remove", **given)


def test_counts_take_the_name_too():
    areas, records = tt.Hierarchy.from_table(AREAS, ["state", "county"]), pa.concat_tables([AREAS] * 20)
    split = {"total": 1, "state": 2, "county": 3}
    made = tt.release_counts(
        records, areas, tt.Budget(epsilon=1), neighboring="add_remove", seed=1, budget_split=split
    )  # fmt: skip
    assert made.table("total").equals(made.table("all"))


@pytest.mark.slow
def test_plan_and_check_show_the_one_name_and_a_database_needs_no_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "areas.dat").write_text("state,county\nA,x\nA,y\nB,x\n")
    (tmp_path / "records.csv").write_text("state,county,sex\nA,x,f\n")
    (tmp_path / "sexes.csv").write_text("sex\nf\nm\n")
    (tmp_path / "spec.yaml").write_text(
        "statistic: tables\nrecords: records.csv\nneighboring: add_remove\nbudget: {epsilon: 1}\n"
        "hierarchy: {attributes: {area: {csv: areas.dat, levels: [state, county]}, "
        "sex: {path: sexes.csv, levels: [sex]}}}\ntables: [[county, sex], total]\nprecision: {total: 3}\n"
    )
    for command in (["check", "spec.yaml"], ["plan", "spec.yaml"], ["plan", "spec.yaml", "--target", "total=9"]):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
        assert "total" in result.stdout
        assert not any(line.lstrip().startswith("all ") for line in result.stdout.splitlines())
    plan = tt.plan("spec.yaml", target={(): 9})
    assert [row["level"] for row in plan.levels] == ["county.sex", "total"]
    again = tt.plan(plan.spec)  # the paths of the mapping are absolute in it
    assert again.budget == plan.budget
