"""`leaf`: records with the code of a leaf alone; the public table gives the path."""

from __future__ import annotations

import duckdb
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from tallytree.spec import load_spec

TOWNS = pa.table(
    {"region": ["N", "N", "N", "S", "S"], "province": ["a", "a", "b", "c", "c"], "town": ["01", "02", "03", "04", "05"]}
)
CODES = ["01", "01", "02", "04", "04", "04", "05"] * 30
WORK = ["02", "05", "05", "05", "01", "04", "05"] * 30
HOUSES = [f"{code}-{i // 14}" for i, code in enumerate(CODES)]
RECORDS = pa.table({"home": CODES, "work": WORK, "id": range(210), "house": HOUSES})
EXACT = {"budget": tt.Budget(epsilon=10_000), "neighboring": "add_remove", "seed": 7}


def towns():
    return tt.Hierarchy.from_table(TOWNS, ["region", "province", "town"])


def with_paths(records, column, prefix=""):
    """The records with the columns of all levels, as they had to be without `leaf`."""
    rows = {row["town"]: row for row in TOWNS.to_pylist()}
    for level in TOWNS.column_names:
        records = records.append_column(
            f"{prefix}{level}", pa.array([rows[code][level] for code in records[column].to_pylist()])
        )
    return records


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars", "duckdb", "parquet", "csv", "dictionary"])
def test_every_kind_of_table_counts_as_its_paths_do(kind, tmp_path):
    paths = tt.release_counts(with_paths(RECORDS, "home"), towns(), **EXACT)
    pq.write_table(RECORDS, tmp_path / "r.parquet")
    RECORDS.to_pandas().to_csv(tmp_path / "r.csv", index=False)
    records = {
        "arrow": lambda: RECORDS, "pandas": RECORDS.to_pandas, "polars": lambda: polars.from_arrow(RECORDS),
        "duckdb": lambda: duckdb.from_arrow(RECORDS), "parquet": lambda: tmp_path / "r.parquet",
        "csv": lambda: tmp_path / "r.csv",
        "dictionary": lambda: RECORDS.set_column(0, "home", RECORDS["home"].dictionary_encode()),
    }[kind]()  # fmt: skip
    made = tt.release_counts(records, towns(), **EXACT, leaf="home")
    for level in made.levels:
        assert made.table(level)["count"].equals(paths.table(level)["count"])
    assert made.spec["leaf"] == "home"
    assert "leaf" not in paths.spec


def test_integers_are_codes_where_the_labels_are_written_so():
    numbered = tt.Hierarchy.from_table(TOWNS.set_column(2, "town", pa.array([1, 2, 3, 4, 5])), TOWNS.column_names)
    records = pandas.DataFrame({"home": [1, 1, 4]})
    made = tt.release_counts(records, numbered, **EXACT, leaf="home")
    assert made.table("town")["count"].to_pylist() == [2, 0, 0, 1, 0]


def test_flows_tables_and_group_sizes_take_codes():
    both = with_paths(with_paths(RECORDS, "home", "o_"), "work", "d_")
    sides = {"origins": towns(), "destinations": towns()} | {
        side: [f"{side[0]}_{level}" for level in TOWNS.column_names] for side in ("origin", "destination")
    }
    flows = tt.release_flows(RECORDS, **sides, **EXACT, leaf={"origin": "home", "destination": "work"})
    assert flows.table(flows.levels[-1])["count"].equals(
        tt.release_flows(both, **sides, **EXACT).table(flows.levels[-1])["count"]
    )
    work = tt.Hierarchy.from_values("work", ["01", "02", "03", "04", "05"])
    product = tt.Product({"area": towns(), "work": work})
    made = tt.release_tables(
        RECORDS, product, **EXACT, tables=[("province", "work"), ("town",), "total"], leaf={"area": "home"}
    )
    paths = tt.release_tables(
        with_paths(RECORDS, "home"), product, **EXACT, tables=[("province", "work"), ("town",), "total"]
    )
    assert made.table("province", "work")["count"].equals(paths.table("province", "work")["count"])
    assert made.spec["leaf"] == {"area": "home"}
    public = pa.table({"home": ["01", "02", "03", "04", "05"], "groups": [20, 20, 20, 20, 20]})
    houses = tt.release_group_sizes(
        RECORDS, towns(), **EXACT, group="house", leaf="home", public_groups=public, max_group_size=20
    )
    same = tt.release_group_sizes(
        with_paths(RECORDS, "home"), towns(), **EXACT, group="house", max_group_size=20,
        public_groups=with_paths(public, "home"),
    )  # fmt: skip
    assert houses.table("town")["groups"].equals(same.table("town")["groups"])


