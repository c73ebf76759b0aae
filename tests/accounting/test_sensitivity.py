"""The table is compared with brute force: every pair of small neighboring data sets, every statistic, in full.

A data set is so many records, or so much quantity, in each of some places: leaves for counts, groups for group sizes.
What the statistics are is written down here once more, from their definitions, and not taken from the library.
"""

import itertools
from collections import Counter

import numpy as np
import pytest

from helpers.inside import neighboring_relation
from tallytree.accounting.sensitivity import MAX_SHIFTS, effective_quantity, sensitivity

RELATIONS = ("add_remove", "change_one")
REGIMES = ("groups", "total", "none")
SIZES_STATISTICS = ("histogram", "tail_counts", "chain_tail_counts", "sorted_sizes")
SLOW = pytest.mark.slow
BOUNDS = [(m, z) for m in (1, 2) for z in (1, 2, 3)]
BOUNDS_OF_GROUPS = BOUNDS[:-1]  # (2, 3) takes half a minute, and shows what (2, 2) and (1, 3) do


def contributions(places, m, z=1, *, distinct=False):
    """Every way in which one person's at most m records of at most z fall on some places, as amounts per place."""
    records = [(place, quantity) for place in range(places) for quantity in range(1, z + 1)]
    choose = itertools.combinations if distinct else itertools.combinations_with_replacement
    ways = set()
    for count in range(m + 1):
        for chosen in choose(records, count):
            ways.add(tuple(sum(q for p, q in chosen if p == place) for place in range(places)))
    return np.array(sorted(ways))


def differences(statistic, relation, m, z=1, *, node, most, kept=None, distinct=False):
    """How a statistic changes, int8 (pairs, cells), from data sets of 0 … most a place to all of their neighbors.

    Places of one node are alike, so only data sets that ascend in them are listed. `kept` is a number that neighbors
    must have in common.
    """
    places, base = len(node), most + m * z + 1
    everything = np.array(list(itertools.product(range(base), repeat=places)))
    values, common = statistic(everything).astype(np.int8), None if kept is None else kept(everything)
    positions = base ** np.arange(places - 1, -1, -1)
    ascending = [everything[:, i] <= everything[:, i + 1] for i in range(places - 1) if node[i] == node[i + 1]]
    data = everything[np.logical_and.reduce([(everything <= most).all(axis=1), *ascending])]
    ways = contributions(places, m, z, distinct=distinct)
    for leaves, comes in itertools.product(ways, ways if relation == "change_one" else ways[:1]):
        before = data[(data >= leaves).all(axis=1)] @ positions
        after = before + (comes - leaves) @ positions
        if common is not None:
            before, after = (side[common[before] == common[after]] for side in (before, after))
        if len(before):
            yield values[after] - values[before]


def worst(found):
    """The greatest L1 and squared L2 norm of all differences."""
    norms = [(np.abs(d).sum(axis=1, dtype=int).max(), (d * d).sum(axis=1, dtype=int).max()) for d in found]
    return tuple(int(norm) for norm in np.max(norms, axis=0))


def patterns(found):
    """By how much single cells move, over all differences; largest first, without those that stay."""
    distinct = {tuple(row) for d in found for row in np.unique(-np.sort(-np.abs(d), axis=1), axis=0)}
    return {tuple(int(shift) for shift in row if shift) for row in distinct}


def part_of(pattern, whole):
    return not Counter(pattern) - Counter(whole)


