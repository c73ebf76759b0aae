"""Tabulation of trips by Spark beside a plain count with the same contribution bound, in one session.

    python benchmarks/spark_tabulation.py [--trips 300000] [--master "local[2]"] [--repeat 3] [--steps]

The trips are made up: persons with 1 to 60 of them, between areas of three levels, as text, in a Parquet file. Of each
person at most 3 trips count. The plain count is one query of Spark: the trips of each person in the order of a hash,
the first 3 kept and grouped by the columns of both paths, and the groups fetched. It checks nothing: no unknown area,
no empty id, and neither another row order nor a person with equal trips is noticed. Both ways run by turns, the
minimum counts; the first rounds, in which Java compiles, are left out. On a machine that others use too, the ratio of
processor time is the one to look at. The local engine does the same work once. `--steps` prints the seconds of each
statement of the last tabulation.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tallytree as tt
from tallytree.private.engines import CountRecords
from tallytree.private.tabulate.contribution_bound import ContributionBound
from tallytree.product import LeafKey

M, AREAS = 3, 2_000
LEVELS = ("region", "county", "town")
SIDES = [[f"{side}_{level}" for level in LEVELS] for side in ("origin", "destination")]


def areas() -> pa.Table:
    """The leaves."""
    numbers = np.arange(AREAS)
    return pa.table({name: (numbers // width).astype(str) for name, width in zip(LEVELS, (200, 20, 1), strict=True)})


def write_trips(file: Path, trips: int) -> None:
    """So many trips; most persons have few, some have many, and half of a person's trips are equal."""
    rng = np.random.default_rng(5)
    each = np.minimum(rng.geometric(0.25, trips), 60)
    who = np.repeat(np.arange(trips), each)[:trips]
    home = rng.integers(0, AREAS, trips)[who]
    usual = rng.integers(0, AREAS, trips)[who]
    to = np.where(rng.random(trips) < 0.5, usual, (rng.beta(1, 4, trips) * AREAS).astype(int))
    leaves, order = areas().combine_chunks(), rng.permutation(trips)
    columns: dict[str, Any] = {}
    for names, place in zip(SIDES, (home, to), strict=True):
        columns |= dict(zip(names, leaves.take(pa.array(place[order])).columns, strict=True))
    table = pa.table(columns | {"who": pa.array([f"person-{number}" for number in who[order].tolist()])})
    pq.write_table(table, file, row_group_size=max(trips // 4, 1))


def plain(spark: Any, file: Path) -> int:
    """Spark's own count of the trips that are kept; how many they are."""
    path = [name for names in SIDES for name in names]
    spark.read.parquet(str(file)).createOrReplaceTempView("trips")
    cell = " || ',' || ".join(path)
    counted = spark.sql(
        f"SELECT {', '.join(path)}, count(*) AS trips FROM (SELECT *, row_number() OVER (PARTITION BY who "
        f"ORDER BY sha2('some key' || {cell} || ',' || who, 256)) AS number FROM trips) AS numbered "
        f"WHERE number <= {M} GROUP BY {', '.join(path)}"
    ).toArrow()
    return int(counted["trips"].to_numpy().sum())


def tabulated(engine: Any, file: Path) -> int:
    """Our tabulation; how many trips are kept."""
    tree = tt.Hierarchy.from_table(areas(), levels=list(LEVELS))
    keys = [LeafKey(tree, tuple(names)) for names in SIDES]
    return int(engine.tabulate(file, CountRecords(keys, bound=ContributionBound("who", M, bytes(32)))).counts.sum())


def processor() -> float:
    """Processor seconds of this process and all below it: Java, and Spark's workers."""
    parents, used = {}, {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = place.read_text().rpartition(")")[2].split()
            parents[int(place.parent.name)] = int(fields[1])
            used[int(place.parent.name)] = sum(map(int, fields[11:15]))  # with those of children that have ended
    ours = {os.getpid()}
    while more := {each for each, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(used[each] for each in ours) / os.sysconf("SC_CLK_TCK")


def seconds(work: Callable[..., int], *arguments: Any) -> tuple[float, float, int]:
    """Seconds, processor seconds, and what the work returned."""
    begin = time.perf_counter(), processor()
    found = work(*arguments)
    return time.perf_counter() - begin[0], processor() - begin[1], found


def noted_steps() -> list[tuple[float, float, str]]:
    """From now on, the seconds and processor seconds of each statement."""
    from tallytree.private.tabulate.spark_session import SparkSQLSession

    steps: list[tuple[float, float, str]] = []

    def noting(name: str) -> None:
        work = getattr(SparkSQLSession, name)

        def noted(self: Any, *arguments: Any, **options: Any) -> Any:
            begin = time.perf_counter(), processor()
            try:
                return work(self, *arguments, **options)
            finally:
                about = " ".join(str(arguments[0]).split()) if arguments and isinstance(arguments[0], str) else ""
                steps.append((time.perf_counter() - begin[0], processor() - begin[1], f"{name} {about[:100]}"))

        setattr(SparkSQLSession, name, noted)

    for name in ("source", "register", "make", "drop", "run", "arrays", "close"):
        noting(name)
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trips", type=int, default=300_000)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--warm", type=int, default=2, help="rounds before, in which Java compiles")
    parser.add_argument("--steps", action="store_true")
    options = parser.parse_args()
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "2g"}
    spark = SparkSession.Builder().master(options.master).config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    steps = noted_steps() if options.steps else []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trips.parquet"
        write_trips(file, options.trips)
        ways = {"plain": (plain, spark), "tallytree": (tabulated, tt.engines.Spark(spark))}
        took: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        kept = set()
        for number in range(options.repeat + options.warm):
            for way, (work, where) in ways.items():
                steps.clear()
                *each, found = seconds(work, where, file)
                kept.add(found)
                print(f"{way}: {each[0]:.2f} s, {each[1]:.2f} s of processors", flush=True)
                if number >= options.warm:
                    took[way].append((each[0], each[1]))
        *local, found = seconds(tabulated, tt.engines.Local(), file)
        if kept != {found}:
            raise SystemExit("the ways keep different numbers of trips")
    for each, used, about in steps:
        print(f"{each:7.2f} s {used:7.2f} s  {about}")
    print("| trips | | plain count, s | tabulation, s | ratio | local engine, s |\n|" + " --- |" * 6)
    for place, what in enumerate(("time", "of processors")):
        plain_count, ours = (min(each[place] for each in took[way]) for way in ("plain", "tallytree"))
        print(
            f"| {options.trips:,} | {what} | {plain_count:.2f} | {ours:.2f} | {ours / plain_count:.2f} | "
            f"{local[place]:.2f} |"
        )
    spark.stop()


if __name__ == "__main__":
    main()
