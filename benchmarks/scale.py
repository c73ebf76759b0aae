"""What one machine can do with `memory`: time and peak memory of releases that need not fit in memory.

    python benchmarks/scale.py flows [--scale 0.1] [--days 7] [--memory 6GB] [--without-measurements]
    python benchmarks/scale.py sizes [--leaves 20000] [--sizes 1000] [--mechanisms Matching Joint] [--memory 16GB]
                                     [--without-measurements]

`flows`: Italy-like commutes between census sections (`tallytree.datasets.italy`), on so many days, by `TopDown`: the
product of origins, destinations and days. `--scale 1 --days 7` has 10^8 pairs with trips.

`sizes`: generated group sizes in blocks below tracts, counties, states and a country: about 30 groups a block, most of
them small, whose sizes follow from the number of the block. `--leaves 8000000 --memory 16GB --without-measurements` has
240 million groups. A cell is a node and a size.

The data are written as Parquet, in a process of their own, before the clock starts; the release is saved. The peak is
that of the whole process, the shared libraries included.
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

import numpy as np

BLOCKS = {"state": 160_000, "county": 2_500, "tract": 100, "block": 1}
"""How many blocks, the leaves of `sizes`, each node of a level has."""
LEAVES_AT_ONCE = 25_000
HEADS = {
    "flows": ["what", "rows", "memory", "released, s", "saved, s", "peak, GiB", "published", "folder, GB"],
    "sizes": [
        *("what", "leaves", "groups", "rows", "memory", "released, s", "processor, s", "ns a cell", "saved, s"),
        *("peak, GiB", "published", "folder, GB"),
    ],
}


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


def mixed(numbers: np.ndarray, salt: int) -> np.ndarray:
    """Numbers in [0, 1) that are a function of the given ones: float64 (n,). The mixing is that of splitmix64."""
    z = (numbers.astype(np.uint64) + np.uint64(salt)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) / 2.0**53


def generated_sizes(first: int, stop: int, sizes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The (leaf, size, groups) rows of some leaves, a function of their numbers alone.

    A leaf has 30 groups on average, 0 to 60. Nine groups in ten are households (geometric, mean 5), the others
    are larger, up to the greatest size, with a density that falls as its inverse.

    Returns:
        int64 (rows,) each: the leaf's number, the size from 0, the number of groups.
    """
    leaves = np.arange(first, stop)
    groups = (61 * mixed(leaves, 1)).astype(np.int64)
    leaf = np.repeat(leaves, groups)
    group = leaf * 64 + np.arange(len(leaf)) - np.repeat(np.cumsum(groups) - groups, groups)
    small = np.log1p(-mixed(group, 2)) / np.log1p(-1 / 6)
    large = float(sizes) ** mixed(group, 3)
    size = np.minimum(np.where(mixed(group, 4) < 0.9, small, large).astype(np.int64), sizes - 1)
    keys, counts = np.unique(leaf * sizes + size, return_counts=True)
    return keys // sizes, keys % sizes, counts


