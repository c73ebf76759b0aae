"""TopDown against a literal, node by node version of the paper's Algorithm 1, and its invariants at full size."""

import importlib.util

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallytree as tt
from tallytree.counts import top_down
from tallytree.solvers.papers.third_party import PROJECTION_PACKAGES
from tallytree.solvers.trees import simplex
from tallytree.solvers.trees.families import survivors


def one_by_one(tree, total, measures, projection):
    """Algorithm 1 of Boninsegna and Silvestri 2025, literally: a dictionary of positive nodes per level."""
    project = {"chebyshev": simplex.chebyshev, "euclidean": simplex.euclidean}[projection]
    root = np.zeros(1, dtype=np.int64)
    if total is None:
        total = max(0, int(measures.measure(tree.levels[0], root, "total").values[0]))
    levels = [{0: total} if total else {}]
    for depth in range(1, len(tree.levels)):
        here = {}
        for parent, constraint in levels[-1].items():
            children, _ = tree.children(depth - 1, np.array([parent]))
            if tree.only_children(depth):
                noisy = np.array([constraint])
            else:
                noisy = measures.measure(tree.levels[depth], children, "counts").values
            released = zip(children.tolist(), project(noisy, constraint).tolist(), strict=True)
            here |= {child: count for child, count in released if count}
        levels.append(here)
    return levels


@settings(max_examples=80)
@given(st.data(), st.sampled_from(["chebyshev", "euclidean"]), st.booleans(), st.binary(min_size=32, max_size=32))
def test_all_families_at_once_is_the_papers_algorithm_family_by_family(
    small_flows, measurer, data, projection, public, key
):
    tree, leaves, counts = data.draw(small_flows)
    mechanism = tt.counts.TopDown(projection=projection)
    total = int(counts.sum()) if public else None
    arguments = (tree, leaves, counts, key, mechanism, public)
    released = mechanism.reconcile(tree, total, measurer(*arguments))
    expected = one_by_one(tree, total, measurer(*arguments), projection)
    assert [dict(zip(level.nodes.tolist(), level.counts.tolist(), strict=True)) for level in released] == expected


