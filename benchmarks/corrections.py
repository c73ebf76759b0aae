"""What readers see of a correction: 240 of 1.45 million made-up persons move, and a release takes the place of another.

    python benchmarks/corrections.py [--runs N]

3,000 municipalities in 12 provinces; tables of age and sex; ρ = 0.05 for the first release. The revision has all of
that budget, a third, or a tenth. `alone` is a release of the same budget that knows nothing of the first one. Errors
are root mean squares; `moved` is the share of numbers that are not those of the first release, and by how much.
`told` is the share of changes that `tt.change` calls an increase or a decrease; at most 480 municipalities changed.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict

import numpy as np
import pandas as pd
import pyarrow as pa

import tallytree as tt

AREAS, PEOPLE, CORRECTED = 3_000, 1_453_939, 240
TABLES = [("municipality",), ("municipality", "age"), ("municipality", "age", "sex"), ("province", "age", "sex"), ()]


def country(rng: np.random.Generator) -> tuple[tt.Product, pd.DataFrame, pd.DataFrame]:
    """The hierarchies, and the numbers of persons before and after the correction."""
    province, weights = np.sort(rng.integers(0, 12, AREAS)), rng.lognormal(0, 1.1, AREAS)
    names = {"province": [f"p{i:02d}" for i in province], "municipality": [f"m{i:04d}" for i in range(AREAS)]}
    product = tt.Product(
        {
            "area": tt.Hierarchy.from_table(pa.table(names), ["province", "municipality"]),
            "age": tt.Hierarchy.from_values("age", [f"{10 * i:02d}" for i in range(9)]),
            "sex": tt.Hierarchy.from_values("sex", ["f", "m"]),
        }
    )
    where = rng.choice(AREAS, PEOPLE, p=weights / weights.sum())
    age, sex = rng.binomial(8, 0.45, PEOPLE), rng.integers(0, 2, PEOPLE)
    now = where.copy()
    now[rng.choice(PEOPLE, CORRECTED, replace=False)] = rng.integers(0, AREAS, CORRECTED)

    def counted(area: np.ndarray) -> pd.DataFrame:
        persons = pd.DataFrame({"area": area, "age": age, "sex": sex}).value_counts().rename("n").reset_index()
        persons["province"] = [f"p{i:02d}" for i in province[persons["area"]]]
        persons["municipality"] = [f"m{i:04d}" for i in persons["area"]]
        persons["age"], persons["sex"] = [f"{10 * i:02d}" for i in persons["age"]], ["fm"[i] for i in persons["sex"]]
        return persons.drop(columns="area")

    return product, counted(where), counted(now)


def errors(made: tt.Release, true: pd.DataFrame, table: tuple[str, ...]) -> np.ndarray:
    """Published minus true numbers."""
    rows = made.table(*table).to_pandas()
    if not table:
        return rows["count"].to_numpy() - true["n"].sum()
    sums = true.groupby(list(table))["n"].sum()
    wanted = pd.MultiIndex.from_frame(rows[list(table)]) if len(table) > 1 else pd.Index(rows[table[0]])
    return rows["count"].to_numpy() - sums.reindex(wanted).fillna(0).to_numpy()


def main() -> None:
    """Show one line for each table and part of the budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    runs, found = parser.parse_args().runs, defaultdict(lambda: defaultdict(list))
    product, before, now = country(np.random.default_rng(7))

    def release(persons: pd.DataFrame, rho: float, **options: object) -> tt.Release:
        return tt.release_tables(
            persons, product, tt.Budget(rho=rho), neighboring="add_remove", tables=TABLES, count="n", **options
        )

    for _ in range(runs):
        first = release(before, 0.05)
        with tempfile.TemporaryDirectory() as folder:
            first.save(f"{folder}/first")
            for part in (1, 3, 10):
                revised, alone = release(now, 0.05 / part, revises=f"{folder}/first"), release(now, 0.05 / part)
                for table in TABLES:
                    sums, was = found[part, table], first.table(*table)["count"].to_numpy()
                    for name, made in (("first", first), ("revised", revised), ("alone", alone)):
                        sums[f"{name} rmse"].append(np.mean(errors(made, now, table) ** 2))
                    for name, made in (("revised", revised), ("alone", alone)):
                        moved = made.table(*table)["count"].to_numpy() - was
                        sums[f"{name} moved"].append(np.mean(moved != 0))
                        sums[f"{name} by"].append(np.mean(moved**2))
                    sums["typical"].append(np.mean(revised.table(*table)["typical_error"].to_numpy() ** 2))
                    verdicts = tt.change(first, revised, table)["verdict"].to_pylist()
                    sums["told"].append(np.mean([each != "no change can be told" for each in verdicts]))
    for (part, table), sums in found.items():
        mean = {name: float(np.mean(values)) for name, values in sums.items()}
        root = {name: np.sqrt(mean[name]) for name in mean}
        print(
            f"1/{part} of the budget, {' × '.join(table) or 'total'}: errors of first {root['first rmse']:.2f}, "
            f"revised {root['revised rmse']:.2f} (stated {root['typical']:.2f}), alone {root['alone rmse']:.2f}; moved "
            f"{mean['revised moved']:.0%} by {root['revised by']:.2f}, alone {mean['alone moved']:.0%} by "
            f"{root['alone by']:.2f}; told {mean['told']:.1%}"
        )


if __name__ == "__main__":
    main()
