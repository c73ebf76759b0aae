"""Releases of flows with rows that say how much is not listed."""

import numpy as np
import pandas as pd

import tallytree as tt


def towns_of(states, towns):
    """A table of states with as many towns each."""
    names = np.repeat([f"s{i}" for i in range(states)], towns)
    return pd.DataFrame({"state": names, "town": [f"t{i}" for i in range(states * towns)]})


def sides_of(areas):
    """The arguments of `release_flows` that name the areas and the columns of `trips`."""
    tree = tt.Hierarchy.from_table(areas, levels=["state", "town"])
    columns = {"origin": ["from_state", "from_town"], "destination": ["to_state", "to_town"]}
    return {"origins": tree, "destinations": tree, **columns}


AREAS = towns_of(3, 4)
SIDES = sides_of(AREAS)
TREE = SIDES["origins"]


def trips(seed=1, pairs=60, mean=12.0, areas=AREAS):
    """Numbers of trips between some of the pairs of towns."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(areas) ** 2, pairs, replace=False)
    sides = [
        areas.iloc[each].add_prefix(f"{side}_").reset_index(drop=True)
        for side, each in zip(("from", "to"), np.divmod(chosen, len(areas)), strict=True)
    ]
    return sides[0].join(sides[1]).assign(count=rng.geometric(1 / mean, pairs))


def partly_listed(table=None, *, seed=1, rho=0.05, **options):
    """A release whose tables say how much is not listed."""
    budget = tt.Budget(rho=rho)
    given = {"neighboring": "add_remove", "count": "count", "unlisted": "remainder", "seed": seed, **options}
    return tt.release_flows(trips(seed) if table is None else table, **SIDES, budget=budget, **given)
