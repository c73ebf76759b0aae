"""Trees of which some combinations are impossible: what is no child, and what is released and stated."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tallytree as tt
from helpers.inside import FlowsArguments, make_release, plan_flows
from tallytree.spec import load_spec
from tallytree.trees.bands import ForcedCut

ZONES = pa.table({"state": ["A", "A", "B", "B"], "zone": ["a1", "a2", "b1", "b2"]})
TREE = tt.Hierarchy.from_table(ZONES, ["state", "zone"])
COLORS = tt.Hierarchy.from_values("color", ["r", "g"])
WITHIN = pa.table({"from_zone": ZONES["zone"], "to_zone": ZONES["zone"]})
SIDES = {
    "origins": TREE,
    "destinations": TREE,
    "origin": ["from_state", "from_zone"],
    "destination": ["to_state", "to_zone"],
    "impossible": WITHIN,
}
EXACT = {"budget": tt.Budget(epsilon=100_000), "neighboring": "add_remove", "seed": 1}


def trips(n=2_000):
    rng = np.random.default_rng(5)
    start = rng.integers(0, 4, n)
    ends = {"from": start, "to": (start + rng.integers(1, 4, n)) % 4}
    return pa.table(
        {f"{side}_{name}": ZONES[name].take(pa.array(at)) for side, at in ends.items() for name in ZONES.column_names}
    )


def cells(order, impossible):
    sides = {"from": TREE, "color": COLORS, "to": TREE}
    return tt.Product(sides, order=order, impossible=impossible)


ZONE_PAIRS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("12")).map("".join), min_size=2, max_size=2)
TABLES = st.lists(
    st.one_of(
        st.lists(ZONE_PAIRS, min_size=1, max_size=9, unique_by=tuple).map(
            lambda rows: (("from_zone", "to_zone"), rows)
        ),
        st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from("rg")), min_size=1, max_size=3, unique=True).map(
            lambda rows: (("from_state", "color"), rows)
        ),
        st.lists(st.tuples(st.sampled_from("rg"), st.sampled_from("AB")), min_size=1, max_size=3, unique=True).map(
            lambda rows: (("color", "to_state"), rows)
        ),
    ),
    min_size=1,
    max_size=3,
)


@given(TABLES, st.permutations(["from", "from", "color", "to", "to"]))
def test_children_are_the_nodes_with_a_possible_leaf(given_tables, order):
    tables = [
        pa.table({name: [row[i] for row in rows] for i, name in enumerate(names)}) for names, rows in given_tables
    ]
    plain = cells(order, None)
    last = len(plain.levels) - 1
    paths = plain.path_table(last, np.arange(plain.size(last), dtype=np.int64)).to_pylist()
    never = np.array(
        [
            any(all(path[n] == row[i] for i, n in enumerate(names)) for names, rows in given_tables for row in rows)
            for path in paths
        ]
    )
    assume(not never.all())
    tree = cells(order, tables)
    possible, node = [set() for _ in tree.levels], np.flatnonzero(~never)
    for depth in range(last, -1, -1):
        possible[depth] = set(node.tolist())
        node = plain.parents(depth, node) if depth else node
    found = np.zeros(1, dtype=np.int64)
    for depth in range(last):
        counts = tree.child_counts(depth, found)
        found, offsets = tree.children(depth, found)
        assert np.array_equal(np.diff(offsets), counts)
        assert (counts > 0).all()
        assert found.tolist() == sorted(found.tolist(), key=found.tolist().index)
        assert set(found.tolist()) == possible[depth + 1]
        assert tree.possible(depth + 1) == len(found)


def released(records, **options):
    return tt.release_flows(records, **{**SIDES, **EXACT, **options})


@pytest.mark.parametrize(
    "options", [{}, {"mechanism": tt.counts.TopDown()}, {"unlisted": "remainder"}, {"memory": "1 GB"}]
)
def test_no_trip_within_a_zone_is_published(options):
    made = released(trips(), budget=tt.Budget(epsilon=0.1), neighboring="change_one", **options)
    rows = made.table(made.levels[-1]).filter(pa.compute.is_valid(pa.compute.field("to_zone")))
    assert all(row["from_zone"] != row["to_zone"] for row in rows.to_pylist())
    assert made.statement["invariants"][1].startswith("0, since no record can have it: from_zone=a1, to_zone=a1; ")
    assert made.table("total")["count"].to_pylist() == [2_000]


def test_memory_gives_the_same_numbers():
    options = {"budget": tt.Budget(epsilon=1.0), "mechanism": tt.counts.TopDown()}
    whole, part = (released(trips(), **options, **more) for more in ({}, {"memory": "1 GB"}))
    assert all(whole.table(level).equals(part.table(level)) for level in whole.levels)


def test_counts_err_as_stated_where_the_rest_of_a_family_is_impossible():
    records, errors, stated = trips(), [], 0.0
    true = sum(row["from_zone"] == "a1" and row["to_zone"] == "a2" for row in records.to_pylist())
    for seed in range(100):
        made = released(records, budget=tt.Budget(rho=0.05), seed=seed, mechanism=tt.counts.LeastSquares())
        table = made.table(made.levels[-1]).to_pylist()
        row = next(row for row in table if (row["from_zone"], row["to_zone"]) == ("a1", "a2"))
        errors.append(row["count"] - true)
        stated = row["std_dev"]
    assert 0.75 < np.sqrt(np.mean(np.square(errors))) / stated < 1.25  # 100 errors: 3.5 standard deviations


def test_a_trip_within_a_zone_is_an_error_or_dropped():
    one = pa.table({"from_state": ["A"], "from_zone": ["a1"], "to_state": ["A"], "to_zone": ["a1"]})
    within = pa.concat_tables([trips(), one.select(trips().column_names)])
    with pytest.raises(ValueError, match=r"^trips: a record has a combination of attributes that is .* impossible"):
        released(within)
    assert released(within, on_unknown="drop").table("total")["count"].to_pylist() == [2_000]


def test_a_saved_tree_and_a_dense_table_have_the_zeros(tmp_path):
    released(trips()).save(tmp_path / "out")
    loaded = tt.Release.load(tmp_path / "out")
    assert loaded.tree.possible(4) == 12
    assert loaded.table(loaded.levels[-1], dense=True).num_rows == 12


def test_what_areas_do_not_have_is_known_along_a_chain():
    homes = tt.Hierarchy.from_values("home", ["yes", "no"])
    empty = pa.table({"zone": ["a1"], "home": ["yes"]})
    tree = tt.Product({"area": TREE, "home": homes}, order=["area", "area", "home"], impossible=empty)
    records = pa.table({"state": ["A", "A"], "zone": ["a1", "a2"], "home": ["no", "yes"]})
    with pytest.warns(UserWarning, match="only the tables on the chain are accurate"):
        made = tt.release_counts(records, tree, **EXACT)
    assert [row["count"] for row in made.table("home").to_pylist()] == [1, 1]


EVERY = [*itertools.product(ZONES["zone"].to_pylist(), repeat=2)]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"from_zone": ["a1"]}, "impossible: it names levels of one attribute"),
        ({"from_zone": ["a1"], "color": ["r"]}, "impossible: 1 of its 2 columns are no levels"),
        ({"from_zone": ["zz"], "to_zone": ["a1"]}, "impossible: row 1 names a label of 'from_zone'"),
        (
            {"from_zone": [a for a, _ in EVERY], "to_zone": [b for _, b in EVERY]},
            "impossible: it leaves no combination",
        ),
    ],
)
def test_tables_that_cannot_be_are_refused(table, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        released(trips(), impossible=pa.table(table))


def test_a_mechanism_that_measures_every_leaf_and_the_private_table_are_refused():
    with pytest.raises(ValueError, match=r"^impossible: LeafGaussian does not go down the tree"):
        released(trips(), mechanism=tt.counts.LeafGaussian())
    records = trips()
    with pytest.raises(ValueError, match=r"^impossible: "):
        released(records, impossible=records)


def test_a_spec_names_the_table(tmp_path):
    for name, table in (("trips", trips()), ("zones", ZONES), ("within", WITHIN)):
        pyarrow.csv.write_csv(table, tmp_path / f"{name}.csv")
    (tmp_path / "spec.yaml").write_text(
        "statistic: flows\ntrips: trips.csv\nneighboring: add_remove\nbudget: {epsilon: 10000}\nseed: 1\n"
        "origins: {path: zones.csv, levels: [state, zone]}\ndestinations: {path: zones.csv, levels: [state, zone]}\n"
        "origin: [from_state, from_zone]\ndestination: [to_state, to_zone]\nimpossible: within.csv\n"
    )
    load_spec(tmp_path / "spec.yaml").release(tmp_path / "out")
    made = tt.Release.load(tmp_path / "out")
    assert made.table(made.levels[-1]).num_rows == 12


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("mechanism", [tt.counts.LeastSquares(), tt.counts.TopDown()])
def test_bands_change_no_number_where_nodes_are_impossible(mechanism, depth):
    never = pa.table({"from_state": ["A"], "to_state": ["A"]})
    sides = {**SIDES, "impossible": [WITHIN, never], "budget": tt.Budget(epsilon=1), "neighboring": "add_remove"}
    given = trips().filter(pa.compute.invert(in_state_a(trips())))
    planned = plan_flows(FlowsArguments(trips=given, **sides, seed=1, mechanism=mechanism, memory="1GB"))
    whole = tt.release_flows(given, **sides, seed=1, mechanism=mechanism)
    made = make_release(planned, forced=ForcedCut(depth, 3, 2))
    assert all(made.table(level).equals(whole.table(level)) for level in whole.levels)


def in_state_a(given):
    return pa.compute.and_(pa.compute.equal(given["from_state"], "A"), pa.compute.equal(given["to_state"], "A"))
