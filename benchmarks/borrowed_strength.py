"""What tables gain by borrowed strength, and whether what they state holds: pooled and not, on the same noise.

    python benchmarks/borrowed_strength.py [--sets Chem97 …] [--epsilons 0.1 1 …] [--runs N] [--laplace]
                                           [--office FOLDER] [--out rows.json] [--side-by-side 2]
    python benchmarks/borrowed_strength.py --fast --sets Chem97      # one epsilon, two runs
    python benchmarks/borrowed_strength.py --report rows.json        # the report again, of rows that are there

Data and designs are those of `real_data.py`. Every release is made twice with one seed: by `LeastSquares()`, and by
`LeastSquares(pooling="none")`, which is called today's. A row has the figures of a class of cells of one table. Cells
are classed by the true number, and by what a reader sees: the published number, the verdict, the interval's width and
|published − unbiased| ÷ std_dev (both by tenths). `rare` is a combination of attributes of which all areas together
have at most a tenth of the mean. `sums` of a table are its national totals by combination, added up from its areas.
Standard errors are over runs (jackknife).
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import logging
import math
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import real_data
import real_sets
from borrowed_strength_bounds import LEAVES, report
from real_data import ALPHA, CLASSES, Row, shown

import tallytree as tt
from tallytree.private.noise import entropy
from tallytree.release.quality import EXACT, NEAR_ZERO, QUALITIES, RELIABLE, WITH_CARE
from tallytree.run.release_keys import ReleaseKeys

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
TENTHS = np.arange(1, 10) / 10
RARE = 0.1
"""A combination of attributes is rare where it has at most this part of the mean number of its table."""
OFF = {RELIABLE: 1 / 3, WITH_CARE: 2 / 3}
"""By verdict, the part of the number that an error should not exceed."""
POOLED, TODAY = "pooled", "today"
TODAYS_VERDICT = "verdict of today"
Sums = dict[tuple[str, str, str], np.ndarray]
"""By table, what cells are classed by, and class: sums over its cells, in the order of `SUMMED`."""
SUMMED = (
    *("cells", "error", "absolute", "square", "today error", "today absolute", "today square", "held", "today held"),
    *("width", "today width", "typical square", "off", "classed by", "excluded", "verdict not as interval"),
)


def mechanism(kind: str) -> tt.tables.LeastSquares:
    """The mechanism of today, or the pooled one."""
    return tt.tables.LeastSquares() if kind == POOLED else tt.tables.LeastSquares(pooling="none")


@dataclass(frozen=True)
class Case:
    """A design with its budget; `office` is the folder of the made-up country, where that is meant."""

    data: str
    design: str
    epsilon: float
    option: str
    laplace: bool
    office: Path | None

    def about(self) -> Row:
        """What all rows of the case have."""
        noise = "laplace" if self.laplace else "gaussian"
        return {"data": self.data, "design": self.design, "epsilon": self.epsilon, "option": self.option} | {
            "noise": noise
        }


@dataclass(frozen=True)
class Truth:
    """The true numbers of a table.

    Attributes:
        values: int64 (areas · combinations,), the areas first.
        areas: how many.
        level: of the areas; empty for the root.
        leaves: whether these are the finest areas.
        rare: bool (combinations,); None for a table without attributes.
    """

    values: np.ndarray
    areas: int
    level: str
    leaves: bool
    rare: np.ndarray | None


@cache
def read(data: str, office: Path | None) -> real_sets.Tables:
    """Records, read once; those of one kind are one row with a count, which is tabulated faster."""
    found = real_sets.office(office, data) if office else real_data.read_tables(data)
    if "count" in found.records:
        return found
    return replace(found, records=found.records.value_counts(sort=False).rename("count").reset_index())


TRUTHS: dict[tuple[str, str], Truth] = {}
"""By data and table; the rows of a table have the same order in every release."""


def truth(case: Case, name: str, release: tt.Release, table: tuple[str, ...]) -> Truth:
    """The truth of a table, in the order of its rows; computed for the first release."""
    key = case.data, name
    if key not in TRUTHS:
        data = read(case.data, case.office)
        values = real_data.true_numbers(release.table(*table).to_pandas(), data.records, "count")
        own = data.product.attributes[0]
        level = next((column for column in table if column in own.columns), "")
        areas = own.size(own.columns.index(level) + 1) if level else 1
        totals = values.reshape(areas, -1).sum(axis=0)
        rare = totals <= RARE * totals.mean() if len(totals) > 1 else None
        TRUTHS[key] = Truth(values, areas, level, level == own.columns[-1], rare)
    return TRUTHS[key]


class Seconds(logging.Handler):
    """Keeps the seconds of stages."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if hasattr(record, "stage"):
            self.of[record.stage] = self.of.get(record.stage, 0.0) + record.seconds


