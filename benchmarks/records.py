"""Records made from tables: how fast they are written, and their errors beside the records of OpenDP and mbi.

    python benchmarks/records.py speed [--rows 100_000_000]
    python benchmarks/records.py errors [--programs tallytree mbi] [--epsilons 0.1 1 10] [--runs 10]

`speed`: as many records as Parquet, in one process beside pyarrow, which writes the same columns row by row, and
DuckDB, which repeats the same cells. Peak memory is that of the process, so it is read before the peers begin.

`errors`: military (1,414,593 people, 25 ranks; see real_sets.py), all tables of up to three of its four attributes by
rank, at equal (ε, δ = 1e-8), add or remove one. Every program makes records, which are counted; the mean absolute error
of a cell, over the tables of so many attributes, with its standard error over runs.

* tallytree: `release_tables` of these 15 tables, its defaults, `records()`;
* mbi on the same noise: mbi's mirror descent on tallytree's noisy tables, `synthetic_data()`;
* OpenDP, fixed: the 15 tables measured with equal noise, `ContingencyTable.synthesize()`;
* OpenDP, AIM: its adaptive choice of tables, with these 15 as the workload, `synthesize()`.

OpenDP has ρ by the tight conversion of (ε, δ); tallytree accounts for (ε, δ) by privacy-loss distributions. OpenDP 0.16
needs mbi 1.1 (`pip install "opendp[mbi]"`), so it and mbi 2.0 run in environments of their own: `--programs`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import real_sets
from ratios import Ratio, best

import tallytree as tt
from tallytree.accounting.conversions import rho_from_epsilon
from tallytree.numbers.records import MadeUpRecords
from tallytree.release.level_tables import NodeTable
from tallytree.sources.leaf_paths import decoded
from tallytree.tables import Table, TableLayout
from tallytree.views.export.records_file import write_records

DELTA = 1e-8
ATTRIBUTES = ("branch", "gender", "race", "hisp")
COLUMNS = ("rank", *ATTRIBUTES)
CHOSEN = [each for size in range(4) for each in itertools.combinations(ATTRIBUTES, size)]
Errors = dict[str, float]


# --- Errors ---


class Case:
    """The true counts of all cells, and how records of any program are counted."""

    def __init__(self) -> None:
        self.data = real_sets.military()
        people = self.data.records
        self.labels = {name: sorted(people[name].unique()) for name in COLUMNS}
        self.sizes = tuple(len(labels) for labels in self.labels.values())
        self.shape = tuple(size + 1 for size in self.sizes)  # the last label of each column is null, which OpenDP has
        self.true = self.counted(people)

    def counted(self, records: pd.DataFrame) -> np.ndarray:
        codes = [pd.Categorical(records[name], labels).codes.astype(int) for name, labels in self.labels.items()]
        known = [np.where(each < 0, size, each) for each, size in zip(codes, self.sizes, strict=True)]
        return np.bincount(np.ravel_multi_index(known, self.shape), minlength=self.true_size).reshape(self.shape)

    @property
    def true_size(self) -> int:
        return int(np.prod(self.shape))

    def errors(self, counts: np.ndarray) -> Errors:
        """The mean absolute error of a cell, over the tables of so many attributes by rank; and its total's."""
        gap = counts - self.true
        found: dict[str, list[float]] = {}
        for chosen in [*CHOSEN, ATTRIBUTES]:
            others = tuple(axis for axis, name in enumerate(COLUMNS) if axis and name not in chosen)
            table = gap.sum(axis=others)[(slice(-1),) * (1 + len(chosen))]  # without the cells of null
            found.setdefault(f"{len(chosen)}", []).append(float(np.abs(table).mean()))
        return {name: float(np.mean(values)) for name, values in found.items()} | {"total": abs(float(gap.sum()))}


def release_of(case: Case, epsilon: float) -> tt.Release:
    return tt.release_tables(
        case.data.records,
        case.data.product,
        tt.Budget(epsilon=epsilon, delta=DELTA),
        neighboring="add_remove",
        tables=[("rank", *each) for each in CHOSEN],
        keep_detail=True,
    )


