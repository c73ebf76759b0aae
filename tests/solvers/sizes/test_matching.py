from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from tallytree.solvers.sizes.matching import NodeRuns, Runs, match, match_families, rounded_sizes

examples = settings(max_examples=200)

variances = st.sampled_from([0, 1, 2, 3, 8])
runs = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4), variances), max_size=4).map(sorted)


def as_runs(rows):
    return Runs(*(np.array([row[i] for row in rows], t) for i, t in enumerate((np.int64, np.int64, float))))


@st.composite
def families(draw, max_children=3):
    """A parent and its children with as many groups in all; sizes may repeat with other variances."""
    children = draw(st.lists(runs, max_size=max_children))
    left = sum(groups for child in children for _, groups, _ in child)
    parent = []
    while left:
        parent.append((draw(st.integers(0, 6)), draw(st.integers(1, left)), draw(variances)))
        left -= parent[-1][1]
    return sorted(parent), children


def as_nodes(nodes):
    return NodeRuns(np.cumsum([0, *map(len, nodes)]), *as_runs([row for node in nodes for row in node]))


def rows_of(matches):
    return list(zip(*(column.tolist() for column in matches), strict=True))


def expanded(rows):
    return [size for size, groups, _ in rows for _ in range(groups)]


def shares(k, numbers):
    """k split in proportion to `numbers`, largest remainders up, ties by order."""
    total = sum(numbers)
    parts = [k * n // total for n in numbers]
    ranked = sorted(range(len(numbers)), key=lambda i: -(k * numbers[i] % total))
    for i in ranked[: k - sum(parts)]:
        parts[i] += 1
    return parts


def merged(parent, child, merge, carry="rounded"):
    """Equations 5 and 6 in fractions, for variances that are integers."""
    (s_p, v_p), (s_c, v_c) = parent, child
    if merge == "average":
        size, variance = Fraction(s_p + s_c, 2), (v_p + v_c) / 4
    elif v_p + v_c == 0:
        size, variance = Fraction(s_p + s_c, 2), 0.0
    else:
        size, variance = Fraction(s_p * v_c + s_c * v_p, v_p + v_c), v_p * v_c / (v_p + v_c)
    size = pytest.approx(float(size), rel=1e-15) if carry == "unrounded" else (2 * size + 1) // 2
    return size, pytest.approx(variance, rel=1e-15)


def of_child(nodes, i):
    rows = slice(nodes.offsets[i], nodes.offsets[i + 1])
    return list(zip(nodes.size[rows].tolist(), nodes.groups[rows].tolist(), nodes.variance[rows].tolist(), strict=True))


@pytest.mark.slow
def test_the_papers_example_splits_three_hundred_groups_in_proportion():
    ones = [(1, 200, 1)], [(1, 100, 1)], [(1, 100, 1)]
    matches = match(as_runs([(1, 300, 1), (2, 100, 1)]), [as_runs(child) for child in ones])
    assert matches.parent_run.tolist() == [0, 0, 0, 1, 1, 1]
    assert matches.child.tolist() == [0, 1, 2, 0, 1, 2]
    assert matches.groups.tolist() == [150, 75, 75, 50, 25, 25]


def test_a_larger_parent_run_goes_on_to_the_next_size():
    matches = match(([1], [300], [1.0]), [([1, 2], [200, 30], [1.0, 1.0]), ([2, 3], [50, 20], [1.0, 1.0])])
    assert matches.child.tolist() == [0, 0, 1, 1]
    assert matches.child_run.tolist() == [0, 1, 0, 1]
    assert matches.groups.tolist() == [200, 30, 50, 20]


def test_equal_remainders_go_to_the_first_children():
    matches = match(([1, 2], [2, 1], [1.0, 1.0]), [([1], [1], [1.0])] * 3)
    assert list(zip(matches.parent_run.tolist(), matches.child.tolist(), strict=True)) == [(0, 0), (0, 1), (1, 2)]


def test_sizes_may_be_fractions():
    matches = match(([0.5, 2.5], [1, 1], [1, 1]), [([2.25], [1], [1]), ([0.75], [1], [1])])
    assert matches.child.tolist() == [1, 0]


@examples
@given(families())
def test_every_group_is_matched_once(family):
    parent, children = family
    matches = match(as_runs(parent), [as_runs(child) for child in children])
    assert (matches.groups > 0).all()
    of_parent, of_children = Counter(), Counter()
    for run, child, child_run, groups in rows_of(matches):
        of_parent[run] += groups
        of_children[child, child_run] += groups
    assert of_parent == Counter({i: groups for i, (_, groups, _) in enumerate(parent) if groups})
    assert of_children == Counter({(c, i): row[1] for c, rows in enumerate(children) for i, row in enumerate(rows)})


@examples
@given(families())
def test_the_matching_costs_least_of_all(family):
    parent, children = family
    matches = match(as_runs(parent), [as_runs(child) for child in children])
    cost = sum(
        groups * abs(parent[run][0] - children[child][child_run][0])
        for run, child, child_run, groups in rows_of(matches)
    )
    above, below = expanded(parent), [size for child in children for size in expanded(child)]
    edges = np.abs(np.subtract.outer(above, below)).reshape(len(above), len(below))
    assert cost == edges[linear_sum_assignment(edges)].sum()


@pytest.mark.slow
@examples
@given(st.lists(st.integers(0, 10**10), min_size=1, max_size=6), st.data())
def test_shares_of_ten_billion_groups_are_exact(numbers, data):
    total = sum(numbers)
    k = data.draw(st.integers(0, total))
    children = [([1], [n], [1.0]) for n in numbers]
    matches = match(([1, 2], [k, total - k], [1.0, 1.0]), children)
    first = matches.parent_run == 0
    found = np.bincount(matches.child[first], weights=matches.groups[first], minlength=len(numbers))
    assert found.astype(int).tolist() == (shares(k, numbers) if k > 0 else [0] * len(numbers))


def test_shares_stay_exact_up_to_the_largest_numbers():
    k, numbers = 2**61 - 7, [2**60 - 1, 2**60 + 5, 2**59 + 3]
    matches = match(([1, 2], [k, sum(numbers) - k], [1, 1]), [([1], [n], [1]) for n in numbers])
    assert matches.groups[:3].tolist() == shares(k, numbers)


@examples
@given(families())
def test_cutting_a_childs_run_in_two_does_not_move_its_share(family):
    parent, children = family
    cut = [[(s, part, v) for s, n, v in child for part in (n // 3, n - n // 3)] for child in children]

    def moved(parts):
        totals = Counter()
        matches = match(as_runs(parent), [as_runs(child) for child in parts])
        for run, child, child_run, groups in rows_of(matches):
            totals[run, child, parts[child][child_run][0]] += groups
        return totals

    assert moved(children) == moved(cut)


@examples
@given(
    st.lists(families(), max_size=4),
    st.sampled_from(["weighted", "average"]),
    st.sampled_from(["unrounded", "rounded"]),
)
def test_families_merge_what_is_matched_and_sort_each_child(level, merge, carry):
    parents, children = [parent for parent, _ in level], [child for _, family in level for child in family]
    offsets = np.cumsum([0, *(len(family) for _, family in level)])
    result = match_families(as_nodes(parents), offsets, as_nodes(children), merge=merge, carry=carry)
    assert len(result.offsets) == len(children) + 1
    assert result.size.dtype == (np.int64 if carry == "rounded" else np.float64)
    for i, (parent, family) in enumerate(level):
        matches = match(as_runs(parent), [as_runs(child) for child in family])
        for c, child in enumerate(family):
            expected = Counter()
            for run, owner, child_run, groups in rows_of(matches):
                if owner == c:
                    expected[parent[run][0], parent[run][2], child[child_run][0], child[child_run][2]] += groups
            found = of_child(result, offsets[i] + c)
            assert [row[::2] for row in found] == sorted({row[::2] for row in found})
            for (s_p, v_p, s_c, v_c), groups in expected.items():
                size, variance = merged((s_p, v_p), (s_c, v_c), merge, carry)
                rows = [j for j, row in enumerate(found) if row[0] == size and row[2] == variance]
                assert len(rows) == 1
                found[rows[0]] = (found[rows[0]][0], found[rows[0]][1] - groups, found[rows[0]][2])
            assert all(groups == 0 for _, groups, _ in found)


@pytest.mark.parametrize(
    ("merge", "parent", "child", "size", "variance"),
    [
        ("weighted", (10, 1.0), (20, 3.0), 13, 0.75),  # 12.5, halves up
        ("weighted", (20, 3.0), (10, 1.0), 13, 0.75),
        ("weighted", (10, 0.0), (20, 3.0), 10, 0.0),
        ("weighted", (10, 3.0), (20, 0.0), 20, 0.0),
        ("weighted", (10, 0.0), (21, 0.0), 16, 0.0),
        ("weighted", (10, 5e-324), (21, 5e-324), 16, 0.0),
        ("weighted", (10, 1e-300), (20, 1e280), 10, 1e-300),
        ("weighted", (-4, 1.0), (-1, 1.0), -2, 0.5),
        ("average", (10, 1.0), (13, 3.0), 12, 1.0),
        ("average", (-4, 0.0), (-1, 2.0), -2, 0.5),
    ],
)
def test_two_estimates_of_one_group(merge, parent, child, size, variance):
    nodes = [NodeRuns([0, 1], [s], [1], [v]) for s, v in (parent, child)]
    result = match_families(nodes[0], [0, 1], nodes[1], merge=merge)
    assert result.size.tolist() == [size]
    assert result.variance.tolist() == [variance]


def test_unrounded_sizes_are_carried_down_and_rounded_once():
    """Three levels that say 10, 11 and 10: the mean is 10.33, but 10.5 rounded on the way makes it 10.67."""
    nodes = [NodeRuns([0, 1], [s], [1], [1.0]) for s in (10, 11, 10)]
    middle = match_families(nodes[0], [0, 1], nodes[1], carry="unrounded")
    assert (middle.size.tolist(), middle.variance.tolist()) == ([10.5], [0.5])
    leaf = match_families(middle, [0, 1], nodes[2], carry="unrounded")
    assert leaf.size == pytest.approx([31 / 3], rel=1e-15)
    assert rounded_sizes(leaf).tolist() == [10]
    rounded = match_families(match_families(nodes[0], [0, 1], nodes[1]), [0, 1], nodes[2])
    assert rounded.size.tolist() == [11]


def test_sizes_are_rounded_with_halves_up():
    assert rounded_sizes(NodeRuns([0, 3, 4], [0.5, 1.49, 2.5, -1.5], [1] * 4, [1.0] * 4)).tolist() == [1, 1, 3, -1]


def test_weighted_sizes_are_sorted_although_the_matching_order_is_not():
    parent, child = NodeRuns([0, 1], [10], [2], [1.0]), NodeRuns([0, 2], [19, 20], [1, 1], [0.1, 9.0])
    result = match_families(parent, [0, 1], child)
    assert result.size.tolist() == [11, 18]
    assert result.groups.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("parents", "family", "distinct"), [(1, 3_000, 50), (3_000, 3, 20), (20_000, 1, 5), (1, 1, 10**5)]
)
def test_a_whole_level_keeps_every_childs_groups(parents, family, distinct):
    rng = np.random.default_rng(parents)
    nodes = parents * family
    groups = rng.integers(1, 10**6, (nodes, distinct))
    size = np.cumsum(rng.integers(1, 4, (nodes, distinct)), axis=1)
    children = NodeRuns(np.arange(nodes + 1) * distinct, size.ravel(), groups.ravel(), 4 / groups.ravel())
    need = groups.reshape(parents, -1).sum(axis=1)
    halves = np.stack((need // 2, need - need // 2), axis=1)
    parent = NodeRuns(np.arange(parents + 1) * 2, np.tile([5, 9], parents), halves.ravel(), np.ones(2 * parents))
    result = match_families(parent, np.arange(parents + 1) * family, children)
    assert (np.add.reduceat(result.groups, result.offsets[:-1]) == groups.sum(axis=1)).all()
    falls = np.flatnonzero(np.diff(result.size) < 0) + 1
    assert np.isin(falls, result.offsets).all()


def test_no_groups_match_nothing():
    empty = NodeRuns([0], [], [], [])
    assert all(len(column) == 0 for column in match(([], [], []), []))
    assert all(len(column) == 0 for column in match(([1], [0], [1.0]), [([], [], []), ([2], [0], [1.0])]))
    assert match_families(empty, [0], empty).offsets.tolist() == [0]
    childless = match_families(NodeRuns([0, 0, 1], [3], [0], [1.0]), [0, 0, 2], NodeRuns([0, 0, 0], [], [], []))
    assert childless.offsets.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("parent", "children", "error", "says"),
    [
        (([1], [2], [1.0]), [([1], [3], [1.0])], ValueError, "children have 3 groups in all and parent 2"),
        (([1], [2], [1.0]), [], ValueError, "children have 0 groups in all and parent 2"),
        (([1], [2]), [], ValueError, r"parent has 2 parts; it must be \(size, groups, variance\)"),
        (([2, 1], [1, 1], [1, 1]), [], ValueError, "parent.size falls from 2 to 1"),
        (([np.nan], [1], [1]), [], ValueError, "parent.size holds nan"),
        ((["a"], [1], [1]), [], TypeError, "parent.size has dtype"),
        (([1], [1.5], [1]), [], TypeError, "parent.groups has dtype float64"),
        (([1], [-1], [1]), [], ValueError, "parent.groups holds -1; it must not be negative"),
        (([1, 2], [2**61, 2**61], [1, 1]), [], ValueError, "parent.groups adds up to 4.61e\\+18"),
        (([1], [1, 2], [1]), [], ValueError, "size, groups and variance have shapes"),
        (([], [], []), [([1], [1], [-1.0])], ValueError, r"children\[0\].variance holds -1.0"),
        (([], [], []), [([1], [1], [np.inf])], ValueError, r"children\[0\].variance holds inf"),
        (([], [], []), [([1], [1], [np.nan])], ValueError, r"children\[0\].variance holds nan"),
        (([], [], []), [([1], [1], ["x"])], TypeError, r"children\[0\].variance has dtype"),
    ],
)
def test_match_says_what_is_wrong(parent, children, error, says):
    with pytest.raises(error, match=says):
        match(parent, children)


GOOD = NodeRuns([0, 1, 2], [1, 1], [2, 3], [1.0, 1.0])


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"merge": "mean"}, ValueError, 'merge=\'mean\'; it must be "weighted" or "average"'),
        (
            {"first_child": [0, 1]},
            ValueError,
            "first_child is 0 … 1; it must run from 0 to the 2 entries of children",
        ),
        ({"first_child": [0, 2]}, ValueError, "first_child describes 1 parents; parents has 2"),
        ({"first_child": [0, 0, 2]}, ValueError, "children of parent 0 have 0 groups and the parent 2"),
        ({"parents": GOOD._replace(groups=[2, 4])}, ValueError, "children of parent 1 have 3 groups and the parent 4"),
        ({"carry": "up"}, ValueError, 'carry=\'up\'; it must be "unrounded" or "rounded"'),
        ({"parents": GOOD._replace(size=["1", "2"])}, TypeError, "parents.size has dtype <U1"),
        ({"parents": GOOD._replace(size=[1.0, np.inf])}, ValueError, "parents.size holds inf; it must be finite"),
        ({"parents": GOOD._replace(size=[1, 2**52])}, ValueError, "parents.size must be below 2\\^52"),
        ({"parents": GOOD._replace(offsets=[0, 1])}, ValueError, "parents.offsets is 0 … 1"),
        ({"parents": GOOD[:3]}, ValueError, r"parents has 3 parts; it must be \(offsets, size, groups, variance\)"),
        ({"children": GOOD._replace(offsets=[0, 2, 2], size=[2, 1])}, ValueError, "children.size falls from 2 to 1"),
        ({"children": GOOD._replace(variance=[1.0, -1.0])}, ValueError, "children.variance holds -1.0"),
    ],
)
def test_match_families_says_what_is_wrong(changes, error, says):
    arguments = {"parents": GOOD, "first_child": [0, 1, 2], "children": GOOD} | changes
    with pytest.raises(error, match=says):
        match_families(**arguments)
