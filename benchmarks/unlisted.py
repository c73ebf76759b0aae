"""`unlisted="remainder"` beside κ = 0, `"auto"`, nothing at all, and a stability histogram: errors at every level.

    python benchmarks/unlisted.py [--data binary_sparse,day] [--epsilon 0.1,1,10] [--runs 3] [--pure] [--totals]

The relative error Σ|published − true| / Σ true: at the leaves, and above them. A true cell that is not listed counts as
published 0, so publishing nothing has 1. All mechanisms of a run are given the same noise, but for the stability
histogram. That has a budget whose leaves-only Gaussian noise is that of the leaves here; with `--pure`, the leaves' ε.

`--totals` shows instead how often 90 % intervals of `release.total` over areas that are chosen at random hold the true
sum, of default flows and with `"remainder"`: all that leaves or reaches leaves of the areas' hierarchy, and flows
between nodes one level above (pairs). `width` is the mean width over that of ± 1.645 root mean square errors.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import tallytree as tt
from tallytree.counts import LeafGaussian, LeastSquares, StabilityHistogram
from tallytree.counts.unlisted import Remainders
from tallytree.datasets import boninsegna
from tallytree.private.measurer import Measurer
from tallytree.private.noise.discrete import KeyedNoise
from tallytree.run import plan_flows
from tallytree.run.arguments import FlowsArguments

DELTA = 1e-8
NAMES = ("binary_complete", "binary_sparse", "random_complete", "random_sparse", "day")


def made_day(seed: int = 5) -> tuple[Any, Any, list[str]]:
    """A day of phones: 1,200 zones of 60 districts in 10 regions; about 470,000 trips between some 100,000 pairs."""
    random = np.random.default_rng(seed)
    zones = 1_200
    areas = {"region": np.arange(zones) // 120, "district": np.arange(zones) // 20, "zone": np.arange(zones)}
    weight = 1 / (1 + random.permutation(zones)) ** 0.6
    apart = np.abs(np.subtract.outer(np.arange(zones), np.arange(zones)))
    rate = np.outer(weight, weight) / (1 + apart / 15) ** 1.5 * random.gamma(0.15, 1 / 0.15, (zones, zones))
    counts = random.poisson(rate / rate.sum() * 470_000)
    origin, destination = np.nonzero(counts)
    columns = {f"{side}_{name}": pa.array(values[place]).cast(pa.string())
               for side, place in (("origin", origin), ("destination", destination))
               for name, values in areas.items()}  # fmt: skip
    trips = pa.table({**columns, "count": counts[origin, destination]})
    return trips, pa.table({name: pa.array(values).cast(pa.string()) for name, values in areas.items()}), list(areas)


def data_set(name: str) -> tuple[Any, Any, list[str]]:
    """Trips, the areas' leaves, and their levels."""
    if name == "day":
        return made_day()
    if name in ("flights", "storms", "baseball"):
        import real_sets

        return real_sets.FLOWS["flights of 2001, states" if name == "flights" else name]()
    if name == "italy":
        from tallytree.datasets import italy

        made = italy.od_flows()
        return made.flows, made.areas, list(made.levels)
    made = boninsegna.od_flows(*name.split("_"))
    return made.flows, made.areas, list(made.levels)


def planned(data: tuple[Any, Any, list[str]], budget: Any, mechanism: Any) -> Any:
    """A planned release of the trips."""
    trips, leaves, levels = data
    areas = tt.Hierarchy.from_table(leaves, levels=levels)
    sides = {side: [f"{side}_{level}" for level in levels] for side in ("origin", "destination")}
    return plan_flows(FlowsArguments(
        trips, origins=areas, destinations=areas, budget=budget, neighboring="add_remove", count="count",
        mechanism=mechanism, **sides,
    ))  # fmt: skip


