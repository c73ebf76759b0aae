"""Small releases of each statistic, which tests vary by one argument at a time."""

from functools import cache

import pandas as pd
import pyarrow as pa
import pyarrow.parquet

import tallytree as tt

PEOPLE = pa.table({"state": ["A"] * 60 + ["B"] * 40, "county": ["x"] * 50 + ["y"] * 10 + ["x"] * 40})


HOUSEHOLDS = pd.DataFrame(
    {
        "state": ["A"] * 6 + ["B"] * 3,
        "county": ["x"] * 5 + ["y"] + ["x"] * 3,
        "household": [1, 1, 1, 2, 2, 3, 4, 5, 5],
    }
)


PUBLIC = pa.table({"state": list("AAAB"), "county": list("xyzx"), "groups": [4, 1, 0, 2]})


EXACT = tt.Budget(epsilon=10_000)


def counts(areas, **changes):
    arguments = {"budget": tt.Budget(epsilon=1), "neighboring": "change_one"} | changes
    return tt.release_counts(arguments.pop("records", PEOPLE), areas, **arguments)


def group_sizes(areas, **changes):
    arguments = {
        "records": HOUSEHOLDS,
        "budget": tt.Budget(epsilon=1),
        "neighboring": "add_remove",
        "group": "household",
        "public_groups": PUBLIC,
        "max_group_size": 20,
    } | changes
    return tt.release_group_sizes(arguments.pop("records"), areas, **arguments)


def flows(areas, **changes):
    trips = pa.table(
        {
            "o_state": ["A", "A", "B"] * 20,
            "o_county": ["x", "y", "x"] * 20,
            "d_state": ["B", "A", "A"] * 20,
            "d_county": ["x", "z", "x"] * 20,
        }
    )
    arguments = {
        "trips": trips,
        "origins": areas,
        "destinations": areas,
        "origin": ["o_state", "o_county"],
        "destination": ["d_state", "d_county"],
        "budget": tt.Budget(epsilon=1, delta=1e-8),
        "neighboring": "change_one",
    } | changes
    return tt.release_flows(arguments.pop("trips"), **arguments)


TABLES = [("county", "sex"), ("state", "sex"), ("county",), ("state",), ("sex",), ()]


def tables(areas, **changes):
    """Tables of the people's areas by a made-up sex, by default with even shares."""
    people = PEOPLE.append_column("sex", [["f", "m"] * (PEOPLE.num_rows // 2)])
    arguments = {"budget": tt.Budget(epsilon=1), "neighboring": "change_one", "tables": TABLES} | changes
    arguments = {"records": people, "budget_split": "even"} | arguments
    return tt.release_tables(arguments.pop("records"), by_sex(areas), arguments.pop("budget"), **arguments)


@cache
def by_sex(areas):
    """The areas by sex: one object, so that equal tables of it are counted once (`helpers/counted_once.py`)."""
    return tt.Product({"area": areas, "sex": tt.Hierarchy.from_values("sex", ["f", "m"])})


def numbers(release, level):
    """A published table without its standard deviations and verdicts."""
    table = release.table(level)
    return table.select([name for name in table.column_names if name not in ("std_dev", "typical_error", "quality")])


def without_tails(table):
    """A table of group sizes as a dict, without the tail counts that `Joint` adds."""
    return table.select([name for name in table.column_names if not name.startswith("tail_")]).to_pydict()
