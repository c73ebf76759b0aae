"""Users who contribute m records: 20 million records of 5 million people, beside the same records without `person`.

`python benchmarks/person.py` (`--millions 20`) writes the records to a temporary Parquet file and tabulates them in one
process; half of the people have more than m = 3 records.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tallytree as tt
from tallytree.private.engines import CountRecords
from tallytree.private.tabulate.contribution_bound import ContributionBound
from tallytree.trees.leaf_keys import LeafKey

LEVELS = ["state", "county", "town"]
M = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=float, default=20, help="of records")
    parser.add_argument("--memory-limit", default=None)
    arguments = parser.parse_args()
    rows = int(arguments.millions * 1_000_000)
    areas = tt.Hierarchy.from_table(towns(), levels=LEVELS)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "records.parquet"
        write(file, rows, rows // 4)
        engine = tt.engines.Local(memory_limit=arguments.memory_limit)
        key = LeafKey(areas, tuple(LEVELS))
        print("| | seconds | without person = 1 | peak memory so far, GB |\n| --- | --- | --- | --- |")
        unbounded = timed("without person", 0.0, lambda: engine.tabulate(file, CountRecords((key,))))
        for name, column, distinct in [
            ("integer ids", "id", False),
            ("integer ids, distinct", "id", True),
            ("ids as text", "text", False),
        ]:
            bound = ContributionBound(column, M, bytes(32), distinct=distinct)
            timed(name, unbounded, lambda bound=bound: engine.tabulate(file, CountRecords((key,), bound=bound)))


def timed(name: str, unbounded: float, action: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    action()
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"| {name} | {seconds:.1f} | {seconds / (unbounded or seconds):.1f} | {peak:.1f} |", flush=True)
    return seconds


def towns() -> pa.Table:
    """1,000 towns."""
    numbers = np.arange(1_000)
    return pa.table({name: (numbers // width).astype(str) for name, width in zip(LEVELS, (100, 10, 1), strict=True)})


def write(file: Path, rows: int, people: int) -> None:
    rng = np.random.default_rng(6)
    labels = towns()
    with pq.ParquetWriter(
        file, labels.schema.append(pa.field("id", pa.int64())).append(pa.field("text", pa.string()))
    ) as out:
        for begin in range(0, rows, 1_000_000):
            size = min(1_000_000, rows - begin)
            town, person = rng.integers(0, 1_000, size), rng.integers(0, people, size)
            part = labels.take(pa.array(town)).append_column("id", pa.array(person))
            out.write_table(part.append_column("text", pa.array([f"person-{each}" for each in person.tolist()])))


if __name__ == "__main__":
    main()
