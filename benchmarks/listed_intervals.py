"""How often the 90 % intervals of listed cells hold, and what share of cells with a chance of being 0 are 0.

    python benchmarks/listed_intervals.py [--data binary_sparse,day] [--epsilon 0.1,1,10] [--runs 3] [--pure]

Of the default of flows (where it drops something) and of `unlisted="remainder"`, on the generated data of
`unlisted.py`. `naive` is ± 1.645 standard deviations around the unbiased estimate of the leaves that might not have
been listed. The least level and class of true numbers are those with 100 cells times runs or more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from unlisted import DELTA, each_case, parser_of, planned

import tallytree as tt
from tallytree.counts import LeastSquares
from tallytree.counts.unlisted import Remainders
from tallytree.private.measurer import Measurer
from tallytree.private.noise.discrete import KeyedNoise
from tallytree.release.intervals import LevelErrors, with_intervals
from tallytree.release.released_tables import count_columns

CLASSES = ((0, 0), (1, 5), (6, 20), (21, 50), (51, 200), (201, 2**62))
CHANCES = (0.05, 0.1, 0.2, 0.3, 0.5)
FEWEST = 100


def cells(level: Any, true: tuple[Any, Any], laplace: bool) -> Any:
    """Of the listed nodes: true number, ends, chance of 0, and whether a naive interval holds (NaN: listed anyway)."""
    table = with_intervals(count_columns(level), 0.1, LevelErrors(laplace=laplace, rounding=0.25))
    nodes, counts = true
    order = np.argsort(nodes)
    at = np.minimum(np.searchsorted(nodes[order], level.nodes), len(nodes) - 1)
    number = np.where(nodes[order][at] == level.nodes, counts[order][at], 0)
    names = ("ci_lower", "ci_upper", "probability_zero", "unbiased", "std_dev", "listed_from")
    lower, upper, chance, unbiased, deviation, least = (table.column(name).to_numpy() for name in names)
    naive = np.where(np.isnan(least), np.nan, np.abs(unbiased - number) <= 1.645 * deviation)
    return np.stack([number, lower, upper, chance, naive])


def measure(name: str, data: Any, epsilon: float, runs: int, pure: bool) -> None:
    """Print a row for each way of listing."""
    budget = tt.Budget(epsilon=epsilon) if pure else tt.Budget(epsilon=epsilon, delta=DELTA)
    job = planned(data, budget, LeastSquares())
    statistics, tree = job.tabulate(), job.tree
    true = [statistics.present(level) for level in tree.levels]
    for label, mechanism in (("default", LeastSquares(sparsity="auto")), ("remainder", Remainders())):
        found: list[list[Any]] = [[] for _ in tree.levels]
        for seed in range(1, runs + 1):
            measurer = Measurer(statistics, job.plan, KeyedNoise(seed.to_bytes(32, "big")))
            for depth, level in enumerate(mechanism.reconcile(tree, None, measurer)):
                if level.errors is not None:
                    found[depth].append(cells(level, true[depth], pure))
        if not found[-1]:
            print(f"| {name} | {epsilon} | {label} | nothing was dropped |" + " |" * (4 + len(CHANCES)), flush=True)
            continue
        levels = [np.concatenate(each, axis=1) for each in found if each]
        held = [(each[1] <= each[0]) & (each[0] <= each[2]) for each in levels]
        least = min((each.mean() for each in held if len(each) >= FEWEST), default=np.nan)
        by_class = [
            hold[(each[0] >= low) & (each[0] <= high)]
            for each, hold in zip(levels, held, strict=True)
            for low, high in CLASSES
        ]
        worst = min((each.mean() for each in by_class if len(each) >= FEWEST), default=np.nan)
        leaf = levels[-1]
        ranges = [(leaf[3] >= low) & (leaf[3] < high) for low, high in zip(CHANCES, [*CHANCES[1:], 1.01], strict=True)]
        chances = [f"{(leaf[0, here] == 0).mean():.2f} ({here.sum():,})" if here.any() else "-" for here in ranges]
        print(
            f"| {name} | {epsilon} | {label} | {leaf.shape[1] // runs:,} | {np.nanmean(leaf[4]):.3f} |"
            f" {held[-1].mean():.3f} | {least:.3f} | {worst:.3f} | {' | '.join(chances)} |",
            flush=True,
        )


def main() -> None:
    """Print the table."""
    given = parser_of(__doc__).parse_args()
    chances = " | ".join(f"0 of {low:g}–{high:g}" for low, high in zip(CHANCES, [*CHANCES[1:], 1], strict=True))
    print(
        "| data | ε | listed by | leaves | naive | leaves hold | least level | least class | "
        + chances + " |\n|" + " --- |" * (8 + len(CHANCES))
    )  # fmt: skip
    each_case(given, measure)


if __name__ == "__main__":
    main()