@contextlib.contextmanager
def seconds_of_stages() -> Iterator[dict[str, float]]:
    """The seconds of the stages inside, by name; tenths."""
    handler, logger = Seconds(), logging.getLogger("tallytree.stages")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield handler.of
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def same_noise() -> Any:
    """Within this, the noise follows from the seed alone; else it also follows from the mechanism's options."""
    return patch.object(ReleaseKeys, "noise", lambda keys, release_id: entropy.derive(keys.key, "noise"))


def released(case: Case, kind: str, run: int) -> tuple[tt.Release, float]:
    """A release, and the seconds of its fit."""
    data = read(case.data, case.office)
    tables = data.designs[case.design]
    split: Any = case.option
    if split == "uneven":
        split = {table: 100 if i % 2 else 1 for i, table in enumerate(tables)}
    with same_noise(), seconds_of_stages() as seconds:
        release = tt.release_tables(
            data.records, data.product, tt.Budget(epsilon=case.epsilon, delta=None if case.laplace else 1e-8),
            neighboring="add_remove", tables=tables, budget_split=split, count="count", seed=run,
            precision=data.precision if split == "auto" else None, mechanism=mechanism(kind),
        )  # fmt: skip
    return release, seconds.get("reconcile", 0.0)


@dataclass(frozen=True)
class Measured:
    """One run of a case.

    Attributes:
        sums: over the cells of each class.
        tables: what each table is of.
        seconds: of each fit, and of all.
        cells: by table, float32 (3, cells): the error, that of today, and `std_dev`.
    """

    sums: Sums
    tables: dict[str, Row]
    seconds: dict[str, float]
    cells: dict[str, np.ndarray]


def measured(case: Case, run: int) -> Measured:
    """Two releases on the same noise, beside the truth."""
    begin = time.perf_counter()
    pooled, seconds = released(case, POOLED, run)
    today, seconds_today = released(case, TODAY, run)
    found = Measured({}, {}, {POOLED: seconds, TODAY: seconds_today}, {})
    for about in pooled.statement["levels"]:
        name, table = about["level"], tuple(about["table"])
        true = truth(case, name, pooled, table)
        now, before = columns_of(pooled, table, true.values), columns_of(today, table, true.values)
        if not np.allclose(now["unbiased"], before["unbiased"]):
            raise ValueError(f"{case}, run {run}, table {name}: the two releases have other noise")
        found.sums.update({(name, *key): each for key, each in sums_by_class(now, before, true).items()})
        attributes = len(table) - bool(true.level)
        found.tables[name] = {"level": true.level, "leaves": true.leaves, "attributes": attributes}
        found.cells[name] = np.array([now["error"], before["error"], now["std_dev"]], dtype=np.float32)
    _add_tables(found)
    found.seconds["all"] = time.perf_counter() - begin
    return found


def _add_tables(found: Measured) -> None:
    """Sums over several tables: verdicts of all, and rare combinations of all parents' tables, and of all sums."""
    added: dict[tuple[str, str, str], np.ndarray] = {}
    for (table, scheme, name), own in found.sums.items():
        if scheme in ("verdict", TODAYS_VERDICT, "sums"):
            key = "all tables", scheme, name
        elif scheme == "rare" and not found.tables[table]["leaves"]:
            key = "parents' tables", scheme, name
        else:
            continue
        added[key] = added.get(key, 0.0) + own
    found.sums.update(added)


def columns_of(release: tt.Release, table: tuple[str, ...], true: np.ndarray) -> dict[str, np.ndarray]:
    """What is published of every cell, and its error."""
    rows = release.table(*table, alpha=ALPHA, unbiased=True, dictionaries=True)
    if len(rows) != len(true):
        raise ValueError(f"{table}: {len(rows)} rows are published of {len(true)} cells")
    found = {name: rows[name].to_numpy() for name in ("count", "unbiased", "std_dev", "ci_lower", "ci_upper")}
    found["typical"] = rows["typical_error"].to_numpy()
    found["quality"] = pc.index_in(rows["quality"].cast(pa.string()), pa.array(QUALITIES)).to_numpy()
    found["error"] = (found["count"] - true).astype(np.float64)
    found["held"] = (found["ci_lower"] <= true) & (true <= found["ci_upper"])
    found["width"] = (found["ci_upper"] - found["ci_lower"]).astype(np.float64)
    return found


