"""Single steps of a release against the libraries that people would otherwise use; part of `make bench`.

    python benchmarks/run.py peers

Noise against OpenDP, monotone regression against scikit-learn, the fit of a tree against hierarchicalforecast's
MinTrace and a QP solver, tables against mbi, a saved table against pyarrow's writer of text, and a complete count
against PipelineDP's local backend. A peer that is not installed is left out.
"""

from __future__ import annotations

import importlib.util
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from ratios import LeftOut, Ratio, least_seconds

import tallytree as tt
from tallytree.release.files import write_parquet
from tallytree.release.level_tables import NodeTable
from tallytree.solvers.sizes import isotonic
from tallytree.solvers.trees import project as tree
from tallytree.sources.leaf_paths import decoded

KEY = bytes(range(32))


def ratios() -> Iterator[Ratio | LeftOut]:
    yield from noise()
    yield from monotone()
    yield from fitted_tree()
    yield large_tree()
    yield from fitted_tables()
    yield from saved()
    yield from counted()


def missing(package: str) -> bool:
    return importlib.util.find_spec(package) is None


def noise() -> Iterator[Ratio | LeftOut]:
    """Seconds for a million draws; OpenDP draws fewer, and its time is multiplied."""
    from tallytree.private.noise import discrete

    name = "a million draws of discrete {} noise of scale 100"
    if missing("opendp"):
        yield LeftOut(name.format("Laplace"), "OpenDP", "opendp is not installed")
        return
    draws, fewer = 1_000_000, 20_000
    for law, ours, theirs in (
        ("Laplace", discrete.discrete_laplace, discrete.opendp_laplace),
        ("Gaussian", discrete.discrete_gaussian, discrete.opendp_gaussian),
    ):
        seconds = least_seconds(
            {"ours": lambda ours=ours: ours(100, draws, KEY), "theirs": lambda theirs=theirs: theirs(100, fewer)}, 3
        )
        yield Ratio(name.format(law), "OpenDP", seconds["ours"], seconds["theirs"] * draws / fewer)


def monotone() -> Iterator[Ratio | LeftOut]:
    name = "monotone regression of a million values"
    if missing("sklearn"):
        yield LeftOut(name, "scikit-learn's isotonic_regression", "scikit-learn is not installed")
        return
    from sklearn.isotonic import isotonic_regression

    values = np.sort(np.random.default_rng(0).normal(0, 100, 1_000_000)) + np.random.default_rng(1).normal(
        0, 50, 1_000_000
    )
    seconds = least_seconds(
        {"ours": lambda: isotonic.fit(values, norm=2), "theirs": lambda: isotonic_regression(values)}, 3
    )
    yield Ratio(name, "scikit-learn's isotonic_regression", seconds["ours"], seconds["theirs"])


