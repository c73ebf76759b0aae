"""The mechanisms of Fioretto, Van Hentenryck and Zhu 2021 at the size of their data, as Markdown tables.

    python benchmarks/group_sizes.py [--patience 300] [--only speed|full]

1. Speed: the exact projection against the paper's cost tables (numba) and against its convex relaxation through cvxpy
   with the fastest open solver, in one process, on census-like data with as many sizes N as the peer finishes within
   the patience (1,000 at most). Needs `tallytree[papers]`.
2. Full size: post-processing time and peak memory of each mechanism, each in a process of its own.

Errors beside the paper's are an experiment: `tallytree reproduce fioretto-table7`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import Timed, peak_gibibytes
from tallytree.datasets.group_sizes import GroupSizes

import tallytree as tt
from tallytree.datasets import fioretto
from tallytree.private.measurer import Measurer
from tallytree.private.noise.discrete import KeyedNoise
from tallytree.run import SizesArguments, plan_group_sizes
from tallytree.sizes import CensusTopDown, Chain, CumulativeProjection, HistogramProjection, Matching, SizesDomain
from tallytree.sizes.nearest_consistent import size_forest
from tallytree.sizes.noisy import measure_levels
from tallytree.solvers.papers import cost_table
from tallytree.solvers.papers.tree_programs import tree_relaxed
from tallytree.solvers.trees import project as tree

EPSILONS = (0.1, 0.5, 1.0)
MECHANISMS = {
    "M_H^dp": HistogramProjection(),
    "M_c^dp": CumulativeProjection(),
    "M_c^ch": Chain("as_published"),
    "Chain, valid": Chain(),
    "TopDown": CensusTopDown(),
    "Matching (Kuo)": Matching(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patience", type=float, default=300, help="seconds for the slower peer")
    parser.add_argument("--only", choices=["speed", "full"])
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one_at_full_size(arguments.one[0], float(arguments.one[1]))))
        return
    if arguments.only in (None, "speed"):
        speed(arguments.patience)
    if arguments.only in (None, "full"):
        full_size()


# --- Speed ---


def speed(patience: float) -> None:
    """Each peer beside the exact projection on the same noisy tables, with as many sizes as it has patience for."""
    print("\n## Exact projection against its peers, census-like data, epsilon = 0.1 (scale 60, delta 21,600)\n")
    print("| peer | N | nodes | peer, s | exact, s | peer / exact | objective of the peer | of exact |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for peer, solve in PEERS.items():
        solve(*problem(1), 300)  # compile everything, and load the solvers
        exactly(*problem(1))
        sizes = 8
        while True:
            parent, values, total = problem(sizes)
            theirs, seconds = timed(solve, parent, values, total, 21_600)
            if seconds > 0.6 * patience or sizes == 1_000:
                break
            sizes = min(max(sizes + 1, int(sizes * min(6.0, 0.8 * patience / seconds))), 1_000)
        ours, exact_seconds = timed(exactly, parent, values, total)
        costs = [_objective(x, values) for x in (theirs, ours)]
        if isinstance(costs[0], int) and costs[0] != costs[1]:
            raise AssertionError(f"the objectives differ: {costs}")
        print(
            f"| {peer} | {sizes} | {len(parent):,} | {seconds:.2f} | {exact_seconds:.3f} | "
            f"{seconds / exact_seconds:,.0f} | {costs[0]} | {costs[1]} |",
            flush=True,
        )


def exactly(parent: Any, values: Any, total: int) -> Any:
    return tree.project(parent, values, _all_but_the_root(parent), total=total)


def _all_but_the_root(parent: Any) -> Any:
    return np.append(np.ones(len(parent) - 1, dtype=np.int64), 0)


PEERS: dict[str, Callable[..., Any]] = {
    "cost tables as published (numba)": lambda parent, values, total, delta: (
        cost_table.project(parent, values, delta=delta, total=total).x
    ),
    "cost tables merged by counting (ours, numba)": lambda parent, values, total, delta: (
        cost_table.project(parent, values, delta=delta, total=total, merge="count").x
    ),
    "convex relaxation (cvxpy, Clarabel)": lambda parent, values, total, delta: tree_relaxed(
        parent, values, _all_but_the_root(parent), total=total, time_limit=3_000
    ),
}


def timed(solve: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    begin = time.perf_counter()
    found = solve(*arguments)
    return found, time.perf_counter() - begin


def problem(n_sizes: int) -> tuple[Any, Any, int]:
    """The forest of census-like data, noisy at epsilon 0.1, and its total."""
    data = fioretto.census_like(n_sizes=max(n_sizes, 60))
    data = fioretto.truncated(data, n_sizes)
    _, measurer, domain, _ = prepared(data, HistogramProjection(), 0.1)
    noisy = measure_levels(domain, measurer, "histogram")
    parent, values = size_forest(noisy)
    return parent, values, int(domain.total or 0)


def _objective(x: Any, values: Any) -> int | str:
    """Of integers exactly; of reals, which may be lower, in four digits after the point."""
    if x.dtype == np.int64:
        return int(((x - values)[:-1].astype(object) ** 2).sum())
    return f"{((x - values)[:-1] ** 2).sum():,.4f}"


# --- Full size ---


def full_size() -> None:
    print("\n## Census-like at full size (117.6 million groups, 3,197 nodes, 1,000 sizes)\n")
    print("| mechanism | epsilon | post-processing, s | measuring, s | peak memory, GiB |")
    print("| --- | --- | --- | --- | --- |")
    for name in MECHANISMS:
        for epsilon in EPSILONS:
            command = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--one", name, str(epsilon)]
            facts = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            print(f"| {name} | {epsilon} | {facts['post']:.2f} | {facts['measure']:.2f} | {facts['peak']:.2f} |")


def one_at_full_size(name: str, epsilon: float) -> dict[str, float]:
    """One mechanism, after compilation on a small part."""
    mechanism = MECHANISMS[name]
    small = fioretto.truncated(fioretto.census_like(n_sizes=60), 5)
    mechanism, measurer, domain, _ = prepared(small, mechanism, epsilon)
    mechanism.reconcile(domain, measurer)
    mechanism, measurer, domain, _ = prepared(fioretto.census_like(), mechanism, epsilon)
    timed = Timed(measurer)
    begin = time.perf_counter()
    mechanism.reconcile(domain, timed)
    total = time.perf_counter() - begin
    return {"post": total - timed.seconds, "measure": timed.seconds, "peak": peak_gibibytes()}


def prepared(data: GroupSizes, mechanism: Any, epsilon: float) -> tuple[Any, Measurer, SizesDomain, Any]:
    """Everything up to the first measurement, only the total public, as in the paper."""
    hierarchy = tt.Hierarchy.from_table(data.leaves, levels=data.levels)
    given = SizesArguments(
        data.rows,
        hierarchy,
        tt.Budget(epsilon=epsilon),
        neighboring="add_remove",
        mechanism=mechanism,
        size="size",
        groups="groups",
        invariants="total",
        max_group_size=data.largest,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        planned = plan_group_sizes(given)
    found = planned.tabulate()
    measurer = Measurer(found.true, planned.plan, KeyedNoise(bytes(range(32))))
    return mechanism, measurer, found.domain, planned


if __name__ == "__main__":
    main()
