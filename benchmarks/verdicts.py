"""How true the verdicts and intervals of counts, flows and group sizes are, on real data, by what a reader can see.

    python benchmarks/verdicts.py [--sets storms …] [--epsilons 0.1 1 10] [--options default …] [--runs 5]

For each data set and ε: of the numbers that are called reliable, the share that is off by more than a third of the
number, and of those to be used with care, by more than two thirds; both with standard errors over runs. Then how often
90 % intervals hold, by verdict, by published number, by true number and by width (tenths): the least of each kind of
class that has 100 numbers times runs. Rows that are not listed are left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import pandas as pd
import real_data
import real_sets

import tallytree as tt

OPTIONS = {"default": {}, "zero": {"mechanism": tt.counts.LeastSquares()}, "remainder": {"unlisted": "remainder"}}
WORSE_THAN = {"reliable": (1 / 3, 0.05), "with_care": (2 / 3, 0.1)}
EDGES = [-1, 0, 5, 20, 50, 200, np.inf]
LEAST = 0.87


def releases(name: str, epsilon: float, option: str, runs: int) -> Iterator[pd.DataFrame]:
    """The numbers of all levels of each release, with the true ones."""
    budget = tt.Budget(epsilon=epsilon, delta=1e-8)
    for run in range(runs):
        if name in real_sets.COUNTS:
            records, levels = real_sets.COUNTS[name]()
            count = "count" if "count" in records else None
            tree = tt.Hierarchy.from_table(records[levels].drop_duplicates(), levels=levels)
            release = tt.release_counts(
                records, tree, budget, neighboring="add_remove", count=count, seed=run, **OPTIONS[option]
            )
        else:
            records, areas, names = real_sets.FLOWS[name]()
            count, tree = "count", tt.Hierarchy.from_table(areas, levels=names)
            sides = [[f"{side}_{level}" for level in names] for side in ("origin", "destination")]
            release = tt.release_flows(
                records, origins=tree, destinations=tree, origin=sides[0], destination=sides[1], budget=budget,
                neighboring="add_remove", count=count, seed=run, **OPTIONS[option],
            )  # fmt: skip
        parts = []
        for level in release.levels:
            shown = release.table(level, alpha=0.1, unbiased=True).to_pandas()
            paths = [column for column in shown if column in records and column != "count"]
            shown = shown.dropna(subset=paths).assign(level=level)
            parts.append(shown.assign(true=real_data.true_numbers(shown, records, count)))
        yield pd.concat(parts)


def off_by_more(numbers: pd.DataFrame, share: float) -> pd.Series:
    """Whether each published number is off by more than a share of itself."""
    return (numbers["count"] - numbers["true"]).abs() > share * numbers["count"].abs()


def _share(runs: list[pd.DataFrame], verdict: str, worse: float, most: float) -> str:
    chosen = [run[run["quality"] == verdict] for run in runs]
    shares = [off_by_more(each, worse).mean() for each in chosen if len(each)]
    if not shares:
        return "-"
    error = np.std(shares, ddof=1) / len(shares) ** 0.5 if len(shares) > 1 else 0.0
    found = f"{np.mean(shares):.1%} ± {error:.1%} of {sum(map(len, chosen)) / len(runs):.0f}"
    return found if np.mean(shares) <= most + 2 * error else f"**{found}**"


def classes(numbers: pd.DataFrame) -> dict[str, pd.Series]:
    """What a reader can see of each number, and its true size."""
    width = numbers["ci_upper"] - numbers["ci_lower"]
    return {
        "verdict": numbers["quality"].astype(str),
        "number": pd.cut(numbers["count"], EDGES),
        "true": pd.cut(numbers["true"], EDGES),
        "width": pd.qcut(width, 10, duplicates="drop"),
    }


def row(name: str, epsilon: float, option: str, runs: list[pd.DataFrame]) -> str:
    """A row of the table; in bold what misses its bound."""
    numbers = pd.concat(runs, keys=range(len(runs)), names=["run"])
    numbers = numbers.assign(held=(numbers["ci_lower"] <= numbers["true"]) & (numbers["true"] <= numbers["ci_upper"]))
    cells = [name, f"{epsilon:g}", option, *(_share(runs, each, *WORSE_THAN[each]) for each in WORSE_THAN)]
    for kind, found in classes(numbers).items():
        held = numbers.groupby([found.to_numpy(), "run"], observed=True)["held"].agg(["mean", "size"])
        of = held.groupby(level=0, observed=True).agg({"mean": ["mean", "sem"], "size": "sum"})
        of = of[of["size", "sum"] >= real_data.JUDGED]
        if of.empty:
            cells.append("-")
            continue
        least = of["mean", "mean"].idxmin()
        mean, sem = of.loc[least, ("mean", "mean")], np.nan_to_num(of.loc[least, ("mean", "sem")])
        text = f"{mean:.1%} ± {sem:.1%} ({least if kind == 'verdict' else getattr(least, 'right', least):})"
        cells.append(text if mean >= LEAST - 2 * sem else f"**{text}**")
    cells.append(f"{(numbers['ci_upper'] - numbers['ci_lower']).mean():.2f}")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=[*real_sets.COUNTS, *real_sets.FLOWS], metavar="NAME")
    parser.add_argument("--epsilons", nargs="*", type=float, default=[0.1, 0.3, 1.0, 3.0, 10.0])
    parser.add_argument("--options", nargs="*", default=["default"], choices=list(OPTIONS))
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    heading = ["data", "ε", "option", "reliable, off by > 1/3", "with care, off by > 2/3"]
    heading += [f"held, least by {kind}" for kind in ("verdict", "number", "true", "width")] + ["mean width"]
    print(f"| {' | '.join(heading)} |\n" + "| --- " * len(heading) + "|")
    for name in given.sets:
        for option in given.options:
            if name in real_sets.COUNTS and option == "remainder":
                continue
            for epsilon in given.epsilons:
                print(row(name, epsilon, option, list(releases(name, epsilon, option, given.runs))), flush=True)


if __name__ == "__main__":
    main()
