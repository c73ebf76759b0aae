"""Tables of a made-up country in the shape of the redistricting file of 2020, with `memory`: time, memory and errors.

    python benchmarks/census.py [--blocks 81000] [--memory 4GB] [--folder FOLDER] [--errors]

Blocks lie in block groups, tracts, counties and states, as many of each as the blocks ask for: 8.1 million blocks are
the whole country. Half of the blocks are empty; there are 41 people a block. A cell is one of 63 races, Hispanic or
not, adult or not: 252. The country is made part by part from a seed, and its records are a Parquet file with a count a
row. `--errors` compares each table with the truth, by the size of the true number. Of one run: seconds of each stage,
the most memory that the process held (VmHWM), and the size of what was saved.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from borrowed_strength import seconds_of_stages

import tallytree as tt

BLOCKS_AT_ONCE = 2_000
PER = {"block_group": 34, "tract": 96, "county": 2_600, "state": 160_000}
"""Blocks of one, about."""
RACES = 63


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=81_000)
    parser.add_argument("--memory", default=None)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--errors", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        records, places = Path(folder) / "records.parquet", Path(folder) / "blocks.parquet"
        began = time.perf_counter()
        people = make_country(given.blocks, records, places)
        print(f"{given.blocks:,} blocks, {people:,} people: made in {time.perf_counter() - began:.0f} s", flush=True)
        began = time.perf_counter()
        product = hierarchies(places)
        print(f"hierarchies: {time.perf_counter() - began:.0f} s", flush=True)
        began = time.perf_counter()
        with seconds_of_stages() as seconds:
            release = released(records, product, given, folder)
        took = time.perf_counter() - began
        print(f"release: {took:.0f} s; { ({name: round(each, 1) for name, each in seconds.items()}) }", flush=True)
        began = time.perf_counter()
        release.save(Path(folder) / "out")
        size = sum(file.stat().st_size for file in (Path(folder) / "out").rglob("*") if file.is_file())
        most = int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1e6
        print(
            f"saved in {time.perf_counter() - began:.0f} s, {size / 1e9:.2f} GB; most memory {most:.2f} GB", flush=True
        )
        if given.errors:
            show_errors(release, records)
        shutil.rmtree(Path(folder) / "out")


def released(records: Path, product: tt.Product, given: argparse.Namespace, folder: str) -> tt.Release:
    """The tables of the redistricting file for blocks, and the joint of counties and states."""
    joint = ("race", "hispanic", "adult")
    tables = [("block",), ("block", "race"), ("block", "hispanic", "adult"), ("block", *joint), ("county", *joint)]
    return tt.release_tables(
        records, product, tt.Budget(epsilon=given.epsilon, delta=1e-10), neighboring="change_one", count="count",
        tables=[*tables, ("state", *joint)], seed=1, keep_measurements=False, memory=given.memory,
        engine=tt.engines.Local(temp_directory=folder),
    )  # fmt: skip


def hierarchies(places: Path) -> tt.Product:
    areas = tt.Hierarchy.from_table(places, levels=["state", "county", "tract", "block_group", "block"])
    races = tt.Hierarchy.from_values("race", [f"r{i:02d}" for i in range(RACES)])
    sides = {"hispanic": ["no", "yes"], "adult": ["no", "yes"]}
    others = {name: tt.Hierarchy.from_values(name, values) for name, values in sides.items()}
    return tt.Product({"area": areas, "race": races, **others})


def make_country(blocks: int, records: Path, places: Path) -> int:
    """Write the records and the blocks; how many people there are."""
    people, rng = 0, np.random.default_rng(1)
    national = rng.dirichlet(np.full(RACES, 0.05))
    rows_schema = pa.schema([*((name, pa.string()) for name in (*reversed(PER), "block", "race", "hispanic", "adult"))])
    rows_schema = rows_schema.append(pa.field("count", pa.int64()))
    block_schema = pa.schema([(name, pa.string()) for name in (*reversed(PER), "block")])
    with pq.ParquetWriter(records, rows_schema) as rows, pq.ParquetWriter(places, block_schema) as listed:
        for begin in range(0, blocks, BLOCKS_AT_ONCE):
            number = np.arange(begin, min(begin + BLOCKS_AT_ONCE, blocks))
            codes = pd.DataFrame({name: name[0] + pd.Series(number // PER[name]).astype(str) for name in reversed(PER)})
            codes = nested(codes)
            codes["block"] = codes["block_group"] + "." + pd.Series(number).astype(str)
            listed.write_table(pa.Table.from_pandas(codes, block_schema, preserve_index=False))
            part = cells_of(number, national, np.random.default_rng([1, begin]))
            people += int(part["count"].sum())
            out = pd.concat([codes.iloc[part["at"].to_numpy()].reset_index(drop=True), part.drop(columns="at")], axis=1)
            rows.write_table(pa.Table.from_pandas(out, rows_schema, preserve_index=False))
    return people


def nested(codes: pd.DataFrame) -> pd.DataFrame:
    """Codes that name the areas above."""
    found, above = pd.DataFrame(index=codes.index), ""
    for name in codes:
        found[name] = above + codes[name]
        above = found[name] + "."
    return found


def cells_of(number: np.ndarray, national: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    """The cells with people of some blocks, which resemble their county."""
    county = number // PER["county"]
    shares = {
        int(each): np.random.default_rng([2, int(each)]).dirichlet(
            200 * np.outer(national, np.outer([0.8, 0.2], [0.25, 0.75])).ravel() + 0.01
        )
        for each in np.unique(county)
    }
    people = rng.poisson(82 * rng.gamma(1.0, 1.0, len(number))) * (rng.random(len(number)) < 0.5)
    cells = np.stack([rng.multinomial(n, shares[int(c)]) for n, c in zip(people, county, strict=True)])
    at, cell = cells.nonzero()
    race, hispanic, adult = np.unravel_index(cell, (RACES, 2, 2))
    words = np.array(["no", "yes"])
    return pd.DataFrame(
        {
            "at": at,
            "race": np.array([f"r{i:02d}" for i in range(RACES)])[race],
            "hispanic": words[hispanic],
            "adult": words[adult],
            "count": cells[at, cell],
        }
    )


def show_errors(release: tt.Release, records: Path) -> None:
    """The root mean square error of each table by the size of the true number, beside least squares, and coverage."""
    true_cells = pq.read_table(records).to_pandas()
    for name in release.levels:
        rows = release.table(name, unbiased=True, alpha=0.1).to_pandas()
        paths = [column for column in rows.columns if column in true_cells.columns and column != "count"]
        true = true_cells.groupby(paths, observed=True)["count"].sum().rename("true").reset_index()
        true = rows.merge(true, on=paths, how="left")["true"].fillna(0).to_numpy()
        for low, high in ((0, 0), (1, 5), (6, 20), (21, 100), (101, np.inf)):
            own = rows[(true >= low) & (true <= high)]
            if len(own):
                of = true[own.index]
                errors = [np.sqrt(((own[column] - of) ** 2).mean()) for column in ("count", "unbiased")]
                held = ((own["ci_lower"] <= of) & (of <= own["ci_upper"])).mean()
                print(f"{name}, true {low} to {high}: {len(own):,} listed cells, RMSE {errors[0]:.2f}, "
                      f"least squares {errors[1]:.2f}, 90 % intervals {held:.3f}")  # fmt: skip


if __name__ == "__main__":
    main()
