"""The time of the fit of many tables: areas × 252 cells (63 × 2 × 2), five tables, 40 people an area, made up.

    python benchmarks/large_tables.py [--areas 20000] [--shape 252|46|54] [--kinds today pooled]

Pooled, and without pooling, one after the other in one process, after a small release of each, which compiles. Other
shapes are 23 × 2 with 200 people an area, and 18 × 3 with 40. Seconds are of stages; of the processors, of a release.
"""

from __future__ import annotations

import argparse
import time
from functools import reduce

import numpy as np
import pandas as pd
from borrowed_strength import POOLED, TODAY, mechanism, same_noise, seconds_of_stages

import tallytree as tt

SHAPES = {
    "252": ({"race": 63, "origin": [0.85, 0.15], "adult": [0.75, 0.25]}, 40),
    "46": ({"age": 23, "sex": [0.5, 0.5]}, 200),
    "54": ({"age": 18, "sex": [0.49, 0.49, 0.02]}, 40),
}
"""The attributes, with the number of values of the first and the shares of the others, and people of an area."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--areas", type=int, default=20_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shape", choices=SHAPES, default="252")
    parser.add_argument("--kinds", nargs="+", choices=(TODAY, POOLED), default=(TODAY, POOLED))
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    seconds_of(*made_up(min(given.areas, 400), rng, given.shape), given)
    took = seconds_of(*made_up(given.areas, rng, given.shape), given)
    for kind, seconds in took.items():
        print(f"{given.areas:,} areas × {given.shape}, {kind}: {seconds}")
    if len(took) > 1:
        print(f"fit, pooled ÷ today: {took[POOLED]['reconcile'] / max(took[TODAY]['reconcile'], 0.1):.2f}")


def seconds_of(records: pd.DataFrame, product: tt.Product, given: argparse.Namespace) -> dict[str, dict[str, float]]:
    """The seconds of each stage, by mechanism."""
    joint = tuple(SHAPES[given.shape][0])
    tables = [("area",), ("area", joint[0]), ("area", *joint[1:]), ("area", *joint), ("county", *joint)]
    found = {}
    for kind in given.kinds:
        begin = time.process_time()
        with same_noise(), seconds_of_stages() as seconds:
            tt.release_tables(
                records, product, tt.Budget(epsilon=given.epsilon, delta=1e-8), neighboring="add_remove",
                tables=tables, count="count", seed=given.seed, mechanism=mechanism(kind),
            )  # fmt: skip
        found[kind] = dict(seconds) | {"processors": round(time.process_time() - begin, 1)}
    return found


def made_up(areas: int, rng: np.random.Generator, shape: str = "252") -> tuple[pd.DataFrame, tt.Product]:
    """People of areas that resemble their county, and the hierarchies."""
    (first, values), *others = SHAPES[shape][0].items()
    sizes = {first: values} | {name: len(each) for name, each in others}
    counties = max(areas // 200, 1)
    names = {"county": [f"{i:03d}" for i in range(counties)], "area": [f"{i:05d}" for i in range(areas)]}
    county = np.sort(rng.integers(0, counties, areas))
    of_first, county[:counties] = rng.dirichlet(np.full(values, 0.05)), np.arange(counties)
    county.sort()
    of_others = np.ravel(reduce(np.outer, (each for _, each in others)))
    shares = rng.dirichlet(200 * np.outer(of_first, of_others).ravel() + 0.01, counties)
    people = rng.poisson(SHAPES[shape][1] * rng.gamma(2.0, 0.5, areas))
    cells = np.stack([rng.multinomial(people[i], shares[county[i]]) for i in range(areas)])
    area, cell = cells.nonzero()
    codes = dict(zip(sizes, np.unravel_index(cell, tuple(sizes.values())), strict=True))
    leaves = pd.DataFrame({"county": np.array(names["county"])[county], "area": names["area"]})
    records = leaves.iloc[area].assign(**{name: each.astype(str) for name, each in codes.items()})
    records = records.assign(count=cells[area, cell])
    sides = {name: tt.Hierarchy.from_values(name, [str(i) for i in range(size)]) for name, size in sizes.items()}
    product = tt.Product({"place": tt.Hierarchy.from_table(leaves, levels=["county", "area"]), **sides})
    return records, product


if __name__ == "__main__":
    main()