def test_a_name_alone_is_that_of_the_attribute_whose_last_column_it_is():
    product = tt.Product({"area": towns(), "sex": tt.Hierarchy.from_values("sex", ["f", "m"])})
    records = pa.table({"town": ["01", "04"], "sex": ["f", "m"]})
    made = tt.release_tables(records, product, **EXACT, tables=[("region", "sex")], leaf="town")
    assert made.table("region", "sex")["count"].to_pylist() == [1, 0, 0, 1]


def test_a_person_is_bounded_as_with_paths():
    options = {**EXACT, "person": "id", "max_contributions": 1}
    records = pa.concat_tables([RECORDS] * 3)
    made = tt.release_counts(records, towns(), **options, leaf="home")
    assert made.table("town")["count"].to_pylist() == [60, 30, 0, 90, 30]


@pytest.mark.slow
@pytest.mark.needs("pyspark")
def test_spark_joins_codes_too(spark):
    frame = spark.createDataFrame(RECORDS.select(["home"]).to_pandas())
    made = tt.release_counts(frame, towns(), **EXACT, leaf="home", engine=tt.engines.Spark(session=spark))
    assert made.table("town").equals(tt.release_counts(RECORDS, towns(), **EXACT, leaf="home").table("town"))


def test_unknown_and_null_codes_are_treated_as_unknown_paths_are():
    stray = pa.concat_tables([RECORDS, RECORDS.slice(0, 1).set_column(0, "home", pa.array(["SECRET-9"]))])
    with pytest.raises(
        ValueError, match=r"^records: a record is outside the hierarchy, by its label of 'home'"
    ) as said:
        tt.release_counts(stray, towns(), **EXACT, leaf="home")
    assert "SECRET" not in str(said.value)
    dropped = tt.release_counts(stray, towns(), **EXACT, leaf="home", on_unknown="drop")
    assert dropped.table("town")["count"].to_pylist() == [60, 30, 0, 90, 30]
    null = RECORDS.set_column(0, "home", pa.array([None, *CODES[1:]]))
    with pytest.raises(ValueError, match=r"^records: column 'home' has null keys"):
        tt.release_counts(null, towns(), **EXACT, leaf="home")


def test_codes_of_several_attributes_are_named_in_a_mapping():
    ages = pa.table({"band": ["0-17", "0-17", "18+"], "age": ["0-9", "10-17", "18"]})
    people = tt.Product({"area": towns(), "age": tt.Hierarchy.from_table(ages, levels=["band", "age"])})
    records = pa.table({"home": [CODES[0]], "town": [CODES[0]], "age": ["0-9"]})
    given = {"neighboring": "add_remove", "tables": [("town", "age")], "seed": 1}
    with pytest.raises(ValueError, match=r"^leaf: .*'age' without 'band'"):
        tt.release_tables(records, people, tt.Budget(epsilon=1), leaf="town", **given)
    found = tt.release_tables(records, people, tt.Budget(epsilon=1), leaf={"area": "town", "age": "age"}, **given)
    assert found.tables == (("town", "age"),)


