"""What releases state, held against real data: errors, bias, and how often 90 % intervals hold, by size of the number.

    python benchmarks/real_data.py [--sets military …] [--epsilons 0.1 1 10] [--options auto …] [--runs N]
    python benchmarks/real_data.py --office FOLDER      # a made-up country instead; results are left in its folder
    python benchmarks/real_data_page.py      # docs/reference/real-data.md from benchmarks/real_data.json

The metrics are those that the Census Bureau publishes for its disclosure avoidance: mean absolute error, mean error,
root mean square error, by size of the true number. Beside them: that error over what the release states, over what
unconstrained least squares errs on the same noise (tables), and the coverage of its intervals with its standard error
over runs. Every table of a release is looked at, the ones that were only measured too. Results are added to
real_data.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import real_sets
import unlisted

import tallytree as tt

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "real_data.json"
CHANCES = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 1.01)
CLASSES = ((0, 0), (1, 5), (6, 20), (21, 50), (51, 200), (201, math.inf))
JUDGED = 100
"""A class of fewer cells times runs is not judged; nor is the ratio of a table with fewer than five times as many."""
Row = dict[str, Any]
Errors = dict[str, np.ndarray]
ALPHA, LEAST_COVERAGE, MOST_RATIO = 0.1, 0.87, 1.1


@cache
def read_tables(name: str) -> real_sets.Tables:
    """Records for tables, read once."""
    return real_sets.TABLES[name]()


def measured_tables(name: str, epsilon: float, option: str, runs: int) -> Iterator[Row]:
    """A row for each table of a case, and one for each class of true numbers in it.

    Args:
        name: of the data and the design, such as `military, two`.
        epsilon: the budget, with δ = 1e-8.
        option: shares of the budget: `auto`, `even`, or `uneven` (1 and 100 by turns).
        runs: how many releases.
    """
    data_name, design = name.split(", ")
    data = read_tables(data_name)
    tables = data.designs[design]
    count = "count" if "count" in data.records else None
    split: Any = {table: 100 if i % 2 else 1 for i, table in enumerate(tables)} if option == "uneven" else option
    found: dict[str, list[Errors]] = {}
    for run in range(runs):
        release = tt.release_tables(
            data.records, data.product, tt.Budget(epsilon=epsilon, delta=1e-8), neighboring="add_remove",
            tables=tables, budget_split=split, count=count, seed=run,
            precision=data.precision if option == "auto" else None,
        )  # fmt: skip
        for about in release.statement["levels"]:
            found.setdefault(about["level"], []).append(_errors(release, tuple(about["table"]), data.records, count))
    yield from _rows({"statistic": "tables", "data": name, "epsilon": epsilon, "option": option, "runs": runs}, found)


def measured_counts(name: str, epsilon: float, option: str, runs: int) -> Iterator[Row]:
    """As `measured_tables`, for counts by area: option is `default` (`LeastSquares`)."""
    records, levels = real_sets.COUNTS[name]()
    tree = tt.Hierarchy.from_table(records[levels].drop_duplicates(), levels=levels)
    count = "count" if "count" in records else None
    found: dict[str, list[Errors]] = {}
    for run in range(runs):
        release = tt.release_counts(
            records, tree, tt.Budget(epsilon=epsilon, delta=1e-8), neighboring="add_remove", count=count, seed=run,
        )  # fmt: skip
        for level in release.levels:
            found.setdefault(level, []).append(_listed_errors(release, level, records, levels, count, tree.size))
    yield from _rows({"statistic": "counts", "data": name, "epsilon": epsilon, "option": option, "runs": runs}, found)


def measured_flows(name: str, epsilon: float, option: str, runs: int) -> Iterator[Row]:
    """As `measured_tables`, for flows: all pairs, and (where intervals are) the listed ones alone; totals of areas.

    Option is `default` (`LeastSquares(sparsity="auto")`), `zero` (`LeastSquares()`) or `remainder`
    (`unlisted="remainder"`).
    """
    trips, areas, levels = real_sets.FLOWS[name]()
    tree = tt.Hierarchy.from_table(areas, levels=levels)
    options: dict[str, Any] = {
        "default": {},
        "zero": {"mechanism": tt.counts.LeastSquares()},
        "remainder": {"unlisted": "remainder"},
    }[option]
    origin, destination = ([f"{side}_{level}" for level in levels] for side in ("origin", "destination"))
    found: dict[str, list[Errors]] = {}
    chances: dict[str, list[Errors]] = {}
    totalled = unlisted.areas_at_random(areas.astype(str), levels, np.random.default_rng(0))
    for run in range(runs):
        release = tt.release_flows(
            trips, origins=tree, destinations=tree, origin=origin, destination=destination,
            budget=tt.Budget(epsilon=epsilon, delta=1e-8), neighboring="add_remove", count="count", seed=run,
            **options,
        )  # fmt: skip
        size = release.tree.size
        for level in release.levels:
            made = _listed_errors(release, level, trips, [*origin, *destination], "count", size)
            chances.setdefault(level, []).append({k: made.pop(k) for k in ("chance", "zero") if k in made})
            listed = {k.removeprefix("listed "): made.pop(k) for k in list(made) if k.startswith("listed ")}
            found.setdefault(level, []).append(made)
            if listed:
                found.setdefault(f"{level}, listed", []).append(listed)
        for kind, table in totalled.items():
            found.setdefault(f"totals of {kind}", []).append(_total_errors(release, table, trips))
    about = {"statistic": "flows", "data": name, "epsilon": epsilon, "option": option, "runs": runs}
    for row in _rows(about, found):
        known = [each for each in chances.get(row["table"].removesuffix(", listed"), ()) if each]
        yield row | ({"chances": _chances(known)} if known and row["class"] == "all" else {})


def _chances(runs: Sequence[Errors]) -> list[list[float]]:
    """By ranges of `probability_zero`: its ends, the number of cells, and the share of them that are 0."""
    chance, zero = (np.concatenate([run[key] for run in runs]) for key in ("chance", "zero"))
    found = []
    for low, high in itertools.pairwise(CHANCES):
        here = (chance >= low) & (chance < high)
        if here.any():
            found.append([low, min(high, 1.0), int(here.sum()), round(float(zero[here].mean()), 3)])
    return found


def measured_sizes(name: str, epsilon: float, option: str, runs: int) -> Iterator[Row]:
    """As `measured_tables`, for groups of at least each listed size: option is `default` (`Joint`) or `Matching`."""
    groups, levels = real_sets.SIZES[name]()
    tree = tt.Hierarchy.from_table(groups[levels].drop_duplicates(), levels=levels)
    found: dict[str, list[Errors]] = {}
    for run in range(runs):
        release = tt.release_group_sizes(
            groups, tree, tt.Budget(epsilon=epsilon), neighboring="add_remove", size="size", groups="groups",
            max_group_size=real_sets.LARGEST_SIZE, seed=run,
            mechanism=None if option == "default" else getattr(tt.sizes, option)(),
        )  # fmt: skip
        for level in release.levels:
            found.setdefault(level, []).append(_tail_errors(release, level, groups, levels))
    yield from _rows(
        {"statistic": "group sizes", "data": name, "epsilon": epsilon, "option": option, "runs": runs}, found
    )


MEASURED = {
    "tables": (measured_tables, ("auto", "even", "uneven")),
    "counts": (measured_counts, ("default",)),
    "flows": (measured_flows, ("default", "zero", "remainder")),
    "group sizes": (measured_sizes, ("default", "Matching")),
}
"""By statistic, what measures a case, and the options."""


def cases() -> dict[str, list[str]]:
    """By statistic, the names of all data."""
    return {
        "tables": [f"{name}, {design}" for name, own in real_sets.DESIGNS.items() for design in own],
        "counts": list(real_sets.COUNTS),
        "flows": list(real_sets.FLOWS),
        "group sizes": list(real_sets.SIZES),
    }


def _rows(about: Row, found: Mapping[str, list[Errors]]) -> Iterator[Row]:
    for table, errors in found.items():
        yield about | {"table": table, "class": "all"} | _metrics(errors)
        for low, high in CLASSES:
            part = [{k: v[(e["true"] >= low) & (e["true"] <= high)] for k, v in e.items()} for e in errors]
            if sum(len(e["true"]) for e in part) >= JUDGED:
                yield about | {"table": table, "class": shown(low, high)} | _metrics(part)


def true_numbers(shown: pd.DataFrame, records: pd.DataFrame, count: str | None) -> np.ndarray:
    """The true number of every row of a published table: int64 (rows,)."""
    paths = [column for column in shown.columns if column in records.columns and column != "count"]
    if not paths:
        return np.array([records[count].sum() if count else len(records)])
    grouped = records.groupby(paths, observed=True)
    true = (grouped[count].sum() if count else grouped.size()).rename("true").reset_index()
    true[paths] = true[paths].astype(str)
    return shown.merge(true, on=paths, how="left")["true"].fillna(0).to_numpy().astype(np.int64)


def _errors(release: tt.Release, table: tuple[str, ...], records: pd.DataFrame, count: str | None) -> Errors:
    """True numbers, errors of the published and of the unbiased ones, and whether intervals hold, cell by cell."""
    shown = release.table(*table, alpha=ALPHA, unbiased=True).to_pandas()
    values = true_numbers(shown, records, count)
    return {
        "true": values,
        "error": shown["count"].to_numpy() - values,
        "unbiased": shown["unbiased"].to_numpy() - values,
        "stated": shown["std_dev"].to_numpy(),
        "held": ((shown["ci_lower"] <= values) & (values <= shown["ci_upper"])).to_numpy(),
        "width": (shown["ci_upper"] - shown["ci_lower"]).to_numpy(),
    }


def _listed_errors(
    release: tt.Release, level: str, records: pd.DataFrame, levels: Sequence[str], count: str | None, size: Any
) -> Errors:
    """As `_errors`, of a level of a tree; cells that neither side lists are 0 on both."""
    known = "std_dev" in release.table(level).column_names
    shown_rows = release.table(level, alpha=ALPHA if known else None).to_pandas()
    paths = [column for column in levels if column in shown_rows.columns]
    shown_rows = shown_rows.dropna(subset=paths)  # rows that say how much is not listed
    counts = records[count] if count else pd.Series(1, index=records.index)
    if not paths and level != release.levels[0]:
        raise ValueError(f"levels: none of {levels} is a column of the level {level!r}; name its columns")
    if paths:
        keyed = records[paths].astype(str).assign(true=counts.to_numpy()).groupby(paths)["true"].sum().reset_index()
        both = shown_rows.merge(keyed, on=paths, how="outer")
    else:
        both = shown_rows.assign(true=counts.sum())
    true = both["true"].fillna(0).to_numpy().astype(np.int64)
    error = both["count"].fillna(0).to_numpy() - true
    unlisted = np.zeros(max(size(release.levels.index(level)) - len(both), 0), dtype=np.int64)
    found = {"true": np.concatenate([true, unlisted]), "error": np.concatenate([error, unlisted])}
    if not known:
        return found
    here = both["count"].notna().to_numpy()
    if "probability_zero" in both.columns:
        found |= {"chance": both["probability_zero"].to_numpy()[here], "zero": true[here] == 0}
    listed = {
        "true": true[here],
        "error": error[here],
        "stated": both["std_dev"].to_numpy()[here],
        "held": ((both["ci_lower"] <= true) & (true <= both["ci_upper"])).to_numpy()[here],
        "width": (both["ci_upper"] - both["ci_lower"]).to_numpy()[here],
    }
    if here.all() and not len(unlisted):
        return found | listed
    return found | {f"listed {key}": each for key, each in listed.items()}


def _total_errors(release: tt.Release, table: pd.DataFrame, trips: pd.DataFrame) -> Errors:
    """As `_errors`, of `release.total` over areas; what is stated is the width of the interval, as a deviation."""
    made = release.total(table, by="area", alpha=ALPHA).to_pandas().set_index("area")
    shared = [column for column in table.columns if column != "area"]
    inside = trips.astype(dict.fromkeys(shared, str)).merge(table, on=shared)
    true = inside.groupby("area")["count"].sum().reindex(made.index, fill_value=0).to_numpy()
    width = (made["ci_upper"] - made["ci_lower"]).to_numpy()
    return {
        "true": true,
        "error": made["count"].to_numpy() - true,
        "stated": width / 3.29,
        "held": ((made["ci_lower"] <= true) & (true <= made["ci_upper"])).to_numpy(),
        "width": width,
    }


def _tail_errors(release: tt.Release, level: str, groups: pd.DataFrame, levels: Sequence[str]) -> Errors:
    """As `_errors`, of the number of groups of at least each size that is listed."""
    known = "tail_std_dev" in release.table(level).column_names
    rows = release.table(level, alpha=ALPHA if known else None).to_pandas()
    paths = [column for column in levels if column in rows.columns]
    node = rows[paths].agg("/".join, axis=1) if paths else pd.Series("", index=rows.index)
    own = groups[paths].astype(str).agg("/".join, axis=1) if paths else pd.Series("", index=groups.index)
    true = np.zeros(len(rows), dtype=np.int64)
    for name, part in groups.groupby(own.to_numpy()):
        here = np.flatnonzero((node == name).to_numpy())
        order = np.argsort(part["size"].to_numpy())
        sizes, number = part["size"].to_numpy()[order], part["groups"].to_numpy()[order]
        above = np.append(np.cumsum(number[::-1])[::-1], 0)
        true[here] = above[np.searchsorted(sizes, rows["size"].to_numpy()[here])]
    published = rows.groupby(node.to_numpy())["groups"].transform(lambda each: each[::-1].cumsum()[::-1])
    found = {"true": true, "error": published.to_numpy() - true}
    if not known:
        return found
    return found | {
        "stated": rows["tail_std_dev"].to_numpy(),
        "held": ((rows["tail_ci_lower"] <= true) & (true <= rows["tail_ci_upper"])).to_numpy(),
        "width": (rows["tail_ci_upper"] - rows["tail_ci_lower"]).to_numpy(),
    }


def _metrics(runs: Sequence[Errors]) -> Row:
    """The figures of a table, or of a class of its cells, with standard errors over runs."""
    common = [key for key in runs[0] if all(key in run for run in runs)]
    pooled = {key: np.concatenate([run[key] for run in runs]) for key in common}
    rmse = math.sqrt((pooled["error"] ** 2).mean())
    found = {
        "cells": len(pooled["true"]) // len(runs),
        "mae": round(float(np.abs(pooled["error"]).mean()), 2),
        "bias": round(float(pooled["error"].mean()), 2),
        "rmse": round(rmse, 2),
        "relative": round(float(np.abs(pooled["error"]).sum() / max(pooled["true"].sum(), 1)), 4),
    }
    if "held" in pooled:
        held = [run["held"].mean() for run in runs if len(run["held"])]
        stated = math.sqrt((pooled["stated"] ** 2).mean())
        found |= {
            "stated": round(stated, 2),
            "coverage": round(float(pooled["held"].mean()), 4),
            "coverage_error": round(_standard_error(held), 4),
            "width": round(float(pooled["width"].mean() / max(3.29 * pooled["stated"].mean(), 1e-9)), 2),
        }
    if "unbiased" in pooled:
        squares = np.array([[(run[key] ** 2).sum() for key in ("error", "unbiased")] for run in runs])
        without = squares.sum(axis=0) - squares  # a jackknife: the ratio without each of the runs
        ratios = np.sqrt(without[:, 0] / np.maximum(without[:, 1], 1e-9))
        spread = math.sqrt((len(runs) - 1) / len(runs) * ((ratios - ratios.mean()) ** 2).sum())
        ratio = math.sqrt(squares[:, 0].sum() / max(squares[:, 1].sum(), 1e-9))
        found |= {"ratio": round(ratio, 3), "ratio_error": round(spread, 3) if len(runs) > 1 else math.inf}
    return found


def _standard_error(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.inf


def shown(low: float, high: float) -> str:
    """A class of true numbers."""
    return "0" if high == 0 else f"> {low - 1:g}" if high == math.inf else f"{low:g}-{high:g}"


def fails(row: Row) -> list[str]:
    """What of a row is false: intervals that hold too rarely, or a table that errs too much."""
    found = []
    judged = row["cells"] * row["runs"]
    if judged >= JUDGED and row.get("coverage", 1) < LEAST_COVERAGE - 2 * row.get("coverage_error", 0):
        found.append("coverage")
    slack = 0 if judged >= 5 * JUDGED else 2 * row.get("ratio_error", 0)
    if row["class"] == "all" and row.get("ratio", 1) - slack > MOST_RATIO:
        found.append("error")
    return found


def case_of(row: Row) -> tuple[Any, ...]:
    """The case that a row is of."""
    return row["statistic"], row["data"], row["epsilon"], row["option"]


def _is_measured(row: Row) -> bool:
    """Whether a row is of a case that there still is."""
    return row["data"] in cases()[row["statistic"]] and row["option"] in MEASURED[row["statistic"]][1]


def main() -> None:
    """Measure, and add the figures to the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--statistics", nargs="+", default=list(MEASURED), choices=list(MEASURED))
    parser.add_argument("--data", nargs="+", help="names of data; all that are there by default")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 1.0, 10.0])
    parser.add_argument("--options", nargs="+", help="by default, all of a statistic")
    parser.add_argument("--runs", type=int, help="by default 20 of counts, 5 of the others")
    parser.add_argument("--office", type=Path, help="a folder with true_2025.parquet and its hierarchies")
    given = parser.parse_args()
    results = RESULTS
    if given.office:
        results, given.statistics = given.office / RESULTS.name, ["tables"]
        real_sets.TABLES = {name: partial(real_sets.office, given.office, name) for name in real_sets.OFFICE}
        real_sets.DESIGNS = dict.fromkeys(real_sets.OFFICE, ("asked",))
    rows = json.loads(results.read_text(encoding="utf-8")) if results.exists() else []
    for statistic in given.statistics:
        measure, options = MEASURED[statistic]
        runs = given.runs or (20 if statistic == "counts" else 5)
        chosen = [name for name in cases()[statistic] if given.data is None or name in given.data]
        wanted = [option for option in options if given.options is None or option in given.options]
        for name, epsilon, option in itertools.product(chosen, given.epsilons, wanted):
            try:
                new = list(measure(name, epsilon, option, runs))
            except real_sets.NotThereError as error:
                print(f"left out: {error}", file=sys.stderr)
                break
            rows = [row for row in rows if case_of(row) != case_of(new[0]) and (given.office or _is_measured(row))]
            rows += new
            results.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8")
            failed = [(row["table"], row["class"], *fails(row)) for row in new if fails(row)]
            print(statistic, name, epsilon, option, failed or "holds", flush=True)


if __name__ == "__main__":
    main()