class SizesLevel:
    """One level of group sizes: a statistic, for groups that lie in given nodes."""

    def __init__(self, statistic, node, regime, smallest, largest):
        self.statistic, self.node, self.regime = statistic, np.array(node), regime
        self.smallest, self.largest = smallest, largest
        self.nodes = max(node) + 1

    def there(self, sizes):
        """Which groups are there: all, where their numbers are public; else those with members."""
        return np.ones_like(sizes, dtype=bool) if self.regime == "groups" else sizes > 0

    def cells(self, members):
        """The statistic of each data set, (data sets, cells), by its definition."""
        there, sizes = self.there(members), np.clip(members, self.smallest, self.largest)
        if self.statistic == "sorted_sizes":
            return np.concatenate([np.sort(sizes[:, self.node == r], axis=1) for r in range(self.nodes)], axis=1)
        own_number_is_public = self.regime == "groups" or (self.regime == "total" and self.nodes == 1)
        first = self.smallest + (self.statistic == "tail_counts" and own_number_is_public)
        counted = {
            "histogram": lambda s, r: (self.node == r) & (sizes == s),
            "tail_counts": lambda s, r: (self.node == r) & (sizes >= s),
            "chain_tail_counts": lambda s, r: (sizes > s) | ((sizes == s) & (self.node >= r)),
        }[self.statistic]
        cells = itertools.product(range(first, self.largest + 1), range(self.nodes))
        return np.stack([(counted(s, r) & there).sum(axis=1) for s, r in cells], axis=1)

    def differences(self, relation, m, z, most):
        kept = (lambda members: self.there(members).sum(axis=1)) if self.regime == "total" else None
        return differences(self.cells, relation, m, z, node=self.node, most=most, kept=kept)

    def bound(self, relation, m, z):
        return sensitivity(self.statistic, relation, m, max_quantity=z, nodes=self.nodes)


def sizes_levels(m, regime, smallest, largest):
    """Levels of one, two and three nodes, with enough groups in one node for m records to do their worst."""
    layouts = {1: [(0, 0, 0), (0, 0, 1), (0, 1, 2)], 2: [(0, 0, 0, 0), (0, 0, 1, 1), (0, 0, 2, 2)]}[m]
    for statistic in SIZES_STATISTICS:
        if statistic != "sorted_sizes" or regime == "groups":
            for node in layouts if statistic == "chain_tail_counts" else layouts[:2]:
                yield SizesLevel(statistic, node, regime, smallest, largest)


@pytest.mark.parametrize(("m", "z"), BOUNDS_OF_GROUPS)
@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("relation", RELATIONS)
def test_group_sizes_move_by_exactly_what_the_table_says(relation, regime, m, z):
    largest = 2 * z + 1
    found = {}
    for level in sizes_levels(m, regime, 0 if regime == "groups" else 1, largest):
        bound = level.bound(relation, m, z)
        l1, l2_squared = worst(level.differences(relation, m, z, most=largest))
        assert l1 <= bound.l1
        assert l2_squared <= bound.l2_squared
        # Of chains each number of nodes has a bound of its own; of the others one or two nodes show the worst.
        key = (level.statistic, level.nodes if level.statistic == "chain_tail_counts" else 1)
        found.setdefault(key, []).append((l1, l2_squared))
    assert len(found) == (6 if regime == "groups" else 5)
    for (statistic, nodes), norms in found.items():
        bound = sensitivity(statistic, relation, m, max_quantity=z, nodes=nodes)
        assert tuple(np.max(norms, axis=0)) == (bound.l1, bound.l2_squared)


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("relation", RELATIONS)
def test_persons_by_rank_move_by_exactly_what_the_table_says(relation, m):
    """Households of up to K + 1 members, for K = 2, and a place for persons who live in none, which has no cell."""
    most, found = 2, []
    for node in [(0,) * 3 + (9,), (0, 0, 1, 9)]:
        homes = [place for place in range(4) if node[place] < 9]

        def ranks(members, node=node, homes=homes):
            inside = [(members[:, [p for p in homes if node[p] == r]]) for r in sorted({node[p] for p in homes})]
            cells = [(each >= s).sum(axis=1) for each in inside for s in range(1, most + 1)]
            return np.stack([*cells, *(np.maximum(each - most, 0).sum(axis=1) for each in inside)], axis=1)

        moves = list(differences(ranks, relation, m, node=node, most=most + 1))
        found.append(worst(moves))
        if m == 1:
            (whole,) = sensitivity("persons_by_rank", relation, 1).shifts
            assert all(part_of(pattern, whole) for pattern in patterns(moves))
    bound = sensitivity("persons_by_rank", relation, m)
    assert all(l1 <= bound.l1 and l2_squared <= bound.l2_squared for l1, l2_squared in found)
    assert tuple(np.max(found, axis=0)) == (bound.l1, bound.l2_squared)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("relation", RELATIONS)
def test_a_histogram_moves_by_exactly_what_the_table_says_where_a_person_has_three_records(relation, regime):
    """Every data set of six groups of up to four members: three can give a member to each of three others."""
    level = SizesLevel("histogram", (0,) * 6, regime, 0 if regime == "groups" else 1, 4)
    bound = level.bound(relation, 3, 1)
    assert worst(level.differences(relation, 3, 1, most=4)) == (bound.l1, bound.l2_squared)