def ours(case: Case, release: tt.Release) -> np.ndarray:
    return case.counted(release.records(dictionaries=True).read_all().to_pandas())


def mbi_on_the_same_noise(case: Case, release: tt.Release) -> np.ndarray:
    """mbi's records from the noisy tables of the release."""
    import jax
    import mbi

    jax.config.update("jax_enable_x64", True)
    domain = mbi.Domain(COLUMNS, case.sizes)
    measurements = []
    for about in release.statement["levels"]:
        if not about["measured"]:
            continue
        noisy = release.measurements(*about["table"])
        clique = tuple(name for name in COLUMNS if name in about["table"])
        codes = [pd.Categorical(noisy[name].to_pandas(), case.labels[name]).codes for name in clique]
        values = np.zeros([len(case.labels[name]) for name in clique])
        values[tuple(codes)] = noisy["value"].to_numpy()
        std_dev = about["noise"]["std_dev"]
        measurements.append(mbi.LinearMeasurement(values.ravel(), clique, stddev=std_dev))
    model = mbi.estimation.MirrorDescent().estimate(domain, measurements, iters=5_000)
    return case.counted(_with_labels(case, model.synthetic_data().to_dict()))


def _with_labels(case: Case, coded: Mapping[str, np.ndarray]) -> pd.DataFrame:
    return pd.DataFrame({name: np.array(case.labels[name], dtype=object)[coded[name]] for name in COLUMNS})


def with_opendp(case: Case, epsilon: float, algorithm: str) -> np.ndarray:
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    rho = float(rho_from_epsilon(Fraction(str(epsilon)), Fraction("1e-8"), "zcdp"))
    queries = [dp.mbi.Count(by=("rank", *each)) for each in CHOSEN]
    context = dp.Context.compositor(
        data=pl.from_pandas(case.data.records[list(COLUMNS)]).lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
    )
    query = context.query(rho=rho).select(*COLUMNS)
    table = query.contingency_table(keys=case.labels, algorithm=getattr(dp.mbi, algorithm)(queries=queries)).release()
    return case.counted(table.synthesize().to_pandas())


def errors(programs: Sequence[str], epsilons: Sequence[float], runs: int) -> None:
    case = Case()
    for epsilon in epsilons:
        found: dict[str, list[Errors]] = {name: [] for name in programs}
        seconds: dict[str, list[float]] = {name: [] for name in programs}
        for _ in range(runs):
            release = release_of(case, epsilon)
            for name in programs:
                begun = time.perf_counter()
                found[name].append(case.errors(PROGRAMS[name](case, release, epsilon)))
                seconds[name].append(time.perf_counter() - begun)
                last = {key: round(value, 2) for key, value in found[name][-1].items()}
                print(json.dumps({"epsilon": epsilon, "program": name, **last}), file=sys.stderr, flush=True)
        print(f"\nepsilon = {epsilon:g}, {runs} runs: mean absolute error of a cell (standard error)\n")
        print("| program | rank | 1 attribute | 2 | 3 | 4 (no table) | total | seconds |\n|" + " --- |" * 8)
        for name in programs:
            table = pd.DataFrame(found[name])
            spread = table.std() / np.sqrt(runs)
            shown = [f"{table[key].mean():.4g} ({spread[key]:.2g})" for key in ("0", "1", "2", "3", "4", "total")]
            print(f"| {name} | {' | '.join(shown)} | {np.median(seconds[name]):.1f} |", flush=True)


PROGRAMS: dict[str, Callable[[Case, tt.Release, float], np.ndarray]] = {
    "tallytree": lambda case, release, epsilon: ours(case, release),
    "mbi": lambda case, release, epsilon: mbi_on_the_same_noise(case, release),
    "opendp-fixed": lambda case, release, epsilon: with_opendp(case, epsilon, "Fixed"),
    "opendp-aim": lambda case, release, epsilon: with_opendp(case, epsilon, "AIM"),
}


