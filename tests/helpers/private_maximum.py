"""Releases of group sizes whose K is measured."""

import pandas as pd
import pyarrow as pa

import tallytree as tt
from helpers.inside import SizesArguments, plan_group_sizes
from tallytree.sizes import PrivateMaximum

ROWS = {"state": ["A", "A", "B"], "county": ["x", "x", "x"], "n": [0, 3, 30], "households": [5, 4, 7]}


PEOPLE = pd.DataFrame(
    {
        "state": ["A"] * 6 + ["B"] * 3,
        "county": ["x"] * 5 + ["y"] + ["x"] * 3,
        "household": [1, 1, 1, 2, 2, 3, 4, 5, 5],
        "cars": [0, 4, 9, 1, 0, 0, 2, 1, 1],
    }
)


EXACT = tt.Budget(epsilon=10_000)


PURE = tt.Budget(epsilon=1)


BUDGETS = [tt.Budget(epsilon=10_000), tt.Budget(rho=10_000), tt.Budget(epsilon=200, delta=1e-6)]


HALF = PrivateMaximum(share=0.5)


def rows(areas, **changes):
    arguments = {"budget": EXACT, "neighboring": "add_remove", "size": "n", "groups": "households"} | changes
    data = pa.table(ROWS | arguments.pop("data", {}))
    return tt.release_group_sizes(data, areas, **({"max_group_size": HALF} | arguments))


def entities(areas, **changes):
    arguments = {"budget": EXACT, "neighboring": "add_remove", "group": "household", "max_group_size": HALF} | changes
    return tt.release_group_sizes(arguments.pop("records", PEOPLE), areas, **arguments)


def planned(areas, budget=PURE, **changes):
    arguments = {"max_group_size": PrivateMaximum(share=0.1), "size": "n", "groups": "households"} | changes
    records = arguments.pop("records", pa.table(ROWS))
    return plan_group_sizes(SizesArguments(records, areas, budget, **{"neighboring": "add_remove"} | arguments))
