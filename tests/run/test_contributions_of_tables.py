"""People by their number of records beside tables, and as a release of their own for a spec of tables."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import tallytree as tt
from helpers.inside import TablesArguments, contributions_of, make_release, plan_tables
from tallytree.cli.app import app
from tallytree.spec import load_spec

NUMBERS = [1] * 60 + [2] * 30 + [3] * 20 + [6] * 10
WHO = [who for who, number in enumerate(NUMBERS) for _ in range(number)]
AREAS = tt.Hierarchy.from_table(pa.table({"state": list("AAB"), "county": list("xyz")}), ["state", "county"])
SEXES = tt.Hierarchy.from_values("sex", ["f", "m"])
PEOPLE = tt.Product({"area": AREAS, "sex": SEXES})
PLACES = np.arange(len(WHO)) % 3
RECORDS = pa.table(
    {
        "who": WHO,
        "state": np.array(list("AAB"))[PLACES],
        "county": np.array(list("xyz"))[PLACES],
        "sex": np.array(["f", "m"])[np.array(WHO) % 2],
    }
)
TABLES = [("county", "sex"), ("state",), ()]
EXACT = tt.Budget(epsilon=300)


def arguments(**changes):
    given = {"neighboring": "add_remove", "tables": TABLES, "person": "who", "max_contributions": 2}
    return {"budget_split": "even"} | given | changes


def people(release):
    return dict(
        zip(release.contributions["records_from"].to_pylist(), release.contributions["people"].to_pylist(), strict=True)
    )


def test_people_are_counted_beside_the_tables():
    asked = tt.Contributions(share=0.1, at_most=10)
    release = tt.release_tables(RECORDS, PEOPLE, tt.Budget(epsilon=300), **arguments(contributions=asked))
    found = people(release)
    assert [found[number] for number in (1, 2, 3, 6)] == [60, 30, 20, 10]
    assert sum(found.values()) == len(NUMBERS)
    about = release.statement["contributions"]
    assert about["share"] == pytest.approx(0.1)
    assert sum(level["share"] for level in release.statement["levels"]) == pytest.approx(0.9)
    assert about["sensitivity"] == {"l1": 1, "l2": 1.0}
    assert release.statement["spent"]["epsilon"] <= 300
    kept = 60 + 2 * 60  # at most 2 records each
    assert release.table()["count"].to_pylist()[0] == pytest.approx(kept, abs=3)


def test_distinct_people_are_counted_by_their_combinations_of_leaves():
    """Of six records in three counties a person has three combinations: the sex is theirs."""
    asked = tt.Contributions(share=0.1, at_most=10)
    release = tt.release_tables(
        RECORDS, PEOPLE, tt.Budget(epsilon=300), **arguments(contributions=asked, distinct=True)
    )
    found = people(release)
    combinations = {who: set() for who in range(len(NUMBERS))}
    for who, place in zip(WHO, PLACES.tolist(), strict=True):
        combinations[who].add(place)
    sizes = [len(each) for each in combinations.values()]
    assert [found[number] for number in (1, 2, 3)] == [sizes.count(number) for number in (1, 2, 3)]
    assert release.table()["count"].to_pylist()[0] == pytest.approx(sum(min(2, size) for size in sizes), abs=3)


@pytest.mark.parametrize("neighboring", ["add_remove", "change_one"])
def test_they_can_be_counted_before_the_tables(neighboring):
    planned = plan_tables(TablesArguments(RECORDS, PEOPLE, EXACT, **arguments(neighboring=neighboring)))
    made = contributions_of(planned, at_most=10)
    assert made.plan.contributions.sensitivity.l1 == (1 if neighboring == "add_remove" else 2)
    release = make_release(made)
    assert release.table("contributions")["people"].to_pylist()[:3] == [60, 30, 20]
    assert 1 <= release.statement["contributions"]["recommended"]["max_contributions"] <= 10


def test_a_spec_of_tables_counts_its_people(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(RECORDS, "people.parquet")
    pq.write_table(AREAS.leaf_table(), "areas.parquet")
    pq.write_table(SEXES.leaf_table(), "sexes.parquet")
    (tmp_path / "spec.yaml").write_text("""\
statistic: tables
records: people.parquet
hierarchy:
  attributes:
    area: {path: areas.parquet, levels: [state, county]}
    sex: {path: sexes.parquet, levels: [sex]}
tables: [[county, sex], [state], []]
budget_split: even
neighboring: add_remove
budget: {epsilon: 300}
person: who
max_contributions: 2
contributions: {share: 0.1, at_most: 10}
""")
    result = CliRunner().invoke(app, ["contributions", "spec.yaml", "--out", "people"])
    assert result.exit_code == 0, result.output
    assert tt.Release.load("people").table("contributions")["people"].to_pylist()[:3] == [60, 30, 20]
    release = load_spec("spec.yaml").release("out")
    assert people(release)[6] == 10
    assert people(tt.Release.load("out")) == people(release)


def test_a_product_without_an_order_is_for_a_spec_or_for_an_order():
    with pytest.raises(ValueError, match=r"^hierarchy: a Product without an order"):
        tt.release_contributions(
            RECORDS, PEOPLE, EXACT, neighboring="add_remove", person="who", max_contributions=2, at_most=10
        )