def noisy_tree(widths: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Parents and noisy values, root first."""
    rng = np.random.default_rng(0)
    sizes = np.cumprod([1, *widths])
    truth = [rng.geometric(0.02, sizes[-1]).astype(float)]
    for width in reversed(widths):
        truth.insert(0, truth[0].reshape(-1, width).sum(axis=1))
    begins = np.cumsum([0, *sizes])
    parent = [np.array([-1])]
    parent += [begins[depth] + np.repeat(np.arange(sizes[depth]), width) for depth, width in enumerate(widths)]
    values = np.concatenate(truth)
    return np.concatenate(parent), np.rint(values + rng.normal(0, 20, len(values)))


def fitted_tree() -> Iterator[Ratio | LeftOut]:
    """The same least squares over a tree, x >= 0; ours is also the optimum in integers."""
    parent, noisy = noisy_tree((10, 10, 10))
    name = "least squares, x >= 0, over a tree of 1,111 nodes"
    ours = {"ours": lambda: tree.project(parent, noisy.astype(np.int64))}
    if missing("hierarchicalforecast"):
        yield LeftOut(name, "hierarchicalforecast's MinTrace", "hierarchicalforecast is not installed")
    else:
        from hierarchicalforecast.methods import MinTrace

        leaves = np.flatnonzero(np.bincount(parent[1:], minlength=len(parent)) == 0)
        sums = np.zeros((len(parent), len(leaves)))
        for column, leaf in enumerate(leaves):
            node = leaf
            while node >= 0:
                sums[node, column] = 1
                node = parent[node]
        forecast = MinTrace(method="ols", nonnegative=True, num_threads=1)

        def theirs() -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                forecast.fit_predict(S=sums, y_hat=noisy[:, None])

        seconds = least_seconds(ours | {"theirs": theirs}, 2)
        yield Ratio(name, "hierarchicalforecast's MinTrace", seconds["ours"], seconds["theirs"])
    if missing("cvxpy") or missing("clarabel"):
        yield LeftOut(name, "Clarabel, by cvxpy", "cvxpy or clarabel is not installed")
        return
    from tallytree.solvers.papers.tree_programs import tree_relaxed

    parent, noisy = noisy_tree((20, 20, 20))
    whole = noisy.astype(np.int64)
    weights, total = np.ones(len(parent), dtype=np.int64), int(whole[1:21].sum())
    weights[0] = 0  # its value is given
    seconds = least_seconds(
        {
            "ours": lambda: tree.project(parent, whole, weights, total=total),
            "theirs": lambda: tree_relaxed(parent, whole, weights, total=total, time_limit=600),
        },
        2,
    )
    yield Ratio(
        "least squares, x >= 0, over a tree of 8,421 nodes", "Clarabel, by cvxpy", seconds["ours"], seconds["theirs"]
    )


def large_tree() -> Ratio:
    """A binary tree; OpenDP fits floats that may be negative, and its time includes the conversion of lists."""
    from opendp import prelude as dp

    dp.enable_features("contrib")
    parent, noisy = noisy_tree((2,) * 20)
    whole = noisy.astype(np.int64)
    given = whole.tolist()
    fit = dp.t.make_consistent_b_ary_tree(2)
    seconds = least_seconds({"ours": lambda: tree.project(parent, whole), "theirs": lambda: fit(given)}, 2)
    name = "least squares over a binary tree of 2,097,151 nodes, ours in integers >= 0"
    return Ratio(name, "OpenDP's make_consistent_b_ary_tree", seconds["ours"], seconds["theirs"])


def fitted_tables() -> Iterator[Ratio | LeftOut]:
    name = "fit four tables of 197 counties, 18 ages, 2 sexes and a rare one"
    if missing("mbi"):
        yield LeftOut(name, "mbi, 100 iterations of mirror descent", "mbi is not installed")
        return
    from tables import Case, ours, residents, variance_of, with_mbi

    case = Case(residents())
    measured = case.measure(variance_of(1.0, 4), 0)
    total = float(ours(case, measured)[0].sum())
    seconds = least_seconds(
        {
            "ours": lambda: ours(case, measured),
            "theirs": lambda: with_mbi(case, measured, "MirrorDescent", 100, total),
        },
        2,
    )
    yield Ratio(name, "mbi, 100 iterations of mirror descent", seconds["ours"], seconds["theirs"])


def counted() -> Iterator[Ratio | LeftOut]:
    """Noisy counts of public partitions, from rows in memory to numbers."""
    name, peer = "noisy counts of 100,000 records in 1,000 leaves", "PipelineDP's local backend"
    if missing("pipeline_dp"):
        yield LeftOut(name, peer, "pipeline-dp is not installed")
        return
    import pipeline_dp

    leaf = np.arange(100_000) % 1_000
    rows = list(enumerate(leaf.tolist()))
    records = pa.table({"area": leaf})
    areas = tt.Hierarchy.from_table(pa.table({"area": np.arange(1_000)}), ["area"])
    budget = tt.Budget(epsilon=1, delta=1e-8)

    def theirs() -> None:
        accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1, total_delta=1e-8)
        engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
        asked = pipeline_dp.AggregateParams(
            noise_kind=pipeline_dp.NoiseKind.GAUSSIAN, metrics=[pipeline_dp.Metrics.COUNT],
            max_partitions_contributed=1, max_contributions_per_partition=1,
        )  # fmt: skip
        read = pipeline_dp.DataExtractors(
            privacy_id_extractor=lambda row: row[0], partition_extractor=lambda row: row[1],
            value_extractor=lambda row: 1,
        )  # fmt: skip
        found = engine.aggregate(rows, asked, read, public_partitions=list(range(1_000)))
        accountant.compute_budgets()
        list(found)

    seconds = least_seconds(
        {"ours": lambda: tt.release_counts(records, areas, budget, neighboring="add_remove"), "theirs": theirs}, 3
    )
    yield Ratio(name, peer, seconds["ours"], seconds["theirs"])


def saved() -> Iterator[Ratio]:
    """A table with eight path columns: ours makes the paths and writes them; pyarrow is given them as text."""
    leaf = np.arange(20_000)
    widths = {"region": 1_000, "province": 100, "municipality": 10, "section": 1}
    labels = {name: np.char.add(f"{name} ", (leaf // width).astype(str)) for name, width in widths.items()}
    areas = tt.Hierarchy.from_table(pa.table(labels), [*widths])
    product = tt.Product({"o": areas, "d": areas}, order=["o", "d"] * 4)
    depth = len(product.levels) - 1
    nodes = np.unique(np.random.default_rng(0).integers(0, product.size(depth), 1_000_000))
    table = NodeTable(product, depth, nodes, pa.table({"count": np.ones(len(nodes), dtype=np.int64)}))
    plain = decoded(table.read(0, len(nodes)))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        seconds = least_seconds(
            {
                "ours": lambda: write_parquet(table, place / "ours.parquet"),
                "theirs": lambda: pq.write_table(plain, place / "theirs.parquet", compression="zstd"),
            },
            3,
        )
    yield Ratio(
        "save a million rows with 8 path columns", "pyarrow's writer, of strings", seconds["ours"], seconds["theirs"]
    )