@pytest.mark.parametrize(("m", "z"), [(1, 1), pytest.param(1, 3, marks=SLOW), pytest.param(2, 2, marks=SLOW)])
@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("relation", RELATIONS)
def test_clamping_sizes_never_moves_them_further(relation, regime, m, z):
    for smallest in range(0 if regime == "groups" else 1, 4):
        for level in sizes_levels(m, regime, smallest, 4):
            if level.nodes > 1 or m == 1:
                bound = level.bound(relation, m, z)
                l1, l2_squared = worst(level.differences(relation, m, z, most=5))
                assert l1 <= bound.l1
                assert l2_squared <= bound.l2_squared


@pytest.mark.parametrize("z", [1, 2, pytest.param(3, marks=SLOW)])
@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("relation", RELATIONS)
def test_cells_of_group_sizes_move_by_the_stated_patterns_or_parts_of_them(relation, regime, z):
    largest = 2 * z + 1
    attained = {}
    for smallest, most in ((0, largest), (1, largest), (2, largest + 2)):
        if smallest or regime == "groups":
            for level in sizes_levels(1, regime, smallest, largest):
                stated = level.bound(relation, 1, z).shifts
                if level.statistic == "sorted_sizes" and z > 1:
                    assert stated == ()
                    continue
                found = patterns(level.differences(relation, 1, z, most))
                assert all(any(part_of(pattern, whole) for whole in stated) for pattern in found)
                attained.setdefault((level.statistic, stated), set()).update(found)
    assert all(set(stated) <= found for (_, stated), found in attained.items())


def test_no_one_pattern_covers_sorted_sizes_with_quantities():
    level = SizesLevel("sorted_sizes", (0, 0, 0), "groups", 0, 5)
    found = patterns(level.differences("add_remove", 1, 2, most=5))
    assert {(2,), (1, 1)} <= found  # of [1, 2, 5] the 2 leaves a group of 0, or the 5 one of 3: two ways to lose 2


# --- The largest size ---


def largest_sizes(regime, smallest, at_most, relation, m, z, most):
    """How the largest size of a few groups changes, where sizes are clamped to [smallest, at_most]."""
    groups = SizesLevel("histogram", (0,) * (4 if m == 1 else 3), regime, smallest, at_most)

    def largest(members):
        clipped = np.where(groups.there(members), np.clip(members, smallest, at_most), smallest)
        return clipped.max(axis=1, initial=smallest)[:, None]

    kept = (lambda members: groups.there(members).sum(axis=1)) if regime == "total" else None
    return differences(largest, relation, m, z, node=groups.node, most=most, kept=kept)


@pytest.mark.parametrize(("m", "z"), BOUNDS)
@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_largest_size_moves_by_exactly_what_the_table_says(relation, regime, m, z):
    """Losing and gaining move it in opposite directions, so that replacing moves it no further than adding."""
    bound = sensitivity("largest_size", relation, m, max_quantity=z)
    least = 0 if regime == "groups" else 1
    most = m * z + 1
    assert worst(largest_sizes(regime, least, most + m * z, relation, m, z, most)) == (bound.l1, bound.l2_squared)
    assert (bound.l1, bound.l2_squared) == (m * z, (m * z) ** 2)
    for smallest, at_most in itertools.product(range(least, 4), (2, 3)):
        if smallest < at_most:
            moved, _ = worst(largest_sizes(regime, smallest, at_most, relation, m, z, most))
            assert moved <= min(bound.l1, at_most - smallest) < m * effective_quantity(z, smallest, at_most) + 1


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_largest_size_moves_by_one_or_by_anything_up_to_the_quantity(relation, regime):
    least = 0 if regime == "groups" else 1
    assert sensitivity("largest_size", relation).shifts == ((1,),)
    assert patterns(largest_sizes(regime, least, 5, relation, 1, 1, 3)) == {(), (1,)}
    assert patterns(largest_sizes(regime, least, 9, relation, 1, 3, 4)) == {(), (1,), (2,), (3,)}
    assert sensitivity("largest_size", relation, max_quantity=3).shifts == ()


