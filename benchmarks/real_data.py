"""What releases state, held against real data: errors, bias, and how often 90 % intervals hold, by size of the number.

    python benchmarks/real_data.py [--sets military …] [--epsilons 0.1 1 10] [--shares auto even uneven] [--runs 5]
    python benchmarks/real_data.py --page      # docs/reference/real-data.md from benchmarks/real_data.json

The metrics are those that the Census Bureau publishes for its disclosure avoidance: mean absolute error, mean error,
root mean square error, by size of the true number. Beside them: that error over what unconstrained least squares errs
on the same noise, over what the release states, and the coverage of its intervals with its standard error over runs.
Every table of a release is looked at, the ones that were only measured too. Results are added to real_data.json.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import real_sets

import tallytree as tt

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "real_data.json"
PAGE = HERE.parent / "docs" / "reference" / "real-data.md"
CLASSES = ((0, 0), (1, 5), (6, 20), (21, 50), (51, 200), (201, math.inf))
JUDGED = 100
"""A class of fewer cells times runs is not judged; nor is the ratio of a table with fewer than five times as many."""
ALPHA, LEAST_COVERAGE, MOST_RATIO = 0.1, 0.87, 1.1


def measured_tables(name: str, design: str, epsilon: float, shares: str, runs: int) -> Iterator[dict[str, Any]]:
    """A row for each table of a design, and one for each class of true numbers in it."""
    data = real_sets.TABLES[name]()
    tables = data.designs[design]
    count = "count" if "count" in data.records else None
    split: Any = {"auto": "auto", "even": "even"}.get(shares)
    if split is None:
        split = {table: 100 if i % 2 else 1 for i, table in enumerate(tables)}
    found: dict[str, list[dict[str, np.ndarray]]] = {}
    for run in range(runs):
        release = tt.release_tables(
            data.records, data.product, tt.Budget(epsilon=epsilon, delta=1e-8), neighboring="add_remove",
            tables=tables, budget_split=split, count=count, seed=run,
        )  # fmt: skip
        for about in release.statement["levels"]:
            found.setdefault(about["level"], []).append(_errors(release, tuple(about["table"]), data.records, count))
    about_case = {"data": name, "design": design, "epsilon": epsilon, "shares": shares, "runs": runs}
    for table, errors in found.items():
        yield about_case | {"table": table, "class": "all"} | _metrics(errors)
        for low, high in CLASSES:
            part = [{k: v[(e["true"] >= low) & (e["true"] <= high)] for k, v in e.items()} for e in errors]
            if sum(len(e["true"]) for e in part) >= JUDGED:
                yield about_case | {"table": table, "class": _shown(low, high)} | _metrics(part)


def _errors(release: tt.Release, table: tuple[str, ...], records: pd.DataFrame, count: str | None) -> dict[str, Any]:
    """True numbers, errors of the published and of the unbiased ones, and whether intervals hold, cell by cell."""
    shown = release.table(*table, alpha=ALPHA, unbiased=True).to_pandas()
    paths = [column for column in shown.columns if column in records.columns and column != "count"]
    if paths:
        grouped = records.groupby(paths, observed=True)
        true = (grouped[count].sum() if count else grouped.size()).rename("true").reset_index()
        true[paths] = true[paths].astype(str)
        values = shown.merge(true, on=paths, how="left")["true"].fillna(0).to_numpy().astype(np.int64)
    else:
        values = np.array([records[count].sum() if count else len(records)])
    return {
        "true": values,
        "error": shown["count"].to_numpy() - values,
        "unbiased": shown["unbiased"].to_numpy() - values,
        "stated": shown["std_dev"].to_numpy(),
        "held": ((shown["ci_lower"] <= values) & (values <= shown["ci_upper"])).to_numpy(),
        "width": (shown["ci_upper"] - shown["ci_lower"]).to_numpy(),
    }


def _metrics(runs: Sequence[dict[str, np.ndarray]]) -> dict[str, Any]:
    """The figures of a table, or of a class of its cells, with standard errors over runs."""
    pooled = {key: np.concatenate([run[key] for run in runs]) for key in runs[0]}
    rmse = math.sqrt((pooled["error"] ** 2).mean())
    least_squares = math.sqrt((pooled["unbiased"] ** 2).mean())
    ratios = [math.sqrt((run["error"] ** 2).mean() / max((run["unbiased"] ** 2).mean(), 1e-9)) for run in runs]
    held = [run["held"].mean() for run in runs if len(run["held"])]
    return {
        "cells": len(pooled["true"]) // len(runs),
        "mae": round(float(np.abs(pooled["error"]).mean()), 2),
        "bias": round(float(pooled["error"].mean()), 2),
        "rmse": round(rmse, 2),
        "stated": round(math.sqrt((pooled["stated"] ** 2).mean()), 2),
        "ratio": round(rmse / max(least_squares, 1e-9), 3),
        "ratio_error": round(_standard_error(ratios), 3),
        "coverage": round(float(pooled["held"].mean()), 4),
        "coverage_error": round(_standard_error(held), 4),
        "width": round(float(pooled["width"].mean() / (3.29 * pooled["stated"].mean())), 2),
    }


def _standard_error(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.inf


def _shown(low: float, high: float) -> str:
    return "0" if high == 0 else f"> {low - 1:g}" if high == math.inf else f"{low:g}-{high:g}"


def fails(row: dict[str, Any]) -> list[str]:
    """What of a row is false: intervals that hold too rarely, or a table that errs too much."""
    found = []
    judged = row["cells"] * row["runs"]
    if judged >= JUDGED and row["coverage"] < LEAST_COVERAGE - 2 * row["coverage_error"]:
        found.append("coverage")
    slack = 0 if judged >= 5 * JUDGED else 2 * row["ratio_error"]
    if row["class"] == "all" and row["ratio"] - slack > MOST_RATIO:
        found.append("error")
    return found


def page(rows: Sequence[dict[str, Any]]) -> str:
    """docs/reference/real-data.md."""
    whole = [row for row in rows if row["class"] == "all"]
    classes = [row for row in rows if row["class"] != "all"]
    large = [row for row in whole if row["cells"] * row["runs"] >= 5 * JUDGED]
    text = [
        "# Real data",
        "",
        "What releases of tables state, held against data that nobody here generated (`residents` is made up, for",
        "comparison). The packages install by name; `benchmarks/real_sets.py` says how. Metrics are those that the Census",
        "Bureau publishes: mean absolute error, mean error (bias), root mean square error (RMSE), by size of the true",
        "number. LS is least squares without constraints on the same noise. Budgets are (ε, δ = 1e-8). Shares are",
        "`auto`, `even`, or 100 : 1 by turns (`uneven`).",
        "",
        "```sh",
        "python benchmarks/real_data.py          # measures; an hour",
        "python benchmarks/real_data.py --page   # writes this page from benchmarks/real_data.json",
        "```",
        "",
        f"{len(whole):,} tables of {len({_case(row) for row in whole})} cases were looked at, and {len(classes):,} classes",
        f"of {JUDGED} cells times runs or more. An interval of 90 % is judged to hold if it covers at least 87 % of the",
        "cells of a class, less two standard errors; a table to be as accurate as least squares if its RMSE is at most",
        "1.1 times that of LS, where it has 500 cells times runs, and less two standard errors where it has fewer.",
        "",
        f"* Classes whose intervals do not hold: **{sum('coverage' in fails(row) for row in rows)}** of {len(rows):,}.",
        f"* Tables that err more: **{sum('error' in fails(row) for row in whole)}** of {len(whole):,}. The largest ratio",
        f"  of a table with 500 cells or more is {max(row['ratio'] for row in large):.2f}, the mean"
        f" {np.mean([row['ratio'] for row in large]):.2f}.",
        f"* Coverage over all classes is {np.mean([row['coverage'] for row in classes]):.3f} on average;"
        f" {sum(row['coverage'] > 0.93 for row in classes)} classes have more than 93 %,",
        "  mostly cells whose true number is 0: an interval that is cut at 0 cannot miss them from below.",
        "",
        "## Worst first: error beside least squares",
        "",
        *_grid(sorted(large, key=lambda row: -row["ratio"])[:15]),
        "",
        "## Worst first: coverage of a class",
        "",
        *_grid(sorted(classes, key=lambda row: row["coverage"] + 2 * row["coverage_error"])[:15]),
        "",
        "## By size of the true number, ε = 1",
        "",
        "All tables of all cases together. Bias is what rounding and x ≥ 0 do; intervals cover it.",
        "",
        "| true number | classes | coverage, mean | coverage, least | bias, mean of absolute | bias ÷ stated, largest |",
        "| --- | --- | --- | --- | --- | --- |",
        *_by_size([row for row in classes if row["epsilon"] == 1]),
        "",
        "## Every case",
        "",
        "| data | design | ε | shares | tables | RMSE ÷ LS, worst | mean | coverage, least | mean |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *_cases(whole),
        "",
    ]
    return "\n".join(text)


def _case(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["data"], row["design"], row["epsilon"], row["shares"]


def _grid(rows: Sequence[dict[str, Any]]) -> list[str]:
    head = "| data | design | ε | shares | table | true number | cells | MAE | bias | RMSE ÷ stated | RMSE ÷ LS | coverage |"
    lines = [head, "|" + " --- |" * 12]
    for row in rows:
        coverage = f"{row['coverage']:.3f} ± {row['coverage_error']:.3f}"
        lines.append(
            f"| {row['data']} | {row['design']} | {row['epsilon']:g} | {row['shares']} | {row['table']} | {row['class']} | "
            f"{row['cells']:,} | {row['mae']:,} | {row['bias']:+,} | {row['rmse'] / max(row['stated'], 1e-9):.2f} | "
            f"{row['ratio']:.2f} | {coverage} |"
        )
    return lines


def _by_size(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    for low, high in CLASSES:
        own = [row for row in rows if row["class"] == _shown(low, high)]
        if own:
            covered, bias = [row["coverage"] for row in own], [abs(row["bias"]) for row in own]
            relative = max(abs(row["bias"]) / max(row["stated"], 1e-9) for row in own)
            yield (
                f"| {_shown(low, high)} | {len(own)} | {np.mean(covered):.3f} | {min(covered):.3f} | {np.mean(bias):.2f} | "
                f"{relative:.2f} |"
            )


def _cases(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    for case in sorted({_case(row) for row in rows}, key=lambda case: tuple(map(str, case))):
        own = [row for row in rows if _case(row) == case]
        ratios, covered = [row["ratio"] for row in own], [row["coverage"] for row in own if row["cells"] * row["runs"] >= JUDGED]
        yield (
            f"| {case[0]} | {case[1]} | {case[2]:g} | {case[3]} | {len(own)} | {max(ratios):.2f} | {np.mean(ratios):.2f} | "
            + (f"{min(covered):.3f} | {np.mean(covered):.3f} |" if covered else "- | - |")
        )


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(real_sets.TABLES), choices=list(real_sets.TABLES))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 1.0, 10.0])
    parser.add_argument("--shares", nargs="+", default=["auto", "even", "uneven"])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--page", action="store_true", help="write the page and measure nothing")
    given = parser.parse_args()
    rows = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    if not given.page:
        for name in given.sets:
            try:
                designs = list(real_sets.TABLES[name]().designs)
            except real_sets.NotThere as error:
                print(f"left out: {error}", file=sys.stderr)
                continue
            for design in designs:
                for epsilon in given.epsilons:
                    for shares in given.shares:
                        new = list(measured_tables(name, design, epsilon, shares, given.runs))
                        rows = [row for row in rows if _case(row) != _case(new[0])] + new
                        RESULTS.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8")
                        worst = max((row for row in new if row["class"] == "all"), key=lambda row: row["ratio"])
                        failed = [(row["table"], row["class"], fails(row)) for row in new if fails(row)]
                        print(name, design, epsilon, shares, "worst", worst["table"], worst["ratio"], failed, flush=True)
    PAGE.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
