"""What every mechanism for group sizes promises, whichever numbers of groups are public."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallytree as tt
from tallytree.sizes import (
    BottomUp,
    CensusTopDown,
    Chain,
    CumulativeProjection,
    HistogramProjection,
    Joint,
    Matching,
    MeanConsistency,
    SizesDomain,
)
from tallytree.sizes.mechanism import ReleasedSizes, count_violations

CONSISTENT = [
    Matching(),
    Matching("naive"),
    HistogramProjection(),
    CumulativeProjection(),
    Chain(),
    CensusTopDown(),
    Joint(),
    BottomUp(),
    BottomUp("naive"),
    MeanConsistency(),
]
REGIMES = ["groups", "total", "none"]


def assert_consistent(tree, released):
    for depth in range(1, len(tree.levels)):
        summed = np.add.reduceat(released.tables[depth], tree.first_child[depth - 1][:-1])
        assert np.array_equal(summed, released.tables[depth - 1])


def assert_public_numbers_are_kept(released):
    for table, groups in zip(released.tables, released.domain.groups, strict=True):
        if groups is not None:
            assert np.array_equal(table.sum(axis=1), groups)


@pytest.mark.parametrize("invariants", REGIMES)
@pytest.mark.parametrize("mechanism", CONSISTENT, ids=repr)
def test_children_add_up_and_what_is_public_is_kept(towns, release_sizes, mechanism, invariants):
    for epsilon in (0.1, 3):
        released = release_sizes(towns, mechanism, invariants=invariants, epsilon=epsilon)
        assert_consistent(towns, released)
        assert_public_numbers_are_kept(released)
        assert released.tables[0][:, : released.domain.smallest].sum() == 0


@pytest.mark.parametrize("invariants", REGIMES)
@pytest.mark.parametrize("mechanism", CONSISTENT, ids=repr)
def test_with_next_to_no_noise_the_truth_comes_back(towns, release_sizes, mechanism, invariants):
    released = release_sizes(towns, mechanism, invariants=invariants, epsilon=50_000)
    for found, true in zip(released.tables, released.true, strict=True):
        assert np.array_equal(found, true)


@pytest.mark.parametrize("invariants", REGIMES)
@pytest.mark.parametrize("mechanism", CONSISTENT, ids=repr)
def test_levels_without_siblings_are_not_measured_and_repeat_the_one_above(release_sizes, mechanism, invariants):
    table = pa.table({"country": ["N"] * 3, "a": ["x", "y", "z"], "b": ["p", "q", "r"]})
    tree = tt.Hierarchy.from_table(table, ["country", "a", "b"])
    measured = {"a"} if isinstance(mechanism, BottomUp) else {"country", "a"}
    assert set(mechanism.statistics(tree, invariants=invariants)) == measured
    released = release_sizes(tree, mechanism, invariants=invariants)
    assert_consistent(tree, released)
    assert np.array_equal(released.tables[1], released.tables[2])


@pytest.mark.parametrize("invariants", REGIMES)
@pytest.mark.parametrize("mechanism", CONSISTENT, ids=repr)
def test_awkward_trees_and_sizes(release_sizes, mechanism, invariants):
    for leaves, largest in ((["only"], 3), (["a", "b"], 2), ([str(i) for i in range(7)], 2)):
        tree = tt.Hierarchy.from_table(pa.table({"leaf": leaves}), ["leaf"])
        released = release_sizes(tree, mechanism, invariants=invariants, largest=largest, epsilon=0.5)
        assert_consistent(tree, released)
        assert_public_numbers_are_kept(released)


@pytest.mark.parametrize("mechanism", [m for m in CONSISTENT if "naive" not in repr(m)], ids=repr)
def test_a_least_size_above_one_holds_where_numbers_are_private(towns, release_sizes, mechanism):
    released = release_sizes(towns, mechanism, invariants="none", smallest=3, epsilon=50_000)
    assert np.array_equal(released.tables[2], released.true[2])


@pytest.mark.parametrize("mechanism", CONSISTENT, ids=repr)
def test_one_size_only_is_a_count_of_groups(towns, release_sizes, mechanism):
    """K = 1 with private numbers of groups: tail counts have one cell."""
    released = release_sizes(towns, mechanism, invariants="none", largest=1, smallest=1, epsilon=2)
    assert_consistent(towns, released)
    assert abs(released.tables[0].sum() - 3_000) < 200


@pytest.mark.parametrize("mechanism", [m for m in CONSISTENT if not isinstance(m, BottomUp)], ids=repr)
def test_uneven_splits_weigh_levels_by_their_noise(towns, release_sizes, mechanism):
    """Nearly all of the budget at the root: its table is nearly exact, which equal weights would spoil.

    Sums over levels are re-estimated by `CensusTopDown` and matched by `Matching`, so only the others are held to it;
    `BottomUp` measures one level only.
    """
    split = {"all": 0.98, "state": 0.01, "county": 0.01}
    released = release_sizes(towns, mechanism, invariants="total", epsilon=20, split=split)
    assert_consistent(towns, released)
    error = np.abs(released.tables[0] - released.true[0]).sum()
    if isinstance(mechanism, HistogramProjection | CumulativeProjection | MeanConsistency):
        assert error < 60


def test_sorted_sizes_need_public_numbers_of_groups(towns):
    with pytest.raises(ValueError, match=r"estimator: 'sorted' at 'all' needs .*number of groups"):
        Matching("sorted").statistics(towns, invariants="total")
    assert Matching("sorted").statistics(towns, invariants="groups")["all"] == "sorted_sizes"


def test_a_domain_of_private_numbers_has_no_empty_groups_and_keeps_no_numbers(towns):
    groups = np.full(towns.n_leaves, 5)
    with pytest.raises(ValueError, match=r"smallest: 0 must be at least 1 .*private"):
        SizesDomain.from_leaves(towns, groups, 0, 9, "none")
    none = SizesDomain.from_leaves(towns, groups, 1, 9, "none")
    assert none.groups == (None, None, None)
    assert none.total is None
    total = SizesDomain.from_leaves(towns, groups, 1, 9, "total")
    assert total.total == 200
    assert total.groups[1:] == (None, None)
    assert not total.groups_are_public
    public = SizesDomain.from_leaves(towns, groups, 0, 9)
    assert public.groups_are_public
    assert public.width == 10


def test_violations_are_counted_by_node_and_size(towns):
    def level(nodes, sizes, groups):
        return ReleasedSizes(*(np.array(column) for column in (nodes, sizes, groups)))

    good = [level([0], [2], [3]), level([0, 1], [2, 2], [1, 2]), level([0, 1, 2], [2, 2, 2], [1, 1, 1])]
    assert count_violations(towns, good, 50) == 0
    # The root has one group of size 2 too many and misses two of size 3; state 1 has a size that its counties do not.
    bad = [level([0], [2], [4]), level([0, 1], [2, 3], [3, 2]), level([0], [2], [3])]
    assert count_violations(towns, bad, 50) == 3


def test_the_chain_keeps_its_good_root_where_every_number_of_groups_is_public(towns, release_sizes):
    """Fitted to the public numbers leaf by leaf, the noise of the leaves (40 times the root's) would spoil the root."""
    errors = {}
    for invariants in ("total", "groups"):
        released = release_sizes(towns, Chain(), invariants=invariants, epsilon=3)
        errors[invariants] = np.abs(released.tables[0] - released.true[0]).sum()
    assert errors["groups"] < 5 * errors["total"]


def test_the_published_calibration_of_the_chain_loses_as_many_times_more_as_there_are_nodes(towns):
    assert Chain().understatement(towns) == {}
    assert Chain("as_published").understatement(towns) == {"all": 1, "state": 4, "county": 40}
    with pytest.raises(ValueError, match="calibration: 'mine' is not known"):
        Chain("mine")


def distance_to_measurements(released):
    """The squared distance of all tables from the histograms that were measured, which every solver minimises."""
    first = released.domain.smallest
    return sum(
        int(((table[:, first:] - measured.values.reshape(len(table), -1)) ** 2).sum())
        for table, measured in zip(released.tables, released.measured, strict=True)
    )


@pytest.mark.slow
@pytest.mark.parametrize("invariants", ["total", "none"])
@pytest.mark.parametrize("solver", ["cost_table", "constraint_program", "mip"])
def test_the_papers_ways_lead_to_the_same_distance(release_sizes, solver, invariants):
    """Same key, same noise: the histograms may differ where several are nearest, their distance may not."""
    for package in ("ortools", "pyscipopt"):
        pytest.importorskip(package, reason="the extra tallytree[papers] is not installed")
    tree = tt.Hierarchy.from_table(pa.table({"s": ["A", "A", "B"], "c": ["x", "y", "z"]}), ["s", "c"])
    options = {"constraint_program": {"delta": 14}, "cost_table": {"delta": 14}}.get(solver, {})
    ways = (HistogramProjection(), HistogramProjection(solver=solver, **options))
    found = [release_sizes(tree, way, invariants=invariants, largest=3, groups=25) for way in ways]
    assert_public_numbers_are_kept(found[1])
    assert_consistent(tree, found[1])
    assert distance_to_measurements(found[0]) == distance_to_measurements(found[1])


@given(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), max_size=5))
def test_tail_counts_of_rows_are_the_groups_of_that_size_or_more(table):
    counts = np.array(table, dtype=np.int64).reshape(len(table), 4)
    nodes, sizes = np.nonzero(counts)
    released = ReleasedSizes(nodes, sizes, counts[nodes, sizes])
    expected = [int(counts[node, size:].sum()) for node, size in zip(nodes, sizes, strict=True)]
    assert released.tail_counts().tolist() == expected