def write_sizes(folder: Path, leaves: int, sizes: int) -> None:
    """Write the rows and the areas, some leaves at once."""
    import pyarrow as pa
    import pyarrow.parquet

    def paths(blocks: np.ndarray) -> dict[str, pa.Array]:
        return {level: pa.array((blocks // each).astype(np.int32)) for level, each in BLOCKS.items()}

    areas = pa.table(paths(np.arange(leaves)))
    pyarrow.parquet.write_table(areas, folder / "areas.parquet")
    columns = [(level, pa.int32()) for level in BLOCKS] + [("size", pa.int32()), ("groups", pa.int32())]
    with pyarrow.parquet.ParquetWriter(folder / "sizes.parquet", pa.schema(columns)) as writer:
        for first in range(0, leaves, LEAVES_AT_ONCE):
            leaf, size, groups = generated_sizes(first, min(first + LEAVES_AT_ONCE, leaves), sizes)
            numbers = {"size": size.astype(np.int32), "groups": groups.astype(np.int32)}
            writer.write_table(pa.table({**paths(leaf), **numbers}))


def release_sizes(folder: Path, sizes: int, mechanism: str, memory: str | None, *, keep_measurements: bool) -> None:
    """One release, in this process, and its row of the table."""
    import pyarrow.compute as pc
    import pyarrow.dataset

    import tallytree as tt

    rows = pyarrow.dataset.dataset(folder / "sizes.parquet")
    groups = sum(pc.sum(batch["groups"]).as_py() or 0 for batch in rows.to_batches(columns=["groups"]))
    begin, processor = time.perf_counter(), time.process_time()
    areas = tt.Hierarchy.from_table(folder / "areas.parquet", levels=list(BLOCKS))
    print(f"hierarchy: {time.perf_counter() - begin:.1f} s", file=sys.stderr, flush=True)
    made = tt.release_group_sizes(
        folder / "sizes.parquet", areas, tt.Budget(epsilon=1), size="size", groups="groups", max_group_size=sizes - 1,
        neighboring="add_remove", mechanism=getattr(tt.sizes, mechanism)(), memory=memory,
        keep_measurements=keep_measurements, engine=tt.engines.Local(temp_directory=folder),
    )  # fmt: skip
    released, used = time.perf_counter() - begin, time.process_time() - processor
    made.save(folder / f"release-{mechanism}")
    saved = time.perf_counter() - begin - released
    published = made.level_tables[made.levels[-1]].num_rows
    size = sum(file.stat().st_size for file in (folder / f"release-{mechanism}").rglob("*") if file.is_file()) / 1e9
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    cells = sizes * sum(areas.size(depth) for depth in range(len(areas.levels)))
    print(
        f"| {mechanism} | {areas.n_leaves:,} | {groups:,} | {rows.count_rows():,} | {memory} | {released:.0f} "
        f"| {used:.0f} | {used / cells * 1e9:.0f} | {saved:.0f} | {peak:.2f} | {published:,} | {size:.2f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["flows", "sizes"])
    parser.add_argument("--scale", type=float, default=0.1, help="of flows")
    parser.add_argument("--days", type=int, default=7, help="of flows")
    parser.add_argument("--leaves", type=int, default=20_000, help="of sizes")
    parser.add_argument("--sizes", type=int, default=1_000, help="of sizes: how many, from 0")
    parser.add_argument("--mechanisms", nargs="+", default=["Matching", "Joint"], help="of sizes")
    parser.add_argument("--memory")
    parser.add_argument("--without-measurements", action="store_true")
    parser.add_argument("--folder", help="where the data are, and stay; by default a temporary folder")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step is None:
        in_processes(given)
        return
    folder, keep = Path(given.folder), not given.without_measurements
    if given.step == "write":
        if given.what == "flows":
            write_flows(folder, given.scale, given.days)
        else:
            write_sizes(folder, given.leaves, given.sizes)
        return
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s", stream=sys.stderr)
    if given.what == "flows":
        release_flows(folder, given.days, given.memory, keep_measurements=keep)
    else:
        release_sizes(folder, given.sizes, given.step, given.memory, keep_measurements=keep)


def in_processes(given: argparse.Namespace) -> None:
    """Write the data, and make each release, in a process of its own, since a peak is that of a process."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or temporary
        Path(folder).mkdir(parents=True, exist_ok=True)
        again = [sys.executable, __file__, *sys.argv[1:], "--folder", folder, "--step"]
        if not (Path(folder) / "areas.parquet").exists():
            subprocess.run([*again, "write"], check=True)
        head = HEADS[given.what]
        print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head), flush=True)
        for step in ["release"] if given.what == "flows" else given.mechanisms:
            subprocess.run([*again, step], check=True)


if __name__ == "__main__":
    main()
