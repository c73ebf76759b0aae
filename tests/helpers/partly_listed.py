"""Releases of flows with rows that say how much is not listed."""

import numpy as np
import pandas as pd

import tallytree as tt

AREAS = pd.DataFrame({"state": np.repeat(["s0", "s1", "s2"], 4), "town": [f"t{i}" for i in range(12)]})
TREE = tt.Hierarchy.from_table(AREAS, levels=["state", "town"])
SIDES = {
    "origins": TREE,
    "destinations": TREE,
    "origin": ["from_state", "from_town"],
    "destination": ["to_state", "to_town"],
}


def trips(seed=1, pairs=60, mean=12.0):
    """Numbers of trips between some of the 144 pairs of towns."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(144, pairs, replace=False)
    sides = [
        AREAS.iloc[each].add_prefix(f"{side}_").reset_index(drop=True)
        for side, each in zip(("from", "to"), np.divmod(chosen, 12), strict=True)
    ]
    return sides[0].join(sides[1]).assign(count=rng.geometric(1 / mean, pairs))


def partly_listed(table=None, *, seed=1, rho=0.05, **options):
    """A release whose tables say how much is not listed."""
    budget = tt.Budget(rho=rho)
    given = {"neighboring": "add_remove", "count": "count", "unlisted": "remainder", "seed": seed, **options}
    return tt.release_flows(trips(seed) if table is None else table, **SIDES, budget=budget, **given)
