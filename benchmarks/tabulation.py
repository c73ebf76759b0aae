"""Tabulation beside bare DuckDB's group-by over the same columns: seconds as a ratio, and peak memory.

    python benchmarks/tabulation.py [--case rows|sections|entities|person] [--fresh] [--repeat 3] [--folder DIR]
    python benchmarks/tabulation.py --rows 100000000 --memory-limit 2GB

The first form makes the data (in `--folder`, where they are kept; otherwise in a temporary folder) and runs each case
both ways by turns in one process, in which DuckDB has the same settings; the minimum of `--repeat` runs counts. The
bare group-by keeps its result in a temporary table: nothing of it leaves DuckDB. On a machine that others use too, the
ratio of processor time is the one to look at. With `--fresh` each run is the first
in a process of its own, which imports what it needs within its time.

| case | records | grouped by |
| --- | --- | --- |
| rows | 20 million | 3,000 leaves of three text columns |
| sections | 14.3 million pairs of Italy-like census sections | ten text columns |
| entities | 20 million, of 7.3 million groups | 3,000 leaves and an integer id |
| person | 20 million of 5 million people | 1,000 leaves and an integer id; at most 3 of a person count |

The second form generates (leaf, size, groups) rows over 8 million leaves in Parquet and tabulates them once with a
memory limit. It prints seconds, peak memory and the most bytes that were spilled.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

M = 3
AT_ONCE = 1_000_000
LEAVES = 8_000_000


@dataclass(frozen=True)
class Case:
    """A data set, and what is grouped in it: `path` per key; `id` and `count` are columns, or empty."""

    file: str
    leaves: str
    paths: tuple[tuple[str, ...], ...]
    make: Callable[[Path], None]
    id: str = ""
    count: str = ""
    person: bool = False


def rows(folder: Path) -> None:
    write(folder, "rows", 3_000, lambda rng, size: {"leaf": rng.integers(0, 3_000, size)})


def entities(folder: Path) -> None:
    def members(rng: np.random.Generator, size: int) -> dict[str, Any]:
        group = rng.integers(0, 8_150_000, size)
        return {"leaf": group * 2_654_435_761 % 3_000, "id": group}

    write(folder, "entities", 3_000, members)


def people(folder: Path) -> None:
    def records(rng: np.random.Generator, size: int) -> dict[str, Any]:
        return {"leaf": rng.integers(0, 1_000, size), "id": rng.integers(0, 5_000_000, size)}

    write(folder, "person", 1_000, records)


def sections(folder: Path) -> None:
    from tallytree.datasets import italy

    leaves = italy.write_od_flows(folder / "sections.parquet", "section")
    pq.write_table(leaves, folder / "sections.leaves.parquet")


LEVELS = ("state", "county", "town")
ITALY = ("region", "province", "municipality", "section_area", "section")
SIDES = tuple(tuple(f"{side}_{level}" for level in ITALY) for side in ("origin", "destination"))
CASES = {
    "rows": Case("rows", "rows.leaves", (LEVELS,), rows),
    "sections": Case("sections", "sections.leaves", SIDES, sections, count="count"),
    "entities": Case("entities", "entities.leaves", (LEVELS,), entities, id="id"),
    "person": Case("person", "person.leaves", (LEVELS,), people, id="id", person=True),
}


def write(
    folder: Path, name: str, n_leaves: int, records: Callable[..., dict[str, Any]], total: int = 20_000_000
) -> None:
    """Records of which a function gives the leaf and the other columns, some million at a time."""
    numbers = np.arange(n_leaves)
    labels = pa.table(
        {level: (numbers // width).astype(str) for level, width in zip(LEVELS, (100, 10, 1), strict=True)}
    ).combine_chunks()
    pq.write_table(labels, folder / f"{name}.leaves.parquet")
    rng = np.random.default_rng(15)
    writer = None
    for begin in range(0, total, AT_ONCE):
        columns = records(rng, min(AT_ONCE, total - begin))
        part = labels.take(pa.array(columns.pop("leaf")))
        for column, values in columns.items():
            part = part.append_column(column, pa.array(values))
        writer = writer or pq.ParquetWriter(folder / f"{name}.parquet", part.schema)
        writer.write_table(part)
    if writer is not None:
        writer.close()


def bare(case: Case, folder: Path, options: argparse.Namespace) -> tuple[float, float]:
    """Seconds, and processor seconds, of DuckDB's own group-by over the columns of the case."""
    begin = time.perf_counter(), time.process_time()
    import duckdb

    settings: dict[str, Any] = {"preserve_insertion_order": "false", "temp_directory": str(folder / "bare-spill")}
    if options.memory_limit:
        settings["memory_limit"] = options.memory_limit
    columns = [f'"{column}"' for path in case.paths for column in path] + ([f'"{case.id}"'] if case.id else [])
    amount = f'sum("{case.count}")' if case.count else "count(*)"
    with duckdb.connect(config=settings) as connection:
        connection.execute(
            f"CREATE TEMP TABLE x AS SELECT {', '.join(columns)}, {amount} AS n "
            f"FROM read_parquet('{folder / case.file}.parquet') GROUP BY ALL"
        )
        return since(begin)


