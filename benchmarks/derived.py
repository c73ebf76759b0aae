"""How often 90 % intervals of derived numbers hold the true ones, on real data and on made-up ones.

    python benchmarks/derived.py [--cases military …] [--epsilons 0.1 1 10] [--runs 5]
                                 [--office FOLDER] [--out FILE]

Derived numbers are shares, ratios, changes between two releases of the same data (the true change is 0), totals of
three releases, means and quantiles. The true ones are those of a release of the same data with hardly any noise. Of
each case and number: the cells, the runs, the share of intervals that hold (with its standard error over the runs), the
same where the denominator is at most 50, the share of cells whose interval has no upper end, and the median width. A
case holds if it covers 87 %, less two standard errors. FOLDER is that of `real_data.py --office`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import real_sets
from tallytree.datasets.commutes import commutes
from tallytree.datasets.households import households

import tallytree as tt

EXACT = tt.Budget(epsilon=20_000)
LEAST, FEW = 0.87, 50
FAR = 10_000
"""Seeds of further releases are so far away."""

Derive = Callable[[Callable[[int], tt.Release]], pa.Table]
"""A table of derived numbers from what makes the release of a run; 0, 1 and 2 are runs of their own."""


@dataclass(frozen=True)
class Case:
    """Data and what is derived from their releases.

    Attributes:
        release: makes a release, by the budget and the seed.
        derive: by name, the derived tables and the column that the interval is around.
    """

    release: Callable[[tt.Budget, int], tt.Release]
    derive: dict[str, tuple[Derive, str]] = field(default_factory=dict)


def of_tables(data: real_sets.Tables, design: str, derive: dict[str, tuple[Derive, str]]) -> Case:
    """Tables of records."""
    count = "count" if "count" in data.records else None

    def release(budget: tt.Budget, seed: int) -> tt.Release:
        return tt.release_tables(data.records, data.product, budget, neighboring="add_remove", count=count, seed=seed,
                                 tables=data.designs[design], precision=data.precision)  # fmt: skip

    return Case(release, derive)


def of_counts(records: pd.DataFrame, levels: list[str], **options: Any) -> Case:
    """Counts by area: shares of every level within the one above, halves of all areas, changes, and a sum of three."""
    leaves = records[levels].drop_duplicates()
    tree = tt.Hierarchy.from_table(leaves, levels=levels)
    half = leaves.assign(drawn=[f"p{place % 7}" for place in range(len(leaves))])
    count = "count" if "count" in records else None

    def release(budget: tt.Budget, seed: int) -> tt.Release:
        return tt.release_counts(records, tree, budget, neighboring="add_remove", count=count, seed=seed, **options)

    above = levels[-2] if len(levels) > 1 else "all"
    changes = {} if options else {"change": (change(levels[-1]), "change")}
    again = half.assign(drawn=[f"p{place % 7}" for place in range(1, len(leaves) + 1)])
    return Case(release, {
        f"share of {levels[-1]} in {above}": (share(levels[-1], within=above), "share"),
        "ratio of sets of areas": (lambda make: make(0).ratio(half, again, by="drawn"), "ratio"),
        **changes,
        "total of 3": (total(half, by="drawn"), "count"),
    })  # fmt: skip


def of_flows() -> Case:
    """The demo's commuters: changes of municipality pairs, and totals of three releases by province."""
    data = commutes()
    table = data.municipalities
    levels = ["region", "province", "municipality"]
    tree = tt.Hierarchy.from_table(table, levels=levels)
    sides = {side: [f"{side}_{level}" for level in levels] for side in ("origin", "destination")}

    def release(budget: tt.Budget, seed: int) -> tt.Release:
        return tt.release_flows(data.commutes, origins=tree, destinations=tree, budget=budget, seed=seed, **sides,
                                neighboring="add_remove")  # fmt: skip

    from_provinces = table.select(levels[:2]).to_pandas().drop_duplicates().add_prefix("origin_")
    return Case(release, {
        "change of listed pairs": (change("origin_municipality"), "change"),
        "change of provinces": (change("origin_province"), "change"),
        "total of 3": (total(from_provinces, by="origin_province"), "count"),
    })  # fmt: skip


