"""LeastSquares against a literal version, the exact least-squares optimum, and the law of its errors."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallytree as tt
from helpers.inside import FlowsArguments, KeyedNoise, Measurer, plan_flows
from tallytree.counts.measured_level import sibling_keys
from tallytree.solvers.trees import simplex
from tallytree.solvers.trees.project import project

KEY = bytes(range(32))


def one_by_one(tree, total, measures):
    """The mechanism as its docstring says, node by node: dictionaries, and a fit of all levels after every level."""
    noisy, parent, variance = {}, {}, {}
    root = (0, 0)
    if total is None:
        measured = measures.measure(tree.levels[0], np.zeros(1, dtype=np.int64), "total")
        noisy[root], variance[root] = int(measured.values[0]), measured.noise.variance
        total = max(0, noisy[root])
    else:
        noisy[root], variance[root] = total, 0
    counts = {root: total} if total else {}
    above = counts
    chains = []
    for depth in range(1, len(tree.levels)):
        if tree.only_children(depth):
            chains.append(depth)
            above = {
                (depth, int(tree.children(depth - 1, np.array([node]))[0][0])): c for (_, node), c in above.items()
            }
            counts |= above
            for d, node in above:
                parent[d, node] = (d - 1, int(tree.parents(depth, np.array([node]))[0]))
            continue
        kept = {}
        for (d, node), count in above.items():
            children, _ = tree.children(depth - 1, np.array([node]))
            measured = measures.measure(tree.levels[depth], children, "counts")
            for child, y, x in zip(
                children.tolist(), measured.values.tolist(), simplex.chebyshev(measured.values, count), strict=True
            ):
                if x:
                    kept[depth, child] = int(x)
                    noisy[depth, child], variance[depth, child] = y, measured.noise.variance
                    parent[depth, child] = (d, node)
        counts |= kept
        counts = fitted(counts, noisy, parent, variance)
        above = {node: x for node, x in counts.items() if node[0] == depth}
    return [{node: x for (d, node), x in counts.items() if d == depth} for depth in range(len(tree.levels))]


def fitted(counts, noisy, parent, variance):
    """The exact least-squares fit of all nodes that are left; levels that repeat the one above have no weight."""
    nodes = sorted(counts, key=lambda node: (node[0], int(sibling_keys(node[0], np.array([node[1]]))[0])))
    if not nodes:
        return {}
    place = {node: i for i, node in enumerate(nodes)}
    parents = [place[parent[node]] if node in parent else -1 for node in nodes]
    weights = [np.inf if variance.get(n) == 0 else 1 / variance[n] if n in variance else 0.0 for n in nodes]
    x = project(parents, [noisy.get(node, 0) for node in nodes], np.array(weights) * max(variance.values(), default=1))
    return {node: int(value) for node, value in zip(nodes, x, strict=True) if value > 0}


@settings(max_examples=60)
@given(st.data(), st.booleans(), st.binary(min_size=32, max_size=32))
def test_all_nodes_of_a_level_at_once_is_the_mechanism_node_by_node(small_flows, measurer, data, public, key):
    tree, leaves, counts = data.draw(small_flows)
    mechanism = tt.counts.LeastSquares()
    total = int(counts.sum()) if public else None
    arguments = (tree, leaves, counts, key, mechanism, public)
    released = mechanism.reconcile(tree, total, measurer(*arguments))
    expected = one_by_one(tree, total, measurer(*arguments))
    assert [dict(zip(level.nodes.tolist(), level.counts.tolist(), strict=True)) for level in released] == expected


@settings(max_examples=30)
@given(st.data(), st.booleans(), st.binary(min_size=32, max_size=32))
def test_without_room_for_a_fit_it_is_top_down(small_flows, measurer, data, public, key):
    tree, leaves, counts = data.draw(small_flows)
    total = int(counts.sum()) if public else None
    found = []
    for mechanism in (tt.counts.TopDown(), tt.counts.LeastSquares(largest_fit=0)):
        released = mechanism.reconcile(tree, total, measurer(tree, leaves, counts, key, mechanism, public))
        found.append([(level.nodes.tolist(), level.counts.tolist()) for level in released])
    assert found[0] == found[1]


@pytest.fixture(scope="module")
def towns():
    """Three regions of 4, 5 and 6 provinces of 3 towns each."""
    paths = [(str(r), f"{r}{p}", f"{r}{p}{t}") for r, n in enumerate((4, 5, 6)) for p in range(n) for t in range(3)]
    return tt.Hierarchy.from_table(pa.table(dict(zip("rpt", zip(*paths, strict=True), strict=True))), list("rpt"))


def generalised_least_squares(tree, variances):
    """Variances of all nodes by the normal equations: every node is measured, the root too."""
    depths = range(len(tree.levels))
    leaves = np.arange(tree.n_leaves)
    rows, weights = [], []
    for depth in reversed(depths):
        nodes = leaves
        for level in range(len(tree.levels) - 1, depth, -1):
            nodes = tree.parents(level, nodes)
        design = np.zeros((tree.size(depth), tree.n_leaves))
        design[nodes, leaves] = 1
        rows.insert(0, design)
        weights.insert(0, np.full(tree.size(depth), 1 / variances[depth]))
    design, weight = np.concatenate(rows), np.concatenate(weights)
    covariance = np.linalg.inv(design.T @ (weight[:, None] * design))
    return [np.einsum("ij,jk,ik->i", here, covariance, here) for here in rows]


def test_std_dev_is_that_of_generalised_least_squares(towns, measurer):
    """Large counts, so that nothing is pruned."""
    mechanism = tt.counts.LeastSquares()
    leaves = np.arange(towns.n_leaves)
    measures = measurer(towns, leaves, np.full(towns.n_leaves, 1_000), KEY, mechanism, False)
    released = mechanism.reconcile(towns, None, measures)
    variance = measures.inner.taken[0].noise.variance
    expected = generalised_least_squares(towns, [variance] * 4)
    for level, dense in zip(released, expected, strict=True):
        np.testing.assert_allclose(level.std_dev**2, dense, rtol=1e-9)


@pytest.mark.slow
def test_errors_have_the_stated_standard_deviation(towns, measurer):
    """600 runs of 63 nodes: a stated std_dev that is 10 % off would be seen at every level below the root."""
    mechanism = tt.counts.LeastSquares()
    leaves = np.arange(towns.n_leaves)
    true = np.full(towns.n_leaves, 1_000)
    errors = [[] for _ in towns.levels]
    for run in range(600):
        released = mechanism.reconcile(
            towns, int(true.sum()), measurer(towns, leaves, true, run.to_bytes(32, "big"), mechanism, True)
        )
        for depth, level in enumerate(released):
            exact = np.bincount(_ancestors(towns, depth), true)
            errors[depth].append(level.counts - exact)
    assert not np.any(errors[0])
    for depth in (1, 2, 3):
        spread = np.sqrt(np.mean(np.square(errors[depth])))
        stated = np.sqrt(np.mean(np.square(released[depth].std_dev)))
        assert abs(spread / stated - 1) < 0.06


def _ancestors(tree, depth):
    nodes = np.arange(tree.n_leaves)
    for level in range(len(tree.levels) - 1, depth, -1):
        nodes = tree.parents(level, nodes)
    return nodes


def test_pruned_descendants_have_the_error_of_the_zero_above(towns, measurer):
    mechanism = tt.counts.LeastSquares()
    leaves, counts = np.array([0, 1]), np.array([900, 800])
    released = mechanism.reconcile(towns, 1_700, measurer(towns, leaves, counts, KEY, mechanism, True))
    provinces, here = released[2], released[3]
    parents = towns.parents(3, np.arange(towns.n_leaves))
    below_zero = provinces.counts[parents] == 0
    assert below_zero.sum() > 30
    assert (here.std_dev[below_zero] == provinces.std_dev[parents][below_zero]).all()
    assert (here.std_dev > 0).all()
    assert released[0].std_dev.tolist() == [0.0]


def test_nothing_at_all_is_released_as_nothing(towns, measurer):
    nothing = np.empty(0, dtype=np.int64)
    for mechanism in (tt.counts.LeastSquares(), tt.counts.LeastSquares(sparsity=3)):
        released = mechanism.reconcile(towns, 0, measurer(towns, nothing, nothing, KEY, mechanism, True))
        assert [level.counts.sum() for level in released] == [0, 0, 0, 0]
        if mechanism.sparsity == 0:
            assert [level.std_dev.max() for level in released] == [0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("largest_fit", "error", "message"),
    [(-1, ValueError, "largest_fit: -1 must be at least 0"), (1.5, TypeError, "largest_fit: 1.5 must be an integer")],
)
def test_a_limit_that_is_no_number_of_nodes_is_refused(largest_fit, error, message):
    with pytest.raises(error, match=message):
        tt.counts.LeastSquares(largest_fit=largest_fit)


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["random_sparse", "binary_sparse"])
def test_it_beats_top_down_on_the_papers_data(shared_data, name):
    """Five runs at ε = 1, the same noise for all: a tenth less error on average, nowhere much more, fewer false."""
    kind = name.partition("_")[0]
    leaves = pq.read_table(shared_data / f"od_{kind}_areas.parquet")
    areas = tt.Hierarchy.from_table(leaves, leaves.column_names)
    origin, destination = [[f"{side}_{level}" for level in leaves.column_names] for side in ("origin", "destination")]
    trips = pq.read_table(shared_data / f"od_{name}.parquet")
    budget = tt.Budget(epsilon=1, delta=1e-8)
    sides = {"origins": areas, "destinations": areas, "origin": origin, "destination": destination}
    job = plan_flows(FlowsArguments(trips, budget=budget, neighboring="change_one", count="count", **sides))
    true = job.tabulate()
    top_down, fit, sparse = (
        np.mean([figures(job, true, mechanism, run.to_bytes(32, "big")) for run in range(5)], axis=0)
        for mechanism in (tt.counts.TopDown(), tt.counts.LeastSquares(), tt.counts.LeastSquares(sparsity=3))
    )
    assert (fit[:, 0] <= 1.15 * top_down[:, 0]).all()
    assert (fit[:, 0] / top_down[:, 0]).mean() < 0.9
    assert (fit[:, 1] <= top_down[:, 1]).all()
    assert sparse[-1, 1] <= 0.45
    assert (sparse[:, 0] / top_down[:, 0]).mean() < 1.05


def figures(job, true, mechanism, key):
    """Per level below the root: the maximum absolute error, and the share of released nodes that have no records."""
    released = mechanism.reconcile(job.tree, true.total, Measurer(true, job.plan, KeyedNoise(key)))
    found = []
    for depth, level in enumerate(job.tree.levels[1:], 1):
        errors = -true.cells(level, np.arange(job.tree.size(depth)), "counts")[0]
        nothing = errors == 0
        errors[released[depth].nodes] += released[depth].counts
        found.append((np.abs(errors).max(), nothing[released[depth].nodes].mean()))
    return found


@pytest.mark.slow
def test_no_place_among_siblings_is_favored():
    """In the tree's order first children are too large by 0.2 and last ones too small: 8 % of such intervals hold."""
    areas = pd.DataFrame([(f"a{i}", f"a{i}b{j}") for i in range(60) for j in range(4)], columns=["area", "town"])
    tree = tt.Hierarchy.from_table(areas, levels=["area", "town"])
    table = areas.assign(n=np.random.default_rng(1).integers(50, 500, 240))
    first = areas.groupby("area").head(1)
    true = table[table["town"].isin(first["town"])]["n"].sum()
    errors, held = [], []
    for seed in range(40):
        release = tt.release_counts(table, tree, tt.Budget(epsilon=6), neighboring="add_remove", count="n", seed=seed)
        errors.append((release.table("town")["count"].to_numpy() - table["n"].to_numpy()).reshape(60, 4).mean(axis=0))
        (row,) = release.total(first, alpha=0.1).to_pylist()
        held.append(row["ci_lower"] <= true <= row["ci_upper"])
    # 9,600 errors with a standard deviation of 0.7: the standard error of a place is 0.014.
    assert np.abs(np.mean(errors, axis=0)).max() < 0.06
    assert np.mean(held) >= 0.75  # of 40, where 90 % are stated: 3 standard errors
