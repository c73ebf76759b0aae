"""`budget_split="auto"` of `Joint` beside a grid of splits, on the data of Kuo et al. (2018).

    python benchmarks/auto_split.py --only taxi --runs 4

White and housing take half a minute and a minute for each split and run.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from common import SHARED, Data, generated, taxi

from tallytree.datasets import kuo
from tallytree.sizes.joint import Joint

GRID = (
    (1, 1, 1), (1, 1, 4), (1, 1, 18), (1, 1, 98), (1, 1, 998), (4, 1, 1), (1, 4, 1), (1, 2, 1), (2, 3, 1), (1, 3, 9),
    (4, 1, 18), (18, 1, 1), (1, 18, 1),
)  # fmt: skip
"""Weights of the three levels, root first; the corners included."""


def errors(data: Data, epsilon: float, split: object, runs: int) -> np.ndarray:
    """The mean errors of the levels over `runs` seeds, float64 (levels,)."""
    return np.mean([data.run(Joint(), epsilon, seed, split)[0] for seed in range(1, runs + 1)], axis=0)


def compare(name: str, data: Data, epsilon: float, runs: int, grid: bool) -> None:
    """Print a row: the chosen split and its errors, the best of the grid, and how much larger the geometric mean is."""
    levels = data.hierarchy.levels
    plan = data.job(Joint(), epsilon, "auto").plan
    chosen = [float(plan.levels[level].share) for level in levels]
    found = errors(data, epsilon, "auto", runs)
    row = [name, f"{epsilon:g}", _shares(chosen), str(runs), _shown(found)]
    if grid:
        tried = {weights: errors(data, epsilon, dict(zip(levels, weights, strict=True)), runs) for weights in GRID}
        tried[tuple(chosen)] = found
        means = {weights: np.log(each).mean() for weights, each in tried.items()}
        best = min(means, key=lambda weights: means[weights])
        loss, even = (np.exp(means[each] - means[best]) - 1 for each in (tuple(chosen), (1, 1, 1)))
        row += [_shares(best), _shown(tried[best]), f"{loss:.1%}", f"{even:.0%}"]
    print("|", " | ".join(row), "|", flush=True)


def _shares(weights: object) -> str:
    share = np.array(weights, dtype=float) / np.sum(weights)
    return " / ".join(f"{each:.3f}" for each in share)


def _shown(values: np.ndarray) -> str:
    return " / ".join(f"{each:,.0f}" if each >= 1_000 else f"{each:.3g}" for each in values)


def main() -> None:
    """Parse the options and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["taxi", "hawaiian", "white", "housing"], action="append")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--epsilon", type=float, nargs="*", default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--chosen-only", action="store_true", help="no grid")
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    arguments = parser.parse_args()
    for name in arguments.only or ["taxi", "hawaiian", "white", "housing"]:
        data = taxi(arguments.data, 20_000) if name == "taxi" else generated(getattr(kuo, name)())
        for epsilon in arguments.epsilon:
            compare(name, data, epsilon, arguments.runs, not arguments.chosen_only)


if __name__ == "__main__":
    main()
