"""Flows whose cells learn from each other: errors at every level beside today's default, and beside publishing nothing.

    python benchmarks/flows_learn.py [--data storms,day] [--epsilon 0.1,0.5,1,3] [--runs 3] [--pure]

The relative error is Σ|published − true| / Σ true. A cell without a row counts as 0, so publishing no leaf has 1. All
mechanisms of a run are given the same noise. `÷ least` divides the leaves' error with remainders by the least of κ = 0,
`"auto"` and 1. The ratios to `"auto"`, level by level below the root, are of means over the runs, with the standard
error of the worst level that has not the counts of the default. `laws` is how often the laws of cells were chosen.
`held` is the least share of 90 % intervals that hold the truth at any level, of levels with 100 listed nodes or more
over all runs.

`storms 5`, `2`, `1` and `20-5-1` are the storms' moves between cells of so many degrees, which makes them sparser.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from unlisted import data_set, each_case, errors, parser_of, planned

import tallytree as tt
from tallytree.counts import LeastSquares
from tallytree.counts.unlisted import Remainders
from tallytree.private.measurer import Measurer
from tallytree.private.noise.discrete import KeyedNoise

DELTA = 1e-8
STORMS = {"storms 5": (20, 5), "storms 2": (20, 2), "storms 1": (10, 1), "storms 20-5-1": (20, 5, 1)}
NAMES = (
    "storms", *STORMS, "baseball", "flights", "day", "binary_complete", "binary_dense", "binary_sparse",
    "random_complete", "random_dense", "random_sparse",
)  # fmt: skip


def flows_of(name: str) -> Any:
    """Trips, the areas' leaves, and their levels."""
    if name not in STORMS:
        return data_set(name)
    import real_sets

    seen = real_sets._rdata("dplyr", "storms")
    for degrees in STORMS[name]:
        lat, long = (seen[each].astype(float).floordiv(degrees).mul(degrees).astype(int) for each in ("lat", "long"))
        seen[f"{degrees}"] = lat.astype(str) + " " + long.astype(str)
    return real_sets._one_to_the_next(seen, ["name", "year"], [f"{degrees}" for degrees in STORMS[name]])


def held(level: Any, true: tuple[Any, Any]) -> tuple[int, int]:
    """How many 90 % intervals of listed nodes hold the true number, and how many there are."""
    known = level.errors
    lower, upper = (each.astype(float) for each in known._intervals(0.1))
    chosen = np.isfinite(known.listed_from)
    lower = np.where(chosen, lower, np.floor(known.unbiased - 1.645 * known.std_dev))
    upper = np.where(chosen, upper, np.ceil(known.unbiased + 1.645 * known.std_dev))
    order = np.argsort(true[0])
    at = np.minimum(np.searchsorted(true[0], level.nodes, sorter=order), len(order) - 1)
    exact = np.where(true[0][order][at] == level.nodes, true[1][order][at], 0)
    inside = (np.minimum(lower, level.counts) <= exact) & (exact <= np.maximum(upper, level.counts))
    return int(inside.sum()), len(exact)


def run(name: str, data: Any, epsilon: float, runs: int, pure: bool) -> None:
    """Print the errors of a data set at a budget."""
    budget = tt.Budget(epsilon=epsilon) if pure else tt.Budget(epsilon=epsilon, delta=DELTA)
    job = planned(data, budget, LeastSquares())
    statistics, tree = job.tabulate(), job.tree
    true = [statistics.present(level) for level in tree.levels]
    made: dict[str, list[list[float]]] = {"0": [], "auto": [], "remainder": []}
    laws, inside = 0, []
    for seed in range(1, runs + 1):
        for option, found in made.items():
            mechanism = Remainders() if option == "remainder" else LeastSquares(sparsity="auto" if option != "0" else 0)
            measurer = Measurer(statistics, job.plan, KeyedNoise(seed.to_bytes(32, "big")))
            levels, facts = mechanism.reconcile_and_tell(tree, None, measurer)
            found.append(errors(job, true, levels))
        laws += facts["unlisted"]["learned"]
        inside.append([held(level, exact) for level, exact in zip(levels, true, strict=True)])
    means = {option: np.mean(found, axis=0) for option, found in made.items()}
    ratios = means["remainder"] / np.maximum(means["auto"], 1e-12)
    worst = int(np.argmax(np.where(means["remainder"] == means["auto"], 0, ratios)))
    paired = np.array(made["remainder"])[:, worst] - ratios[worst] * np.array(made["auto"])[:, worst]
    error = paired.std(ddof=1) / runs**0.5 / max(means["auto"][worst], 1e-12) if runs > 1 else np.nan
    shares = [hit / of for hit, of in np.sum(inside, axis=0) if of >= 100]
    leaf = {option: each[-1] for option, each in means.items()}
    print(
        f"| {name} | {epsilon:g} | {leaf['0']:.3f} | {leaf['auto']:.3f} | {leaf['remainder']:.3f} |"
        f" {leaf['remainder'] / min(1, leaf['0'], leaf['auto']):.3f} | {' '.join(f'{each:.2f}' for each in ratios)} |"
        f" {error:.3f} | {laws / runs:.1f} | {min(shares, default=np.nan):.2f} |",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    parser: argparse.ArgumentParser = parser_of(__doc__)
    parser.set_defaults(data=",".join(NAMES), epsilon="0.1,0.5,1,3")
    print('| data | ε | κ = 0 | "auto" | remainder | ÷ least | ÷ "auto", levels | ± | laws | held |\n|' + " --- |" * 10)
    each_case(parser.parse_args(), run, flows_of)


if __name__ == "__main__":
    main()