def ours(case: Case, folder: Path, options: argparse.Namespace) -> tuple[float, float]:
    """Seconds, and processor seconds, of our tabulation; the hierarchy is there."""
    import tallytree as tt
    from tallytree.private.engines import CountGroups, CountRecords
    from tallytree.private.tabulate.contribution_bound import ContributionBound
    from tallytree.trees.leaf_keys import LeafKey

    leaves = pq.read_table(folder / f"{case.leaves}.parquet")
    hierarchy = tt.Hierarchy.from_table(leaves, levels=leaves.column_names)
    keys = [LeafKey(hierarchy, path) for path in case.paths]
    engine = tt.engines.Local(memory_limit=options.memory_limit, temp_directory=folder)
    file = folder / f"{case.file}.parquet"
    begin = time.perf_counter(), time.process_time()
    if case.person:
        engine.tabulate(file, CountRecords(keys, bound=ContributionBound(case.id, M, bytes(32))))
    elif case.id:
        engine.tabulate(file, CountGroups(keys[0], group=case.id, smallest=0, largest=1_000))
    else:
        engine.tabulate(file, CountRecords(keys, count=case.count or None))
    return since(begin)


def since(begin: tuple[float, float]) -> tuple[float, float]:
    """Seconds and processor seconds since then."""
    return time.perf_counter() - begin[0], time.process_time() - begin[1]


