"""Labels are compared as integers only where that loses none and meets no other."""

import numpy as np
import pyarrow as pa
import pytest

from helpers.inside import LeafKey
from tallytree.hierarchy import Hierarchy
from tallytree.private.engines import CountRecords, Local
from tallytree.private.tabulate.columns import leaf_table, same_path


def table_of(labels, *types):
    hierarchy = Hierarchy.from_table(pa.table({"leaf": labels}), ["leaf"])
    key = LeafKey(hierarchy, ("leaf",))
    return leaf_table(key, ("leaf",), [types])


def test_integers_are_compared_as_integers_and_what_no_integer_is_written_as_meets_none():
    table, are_integers = table_of(["7", "007", "-3", "-0", "+7", "a"], pa.int8(), pa.dictionary(pa.int8(), pa.int64()))
    assert are_integers == [True]
    assert table.column("c0").to_pylist() == [7, None, -3, None, None, None]
    assert table.column("leaf").to_pylist() == list(range(6))
    assert same_path("leaves2", range(4, 5), are_integers, [False]) == "k4 = leaves2.c0"


@pytest.mark.parametrize("types", [(pa.string(),), (pa.int64(), pa.string()), (pa.uint64(),), (pa.decimal128(9, 0),)])
def test_all_else_is_compared_as_text(types):
    table, are_integers = table_of(["7", "007"], *types)
    assert are_integers == [False]
    assert table.column("c0").to_pylist() == ["7", "007"]
    assert same_path("leaves0", range(1), are_integers, [False]) == "CAST(k0 AS VARCHAR) = leaves0.c0"


def test_labels_longer_than_64_bits_are_compared_as_text():
    assert table_of(["1" * 19], pa.int64())[1] == [False]


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int64(), pa.uint64(), pa.decimal128(19, 0), pa.string()])
def test_one_code_is_one_leaf_in_every_type(kind):
    hierarchy = Hierarchy.from_table(pa.table({"leaf": ["10", "9", "100"]}), ["leaf"])
    records = pa.table({"leaf": pa.array([9, 100, 9, 10]).cast(kind)})
    found = Local().tabulate(records, CountRecords([LeafKey(hierarchy, ("leaf",))]))
    np.testing.assert_array_equal(found.counts, [1, 2, 1])
