"""TopDown against a literal, node by node version of the paper's Algorithm 1, and its invariants at full size."""

import importlib.util
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallytree as tt
from tallytree.counts import top_down
from tallytree.measure import Measurer
from tallytree.privacy.accounting import plan_noise
from tallytree.privacy.sensitivity import sensitivity
from tallytree.privacy.sources import KeyedNoise
from tallytree.solvers import simplex
from tallytree.tabulate.levels import CountLevels


@dataclass
class Recorded:
    """Measures through a Measurer and remembers which nodes were asked for."""

    inner: Measurer
    asked: dict = field(default_factory=dict)

    def measure(self, level, nodes, statistic):
        self.asked.setdefault(level, []).extend(nodes.tolist())
        return self.inner.measure(level, nodes, statistic)


def measurer(tree, leaves, counts, key, mechanism, public, epsilon=1):
    bounds = {
        level: (statistic, sensitivity(statistic, "add_remove"))
        for level, statistic in mechanism.statistics(tree, total_is_public=public).items()
    }
    plan = plan_noise(tt.Budget(epsilon=epsilon), bounds)
    return Recorded(Measurer(CountLevels(tree, leaves, counts), plan, KeyedNoise(key)))


def one_by_one(tree, total, door, projection):
    """Algorithm 1 of Boninsegna and Silvestri 2025, literally: a dictionary of positive nodes per level."""
    project = {"chebyshev": simplex.chebyshev, "euclidean": simplex.euclidean}[projection]
    root = np.zeros(1, dtype=np.int64)
    if total is None:
        total = max(0, int(door.measure(tree.levels[0], root, "total").values[0]))
    levels = [{0: total} if total else {}]
    for depth in range(1, len(tree.levels)):
        here = {}
        for parent, constraint in levels[-1].items():
            children, _ = tree.children(depth - 1, np.array([parent]))
            if tree.only_children(depth):
                noisy = np.array([constraint])
            else:
                noisy = door.measure(tree.levels[depth], children, "counts").values
            released = zip(children.tolist(), project(noisy, constraint).tolist(), strict=True)
            here |= {child: count for child, count in released if count}
        levels.append(here)
    return levels


@st.composite
def flows(draw):
    tops = draw(st.integers(1, 3))
    counties = draw(st.lists(st.integers(0, tops - 1), min_size=1, max_size=6))
    table = pa.table(
        {"s": [str(s) for s in counties], "c": [str(i) for i in range(len(counties))], "only": ["o"] * len(counties)}
    )
    areas = tt.Hierarchy.from_table(table, ["s", "c", "only"])
    order = draw(st.permutations(["o"] * 3 + ["d"] * 3))
    product = tt.Product({"o": areas, "d": areas}, order=order)
    leaves = draw(st.lists(st.integers(0, product.size(6) - 1), unique=True, max_size=10))
    counts = draw(st.lists(st.integers(1, 100), min_size=len(leaves), max_size=len(leaves)))
    return product, np.array(sorted(leaves), dtype=np.int64), np.array(counts, dtype=np.int64)


@settings(deadline=None, max_examples=80)
@given(flows(), st.sampled_from(["chebyshev", "euclidean"]), st.booleans(), st.binary(min_size=32, max_size=32))
def test_all_families_at_once_is_the_papers_algorithm_family_by_family(data, projection, public, key):
    tree, leaves, counts = data
    mechanism = tt.counts.TopDown(projection=projection)
    total = int(counts.sum()) if public else None
    arguments = (tree, leaves, counts, key, mechanism, public)
    released = mechanism.release_counts(tree, total, measurer(*arguments))
    expected = one_by_one(tree, total, measurer(*arguments), projection)
    assert [dict(zip(level.nodes.tolist(), level.counts.tolist(), strict=True)) for level in released] == expected


