"""Expected errors of a plan beside those of releases, per level, as Markdown tables; and the time of a plan.

    python benchmarks/plan.py [--runs 10] [--epsilon 1] [--data ../shared/data] [NAME …]

NAME is one of the data sets below; all of them by default. Counts and flows have the budget (epsilon, delta = 1e-8)
under change_one, `taxi` has pure epsilon under add_remove. Releases are drawn with the seeds 0, 1, …, so the figures
can be had again.

Of counts and flows: *near 0*, the share of the level's cells whose true count is below three expected standard
deviations; *expected*, the closed form; *rms*, the root mean square error over all cells of the level, with its
standard error over runs; *true > 0*, the same over the cells that are not 0; *largest*, the mean of the largest error.
Of group sizes, expected errors are simulated on the release of another seed ("last year's"), and observed on the true
table.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from interval_coverage import DELTA, OD, SHARED
from interval_coverage import planned as data_set

import tallytree as tt
from tallytree.numbers.accuracy.expected_errors import ExpectedError, expected_errors
from tallytree.numbers.accuracy.simulated_errors import simulated_errors
from tallytree.numbers.accuracy.squared_errors import looked_up
from tallytree.release.view.release_view import published_level
from tallytree.run import CountsArguments, make_release, plan_counts

SIZES = ("taxi",)
NAMES = (*OD, "commutes", "municipalities", "made_up", *SIZES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    chosen = parser.parse_args()
    for name in chosen.names:
        if name in SIZES:
            for mechanism in (tt.sizes.Joint(), tt.sizes.Matching()):
                of_sizes(name, mechanism, chosen)
        else:
            for mechanism in (tt.counts.LeastSquares(), tt.counts.TopDown()):
                of_counts(name, mechanism, chosen)


def of_counts(name: str, mechanism: Any, chosen: Any) -> None:
    began = time.perf_counter()
    expected = expected_errors(planned(name, mechanism, chosen, None))
    seconds = time.perf_counter() - began
    found: list[list[list[float]]] = [[] for _ in expected]
    near: list[float] = []
    for run in range(chosen.runs):
        job = planned(name, mechanism, chosen, run)
        truth, release = job.tabulate(), make_release(job)
        for depth, level in enumerate(job.tree.levels):
            nodes, true = truth.present(level)
            size = job.tree.size(depth)
            if run == 0:
                near.append(1 - np.count_nonzero(true > 3 * (expected[depth].std_dev or 0.0)) / size)
            published = published_level(release.tables[level], job.tree, depth)
            errors = looked_up(nodes, published.nodes, published.numbers) - true
            beside = published.numbers[looked_up(published.nodes, nodes, np.ones(len(nodes))) == 0]
            squares = float(np.square(errors).sum() + np.square(beside).sum())
            largest = max(np.abs(errors).max(initial=0), np.abs(beside).max(initial=0))
            found[depth].append([squares / size, float(np.square(errors).mean()), float(largest)])
    print(f"\n{name}, {type(mechanism).__name__}: {chosen.runs} runs; planned in {seconds:.2f} s\n")
    print("| level | cells | near 0 | expected | rms | ratio | true > 0: rms | ratio | expected largest | largest |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for each, share, runs in zip(expected, near, found, strict=True):
        print(row(each, share, runs), flush=True)


def row(each: ExpectedError, near: float, runs: list[list[float]]) -> str:
    figures = np.array(runs)
    rms, true = np.sqrt(figures[:, :2].mean(axis=0))
    error = figures[:, 0].std(ddof=1) / math.sqrt(len(runs)) / 2 / max(rms, 1e-9)
    expected = each.std_dev or 0.0
    ratios = [f"{value / expected:.2f}" if expected else "" for value in (rms, true)]
    cells = [each.level, f"{each.nodes:,}", f"{near:.0%}", f"{expected:.2f}", f"{rms:.2f} ± {error:.2f}", ratios[0]]
    cells += [f"{true:.2f}", ratios[1], f"{each.expected_maximum or 0:.1f}", f"{figures[:, 2].mean():.1f}"]
    return f"| {' | '.join(cells)} |"


def of_sizes(name: str, mechanism: Any, chosen: Any) -> None:
    job = planned(name, mechanism, chosen, 10**6)
    last_year = make_release(job)
    expected = simulated_errors(job, last_year, replicates=chosen.runs, seed=1)
    observed = simulated_errors(job, job.arguments.records, replicates=chosen.runs, seed=2)
    print(f"\n{name}, {type(mechanism).__name__}: {chosen.runs} replicates\n")
    print("| level | expected, on last year's release | observed, on the true table | ratio |")
    print("| --- | --- | --- | --- |")
    for found, true in zip(expected, observed, strict=True):
        ratio = (true.std_dev or 0) / (found.std_dev or 1)
        print(f"| {found.level} | {found.std_dev:.2f} | {true.std_dev:.2f} | {ratio:.2f} |", flush=True)


def planned(name: str, mechanism: Any, chosen: Any, seed: int | None) -> Any:
    if name != "made_up":
        return data_set(name, mechanism, chosen, seed)
    leaves, budget = made_up(), tt.Budget(epsilon=chosen.epsilon, delta=DELTA)
    tree = tt.Hierarchy.from_table(leaves, ["region", "province", "county"])
    options = {"mechanism": mechanism, "neighboring": "change_one", "seed": seed}
    return plan_counts(CountsArguments(leaves, tree, budget, count="count", **options))


def made_up() -> pa.Table:
    """6 regions, 30 provinces, 197 counties with log-normal sizes (mean of the log 7, σ 1.2)."""
    rng = np.random.default_rng(14)
    province = np.sort(np.concatenate([np.arange(30), rng.integers(0, 30, 167)]))
    people = np.maximum(1, rng.lognormal(7, 1.2, 197)).astype(np.int64)
    return pa.table({"region": province // 5, "province": province, "county": np.arange(197), "count": people})


if __name__ == "__main__":
    main()