def sums_by_class(now: Mapping[str, np.ndarray], before: Mapping[str, np.ndarray], true: Truth) -> Sums:
    """By what cells are classed by, and class: the sums of its cells; see `SUMMED`."""
    near_zero = now["quality"] == QUALITIES.index(NEAR_ZERO)
    over_zero = (now["ci_lower"] <= 0) & (now["ci_upper"] >= 0) & (now["quality"] != QUALITIES.index(EXACT))
    figures = {
        **_errors(now["error"], before["error"]),
        "held": now["held"], "today held": before["held"],
        "width": now["width"], "today width": before["width"],
        "typical square": now["typical"] ** 2, "off": _off(now),
        "excluded": (now["count"] < now["ci_lower"]) | (now["count"] > now["ci_upper"]),
        "verdict not as interval": near_zero != over_zero,
    }  # fmt: skip
    moved = np.abs(now["count"] - now["unbiased"]) / np.where(now["std_dev"] > 0, now["std_dev"], np.inf)
    bounds = np.array([high for _, high in CLASSES[:-1]])
    sizes, tenths = [shown(*each) for each in CLASSES], [f"tenth {i + 1}" for i in range(10)]
    rare = np.tile(true.rare, true.areas) if true.rare is not None else None
    schemes: dict[str, tuple[np.ndarray, Sequence[str], np.ndarray | None]] = {
        "all": (np.zeros(len(moved), dtype=np.int64), ["all"], None),
        "true": (np.searchsorted(bounds, true.values), sizes, true.values),
        "number": (np.searchsorted(bounds, now["count"]), sizes, now["count"]),
        "verdict": (now["quality"], QUALITIES, now["count"]),
        "width": (np.searchsorted(np.quantile(now["width"], TENTHS), now["width"]), tenths, now["width"]),
        "moved": (np.searchsorted(np.quantile(moved, TENTHS), moved), tenths, moved),
    }
    if rare is not None:
        schemes["rare"] = (rare.astype(np.int64), ["other", "rare"], true.values)
    found = {}
    for scheme, (codes, names, by) in schemes.items():
        found |= _added(scheme, codes, names, figures | ({} if by is None else {"classed by": by}))
    figures = {"today error": before["error"], "off": _off(before), "held": before["held"]}
    found |= _added(TODAYS_VERDICT, before["quality"], QUALITIES, figures)
    if true.rare is not None and true.areas > 1:
        totals = [each["error"].reshape(true.areas, -1).sum(axis=0) for each in (now, before)]
        found |= _added("sums", true.rare.astype(np.int64), ["other", "rare"], _errors(*totals))
    return found


def _errors(now: np.ndarray, before: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "error": now, "absolute": np.abs(now), "square": now**2,
        "today error": before, "today absolute": np.abs(before), "today square": before**2,
    }  # fmt: skip


def _off(cells: Mapping[str, np.ndarray]) -> np.ndarray:
    """Whether the error of a number is larger than its verdict lets a reader think; false for other verdicts."""
    part = np.array([OFF.get(each, np.inf) for each in QUALITIES])[cells["quality"]]
    return np.abs(cells["error"]) > part * np.maximum(cells["count"], 1e-9)


def _added(scheme: str, codes: np.ndarray, names: Sequence[str], figures: Mapping[str, np.ndarray]) -> Sums:
    found = np.zeros((len(names), len(SUMMED)))
    found[:, 0] = np.bincount(codes, minlength=len(names))
    for name, values in figures.items():
        found[:, SUMMED.index(name)] = np.bincount(codes, values, minlength=len(names))
    return {(scheme, name): found[i] for i, name in enumerate(names) if found[i, 0]}


