"""How often 90 % intervals from replicates cover the true number, per level, as Markdown tables.

    python benchmarks/interval_coverage.py [--runs 5] [--replicates 50] [--epsilon 1]
                                           [--sparsity 3] [--totals] [--data ../shared/data] [NAME …]
    python benchmarks/interval_coverage.py ends

NAME is one of the data sets below; all of them by default. `ends` shows intervals around integers with normal errors,
as they are and with ends rounded outward as they were before, without any release. `--totals` shows the intervals of
`release.total` instead (municipalities only): districts of municipalities chosen at random, and of neighbors.
Epsilon is 1 by default, and delta 1e-8 (for `taxi`, there is none). With `--replicates 0` the intervals are from the
`std_dev` that `LeastSquares` knows itself.
Releases are drawn with the seeds 0, 1, …, replicates with seeds of their own, so that the figures can be had again.

Columns: published cells; the share of them that are in truth empty; the share of intervals that hold the true number,
over all published cells, over those with a true number above 0, and over those with a true number between 1 and the
noise's standard deviation; the median width; the share of the published cells above 0 that lie above their interval;
and, of the true cells that were not published, the share with a number up to `unlisted_ci_upper`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import stats
from tallytree.datasets.commutes import commutes

import tallytree as tt
from tallytree.numbers.accuracy.squared_errors import looked_up
from tallytree.release.intervals import LevelErrors, interval, quantile
from tallytree.run import (
    CountsArguments,
    FlowsArguments,
    PlannedCounts,
    SizesArguments,
    make_release,
    plan_counts,
    plan_flows,
    plan_group_sizes,
)
from tallytree.sizes.mechanism import ReleasedSizes, sum_over_tree

SHARED = Path(__file__).resolve().parents[2] / "shared"
ALPHA = 0.1
DELTA = 1e-8
OD = ("od_binary_complete", "od_random_complete", "od_binary_sparse", "od_random_sparse")
NAMES = (*OD, "commutes", "municipalities", "taxi")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--replicates", type=int, default=50)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--sparsity", type=float, help="only LeastSquares and TopDown with this sparsity")
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    parser.add_argument("--totals", action="store_true")
    chosen = parser.parse_args()
    if chosen.names == ["ends"]:
        show_ends()
    elif chosen.totals:
        show_totals(chosen)
    else:
        show_levels(chosen)


def show_levels(chosen: Any) -> None:
    for name in chosen.names:
        chosen_mechanisms = mechanisms(name) if chosen.replicates else [tt.counts.LeastSquares()]
        if chosen.sparsity is not None:
            chosen_mechanisms = [kind(sparsity=chosen.sparsity) for kind in (tt.counts.LeastSquares, tt.counts.TopDown)]
        for mechanism in chosen_mechanisms:
            begin = time.perf_counter()
            levels, found = covered(name, mechanism, chosen)
            title = f"{name}, {type(mechanism).__name__}: {chosen.runs} runs of {chosen.replicates} replicates"
            print(f"\n{title}, {time.perf_counter() - begin:.0f} s\n")
            print("| level | cells | empty | covered | of true > 0 | of small | width | above | absent |")
            print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
            for level in levels:
                print(f"| {level} | {' | '.join(row(found[level]))} |", flush=True)


def show_ends() -> None:
    """The exact coverage over 1,000 true numbers, and the mean width, from the probabilities of all errors."""
    print("| std_dev | before: covered | width | now: covered | width | a single number: covered |")
    print("| --- | --- | --- | --- | --- | --- |")
    truth = np.arange(100_000, 101_000)[:, None]
    for std_dev in (0.5, 0.7, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 10.0, 30.0, 100.0):
        errors = np.arange(-int(8 * std_dev) - 3, int(8 * std_dev) + 4)
        likely = np.diff(stats.norm.cdf(np.append(errors - 0.5, errors[-1] + 0.5) / std_dev))
        released = truth + errors
        reach = quantile(ALPHA, None) * std_dev
        before = np.floor(released - reach), np.ceil(released + reach)
        flat = interval(released.ravel(), np.full(released.size, std_dev), ALPHA, LevelErrors())
        now = [each.reshape(released.shape) for each in flat]
        figures = []
        for lower, upper in (before, now):
            inside = ((lower <= truth) & (truth <= upper)) @ likely
            figures += [f"{100 * inside.mean():.1f} %", f"{((upper - lower) @ likely).mean():.1f}"]
        print(f"| {std_dev:g} | {' | '.join(figures)} | {100 * inside.min():.1f}–{100 * inside.max():.1f} % |")


def show_totals(chosen: Any) -> None:
    """How often intervals of districts contain the true number; and the mean squared error over its variance."""
    print("| mechanism | districts | covered | error² / std_dev² | median std_dev | as if independent |")
    print("| --- | --- | --- | --- | --- | --- |")
    for mechanism in mechanisms("municipalities"):
        figures: dict[str, list[Any]] = {"at random": [], "of neighbors": []}
        for run in range(chosen.runs):
            job = planned("municipalities", mechanism, chosen, run)
            release = make_release(job)
            leaves, counts = true_cells(job)[-1]
            true = looked_up(np.arange(job.tree.n_leaves), leaves, counts)
            of_leaves = release.table(release.levels[-1])
            kinds = {
                "at random": np.random.default_rng(run).integers(0, len(true) // 7, len(true)),
                "of neighbors": (np.arange(len(true)) + run) // 7,
            }
            for kind, district in kinds.items():
                table = job.tree.leaf_table().append_column("district", pa.array(district))
                replicates = None if isinstance(mechanism, tt.counts.LeastSquares) else chosen.replicates
                made = release.total(table, by="district", alpha=ALPHA, replicates=replicates, seed=1_000_000 + run)
                sums = np.bincount(district, true)[made["district"].cast(pa.int64()).to_numpy()]
                inside = (made["ci_lower"].to_numpy() <= sums) & (sums <= made["ci_upper"].to_numpy())
                std_dev = made["std_dev"].to_numpy()
                squares = (made["count"].to_numpy() - sums) ** 2 / std_dev**2
                alone = np.nan
                if "std_dev" in of_leaves.column_names:
                    alone = np.median(np.sqrt(np.bincount(district, of_leaves["std_dev"].to_numpy() ** 2)))
                figures[kind].append([inside.mean(), squares.mean(), np.median(std_dev), alone])
        for kind, rows in figures.items():
            covers, ratio, std_dev, alone = np.mean(rows, axis=0)
            name = type(mechanism).__name__
            shown = "" if np.isnan(alone) else f"{alone:.1f}"
            print(f"| {name} | {kind} | {100 * covers:.1f} % | {ratio:.2f} | {std_dev:.1f} | {shown} |", flush=True)


def mechanisms(name: str) -> list[Any]:
    if name == "taxi":
        return [tt.sizes.Joint(), tt.sizes.Matching(), tt.sizes.CumulativeProjection()]
    return [tt.counts.TopDown(), tt.counts.LeastSquares()]


def covered(name: str, mechanism: Any, chosen: Any) -> tuple[tuple[str, ...], dict[str, list[list[float]]]]:
    found: dict[str, list[list[float]]] = {}
    for run in range(chosen.runs):
        job = planned(name, mechanism, chosen, run)
        release = make_release(job)
        made = release
        if chosen.replicates:
            made = tt.replicate_errors(release, chosen.replicates, alpha=ALPHA, seed=1_000_000 + run)
        truth = true_cells(job)
        stated = made.statement["errors"]["levels"] if chosen.replicates else []
        hidden = {each["level"]: each["unlisted_ci_upper"] for each in stated}
        noise = {each["level"]: each.get("noise", {}).get("std_dev", 0.0) for each in made.statement["levels"]}
        for depth, level in enumerate(made.levels):
            keys, table = published_keys(release, made, level, job), made.table(level, alpha=ALPHA)
            figures = of_level(keys, table, truth[depth], noise[level], hidden.get(level))
            found.setdefault(level, []).append(figures)
    return made.levels, found


def planned(name: str, mechanism: Any, chosen: Any, seed: int) -> Any:
    data, budget = chosen.data, tt.Budget(epsilon=chosen.epsilon, delta=DELTA)
    options = {"neighboring": "change_one", "mechanism": mechanism, "seed": seed}
    if name == "taxi":
        table = pq.read_table(data / "taxi_2013_manhattan.parquet")
        leaves = table.select(["half", "neighbourhood"]).group_by(["half", "neighbourhood"]).aggregate([])
        tree = tt.Hierarchy.from_table(leaves, ["half", "neighbourhood"])
        options |= {"neighboring": "add_remove", "size": "size", "groups": "groups"}
        return plan_group_sizes(SizesArguments(table, tree, tt.Budget(epsilon=chosen.epsilon), **options))
    if name in ("commutes", "municipalities"):
        made = commutes()
        levels = made.municipalities.column_names
        tree = tt.Hierarchy.from_table(made.municipalities, levels)
        sides = {side: [f"{side}_{level}" for level in levels] for side in ("origin", "destination")}
        if name == "commutes":
            options |= {"origins": tree, "destinations": tree, "budget": budget, **sides}
            return plan_flows(FlowsArguments(made.commutes, **options))
        records = made.commutes.select(sides["origin"]).rename_columns(levels)
        return plan_counts(CountsArguments(records, tree, budget, **options))
    areas = pq.read_table(data / f"{name.rpartition('_')[0]}_areas.parquet")
    tree = tt.Hierarchy.from_table(areas, areas.column_names)
    trips = pq.read_table(data / f"{name}.parquet")
    origin = [column for column in trips.column_names if column.startswith("o")]
    destination = [column for column in trips.column_names if column.startswith("d")]
    (count,) = set(trips.column_names) - {*origin, *destination}
    options |= {"origins": tree, "destinations": tree, "origin": origin, "destination": destination, "count": count}
    return plan_flows(FlowsArguments(trips, budget=budget, **options))


def true_cells(job: Any) -> list[tuple[Any, Any]]:
    """Cells and their true numbers, level by level."""
    if isinstance(job, PlannedCounts):
        return list(job.tabulate()._levels.values())
    levels = sum_over_tree(job.tree, ReleasedSizes(*job._groups_of_leaves()), job.largest)
    return [(level.nodes * (job.largest + 1) + level.sizes, level.groups) for level in levels]


def published_keys(release: tt.Release, made: tt.Release, level: str, job: Any) -> Any:
    nodes = release.level_tables[level].nodes
    return nodes if isinstance(job, PlannedCounts) else nodes * (job.largest + 1) + made.table(level)["size"].to_numpy()


def of_level(keys: Any, table: Any, truth: Any, noise: float, hidden: int | None) -> list[float]:
    true = looked_up(keys, *truth)
    lower, upper = table["ci_lower"].to_numpy(), table["ci_upper"].to_numpy()
    inside = (lower <= true) & (true <= upper)
    there, small = true > 0, (true > 0) & (true <= noise)
    absent = truth[1][~np.isin(truth[0], keys)]
    return [
        len(keys),
        np.mean(true == 0) if len(keys) else np.nan,
        *(np.mean(part) if len(part) else np.nan for part in (inside, inside[there], inside[small])),
        np.median(upper - lower) if len(keys) else np.nan,
        np.mean(true[there] > upper[there]) if there.any() else np.nan,
        np.mean(absent <= hidden) if len(absent) and hidden is not None else np.nan,
    ]


def row(figures: list[list[float]]) -> list[str]:
    columns = np.array(figures).T
    means = [np.nanmean(column) if not np.isnan(column).all() else np.nan for column in columns]
    cells, empty, inside, there, small, width, above, absent = means
    shares = [
        f"{100 * share:.1f} %" if share == share else "" for share in (empty, inside, there, small, above, absent)
    ]
    return [f"{cells:,.0f}", *shares[:4], f"{width:,.0f}", *shares[4:]]


if __name__ == "__main__":
    main()
