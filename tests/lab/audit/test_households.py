"""Persons and households: the exact loss of all small neighbors is within what both parts are said to spend."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import (
    HouseholdsArguments,
    LeafCounts,
    LeafGroups,
    TrueRanks,
    TrueTables,
    plan_households,
    size_level,
)
from tallytree.lab.audit.exact import exact_delta, exact_loss
from tallytree.lab.audit.inputs import Neighborhood

AREAS = tt.Hierarchy.from_values("county", ["x", "y"])
K, MOST = 2, 3
PLACES = [(leaf, home) for leaf in (0, 1) for home in (0, 1, None)]
"""Of each county two homes, and none."""


class Both:
    """The true statistics of both parts, as an audit asks for them."""

    def __init__(self, planned, members):
        outside = np.array([home is None for _, home in PLACES])
        leaf = np.array([leaf for leaf, _ in PLACES])
        persons = dict.fromkeys(itertools.product((0, 1), (0, 1)), 0)
        for place, number in enumerate(members):
            persons[leaf[place], int(outside[place])] += int(number)
        there = {key: number for key, number in persons.items() if number}
        parts = tuple(np.array([key[side] for key in there], dtype=np.int64) for side in (0, 1))
        counts = LeafCounts(parts, np.array([*there.values()], dtype=np.int64))
        homes = {}
        for place in np.flatnonzero(~outside & (members > 0)):
            key = (int(leaf[place]), int(members[place]))
            homes[key] = homes.get(key, 0) + 1
        rows = np.array(sorted((*key, number) for key, number in homes.items()), dtype=np.int64).reshape(-1, 3)
        names = {level: size_level(level) for level in AREAS.levels}
        self._ranks = TrueRanks(AREAS, LeafGroups(*np.ascontiguousarray(rows.T)), K, names)
        self._tables = TrueTables(planned.persons.layout, counts, planned.persons.statistics)

    def _of(self, level):
        return self._ranks if level.startswith("households/") else self._tables

    def size(self, level):
        return self._of(level).size(level)

    def width(self, level, node, statistic):
        return self._of(level).width(level, node, statistic)

    def cells(self, level, nodes, statistic, part=None):
        return self._of(level).cells(level, nodes, statistic, part)


def planned_with(budget, **options):
    arguments = HouseholdsArguments(
        pa.table({"county": ["x"], "home": ["h"]}), AREAS, budget, household="home", max_household_size=K, **options
    )
    return plan_households(arguments)


def pairs(planned, relation, m, most=MOST):
    """Every data set of at most so many in each place, with all of its neighbors."""
    terms = planned.arguments
    near = Neighborhood(relation, m, same_records=terms.total_is_public)
    data = [np.array(each) for each in itertools.product(range(most + 1), (0, 1), (1,), (0, most), (1,), (0, 1))]
    known = {}

    def both(members):
        key = tuple(int(each) for each in members)
        if key not in known:
            known[key] = Both(planned, members)
        return known[key]

    for before in data:
        for after in near.of(before):
            yield both(before), both(after)


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add_remove", "change_one"])
@pytest.mark.parametrize("m", [1, 2])
def test_no_neighbors_lose_more_than_both_parts_spend(relation, m):
    options = {"neighboring": relation, "max_contributions": m}
    pure = planned_with(tt.Budget(epsilon=1), **options)
    loss = exact_loss(pure.plan, pairs(pure, relation, m))
    assert loss <= pure.plan.spent["epsilon"] <= 1
    assert loss > 0.7
    if relation == "add_remove":
        assert loss == pure.plan.spent["epsilon"]  # attained: a person in a household is in a cell of each measurement
    zcdp = planned_with(tt.Budget(rho=1), **options)
    loss = exact_loss(zcdp.plan, pairs(zcdp, relation, m))
    assert 0.5 < loss <= zcdp.plan.spent["rho"] <= 1


def test_the_delta_of_neighbors_is_no_more_than_that_of_the_composition():
    planned = planned_with(tt.Budget(epsilon=1, delta=1e-3), neighboring="add_remove")
    assert planned.plan.accounting == "pld"
    before, after = (Both(planned, np.array(each)) for each in ([1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]))
    found = exact_delta(planned.plan, before, after, float(planned.plan.spent["epsilon"]))
    assert 0.9e-3 < found <= 1e-3
