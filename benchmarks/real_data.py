"""Accuracy on the papers' data sets beside the published figures, as Markdown tables (mean of N runs).

    python benchmarks/real_data.py [--runs 10] [--data ../shared/data] [--reference ../shared/reference]

Needs the data sets beside the repository. Errors are of the released tables against the true ones.
"""

from __future__ import annotations

import argparse
import functools
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import tallytree as tt
from tallytree.evaluate.metrics import earth_movers_distance, false_discovery_rate, max_absolute_error

SHARED = Path(__file__).resolve().parents[2] / "shared"
EPSILONS = (0.1, 1, 10)
DELTA = 1e-8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    parser.add_argument("--reference", type=Path, default=SHARED / "reference")
    arguments = parser.parse_args()
    root_estimators(arguments.data, arguments.runs)
    taxi_matching(arguments.data, arguments.runs)
    for name in ("random_complete", "random_sparse"):
        flows(name, arguments.data, arguments.reference, arguments.runs)


def root_estimators(data: Path, runs: int) -> None:
    """Kuo et al. 2018, Table 3: one node, epsilon 1, K = 100,000."""
    print("\n## One node, epsilon = 1, K = 100,000: mean earth mover's distance (s.e.)\n")
    print("| data | estimator | tallytree | published |\n| --- | --- | --- | --- |")
    published = {
        ("taxi", "cumulative"): 2819.8,
        ("taxi", "sorted"): 11227.6,
        ("taxi", "naive"): 208977518,
        ("hawaiian", "cumulative"): 254.0,
        ("hawaiian", "sorted"): 516.2,
    }
    for (name, estimator), figure in published.items():
        rows = groups_at_root(name, data)
        root = tt.Hierarchy.from_table(pd.DataFrame({"all": ["all"]}), levels=["all"])
        mechanism = tt.sizes.Matching(estimator=estimator, norm=2 if estimator == "sorted" else 1)
        distances = [
            mean_distance(
                tt.release_group_sizes(
                    rows,
                    root,
                    tt.Budget(epsilon=1),
                    size="size",
                    groups="groups",
                    neighboring="add_remove",
                    max_group_size=100_000,
                    mechanism=mechanism,
                ).table("all"),
                rows,
            )
            for _ in range(runs)
        ]
        print(f"| {name} | {estimator} | {mean_and_error(distances)} | {figure:,.1f} |")


def taxi_matching(data: Path, runs: int) -> None:
    """Kuo et al. 2018, Table 4: three levels, epsilon 1 in all."""
    print("\n## taxi, three levels, Matching cumulative, epsilon = 1 in all: mean earth mover's distance per node\n")
    print("| K | all | half | neighbourhood |\n| --- | --- | --- | --- |")
    rows = pq.read_table(data / "taxi_2013_manhattan.parquet")
    path = ["half", "neighbourhood"]
    areas = tt.Hierarchy.from_table(rows.group_by(path).aggregate([]), path)
    for largest in (20_000, 100_000):
        distances = []
        for _ in range(runs):
            release = tt.release_group_sizes(
                rows,
                areas,
                tt.Budget(epsilon=1),
                size="size",
                groups="groups",
                neighboring="add_remove",
                max_group_size=largest,
                mechanism=tt.sizes.Matching(),
            )
            distances.append([mean_distance(release.table(level), rows) for level in release.levels])
        figures = " | ".join(mean_and_error(column) for column in np.transpose(distances))
        print(f"| {largest:,} | {figures} |")
    print("| published | 10,547 | 5,431.5 | 1,601.8 |")


def flows(name: str, data: Path, reference: Path, runs: int) -> None:
    """Boninsegna and Silvestri 2025, Figures 4 and 5: maximum absolute error and false discovery rate."""
    print(f"\n## {name}, destination tree, delta = 1e-8, paper accounting: ours / published\n")
    print("| epsilon | level | max error | published | ratio | false discoveries % | published % |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    published = pd.read_csv(reference / "inftda_published.csv")
    published = published[(published.dataset == name) & (published.mechanism == "InfTDA")]
    areas = tt.Hierarchy.from_table(data / "od_random_areas.parquet", [f"level{i}" for i in range(1, 5)])
    origin, destination = ([f"{side}_level{i}" for i in range(1, 5)] for side in ("origin", "destination"))
    trips = pq.read_table(data / f"od_{name}.parquet")
    for epsilon in EPSILONS:
        errors = []
        for _ in range(runs):
            release = tt.release_flows(
                trips,
                origins=areas,
                destinations=areas,
                origin=origin,
                destination=destination,
                count="count",
                budget=tt.Budget(epsilon=epsilon, delta=DELTA),
                neighboring="change_one",
                accounting="paper",
                mechanism=tt.counts.TopDown(),
            )
            errors.append([count_errors(release, level, trips) for level in release.levels])
        means = np.mean(errors, axis=0)
        ratios = []
        for depth, level in enumerate(release.levels):
            figure = published[(published.epsilon == epsilon) & (published.level == depth)].iloc[0]
            ratio = means[depth, 0] / figure.max_abs_error_mean if figure.max_abs_error_mean else np.nan
            ratios.append(ratio)
            print(
                f"| {epsilon} | {depth} {level} | {means[depth, 0]:.1f} | {figure.max_abs_error_mean:.1f} "
                f"| {ratio:.2f} | {means[depth, 1]:.1f} | {figure.false_discovery_pct:.1f} |"
            )
        print(f"| {epsilon} | mean over levels 1-8 | | | {np.nanmean(ratios):.3f} | | |")


def count_errors(release: tt.Release, level: str, trips: pa.Table) -> tuple[float, float]:
    """Maximum absolute error, and the share of released cells that have no trips, in percent."""
    released = release.table(level)
    return max_absolute_error(released, trips), 100 * false_discovery_rate(released, trips)


def mean_distance(released: pa.Table, true: pa.Table) -> float:
    return float(earth_movers_distance(released, true).mean())


@functools.cache
def groups_at_root(name: str, data: Path) -> pa.Table:
    file = "taxi_2013_manhattan.parquet" if name == "taxi" else "hawaiian_2010_blocks_nation.parquet"
    rows = pq.read_table(data / file, columns=["size", "groups"])
    return rows.append_column("all", pa.array(["all"] * rows.num_rows))


def mean_and_error(values: list[float]) -> str:
    return f"{np.mean(values):,.1f} ({np.std(values, ddof=1) / np.sqrt(len(values)):,.1f})"


if __name__ == "__main__":
    main()
