"""LeafGaussian: noise on every leaf cell, sums above; its statement, and what is refused."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallytree as tt
from helpers.inside import KeyedNoise, Measurer, TrueCounts, plan_noise, sensitivity
from tallytree.counts import leaf_gaussian, released_counts
from tallytree.counts.released_counts import ReleasedCounts, count_negative, count_violations, sum_over_tree
from tallytree.evaluate.metrics import constraint_violations

LEAF_GAUSSIAN = tt.counts.LeafGaussian()
PEOPLE = pa.table({"state": ["A"] * 60 + ["B"] * 40, "county": ["x"] * 50 + ["y"] * 10 + ["x"] * 40})
QUIET = pytest.mark.filterwarnings("ignore:mechanism. LeafGaussian")


def towns(n):
    names = [str(i) for i in range(n)]
    return tt.Hierarchy.from_table(pa.table({"s": [str(i // 3) for i in range(n)], "t": names}), ["s", "t"])


def measurer(tree, leaves, counts, key, budget=None):
    bound = sensitivity("counts", "add_remove")
    plan = plan_noise(budget or tt.Budget(epsilon=1), {tree.levels[-1]: ("counts", bound)})
    return Measurer(TrueCounts(tree, leaves, counts), plan, KeyedNoise(key))


def listed(levels):
    return [(level.nodes.tolist(), level.counts.tolist()) for level in levels]


@st.composite
def trees(draw):
    areas = towns(draw(st.integers(1, 7)))
    if draw(st.booleans()):
        return areas
    return tt.Product({"o": areas, "d": areas}, order=draw(st.permutations(["o", "d"] * 2)))


@settings(max_examples=60)
@given(trees(), st.integers(1, 5), st.binary(min_size=32, max_size=32))
def test_every_leaf_cell_is_measured_and_every_node_is_the_sum_of_its_leaves(tree, at_once, key):
    depths = range(len(tree.levels))
    size = tree.size(depths[-1])
    leaves = np.arange(0, size, 3)
    every = np.arange(size)
    noisy = measurer(tree, leaves, leaves + 1, key).measure(tree.levels[-1], every, "counts").values
    ancestors = [every]
    for depth in reversed(depths[1:]):
        ancestors.append(tree.parents(depth, ancestors[-1]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaf_gaussian, "CELLS_AT_ONCE", at_once)
        patch.setattr(released_counts, "NODES_AT_ONCE", at_once)
        released = LEAF_GAUSSIAN.reconcile(tree, None, measurer(tree, leaves, leaves + 1, key))
    for depth, above, level in zip(depths, reversed(ancestors), released, strict=True):
        expected = np.bincount(above, weights=noisy, minlength=tree.size(depth)).astype(np.int64)
        if not tree.enumerated:
            assert level.nodes.tolist() == np.flatnonzero(expected).tolist()
        assert level.counts.tolist() == expected[level.nodes].tolist()
    assert count_violations(tree, released) == 0


def test_sums_of_few_cells_of_a_huge_tree_do_not_hold_its_levels():
    areas = towns(3_000)
    tree = tt.Product({"o": areas, "d": areas}, order=["o", "d"] * 2)
    leaves = ReleasedCounts(np.array([3, 4, 8_999_999]), np.array([4, -4, 3]))
    root, *_, above, same = sum_over_tree(tree, leaves)
    assert (root.counts.tolist(), above.counts.tolist(), same.counts.tolist()) == ([3], [3], [4, -4, 3])


@settings(max_examples=60)
@given(trees(), st.data(), st.integers(1, 5))
def test_few_cells_are_summed_as_many_are(tree, data, at_once):
    size = tree.size(len(tree.levels) - 1)
    nodes = np.array(sorted(data.draw(st.sets(st.integers(0, size - 1), max_size=4))), dtype=np.int64)
    leaves = ReleasedCounts(nodes, np.arange(-1, len(nodes) - 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(released_counts, "NODES_AT_ONCE", at_once)
        few = sum_over_tree(tree, leaves)
    assert listed(few) == listed(sum_over_tree(tree, leaves))


def test_numbers_that_are_negative_or_do_not_add_up_are_counted():
    tree = towns(4)
    root, states = ReleasedCounts(np.array([0]), np.array([3])), ReleasedCounts(np.array([0, 1]), np.array([4, -1]))
    right = ReleasedCounts(np.array([0, 1, 3]), np.array([5, -1, -1]))
    assert count_violations(tree, [root, states, right]) == 0
    assert count_negative([root, states, right]) == 3
    wrong = ReleasedCounts(np.array([0, 1]), np.array([5, 1]))
    assert count_violations(tree, [root, states, wrong]) == 2  # both states
    assert count_violations(tree, [ReleasedCounts(np.array([0]), np.array([4])), states, right]) == 1


@pytest.mark.slow
@QUIET
@pytest.mark.parametrize(
    ("budget", "law"),
    [
        (tt.Budget(epsilon=1), "discrete_laplace"),
        (tt.Budget(epsilon=1, delta=1e-6), "discrete_gaussian"),
        (tt.Budget(rho=0.1), "discrete_gaussian"),
    ],
    ids=["pure", "approximate", "zcdp"],
)
def test_the_leaves_get_all_of_the_budget_and_the_root_is_not_the_public_total(areas, budget, law):
    release = tt.release_counts(PEOPLE, areas, budget, neighboring="change_one", mechanism=LEAF_GAUSSIAN)
    statement = release.statement
    assert [level["measured"] for level in statement["levels"]] == [False, False, True]
    assert statement["levels"][2]["noise"]["distribution"] == law
    assert statement["levels"][2]["share"] == 1
    assert statement["invariants"] == ["the hierarchy"]
    assert any("neither used nor published exactly" in note for note in statement["notes"])
    sums = [release.to_pandas(level)["count"].sum() for level in release.levels]
    assert len(set(sums)) == 1
    assert release.measurements("county").num_rows == 4
    repeated = [
        tt.release_counts(PEOPLE, areas, budget, neighboring="change_one", mechanism=LEAF_GAUSSIAN, seed=seed)
        for seed in range(8)
    ]
    assert {each.table("all")["count"].to_pylist()[0] for each in repeated} != {100}


def test_topdown_still_publishes_the_total(areas):
    release = tt.release_counts(PEOPLE, areas, tt.Budget(epsilon=1), neighboring="change_one")
    assert release.statement["invariants"] == ["the hierarchy", "the total number of records"]
    assert not any("neither used" in note for note in release.statement["notes"])
    assert (release.statement["negative_numbers"], release.statement["constraint_violations"]) == (0, 0)


def test_it_warns_and_says_how_many_numbers_are_negative(areas):
    with pytest.warns(UserWarning, match=r"LeafGaussian\(\) releases negative counts.*For comparison only\."):
        release = tt.release_counts(
            PEOPLE, areas, tt.Budget(epsilon=0.01), neighboring="add_remove", mechanism=LEAF_GAUSSIAN, seed=1
        )
    tables = [release.to_pandas(level) for level in release.levels]
    negative = sum(int((table["count"] < 0).sum()) for table in tables)
    assert release.statement["negative_numbers"] == negative > 0
    assert release.statement["constraint_violations"] == 0
    pairs = itertools.pairwise(release.levels)
    assert sum(constraint_violations(release.table(above), release.table(below)) for above, below in pairs) == 0
    assert release.statement["notes"][0].startswith("LeafGaussian() releases negative counts")


def test_a_tree_of_one_level_is_measured_at_its_root():
    tree = tt.Hierarchy.from_table(pa.table({"nation": ["N"]}), ["nation"])
    assert LEAF_GAUSSIAN.statistics(tree, total_is_public=True) == {"nation": "total"}


def test_more_leaf_cells_than_fit_in_memory_are_refused_in_planning(nothing_is_read):
    areas = towns(11_600)  # 11,600² > 2^27 = 134,217,728
    with pytest.raises(ValueError, match=r"134,560,000 of 'd_t', .*at most 134,217,728; leave out"):
        tt.release_flows(
            nothing_is_read,
            origins=areas,
            destinations=areas,
            origin=["o_s", "o_t"],
            destination=["d_s", "d_t"],
            tree="origin",
            budget=tt.Budget(epsilon=1),
            neighboring="add_remove",
            mechanism=LEAF_GAUSSIAN,
        )


@pytest.fixture
def nothing_is_read():
    class Table:
        def __getattribute__(self, name):
            raise AssertionError("the records were read")

    return object.__new__(Table)
