"""How true the verdicts of numbers are, on real data and on made-up ones.

    python benchmarks/quality.py [--cases military …] [--epsilons 0.1 1 10] [--runs 5]

Of the numbers that a release calls reliable, the share whose error is more than a third of the true number; of those to
be used with care, the share whose error is more than two thirds: two standard deviations, where the standard deviation
is as large as the verdict admits. So each is to be at most 5 %, but for two standard errors over the runs. Of those
that are not distinguishable from 0, the share that are 0. True numbers are those of a release of the same data with
hardly any noise; cells that it does not list are 0. The cases are those of `derived.py` but group sizes, of
which single numbers have no error without replicates.
"""

from __future__ import annotations

import argparse

import derived
import numpy as np
import pandas as pd

import tallytree as tt

MOST = 0.05
GROUP_SIZES = ("demo, households", "Chem97, schools by pupils", "InstEval, lecturers by ratings")
WORSE_THAN = {"reliable": 1 / 3, "with_care": 2 / 3}
"""Of each verdict, the relative error that few numbers are to have."""


def judged(release: tt.Release, true: tt.Release) -> pd.DataFrame:
    """The verdict and the relative error of every number with a standard deviation."""
    parts = []
    for table in release.tables:
        shown = release.to_pandas(*table)
        number = "count" if "count" in shown else "groups"
        paths = [name for name in shown.columns if name in true.to_pandas(*table).columns and name != number]
        paths = [name for name in paths if name not in ("std_dev", "typical_error", "ci_lower", "ci_upper", "quality",
                                                        "tail_count", "tail_std_dev", "probability_zero")]  # fmt: skip
        wanted = true.to_pandas(*table)[[*paths, number]].rename(columns={number: "true"})
        both = shown.merge(wanted, on=paths, how="left") if paths else shown.assign(true=wanted["true"].to_numpy())
        both["true"] = both["true"].fillna(0.0)
        both["off"] = (both[number] - both["true"]).abs() / both["true"].clip(lower=1e-9)
        parts.append(both[["quality", "off", "true"]])
    return pd.concat(parts).dropna(subset=["quality"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="*", metavar="NAME")
    parser.add_argument("--epsilons", nargs="*", type=float, default=[0.1, 1.0, 10.0])
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    heading = ("data", "ε", "runs", "reliable", "off by > 1/3", "with care", "off by > 2/3", "near 0", "of these 0")
    print(f"| {' | '.join(heading)} |\n" + "| --- " * len(heading) + "|")
    for name in given.cases or [name for name in derived.CASES if name not in GROUP_SIZES]:
        case = derived.CASES[name]()
        true = case.release(derived.EXACT, 0)
        for epsilon in given.epsilons:
            budget = tt.Budget(epsilon=epsilon, delta=1e-8)
            runs = [judged(case.release(budget, run), true) for run in range(given.runs)]
            print(row(name, epsilon, runs), flush=True)


def row(name: str, epsilon: float, runs: list[pd.DataFrame]) -> str:
    """A row of the table; in bold what does not hold."""
    cells = [name, f"{epsilon:g}", str(len(runs))]
    for verdict, most in WORSE_THAN.items():
        chosen = [run[run["quality"] == verdict] for run in runs]
        shares = [float((each["off"] > most).mean()) for each in chosen if len(each)]
        cells.append(f"{np.mean([len(each) / len(run) for each, run in zip(chosen, runs, strict=True)]):.1%}")
        error = np.std(shares, ddof=1) / np.sqrt(len(shares)) if len(shares) > 1 else 0.0
        text = f"{np.mean(shares):.2%} ± {error:.2%}" if shares else "-"
        cells.append(text if not shares or np.mean(shares) <= MOST + 2 * error else f"**{text}**")
    near = [run[run["quality"] == "not_distinguishable_from_0"] for run in runs]
    cells.append(f"{np.mean([len(each) / len(run) for each, run in zip(near, runs, strict=True)]):.1%}")
    zero = [float((each["true"] == 0).mean()) for each in near if len(each)]
    cells.append(f"{np.mean(zero):.0%}" if zero else "-")
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