# --- The comparison would show a table that is wrong ---


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_root_of_m_in_place_of_m_would_be_too_little(relation, regime):
    m = 2
    for level in sizes_levels(m, regime, 0 if regime == "groups" else 1, 3):
        if level.nodes == 2:
            _, l2_squared = worst(level.differences(relation, m, 1, most=3))
            assert l2_squared > m * level.bound(relation, 1, 1).l2_squared


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("relation", RELATIONS)
def test_quantities_that_are_ignored_would_be_too_little_except_of_histograms(relation, regime):
    for level in sizes_levels(1, regime, 0 if regime == "groups" else 1, 5):
        l1, l2_squared = worst(level.differences(relation, 1, 2, most=5))
        ignored = level.bound(relation, 1, 1)
        if level.statistic == "histogram":
            assert (l1, l2_squared) == (ignored.l1, ignored.l2_squared)
        else:
            assert l1 == 2 * ignored.l1
            assert l2_squared > ignored.l2_squared


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_published_sensitivity_of_the_chain_would_be_too_little(relation):
    published = sensitivity("chain_tail_counts", relation, nodes=1)
    for regime in REGIMES:
        for nodes in (2, 3):
            level = SizesLevel("chain_tail_counts", (0, *range(nodes)), regime, 1, 3)
            assert worst(level.differences(relation, 1, 1, most=3))[0] == nodes * published.l1


# --- Counts ---


@pytest.mark.parametrize("relation", RELATIONS)
def test_cells_of_counts_move_by_the_stated_patterns_or_parts_of_them(relation):
    families = np.array([[1, 1, 0, 0], [0, 0, 1, 1]])
    for name, level in (("counts", np.eye(4, dtype=int)), ("counts", families), ("total", np.ones((1, 4), dtype=int))):
        (stated,) = sensitivity(name, relation).shifts
        found = patterns(counts_differences(level, relation, 1))
        assert stated in found
        assert all(part_of(pattern, stated) for pattern in found)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("statistic", [*SIZES_STATISTICS, "largest_size", "counts", "stable_counts", "total"])
def test_patterns_attain_the_sensitivities_and_none_is_stated_for_several_records(statistic, relation):
    for z, nodes in itertools.product((1, 2, 3), repeat=2):
        bound = sensitivity(statistic, relation, max_quantity=z, nodes=nodes)
        if bound.shifts:
            assert max(sum(pattern) for pattern in bound.shifts) == bound.l1
            assert max(sum(shift**2 for shift in pattern) for pattern in bound.shifts) == bound.l2_squared
        assert sensitivity(statistic, relation, 2, max_quantity=z, nodes=nodes).shifts == ()


def test_patterns_of_very_many_cells_are_not_written_out():
    assert len(sensitivity("chain_tail_counts", "add_remove", nodes=MAX_SHIFTS).shifts[0]) == MAX_SHIFTS
    assert sensitivity("chain_tail_counts", "add_remove", nodes=MAX_SHIFTS + 1).shifts == ()


def counts_differences(level, relation, m):
    """How the nodes of a level, a row of leaves each, change from data sets of 0 … m records a leaf."""
    leaves = range(level.shape[1])
    return differences(lambda records: records @ level.T, relation, m, node=leaves, most=m)


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("relation", RELATIONS)
def test_counts_of_a_level_move_by_exactly_what_the_table_says(relation, m):
    leaves = 4
    families = np.array([[1, 1, 0, 0], [0, 0, 1, 1]])
    for level in (np.eye(leaves, dtype=int), families):
        bound = sensitivity("counts", relation, m)
        assert worst(counts_differences(level, relation, m)) == (bound.l1, bound.l2_squared)


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_total_moves_by_at_most_m(relation, m):
    bound = sensitivity("total", relation, m)
    assert worst(counts_differences(np.ones((1, 2), dtype=int), relation, m)) == (bound.l1, bound.l2_squared)


def test_tail_counts_hold_where_a_person_creates_a_group_and_cumulative_counts_do_not():
    # A group that appears with its first member moves one tail count but every cumulative count.
    members, largest = np.array([[2, 3, 0], [2, 3, 1]]), 5
    tails = SizesLevel("tail_counts", (0, 0, 0), "none", 1, largest).cells(members)
    assert np.abs(tails[1] - tails[0]).sum() == sensitivity("tail_counts", "add_remove").l1 == 1
    cumulative = np.cumsum(SizesLevel("histogram", (0, 0, 0), "none", 1, largest).cells(members), axis=1)
    assert np.abs(cumulative[1] - cumulative[0]).sum() == largest


