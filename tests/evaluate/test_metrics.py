import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.evaluate.metrics import (
    absolute_errors,
    earth_movers_distance,
    false_discovery_rate,
    max_absolute_error,
)


def counts(**rows):
    return pa.table({"state": list(rows), "count": pa.array(list(rows.values()), pa.int64())})


def test_hand_worked_errors_of_counts():
    released, true = counts(A=5, B=3, C=1), counts(A=7, C=1, D=4)
    assert sorted(absolute_errors(released, true).tolist()) == [0, 2, 3, 4]
    assert max_absolute_error(released, true) == 4
    assert false_discovery_rate(released, true) == pytest.approx(1 / 3)


def test_records_may_be_given_leaf_by_leaf():
    leaves = pa.table({"state": ["A", "A"], "county": ["x", "y"], "count": [3, 4]})
    assert absolute_errors(counts(A=5), leaves).tolist() == [2]
    assert absolute_errors(pa.table({"count": [5]}), leaves).tolist() == [2]


def test_nothing_released_is_no_false_discovery():
    assert false_discovery_rate(counts(), counts(A=1)) == 0
    assert max_absolute_error(counts(), counts()) == 0


histograms = st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3), min_size=1, max_size=4)


@settings(deadline=None)
@given(histograms, st.randoms(use_true_random=False))
def test_the_earth_movers_distance_is_that_of_the_sorted_sizes(nodes, random):
    """Kuo et al., Lemma 1: with as many groups, it is the L1 distance of the two lists of sizes, sorted."""
    others = [[random.randint(0, 6) for _ in sizes] for sizes in nodes]

    def table(all_sizes):
        rows = [(str(i), size) for i, sizes in enumerate(all_sizes) for size in sizes]
        random.shuffle(rows)
        return pa.table({"n": [n for n, _ in rows], "size": [s for _, s in rows], "groups": [1] * len(rows)})

    expected = [np.abs(np.sort(a) - np.sort(b)).sum() for a, b in zip(nodes, others, strict=True)]
    assert sorted(earth_movers_distance(table(nodes), table(others)).tolist()) == sorted(expected)


def test_groups_without_members_need_not_be_listed():
    with_empty = pa.table({"size": [0, 2], "groups": [5, 1]})
    without = pa.table({"size": [3], "groups": [1]})
    assert earth_movers_distance(with_empty, without).tolist() == [1]


def test_tables_without_the_same_path_are_refused():
    with pytest.raises(ValueError, match="true: column 'state' is missing"):
        max_absolute_error(counts(A=1), pa.table({"count": [1]}))
