"""`budget_split="auto"` of `Joint` beside a grid of splits, on the data of Kuo et al. (2018).

    python benchmarks/auto_split.py --only taxi --runs 4

`--only held-out` has other data, generated. White and housing take half a minute and a minute for each split and run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from common import SHARED, Data, generated, taxi

from tallytree.datasets import kuo
from tallytree.sizes.joint import Joint

GRID: tuple[tuple[float, ...], ...] = (
    (1, 1, 1), (1, 1, 4), (1, 1, 18), (1, 1, 98), (1, 1, 998), (4, 1, 1), (1, 4, 1), (1, 2, 1), (2, 3, 1), (1, 3, 9),
    (4, 1, 18), (18, 1, 1), (1, 18, 1),
)  # fmt: skip
"""Weights of the root, of each level between, and of the leaves; the corners included."""


def generated_leaves(
    fan_outs: Sequence[int], mean: int, law: Callable[[np.random.Generator, int, float], np.ndarray], largest: int,
    spread: float, rng: np.random.Generator,
) -> Data:  # fmt: skip
    """Leaves with log-normal numbers of groups, whose sizes `law(rng, groups, scale of the leaf)` draws."""
    paths: list[tuple[str, ...]] = [()]
    for fan_out in fan_outs:
        paths = [(*path, f"{'.'.join(path)}.{i}") for path in paths for i in range(fan_out)]
    levels = [f"l{depth}" for depth in range(len(fan_outs))]
    leaf, size, groups = [], [], []
    for j in range(len(paths)):
        count = max(1, int(mean * np.exp(spread * rng.normal() - spread**2 / 2)))
        drawn = np.clip(law(rng, count, np.exp(0.3 * rng.normal())), 0, largest).astype(int)
        sizes, counts = np.unique(drawn, return_counts=True)
        leaf += [j] * len(sizes)
        size += sizes.tolist()
        groups += counts.tolist()
    columns = {level: [paths[j][i] for j in leaf] for i, level in enumerate(levels)}
    leaves = pa.table({level: [path[i] for path in paths] for i, level in enumerate(levels)})
    return Data(pa.table({**columns, "size": size, "groups": groups}), leaves, levels, largest)


def held_out() -> Iterator[tuple[str, Data]]:
    """Data on which nothing of the estimate was chosen."""
    rng = np.random.default_rng(77)
    yield (
        "schools",
        generated_leaves([5, 7], 227, lambda r, n, t: np.minimum(567, r.lognormal(3.5, 1.1, n) * t), 2_000, 1.0, rng),
    )
    yield (
        "households",
        generated_leaves([12, 9, 8], 900, lambda r, n, t: r.geometric(min(0.9, 0.4 / t), n), 200, 0.6, rng),
    )
    yield "firms", generated_leaves([10, 30], 400, lambda r, n, t: r.pareto(1.1, n) * t + 1, 5_000, 1.0, rng)
    yield "binary tree", generated_leaves([2] * 5, 2_000, lambda r, n, t: r.gamma(2, 20 * t, n), 500, 0.4, rng)


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
        middle = len(levels) - 2
        splits = [(w[0], *[w[1]] * middle, w[2]) for w in GRID]
        tried = {weights: errors(data, epsilon, dict(zip(levels, weights, strict=True)), runs) for weights in splits}
        tried[tuple(chosen)] = found
        means = {weights: np.log(each).mean() for weights, each in tried.items()}
        best = min(means, key=lambda weights: means[weights])
        loss, even = (np.exp(means[each] - means[best]) - 1 for each in (tuple(chosen), splits[0]))
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
    parser.add_argument("--only", choices=["taxi", "hawaiian", "white", "housing", "held-out"], action="append")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--epsilon", type=float, nargs="*", default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--chosen-only", action="store_true", help="no grid")
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    arguments = parser.parse_args()
    for name in arguments.only or ["taxi", "hawaiian", "white", "housing"]:
        if name == "held-out":
            for name_of_data, data in held_out():
                for epsilon in arguments.epsilon:
                    compare(name_of_data, data, epsilon, arguments.runs, not arguments.chosen_only)
            continue
        data = taxi(arguments.data, 20_000) if name == "taxi" else generated(getattr(kuo, name)())
        for epsilon in arguments.epsilon:
            compare(name, data, epsilon, arguments.runs, not arguments.chosen_only)


if __name__ == "__main__":
    main()