def test_distinct_leaves_do_not_help_an_inner_level():
    # Boninsegna's smaller bound for distinct tuples is a leaf-level bound: two leaves of one parent move it by m.
    assert sensitivity("counts", "add_remove", 2).l2_squared == 4


# --- People counted once in a leaf ---


def distinct_differences(level, relation, m):
    """How the nodes of a level change where a person has at most m distinct leaves."""
    node = range(level.shape[1])
    return list(differences(lambda people: people @ level.T, relation, m, node=node, most=1, distinct=True))


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("relation", RELATIONS)
def test_distinct_counts_of_the_leaves_move_by_exactly_what_the_table_says(relation, m):
    bound = sensitivity("distinct_counts", relation, m)
    found = distinct_differences(np.eye(6, dtype=int), relation, m)
    assert worst(found) == (bound.l1, bound.l2_squared)
    (stated,) = bound.shifts
    assert stated in patterns(found)
    assert all(part_of(pattern, stated) for pattern in patterns(found))


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("relation", RELATIONS)
def test_above_the_leaves_distinct_leaves_have_the_sensitivity_of_counts_and_the_root_of_m_would_be_too_little(
    relation, m
):
    families = np.repeat(np.eye(2, dtype=int), 3, axis=1)  # two parents of three leaves each
    l1, l2_squared = worst(distinct_differences(families, relation, m))
    bound = sensitivity("counts", relation, m)
    assert (l1, l2_squared) == (bound.l1, bound.l2_squared)
    assert l2_squared == m * sensitivity("distinct_counts", relation, m).l2_squared
    total = worst(distinct_differences(np.ones((1, 6), dtype=int), relation, m))
    assert total == (sensitivity("total", relation, m).l1, sensitivity("total", relation, m).l2_squared)


@pytest.mark.parametrize("relation", RELATIONS)
def test_distinct_counts_of_records_that_are_not_distinct_would_be_too_little(relation):
    _, l2_squared = worst(counts_differences(np.eye(4, dtype=int), relation, 2))
    assert l2_squared > sensitivity("distinct_counts", relation, 2).l2_squared


def test_distinct_counts_by_hand():
    for m in (1, 2, 5):
        for relation, cells in (("add_remove", m), ("change_one", 2 * m)):
            bound = sensitivity("distinct_counts", relation, m)
            assert (bound.l1, bound.l2_squared, bound.shifts) == (cells, cells, ((1,) * cells,))
    assert sensitivity("distinct_counts", "change_one", 1) == sensitivity("counts", "change_one", 1)
    assert sensitivity("distinct_counts", "add_remove", MAX_SHIFTS + 1).shifts == ()


def test_the_table_by_hand():
    z, n = 2, 3
    table = {  # L1 / m, (L2 / m)²
        ("counts", "add_remove"): (1, 1),
        ("counts", "change_one"): (2, 2),
        ("histogram", "add_remove"): (2, 2),
        ("histogram", "change_one"): (4, 6),
        ("tail_counts", "add_remove"): (z, z),
        ("tail_counts", "change_one"): (2 * z, 2 * z),
        ("chain_tail_counts", "add_remove"): (z * n, z * n),
        ("chain_tail_counts", "change_one"): (2 * z * n, 2 * z * n),
        ("sorted_sizes", "add_remove"): (z, z * z),
        ("sorted_sizes", "change_one"): (2 * z, 2 * z * z),
        ("largest_size", "add_remove"): (z, z * z),
        ("largest_size", "change_one"): (z, z * z),
    }
    for (statistic, relation), (l1, l2_squared) in table.items():
        for m in (1, 3):
            bound = sensitivity(statistic, relation, m, max_quantity=z, nodes=n)
            assert (bound.l1, bound.l2_squared) == (l1 * m, l2_squared * m * m)


def test_aliases_and_unknown_names():
    assert neighboring_relation("bounded") == "change_one"
    assert neighboring_relation("unbounded") == "add_remove"
    with pytest.raises(ValueError, match="neighboring: 'both' is not known"):
        neighboring_relation("both")
    with pytest.raises(ValueError, match="statistic: 'mean' has no known sensitivity"):
        sensitivity("mean", "add_remove")