def of_sizes(groups: pd.DataFrame, levels: list[str], largest: int, **options: Any) -> Case:
    """Group sizes: means and quantiles, by replicates."""
    tree = tt.Hierarchy.from_table(groups[levels].drop_duplicates(), levels=levels)

    def release(budget: tt.Budget, seed: int) -> tt.Release:
        return tt.release_group_sizes(groups, tree, budget, neighboring="add_remove", size="size", groups="groups",
                                      max_group_size=largest, seed=seed, **options)  # fmt: skip

    level = levels[-1]
    found = {f"mean by {level}": (lambda make: make(0).mean(level, seed=1, replicates=20), "mean")}
    for q in (0.25, 0.5, 0.9):
        found[f"quantile {q} by {level}"] = (partial(_quantile, level, q), "quantile")
    return Case(release, found)


def _quantile(level: str, q: float, make: Callable[[int], tt.Release]) -> pa.Table:
    return make(0).quantile(level, q, seed=1, replicates=20)


def share(*level: str, within: Any) -> Derive:
    """Shares of a table."""
    return lambda make: make(0).share(*level, within=within)


def change(*table: str) -> Derive:
    """The change between two releases."""
    return lambda make: tt.change(make(0), make(1), table)


def total(areas: Any = None, **options: Any) -> Derive:
    """The sum of three releases."""
    return lambda make: tt.total_of([make(run) for run in range(3)], areas, **options)


def mean(level: str, attribute: str, **options: Any) -> Derive:
    """Means of an attribute."""
    return lambda make: make(0).mean(level, attribute=attribute, **options)


def median(level: str, attribute: str, q: float = 0.5, **options: Any) -> Derive:
    """Quantiles of an attribute."""
    return lambda make: make(0).quantile(level, q, attribute=attribute, **options)


def ratio(numerator: Any, denominator: Any, by: str) -> Derive:
    """Ratios of two conditions."""
    return lambda make: make(0).ratio(numerator, denominator, by=by)


def military() -> Case:
    """Ranks by branch, race, gender and Hispanic origin."""
    gender = sorted(real_sets.TABLES["military"]().records["gender"].unique())
    return of_tables(real_sets.TABLES["military"](), "few", {
        "share of branch, race in rank": (share("rank", "branch", "race", within="rank"), "share"),
        "share of rank, branch, race in branch": (share("rank", "branch", "race", within="branch"), "share"),
        "share of rank in all": (share("rank", within=()), "share"),
        "ratio of genders by rank": (ratio({"gender": gender[0]}, {"gender": gender[1]}, "rank"), "ratio"),
        "change": (change("rank", "branch", "race"), "change"),
        "total of 3": (total(where={"gender": gender[0]}), "count"),
    })  # fmt: skip


def chem97() -> Case:
    """Schools by score, authorities by score and gender: sparse."""
    return of_tables(real_sets.TABLES["Chem97"](), "few", {
        "share of score in school": (share("school", "score", within="school"), "share"),
        "share of school in lea": (share("school", within="lea"), "share"),
        "share of score, gender in lea": (share("lea", "score", "gender", within=("lea",)), "share"),
        "share of school, score in lea, score": (share("school", "score", within=("lea", "score")), "share"),
        "ratio of scores by lea": (ratio({"score": ["8", "10"]}, {"score": ["0", "2"]}, "lea"), "ratio"),
        "ratio of scores by school": (ratio({"score": ["8", "10"]}, {"score": ["0", "2"]}, "school"), "ratio"),
        "mean score by lea": (mean("lea", "score"), "mean"),
        "mean score by school": (mean("school", "score"), "mean"),
        "median score by lea": (median("lea", "score"), "quantile"),
        "quartile of score by school": (median("school", "score", 0.25), "quantile"),
        "change": (change("school", "score"), "change"),
        "total of 3": (total(), "count"),
    })  # fmt: skip