def alone(data: Any, job: Any, epsilon: float, pure: bool) -> Any:
    """A job that publishes a stability histogram with the leaves' share of the budget."""
    leaf = job.plan.levels[job.tree.levels[-1]]
    if pure:
        return planned(data, tt.Budget(epsilon=epsilon / len(job.plan.levels), delta=DELTA), StabilityHistogram())
    low, high = epsilon / 100, epsilon
    for _ in range(12):
        middle = (low * high) ** 0.5
        found = planned(data, tt.Budget(epsilon=middle, delta=DELTA), LeafGaussian())
        low, high = (middle, high) if found.plan.levels[leaf.level].noise.scale > leaf.noise.scale else (low, middle)
    return planned(data, tt.Budget(epsilon=high, delta=DELTA), StabilityHistogram())


def errors(job: Any, true: list[tuple[Any, Any]], levels: Any) -> list[float]:
    """Relative errors by level below the root."""
    found = []
    for depth, (nodes, counts) in enumerate(true[1:], 1):
        keys = np.concatenate([nodes, levels[depth].nodes])
        _, place = np.unique(keys, return_inverse=True)
        off = np.bincount(place, np.concatenate([counts, -levels[depth].counts]))
        found.append(float(np.abs(off).sum() / counts.sum()))
    return found


def run(name: str, data: Any, epsilon: float, runs: int, pure: bool) -> None:
    """Print the errors of a data set at a budget."""
    budget = tt.Budget(epsilon=epsilon) if pure else tt.Budget(epsilon=epsilon, delta=DELTA)
    job = planned(data, budget, LeastSquares())
    other = alone(data, job, epsilon, pure)
    statistics = job.tabulate()
    tree = job.tree
    true = [statistics.present(level) for level in tree.levels]
    made: dict[str, list[list[float]]] = {}
    share = []
    for seed in range(1, runs + 1):
        for kappa in (0.0, "auto"):
            measurer = Measurer(statistics, job.plan, KeyedNoise(seed.to_bytes(32, "big")))
            levels = LeastSquares(sparsity=kappa).reconcile(tree, None, measurer)  # type: ignore[arg-type]
            made.setdefault(str(kappa), []).append(errors(job, true, levels))
        measurer = Measurer(statistics, job.plan, KeyedNoise(seed.to_bytes(32, "big")))
        levels = Remainders().reconcile(tree, None, measurer)
        made.setdefault("remainder", []).append(errors(job, true, levels))
        share.append(levels[-1].counts.sum() / max(levels[0].counts.sum(), 1))
        measurer = Measurer(statistics, other.plan, KeyedNoise((seed + 99).to_bytes(32, "big")))
        made.setdefault("stability", []).append(
            errors(other, true, StabilityHistogram().reconcile(tree, None, measurer))
        )
    means = {key: np.mean(each, axis=0) for key, each in made.items()}
    best = min(1.0, *(means[key][-1] for key in ("0.0", "auto", "stability")))
    above = means["remainder"][:-1] / np.minimum(means["0.0"], means["auto"])[:-1]
    worst = int(np.argmax(above))
    print(
        f"| {name} | {epsilon} | {means['0.0'][-1]:.3f} | {means['auto'][-1]:.3f} | {means['stability'][-1]:.3f} |"
        f" {means['remainder'][-1]:.3f} | {means['remainder'][-1] / best:.3f} | {above[worst]:.3f}"
        f" ({tree.levels[worst + 1]}) | {' '.join(f'{each:.2f}' for each in above)} | {100 * np.mean(share):.0f} % |",
        flush=True,
    )


