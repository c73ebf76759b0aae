"""An unusual place: an institution in a category that is rare elsewhere, with pooling and without, on the same noise.

    python benchmarks/unusual_place.py [--runs 20]

300 made-up areas (log-normal, median 665 people) by eight categories; the rarest has 0.1 % of the people, or none. One
area has so many people in it. Printed are means over runs.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Literal

import numpy as np
import pyarrow as pa
from borrowed_strength import same_noise

import tallytree as tt

AREAS, SHARES = 300, (0.3, 0.25, 0.2, 0.1, 0.08, 0.05, 0.019, 0.001)
CELL = len(SHARES) - 1
"""The rarest category of the first area, in the order of the rows."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    size = np.random.default_rng(1).lognormal(6.5, 0.8, AREAS)
    usual = np.random.default_rng(2).poisson(size[:, None] * SHARES)
    for people, elsewhere, epsilon in itertools.product((250, 50), (True, False), (1.0, 0.4)):
        cells = usual.copy()
        cells[:, CELL] *= elsewhere
        cells[0, CELL] = people
        print(f"{people} people, {'some' if elsewhere else 'none'} elsewhere, ε = {epsilon:g}")
        for pooling in ("none", "areas"):
            found = np.array([published(cells, epsilon, pooling, run) for run in range(runs)])
            mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(runs)
            print(f"  {pooling:5}: published {mean[0]:.0f} ± {error[0]:.0f}, std_dev {mean[1]:.1f}, "
                  f"typical error {mean[2]:.1f}, intervals that hold {np.mean(found[:, 3]):.2f}")  # fmt: skip


def published(cells: np.ndarray, epsilon: float, pooling: Literal["areas", "none"], run: int) -> tuple[float, ...]:
    """The institution's number, std_dev and typical error, and whether its 90 % interval holds."""
    areas, kinds = ([f"{kind} {i:03}" for i in range(n)] for kind, n in zip(("area", "kind"), cells.shape, strict=True))
    area, kind = np.nonzero(cells)
    records = {"area": np.array(areas)[area], "kind": np.array(kinds)[kind], "count": cells[area, kind]}
    product = tt.Product(
        {"area": tt.Hierarchy.from_values("area", areas), "kind": tt.Hierarchy.from_values("kind", kinds)}
    )
    with same_noise():
        release = tt.release_tables(
            pa.table(records), product, tt.Budget(epsilon=epsilon, delta=1e-8), neighboring="add_remove",
            tables=[("area", "kind")], count="count", seed=run, mechanism=tt.tables.LeastSquares(pooling=pooling),
        )  # fmt: skip
    row = release.table("area", "kind", alpha=0.1).slice(CELL, 1).to_pylist()[0]
    held = row["ci_lower"] <= cells[0, CELL] <= row["ci_upper"]
    return row["count"], row["std_dev"], row["typical_error"], held


if __name__ == "__main__":
    main()
