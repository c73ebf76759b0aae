"""What a prior gains: tables of a period with the period before as prior, beside those without it, on the same data.

    python benchmarks/prior.py [--sets flights births eusilc] [--epsilons 0.1 0.3 1] [--runs N]

`release`: the prior is the release of the period before, which had its own prior in turn. `truth`: the true numbers of
the period before, as if they were a public register. `shuffled`: these, with their cells shuffled. Ratios are to the
release without a prior, on the same noise: of mean absolute errors, and of root mean squares; standard errors are over
runs. `stated` is `typical_error` ÷ root mean square error, `held` the share of 90 % intervals that hold; both also for
the tenth of the cells that changed most since the period before. `told` is the share of 90 % intervals of `tt.change`
that hold the true change to the period before, where the release has it as prior.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import real_sets
from borrowed_strength import same_noise

import tallytree as tt

Table = tuple[str, ...]
SETS: Mapping[str, tuple[Callable[[], dict[str, pd.DataFrame]], Sequence[str], Sequence[Table]]] = {
    "flights": (
        real_sets.flights_by_month,
        ["dest", "origin", "carrier"],
        [("dest", "origin", "carrier"), ("dest", "origin"), ("dest", "carrier"), ("dest",), ()],
    ),
    "births": (real_sets.births_by_year, ["state", "day"], [("state", "day"), ("state",), ("day",), ()]),
    "eusilc": (real_sets.quarters_of_eusilc, [], []),
}
KINDS = ("none", "release", "truth", "shuffled")


def true_numbers(records: pd.DataFrame, table: Table, rows: pd.DataFrame) -> np.ndarray:
    """The true numbers of the rows of a table."""
    if not table:
        return np.array([records["n"].sum()])
    sums = records.groupby(list(table))["n"].sum()
    wanted = pd.MultiIndex.from_frame(rows[list(table)]) if len(table) > 1 else pd.Index(rows[table[0]])
    return sums.reindex(wanted).fillna(0).to_numpy()


class Sums:
    """Sums over the cells of a table, of one kind of release in one run."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = defaultdict(float)

    def add(self, **more: np.ndarray) -> None:
        """Add the sum, and the number, of each."""
        for name, values in more.items():
            self.sums[name] += float(values.sum())
            self.sums[f"cells {name}"] += len(values)

    def mean(self, name: str) -> float:
        """The mean."""
        return self.sums[name] / max(self.sums[f"cells {name}"], 1)


def run(
    periods: Mapping[str, pd.DataFrame], columns: Sequence[str], tables: Sequence[Table], epsilon: float, seed: int
) -> dict[tuple[str, Table], Sums]:
    """All releases of one run; what is found of each kind and table."""
    every = pd.concat(periods.values())
    product = tt.Product({f"{name}s": tt.Hierarchy.from_values(name, sorted(every[name].unique())) for name in columns})
    found: dict[tuple[str, Table], Sums] = defaultdict(Sums)
    before: tuple[pd.DataFrame, tt.Release] | None = None
    for at, records in enumerate(periods.values()):

        def release(records: pd.DataFrame = records, at: int = at, **prior: object) -> tt.Release:
            rows, budget = pa.Table.from_pandas(records, preserve_index=False), tt.Budget(epsilon=epsilon, delta=1e-8)
            given = {"neighboring": "add_remove", "tables": tables, "count": "n", "seed": 1_000 * seed + at}
            with same_noise():
                return tt.release_tables(rows, product, budget, **given, **prior)

        made = {"none": release()}
        if before is not None:
            past = before[0].rename(columns={"n": "count"})
            cells = product_cells(product, past, columns)
            shuffled = cells.assign(count=np.random.default_rng(at).permutation(cells["count"]))
            made |= {
                "release": release(prior=before[1]),
                "truth": release(prior=past, prior_is_public=True),
                "shuffled": release(prior=shuffled, prior_is_public=True),
            }
            for kind, each in made.items():
                for table in tables:
                    add_errors(found[kind, table], each, table, records, before)
        before = records, made.get("release", made["none"])
    return found


