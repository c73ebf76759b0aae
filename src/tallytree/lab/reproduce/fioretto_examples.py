"""The worked example of Fioretto et al. 2021: Tables 2 to 6, computed again."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tallytree.api import release_group_sizes
from tallytree.budget import Budget
from tallytree.hierarchy import Hierarchy
from tallytree.lab._internals import root_table
from tallytree.lab.reproduce.experiment import Experiment, Found, Settings
from tallytree.lab.reproduce.marks import EXACT
from tallytree.lab.reproduce.measured import MeasuredRows
from tallytree.sizes import HistogramProjection
from tallytree.support.arrays import IntArray

USERS = pa.table({"unit": list("ABAACDEDDFF"), "region": ["GA"] * 5 + ["NY"] * 6})
"""Table 2: the unit and the region of each of eleven users; every quantity is 1."""
SIZES = 5
NOISY = {"GA": 3, "NY": 0, "US": 2}
"""The noisy numbers of groups of size 1 in Table 5."""
CHAIN_NOISY = {"GA": 3, "NY": 3, "US": 2}
"""The noisy cumulative numbers of Table 6."""
SHOWN = 5
"""How many rows the cost tables have, v = 0 … 4."""


def table_2(settings: Settings) -> Found:
    """How many users each region has in the data set; the other tables are computed from it."""
    regions = USERS["region"].to_pylist()
    found = [MeasuredRows(region, EXACT, "users", [regions.count(region)]) for region in ("GA", "NY")]
    return Found(found, None, ["Table 2 lists the data set itself, which is the input of Tables 3 and 4."])


def table_3(settings: Settings) -> Found:
    """The size of every group, which is the sum of its users' quantities."""
    sizes = USERS.group_by(["unit"]).aggregate([([], "count_all")]).sort_by("unit")
    return Found([MeasuredRows(f"unit {unit}", EXACT, "size", [size]) for unit, size in _pairs(sizes)], None)


def table_4(settings: Settings) -> Found:
    """Groups by size, of both regions and of their sum, published with so little noise that there is none."""
    regions = Hierarchy.from_table(
        pa.table({"country": ["US"] * 2, "region": ["GA", "NY"]}), levels=["country", "region"]
    )
    release = release_group_sizes(
        USERS, regions, Budget(epsilon=1_000), group="unit", neighboring="add_remove", invariants="total",
        max_group_size=SIZES, mechanism=HistogramProjection(), seed=settings.seed,
    )  # fmt: skip
    found = []
    for level, region in (("region", "GA"), ("region", "NY"), ("country", "US")):
        rows = {row["size"]: row["groups"] for row in release.table(level).to_pylist() if row[level] == region}
        found += [MeasuredRows(region, EXACT, "groups", [rows.get(size, 0)], x=size) for size in range(1, SIZES + 1)]
    return Found(found, None, ["x is the size. The noise at ε = 1,000 is 0 but for a chance of e⁻¹⁶⁶."])


def table_5(settings: Settings) -> Found:
    """M_H^dp's cost tables for groups of size 1: the leaves' squares, and the best of both children at the root."""
    tables = {region: (np.arange(SHOWN) - NOISY[region]) ** 2 for region in ("GA", "NY")}
    lowest, costs = root_table([-1, 0, 0], [NOISY["US"], NOISY["GA"], NOISY["NY"]], delta=2 * SHOWN)
    tables["US"] = costs[-lowest : SHOWN - lowest]
    return Found(_cells(tables, 5), None, ["x is v, the value whose cost the cell is."])


def table_6(settings: Settings) -> Found:
    """M_c^ch's cost tables along the chain: each is the square plus the best cost so far (recurrence 8)."""
    values = np.arange(SHOWN)
    tables: dict[str, IntArray] = {"GA": (values - CHAIN_NOISY["GA"]) ** 2}
    # Within a level the next value may be larger, so the best of all smaller ones counts; the level above is equal.
    tables["NY"] = (values - CHAIN_NOISY["NY"]) ** 2 + np.minimum.accumulate(tables["GA"])
    tables["US"] = (values - CHAIN_NOISY["US"]) ** 2 + tables["NY"]
    return Found(_cells(tables, 6), None, ["x is v, the value whose cost the cell is."])


def _cells(tables: dict[str, IntArray], number: int) -> list[MeasuredRows]:
    return [
        MeasuredRows(region, EXACT, f"cost (Table {number})", [int(cost)], x=value)
        for region, costs in tables.items()
        for value, cost in enumerate(costs)
    ]


def _pairs(table: pa.Table) -> list[tuple[str, int]]:
    return [(row["unit"], row["count_all"]) for row in table.to_pylist()]


INPUT = "the paper's example"
EXPERIMENTS = (
    Experiment(
        "fioretto-table2", "fioretto", "the data set of the example", INPUT, table_2, 0.1, 1, "Table 2 of the paper"
    ),
    Experiment(
        "fioretto-table3", "fioretto", "the groups of the example", INPUT, table_3, 0.1, 1, "Table 3 of the paper"
    ),
    Experiment(
        "fioretto-table4", "fioretto", "groups by size and region", INPUT, table_4, 0.1, 1, "Table 4 of the paper"
    ),
    Experiment(
        "fioretto-table5", "fioretto", "the cost tables of M_H^dp", INPUT, table_5, 0.1, 1, "Table 5 of the paper"
    ),
    Experiment(
        "fioretto-table6", "fioretto", "the cost tables of M_c^ch", INPUT, table_6, 0.1, 1, "Table 6 of the paper"
    ),
)