@settings(deadline=None, max_examples=30)
@given(flows(), st.integers(1, 3), st.binary(min_size=32, max_size=32))
def test_the_release_does_not_depend_on_how_families_are_chunked(data, at_once, key):
    tree, leaves, counts = data
    mechanism = tt.counts.TopDown()
    whole = mechanism.release_counts(tree, None, measurer(tree, leaves, counts, key, mechanism, public=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(top_down, "CELLS_AT_ONCE", at_once)
        parts = mechanism.release_counts(tree, None, measurer(tree, leaves, counts, key, mechanism, public=False))
    for a, b in zip(whole, parts, strict=True):
        assert (a.nodes.tolist(), a.counts.tolist()) == (b.nodes.tolist(), b.counts.tolist())


@pytest.mark.parametrize("projection", ["chebyshev", "euclidean"])
def test_below_a_zero_nothing_is_measured_and_children_add_up(projection):
    random = np.random.default_rng(1)
    n = 20_000
    table = pa.table(
        {
            "a": [str(i // 2_000) for i in range(n)],
            "b": [str(i // 20) for i in range(n)],
            "c": [str(i) for i in range(n)],
        }
    )
    tree = tt.Hierarchy.from_table(table, ["a", "b", "c"])
    leaves = np.sort(random.choice(n, 300, replace=False)).astype(np.int64)
    mechanism = tt.counts.TopDown(projection=projection)
    door = measurer(tree, leaves, random.integers(1, 50, 300), bytes(32), mechanism, public=False, epsilon=0.5)
    released = mechanism.release_counts(tree, None, door)
    for depth in range(1, 4):
        above, here = released[depth - 1].counts, released[depth].counts
        assert len(here) == tree.size(depth)
        assert (here >= 0).all()
        assert np.array_equal(np.add.reduceat(here, tree.first_child[depth - 1][:-1]), above)
        asked = tree.parents(depth, np.array(door.asked[tree.levels[depth]]))
        assert (above[asked] > 0).all()
        assert set(asked.tolist()) == set(np.flatnonzero(above).tolist())
    assert (released[2].counts == 0).any()


def test_levels_that_repeat_the_one_above_cost_nothing():
    table = pa.table({"country": ["N"] * 2, "c": ["x", "y"], "only": ["o", "o"]})
    tree = tt.Hierarchy.from_table(table, ["country", "c", "only"])
    mechanism = tt.counts.TopDown()
    assert mechanism.statistics(tree, total_is_public=True) == {"c": "counts"}
    assert mechanism.statistics(tree, total_is_public=False) == {"country": "total", "c": "counts"}


def test_a_measured_root_is_never_negative():
    tree = tt.Hierarchy.from_table(pa.table({"c": ["x", "y"]}), ["c"])
    mechanism = tt.counts.TopDown()
    nothing = np.empty(0, dtype=np.int64)
    totals = []
    for i in range(50):
        door = measurer(tree, nothing, nothing, bytes([i] * 32), mechanism, public=False, epsilon=0.1)
        totals.append(int(mechanism.release_counts(tree, None, door)[0].counts[0]))
    assert min(totals) == 0 < max(totals)


def test_an_unknown_projection_is_refused():
    with pytest.raises(ValueError, match='projection: \'manhattan\' is not known; choose "chebyshev" or "euclidean"'):
        tt.counts.TopDown(projection="manhattan")


@pytest.mark.parametrize(("black_box", "own"), [("cvxpy-linf", "chebyshev"), ("cvxpy-l2", "euclidean")])
def test_at_every_family_a_black_box_is_as_near_to_the_measurements_as_our_own(black_box, own):
    pytest.importorskip("cvxpy", reason="the extra tallytree[papers] is not installed")
    random = np.random.default_rng(7)
    table = pa.table({"a": [str(i // 6) for i in range(30)], "b": [str(i) for i in range(30)]})
    tree = tt.Hierarchy.from_table(table, ["a", "b"])
    leaves = np.sort(random.choice(30, 20, replace=False)).astype(np.int64)
    mechanism = tt.counts.TopDown(projection=black_box)
    arguments = (tree, leaves, random.integers(1, 50, 20), bytes(32), mechanism, False)
    released = mechanism.release_counts(tree, None, measurer(*arguments))
    door = measurer(*arguments)
    distance = {"chebyshev": lambda d: np.abs(d).max(), "euclidean": lambda d: (d**2).sum()}[own]
    families = 0
    for depth in range(1, 3):
        for parent in np.flatnonzero(released[depth - 1].counts):
            children, _ = tree.children(depth - 1, np.array([parent]))
            noisy = door.measure(tree.levels[depth], children, "counts").values
            total = int(released[depth - 1].counts[parent])
            best = getattr(simplex, own)(noisy, total)
            assert released[depth].counts[children].sum() == total
            assert distance(released[depth].counts[children] - noisy) == distance(best - noisy)
            families += 1
    assert families > 4


@pytest.mark.parametrize(
    ("projection", "package"), [("cvxpy-linf", "cvxpy"), ("cvxpy-linf", "highspy"), ("cvxpy-l2", "clarabel")]
)
def test_a_missing_extra_is_named_before_anything_is_spent(monkeypatch, projection, package):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))
    says = rf"projection: '{projection}' needs {package}, which is not installed: pip install \"tallytree\[papers\]\""
    with pytest.raises(ModuleNotFoundError, match=says):
        tt.counts.TopDown(projection=projection)
