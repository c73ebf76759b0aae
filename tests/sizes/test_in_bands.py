"""Group sizes band by band: what is released and recorded is the same for every cut of the tree."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallytree as tt
from helpers.inside import ForcedCut, KeyedNoise, Measurer, TrueSizes, chosen_cut, machine, plan_noise, sensitivity
from tallytree.sizes import BottomUp, Joint, Matching, SizesDomain, level_estimates, noisy
from tallytree.sizes.mechanism import MeasurerOfAll, Measurers, SizesInBands, joined_sizes, sum_over_tree

IN_BANDS = [
    Matching(),
    Matching("naive", merge="average", carry="rounded"),
    Matching("sorted", norm=2),
    BottomUp(),
    Joint(),
    Joint(0.5),
]


def tree_of(shape):
    """A tree whose parts have shape[i] counties in one region each; a county has 1, 2 or 3 towns in turn."""
    rows = [
        (str(region), f"{region}-{county}", f"{region}-{county}-{town}")
        for region, counties in enumerate(shape)
        for county in range(counties)
        for town in range(1 + (region + county) % 3)
    ]
    columns = dict(zip(("region", "county", "town"), zip(*rows, strict=True), strict=True))
    return tt.Hierarchy.from_table(pa.table(columns), list(columns))


class InBands(Measurers):
    """Measurers that know of a band only, and record what is measured the first time."""

    def __init__(self, cut, measurer, keep):
        self.cut, self._measurer, self._keep = cut, measurer, keep
        self.seen = set()

    def top(self):
        return Only(self, None, again=False)

    def band(self, number, *, again=False):
        return Only(self, number, again=again)

    def measure(self, only, level, nodes, statistic, cells):
        depth = self.cut.tree.levels.index(level)
        if only.number is None:
            assert depth <= self.cut.depth
        else:
            first, stop = self.cut.bands[only.number].span(depth)
            assert depth > self.cut.depth
            assert ((first <= nodes) & (nodes < stop)).all(), "a node of another band"
        measured = {(level, int(node), cells) for node in nodes}
        assert only.again == bool(measured & self.seen), "recorded twice, or not at all"
        self.seen |= measured
        found = self._measurer.measure(level, nodes, statistic, cells)
        if not only.again:
            self._keep.append(found)
        return found


class Only:
    def __init__(self, bands, number, *, again):
        self.bands, self.number, self.again = bands, number, again

    def measure(self, level, nodes, statistic, cells=None):
        return self.bands.measure(self, level, nodes, statistic, cells)


class Case:
    """Some group sizes and their noisy measurements."""

    def __init__(self, tree, mechanism, invariants, *, largest=12, seed=0):
        random = np.random.default_rng(seed)
        n, smallest = 60, 0 if invariants == "groups" else 1
        leaves = random.integers(0, tree.n_leaves, n)
        sizes = np.clip(random.geometric(0.3, n), smallest, largest)
        per_leaf = np.bincount(leaves, minlength=tree.n_leaves)
        self.tree, self.mechanism = tree, mechanism
        self.domain = SizesDomain.from_leaves(tree, per_leaf, smallest, largest, invariants)
        self.true = TrueSizes(tree, leaves, sizes, np.ones(n, np.int64), self.domain.groups, smallest, largest)
        bounds = {
            level: (s, sensitivity(s, "add_remove", nodes=tree.size(tree.levels.index(level))))
            for level, s in mechanism.statistics(tree, invariants=invariants).items()
        }
        self.plan = plan_noise(tt.Budget(epsilon=2), bounds, None)

    def measurer(self):
        return Measurer(self.true, self.plan, KeyedNoise(bytes(32)))

    def whole(self):
        """The released levels of one band in memory, and what was measured."""
        measurer = self.measurer()
        return self.mechanism.reconcile(self.domain, measurer), measurer.taken

    def cut(self, depth, bands):
        """The same in bands."""
        cut = chosen_cut(self.tree, lambda depth, nodes: nodes, 0, ForcedCut(depth, bands))
        measured = []
        parts = [[] for _ in self.tree.levels]
        measurers = InBands(cut, self.measurer(), measured)
        for depth_, part in self.mechanism.released(self.domain, cut, measurers):
            parts[depth_].append(part)
        return [joined_sizes(level) for level in parts], measured


def by_level(measurements):
    """The nodes and values of each level, whatever the pieces."""
    found = {}
    for each in measurements:
        nodes, values = found.setdefault(each.level, ([], []))
        nodes.extend(each.nodes.tolist())
        values.extend(each.values.tolist())
    return found


def assert_same(one, other):
    (levels, measured), (other_levels, other_measured) = one, other
    for level, expected in zip(levels, other_levels, strict=True):
        for name in ("nodes", "sizes", "groups", "std_dev"):
            assert np.array_equal(getattr(level, name), getattr(expected, name))
    assert by_level(measured) == by_level(other_measured)


def possible(mechanism, invariants):
    return invariants == "groups" or mechanism != Matching("sorted", norm=2)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", IN_BANDS, ids=repr)
@settings(max_examples=12)
@given(
    shape=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    invariants=st.sampled_from(["groups", "total", "none"]),
    depth=st.integers(0, 3),
    bands=st.integers(1, 5),
    seed=st.integers(0, 9),
)
def test_every_cut_releases_and_records_the_same(mechanism, shape, invariants, depth, bands, seed):
    if possible(mechanism, invariants):
        tree = tree_of(shape)
        case = Case(tree, mechanism, invariants, seed=seed)
        assert_same(case.cut(min(depth, len(tree.levels) - 2), bands), case.whole())


@pytest.mark.parametrize("mechanism", [Matching(), Joint()], ids=repr)
@pytest.mark.parametrize("invariants", ["groups", "none"])
def test_neither_threads_nor_chunks_change_a_band(monkeypatch, mechanism, invariants):
    case = Case(tree_of([3, 2, 3]), mechanism, invariants)
    expected = case.whole()
    for workers, cells in [(1, 4_000_000), (2, 30), (1, 13)]:
        monkeypatch.setattr(machine, "available_threads", lambda workers=workers: workers)
        for module in (noisy, level_estimates):
            monkeypatch.setattr(module, "CELLS_AT_ONCE", cells)
        assert_same(case.cut(1, 3), expected)


@pytest.mark.parametrize("mechanism", [Matching(), BottomUp(), Joint()], ids=repr)
def test_levels_that_repeat_the_one_above_may_be_cut(mechanism):
    rows = {"a": ["x", "y", "y"], "b": ["p", "q", "q"], "c": ["1", "2", "3"], "d": ["1", "2", "3"]}
    tree = tt.Hierarchy.from_table(pa.table(rows), list(rows))
    case = Case(tree, mechanism, "groups")
    for depth in range(len(tree.levels) - 1):
        assert_same(case.cut(depth, 2), case.whole())


@pytest.mark.parametrize("invariants", ["groups", "none"])
def test_joint_with_one_size_in_bands(invariants):
    case = Case(tree_of([2, 2]), Joint(), invariants, largest=0 if invariants == "groups" else 1)
    assert_same(case.cut(1, 2), case.whole())


def test_the_parts_of_a_level_are_ascending():
    case = Case(tree_of([3, 2, 3]), Matching(), "groups")
    for level in case.cut(2, 4)[0]:
        keys = list(zip(level.nodes.tolist(), level.sizes.tolist(), strict=True))
        assert all(before < after for before, after in pairwise(keys))


def test_the_levels_of_joint_are_the_sums_of_its_leaves():
    """It computes each level by itself; the other mechanisms add up."""
    for invariants in ("groups", "total", "none"):
        case = Case(tree_of([3, 2, 3]), Joint(), invariants)
        levels = case.whole()[0]
        sums = sum_over_tree(case.tree, levels[-1], case.domain.largest)
        for level, expected in zip(levels, sums, strict=True):
            for name in ("nodes", "sizes", "groups"):
                assert np.array_equal(getattr(level, name), getattr(expected, name))
            assert level.std_dev.shape == level.sizes.shape


def test_what_is_recorded_in_memory_is_measured_once():
    with pytest.raises(ValueError, match="again"):
        MeasurerOfAll(Case(tree_of([1, 2]), Matching(), "groups").measurer()).band(0, again=True)


def test_mechanisms_in_bands_are_the_ones_that_docs_list():
    bases = {name for name in tt.sizes.__all__ if isinstance(getattr(tt.sizes, name), type)}
    found = {name for name in bases if issubclass(getattr(tt.sizes, name), SizesInBands)}
    assert found == {"Matching", "BottomUp", "Joint"}
