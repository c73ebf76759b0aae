"""Italy-like commutes: time and peak memory of `release_flows`, each run in a process of its own.

    python benchmarks/italy.py [--level municipality|section] [--mechanism TopDown|LeastSquares]

Without arguments: both mechanisms, down to municipalities (65 million possible pairs) and down to census sections
(1.3 · 10^11). The data are made by `tallytree.datasets.italy`, and written as Parquet before the clock starts.
The paper's own times, for municipalities: 575 to 1,900 s; sections were given up (Boninsegna and Silvestri 2025).
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = tuple((level, mechanism) for level in ("municipality", "section") for mechanism in ("TopDown", "LeastSquares"))


def release(level: str, mechanism: str) -> None:
    """One release, cold and again, in this process."""
    import tallytree as tt
    from tallytree.datasets import italy

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "flows.parquet"
        leaves = italy.write_od_flows(path, level)
        levels = leaves.column_names
        areas = tt.Hierarchy.from_table(leaves, levels=levels)
        origin, destination = ([f"{side}_{name}" for name in levels] for side in ("origin", "destination"))
        for attempt in ("cold", "warm")[: 2 if level == "municipality" else 1]:
            begin = time.perf_counter()
            found = tt.release_flows(
                path, origins=areas, destinations=areas, origin=origin, destination=destination,
                count="count", budget=tt.Budget(epsilon=1, delta=1e-8), neighboring="change_one",
                mechanism=getattr(tt.counts, mechanism)(), progress=False,
            )  # fmt: skip
            seconds = time.perf_counter() - begin
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            rows = found.table(found.levels[-1]).num_rows if level == "municipality" else "–"
            print(f"| {level} | {mechanism} | {attempt} | {seconds:.1f} | {peak:.2f} | {rows} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--level", choices=["municipality", "section"])
    parser.add_argument("--mechanism", choices=["TopDown", "LeastSquares"])
    arguments = parser.parse_args()
    if arguments.level and arguments.mechanism:
        release(arguments.level, arguments.mechanism)
        return
    print(
        "| down to | mechanism | | seconds | peak of the process, GiB | published cells |\n|" + " --- |" * 6, flush=True
    )
    for level, mechanism in RUNS:
        if arguments.level in (None, level) and arguments.mechanism in (None, mechanism):
            command = [sys.executable, __file__, "--level", level, "--mechanism", mechanism]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