def eusilc() -> Case:
    """Regions by age (decades), gender, status and citizenship."""
    data = real_sets.TABLES["eusilc"]()
    decades = {label: (int(label), int(label) + 10) for label in sorted(data.records["age"].unique())}
    young, old = [sorted(decades)[:2], sorted(decades)[6:]]
    return of_tables(data, "two", {
        "share of status in region": (share("region", "status", within="region"), "share"),
        "share of age, gender in age": (share("region", "gender", "age", within=("region", "age")), "share"),
        "share of region in all": (share("region", within=()), "share"),
        "ratio of old to young": (ratio({"age": old}, {"age": young}, "region"), "ratio"),
        "mean age": (mean("region", "age", values=decades), "mean"),
        "median age": (median("region", "age", values=decades), "quantile"),
        "quantile 0.9 of age of women": (median("region", "age", 0.9, values=decades, where={"gender": "female"}),
                                         "quantile"),
        "change": (change("region", "status"), "change"),
        "total of 3": (total(where={"gender": "female"}), "count"),
    })  # fmt: skip


def office(folder: Path) -> Case:
    """Districts of a made-up country by age band and sex."""
    bands = pd.read_csv(folder / "ages.csv", dtype=str)["age_band"].unique()
    last = {band: (int(band.removesuffix("+")), 110) for band in bands if band.endswith("+")}
    return of_tables(real_sets.office(folder, "office prod"), "asked", {
        "share of band, sex in district": (share("district", "age_band", "sex", within="district"), "share"),
        "share of district in municipality": (share("district", within="municipality"), "share"),
        "share of district in all": (share("district", within=()), "share"),
        "ratio of sexes by district": (ratio({"sex": "1"}, {"sex": "2"}, "district"), "ratio"),
        "ratio of a rare sex by municipality": (ratio({"sex": "9"}, {"sex": "2"}, "municipality"), "ratio"),
        "mean age by district": (mean("district", "age_band", values=last), "mean"),
        "median age by district": (median("district", "age_band", values=last), "quantile"),
        "change": (change("district"), "change"),
    })  # fmt: skip


def residents() -> Case:
    """Made-up counties by age and a rare sex."""
    return of_tables(real_sets.TABLES["residents (made up)"](), "few", {
        "share of age, sex in county": (share("county", "age", "sex", within="county"), "share"),
        "share of county, sex in sex": (share("county", "sex", within="sex"), "share"),
        "change": (change("county", "sex"), "change"),
    })  # fmt: skip


def demo_homes() -> Case:
    """The demo's households by their size."""
    data = households()
    people = data.people.to_pandas()
    levels = ["country", "state", "county"]
    sizes = people.groupby([*levels, "household_id"]).size().rename("size").reset_index()
    return of_sizes(sizes.groupby([*levels, "size"]).size().rename("groups").reset_index(), levels, 500)


CASES: dict[str, Callable[[], Case]] = {
    "military": military,
    "Chem97": chem97,
    "eusilc": eusilc,
    "residents": residents,
    "military by rank": lambda: of_counts(*real_sets.COUNTS["military by rank"]()),
    "Chem97 by school": lambda: of_counts(*real_sets.COUNTS["Chem97 by school"]()),
    "Chem97 by school, TopDown": lambda: of_counts(
        *real_sets.COUNTS["Chem97 by school"](), mechanism=tt.counts.TopDown()
    ),
    "cities of the world": lambda: of_counts(*real_sets.cities()),
    "demo, commuters": of_flows,
    "demo, households": demo_homes,
    "Chem97, schools by pupils": lambda: of_sizes(*real_sets.pupils_of_schools(), real_sets.LARGEST_SIZE),
    "VietNamI, households by persons": lambda: of_sizes(*real_sets.households_of_vietnam(), 20),
    "pizzaplace, orders by pizzas": lambda: of_sizes(*real_sets.orders_of_pizzas(), 30, min_group_size=1),
    "InstEval, lecturers by ratings": lambda: of_sizes(*real_sets.ratings_of_lecturers(), real_sets.LARGEST_SIZE),
}


def measured(name: str, case: Case, epsilon: float, runs: int) -> Iterator[dict[str, Any]]:
    """A row for each derived table."""
    budget = tt.Budget(epsilon=epsilon, delta=1e-8)
    wide = EXACT
    true = {key: derive(partial(_released, case, wide, 0)) for key, (derive, _) in case.derive.items()}
    found: dict[str, list[dict[str, np.ndarray]]] = {key: [] for key in case.derive}
    for run in range(runs):
        made: dict[int, tt.Release] = {}
        for key, (derive, column) in case.derive.items():
            rows = derive(partial(_kept, made, case, budget, run))
            found[key].append(held(rows, true[key], column))
    for key, results in found.items():
        covered = [each["held"].mean() for each in results if len(each["held"])]
        small = [each["held"][each["small"]].mean() for each in results if each["small"].any()]
        open_ends = np.concatenate([each["open"] for each in results])
        width = np.concatenate([each["width"] for each in results])
        yield {
            "data": name, "epsilon": epsilon, "number": key, "cells": len(results[0]["held"]), "runs": runs,
            "coverage": _mean(covered), "error": _error(covered), "small": _mean(small), "small error": _error(small),
            "no end": round(float(open_ends.mean()), 3), "width": float(f"{np.median(width):.3g}"),
        }  # fmt: skip


