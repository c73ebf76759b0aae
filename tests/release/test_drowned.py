"""Levels whose counts are mostly noise are named, with what to publish instead."""

import numpy as np
import pandas as pd
import pytest

import tallytree as tt
from tallytree.release.surprises import drowned_sentence

TOWNS = pd.DataFrame({"state": np.repeat(list("AB"), 200), "town": [f"t{i}" for i in range(400)]})
TREE = tt.Hierarchy.from_table(TOWNS, levels=["state", "town"])


def released(count, epsilon=0.1):
    table = TOWNS.assign(n=count)
    return tt.release_counts(table, TREE, tt.Budget(epsilon=epsilon), neighboring="add_remove", count="n", seed=1)


def test_a_level_of_small_counts_is_named_with_the_finest_clear_one():
    said = drowned_sentence(released(5))
    assert said.startswith("Counts at 'town' are mostly noise: ")
    assert (
        "Better publish 'state' as the finest level: leave the finer ones out of levels (in a spec hierarchy.l" in said
    )


@pytest.mark.parametrize(("count", "epsilon"), [(5_000, 0.1), (5, 100)])
def test_counts_far_above_the_noise_say_nothing(count, epsilon):
    assert drowned_sentence(released(count, epsilon)) == ""


def test_flows_are_told_of_remainders_and_releases_with_these_are_not():
    table = pd.DataFrame({"from": TOWNS["town"], "to": TOWNS["town"][::-1].to_numpy(), "n": 3})
    towns = tt.Hierarchy.from_table(TOWNS[["town"]], levels=["town"])
    options = {"origins": towns, "destinations": towns, "origin": ["from"], "destination": ["to"], "count": "n"}
    budget = tt.Budget(epsilon=0.1)
    release = tt.release_flows(table, **options, budget=budget, neighboring="add_remove", seed=1)
    assert 'or use unlisted="remainder"' in drowned_sentence(release)
    other = tt.release_flows(table, **options, budget=budget, neighboring="add_remove", seed=1, unlisted="remainder")
    assert drowned_sentence(other) == ""
