"""How long the explorer takes to read views of a release with 10^6 leaves, beside reading the finest level as a whole.

    python benchmarks/explore.py [--leaves 1000000]

Prints Markdown: seconds of each view, without its pictures, over the seconds in which pyarrow reads the finest level's
Parquet file; and the most memory that the process used.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tallytree as tt
from tallytree._explore.address import first_address
from tallytree._explore.shown import open_release
from tallytree._explore.walk import Walk

BUDGET = tt.Budget(epsilon=1, delta=1e-8)
LEVELS = ["region", "town", "block"]
RECORDS = 2_000_000


def places(leaves: int) -> pa.Table:
    """Labels of a tree with 100 regions, 100 towns in each, and so many blocks in all."""
    number = np.arange(leaves)
    town = number * 10_000 // leaves
    columns = {"region": town // 100, "town": town, "block": number}
    return pa.table({name: np.char.add(f"{name} ", each.astype(str)) for name, each in columns.items()})


def counts(leaves: int) -> tt.Release:
    """Counts of records that are spread unevenly."""
    public = places(leaves)
    drawn = (np.random.default_rng(1).random(RECORDS) ** 2 * leaves).astype(np.int64)
    tree = tt.Hierarchy.from_table(public, LEVELS)
    return tt.release_counts(public.take(pa.array(drawn)), tree, BUDGET, neighboring="change_one")


def flows(leaves: int) -> tt.Release:
    """Flows between a hundredth as many leaves."""
    public, random = places(max(leaves // 100, 10_000)), np.random.default_rng(2)
    tree, columns, names = tt.Hierarchy.from_table(public, LEVELS), [], []
    for side in ("origin", "destination"):
        drawn = (random.random(RECORDS) ** 2 * public.num_rows).astype(np.int64)
        columns += public.take(pa.array(drawn)).columns
        names += [f"{side}_{level}" for level in LEVELS]
    return tt.release_flows(
        pa.table(columns, names=names),
        origins=tree,
        destinations=tree,
        budget=BUDGET,
        neighboring="change_one",
        origin=names[:3],
        destination=names[3:],
    )


def seconds(work: Callable[[], object]) -> float:
    """How long work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def views(folder: Path) -> dict[str, float]:
    """Seconds of views, in the order in which a reader asks for them."""
    walk: list[Walk] = []
    found = {"open": seconds(lambda: walk.append(open_release(folder, [], None).walk))}
    here = first_address(walk[0])
    found["first view"] = seconds(lambda: walk[0].page(here.table, here.places))
    for step in range(1, len(LEVELS) + 1):
        rows = walk[0].page(here.table, here.places).places
        here = here.into(walk[0], rows[0])
        found[f"zoom {step}"] = seconds(lambda: walk[0].page(here.table, here.places))  # noqa: B023 (called at once)
    finest, start = walk[0].view.tables[-1], first_address(walk[0]).places
    found["all leaves, largest first"] = seconds(lambda: walk[0].page(finest, start))
    found["the next page of them"] = seconds(lambda: walk[0].page(finest, start, first=100))
    found["search"] = seconds(lambda: walk[0].search("block 99"))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--leaves", type=int, default=1_000_000)
    leaves = parser.parse_args().leaves
    for kind, make in (("counts", counts), ("flows", flows)):
        with tempfile.TemporaryDirectory() as place:
            folder = make(leaves).save(Path(place) / kind)
            finest = max((folder / "tables").rglob("*.parquet"), key=lambda path: path.stat().st_size)
            whole = seconds(lambda: pq.read_table(finest))  # noqa: B023 (called at once)
            rows = pq.read_metadata(finest).num_rows
            print(f"\n{kind}: the finest level has {rows:,} rows, read in {whole:.2f} s\n\n| view | seconds | ratio |")
            print("| --- | ---: | ---: |")
            for name, took in views(folder).items():
                print(f"| {name} | {took:.3f} | {took / whole:.2f} |")
    unit = 2**20 if sys.platform == "darwin" else 2**10
    print(f"\nMost memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit:,.0f} MiB, releases included")


if __name__ == "__main__":
    main()
