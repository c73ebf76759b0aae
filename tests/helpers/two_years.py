"""Tables of the people of twelve counties in one year or another: the one is a prior of the other."""

import numpy as np
import pandas as pd
import pyarrow as pa

import tallytree as tt

AREAS = pa.table({"state": [f"s{i // 4}" for i in range(12)], "county": [f"c{i:02d}" for i in range(12)]})
PRODUCT = tt.Product(
    {
        "area": tt.Hierarchy.from_table(AREAS, ["state", "county"]),
        "age": tt.Hierarchy.from_values("age", [f"a{i}" for i in range(5)]),
    }
)
BUDGET = tt.Budget(rho=0.05)
TABLES = [("county", "age"), ("county",), ("state", "age"), ()]


def records(seed, people=3_000):
    rng = np.random.default_rng(seed)
    county, age = rng.choice(12, people, p=np.arange(1, 13) / 78), rng.binomial(4, 0.3, people)
    return pd.DataFrame(
        {
            "state": [f"s{i // 4}" for i in county],
            "county": [f"c{i:02d}" for i in county],
            "age": [f"a{i}" for i in age],
        }
    )


def release(year, **options):
    given = {"neighboring": "add_remove", "tables": TABLES} | options
    return tt.release_tables(records(year), PRODUCT, BUDGET, **given)