def peak_gibibytes() -> float:
    """The most memory that this process has had."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


WAYS = {"bare": bare, "ours": ours}


def compare(name: str, folder: Path, options: argparse.Namespace) -> None:
    """One line: the best of both ways, by turns; in fresh processes also their peak memory."""
    case = CASES[name]
    if not (folder / f"{case.leaves}.parquet").exists():
        case.make(folder)
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    processor: dict[str, list[float]] = {way: [] for way in WAYS}
    peaks: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(options.repeat):
        for way, run in WAYS.items():
            if options.fresh:
                command = [sys.executable, __file__, "--case", name, "--way", way, "--folder", str(folder)]
                limit = ["--memory-limit", options.memory_limit] if options.memory_limit else []
                found = subprocess.run([*command, *limit], check=True, capture_output=True, text=True).stdout.split()
                took, used = float(found[0]), float(found[1])
                peaks[way].append(float(found[2]))
            else:
                took, used = run(case, folder, options)
            seconds[way].append(took)
            processor[way].append(used)
    best, least = ({way: min(values) for way, values in each.items()} for each in (seconds, processor))
    memory = [f"{min(values):.2f}" if values else "–" for values in peaks.values()]
    ratios = [f"{each['ours'] / each['bare']:.2f}" for each in (best, least)]
    print(f"| {name} | {best['bare']:.2f} | {best['ours']:.2f} | {' | '.join([*ratios, *memory])} |", flush=True)


def large(total: int, folder: Path, options: argparse.Namespace) -> None:
    """Tabulate so many (leaf, size, groups) rows with the memory limit, and say what that took."""
    import tallytree as tt
    from tallytree.private.engines import GroupRows
    from tallytree.trees.leaf_keys import LeafKey

    file = folder / "large.parquet"
    leaves = write_large(file, total)
    key = LeafKey(tt.Hierarchy.from_table(leaves, levels=["area", "block"]), ("area", "block"))
    written, before = file.stat().st_size, peak_gibibytes()
    engine = tt.engines.Local(memory_limit=options.memory_limit, temp_directory=folder)
    begin = time.perf_counter()
    with Spilled(folder) as spilled:
        found = engine.tabulate(file, GroupRows(key, size="size", groups="groups", smallest=0, largest=1_000))
    seconds = time.perf_counter() - begin
    print(f"{total:,} rows, {written / 2**30:.2f} GiB of Parquet, memory_limit {options.memory_limit}")
    print(f"{seconds:.0f} s, {len(found.groups):,} (leaf, size) pairs in the result")
    print(f"peak {peak_gibibytes():.2f} GiB, of which generation and hierarchy had {before:.2f} before")
    print(f"spilled {spilled.most / 2**30:.2f} GiB at most at one time")


def write_large(file: Path, total: int) -> pa.Table:
    """Rows of uniform leaves, with geometric sizes of mean 4; and the table of leaves."""
    number = pa.array(np.arange(LEAVES))
    blocks = number.cast(pa.string())
    areas = pa.array(np.arange(LEAVES) // 100).cast(pa.string())
    rng = np.random.default_rng(15)
    columns = {"area": areas, "block": blocks}
    schema = pa.schema([("area", pa.string()), ("block", pa.string()), ("size", pa.int64()), ("groups", pa.int64())])
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for begin in range(0, total, AT_ONCE):
            size = min(AT_ONCE, total - begin)
            leaf = pa.array(rng.integers(0, LEAVES, size))
            numbers = [np.minimum(rng.geometric(0.25, size), 1_000), rng.integers(1, 4, size)]
            arrays = [*(column.take(leaf) for column in columns.values()), *(pa.array(each) for each in numbers)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
    return pa.table(columns)


class Spilled:
    """The most bytes at one time in the folders for spilled rows, while this is open."""

    def __init__(self, folder: Path) -> None:
        self.most = 0
        self._folder, self._over = folder, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Spilled:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            found = 0
            for place, _, files in os.walk(self._folder):
                if "tallytree-spill-" in place:
                    found += sum(size_of(Path(place) / name) for name in files)
            self.most = max(self.most, found)


def size_of(file: Path) -> int:
    """Bytes on disk; 0 of a file that is gone by now."""
    try:
        return file.stat().st_blocks * 512
    except FileNotFoundError:
        return 0


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=list(CASES))
    parser.add_argument("--way", choices=list(WAYS), help="one run in this process: its seconds and its peak in GiB")
    parser.add_argument("--fresh", action="store_true", help="each run in a process of its own")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--rows", type=int, help="generate and tabulate so many (leaf, size, groups) rows")
    parser.add_argument("--memory-limit")
    parser.add_argument("--folder", type=Path, help="where the data are made and kept")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if options.rows:
            large(options.rows, folder, options)
        elif options.way:
            print(*WAYS[options.way](CASES[options.case], folder, options), peak_gibibytes())
        else:
            print("| case | bare, s | ours, s | ratio | of processor time | peak of bare, GiB | peak of ours, GiB |")
            print("|" + " --- |" * 7)
            for name in [options.case] if options.case else CASES:
                compare(name, folder, options)


if __name__ == "__main__":
    main()
