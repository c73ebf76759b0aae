"""Whether the share of unreliable numbers that a plan predicts is that of the releases, on real data.

    python benchmarks/planned_quality.py [--cases military …] [--epsilons 0.1 1 10] [--runs 10] [--replicates 20]

The plan simulates on the data themselves (`tallytree plan --like`), so that what is compared is the prediction, not how
alike last year's data are. Observed is the share of numbers with the verdict `unreliable` or
`not_distinguishable_from_0` in releases; of mechanisms without errors of their own, after 50 replicates. The standard
error is over releases and over plans (half of the replicates each).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import real_sets

import tallytree as tt
from tallytree.numbers.accuracy.simulated_errors import simulated_errors
from tallytree.release.quality import NEAR_ZERO, UNRELIABLE, numbers_by_verdict
from tallytree.run import (
    CountsArguments,
    SizesArguments,
    TablesArguments,
    make_release,
    plan_counts,
    plan_group_sizes,
    plan_tables,
)

Planner = Callable[[float, int | None], Any]
"""From ε and a seed to a planned release."""
DELTA = 1e-8


@cache
def counted(name: str) -> tuple[pd.DataFrame, tt.Hierarchy]:
    """Records by leaf, and their tree."""
    records, levels = real_sets.COUNTS[name]()
    return _summed(records, levels), tt.Hierarchy.from_table(records[levels].drop_duplicates(), levels=levels)


@cache
def tabled(name: str) -> tuple[pd.DataFrame, real_sets.Tables]:
    """Records by cell, and their tables."""
    data = real_sets.TABLES[name]()
    return _summed(data.records, [column for column in data.records if column != "count"]), data


def _summed(records: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    grouped = records.groupby(columns, as_index=False, observed=True)
    return grouped["count"].sum() if "count" in records else grouped.size().rename(columns={"size": "count"})


def counts(name: str, mechanism: Any, epsilon: float, seed: int | None) -> Any:
    records, tree = counted(name)
    budget = tt.Budget(epsilon=epsilon, delta=DELTA)
    options: dict[str, Any] = {"neighboring": "add_remove", "mechanism": mechanism, "seed": seed}
    return plan_counts(CountsArguments(records, tree, budget, count="count", **options))


def tables(name: str, design: str, epsilon: float, seed: int | None) -> Any:
    records, data = tabled(name)
    budget = tt.Budget(epsilon=epsilon, delta=DELTA)
    options: dict[str, Any] = {"neighboring": "add_remove", "tables": data.designs[design], "seed": seed}
    return plan_tables(TablesArguments(records, data.product, budget, count="count", **options))


def sizes(name: str, mechanism: Any, epsilon: float, seed: int | None) -> Any:
    groups, levels = real_sets.SIZES[name]()
    tree = tt.Hierarchy.from_table(groups[levels].drop_duplicates(), levels=levels)
    options: dict[str, Any] = {"size": "size", "groups": "groups", "max_group_size": real_sets.LARGEST_SIZE}
    options |= {"neighboring": "add_remove", "mechanism": mechanism, "seed": seed}
    return plan_group_sizes(SizesArguments(groups, tree, tt.Budget(epsilon=epsilon), **options))


CASES: dict[str, Planner] = {
    "military by rank": partial(counts, "military by rank", None),
    "cities of the world": partial(counts, "cities of the world", None),
    "cities of the world, TopDown": partial(counts, "cities of the world", tt.counts.TopDown()),
    "Chem97 by school": partial(counts, "Chem97 by school", None),
    "InstEval by lecturer": partial(counts, "InstEval by lecturer", None),
    "military, few tables": partial(tables, "military", "few"),
    "Chem97, few tables": partial(tables, "Chem97", "few"),
    "InstEval, few tables": partial(tables, "InstEval", "few"),
    "Chem97, schools by pupils, Joint": partial(sizes, "Chem97 (schools by pupils)", None),
    "Chem97, schools by pupils, Matching": partial(sizes, "Chem97 (schools by pupils)", tt.sizes.Matching()),
}


def observed(release: tt.Release) -> dict[str, float]:
    """By level, the share of numbers that are not usable."""
    if not any("std_dev" in table.read(0, 0).column_names for table in release.level_tables.values()):
        release = tt.replicate_errors(release, 50, seed=1)
    found = {}
    for level, table in release.level_tables.items():
        by_verdict = numbers_by_verdict([table.read(0, table.num_rows)], _errors(release))
        found[level] = (by_verdict[UNRELIABLE] + by_verdict[NEAR_ZERO]) / max(sum(by_verdict.values()), 1)
    return found


def _errors(release: tt.Release) -> Any:
    from tallytree.release.intervals import LevelErrors

    return LevelErrors((release.statement.get("errors") or {}).get("replicates"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="*", default=list(CASES), metavar="NAME")
    parser.add_argument("--epsilons", nargs="*", type=float, default=[0.1, 1.0, 10.0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--replicates", type=int, default=20)
    given = parser.parse_args()
    print("| data | ε | level | numbers | predicted | observed | difference / standard error |\n" + "| --- " * 7 + "|")
    for name in given.cases:
        for epsilon in given.epsilons:
            planned = CASES[name](epsilon, None)
            like = planned.arguments.records
            halves = [simulated_errors(planned, like, replicates=given.replicates // 2, seed=seed) for seed in (1, 2)]
            runs = [observed(make_release(CASES[name](epsilon, seed))) for seed in range(given.runs)]
            for first, second in zip(*halves, strict=True):
                shares = [run[first.level] for run in runs]
                print(row(name, epsilon, first, second.unreliable or 0.0, shares), flush=True)


def row(name: str, epsilon: float, first: Any, second: float, shares: list[float]) -> str:
    """A row of the table."""
    predicted, seen = (first.unreliable + second) / 2, np.mean(shares)
    error = np.hypot(np.std(shares, ddof=1) / np.sqrt(len(shares)), abs(first.unreliable - second) / 2)
    off = (predicted - seen) / error if error else 0.0 if predicted == seen else np.inf
    figures = f"{predicted:.1%} | {seen:.1%} ± {error:.1%} | {off:+.1f}"
    return f"| {name} | {epsilon:g} | {first.level} | {first.nodes:,} | {figures} |"


if __name__ == "__main__":
    main()