def rows_of(case: Case, runs: Sequence[Measured]) -> Iterator[Row]:
    """A row for each class of each table, one for its cell that pooling moves most, means of tables, and seconds."""
    about = case.about() | {"runs": len(runs)}
    none = np.zeros(len(SUMMED))
    keys = dict.fromkeys(key for run in runs for key in run.sums)
    stacked = {key: np.stack([run.sums.get(key, none) for run in runs]) for key in keys}
    for table, scheme, name in keys:
        if scheme != TODAYS_VERDICT:
            own = runs[0].tables.get(table, {"level": "", "leaves": False, "attributes": 0})
            sums = stacked[table, scheme, name]
            row = about | {"table": table} | own | {"by": scheme, "class": name} | figures_of(sums)
            if scheme == "verdict" and (table, TODAYS_VERDICT, name) in stacked:
                before = figures_of(stacked[table, TODAYS_VERDICT, name])
                row |= {"off_today": before["off"], "cells_today": before["cells"]}
            yield row
    for table, own in runs[0].tables.items():
        cells = np.stack([run.cells[table] for run in runs])
        yield about | {"table": table} | own | {"by": "cell"} | _moved_most(cells)
    means = {key: sums for key, sums in stacked.items() if key[1] == "all" and runs[0].tables[key[0]]["leaves"]}
    for row in _means(means, runs[0].tables):
        yield about | row
    for key in (POOLED, TODAY, "all"):
        seconds = round(float(np.mean([run.seconds[key] for run in runs])), 2)
        yield about | {"table": "", "by": "seconds", "class": key, "cells": 1, "seconds": seconds}


def _moved_most(cells: np.ndarray) -> Row:
    """The cell whose mean number lies most further off than that of today, in standard deviations of its estimate.

    Args:
        cells: float32 (runs, 3, cells), see `Measured`.
    """
    runs = len(cells)
    means = np.abs(cells[:, :2].mean(axis=0))
    std_devs = cells[:, 2].mean(axis=0)
    further = np.divide(means[0] - means[1], std_devs, out=np.zeros_like(std_devs), where=std_devs > 0)
    at = int(further.argmax())
    spread = (cells[:, 0, at] - cells[:, 1, at]).std(ddof=1) / math.sqrt(runs) if runs > 1 else 0.0
    return {
        "class": f"cell {at}", "cells": cells.shape[2], "further": float(further[at]),
        "further_error": float(spread / std_devs[at]) if std_devs[at] > 0 else 0.0,
        "bias": float(cells[:, 0, at].mean()), "bias_today": float(cells[:, 1, at].mean()),
    }  # fmt: skip


def _means(leaves: Mapping[tuple[str, str, str], np.ndarray], tables: Mapping[str, Row]) -> Iterator[Row]:
    """The mean ratios over the leaves' tables, with the table that has no attributes and without."""
    for name, least in ((LEAVES, 1), (f"{LEAVES}, with the areas' totals", 0)):
        own = [sums for key, sums in leaves.items() if tables[key[0]]["attributes"] >= least]
        if own:
            both = np.stack(own, axis=1)  # runs, tables, sums
            found = {
                "ratio": jackknifed(both, lambda x: float(np.sqrt(_share(x.T, "square", "today square")).mean())),
                "ratio_mae": jackknifed(both, lambda x: float(_share(x.T, "absolute", "today absolute").mean())),
            }
            for key, (value, error) in found.items():
                row = {"table": name, "by": "mean", "class": key, "cells": len(own)}
                yield row | {"ratio": value, "ratio_error": error}


def _share(sums: np.ndarray, top: str, bottom: str) -> np.ndarray:
    """One sum over another; sums has `SUMMED` as its first axis. 1 where both are 0."""
    over, under = sums[SUMMED.index(top)], sums[SUMMED.index(bottom)]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(under > 0, over / under, np.where(over > 0, np.inf, 1.0))


def jackknifed(sums: np.ndarray, figure: Any) -> tuple[float, float]:
    """A figure of the sums over all runs, and its standard error; 0 for one run (so that it has to hold as it is)."""
    whole, runs = sums.sum(axis=0), len(sums)
    value = float(figure(whole))
    if runs == 1:
        return value, 0.0
    without = np.array([figure(whole - own) for own in sums], dtype=float)
    without = without[np.isfinite(without)]
    if len(without) < 2:
        return value, 0.0
    return value, math.sqrt((len(without) - 1) / len(without) * ((without - without.mean()) ** 2).sum())