# --- Speed ---

AREAS, CELLS = 85_000, 252
"""Tracts of a made-up nation, and the combinations of 18 ages, 2 sexes and 7 races."""


def nation(rows: int) -> MadeUpRecords:
    """The records of a detail with about so many units, in three cells of ten."""
    number = np.arange(AREAS)
    places = {"state": number // 1_700, "county": number // 28, "tract": number}
    areas = tt.Hierarchy.from_table(
        pa.table({name: each.astype(str) for name, each in places.items()}), levels=[*places]
    )
    values = {"age": [f"{5 * i}-{5 * i + 4}" for i in range(18)], "sex": ["f", "m"], "race": [*"abcdefg"]}
    attributes = {name: tt.Hierarchy.from_values(name, each) for name, each in values.items()}
    product = tt.Product({"area": areas, **attributes})
    layout = TableLayout(product, [Table(("tract", *values), (3, 1, 1, 1))], 1)
    rng = np.random.default_rng(1)
    cells = np.flatnonzero(rng.random(AREAS * CELLS) < 0.3)
    counts = rng.geometric(len(cells) / rows, len(cells))
    return MadeUpRecords(NodeTable(layout, 0, cells, pa.table({"count": counts})), STATEMENT)


STATEMENT = {
    "private": True, "statistic": "tables", "guarantee": "", "unit_of_protection": "", "invariants": [], "notes": [],
    "mechanism": {"name": "LeastSquares"}, "software": {}, "max_contributions": 1, "levels": [],
}  # fmt: skip


def write_plain(records: MadeUpRecords, path: Path) -> None:
    """The same rows by pyarrow alone: strings, a batch at a time, with its defaults but for the compression."""
    schema = decoded(records.schema.empty_table()).schema
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for rows in records.slices():
            writer.write_table(decoded(rows).replace_schema_metadata(schema.metadata))


def write_by_duckdb(records: MadeUpRecords, path: Path) -> None:
    """The same rows by DuckDB, which repeats the cells."""
    import duckdb

    cells = decoded(records.source.read(0, records.source.num_rows))
    duckdb.from_arrow(cells).query(
        "cells",
        "COPY (SELECT * EXCLUDE (count, times) FROM (SELECT *, unnest(range(count)) AS times FROM cells)) "
        f"TO '{path}' (FORMAT parquet, COMPRESSION zstd)",
    )


def speed(rows: int) -> None:
    for each in compared(rows):
        print(f"{each.name}, beside {each.peer}: {each.ours:.3g} and {each.theirs:.3g} {each.unit}")


def compared(rows: int) -> Iterator[Ratio]:
    """Ours beside the peers, once each; and the peak memory of the process before the peers begin."""
    records = nation(rows)
    name = f"{records.num_rows / 1e6:.3g} M records of 6 columns as Parquet"
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "records.parquet"
        mine = best(lambda: write_records(records, path, for_spreadsheets=False), 1)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        require_rows(path, records)
        for peer, write in (("pyarrow, plain columns", write_plain), ("DuckDB, unnest(range(count))", write_by_duckdb)):
            other = Path(place) / "other.parquet"
            yield Ratio(name, peer, mine, best(partial(write, records, other), 1))
            require_rows(other, records)
    yield Ratio(name, "2 GiB", peak, 2.0, "GiB")


def require_rows(path: Path, records: MadeUpRecords) -> None:
    if pq.read_metadata(path).num_rows != records.num_rows:
        raise ValueError(f"{path.name} does not have {records.num_rows} rows")


def ratios() -> Iterator[Ratio]:
    yield from compared(10_000_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["speed", "errors"])
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 1, 10])
    parser.add_argument("--programs", nargs="+", choices=[*PROGRAMS], default=["tallytree", "mbi"])
    parser.add_argument("--runs", type=int, default=10)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.part == "speed":
        speed(arguments.rows)
    else:
        errors(arguments.programs, arguments.epsilons, arguments.runs)


if __name__ == "__main__":
    main()