def test_codes_must_be_unique_in_the_tree():
    twice = tt.Hierarchy.from_table(
        pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"]}), ["state", "county"]
    )
    says = (
        "^leaf: the code 'x' is that of two leaves, state='A', county='x' and state='B', county='x'; make the codes of "
        "the public table unique"
    )
    with pytest.raises(ValueError, match=says):
        tt.release_counts(pa.table({"county": ["y"]}), twice, **EXACT, leaf="county")


@pytest.mark.parametrize(
    ("leaf", "kind", "says"),
    [
        ("home", ValueError, "leaf: 'home' is the last column of no attribute; give a mapping, such as {'area'"),
        ({"place": "home"}, ValueError, "leaf: 'place' is not an attribute; the attributes are area, sex"),
        ({"area": 3}, TypeError, "leaf: "),
        (3, TypeError, "leaf: "),
        ({"area": "sex"}, ValueError, "leaf: 'sex' would be the column of two attributes"),
    ],
)  # fmt: skip
def test_columns_that_cannot_be_are_refused(leaf, kind, says):
    product = tt.Product({"area": towns(), "sex": tt.Hierarchy.from_values("sex", ["f", "m"])})
    with pytest.raises(kind, match=f"^{says}"):
        tt.release_tables(RECORDS, product, **EXACT, tables=["total"], leaf=leaf)


def test_a_hierarchy_has_one_column_and_a_person_another():
    with pytest.raises(TypeError, match=r"^leaf: "):
        tt.release_counts(RECORDS, towns(), **EXACT, leaf={"area": "home"})
    with pytest.raises(ValueError, match=r"^person: 'home' is a column of the hierarchy"):
        tt.release_counts(RECORDS, towns(), **EXACT, leaf="home", person="home")
    with pytest.raises(ValueError, match=r"column 'town' is missing"):
        tt.release_counts(RECORDS, towns(), **EXACT, leaf="town")


def test_a_spec_has_the_key(tmp_path):
    pq.write_table(RECORDS, tmp_path / "r.parquet")
    pq.write_table(TOWNS, tmp_path / "towns.parquet")
    lines = [
        "statistic: counts", "records: r.parquet", "leaf: home", "neighboring: add_remove", "budget: {epsilon: 1}",
        "hierarchy: {path: towns.parquet, levels: [region, province, town]}",
    ]  # fmt: skip
    (tmp_path / "spec.yaml").write_text("\n".join(lines))
    made = load_spec(tmp_path / "spec.yaml").release(tmp_path / "out")
    assert made.spec["leaf"] == "home"
    assert tt.Release.load(tmp_path / "out").table("region").num_rows == 2
    lines[0], lines[2] = "statistic: tables\ntables: [[town, work]]", "leaf: {area: home}"
    lines[-1] = "hierarchy: {attributes: {area: {path: towns.parquet, levels: [region, province, town]}, " \
        "work: {parquet: towns.parquet, levels: [work]}}}"  # fmt: skip
    pq.write_table(TOWNS.rename_columns(["region", "province", "work"]), tmp_path / "work.parquet")
    (tmp_path / "spec.yaml").write_text("\n".join(lines).replace("parquet: towns", "parquet: work"))
    load_spec(tmp_path / "spec.yaml").check()


@pytest.mark.parametrize("argument", ["leaf", "on_unknown"])
@pytest.mark.parametrize("value", [dict.fromkeys(["SECRET-1", "SECRET-2"], "x"), ["SECRET-1"], {"area": ["SECRET-1"]}])
def test_private_values_in_place_of_names_are_not_shown(argument, value):
    product = tt.Product({"area": towns(), "sex": tt.Hierarchy.from_values("sex", ["f", "m"])})
    with pytest.raises((ValueError, TypeError), match=f"^{argument}: ") as said:
        tt.release_tables(RECORDS, product, **{**EXACT, "tables": ["total"], argument: value})
    assert "SECRET" not in str(said.value)
