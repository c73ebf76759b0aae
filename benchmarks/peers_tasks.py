"""The tasks of `peers_page.py`: one function for each task and program, run in a process of its own.

A function prepares its input, and gives the work to be timed and a function that judges what came out. Programs are
imported within, because each runs in an environment that has one of them only.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Work = tuple[Callable[[], Any], Callable[[Any], dict[str, Any]]]
"""What is timed, and from its result the facts of the row: `error`, `valid`."""
DRAWS, SCALE = 1_000_000, 100
EPSILON, DELTA = 1.0, 1e-8


# --- A million draws of discrete noise ---


def noise_tallytree(folder: Path) -> Work:
    from tallytree.private.noise import discrete_laplace

    return lambda: discrete_laplace(SCALE, DRAWS, bytes(range(32))), _noise_facts


def noise_opendp(folder: Path) -> Work:
    from tallytree.private.noise.discrete import opendp_laplace

    return lambda: opendp_laplace(SCALE, DRAWS), _noise_facts


def noise_diffprivlib(folder: Path) -> Work:
    from diffprivlib.mechanisms import Geometric

    mechanism = Geometric(epsilon=1 / SCALE, sensitivity=1)
    return lambda: np.array([mechanism.randomise(0) for _ in range(DRAWS)]), _noise_facts


def _noise_facts(drawn: np.ndarray) -> dict[str, Any]:
    q = np.exp(-1 / SCALE)
    expected = np.sqrt(2 * q) / (1 - q)
    return {"error": float(np.std(drawn.astype(float)) / expected), "valid": "integers"}


# --- Flows between 435 areas ---


def flows_top_down(folder: Path) -> Work:
    return _flows(folder, "TopDown")


def flows_least_squares(folder: Path) -> Work:
    return _flows(folder, "LeastSquares")


def _flows(folder: Path, mechanism: str) -> Work:
    import tallytree as tt
    from tallytree.datasets import boninsegna

    data = boninsegna.od_flows("random", "complete")
    areas = tt.Hierarchy.from_table(data.areas, levels=list(data.levels))

    def work() -> Any:
        return tt.release_flows(
            data.flows, origins=areas, destinations=areas, origin=data.origin, destination=data.destination,
            count="count", budget=tt.Budget(epsilon=EPSILON, delta=DELTA), neighboring="change_one",
            mechanism=getattr(tt.counts, mechanism)(),
        )  # fmt: skip

    def facts(release: Any) -> dict[str, Any]:
        leaves = release.to_pandas(release.levels[-1])
        return _flow_errors(folder, leaves.set_index(_order(leaves))["count"])

    return work, facts


def flows_inf_tda(folder: Path) -> Work:
    import pandas as pd
    from InfTDA.mechanism import inf_tda

    trips = pd.read_parquet(folder / "trips.parquet")
    data = trips.set_index(_order(trips))["count"]
    return lambda: inf_tda(data, (EPSILON, DELTA), 1, "bounded", True), lambda found: _flow_errors(folder, found)


def _order(table: Any) -> list[str]:
    """Destination and origin in turn, one level after the other."""
    return [f"{side}_level{depth}" for depth in range(1, 5) for side in ("destination", "origin")]


def _flow_errors(folder: Path, found: Any) -> dict[str, Any]:
    """The mean over the levels of the largest error."""
    import pandas as pd

    trips = pd.read_parquet(folder / "trips.parquet")
    names = _order(trips)
    true = trips.set_index(names)["count"]
    found = found.iloc[:, 0] if hasattr(found, "columns") else found
    found.index = found.index.set_names(names)
    errors = []
    for depth in range(1, len(names) + 1):
        sums = [each.groupby(names[:depth]).sum() for each in (found, true)]
        errors.append(float(sums[0].sub(sums[1], fill_value=0).abs().max()))
    whole = bool((found == found.round()).all() and (found >= 0).all())
    return {"error": float(np.mean(errors)), "valid": "integers ≥ 0 that add up" if whole else "not integers ≥ 0"}


# --- Counts of a binary tree of 4,096 leaves ---


DEPTH = 12


def _true_leaves() -> np.ndarray:
    return np.random.default_rng(0).geometric(0.01, 2**DEPTH) - 1


def binary_tallytree(folder: Path) -> Work:
    import pyarrow as pa

    import tallytree as tt

    leaf = np.arange(2**DEPTH)
    columns = {f"bit{depth:02}": (leaf >> (DEPTH - depth)).astype(str) for depth in range(1, DEPTH + 1)}
    tree = tt.Hierarchy.from_table(pa.table(columns), levels=list(columns))
    records = pa.table({**columns, "count": _true_leaves()})

    def work() -> Any:
        return tt.release_counts(records, tree, tt.Budget(epsilon=EPSILON), neighboring="add_remove", count="count")

    return work, lambda release: _range_errors(release.table(f"bit{DEPTH:02}")["count"].to_numpy())


def binary_opendp(folder: Path) -> Work:
    from opendp import prelude as dp

    dp.enable_features("contrib")
    transformation = dp.t.make_b_ary_tree(
        dp.vector_domain(dp.atom_domain(T=int), size=2**DEPTH), dp.l1_distance(T=int), leaf_count=2**DEPTH,
        branching_factor=2,
    )  # fmt: skip
    measure = transformation >> dp.m.then_laplace(scale=(DEPTH + 1) / EPSILON)
    fit, leaves = dp.t.make_consistent_b_ary_tree(2), _true_leaves().tolist()
    return lambda: fit(measure(leaves)), lambda found: _range_errors(np.array(found)[-(2**DEPTH) :])


def _range_errors(leaves: np.ndarray) -> dict[str, Any]:
    """The root mean squared error of 1,000 random ranges."""
    true, rng = _true_leaves(), np.random.default_rng(1)
    ends = np.sort(rng.integers(0, len(true) + 1, (1_000, 2)), axis=1)
    sums = [np.append(0, np.cumsum(each)) for each in (leaves.astype(float), true.astype(float))]
    errors = [(each[ends[:, 1]] - each[ends[:, 0]]) for each in sums]
    whole = bool((leaves == np.rint(leaves)).all())
    least = "≥ 0" if (leaves >= 0).all() else "some below 0"
    kind = "integers" if whole else "fractions"
    return {"error": float(np.sqrt(np.mean((errors[0] - errors[1]) ** 2))), "valid": f"{kind}, {least}, add up"}


# --- Least squares over a tree of 1,111 nodes, x ≥ 0 ---


def _tree() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parents, noisy values, and the matrix of sums of leaves."""
    rng, widths = np.random.default_rng(0), (10, 10, 10)
    sizes = np.cumprod([1, *widths])
    truth = [rng.geometric(0.02, sizes[-1]).astype(float)]
    for width in reversed(widths):
        truth.insert(0, truth[0].reshape(-1, width).sum(axis=1))
    values = np.concatenate(truth)
    noisy = np.rint(values + rng.normal(0, 20, len(values)))
    sums = np.concatenate([np.repeat(np.eye(size), sizes[-1] // size, axis=1) for size in sizes])
    begins = np.cumsum([0, *sizes])
    parent = [np.array([-1])]
    parent += [begins[depth] + np.repeat(np.arange(sizes[depth]), width) for depth, width in enumerate(widths)]
    return np.concatenate(parent), noisy, sums


def _tree_facts(x: np.ndarray) -> dict[str, Any]:
    _, noisy, sums = _tree()
    x = np.asarray(x, dtype=float).ravel()
    apart = np.abs(sums @ x[-sums.shape[1] :] - x).max()
    whole = "integers" if np.abs(x - np.rint(x)).max() < 1e-9 else "fractions"
    least = "≥ 0" if x.min() >= -1e-9 else f"least {x.min():.2g}"
    add = "add up" if apart < 1e-6 else f"off by {apart:.2g} in a sum"
    return {"error": float(((x - noisy) ** 2).sum()), "valid": f"{whole}, {least}, {add}"}


def tree_tallytree(folder: Path) -> Work:
    from tallytree.solvers.trees import project as tree

    parent, noisy, _ = _tree()
    return lambda: tree.project(parent, noisy.astype(np.int64)), _tree_facts


def tree_min_trace(folder: Path) -> Work:
    from hierarchicalforecast.methods import MinTrace

    _, noisy, sums = _tree()
    forecast = MinTrace(method="ols", nonnegative=True, num_threads=1)
    return lambda: forecast.fit_predict(S=sums, y_hat=noisy[:, None])["mean"], _tree_facts


def _by_cvxpy(solver: str) -> Work:
    import cvxpy

    _, noisy, sums = _tree()
    leaves = cvxpy.Variable(sums.shape[1])
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(sums @ leaves - noisy)), [leaves >= 0])

    def work() -> Any:
        problem.solve(solver=solver)
        return sums @ leaves.value

    return work, _tree_facts


def tree_clarabel(folder: Path) -> Work:
    return _by_cvxpy("CLARABEL")


def tree_osqp(folder: Path) -> Work:
    return _by_cvxpy("OSQP")


def tree_scs(folder: Path) -> Work:
    return _by_cvxpy("SCS")


# --- Isotonic regression ---


def _row(n: int = 1_000_000) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.rint(np.sort(rng.normal(0, 100, n)) + rng.normal(0, 50, n))


def isotonic_tallytree(folder: Path) -> Work:
    from tallytree.solvers.sizes import isotonic

    y = _row().astype(np.int64)
    return lambda: isotonic.fit(y, norm=2), _isotonic_facts


def isotonic_scikit(folder: Path) -> Work:
    from sklearn.isotonic import isotonic_regression

    y = _row()
    return lambda: isotonic_regression(y), _isotonic_facts


def _isotonic_facts(x: np.ndarray) -> dict[str, Any]:
    return {
        "error": float(((x - _row()) ** 2).sum()),
        "valid": "in order" if (np.diff(x) >= 0).all() else "not in order",
    }


# --- Plain counts of 1,000 public partitions ---


PARTITIONS, RECORDS = 1_000, 100_000


def _partition() -> np.ndarray:
    return np.random.default_rng(0).integers(0, PARTITIONS, RECORDS)


def _count_facts(counts: np.ndarray) -> dict[str, Any]:
    true = np.bincount(_partition(), minlength=PARTITIONS)
    whole = "integers" if (counts == np.rint(counts)).all() else "fractions"
    least = "≥ 0" if counts.min() >= 0 else "some below 0"
    return {"error": float(np.abs(counts - true).mean()), "valid": f"{whole}, {least}"}


def _counted(mechanism: str) -> Work:
    import pyarrow as pa

    import tallytree as tt

    names = np.char.zfill(np.arange(PARTITIONS).astype(str), 4)
    areas = tt.Hierarchy.from_table(pa.table({"area": names}), ["area"])
    records = pa.table({"area": names[_partition()]})

    def work() -> Any:
        return tt.release_counts(
            records, areas, tt.Budget(epsilon=EPSILON), neighboring="add_remove",
            mechanism=getattr(tt.counts, mechanism)(),
        )  # fmt: skip

    return work, lambda release: _count_facts(release.table("area")["count"].to_numpy().astype(float))


def counts_least_squares(folder: Path) -> Work:
    return _counted("LeastSquares")


def counts_leaves(folder: Path) -> Work:
    return _counted("LeafGaussian")


def counts_pipeline_dp(folder: Path) -> Work:
    import pipeline_dp

    rows = list(enumerate(_partition().tolist()))

    def work() -> Any:
        accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=0)
        engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
        asked = pipeline_dp.AggregateParams(
            noise_kind=pipeline_dp.NoiseKind.LAPLACE, metrics=[pipeline_dp.Metrics.COUNT],
            max_partitions_contributed=1, max_contributions_per_partition=1,
        )  # fmt: skip
        read = pipeline_dp.DataExtractors(
            privacy_id_extractor=lambda row: row[0], partition_extractor=lambda row: row[1],
            value_extractor=lambda row: 1,
        )  # fmt: skip
        found = engine.aggregate(rows, asked, read, public_partitions=list(range(PARTITIONS)))
        accountant.compute_budgets()
        return dict(found)

    return work, lambda found: _count_facts(np.array([found[i].count for i in range(PARTITIONS)], dtype=float))