def figures_of(sums: np.ndarray) -> Row:
    """The figures of a class, and their standard errors over runs."""
    whole = dict(zip(SUMMED, sums.sum(axis=0), strict=True))
    cells = max(whole["cells"], 1)
    found: Row = {"cells": int(whole["cells"])}  # times runs
    shares = {
        "rmse": ("square", "cells", 0.5), "rmse_today": ("today square", "cells", 0.5),
        "ratio": ("square", "today square", 0.5), "mae": ("absolute", "cells", 1.0),
        "mae_today": ("today absolute", "cells", 1.0), "ratio_mae": ("absolute", "today absolute", 1.0),
        "bias": ("error", "cells", 1.0), "bias_today": ("today error", "cells", 1.0),
        "coverage": ("held", "cells", 1.0), "coverage_today": ("today held", "cells", 1.0),
        "width": ("width", "cells", 1.0), "width_ratio": ("width", "today width", 1.0),
        "typical": ("typical square", "square", 0.5), "off": ("off", "cells", 1.0),
    }  # fmt: skip
    for name, (top, bottom, power) in shares.items():
        value, error = jackknifed(
            sums, lambda x, t=top, b=bottom, p=power: np.sign(v := float(_share(x, t, b))) * abs(v) ** p
        )
        found |= {name: value, f"{name}_error": error}
    found |= {name.replace(" ", "_"): int(whole[name]) for name in ("excluded", "verdict not as interval")}
    return found | {"classed_by": whole["classed by"] / cells}


def cases(given: argparse.Namespace) -> Iterator[Case]:
    """What is asked for."""
    designs: dict[str, Sequence[str]] = (
        dict.fromkeys(real_sets.OFFICE, ("asked",)) if given.office else real_sets.DESIGNS
    )
    for data, own in designs.items():
        if given.sets is None or any(data.startswith(each) for each in given.sets):
            for design, epsilon in itertools.product(own, given.epsilons):
                if given.designs is None or design in given.designs:
                    yield Case(data, design, epsilon, given.option, given.laplace, given.office)


def run_all(given: argparse.Namespace) -> Iterable[Row]:
    """The rows of all cases, with a line for each on the way."""
    with ProcessPoolExecutor(given.side_by_side) if given.side_by_side > 1 else contextlib.nullcontext() as pool:
        for case in cases(given):
            try:
                of_runs = (pool.map if pool else map)(partial(measured, case), range(given.runs))
                rows = list(rows_of(case, list(of_runs)))
            except real_sets.NotThereError as error:
                print(f"left out: {error}", file=sys.stderr)
                continue
            took = {row["class"]: row["seconds"] for row in rows if row["by"] == "seconds"}
            mean = next((row["ratio"] for row in rows if row["table"] == LEAVES), math.nan)
            print(
                f"{case.data}, {case.design}, ε {case.epsilon:g}: fit {took[TODAY]:.1f} s today, {took[POOLED]:.1f} s "
                f"pooled; {took['all']:.1f} s a run; leaves' mean ratio {mean:.3f}",
                flush=True,
            )
            yield from rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", help="the first letters of data sets; all by default")
    parser.add_argument("--designs", nargs="+", help="all by default")
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--option", default="auto", choices=real_data.MEASURED["tables"][1], help="shares of the budget"
    )
    parser.add_argument("--laplace", action="store_true", help="δ = 0")
    parser.add_argument("--fast", action="store_true", help="ε = 1, two runs")
    parser.add_argument("--office", type=Path, help="a folder with true_2025.parquet and its hierarchies, alone")
    parser.add_argument("--out", type=Path, help="a file for all rows, as JSON; written after every case")
    parser.add_argument("--report", type=Path, nargs="+", help="files of rows, instead of measuring")
    parser.add_argument("--listed", type=int, default=30, help="how many misses of a bound are printed")
    parser.add_argument("--side-by-side", type=int, default=1, help="runs at the same time")
    given = parser.parse_args()
    if given.fast:
        given.epsilons, given.runs = given.epsilons[:1] if given.epsilons is not EPSILONS else [1.0], 2
    rows: list[Row] = []
    if given.report:
        rows = [row for file in given.report for row in json.loads(file.read_text(encoding="utf-8"))]
    else:
        for row in run_all(given):
            rows.append(row)
            if given.out and row["by"] == "seconds":
                given.out.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8")
    report(rows, given.listed)


if __name__ == "__main__":
    main()