def areas_at_random(leaves: Any, levels: list[str], random: Any) -> dict[str, Any]:
    """By kind, tables of areas; the column `area` says to which one a row belongs."""
    found = {}
    above = leaves[levels[:-1]].drop_duplicates()
    for number, most in ((1, 200), (5, 60), (50, 20)):
        for side in ("origin", "destination"):
            areas = min(most, len(leaves) // number)
            if areas:
                rows = leaves.iloc[random.permutation(len(leaves))[: areas * number]].add_prefix(f"{side}_")
                found[f"{number} of {side}"] = rows.assign(area=np.arange(len(rows)) % areas)
        for kind, nodes in (("pairs above", above), ("pairs of leaves", leaves)):
            areas = min(most, len(nodes) ** 2 // number)
            if not areas:
                continue
            origin, destination = np.divmod(random.permutation(len(nodes) ** 2)[: areas * number], len(nodes))
            sides = [
                nodes.iloc[each].add_prefix(f"{side}_").reset_index(drop=True)
                for side, each in (("origin", origin), ("destination", destination))
            ]
            found[f"{number} {kind}"] = sides[0].join(sides[1]).assign(area=np.arange(len(origin)) % areas)
    return {kind: table.astype(str) for kind, table in found.items()}


def totals(name: str, data: Any, epsilon: float, runs: int, pure: bool) -> None:
    """Print how often intervals of totals hold the true sum, and how wide they are."""
    trips, leaves, levels = data
    trips, leaves = (each.to_pandas() if isinstance(each, pa.Table) else each for each in (trips, leaves))
    trips = trips.astype({column: str for column in trips.columns if column != "count"})
    tree = tt.Hierarchy.from_table(leaves.astype(str), levels=levels)
    options = {side: [f"{side}_{level}" for level in levels] for side in ("origin", "destination")}
    tables = areas_at_random(leaves, levels, np.random.default_rng(0))
    for unlisted in ("zero", "remainder"):
        found: dict[str, list[list[float]]] = {}
        for seed in range(runs):
            release = tt.release_flows(
                trips, origins=tree, destinations=tree, **options, neighboring="add_remove", count="count", seed=seed,
                budget=tt.Budget(epsilon=epsilon) if pure else tt.Budget(epsilon=epsilon, delta=DELTA),
                unlisted=unlisted,
            )  # fmt: skip
            for kind, table in tables.items():
                made = release.total(table, by="area").to_pandas().set_index("area")
                shared = [column for column in table.columns if column != "area"]
                true = trips.merge(table, on=shared).groupby("area")["count"].sum().reindex(made.index).fillna(0)
                held = (made["ci_lower"] <= true) & (true <= made["ci_upper"])
                width, off = made["ci_upper"] - made["ci_lower"], made["count"] - true
                known = made["std_dev"].notna()
                found.setdefault(kind, []).append(
                    [len(true), true.mean(), held.mean(), width.mean(), (off**2).mean(), known.mean()]
                )
        for kind, rows in found.items():
            areas, true, held, width, squares, known = np.mean(rows, axis=0)
            error = np.std([row[2] for row in rows], ddof=1) / len(rows) ** 0.5
            root = max(squares**0.5, 1e-9)
            print(
                f"| {name} | {epsilon} | {unlisted} | {kind} | {areas:.0f} | {true:,.0f} | {held:.1%} ± {error:.1%} |"
                f" {width:,.0f} | {root:,.1f} | {width / (3.29 * root):.1f} | {known:.0%} |",
                flush=True,
            )


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """Arguments that say what is measured: data sets, budgets, runs."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=",".join(NAMES))
    parser.add_argument("--epsilon", default="0.1,1,10")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--pure", action="store_true")
    return parser


def each_case(
    given: argparse.Namespace,
    measure: Callable[[str, Any, float, int, bool], None],
    read: Callable[[str], Any] = data_set,
) -> None:
    """Measure every data set at every budget."""
    for name in given.data.split(","):
        data = read(name)
        for epsilon in given.epsilon.split(","):
            measure(name, data, float(epsilon), given.runs, given.pure)


def main() -> None:
    """Print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--totals", action="store_true")
    given = parser.parse_args()
    heading = (
        "| data | ε | unlisted | areas | number | mean true sum | held | mean width | root mean square error |"
        " width | std_dev is known |\n|" + " --- |" * 11
    )
    print(heading if given.totals else (
        "| data | ε | κ = 0 | auto | stability | remainder | ÷ least, leaves | ÷ least, worst level above |"
        " levels above | records in listed leaves |\n|" + " --- |" * 10
    ))  # fmt: skip
    each_case(given, totals if given.totals else run)


if __name__ == "__main__":
    main()
