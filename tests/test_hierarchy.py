import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallytree as tt
from tallytree.hierarchy import RESERVED

AREAS = {"country": ["N", "N", "N", "N"], "state": ["b", "a", "b", "a"], "county": ["x", "x", "y", "z"]}


def areas(levels=("state", "county")):
    return tt.Hierarchy.from_table(pa.table(AREAS), levels=levels)


def test_a_root_is_added_above_several_top_nodes():
    tree = areas()
    assert tree.levels == ("all", "state", "county")
    assert tree.columns == ("state", "county")
    assert tree.path_columns(0) == ()


def test_a_single_top_node_is_the_root_itself():
    tree = areas(("country", "state", "county"))
    assert tree.levels == ("country", "state", "county")
    assert tree.path_columns(0) == ("country",)


def test_siblings_keep_the_order_of_first_appearance():
    assert areas().leaf_table().to_pydict() == {"state": ["b", "b", "a", "a"], "county": ["x", "y", "x", "z"]}


def test_the_same_label_under_two_parents_is_two_nodes():
    tree = areas()
    assert tree.size(2) == 4
    assert tree.labels[2].to_pylist().count("x") == 2


def test_children_and_parents_are_inverse():
    tree = areas()
    children, families = tree.children(1, np.array([1, 0]))
    assert children.tolist() == [2, 3, 0, 1]
    assert families.tolist() == [0, 2, 4]
    assert tree.parents(2, children).tolist() == [1, 1, 0, 0]
    assert tree.child_counts(1, np.array([0, 1])).tolist() == [2, 2]


def test_a_chain_of_single_children_and_a_family_of_thousands():
    n = 5_000
    tree = tt.Hierarchy.from_table(
        pa.table({"a": ["r"] * n, "b": ["s"] * n, "c": [str(i) for i in range(n)], "d": ["t"] * n}),
        ["a", "b", "c", "d"],
    )
    assert [tree.size(depth) for depth in range(4)] == [1, 1, n, n]
    assert [tree.only_children(depth) for depth in range(4)] == [False, True, False, True]


def test_every_kind_of_table_gives_the_same_tree(tmp_path):
    table = pa.table({"state": ["b", "a"], "county": [7, 8]})
    pa.parquet.write_table(table, tmp_path / "areas.parquet")
    (tmp_path / "areas.csv").write_text("state,county\nb,7\na,8\n")
    kinds = [
        table,
        table.to_batches()[0],
        pd.DataFrame({"state": ["b", "a"], "county": [7, 8]}, index=["county", "state"]),
        pd.DataFrame({"state": pd.Categorical(["b", "a"]), "county": [7, 8]}),
        pl.DataFrame({"state": ["b", "a"], "county": [7, 8]}),
        duckdb.sql("SELECT * FROM (VALUES ('b', 7), ('a', 8)) AS t(state, county)"),
        tmp_path / "areas.parquet",
        str(tmp_path / "area*.csv"),
    ]
    for kind in kinds:
        tree = tt.Hierarchy.from_table(kind, levels=["state", "county"])
        assert tree.leaf_table().to_pydict() == {"state": ["b", "a"], "county": ["7", "8"]}, type(kind)


def test_csv_keys_are_text():
    tree = tt.Hierarchy.from_table(pa.table({"code": ["007", "7"]}), ["code"])
    assert tree.leaf_table().to_pydict() == {"code": ["007", "7"]}


@pytest.mark.slow
@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), min_size=1, max_size=30, unique=True))
def test_any_text_is_a_label_and_numbering_is_consistent(rows):
    tree = tt.Hierarchy.from_table(pa.table({"a": [r[0] for r in rows], "b": [r[1] for r in rows]}), ["a", "b"])
    depth = len(tree.levels) - 1
    listed = list(zip(*tree.leaf_table().to_pydict().values(), strict=True))
    assert sorted(listed) == sorted(rows)
    parents = tree.parents(depth, np.arange(tree.size(depth)))
    assert (np.diff(parents) >= 0).all()
    children, families = tree.children(depth - 1, np.arange(tree.size(depth - 1)))
    assert children.tolist() == list(range(tree.size(depth)))
    assert (np.diff(families) > 0).all()


def test_rows_with_the_same_path_are_one_leaf_where_that_is_asked_for():
    towns = pa.table({"region": ["N", "S", "N", "N"], "province": ["a", "c", "b", "a"], "town": ["1", "2", "3", "4"]})
    with pytest.raises(
        ValueError, match=r"^hierarchy: the leaf region='N', province='a' is listed twice; .* set finer"
    ):
        tt.Hierarchy.from_table(towns, ["region", "province"])
    coarse = tt.Hierarchy.from_table(towns, ["region", "province"], finer=True)
    assert coarse.leaf_table().to_pylist() == [
        {"region": "N", "province": "a"},
        {"region": "N", "province": "b"},
        {"region": "S", "province": "c"},
    ]
    once = tt.Hierarchy.from_table(towns.slice(0, 3), ["region", "province"])
    assert coarse.leaf_table().equals(once.leaf_table())
    with pytest.raises(ValueError, match=r"^values: the values 1 and 3 of the list are the same"):
        tt.Hierarchy.from_values("sex", ["a", "b", "a"])


@pytest.mark.parametrize(
    ("table", "levels", "message"),
    [
        (pa.table({"a": pa.array([], pa.string())}), ["a"], "hierarchy: the table of leaves is empty"),
        (
            pa.table({"a": ["x"]}),
            ["a", "b"],
            r"column 'b' is missing; the table has the column 'a'$",
        ),
        (pa.table({"a": ["x", None]}), ["a"], "column 'a' has null keys"),
        (
            pa.table({"a": ["x", "x"], "b": ["z", None]}),
            ["a", "b"],
            "row 2 has null keys .* at 'b', but other rows have areas of that level below the same parent; leave the",
        ),
        (pa.table({"a": ["x"], "A": ["y"]}), ["a", "A"], "the names 1 and 2 of the list are the same"),
        (pa.table({"all": ["x", "y"]}), ["all"], "'all' is the name of the root"),
        (pa.table({"a": ["x"]}), [], "at least one column name"),
        (pa.table({"a": ["x"]}), [""], "between 1 and 200 bytes"),
        ("nowhere/*.parquet", ["a"], r"hierarchy: no file at 'nowhere/\*.parquet'"),
        *[(pa.table({name: ["x"]}), [name], "is a column of the published tables") for name in RESERVED],
    ],
)
def test_a_table_that_is_no_tree_is_refused(table, levels, message):
    with pytest.raises(ValueError, match=message):
        tt.Hierarchy.from_table(table, levels=levels)


@pytest.mark.parametrize(
    ("table", "levels", "message"),
    [
        (pa.table({"a": [1.5]}), ["a"], "column 'a' holds double; keys must be strings or integers"),
        (pa.table({"a": [True]}), ["a"], "keys must be strings or integers"),
        (pa.table({"a": ["x"]}), "a", "must be a list of column names"),
        (42, ["a"], "hierarchy: int is not a table"),
    ],
)
def test_the_wrong_kind_of_table_is_refused(table, levels, message):
    with pytest.raises(TypeError, match=message):
        tt.Hierarchy.from_table(table, levels=levels)
