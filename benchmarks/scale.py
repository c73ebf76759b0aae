"""What one machine can do with `memory`: time and peak memory of releases that need not fit in memory.

    python benchmarks/scale.py flows [--scale 0.1] [--days 7] [--memory 6GB] [--without-measurements]

`flows`: Italy-like commutes between census sections (`tallytree.datasets.italy`), on so many days, by `TopDown`: the
product of origins, destinations and days. `--scale 1 --days 7` has 10^8 pairs with trips. The data are written as
Parquet, in a process of their own, before the clock starts; the release is saved. The peak is that of the whole
process, the shared libraries included.
"""

from __future__ import annotations

import argparse
import logging
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def write_flows(folder: Path, scale: float, days: int) -> None:
    """Write the flows and the areas, in this process."""
    import pyarrow.parquet

    from tallytree.datasets import italy

    areas = italy.write_od_flows(folder / "flows.parquet", "section", scale=scale, days=days)
    pyarrow.parquet.write_table(areas, folder / "areas.parquet")


def release_flows(folder: Path, days: int, memory: str | None, *, keep_measurements: bool) -> None:
    """One release, in this process, and its row of the table."""
    import pyarrow.parquet

    import tallytree as tt

    rows = pyarrow.parquet.read_metadata(folder / "flows.parquet").num_rows
    levels = pyarrow.parquet.read_schema(folder / "areas.parquet").names
    areas = tt.Hierarchy.from_table(folder / "areas.parquet", levels=levels)
    calendar = tt.Hierarchy.from_values("day", [str(day + 1) for day in range(days)])
    sides = {side: [f"{side}_{name}" for name in levels] for side in ("origin", "destination")}
    order = ["destination", "origin"] * len(levels) + ["day"]
    tree = tt.Product({"origin": areas, "destination": areas, "day": calendar}, order=order, columns=sides)
    begin = time.perf_counter()
    made = tt.release_counts(
        folder / "flows.parquet", tree, tt.Budget(epsilon=1, delta=1e-8), neighboring="change_one", count="count",
        mechanism=tt.counts.TopDown(), memory=memory, keep_measurements=keep_measurements,
        engine=tt.engines.Local(temp_directory=folder),
    )  # fmt: skip
    released = time.perf_counter() - begin
    made.save(folder / "release")
    saved = time.perf_counter() - begin - released
    published = made.level_tables[made.levels[-1]].num_rows
    size = sum(file.stat().st_size for file in (folder / "release").rglob("*") if file.is_file()) / 1e9
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"| flows | {rows:,} | {memory} | {released:.0f} | {saved:.0f} | {peak:.2f} | {published:,} | {size:.1f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["flows"])
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--memory")
    parser.add_argument("--without-measurements", action="store_true")
    parser.add_argument("--folder", help="where the data are, and stay; by default a temporary folder")
    parser.add_argument("--step", choices=["write", "release"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step == "write":
        write_flows(Path(given.folder), given.scale, given.days)
    elif given.step == "release":
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s", stream=sys.stderr)
        release_flows(Path(given.folder), given.days, given.memory, keep_measurements=not given.without_measurements)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            folder = given.folder or temporary
            Path(folder).mkdir(parents=True, exist_ok=True)
            again = [sys.executable, __file__, *sys.argv[1:], "--folder", folder, "--step"]
            if not (Path(folder) / "areas.parquet").exists():
                subprocess.run([*again, "write"], check=True)
            print(
                "| what | rows | memory | released, s | saved, s | peak, GiB | published | folder, GB |\n|"
                + " --- |" * 8
            )
            sys.stdout.flush()
            subprocess.run([*again, "release"], check=True)


if __name__ == "__main__":
    main()
