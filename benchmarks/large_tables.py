"""The time of the fit of many tables: areas × 252 cells (63 × 2 × 2), five tables, 40 people an area, made up.

    python benchmarks/large_tables.py [--areas 20000]

Pooled, and without pooling, one after the other in one process, after a small release of each, which compiles.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from borrowed_strength import POOLED, TODAY, mechanism, same_noise, seconds_of_stages

import tallytree as tt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--areas", type=int, default=20_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    seconds_of(*made_up(min(given.areas, 400), rng), given)
    took = seconds_of(*made_up(given.areas, rng), given)
    for kind, seconds in took.items():
        print(f"{given.areas:,} areas × 252, {kind}: {seconds}")
    print(f"fit, pooled ÷ today: {took[POOLED]['reconcile'] / max(took[TODAY]['reconcile'], 0.1):.2f}")


def seconds_of(records: pd.DataFrame, product: tt.Product, given: argparse.Namespace) -> dict[str, dict[str, float]]:
    """The seconds of each stage, by mechanism."""
    joint = ("race", "origin", "adult")
    tables = [("area",), ("area", "race"), ("area", "origin", "adult"), ("area", *joint), ("county", *joint)]
    found = {}
    for kind in (TODAY, POOLED):
        with same_noise(), seconds_of_stages() as seconds:
            tt.release_tables(
                records, product, tt.Budget(epsilon=given.epsilon, delta=1e-8), neighboring="add_remove",
                tables=tables, count="count", seed=given.seed, mechanism=mechanism(kind),
            )  # fmt: skip
        found[kind] = dict(seconds)
    return found


def made_up(areas: int, rng: np.random.Generator) -> tuple[pd.DataFrame, tt.Product]:
    """People of areas that resemble their county, and the hierarchies."""
    counties = max(areas // 200, 1)
    names = {"county": [f"{i:03d}" for i in range(counties)], "area": [f"{i:05d}" for i in range(areas)]}
    county = np.sort(rng.integers(0, counties, areas))
    race, county[:counties] = rng.dirichlet(np.full(63, 0.05)), np.arange(counties)
    county.sort()
    shares = rng.dirichlet(200 * np.outer(race, np.outer([0.85, 0.15], [0.75, 0.25])).ravel() + 0.01, counties)
    people = rng.poisson(40 * rng.gamma(2.0, 0.5, areas))
    cells = np.stack([rng.multinomial(people[i], shares[county[i]]) for i in range(areas)])
    area, cell = cells.nonzero()
    sizes = {"race": 63, "origin": 2, "adult": 2}
    codes = dict(zip(sizes, np.unravel_index(cell, tuple(sizes.values())), strict=True))
    leaves = pd.DataFrame({"county": np.array(names["county"])[county], "area": names["area"]})
    records = leaves.iloc[area].assign(**{name: each.astype(str) for name, each in codes.items()})
    records = records.assign(count=cells[area, cell])
    sides = {name: tt.Hierarchy.from_values(name, [str(i) for i in range(size)]) for name, size in sizes.items()}
    product = tt.Product({"place": tt.Hierarchy.from_table(leaves, levels=["county", "area"]), **sides})
    return records, product


if __name__ == "__main__":
    main()
