"""How often 90 % intervals from replicates cover the true number, per level, as Markdown tables.

    python benchmarks/interval_coverage.py [--runs 5] [--replicates 50] [--epsilon 1]
                                           [--sparsity 3] [--data ../shared/data] [NAME …]

NAME is one of the data sets below; all of them by default. Epsilon is 1 by default, and delta 1e-8 (for
`taxi`, there is none). With `--replicates 0` the intervals are from the `std_dev` that `LeastSquares` knows itself.
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
import pyarrow.parquet as pq

import tallytree as tt
from tallytree.datasets.commutes import commutes
from tallytree.pipeline import (
    CountsArguments,
    FlowsArguments,
    PlannedCounts,
    SizesArguments,
    plan_counts,
    plan_flows,
    plan_group_sizes,
)
from tallytree.postprocess.squared_errors import looked_up
from tallytree.sizes.released_sizes import ReleasedSizes, sum_over_tree

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
    chosen = parser.parse_args()
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


def mechanisms(name: str) -> list[Any]:
    if name == "taxi":
        return [tt.sizes.Joint(), tt.sizes.Matching(), tt.sizes.CumulativeProjection()]
    return [tt.counts.TopDown(), tt.counts.LeastSquares()]


def covered(name: str, mechanism: Any, chosen: Any) -> tuple[tuple[str, ...], dict[str, list[list[float]]]]:
    found: dict[str, list[list[float]]] = {}
    for run in range(chosen.runs):
        job = planned(name, mechanism, chosen, run)
        release = job.run()
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
