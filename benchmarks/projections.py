"""The projections of TopDown against the paper's black boxes, in one process, as Markdown.

    python benchmarks/projections.py [--only speed|mechanisms] [--sample 300] [--runs 3] [--shared ../shared]

* speed: the families of children that InfTDA meets on od_random_complete and od_binary_complete (epsilon 1, delta 1e-8,
  the paper's accounting). Ours project all of them at once, as TopDown calls them, and one by one; the black boxes a
  random sample, one CVXPY problem each, as in the paper. Families of one child need no solver and are left out of the
  sample. Figures are processor time per node.
* mechanisms: each projection as a complete mechanism on od_random_sparse down to its third level on both sides, with
  the same keys: maximum error and false discovery rate per level.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import SHARED

import tallytree as tt
from tallytree.evaluate.metrics import false_discovery_rate, max_absolute_error
from tallytree.private.measurer import Measurer
from tallytree.private.noise.discrete import KeyedNoise
from tallytree.run import FlowsArguments, plan_flows
from tallytree.solvers.papers import simplex_programs as black_boxes
from tallytree.solvers.trees import simplex

PROJECTIONS: dict[str, Callable[..., Any]] = {
    "chebyshev": simplex.chebyshev_families,
    "euclidean": simplex.euclidean_families,
    "cvxpy-linf": partial(black_boxes.by_family, black_boxes.chebyshev_mip),
    "cvxpy-l2": partial(black_boxes.by_family, black_boxes.euclidean_rounded),
}
BLACK_BOX = {"chebyshev": "cvxpy-linf", "euclidean": "cvxpy-l2"}
ONE = {"chebyshev": simplex.chebyshev, "euclidean": simplex.euclidean}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["speed", "mechanisms"])
    parser.add_argument("--sample", type=int, default=300, help="families per data set that the black boxes project")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--shared", type=Path, default=SHARED, help="has data/")
    arguments = parser.parse_args()
    if arguments.only in (None, "speed"):
        speed(arguments.shared / "data", arguments.sample)
    if arguments.only in (None, "mechanisms"):
        mechanisms(arguments.shared / "data", arguments.runs)


def planned(data: Path, name: str, mechanism: Any, deepest: int | None = None) -> tuple[Any, pa.Table]:
    """The job that publishes a data set, and its trips; only its first levels where not all are wanted."""
    trips = pq.read_table(data / f"od_{name}.parquet")
    levels = [column.removeprefix("origin_") for column in trips.column_names if column.startswith("origin_")]
    levels = levels[:deepest]
    leaves = pq.read_table(data / f"od_{name.split('_')[0]}_areas.parquet").group_by(levels, use_threads=False)
    areas = tt.Hierarchy.from_table(leaves.aggregate([]), levels)
    sides = {side: [f"{side}_{level}" for level in levels] for side in ("origin", "destination")}
    options = {"neighboring": "change_one", "accounting": "paper", "mechanism": mechanism, "count": "count"}
    budget = tt.Budget(epsilon=1, delta=1e-8)
    given = FlowsArguments(trips, origins=areas, destinations=areas, budget=budget, **sides, **options)
    return plan_flows(given), trips


def families(data: Path, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All that InfTDA projects: noisy values, offsets, totals."""
    job, _ = planned(data, name, tt.counts.TopDown())
    true = job.tabulate()
    measurer = Measurer(true, job.plan, KeyedNoise(bytes(32)))
    released = job.mechanism.reconcile(job.tree, true.total, measurer)
    values: list[np.ndarray] = []
    sizes: list[np.ndarray] = []
    totals: list[np.ndarray] = []
    for depth in range(1, len(job.tree.levels)):
        above = released[depth - 1]
        if job.tree.levels[depth] in job.plan.levels:
            sizes.append(job.tree.child_counts(depth - 1, above.nodes))
            totals.append(above.counts)
    values = [measurement.values.astype(np.int64) for measurement in measurer.taken]
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    return np.concatenate(values), offsets, np.concatenate(totals)


def speed(data: Path, sample: int) -> None:
    print(
        "\n| data | families | nodes | projection | µs / node | one by one, µs / node | black box, µs / node |", end=""
    )
    print(" black box / ours | / one by one |\n" + "| --- " * 9 + "|")
    for name in ("random_complete", "binary_complete"):
        noisy, offsets, totals = families(data, name)
        size = np.diff(offsets)
        candidates = np.flatnonzero((size > 1) & (totals > 0))
        chosen = np.sort(np.random.default_rng(1).choice(candidates, min(sample, len(candidates)), replace=False))
        rows = [noisy[offsets[i] : offsets[i + 1]] for i in chosen]
        sampled = np.concatenate(rows), np.concatenate([[0], np.cumsum(size[chosen])]), totals[chosen]
        for ours, theirs in BLACK_BOX.items():
            PROJECTIONS[ours](noisy, offsets, totals)  # compiles
            together = min(timed(PROJECTIONS[ours], noisy, offsets, totals) for _ in range(5)) / len(noisy)
            alone = min(timed(one_by_one, ONE[ours], rows, sampled[2]) for _ in range(3)) / len(sampled[0])
            box = timed(PROJECTIONS[theirs], *sampled) / len(sampled[0])
            print(
                f"| {name} | {len(totals):,} | {len(noisy):,} | {ours} / {theirs} | {1e6 * together:.3f} "
                f"| {1e6 * alone:.2f} | {1e6 * box:,.0f} | {box / together:,.0f} | {box / alone:,.0f} |",
                flush=True,
            )


def one_by_one(project: Callable[..., Any], rows: list[np.ndarray], totals: np.ndarray) -> None:
    for row, total in zip(rows, totals.tolist(), strict=True):
        project(row, total)


def timed(action: Callable[..., Any], *arguments: Any) -> float:
    begin = time.process_time()
    action(*arguments)
    return time.process_time() - begin


def mechanisms(data: Path, runs: int) -> None:
    levels: tuple[str, ...] = ()
    rows = []
    for name in PROJECTIONS:
        job, trips = planned(data, "random_sparse", tt.counts.TopDown(name), deepest=3)
        true = job.tabulate()
        levels = job.tree.levels
        errors, seconds = np.zeros((runs, len(levels), 2)), 0.0
        for run in range(runs):
            measurer = Measurer(true, job.plan, KeyedNoise(run.to_bytes(32, "big")))
            begin = time.process_time()
            released = job.mechanism.reconcile(job.tree, true.total, measurer)
            seconds += (time.process_time() - begin) / runs
            for depth, level in enumerate(released):
                paths = job.tree.path_table(depth, level.nodes)
                table = pa.table({**{c: paths[c] for c in paths.column_names}, "count": level.counts})
                errors[run, depth] = max_absolute_error(table, trips), false_discovery_rate(table, trips)
        mean = errors.mean(axis=0)
        cells = " | ".join(f"{error:.1f} / {100 * false:.1f} %" for error, false in mean[1:])
        rows.append(f"| {name} | {seconds:.2f} | {cells} |")
    print(f"\n| projection | seconds | {' | '.join(levels[1:])} |\n" + "| --- " * (len(levels) + 1) + "|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
