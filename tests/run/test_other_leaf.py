"""`on_unknown={"town": "other"}`: unknown and null codes count in a leaf that the public table has for them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from tallytree.spec import load_spec

TOWNS = pa.table({"region": ["N", "N", "S", "other"], "town": ["01", "02", "04", "other"]})
CODES = ["01"] * 30 + ["02"] * 20 + ["04"] * 10 + ["SECRET", None, "4", ""] * 5
RECORDS = pa.table({"region": [{"01": "N", "02": "N", "04": "S"}.get(code) for code in CODES], "town": CODES})
EXACT = {"budget": tt.Budget(epsilon=10_000), "neighboring": "add_remove", "seed": 7, "on_unknown": {"town": "other"}}


def towns():
    return tt.Hierarchy.from_table(TOWNS, ["region", "town"])


@pytest.mark.parametrize("leaf", [None, "town"])
@pytest.mark.parametrize("person", [False, True])
def test_unknown_and_null_codes_count_in_the_leaf(leaf, person):
    records = RECORDS.append_column("id", pa.array(range(len(CODES))))
    options = {"person": "id", "max_contributions": 1} if person else {}
    made = tt.release_counts(records, towns(), **EXACT, leaf=leaf, **options)
    assert made.table("town")["count"].to_pylist() == [30, 20, 10, 20]
    assert made.statement["on_unknown"] == {"town": "other"}


def test_the_total_is_what_all_records_are():
    terms = {**EXACT, "neighboring": "change_one"}
    made = tt.release_counts(RECORDS, towns(), **terms)
    assert made.table("total")["count"].to_pylist() == [len(CODES)]
    assert made.statement["levels"][0]["measured"] is False
    assert "the total number of records" in made.statement["invariants"]


def test_the_other_sides_are_as_strict_as_before():
    sexes = tt.Hierarchy.from_values("sex", ["f", "m"])
    product = tt.Product({"area": towns(), "sex": sexes})
    records = RECORDS.append_column("sex", pa.array(["f"] * len(CODES)))
    made = tt.release_tables(records, product, **EXACT, tables=[("town", "sex")])
    assert made.table("town", "sex")["count"].to_pylist() == [30, 0, 20, 0, 10, 0, 20, 0]
    for strange, says in (("x", "outside the hierarchy, by its label of 'sex'"), (None, "column 'sex' has null keys")):
        dirty = records.set_column(2, "sex", pa.array([strange] * len(CODES), pa.string()))
        with pytest.raises(ValueError, match=says):
            tt.release_tables(dirty, product, **EXACT, tables=["total"])


def test_group_sizes_and_public_groups():
    records = RECORDS.append_column("house", pa.array([f"{i // 5}" for i in range(len(CODES))]))
    public = pa.table({"town": ["01", "02", "04", "other"], "groups": [6, 4, 2, 5]})
    options = {**EXACT, "group": "house", "leaf": "town", "max_group_size": 9}
    made = tt.release_group_sizes(records, towns(), **options, public_groups=public)
    rows = {(row["town"], row["size"]): row["groups"] for row in made.table("town").to_pylist()}
    assert rows == {("01", 5): 6, ("02", 5): 4, ("04", 5): 2, ("other", 5): 4, ("other", 0): 1}
    strange = pa.table({"town": ["99"], "groups": [6]})
    with pytest.raises(ValueError, match=r"^public_groups: a record is outside the hierarchy"):
        tt.release_group_sizes(records, towns(), **options, public_groups=strange)


def test_integers_that_meet_no_label_are_not_lost_without_a_word():
    integers = pa.table({"town": [1, 2]})
    with pytest.raises(TypeError, match="which no integer is written as"):
        tt.release_counts(integers, towns(), **EXACT, leaf="town")


@pytest.mark.parametrize(
    ("on_unknown", "kind", "says"),
    [
        ({"town": "elsewhere"}, ValueError, "on_unknown: no leaf has the label 'elsewhere' at 'town'"),
        ({"region": "other"}, ValueError, "on_unknown: 'region' is not a level of leaves, which are town"),
        ({}, ValueError, "on_unknown: the mapping is empty; name a leaf level and a leaf"),
        ({"town": 3}, TypeError, "on_unknown: "),
        ("other", ValueError, "on_unknown: 'other'"),
    ],
)
def test_leaves_that_cannot_be_are_refused(on_unknown, kind, says):
    options = {**EXACT, "on_unknown": on_unknown}
    with pytest.raises(kind, match=f"^{says}"):
        tt.release_counts(RECORDS, towns(), **options)


def test_several_leaves_with_the_label_are_refused():
    twice = tt.Hierarchy.from_table(pa.table({"a": ["x", "y"], "b": ["other", "other"]}), ["a", "b"])
    records, options = pa.table({"a": ["x"], "b": ["z"]}), {**EXACT, "on_unknown": {"b": "other"}}
    with pytest.raises(ValueError, match=r"^on_unknown: 2 leaves .*'other' at 'b'"):
        tt.release_counts(records, twice, **options)


def test_a_spec_has_it_and_readers_are_told(tmp_path):
    pq.write_table(RECORDS, tmp_path / "r.parquet")
    pq.write_table(TOWNS, tmp_path / "towns.parquet")
    (tmp_path / "spec.yaml").write_text(
        "statistic: counts\nrecords: r.parquet\nneighboring: add_remove\nbudget: {epsilon: 1}\n"
        "hierarchy: {path: towns.parquet, levels: [region, town]}\non_unknown: {town: other}\n"
    )
    load_spec(tmp_path / "spec.yaml").release(tmp_path / "out")
    assert "were counted in the leaf 'other' at 'town'" in (tmp_path / "out" / "deployment.yaml").read_text()
    assert tt.Release.load(tmp_path / "out").statement["on_unknown"] == {"town": "other"}


@pytest.mark.slow
@pytest.mark.needs("pyspark")
def test_spark_counts_them_there_too(spark):
    frame = spark.createDataFrame(RECORDS.to_pandas())
    made = tt.release_counts(frame, towns(), **EXACT, engine=tt.engines.Spark(session=spark))
    assert made.table("town").equals(tt.release_counts(RECORDS, towns(), **EXACT).table("town"))
