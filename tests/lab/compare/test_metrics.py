import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallytree.evaluate.metrics import (
    absolute_errors,
    constraint_violations,
    earth_movers_distance,
    false_discovery_rate,
    false_negative_rate,
    l1_error,
    max_absolute_error,
    mean_absolute_error,
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


def test_a_hand_worked_false_negative_rate():
    released, true = counts(A=5, B=0, C=1, E=2), counts(A=7, B=1, C=0, D=4)
    assert false_negative_rate(released, true) == pytest.approx(2 / 3)  # B is released as 0, D has no row; A is there
    assert false_discovery_rate(released, true) == pytest.approx(2 / 3)  # C and E
    assert false_negative_rate(true, true) == 0
    assert false_negative_rate(counts(), true) == 1
    assert false_negative_rate(released, counts()) == 0


def test_a_negative_count_does_not_find_a_node():
    assert false_negative_rate(counts(A=-3), counts(A=1)) == 1
    assert false_discovery_rate(counts(A=-3), counts(B=1)) == 0


def test_a_hand_worked_mean_absolute_error():
    released, true = counts(A=5, B=3, C=1), counts(A=7, C=1, D=4)
    assert mean_absolute_error(released, true) == pytest.approx(9 / 4)
    assert mean_absolute_error(released, true, n_nodes=100) == pytest.approx(0.09)
    assert mean_absolute_error(counts(), counts()) == 0
    with pytest.raises(ValueError, match="n_nodes: 3 is less than the 4 nodes in the tables"):
        mean_absolute_error(released, true, n_nodes=3)


histograms = st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3), min_size=1, max_size=4)


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


def group_sizes(rows, path=("state",)):
    """A table of the rows (path…, size, groups)."""
    columns = [*path, "size", "groups"]
    kinds = [pa.string()] * len(path) + [pa.int64()] * 2
    return pa.table({c: pa.array([row[i] for row in rows], kinds[i]) for i, c in enumerate(columns)})


def test_a_hand_worked_l1_error():
    released = group_sizes([("A", 0, 2), ("A", 1, 5), ("A", 7, 1), ("B", 1, 4)])
    true = group_sizes([("B", 1, 1), ("B", 2, 3), ("A", 1, 6), ("A", 0, 2)])
    assert l1_error(released, true) == 1 + 1 + 3 + 3
    assert l1_error(true, released) == l1_error(released, true)
    assert l1_error(true, true) == 0


def test_the_l1_error_of_counts_is_the_sum_over_the_nodes():
    assert l1_error(counts(A=5, B=3), counts(A=7, C=1)) == 2 + 3 + 1
    assert l1_error(counts(), counts()) == 0


def test_the_l1_error_of_the_root_needs_no_path():
    leaves = group_sizes([("A", 1, 2), ("B", 1, 3), ("B", 2, 1)])
    assert l1_error(group_sizes([(1, 4), (3, 1)], path=()), leaves) == 1 + 1 + 1


def test_hand_worked_constraint_violations():
    root = group_sizes([(1, 5), (2, 1), (4, 1)], path=())
    states = group_sizes([("A", 1, 2), ("B", 1, 3), ("B", 2, 2), ("B", 3, 1)])
    assert constraint_violations(root, states) == 3  # sizes 2, 3 and 4
    counties = group_sizes(
        [("A", "x", 1, 1), ("A", "y", 1, 1), ("B", "x", 1, 3), ("B", "x", 2, 2)], ("state", "county")
    )
    assert constraint_violations(states, counties) == 1  # B, size 3: no county has it


def test_children_of_equal_name_count_with_their_own_parent():
    states = group_sizes([("A", 1, 1), ("B", 1, 2)])
    counties = group_sizes([("A", "x", 1, 2), ("B", "x", 1, 1)], ("state", "county"))
    assert constraint_violations(states, counties) == 2


def test_constraint_violations_of_counts_are_parents():
    counties = pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"], "count": [3, 4, 1]})
    assert constraint_violations(counts(A=7, B=2), counties) == 1
    assert constraint_violations(pa.table({"count": [8]}), counts(A=7, B=1)) == 0


def test_tables_that_are_not_a_level_and_the_next_are_refused():
    states = group_sizes([("A", 1, 1)])
    counties = group_sizes([("A", "x", 1, 1)], ("state", "county"))
    with pytest.raises(ValueError, match=r"child_table: its path columns \['state'\] do not start with"):
        constraint_violations(counties, states)


def test_tables_of_two_statistics_are_refused():
    with pytest.raises(ValueError, match="true: column 'size' is missing"):
        l1_error(group_sizes([("A", 1, 1)]), counts(A=1))
    with pytest.raises(ValueError, match="child_table: column 'count' is missing"):
        constraint_violations(counts(A=1), group_sizes([("A", 1, 1)]))


cells = st.dictionaries(st.tuples(st.sampled_from("AB"), st.sampled_from("xy"), st.integers(0, 3)), st.integers(1, 3))


@given(cells, cells)
def test_both_metrics_agree_with_dictionaries(first, second):
    def table(cells):
        return group_sizes([(*cell, groups) for cell, groups in cells.items()], ("state", "county"))

    def of_state(cells, state, size):
        return sum(groups for (s, _, k), groups in cells.items() if (s, k) == (state, size))

    assert l1_error(table(first), table(second)) == sum(
        abs(first.get(cell, 0) - second.get(cell, 0)) for cell in first.keys() | second.keys()
    )
    parents = group_sizes([(state, size, groups) for (state, _, size), groups in first.items()])
    assert constraint_violations(parents, table(second)) == sum(
        of_state(first, state, size) != of_state(second, state, size) for state in "AB" for size in range(4)
    )
