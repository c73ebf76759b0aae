"""The table is compared with brute force: every pair of small neighbouring data sets, every statistic, in full."""

import itertools
from collections import Counter

import numpy as np
import pytest

from tallytree.privacy.sensitivity import neighboring_relation, sensitivity

RELATIONS = ("add_remove", "change_one")
K = 3


def contributions(n, m):
    """Every way in which one person's at most m records fall on n places."""
    return [c for c in itertools.product(range(m + 1), repeat=n) if sum(c) <= m]


def neighbours(places, m, relation, most):
    """Every data set of 0 … most records a place, with every neighbour of it, as two tuples of records per place."""
    nothing = [(0,) * places]
    arriving = contributions(places, m) if relation == "change_one" else nothing
    for data in itertools.product(range(most + 1), repeat=places):
        for leaves in contributions(places, m):
            if all(have >= less for have, less in zip(data, leaves, strict=True)):
                for comes in arriving:
                    yield np.array(data), np.array(data) - leaves + comes


def worst(pairs, statistic):
    """The greatest L1 and squared L2 distance of a statistic over all pairs."""
    differences = [statistic(after) - statistic(before) for before, after in pairs]
    return max(int(abs(d).sum()) for d in differences), max(int((d * d).sum()) for d in differences)


def per_node(function, smallest=0):
    """A statistic of group sizes, for one node with all groups and for two nodes that share them."""

    def whole(sizes):
        return np.concatenate([function(np.clip(part, smallest, K)) for part in (sizes[:-1], sizes[-1:])])

    return whole


STATISTICS = {
    "histogram": lambda sizes: np.bincount(sizes, minlength=K + 1),
    "tail_counts": lambda sizes: np.array([(sizes >= s).sum() for s in range(1, K + 1)]),
    "sorted_sizes": np.sort,
}


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("statistic", STATISTICS)
def test_group_sizes_move_by_exactly_what_the_table_says(statistic, relation, m):
    groups = 3 if m == 1 else 5
    pairs = neighbours(groups, m, relation, most=2 if m == 2 else K)
    bound = sensitivity(statistic, relation, m)
    assert worst(pairs, per_node(STATISTICS[statistic])) == (bound.l1, bound.l2_squared)


@pytest.mark.parametrize("smallest", [0, 1])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("statistic", STATISTICS)
def test_clamping_sizes_never_moves_them_further(statistic, relation, smallest):
    bound = sensitivity(statistic, relation, 1)
    l1, l2_squared = worst(neighbours(3, 1, relation, most=K + 2), per_node(STATISTICS[statistic], smallest))
    assert l1 <= bound.l1
    assert l2_squared <= bound.l2_squared


def patterns(pairs, statistic):
    """By how much single cells move, over all pairs; largest first, without those that stay."""
    differences = (statistic(after) - statistic(before) for before, after in pairs)
    return {tuple(sorted((abs(int(d)) for d in difference if d), reverse=True)) for difference in differences}


def part_of(pattern, whole):
    return not Counter(pattern) - Counter(whole)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("statistic", STATISTICS)
def test_cells_of_group_sizes_move_by_the_stated_patterns_or_parts_of_them(statistic, relation):
    stated = sensitivity(statistic, relation).shifts
    found = patterns(neighbours(3, 1, relation, most=K), per_node(STATISTICS[statistic]))
    assert set(stated) <= found
    assert all(any(part_of(pattern, whole) for whole in stated) for pattern in found)
    clamped = patterns(neighbours(3, 1, relation, most=K + 2), per_node(STATISTICS[statistic], 1))
    assert all(any(part_of(pattern, whole) for whole in stated) for pattern in clamped)


@pytest.mark.parametrize("relation", RELATIONS)
def test_cells_of_counts_move_by_the_stated_patterns_or_parts_of_them(relation):
    families = np.array([[1, 1, 0, 0], [0, 0, 1, 1]])
    for name, level in (("counts", np.eye(4, dtype=int)), ("counts", families), ("total", np.ones((1, 4), dtype=int))):
        (stated,) = sensitivity(name, relation).shifts
        found = patterns(neighbours(4, 1, relation, most=1), level.dot)
        assert stated in found
        assert all(part_of(pattern, stated) for pattern in found)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("statistic", [*STATISTICS, "counts", "total"])
def test_patterns_attain_the_sensitivities_and_none_is_stated_for_several_records(statistic, relation):
    bound = sensitivity(statistic, relation)
    assert max(sum(pattern) for pattern in bound.shifts) == bound.l1
    assert max(sum(shift**2 for shift in pattern) for pattern in bound.shifts) == bound.l2_squared
    assert sensitivity(statistic, relation, 2).shifts == ()


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("relation", RELATIONS)
def test_counts_of_a_level_move_by_exactly_what_the_table_says(relation, m):
    leaves = 4
    families = np.array([[1, 1, 0, 0], [0, 0, 1, 1]])
    for level in (np.eye(leaves, dtype=int), families):
        bound = sensitivity("counts", relation, m)
        assert worst(neighbours(leaves, m, relation, most=m), level.dot) == (bound.l1, bound.l2_squared)


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_total_moves_by_at_most_m(relation, m):
    bound = sensitivity("total", relation, m)
    assert worst(neighbours(2, m, relation, most=m), lambda d: d.sum(keepdims=True)) == (bound.l1, bound.l2_squared)


def test_tail_counts_hold_where_a_person_creates_a_group_and_cumulative_counts_do_not():
    # A group that appears (here: goes from absent to one member) moves one tail count but every cumulative count.
    before, after = np.array([2, 3]), np.array([2, 3, 1])
    tails = STATISTICS["tail_counts"]
    assert abs(tails(after) - tails(before)).sum() == sensitivity("tail_counts", "add_remove").l1 == 1
    cumulative = [np.cumsum(np.bincount(sizes, minlength=K + 1)[1:]) for sizes in (before, after)]
    assert abs(cumulative[1] - cumulative[0]).sum() == K


def test_distinct_leaves_do_not_help_an_inner_level():
    # Boninsegna's smaller bound for distinct tuples is a leaf-level bound: two leaves of one parent move it by m.
    assert sensitivity("counts", "add_remove", 2).l2_squared == 4


def test_published_table_of_the_design():
    table = {
        ("counts", "add_remove"): (1, 1),
        ("counts", "change_one"): (2, 2),
        ("histogram", "add_remove"): (2, 2),
        ("histogram", "change_one"): (4, 6),
        ("tail_counts", "add_remove"): (1, 1),
        ("tail_counts", "change_one"): (2, 2),
        ("sorted_sizes", "add_remove"): (1, 1),
        ("sorted_sizes", "change_one"): (2, 2),
    }
    for (statistic, relation), (l1, l2_squared) in table.items():
        for m in (1, 3):
            bound = sensitivity(statistic, relation, m)
            assert (bound.l1, bound.l2_squared) == (l1 * m, l2_squared * m * m)


def test_aliases_and_unknown_names():
    assert neighboring_relation("bounded") == "change_one"
    assert neighboring_relation("unbounded") == "add_remove"
    with pytest.raises(ValueError, match="neighboring: 'both' is not known"):
        neighboring_relation("both")
    with pytest.raises(ValueError, match="statistic: 'mean' has no known sensitivity"):
        sensitivity("mean", "add_remove")