@settings(max_examples=30)
@given(st.data(), st.integers(1, 3), st.binary(min_size=32, max_size=32))
@pytest.mark.parametrize(
    "mechanism", [tt.counts.TopDown(), tt.counts.LeastSquares(), tt.counts.LeastSquares(sparsity=2)]
)
def test_the_release_does_not_depend_on_how_families_are_chunked(
    small_flows, measurer, mechanism, data, cells_at_once, key
):
    tree, leaves, counts = data.draw(small_flows)
    at_once = mechanism.reconcile(tree, None, measurer(tree, leaves, counts, key, mechanism, public=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(top_down, "CELLS_AT_ONCE", cells_at_once)
        parts = mechanism.reconcile(tree, None, measurer(tree, leaves, counts, key, mechanism, public=False))
    for a, b in zip(at_once, parts, strict=True):
        assert (a.nodes.tolist(), a.counts.tolist()) == (b.nodes.tolist(), b.counts.tolist())


@pytest.mark.parametrize(
    "mechanism",
    [
        tt.counts.TopDown(),
        tt.counts.TopDown(projection="euclidean"),
        tt.counts.TopDown(sparsity=2),
        tt.counts.LeastSquares(),
        tt.counts.LeastSquares(sparsity=2),
        tt.counts.LeastSquares(sparsity=2, largest_fit=0),
        tt.counts.LeastSquares(sparsity="auto"),
        tt.counts.LeastSquares(sparsity="auto", largest_fit=0),
    ],
    ids=repr,
)
def test_below_a_zero_nothing_is_measured_and_children_add_up(measurer, mechanism):
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
    measures = measurer(tree, leaves, random.integers(1, 50, 300), bytes(32), mechanism, public=False, epsilon=0.5)
    released = mechanism.reconcile(tree, None, measures)
    for depth in range(1, 4):
        above, here = released[depth - 1].counts, released[depth].counts
        assert len(here) == tree.size(depth)
        assert (here >= 0).all()
        assert np.array_equal(np.add.reduceat(here, tree.first_child[depth - 1][:-1]), above)
        asked = tree.parents(depth, np.array(measures.asked[tree.levels[depth]]))
        assert set(asked.tolist()) >= set(np.flatnonzero(above).tolist())
        if isinstance(mechanism, tt.counts.TopDown):  # a fit may find zeros among what was measured
            assert (above[asked] > 0).all()
    assert (released[2].counts == 0).any()


def test_levels_that_repeat_the_one_above_cost_nothing():
    table = pa.table({"country": ["N"] * 2, "c": ["x", "y"], "only": ["o", "o"]})
    tree = tt.Hierarchy.from_table(table, ["country", "c", "only"])
    mechanism = tt.counts.TopDown()
    assert mechanism.statistics(tree, total_is_public=True) == {"c": "counts"}
    assert mechanism.statistics(tree, total_is_public=False) == {"country": "total", "c": "counts"}


def test_a_measured_root_is_never_negative(measurer):
    tree = tt.Hierarchy.from_table(pa.table({"c": ["x", "y"]}), ["c"])
    mechanism = tt.counts.TopDown()
    nothing = np.empty(0, dtype=np.int64)
    totals = []
    for i in range(50):
        measures = measurer(tree, nothing, nothing, bytes([i] * 32), mechanism, public=False, epsilon=0.1)
        totals.append(int(mechanism.reconcile(tree, None, measures)[0].counts[0]))
    assert min(totals) == 0 < max(totals)


def test_an_unknown_projection_is_refused():
    with pytest.raises(
        ValueError, match='projection: \'manhattan\' is not known; choose "chebyshev", "chebyshev-descending"'
    ):
        tt.counts.TopDown(projection="manhattan")


@pytest.mark.parametrize("mechanism", [tt.counts.TopDown, tt.counts.LeastSquares])
@pytest.mark.parametrize(
    ("sparsity", "error", "message"),
    [
        (-1, ValueError, "sparsity: -1 must be at least 0 and finite"),
        (float("inf"), ValueError, "sparsity: inf must be at least 0 and finite"),
        (float("nan"), ValueError, "sparsity: nan must be at least 0 and finite"),
        ("2", TypeError, "sparsity: str must be a number of standard deviations"),
        (True, TypeError, "sparsity: True must be a number of standard deviations"),
    ],
)
def test_a_sparsity_that_is_no_threshold_is_refused(mechanism, sparsity, error, message):
    with pytest.raises(error, match=message):
        mechanism(sparsity=sparsity)


def test_sparsity_projects_the_survivors_of_each_family(measurer):
    """One family, 20 leaves of which two have records: whatever is released is what the rule and IntOpt give."""
    tree = tt.Hierarchy.from_table(pa.table({"c": [str(i) for i in range(20)]}), ["c"])
    leaves, counts = np.array([3, 11]), np.array([40, 25])
    mechanism = tt.counts.TopDown(sparsity=2)
    arguments = (tree, leaves, counts, bytes(32), mechanism, True)
    released = mechanism.reconcile(tree, 65, measurer(*arguments))[1].counts
    noisy = measurer(*arguments).measure("c", np.arange(20), "counts")
    kept = survivors(noisy.values, [0, 20], [65], 2 * noisy.noise.std_dev)
    assert 2 <= kept.sum() < 20
    assert released[~kept].max() == 0
    assert released[kept].tolist() == simplex.chebyshev(noisy.values[kept], 65).tolist()


@pytest.mark.parametrize(("black_box", "own"), [("cvxpy-linf", "chebyshev"), ("cvxpy-l2", "euclidean")])
def test_at_every_family_a_black_box_is_as_near_to_the_measurements_as_our_own(measurer, black_box, own):
    for package in PROJECTION_PACKAGES[black_box]:
        pytest.importorskip(package, reason="the extra tallytree[papers] is not installed")
    random = np.random.default_rng(7)
    table = pa.table({"a": [str(i // 6) for i in range(30)], "b": [str(i) for i in range(30)]})
    tree = tt.Hierarchy.from_table(table, ["a", "b"])
    leaves = np.sort(random.choice(30, 20, replace=False)).astype(np.int64)
    mechanism = tt.counts.TopDown(projection=black_box)
    arguments = (tree, leaves, random.integers(1, 50, 20), bytes(32), mechanism, False)
    released = mechanism.reconcile(tree, None, measurer(*arguments))
    measures = measurer(*arguments)
    distance = {"chebyshev": lambda d: np.abs(d).max(), "euclidean": lambda d: (d**2).sum()}[own]
    families = 0
    for depth in range(1, 3):
        for parent in np.flatnonzero(released[depth - 1].counts):
            children, _ = tree.children(depth - 1, np.array([parent]))
            noisy = measures.measure(tree.levels[depth], children, "counts").values
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
    found = importlib.util.find_spec("numpy")  # stands for every other package, installed or not
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else found)
    says = rf"projection: '{projection}' needs {package}, which is not installed: pip install \"tallytree\[papers\]\""
    with pytest.raises(ModuleNotFoundError, match=says):
        tt.counts.TopDown(projection=projection)


def test_in_descending_order_fewer_true_cells_and_more_false_ones_stay():
    """20 families of 40 cells, a quarter with one to four records: 200 true cells, noise of standard deviation 3."""
    rng = np.random.default_rng(5)
    cells = np.where(rng.random(800) < 0.25, rng.integers(1, 5, 800), 0)
    areas = pa.table({"a": np.repeat(np.arange(20), 40).astype(str), "b": np.arange(800).astype(str)})
    tree = tt.Hierarchy.from_table(areas, ["a", "b"])
    records = areas.take(np.repeat(np.arange(800), cells))
    kept = {}
    for projection in ("chebyshev", "chebyshev-descending"):
        release = tt.release_counts(
            records, tree, tt.Budget(rho=0.1), neighboring="change_one", mechanism=tt.counts.TopDown(projection), seed=1
        )
        positive = release.table("b")["count"].to_numpy() > 0
        kept[projection] = ((positive & (cells > 0)).sum(), (positive & (cells == 0)).sum())
    assert all(more > less for more, less in zip(kept["chebyshev-descending"], kept["chebyshev"], strict=True))
