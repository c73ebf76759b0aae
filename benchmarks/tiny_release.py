"""Processor time of a release of 3,000 records, beside DuckDB that is opened for one group-by of the same records.

DuckDB belongs to one release, so no release takes less than opening and closing it does. All run by turns in one
process; the figures are medians. `--releases` says of how many.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from ratios import LeftOut, Ratio

import tallytree as tt

RECORDS = 3_000
RELEASES = 31
WARM_UP = 3
PEER = "DuckDB opened for one group-by"


def jobs() -> tuple[dict[str, Callable[[], Any]], Callable[[], Any]]:
    """A release of every kind, and the peer."""
    rng = np.random.default_rng(1)
    states = np.repeat(["A", "B", "C"], 4)
    leaves = pa.table({"state": states, "county": np.char.add(states, ["w", "x", "y", "z"] * 3)})
    areas = tt.Hierarchy.from_table(leaves, levels=["state", "county"])
    product = tt.Product({"area": areas, "sex": tt.Hierarchy.from_values("sex", ["f", "m"])})
    records = leaves.take(rng.integers(0, 12, RECORDS)).append_column("sex", pa.array(rng.choice(["f", "m"], RECORDS)))
    homes = leaves.take(np.repeat(rng.integers(0, 12, RECORDS // 3), 3))
    people = homes.append_column("home", pa.array(np.arange(RECORDS) // 3))
    groups = leaves.append_column("groups", pa.array([1_000] * 12))
    one: dict[str, Any] = {"budget": tt.Budget(epsilon=1), "neighboring": "add_remove"}
    sizes: dict[str, Any] = {"group": "home", "max_group_size": 20, **one}
    tables = [("county", "sex"), ("state",)]

    def group_by() -> None:
        with duckdb.connect(":memory:") as connection:
            connection.register("records", records)
            connection.execute("SELECT state, county, count(*) FROM records GROUP BY ALL").fetchnumpy()

    return {
        "counts": lambda: tt.release_counts(records, areas, **one),
        "tables": lambda: tt.release_tables(records, product, tables=tables, **one),
        "group sizes": lambda: tt.release_group_sizes(people, areas, **sizes),
        "group sizes, public groups": lambda: tt.release_group_sizes(people, areas, public_groups=groups, **sizes),
        "households": lambda: tt.release_households(people, areas, household="home", max_household_size=4, **one),
    }, group_by


def median_seconds(each: dict[str, Callable[[], Any]], times: int) -> dict[str, float]:
    """The median processor seconds of each action, by turns, after a warm-up."""
    took: dict[str, list[float]] = {name: [] for name in each}
    for _ in range(WARM_UP + times):
        for name, action in each.items():
            begun = time.process_time()
            action()
            took[name].append(time.process_time() - begun)
    return {name: statistics.median(seconds[WARM_UP:]) for name, seconds in took.items()}


def ratios(releases: int = RELEASES) -> Iterator[Ratio | LeftOut]:
    """For `make bench`; see `ratios.py`."""
    ours, peer = jobs()
    seconds = median_seconds({**ours, PEER: peer}, releases)
    for name in ours:
        yield Ratio(f"release of 3,000 records, {name}", PEER, seconds[name], seconds[PEER])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--releases", type=int, default=RELEASES)
    for each in ratios(parser.parse_args().releases):
        if isinstance(each, Ratio):
            print(
                f"{each.name}: {1000 * each.ours:.1f} ms, {each.ratio:.2f} × {each.peer} ({1000 * each.theirs:.1f} ms)"
            )


if __name__ == "__main__":
    main()