def counts_diffprivlib(folder: Path) -> Work:
    from diffprivlib.tools import histogram

    values = _partition()
    return (
        lambda: histogram(values, epsilon=EPSILON, bins=PARTITIONS, range=(-0.5, PARTITIONS - 0.5))[0],
        lambda found: _count_facts(np.asarray(found, dtype=float)),
    )


# --- Tables of counties, ages and sexes ---


def _tables() -> tuple[Any, Any]:
    from tables import Case, residents, variance_of

    case = Case(residents())
    return case, case.measure(variance_of(EPSILON, 4), 0)


def tables_tallytree(folder: Path) -> Work:
    from tables import ours

    case, measured = _tables()
    return lambda: ours(case, measured), lambda found: _table_facts(case, found)


def tables_mbi(folder: Path) -> Work:
    from tables import ours, with_mbi

    case, measured = _tables()
    total = float(ours(case, measured)[0].sum())
    return (
        lambda: with_mbi(case, measured, "MirrorDescent", 1_000, total),
        lambda found: _table_facts(case, found),
    )


def _table_facts(case: Any, found: Any) -> dict[str, Any]:
    whole = all((level == np.rint(level)).all() for level in found)
    least = min(float(level.min()) for level in found)
    kind = "integers" if whole else "fractions"
    finest = case.errors(found)[-1, -1]
    return {"error": float(finest), "valid": f"{kind}, {'≥ 0' if least >= 0 else f'least {least:.2g}'}, add up"}