def _released(case: Case, budget: tt.Budget, run: int, again: int) -> tt.Release:
    return case.release(budget, run + FAR * again)


def _kept(made: dict[int, tt.Release], case: Case, budget: tt.Budget, run: int, again: int) -> tt.Release:
    if again not in made:
        made[again] = _released(case, budget, run, again)
    return made[again]


def held(rows: pa.Table, true: pa.Table, column: str) -> dict[str, np.ndarray]:
    """Whether each interval holds the true number; rows are matched by their paths."""
    shown, wanted = rows.to_pandas(), true.to_pandas()
    known = {"count", "of", "share", "ratio", "numerator", "denominator", "earlier", "later", "change", "mean",
             "quantile", "std_dev", "ci_lower", "ci_upper", "quality", "verdict", "share_left_out"}  # fmt: skip
    paths = [name for name in shown.columns if name not in known]
    value = wanted[column]
    whole = next((name for name in ("of", "denominator", "earlier", "count") if name in wanted), column)
    joined = wanted[paths].assign(true=value, small=wanted[whole].abs() <= FEW)
    merged = shown.merge(joined, on=paths, how="left") if paths else shown.assign(true=value, small=joined["small"])
    if column == "change":  # a cell that the exact release does not list is 0
        merged = merged.assign(true=merged["true"].fillna(0.0), small=merged["small"].fillna(True).astype(bool))
        merged = merged[merged["std_dev"].notna()]
    merged = merged[merged["true"].notna()]
    low, high = merged["ci_lower"].fillna(-math.inf), merged["ci_upper"].fillna(math.inf)
    slack = 1e-6 * merged["true"].abs()
    holds = (low <= merged["true"] + slack) & (merged["true"] - slack <= high)
    return {
        "held": holds.to_numpy(),
        "small": merged["small"].to_numpy(dtype=bool),
        "open": np.isinf(high.to_numpy()) | np.isinf(low.to_numpy()),
        "width": (high - low).to_numpy(dtype=float),
    }


def _mean(values: Sequence[float]) -> float | None:
    return round(float(np.mean(values)), 4) if len(values) else None


def _error(values: Sequence[float]) -> float | None:
    return round(float(np.std(values, ddof=1) / math.sqrt(len(values))), 4) if len(values) > 1 else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="*", metavar="NAME")
    parser.add_argument("--epsilons", nargs="*", type=float, default=[0.1, 1.0, 10.0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--office", type=Path, metavar="FOLDER")
    parser.add_argument("--out", type=Path, metavar="FILE", help="add a line of JSON for each row")
    given = parser.parse_args()
    cases = dict(CASES) | ({"office": partial(office, given.office)} if given.office else {})
    print("| data | ε | number | cells | runs | covered | small | no end | median width |\n" + "| --- " * 9 + "|")
    for name in given.cases or cases:
        case = cases[name]()
        for epsilon in given.epsilons:
            for row in measured(name, case, epsilon, given.runs):
                print(shown(row), flush=True)
                if given.out:
                    with given.out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")


def shown(row: dict[str, Any]) -> str:
    """A row of the table; in bold what does not hold."""

    def rate(value: float | None, error: float | None) -> str:
        if value is None:
            return "-"
        text = f"{value:.3f}" + ("" if error is None else f" ± {error:.3f}")
        return text if value + 2 * (error or 0.0) >= LEAST else f"**{text}**"

    cells = (row["data"], f"{row['epsilon']:g}", row["number"], f"{row['cells']:,}", row["runs"],
             rate(row["coverage"], row["error"]), rate(row["small"], row["small error"]), row["no end"],
             row["width"])  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
