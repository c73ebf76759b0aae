"""Releases of tables end to end: what is published agrees, what is measured and how, and what is refused."""

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import tallytree as tt
from helpers.inside import TablesArguments, plan_tables
from tallytree.ledger import Ledger
from tallytree.spec import SpecError, load_spec

AREAS = tt.Hierarchy.from_table(
    pa.table({"country": ["C"] * 6, "state": list("AAABBB"), "county": list("xyzxyz")}), ["country", "state", "county"]
)
AGES = tt.Hierarchy.from_table(pa.table({"band": ["young", "young", "old"], "age": [0, 1, 2]}), ["band", "age"])
SEXES = tt.Hierarchy.from_values("sex", ["f", "m", "u"])
PEOPLE = tt.Product({"area": AREAS, "age": AGES, "sex": SEXES})
TABLES = [("county", "age", "sex"), ("county", "sex"), ("state", "age"), ("country",)]
EXACT = tt.Budget(epsilon=1_000_000)
rng = np.random.default_rng(14)
TRUTH = rng.poisson(30, (6, 3, 3))
TRUTH[:, :, 2] //= 30
PLACES = np.repeat(np.arange(54), TRUTH.ravel())
WHO = {
    "country": pa.array(["C"] * len(PLACES)),
    "state": np.array(list("AAABBB"))[PLACES // 9],
    "county": np.array(list("xyzxyz"))[PLACES // 9],
    "band": np.array(["young", "young", "old"])[PLACES // 3 % 3],
    "age": PLACES // 3 % 3,
    "sex": np.array(["f", "m", "u"])[PLACES % 3],
}
RECORDS = pa.table(WHO)


def tables(records=RECORDS, product=PEOPLE, **changes):
    given = {"budget": tt.Budget(epsilon=1, delta=1e-8), "neighboring": "add_remove", "tables": TABLES} | changes
    return tt.release_tables(records, product, given.pop("budget"), **given)


def planned(**changes):
    given = {"budget": tt.Budget(epsilon=1, delta=1e-8), "neighboring": "add_remove", "tables": TABLES} | changes
    return plan_tables(TablesArguments(given.pop("records", RECORDS), given.pop("product", PEOPLE), **given))


def cells(release, *table):
    """The counts of a table by path."""
    return {tuple(list(row.values())[:-4]): row["count"] for row in release.table(*table).to_pylist()}


def test_with_next_to_no_noise_the_tables_are_the_true_ones():
    release = tables(budget=EXACT)
    assert release.tables == (("county", "age", "sex"), ("county", "sex"), ("state", "age"), ("country",))
    assert release.table("sex", "county", "age")["count"].to_pylist() == TRUTH.ravel().tolist()
    assert release.table("county", "sex")["count"].to_pylist() == TRUTH.sum(1).ravel().tolist()
    assert release.table("state", "age")["count"].to_pylist() == TRUTH.sum(2).reshape(2, 3, 3).sum(1).ravel().tolist()
    assert release.table("country")["count"].to_pylist() == [TRUTH.sum()]
    assert release.table("state", "age").column_names == [
        "country", "state", "band", "age", "count", "std_dev", "typical_error", "quality",
    ]  # fmt: skip
    assert release.table("state", "age").slice(4, 1).to_pylist()[0] | {"std_dev": 0, "typical_error": 0} == {
        "country": "C", "state": "B", "band": "young", "age": "1", "count": int(TRUTH[3:, 1].sum()), "std_dev": 0,
        "typical_error": 0, "quality": "reliable",
    }  # fmt: skip
    text = pa.large_string()
    assert list(release.table("country").schema.types) == [text, pa.int64(), pa.float64(), pa.float64(), text]


@pytest.mark.parametrize(
    ("budget", "neighboring"),
    [
        (tt.Budget(epsilon=0.05), "change_one"),
        (tt.Budget(epsilon=1, delta=1e-6), "add_remove"),
        (tt.Budget(rho=0.01), "change_one"),
    ],
)
def test_all_tables_are_sums_of_one_table_of_integers(budget, neighboring):
    every = [
        tuple(name for name in each if name)
        for each in itertools.product(["country", "state", "county"], ["band", "age", None], ["sex", None])
    ]
    release = tables(tables=every, budget=budget, neighboring=neighboring, budget_split="even")
    finest = release.table("county", "age", "sex")
    assert min(finest["count"].to_pylist()) >= 0
    for table in every:
        coarse = release.table(*table)
        paths = coarse.column_names[:-4]
        summed = finest.group_by(paths, use_threads=False).aggregate([("count", "sum")])
        found = {tuple(row[name] for name in paths): row["count_sum"] for row in summed.to_pylist()}
        assert found == cells(release, *table)
    assert release.statement["constraint_violations"] == release.statement["negative_numbers"] == 0
    if neighboring == "change_one":
        assert release.table("country")["count"].to_pylist() == [len(PLACES)]
        assert release.table("country")["std_dev"].to_pylist() == [0]
        assert "the total number of records" in release.statement["invariants"]


def test_the_statement_lists_the_tables_and_the_folder_has_one_file_each(tmp_path):
    release = tables()
    listed = {each["level"]: each for each in release.statement["levels"]}
    assert [each["table"] for each in release.statement["levels"] if each["asked"]] == [list(table) for table in TABLES]
    assert listed["county.age.sex"]["nodes"] == 54
    assert listed["county.age.sex"]["zeros_listed"]
    assert math.isclose(sum(each.get("share", 0) for each in listed.values()), 1)
    assert any("all of them agree" in note for note in release.statement["notes"])
    assert release.spec["tables"] == [list(table) for table in TABLES]
    folder = release.save(tmp_path / "out", csv=True)
    files = {file.name for file in (folder / "tables").iterdir()}
    assert {"county.age.sex.parquet", "county.sex.parquet", "state.age.parquet", "country.parquet"} <= files
    assert "county.sex.csv" in files
    again = tt.Release.load(folder)
    assert again.tables == release.tables
    for each in again.tables:
        assert again.table(each) == release.table(*each) == release.table(".".join(reversed(each)) or "total")
    for table in TABLES:
        assert again.table(*table) == release.table(*table)
        assert again.measurements(*table) == release.measurements(*table)
    assert repr(again.tree) == repr(PEOPLE)


def test_names_with_dots_have_files_of_their_own(tmp_path):
    areas = tt.Hierarchy.from_table(pa.table({"a.b": ["x", "y"]}), ["a.b"])
    other = tt.Hierarchy.from_table(pa.table({"b": ["p"]} | {"b.c": ["q"]}), ["b", "b.c"])
    product = tt.Product({"area": areas, "other": other, "sex": SEXES})
    records = pa.table({"a.b": ["x"], "b": ["p"], "b.c": ["q"], "sex": ["f"]})
    release = tables(records, product, tables=[("a.b", "sex"), ("sex",)], budget=EXACT)
    folder = release.save(tmp_path / "out")
    assert {file.name for file in (folder / "tables").iterdir()} >= {"a%252Eb.sex.parquet", "sex.parquet"}
    assert tt.Release.load(folder).table("a.b", "sex")["count"].to_pylist() == [1, 0, 0, 0, 0, 0]


def test_more_noise_changes_the_counts_and_what_was_measured_is_published():
    release = tables(budget_split="even")
    measured = release.measurements("county", "age", "sex")
    assert measured.num_rows == 54
    assert measured["value"].to_pylist() != TRUTH.ravel().tolist()
    assert len(set(measured["std_dev"].to_pylist())) == 1
    assert measured.column_names == ["country", "state", "county", "band", "age", "sex", "value", "std_dev"]
    errors = release.table("county", "sex")["std_dev"].to_numpy()
    assert 0 < errors.max() < release.measurements("county", "sex")["std_dev"][0].as_py()


def test_the_stated_errors_of_two_tables_by_hand():
    """A county is measured itself, and as the sum of its three cells; each cell has a third of what a county gains."""
    release = tables(tables=[("county", "sex"), ("county",)], budget=tt.Budget(rho=0.01))
    fine, coarse = (
        release.measurements(*table)["std_dev"][0].as_py() ** 2 for table in (("county", "sex"), ("county",))
    )
    county = 1 / (1 / coarse + 1 / (3 * fine))
    stated = [release.table(*table)["std_dev"].to_numpy() for table in (("county",), ("county", "sex"))]
    assert stated[0] == pytest.approx(np.full(6, math.sqrt(county)))
    assert stated[1] == pytest.approx(np.full(18, math.sqrt(fine - (3 * fine - county) / 9)))


@pytest.mark.parametrize(
    ("relation", "m", "squared"),
    [("add_remove", 1, 1), ("change_one", 1, 2), ("add_remove", 3, 9), ("change_one", 3, 18)],
)
def test_sensitivities_are_those_of_counts(relation, m, squared):
    release = planned(neighboring=relation, max_contributions=m, budget=tt.Budget(rho=0.1), budget_split="even")
    sensitivity = {name: level.sensitivity for name, level in release.plan.levels.items()}
    assert sensitivity["county.age.sex"].l2_squared == sensitivity["state.age"].l2_squared == squared
    assert ("country" in sensitivity) == ((relation, m) != ("change_one", 1))
    if "country" in sensitivity:
        assert sensitivity["country"].l2_squared == m * m
    assert sum(each.cost for each in release.plan.levels.values()) <= Fraction(1, 10)


def test_distinct_people_have_less_noise_in_the_finest_table_alone():
    records = RECORDS.append_column("who", pa.array(range(len(PLACES))))
    made = planned(records=records, person="who", distinct=True, max_contributions=4, budget_split="even")
    found = {name: (each.statistic, each.sensitivity.l2_squared) for name, each in made.plan.levels.items()}
    assert found == {
        "county.age.sex": ("distinct_counts", 4),
        "county.sex": ("counts", 16),
        "state.age": ("counts", 16),
        "country": ("total", 16),
    }
    coarse = planned(
        records=records, person="who", distinct=True, max_contributions=4, tables=[("county", "band", "sex")]
    )
    assert {each.statistic for each in coarse.plan.levels.values()} <= {"counts", "total"}


def test_records_of_a_person_over_the_bound_are_left_out():
    records = pa.concat_tables([RECORDS, RECORDS]).append_column("who", pa.array([*range(len(PLACES))] * 2))
    release = tables(records, person="who", budget=EXACT)
    assert release.table("county", "age", "sex")["count"].to_pylist() == TRUTH.ravel().tolist()
    assert release.statement["max_contributions_enforced"]


def test_a_column_of_counts_and_records_outside():
    rows = pa.table({name: values[:1] for name, values in RECORDS.to_pydict().items()} | {"n": [7]})
    strange = rows.set_column(rows.column_names.index("sex"), "sex", pa.array(["x"]))
    with pytest.raises(ValueError, match="outside the hierarchy"):
        tables(pa.concat_tables([rows, strange]), count="n")
    release = tables(pa.concat_tables([rows, strange]), count="n", on_unknown="drop", budget=EXACT)
    assert release.table("country")["count"].to_pylist() == [7]


def test_seeded_releases_are_the_same_and_others_are_not():
    first, again, other = (tables(seed=seed) for seed in (1, 1, 2))
    assert first.table("county", "sex") == again.table("county", "sex")
    assert first.measurements("county", "sex") == again.measurements("county", "sex")
    assert first.measurements("county", "age", "sex") != other.measurements("county", "age", "sex")
    assert not first.statement["private"]


def test_two_tables_have_independent_noise():
    """The same cells counted in two tables of other names would else give their noise away."""
    release = tables(
        tables=[("county", "sex"), ("county", "age"), ("county",)], budget_split="even", budget=tt.Budget(rho=1e-4)
    )
    noises = [
        np.array(release.measurements(*table)["value"].to_numpy(), dtype=float) - cells_of(table)
        for table in (("county", "sex"), ("county", "age"))
    ]
    assert not np.array_equal(*noises)


def cells_of(table):
    axes = {("county", "sex"): 1, ("county", "age"): 2}
    return TRUTH.sum(axes[table]).ravel()


def test_public_totals_are_kept_exactly():
    totals = pa.table({"country": ["C", "C"], "state": ["B", "A"], "count": [1000, 0]})
    release = tables(public_totals=totals, tables=[*TABLES[:3], ("state",), ()], neighboring="change_one")
    assert release.table("state")["count"].to_pylist() == [0, 1000]
    assert release.table()["count"].to_pylist() == [1000]
    assert release.table("state")["std_dev"].to_pylist() == [0, 0]
    assert release.statement["invariants"] == ["the hierarchies", "the total of every area at the level 'state'"]
    assert not {"state", "all"} & {each["level"] for each in release.statement["levels"] if each["measured"]}
    assert release.table("county", "age", "sex")["count"].to_numpy()[:27].sum() == 0
    assert any("which of these areas it lies in" in note for note in release.statement["notes"])
    assert "where both cases have the same invariants" in release.statement["risk"]["attack"]


@pytest.mark.parametrize(
    ("options", "says"), [({"person": "who"}, "person"), ({"on_unknown": "drop"}, 'on_unknown="drop"')]
)
def test_public_totals_of_all_records_do_not_go_with_records_that_are_left_out(options, says):
    totals = pa.table({"state": ["A", "B"], "count": [3, 3]})
    with pytest.raises(ValueError, match=rf"^public_totals: they are of all records, and {says} leaves records out"):
        tables(public_totals=totals, neighboring="change_one", **options)


def test_public_totals_list_every_area_once():
    """They are published as exact: what is listed twice is not added up, and what is not listed is not made up."""
    options = {"tables": [*TABLES[:3], ("state",), ()], "neighboring": "change_one"}
    for count in ([30, 30, 0], [60, 0, 0]):
        twice = pa.table({"country": ["C"] * 3, "state": ["A", "A", "B"], "count": count})
        with pytest.raises(ValueError, match=r"^public_totals: .*country='C', state='A' is listed twice"):
            tables(public_totals=twice, **options)
    short = pa.table({"country": ["C"], "state": ["A"], "count": [30]})
    with pytest.warns(
        UserWarning, match=r"^public_totals: 1 of 2 areas are not listed, so that 0 is published"
    ) as said:
        release = tables(public_totals=short, **options)
    assert len(said) == 1
    assert release.table("state")["count"].to_pylist() == [30, 0]


def test_public_totals_that_would_tell_of_people_are_refused(tmp_path):
    totals = pa.table({"country": ["C"], "state": ["B"], "count": [1000]})
    with pytest.raises(ValueError, match=r'^public_totals: .*neighboring="add_remove" .*presence of a person'):
        tables(public_totals=totals)
    with pytest.raises(ValueError, match=r"^public_totals: it is the private table that is given as records"):
        tables(totals, public_totals=totals, count="count", neighboring="change_one")
    path = tmp_path / "people.parquet"
    pa.parquet.write_table(totals, path)
    (tmp_path / "totals.parquet").hardlink_to(path)
    with pytest.raises(ValueError, match=r"^public_totals: it is the private table"):
        tables(path, public_totals=tmp_path / "totals.parquet", count="count", neighboring="change_one")
    with pytest.raises(ValueError, match=r"^tables: all of them are exact totals"):
        tables(public_totals=totals, tables=[("state",), ()], neighboring="change_one")


def test_shares_and_what_is_measured_can_be_given():
    given = planned(budget=tt.Budget(rho=1), budget_split={("sex", "county"): 1, "county, age, sex": 3})
    assert {name: each.share for name, each in given.plan.levels.items()} == {
        "county.sex": Fraction(1, 4), "county.age.sex": Fraction(3, 4)
    }  # fmt: skip
    assert given.layout.levels == ("county.age.sex", "county.sex", "state.age", "country")
    named = planned(measure=[("county", "age", "sex"), ("sex",)], budget_split="even")
    assert list(named.plan.levels) == ["county.age.sex", "sex"]
    assert named.layout.levels[-1] == "sex"
    assert named.layout.asked == 4


def test_automatic_shares_follow_the_wishes():
    wide = planned(tables=[("county", "sex"), ("country",)], precision={("country",): 100.0, "county, sex": 1})
    narrow = planned(tables=[("county", "sex"), ("country",)], precision={("country",): 1, "county, sex": 100.0})
    share = [made.plan.levels["county.sex"].share for made in (wide, narrow)]
    assert share[0] > Fraction(9, 10)
    assert share[1] < share[0] / 2
    assert sum(each.share for each in narrow.plan.levels.values()) == 1


ORDERED = tt.Product({"area": AREAS, "sex": SEXES}, order=["area"] * 3 + ["sex"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"product": AREAS}, "hierarchy: Hierarchy must be a tallytree.Product without an order"),
        ({"product": ORDERED}, "hierarchy: the Product has an order, which makes it a tree for tallytree.release_cou"),
        ({"tables": [("village",)]}, "tables: 'village' is not a level"),
        ({"tables": []}, "tables: it is empty"),
        ({"measure": [("state",)]}, "measure: the published table 'county.age.sex' does not follow from what is meas"),
        ({"budget_split": {("state",): 1}}, "budget_split: the published table 'county.age.sex' does not follow"),
        (
            {"budget_split": {("county", "age", "sex"): 0}},
            r"budget_split\['county.age.sex'\]: 0 must be greater than 0",
        ),
        (
            {"budget_split": {("sex", "state"): 1, "state, sex": 1}},
            "budget_split: the table 'state.sex' is named twice",
        ),
        ({"budget_split": "evenly"}, "budget_split: 'evenly' is not known"),
        ({"budget_split": 3}, "budget_split: 3 must be"),
        ({"precision": 3}, "precision: 3 must be a mapping"),
        ({"precision": {}}, "precision: it is empty; give a standard deviation by table"),
        ({"precision": {("state",): 3}}, "precision: the table 'state' is not asked for"),
        ({"precision": {("country",): 1e-300}}, "precision: 1e-300 of 'country' must be between 1e-06 and 1e.12"),
        ({"precision": {("country",): 0}}, "precision: 0.0 of 'country' must be greater than 0"),
        (
            {"precision": {("country",): 1}, "budget_split": "even"},
            "precision: it decides the shares with budget_split",
        ),
        ({"mechanism": tt.counts.LeastSquares()}, "mechanism: LeastSquares must be one of tallytree.tables"),
        ({"mechanism": tt.tables.LeastSquares}, r"mechanism: LeastSquares is a class; write LeastSquares\(\)"),
        (
            {"public_totals": pa.table({"count": [3]}), "neighboring": "change_one"},
            "public_totals: it has no column of the areas; it needs 'country'",
        ),
        (
            {"public_totals": pa.table({"state": ["Z"], "count": [3]}), "neighboring": "change_one"},
            "public_totals: a record is outside the hierarchy",
        ),
        ({"person": "sex"}, "person: 'sex' is a column of the hierarchy"),
        ({"distinct": True}, "distinct: True counts every person at most once"),
    ],
)
def test_what_cannot_be_is_refused(changes, message):
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        planned(**changes)


def test_a_product_without_an_order_is_no_tree_for_counts():
    with pytest.raises(ValueError, match=r"^hierarchy: a Product without an order .* tallytree.release_tables"):
        tt.release_counts(RECORDS, PEOPLE, EXACT, neighboring="add_remove")


def test_unknown_tables_of_a_release_are_named():
    release = tables()
    with pytest.raises(ValueError, match=r"^level: \(age, county\) is not one of the release's tables, which are"):
        release.table("age", "county")
    with pytest.raises(ValueError, match=r"^level: \(total\) is not one of the release's tables"):
        tables(tables=[("state", "sex")]).table()


def test_tables_are_recorded_in_the_ledger_and_repeated_by_name(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.set_limit("people", tt.Budget(epsilon=2, delta=1e-6), neighboring="add_remove")
    options = {"ledger": ledger, "dataset": "people", "run": "2026", "secret": tt.new_secret(tmp_path / "secret")}
    first, again = tables(**options), tables(**options)
    assert first.measurements("county", "sex") == again.measurements("county", "sex")
    assert len(ledger.entries("people")) == 1
    assert ledger.entries("people")[0].statistic == "tables"
    with pytest.raises(ValueError, match="its plan differs"):
        tables(**options, budget_split="even")
    tables(**options | {"run": "2027"})
    with pytest.raises(tt.BudgetExceeded):
        tables(**options | {"run": "2028"})


def test_a_spec_says_the_same(tmp_path):
    pa.parquet.write_table(RECORDS, tmp_path / "people.parquet")
    for name, hierarchy in {"areas": AREAS, "ages": AGES, "sexes": SEXES}.items():
        pa.csv.write_csv(hierarchy.leaf_table(), tmp_path / f"{name}.csv")
    (tmp_path / "spec.yaml").write_text("""
statistic: tables
records: people.parquet
hierarchy:
  attributes:
    area: {path: areas.csv, levels: [country, state, county]}
    age: {path: ages.csv, levels: [band, age]}
    sex: {path: sexes.csv, levels: [sex]}
tables: [[county, age, sex], "county, sex", [state, age], []]
precision: {"county, sex": 4}
neighboring: add_remove
budget: {epsilon: 1, delta: 1e-8}
seed: 5
""")
    spec = load_spec(tmp_path / "spec.yaml")
    made = spec.release(tmp_path / "out")
    direct = tables(tables=[*TABLES[:3], ()], precision={("county", "sex"): 4}, seed=5)
    assert [each["table"] for each in made.statement["levels"]] == [
        each["table"] for each in direct.statement["levels"]
    ]
    assert made.table("county", "sex") == direct.table("county", "sex")
    assert json.loads((tmp_path / "out" / "release.json").read_text())["spec"]["records"] == "people.parquet"


def test_a_spec_wants_numbers_by_table(tmp_path):
    (tmp_path / "spec.yaml").write_text("""
statistic: tables
records: people.parquet
hierarchy: {attributes: {area: {path: areas.csv, levels: [state]}}}
tables: [[state]]
precision: 3
neighboring: add_remove
budget: {epsilon: 1}
""")
    with pytest.raises(SpecError, match="line 6, precision: 3 must be a mapping"):
        load_spec(tmp_path / "spec.yaml")
