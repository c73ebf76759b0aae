"""`on_unknown={"county": "parent"}`: a record counts in a leaf "unknown" of the lowest area that is known of it."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pyarrow.csv
import pytest

import tallytree as tt
from tallytree.spec import load_spec

PATHS = [("A", "a", "1"), ("A", "a", "2"), ("A", "b", "3"), ("B", "c", "1"), ("C", None, None), ("B", "d", None)]
NAMES = ("state", "county", "town")
EXACT = {"budget": tt.Budget(epsilon=100_000), "neighboring": "add_remove", "seed": 7}


def areas(paths=PATHS):
    columns = {name: pa.array([path[i] for path in paths], pa.string()) for i, name in enumerate(NAMES)}
    return tt.Hierarchy.from_table(pa.table(columns), NAMES)


def table(rows):
    return pa.table({name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(NAMES)})


def expected(row, level):
    """The leaf of a record by the rule in words, in sets of paths; None where the record is an error."""
    ends = {path[: sum(label is not None for label in path)] for path in PATHS}
    nodes = {end[:i] for end in ends for i in range(4)}
    for node in [node for node in nodes if node not in ends and len(node) >= level]:
        unknown = node + ("unknown",) * (3 - len(node))
        ends.add(unknown)
        nodes |= {unknown[:i] for i in range(4)}
    for end in ends:
        if row in (end + (None,) * (3 - len(end)), end + (end[-1],) * (3 - len(end))):
            return end + (end[-1],) * (3 - len(end))
    known = next(row[:i] for i in (2, 1, 0) if row[:i] in nodes)
    place = len(known)
    if place < level or row[place] in {node[place] for node in nodes if len(node) > place}:
        return None
    return known + ((known[-1] if known in ends else "unknown"),) * (3 - place)


@pytest.mark.parametrize("level", [1, 2])
def test_every_record_counts_where_the_rule_says(level):
    every = list(
        itertools.product(("A", "B", "C", "Z"), ("a", "c", "C", "z", "unknown", None), ("1", "3", "z", "unknown", None))
    )
    wanted = {row: expected(row, level) for row in every}
    fine = [row for row in every if wanted[row] is not None]
    made = tt.release_counts(table(fine), areas(), **EXACT, on_unknown={NAMES[level]: "parent"})
    found = {tuple(row[name] for name in NAMES): row["count"] for row in made.table("town").to_pylist()}
    counted = dict.fromkeys(found, 0)
    for row in fine:
        counted[wanted[row]] += 1
    assert found == counted
    rule = {"on_unknown": {NAMES[level]: "parent"}}
    for row in [row for row in every if wanted[row] is None][::9]:
        with pytest.raises(ValueError, match=r"^records: "):
            tt.release_counts(table([*fine, row]), areas(), **EXACT, **rule)


def test_every_parent_has_the_leaf_whether_or_not_a_record_needs_it():
    full, none = (
        tt.release_counts(table(rows), areas(), **EXACT, on_unknown={"county": "parent"})
        for rows in ([PATHS[0]], [PATHS[0], ("A", None, None)])
    )
    paths = [tuple(row[name] for name in NAMES) for row in full.table("town").to_pylist()]
    assert paths == [
        ("A", "a", "1"), ("A", "a", "2"), ("A", "a", "unknown"), ("A", "b", "3"), ("A", "b", "unknown"),
        ("A", "unknown", "unknown"), ("B", "c", "1"), ("B", "c", "unknown"), ("B", "d", "d"),
        ("B", "unknown", "unknown"), ("C", "C", "C"),
    ]  # fmt: skip
    assert full.table("town").drop_columns("count").num_rows == none.table("town").num_rows
    assert full.statement["on_unknown"] == {"county": "parent"}
    alone = tt.release_counts(table([PATHS[0]]), areas(), **EXACT, on_unknown={"town": "parent"})
    assert ("A", "unknown", "unknown") not in {
        tuple(row[name] for name in NAMES) for row in alone.table("town").to_pylist()
    }


@pytest.mark.parametrize(
    ("paths", "rule", "says"),
    [
        (PATHS, {"village": "parent"}, "on_unknown: 'village' is not a level; the levels are state, county, town"),
        (PATHS, {"county": "parent", "town": "parent"}, "on_unknown: 'county' and 'town' are levels of one hierarchy"),
        (PATHS, {"county": "parent", "town": "1"}, "on_unknown: 'county' and 'town' are levels of one hierarchy"),
        ([*PATHS, ("A", "unknown", "9")], {"county": "parent"}, "on_unknown: the label 'unknown' is used at 'county'"),
        ([*PATHS, ("A", "b", "unknown")], {"county": "parent"}, "on_unknown: the label 'unknown' is used at 'town'"),
        (PATHS[:3], {"state": "parent"}, "on_unknown: 'state' is the top level, so nothing is above it"),
    ],
)
def test_rules_that_cannot_be_are_refused(paths, rule, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        tt.release_counts(table([PATHS[0]]), areas(paths), **EXACT, on_unknown=rule)


def test_codes_and_integers_that_would_all_be_unknown_are_refused():
    with pytest.raises(ValueError, match=r"^on_unknown: \"parent\" needs the columns of the levels above"):
        tt.release_counts(table([PATHS[0]]), areas(PATHS[1:3]), **EXACT, on_unknown={"town": "parent"}, leaf="town")
    tree = tt.Hierarchy.from_table(pa.table({"a": ["x", "x"], "b": ["01", "02"]}), ["a", "b"])
    with pytest.raises(TypeError, match="which no integer is written as"):
        tt.release_counts(pa.table({"a": ["x"], "b": [1]}), tree, **EXACT, on_unknown={"b": "parent"})


def test_records_whose_top_area_alone_is_unknown():
    made = tt.release_counts(
        table([("Z", "a", "1"), (None, None, None)]), areas(), **EXACT, on_unknown={"state": "parent"}
    )
    rows = [row for row in made.table("town").to_pylist() if row["count"]]
    assert [(row["state"], row["town"], row["count"]) for row in rows] == [("unknown", "unknown", 2)]


def test_every_kind_of_release_has_the_leaves():
    records = table([("A", "a", "1")] * 4 + [("A", "z", None)] * 6)
    records = records.append_column("sex", pa.array(["f"] * 10)).append_column("home", pa.array([*"1122334455"]))
    product = tt.Product({"area": areas(), "sex": tt.Hierarchy.from_values("sex", ["f", "m"])})
    rule = {"on_unknown": {"county": "parent"}}
    wanted = {("A", "a", "1"): 4, ("A", "unknown", "unknown"): 6}

    def found(rows, number="count"):
        return {tuple(row[name] for name in NAMES): row[number] for row in rows.to_pylist() if row[number]}

    tables = tt.release_tables(records, product, **EXACT, **rule, tables=[("town", "sex")])
    assert found(tables.table("town", "sex")) == wanted
    sizes = tt.release_group_sizes(records, areas(), **EXACT, **rule, group="home", max_group_size=4)
    assert found(sizes.table("town"), "groups") == {path: number // 2 for path, number in wanted.items()}
    homes = tt.release_households(records, product, **EXACT, **rule, household="home", max_household_size=4)
    assert found(homes.table("town", "in_household")) == wanted
    names = [f"to_{name}" for name in NAMES]
    trips = records.select(NAMES)
    for name in NAMES:
        trips = trips.append_column(f"to_{name}", records[name])
    options = {"origins": areas(), "destinations": areas(), "origin": [*NAMES], "destination": names}
    with pytest.raises(ValueError, match=r"outside the hierarchy|null keys"):
        tt.release_flows(trips, **options, **EXACT, **rule)
    both = {"on_unknown": {"county": "parent", "to_county": "parent"}}
    flows = tt.release_flows(trips, **options, **EXACT, **both)
    assert found(flows.table(flows.levels[-1])) == wanted
    part = tt.release_flows(trips, **options, **EXACT, **both, memory="1 GB", mechanism=tt.counts.LeastSquares())
    assert found(part.table(part.levels[-1])) == wanted


def test_a_spec_has_it_and_the_folder_says_so(tmp_path):
    pyarrow.csv.write_csv(table([("A", "a", "1"), ("A", None, None)]), tmp_path / "r.csv")
    pyarrow.csv.write_csv(table(PATHS), tmp_path / "areas.csv")
    (tmp_path / "spec.yaml").write_text(
        "statistic: counts\nrecords: r.csv\nneighboring: add_remove\nbudget: {epsilon: 1}\n"
        "hierarchy: {path: areas.csv, levels: [state, county, town]}\non_unknown: {county: parent}\n"
    )
    load_spec(tmp_path / "spec.yaml").release(tmp_path / "out")
    assert "were counted in the leaf 'unknown' of their parent" in (tmp_path / "out" / "deployment.yaml").read_text()
    assert tt.Release.load(tmp_path / "out").tree.size(3) == 11


@pytest.mark.slow
@pytest.mark.needs("pyspark")
def test_spark_counts_them_there_too(spark):
    records = table([*PATHS, ("A", "z", "1"), ("A", None, None), ("A", "a", None), ("C", "q", None)])
    frame, rule = spark.createDataFrame(records.to_pandas()), {"on_unknown": {"county": "parent"}}
    made = tt.release_counts(frame, areas(), **EXACT, **rule, engine=tt.engines.Spark(session=spark))
    assert made.table("town").equals(tt.release_counts(records, areas(), **EXACT, **rule).table("town"))


def test_a_null_below_an_unknown_area_is_not_the_fault():
    stray = pa.table({"state": ["A", "X"], "county": ["a", None], "town": ["1", None]})
    with pytest.raises(ValueError, match="outside the hierarchy") as refused:
        tt.release_counts(stray, areas(), **EXACT, on_unknown={"county": "parent"})
    assert "null" not in str(refused.value)
