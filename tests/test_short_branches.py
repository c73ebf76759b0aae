"""A branch of the public tree may end above the last level; trees from lists of areas and their parents."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallytree as tt
from tallytree.spec import load_spec

STATES = {"state": ["BE", "BY", "BY", "HH"], "county": [None, "M", "N", None]}
LIST = pa.table(
    {
        "code": ["M", "BE", "N", "BY", "HH"],
        "in": ["BY", None, "BY", None, None],
        "kind": ["county", "state", "county", "state", "state"],
    }
)
ROWS = [("BE", None)] * 30 + [("BE", "BE")] * 4 + [("BY", "M")] * 20 + [("BY", "N")] * 10 + [("HH", None)] * 5
RECORDS = pa.table({"state": [row[0] for row in ROWS], "county": [row[1] for row in ROWS]})
EXACT = {"budget": tt.Budget(epsilon=10_000), "neighboring": "add_remove", "seed": 7}
COUNTED = {("BE", "BE"): 34, ("BY", "M"): 20, ("BY", "N"): 10, ("HH", "HH"): 5}


def states():
    return tt.Hierarchy.from_table(pa.table(STATES), ["state", "county"])


def by_path(table, number="count"):
    return {(row["state"], row["county"]): row[number] for row in table.to_pylist()}


def test_the_last_label_is_repeated_below_the_end_of_a_branch():
    tree = states()
    assert tree.leaf_table().to_pydict() == {"state": ["BE", "BY", "BY", "HH"], "county": ["BE", "M", "N", "HH"]}
    assert tree.reach.tolist() == [1, 2, 2, 1]
    assert tree.ended_paths(2).to_pydict() == STATES
    assert tree.own_labels(2).to_pylist() == ["M", "N"]
    assert tt.Hierarchy.from_table(pa.table({"a": ["x"], "b": ["y"]}), ["a", "b"]).reach is None


@st.composite
def branches(draw):
    """Paths of a random tree of three levels, with null below their ends; labels repeat everywhere."""
    rows = []
    for top in draw(st.lists(st.sampled_from("abc"), min_size=1, unique=True)):
        middles = draw(st.lists(st.sampled_from("abc"), unique=True))
        rows += [(top, None, None)] if not middles else []
        for middle in middles:
            leaves = draw(st.lists(st.sampled_from("abc"), unique=True))
            rows += [(top, middle, leaf) for leaf in leaves or [None]]
    return rows


@given(branches())
def test_paths_come_back_as_they_were_given(rows):
    table = pa.table({name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate("xyz")})
    tree = tt.Hierarchy.from_table(table, ["x", "y", "z"])
    last = len(tree.levels) - 1
    assert [tuple(row.values()) for row in tree.ended_paths(last).to_pylist()] == rows
    again = tt.Hierarchy.from_table(tree.ended_paths(last), ["x", "y", "z"])
    assert again.leaf_table().equals(tree.leaf_table())
    for depth in range(1, last):  # a branch that has ended has one child
        reach = tree.reach_at(depth + 1)
        ended = [] if reach is None else np.flatnonzero(reach < reach.max())
        assert (tree.child_counts(depth, tree.parents(depth + 1, np.asarray(ended, dtype=np.int64))) == 1).all()


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([("x", None, "z")], "row 1 has a label at 'c', but null .* at 'b' above it; leave the levels below the end"),
        ([("x", "y", "z"), (None, "y", "z")], "column 'a' has null keys"),
        ([("x", "y", "z"), ("x", "y", None)], "row 2 has null keys .* at 'c', .* Hierarchy.from_parents"),
        ([("x", None, None), ("x", "y", None)], "row 1 has null keys .* at 'b'"),
        ([("x", None, None), ("x", "x", None)], "row 1 has null keys .* at 'b'"),
        ([("x", None, None), ("x", None, None)], "the leaf a='x', b='x', c='x' is listed twice"),
    ],
)
def test_nulls_that_end_no_branch_are_refused(rows, says):
    table = pa.table({name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate("abc")})
    with pytest.raises(ValueError, match=says):
        tt.Hierarchy.from_table(table, ["a", "b", "c"])


def test_a_null_key_of_a_record_counts_where_its_branch_has_ended():
    made = tt.release_counts(RECORDS, states(), **EXACT)
    assert by_path(made.table("county")) == COUNTED
    assert dict(zip(*made.table("state").select(["state", "count"]).to_pydict().values(), strict=True)) == {
        "BE": 34, "BY": 30, "HH": 5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("state", "county", "says"),
    [
        ("BY", None, "column 'county' has null keys"),
        ("BE", "M", "by its label of 'county', which the hierarchy does not have below"),
        ("BE", "HH", "by its label of 'county'"),
        (None, None, "column 'state' has null keys"),
    ],
)
def test_other_nulls_and_labels_are_outside(state, county, says):
    strange = pa.table({"state": pa.array([state], pa.string()), "county": pa.array([county], pa.string())})
    with pytest.raises(ValueError, match=f"^records: .*{says}"):
        tt.release_counts(pa.concat_tables([RECORDS, strange]), states(), **EXACT)
    dropped = tt.release_counts(pa.concat_tables([RECORDS, strange]), states(), **EXACT, on_unknown="drop")
    assert by_path(dropped.table("county")) == COUNTED


def test_integer_codes_beside_ends_of_branches():
    tree = tt.Hierarchy.from_table(pa.table({"a": [1, 2, 2], "b": [None, 7, 8]}), ["a", "b"])
    records = pa.table({"a": [1, 1, 2, 2], "b": pa.array([None, 1, 7, 8], pa.int64())})
    made = tt.release_counts(records, tree, **EXACT)
    assert made.table("b")["count"].to_pylist() == [2, 1, 1]


@pytest.mark.parametrize("mechanism", [None, tt.counts.TopDown(), tt.counts.LeastSquares(3.0)])
def test_a_branch_that_has_ended_has_one_number_and_one_error(mechanism):
    made = tt.release_counts(
        RECORDS, states(), tt.Budget(rho=0.5), neighboring="add_remove", mechanism=mechanism, seed=1
    )
    above, below = ({row["state"]: row for row in made.table(level).to_pylist()} for level in ("state", "county"))
    for state in ("BE", "HH"):
        same = [name for name in ("count", "std_dev", "typical_error", "ci_lower", "ci_upper") if name in above[state]]
        assert all(above[state][name] == pytest.approx(below[state][name]) for name in same)


def test_the_number_of_a_short_branch_errs_as_stated():
    errors, stated = [], 0.0
    for seed in range(300):
        made = tt.release_counts(RECORDS, states(), tt.Budget(rho=0.02), neighboring="add_remove", seed=seed)
        table = made.table("county")
        stated = table["std_dev"][0].as_py()
        errors.append(table["count"][0].as_py() - 34)
    assert 0.85 < np.std(errors) / stated < 1.15  # 300 errors: within 3.7 standard deviations


def test_a_saved_tree_has_the_ends(tmp_path):
    made = tt.release_counts(RECORDS, states(), **EXACT)
    made.save(tmp_path / "out")
    loaded = tt.Release.load(tmp_path / "out")
    assert pq.read_table(tmp_path / "out" / "hierarchies" / "hierarchy.parquet").to_pydict() == STATES
    assert loaded.tree.reach.tolist() == [1, 2, 2, 1]
    assert by_path(loaded.table("county")) == COUNTED
    areas = pa.table({"state": ["BE", "BY"], "county": [None, "M"]})
    assert loaded.total(areas)["count"].to_pylist() == [54]


def test_where_branches_end_is_part_of_the_plan():
    written = tt.Hierarchy.from_table(states().leaf_table(), ["state", "county"])
    records = RECORDS.filter(pa.compute.is_valid(RECORDS["county"]))
    plans = {tt.release_counts(records, tree, **EXACT).statement["release"]["plan"] for tree in (states(), written)}
    assert len(plans) == 2


def test_every_kind_of_release_has_them():
    sexes = tt.Hierarchy.from_values("sex", ["f", "m"])
    records = RECORDS.append_column("sex", pa.array(["f"] * len(ROWS)))
    records = records.append_column("home", pa.array([f"{row}{i // 2}" for i, row in enumerate(ROWS)]))
    product = tt.Product({"area": states(), "sex": sexes})
    tables = tt.release_tables(records, product, **EXACT, tables=[("county", "sex"), ("state",)])
    assert by_path(tables.table("county", "sex").filter(pa.compute.field("sex") == "f")) == COUNTED
    sizes = tt.release_group_sizes(records, states(), **EXACT, group="home", max_group_size=4)
    found = by_path(sizes.table("county").filter(pa.compute.field("size") == 2), "groups")
    assert found == {("BE", "BE"): 17, ("BY", "M"): 10, ("BY", "N"): 5, ("HH", "HH"): 2}
    homes = tt.release_households(records, product, **EXACT, household="home", max_household_size=4)
    inside = pa.compute.field("in_household") == "yes"
    assert by_path(homes.table("county", "in_household").filter(inside)) == COUNTED
    trips = pa.table({"s": RECORDS["state"], "c": RECORDS["county"], "t": ["HH"] * len(ROWS), "d": [None] * len(ROWS)})
    flows = tt.release_flows(
        trips, origins=states(), destinations=states(), origin=["s", "c"], destination=["t", "d"], **EXACT
    )
    last = flows.table(flows.levels[-1]).to_pylist()
    assert {(row["s"], row["c"]): row["count"] for row in last} == COUNTED
    assert {(row["t"], row["d"]) for row in last} == {("HH", "HH")}


def test_memory_and_codes_change_nothing(tmp_path):
    whole = tt.release_counts(RECORDS, states(), **EXACT)
    part = tt.release_counts(RECORDS, states(), **EXACT, memory="1 GB")
    assert part.table("county").equals(whole.table("county"))
    codes = pa.table({"area": [county or state for state, county in ROWS]})
    assert tt.release_counts(codes, states(), **EXACT, leaf="area").table("county").equals(whole.table("county"))
    pyarrow.csv.write_csv(RECORDS, tmp_path / "r.csv")
    pyarrow.csv.write_csv(pa.table(STATES), tmp_path / "a.csv")
    tree = tt.Hierarchy.from_table(tmp_path / "a.csv", ["state", "county"])
    assert tt.release_counts(tmp_path / "r.csv", tree, **EXACT).table("county").equals(whole.table("county"))


def test_a_list_of_parents_is_the_same_tree():
    tree = tt.Hierarchy.from_parents(LIST, child="code", parent="in", level="kind")
    assert tree.columns == ("state", "county")
    assert sorted(map(str, tree.ended_paths(2).to_pylist())) == sorted(map(str, pa.table(STATES).to_pylist()))
    assert tree.leaf_table()["county"].to_pylist() == ["M", "N", "BE", "HH"]


@given(branches())
def test_a_list_of_parents_is_the_tree_of_its_leaves(rows):
    if not any(row[2] for row in rows):
        return
    nodes = list(dict.fromkeys(row[:i] for row in rows for i in (1, 2, 3) if row[i - 1] is not None))
    parents = pa.table(
        {
            "code": [">".join(node) for node in nodes],
            "above": pa.array([">".join(node[:-1]) or None for node in nodes], pa.string()),
            "level": ["xyz"[len(node) - 1] for node in nodes],
        }
    )
    tree = tt.Hierarchy.from_parents(parents, child="code", parent="above", level="level")
    codes = [tuple(">".join(row[:i]) if row[i - 1] is not None else None for i in (1, 2, 3)) for row in rows]
    assert [tuple(row.values()) for row in tree.ended_paths(len(tree.levels) - 1).to_pylist()] == codes


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"code": ["M", "BE", "M", "BY", "HH"]}, "row 3, the area 'M', is listed twice; an area has one row"),
        ({"in": ["BY", None, "XX", None, None]}, "row 3, the area 'N', has a parent that is not listed; list the"),
        ({"in": ["BY", "M", "BY", None, None]}, "in one order: there is a circle"),
        ({"in": ["N", None, "M", None, None]}, "in one order: there is a circle"),
        ({"kind": ["county", "state", "county", "country", "state"]}, "two levels lie side by side"),
        ({"in": ["BY", None, None, None, None]}, "row 3, the area 'N', of the level 'county' has no area above it"),
        ({"code": ["M", None, "N", "BY", "HH"]}, "column 'code' has null keys"),
        ({"kind": ["county", "count", "county", "count", "count"]}, "'count' is a column of the published tables"),
    ],
)
def test_lists_that_are_no_tree_are_refused(changes, says):
    table = pa.table({**LIST.to_pydict(), **changes})
    with pytest.raises(ValueError, match=says):
        tt.Hierarchy.from_parents(table, child="code", parent="in", level="kind")


def test_a_level_that_is_skipped_is_refused():
    table = pa.table(
        {"code": ["C", "S", "K", "L"], "in": [None, "C", "S", "C"], "kind": ["land", "state", "county", "county"]}
    )
    with pytest.raises(ValueError, match=r"'L', of the level 'county' has one of the level 'land' above it; .*'state'"):
        tt.Hierarchy.from_parents(table, child="code", parent="in", level="kind")


COLUMNS = [(("code", "code", "kind"), "two name the same column"), (("a", "in", "kind"), "'a'")]


@pytest.mark.parametrize(("names", "says"), COLUMNS)
def test_columns_of_lists_are_checked(names, says):
    with pytest.raises(ValueError, match=says):
        tt.Hierarchy.from_parents(LIST, **dict(zip(("child", "parent", "level"), names, strict=True)))
    with pytest.raises(ValueError, match="the list of areas is empty"):
        tt.Hierarchy.from_parents(LIST.slice(0, 0), child="code", parent="in", level="kind")


SPEC = "statistic: counts\nrecords: r.csv\nneighboring: add_remove\nbudget: {epsilon: 10000}\nseed: 7\nhierarchy: "


def test_a_spec_names_the_columns_of_a_list(tmp_path):
    pyarrow.csv.write_csv(RECORDS, tmp_path / "r.csv")
    pyarrow.csv.write_csv(LIST, tmp_path / "list.csv")
    (tmp_path / "spec.yaml").write_text(SPEC + "{path: list.csv, child: code, parent: in, level: kind}\n")
    load_spec(tmp_path / "spec.yaml").release(tmp_path / "out")
    assert by_path(tt.Release.load(tmp_path / "out").table("county")) == COUNTED


@pytest.mark.parametrize(
    ("tree", "says"),
    [
        ("{path: list.csv}", "give levels, the columns of a table of leaves"),
        ("{path: list.csv, child: code, parent: in}", "child and parent need the other ones"),
        ("{path: list.csv, levels: [kind], child: code, parent: in, level: kind}", "give levels, the columns"),
        ("{path: list.csv, child: code, parent: in, level: kind, finer: true}", "finer goes with levels"),
    ],
)
def test_specs_that_name_half_of_a_list_are_refused(tree, says, tmp_path):
    (tmp_path / "spec.yaml").write_text(SPEC + tree + "\n")
    with pytest.raises(ValueError, match=says):
        load_spec(tmp_path / "spec.yaml")


@pytest.mark.slow
@pytest.mark.needs("pyspark")
def test_spark_finds_the_same(spark):
    frame = spark.createDataFrame(RECORDS.to_pandas())
    made = tt.release_counts(frame, states(), **EXACT, engine=tt.engines.Spark(session=spark))
    assert made.table("county").equals(tt.release_counts(RECORDS, states(), **EXACT).table("county"))
