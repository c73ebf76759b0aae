"""`LeastSquares(sparsity="auto")` on generated data of many kinds, beside κ = 0 and κ = 3, as a Markdown table.

    python benchmarks/sparsity.py [--releases 400] [--seed 31]

Each release draws its tree, budget, share of leaves that are not 0, law of their counts, and how they lie together.
All mechanisms of a release are given the same noise. The constants of "auto" were chosen with seed 11 (500 releases).
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pyarrow as pa

import tallytree as tt
from tallytree.counts import LeastSquares
from tallytree.private.measurer import Measurer
from tallytree.private.noise.discrete import KeyedNoise
from tallytree.run import plan_counts
from tallytree.run.arguments import CountsArguments

TREES = {
    "binary, 12 levels": [2] * 12,
    "4 levels of 10": [10] * 4,
    "one level of 2,000": [2000],
    "2 levels of 60": [60, 60],
    "5 levels of 5": [5] * 5,
    "3, 20, 2, 30": [3, 20, 2, 30],
    "9 levels of 1 to 5": [2, 1, 3, 2, 4, 2, 3, 2, 5],
}
BUDGETS: list[tuple[dict[str, float], str]] = [
    ({"epsilon": 1, "delta": 1e-8}, "change_one"),
    ({"epsilon": 0.2, "delta": 1e-6}, "change_one"),
    ({"epsilon": 6, "delta": 1e-8}, "change_one"),
    ({"epsilon": 1}, "add_remove"),
    ({"epsilon": 0.3}, "change_one"),
    ({"rho": 0.02}, "add_remove"),
]
SHARES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
LAWS = ("exponential", "Lomax 1.5", "log-normal 1.5", "constant")
MEANS = (3, 30, 300)
CLUSTERING = (0.0, 1.0, 2.0)
GROUPS = ((0, 0.01), (0.01, 0.03), (0.03, 0.1), (0.1, 0.3), (0.3, 1.1))


def drawn_counts(random: Any, branches: list[int], share: float, law: str, clustering: float, mean: float) -> Any:
    """int64 (leaves,): leaves are not 0 at rates that a gamma cascade down the tree makes, with a mean of `share`."""
    rate = np.ones(1)
    for branch in branches:
        rate = np.repeat(rate, branch)
        if clustering:
            rate = rate * random.gamma(1 / clustering, clustering, len(rate))
    there = random.random(len(rate)) < share * rate / rate.mean()
    there[random.integers(len(rate))] = True
    values = {
        "exponential": lambda: random.exponential(mean, len(rate)),
        "Lomax 1.5": lambda: random.pareto(1.5, len(rate)) * mean / 2,
        "log-normal 1.5": lambda: mean * np.exp(random.normal(0, 1.5, len(rate)) - 1.125),
        "constant": lambda: np.full(len(rate), float(mean)),
    }[law]()
    return np.where(there, 1 + np.floor(values), 0).astype(np.int64)


def figures(levels: Any, true: Any, tree: Any) -> Any:
    """Maximum and mean error over inner levels (mean over levels), and of leaves; false discoveries at the leaves."""
    rows = []
    for depth, level in enumerate(tree.levels[1:], 1):
        exact = true.cells(level, np.arange(tree.size(depth)), "counts")[0]
        counts = np.zeros(len(exact), np.int64)
        counts[levels[depth].nodes] = levels[depth].counts
        errors, positive = np.abs(counts - exact), counts > 0
        rows.append((errors.max(), errors.mean(), 100 * (exact[positive] == 0).mean() if positive.any() else 0))
    inner = np.mean([row[:2] for row in rows[:-1]], axis=0) if len(rows) > 1 else np.zeros(2)
    return np.array([*inner, *rows[-1]])


def release(number: int, seed: int, trees: dict[str, Any]) -> tuple[float, Any]:
    """The true share of leaves that are not 0, and the figures of κ = 0, κ = 3 and "auto"."""
    random = np.random.default_rng([seed, number])
    name = list(TREES)[random.integers(len(TREES))]
    if name not in trees:
        leaf, columns = np.arange(np.prod(TREES[name])), {}
        for depth in range(len(TREES[name])):
            columns[f"level{depth}"] = pa.array(leaf // int(np.prod(TREES[name][depth + 1 :]))).cast(pa.string())
        trees[name] = tt.Hierarchy.from_table(pa.table(columns), levels=list(columns))
    tree = trees[name]
    budget, neighboring = BUDGETS[random.integers(len(BUDGETS))]
    share, law, clustering, mean = (random.choice(each) for each in (SHARES, LAWS, CLUSTERING, MEANS))
    counts = drawn_counts(random, TREES[name], float(share), str(law), float(clustering), float(mean))
    records = tree.leaf_table().append_column("n", pa.array(counts)).filter(pa.array(counts > 0))
    job: Any = plan_counts(
        CountsArguments(records, tree, budget=tt.Budget(**budget), neighboring=neighboring, count="n")  # type: ignore[arg-type]
    )
    true = job.tabulate()
    total = true.total if job._total_is_published else None
    found = []
    for kappa in (0, 3, "auto"):
        measurer = Measurer(true, job.plan, KeyedNoise((number + 1).to_bytes(32, "big")))
        levels = LeastSquares(sparsity=kappa).reconcile(tree, total, measurer)  # type: ignore[arg-type]
        found.append(figures(levels, true, tree))
    return (counts > 0).mean(), np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", type=int, default=400)
    parser.add_argument("--seed", type=int, default=31)
    arguments = parser.parse_args()
    trees: dict[str, Any] = {}
    made = [release(number, arguments.seed, trees) for number in range(arguments.releases)]
    print("\nGeometric means of ratios to κ = 0, ± standard error; 95 % quantile of the first in brackets\n")
    print("| leaves not 0 | releases | κ | maximum error, inner levels | mean error, inner levels |"
          " maximum error, leaves | mean error, leaves | false discoveries %, leaves |\n|" + " --- |" * 8)  # fmt: skip
    for low, high in GROUPS:
        here = np.array([each for share, each in made if low < share <= high])
        if not len(here):
            continue
        for place, kappa in enumerate(("0", "3", '"auto"')):
            with np.errstate(invalid="ignore", divide="ignore"):
                logs = np.log((here[:, place, :4] + 1e-3) / (here[:, 0, :4] + 1e-3))
            means, errors = np.exp(logs.mean(axis=0)), logs.std(axis=0, ddof=1) / np.sqrt(len(logs))
            cells = [f"{mean:.3f} ± {error:.3f}" for mean, error in zip(means, errors, strict=True)]
            cells[0] += f" ({np.exp(np.quantile(logs[:, 0], 0.95)):.2f})"
            print(f"| {low} … {min(high, 1)} | {len(here)} | {kappa} | {' | '.join(cells)} | "
                  f"{here[:, place, 4].mean():.1f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
