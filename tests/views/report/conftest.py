"""Releases that reports are made of."""

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers import releases

SCRIPT = "<script>alert(1)</script>"
LABELS = [SCRIPT, 'O\'Neil "x" & Co', "ירושלים", "=1+1"]
"""Labels with HTML, quotes, text from right to left, a formula."""


@pytest.fixture(scope="session")
def awkward_areas():
    """A hierarchy whose labels must be escaped."""
    counties = ["y" * 300, "a.b[0]", "מחוז", "z\u202egnirts"]
    return tt.Hierarchy.from_table(pa.table({"state": LABELS, "county": counties}), ["state", "county"])


@pytest.fixture(scope="session")
def counts_release(awkward_areas):
    """Counts by LeastSquares, with the errors of the fit, over awkward labels."""
    leaves = awkward_areas.leaf_table()
    records = leaves.take(pa.array(np.repeat(np.arange(4), [50, 30, 20, 400])))
    return tt.release_counts(records, awkward_areas, tt.Budget(rho=0.5), neighboring="add_remove")


@pytest.fixture(scope="session")
def tables_release(awkward_areas):
    """Tables of a person's bounded records, with what the bound left out."""
    rng = np.random.default_rng(3)
    leaves = awkward_areas.leaf_table().take(pa.array(rng.integers(0, 4, 3_000)))
    records = leaves.append_column("sex", pa.array(rng.choice(["f", "m"], 3_000)))
    records = records.append_column("person", pa.array(rng.integers(0, 1_500, 3_000)))
    product = tt.Product({"area": awkward_areas, "sex": tt.Hierarchy.from_values("sex", ["f", "m"])})
    return tt.release_tables(
        records, product, tt.Budget(epsilon=1), neighboring="add_remove", person="person", max_contributions=2,
        contributions=0.05, tables=[("county", "sex"), ("state",), ("sex",), ()],
    )  # fmt: skip


@pytest.fixture(scope="session")
def areas():
    """A small hierarchy without surprises."""
    return tt.Hierarchy.from_table(
        pa.table({"state": ["A", "A", "A", "B"], "county": ["x", "y", "z", "x"]}), ["state", "county"]
    )


@pytest.fixture(scope="session")
def flows_release(areas):
    """Flows between the counties."""
    return releases.flows(areas)


@pytest.fixture(scope="session")
def sizes_release():
    """Group sizes: a taxi-like release, with sizes up to 100 and public numbers of groups."""
    rng = np.random.default_rng(4)
    sizes = np.minimum(rng.geometric(0.03, 4_000), 400)
    places = rng.integers(0, 6, 4_000)
    rows = pa.table({"half": np.where(places < 3, "lower", "upper"), "place": [f"p{i}" for i in places], "size": sizes})
    grouped = rows.group_by(["half", "place", "size"]).aggregate([([], "count_all")])
    grouped = grouped.rename_columns(["half", "place", "size", "groups"])
    tree = tt.Hierarchy.from_table(rows.group_by(["half", "place"]).aggregate([]), ["half", "place"])
    return tt.release_group_sizes(
        grouped, tree, tt.Budget(epsilon=1), neighboring="add_remove", size="size", groups="groups", max_group_size=100
    )


@pytest.fixture(scope="session")
def every_release(counts_release, tables_release, flows_release, sizes_release):
    """One release of each statistic, by its name."""
    return {
        "counts": counts_release, "tables": tables_release, "flows": flows_release, "group_sizes": sizes_release
    }  # fmt: skip