def product_cells(product: tt.Product, counts: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """The number of every cell, zeros too."""
    values = [side.hierarchy.leaf_table().column(0).to_pylist() for side in product.attributes]
    cells = pd.MultiIndex.from_product(values, names=list(columns))
    return counts.groupby(list(columns))["count"].sum().reindex(cells, fill_value=0).reset_index()


def add_errors(
    sums: Sums, made: tt.Release, table: Table, records: pd.DataFrame, before: tuple[pd.DataFrame, tt.Release]
) -> None:
    """Add the errors of a table, and what is stated of them."""
    rows = made.table(*table, alpha=0.1).to_pandas()
    true, was = true_numbers(records, table, rows), true_numbers(before[0], table, rows)
    error, typical = rows["count"].to_numpy() - true, rows["typical_error"].to_numpy()
    held = (rows["ci_lower"].to_numpy() <= true) & (true <= rows["ci_upper"].to_numpy())
    changed = np.abs(true - was) >= np.quantile(np.abs(true - was), 0.9)
    sums.add(absolute=np.abs(error), square=error**2, typical=typical**2, held=held)
    sums.add(of_changed=error[changed] ** 2, typical_of_changed=typical[changed] ** 2, held_of_changed=held[changed])
    if made.statement.get("prior", {}).get("release"):
        told = tt.change(before[1], made, table, alpha=0.1).to_pandas()
        sums.add(told=((told["ci_lower"] <= true - was) & (true - was <= told["ci_upper"])).to_numpy())


def main() -> None:
    """Show one line for each set, budget, table and kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 0.3, 1.0])
    parser.add_argument("--runs", type=int, default=2)
    given = parser.parse_args()
    for name in given.sets:
        read, columns, tables = SETS[name]
        periods = read()
        columns = columns or [column for column in next(iter(periods.values())).columns if column != "n"]
        tables = tables or [
            (columns[0], *columns[1:]),
            *((columns[0], each) for each in columns[1:]),
            (columns[0],),
            (),
        ]
        for epsilon in given.epsilons:
            runs = [run(periods, columns, tables, epsilon, seed) for seed in range(given.runs)]
            for table in tables:
                show(f"{name} ε={epsilon:g} {' × '.join(table) or 'total'}", table, runs)


def show(title: str, table: Table, runs: Sequence[Mapping[tuple[str, Table], Sums]]) -> None:
    """Show the means over runs of all kinds, with standard errors of ratios where there are several."""
    print(f"{title}: mean absolute error {np.mean([each['none', table].mean('absolute') for each in runs]):.3g}")
    for kind in KINDS:
        both = [(each[kind, table], each["none", table]) for each in runs]
        ratios = np.array([own.mean("absolute") / none.mean("absolute") for own, none in both])
        error = f" ± {ratios.std(ddof=1) / np.sqrt(len(ratios)):.3f}" if len(ratios) > 1 else ""
        squares = np.sqrt(sum(own.mean("square") for own, _ in both) / sum(none.mean("square") for _, none in both))

        def of(name: str, both: Sequence[tuple[Sums, Sums]] = both) -> float:
            return float(np.mean([own.mean(name) for own, _ in both]))

        stated, changed = (
            np.sqrt(of(typical) / max(of(square), 1e-9))
            for typical, square in (("typical", "square"), ("typical_of_changed", "of_changed"))
        )
        told = f", told {of('told'):.3f}" if both[0][0].sums["cells told"] else ""
        print(
            f"    {kind:8} {ratios.mean():.3f}{error}, rmse {squares:.3f}; stated {stated:.2f}, held {of('held'):.3f}; "
            f"changed most: stated {changed:.2f}, held {of('held_of_changed'):.3f}{told}",
            flush=True,
        )


if __name__ == "__main__":
    main()
