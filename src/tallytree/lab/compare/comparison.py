"""`compare`: any mechanisms on any data over budgets and runs, as one tidy table; `summary`: its means and spreads."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.budget import Budget
from tallytree.hierarchy import RESERVED
from tallytree.lab.compare.by_size import ALL, parts_of
from tallytree.lab.compare.compared_data import Data, TrueByLevel
from tallytree.lab.compare.level_metrics import COUNT_METRICS, GROUP_SIZE_METRICS, LevelResult, Metric
from tallytree.lab.compare.shared_noise import shared_noise
from tallytree.release import Release
from tallytree.support.validate import integer, safe_text

ALPHA = 0.1
"""Of the intervals that releases by mechanisms which know their errors are given."""


def compare(
    data: Data | Sequence[Data],
    mechanisms: Mapping[str, Any],
    budgets: Budget | Iterable[Budget],
    *,
    neighboring: str | Sequence[str],
    accounting: str | Sequence[str | None] | None = None,
    runs: int = 10,
    seed: int = 0,
    levels: Sequence[str] | None = None,
    metrics: Mapping[str, Metric] | None = None,
    paired: bool = False,
    by_size: bool = False,
) -> pa.Table:
    """Release data with every mechanism and every budget, several times, and measure the errors.

    It is for experiments. The noise is seeded and errors are computed from the true data, so neither the releases nor
    the results are private.

    Args:
        data: the data set, or several.
        mechanisms: by the names they have in the results, e.g. `{"InfTDA": tt.counts.TopDown()}`.
        budgets: the budget, or several.
        neighboring: `"add_remove"` or `"change_one"`, or both.
        accounting: for budgets with δ: None (the default), `"pld"`, `"zcdp"`, `"paper"`, or several. Other budgets are
            accounted for exactly and have one row.
        runs: the number of releases for each combination of these. Each draws other noise.
        seed: of the noise. Equal arguments give equal results, except for the seconds.
        levels: only these; by default all levels.
        metrics: by name, functions of a `LevelResult`; by default `COUNT_METRICS`, or `GROUP_SIZE_METRICS`.
        paired: whether the mechanisms of a run get the same noise where they measure the same. Fewer runs then tell
            them apart: see `differences`.
        by_size: whether counts are also measured by the size of the true number; see `by_size.CLASSES`.

    Returns:
        One row per data set, mechanism, budget, relation, accounting, run, level and metric: `data`, `mechanism`,
        `epsilon`, `delta`, `rho` (null where the budget has none), `neighboring`, `accounting` (as the statement has
        it), `run` (from 0), `seed`, `seconds` (of the release), `level`, `depth`, `metric`, `value`, `true_number` (the
        class of nodes that it is about; `"all"`) and `noise` (`"own"`, or `"shared"` where it is paired). The table's
        metadata say that the results are not private.

    Raises:
        ValueError: nothing to compare, a name that is used twice, fewer than one run, an unknown level, a true table
            without a path column.
        TypeError: mechanisms or metrics without names, metrics that are no functions, or something that is no `Data` or
            no `Budget`.
        Any error of a release, with a note that names the release.
    """
    sets = [data] if isinstance(data, Data) else _listed(data, "data", "a tallytree.evaluate.Data")
    given = [budgets] if isinstance(budgets, Budget) else _listed(budgets, "budgets", "a tallytree.Budget")
    integer(seed, "seed", least=0)
    _check(sets, mechanisms, given, runs, metrics)
    if isinstance(levels, str):
        raise TypeError(f"levels: {safe_text(levels)} must be a list of levels' names, for instance ['all']")
    relations = [neighboring] if isinstance(neighboring, str) else list(neighboring)
    accountings = [accounting] if accounting is None or isinstance(accounting, str) else list(accounting)
    seeds = [int(word >> 1) for word in np.random.SeedSequence(seed).generate_state(runs, np.uint64)]
    rows = _Rows()
    truths = [TrueByLevel(one) for one in sets]
    for truth, (name, mechanism), budget, relation in itertools.product(truths, mechanisms.items(), given, relations):
        for account in accountings if budget.kind == "approximate" else [None]:
            for run, run_seed in enumerate(seeds):
                arguments = {"budget": budget, "neighboring": relation, "accounting": account, "seed": run_seed}
                where = f"compare: data {truth.data.name!r}, mechanism {name!r}, {budget!r}, run {run}"
                with shared_noise(run_seed) if paired else nullcontext():
                    release, seconds = _timed_release(truth.data, {"mechanism": mechanism, **arguments}, where)
                about = {"data": truth.data.name, "mechanism": name, "run": run, "seed": run_seed, "seconds": seconds}
                about["noise"] = "shared" if paired else "own"
                for measured in _measured(release, truth, levels, metrics, by_size=by_size):
                    rows.add(about | _terms(release, budget) | measured)
    return rows.table()


def summary(results: pa.Table) -> pa.Table:
    """Mean, standard deviation, least and greatest value over the runs of `compare`.

    Args:
        results: from `compare`, or several of them, one below the other.

    Returns:
        One row per group of runs, in the order of the results: their columns without `run`, `seed`, `seconds` and
        `value`; then `runs`, `mean`, `sd` (divided by runs − 1; null for one run), `min`, `max` and the mean of the
        `seconds`; last `true_number` and `noise`.

    Raises:
        ValueError: a column is missing.
    """
    for column in _SCHEMA.names:
        if column not in (*_LATER, *results.column_names):
            raise ValueError(f"results: column {column!r} is missing; give a table that compare returned")
    keys = [column for column in results.column_names if column not in ("run", "seed", "seconds", "value")]
    spread = pc.VarianceOptions(ddof=1)
    # Arrow's grouping keeps no order.
    grouped = (
        results.append_column("row", pa.array(np.arange(results.num_rows)))
        .group_by(keys)
        .aggregate(
            [
                ("row", "min"),
                ("value", "count"),
                ("value", "mean"),
                ("value", "stddev", spread),
                ("value", "min"),
                ("value", "max"),
                ("seconds", "mean"),
            ]
        )
    )
    names = {
        "value_count": "runs",
        "value_mean": "mean",
        "value_stddev": "sd",
        "value_min": "min",
        "value_max": "max",
        "seconds_mean": "seconds",
    }
    last = [key for key in keys if key in _LATER]
    first = [key for key in keys if key not in _LATER]
    chosen = grouped.sort_by("row_min").select([*first, *names, *last])
    return chosen.rename_columns([*first, *names.values(), *last]).replace_schema_metadata(results.schema.metadata)


_LATER = ("true_number", "noise")
"""Columns that stand after those that there were before them."""


_SCHEMA = pa.schema(
    [
        ("data", pa.string()),
        ("mechanism", pa.string()),
        ("epsilon", pa.float64()),
        ("delta", pa.float64()),
        ("rho", pa.float64()),
        ("neighboring", pa.string()),
        ("accounting", pa.string()),
        ("run", pa.int64()),
        ("seed", pa.int64()),
        ("seconds", pa.float64()),
        ("level", pa.string()),
        ("depth", pa.int64()),
        ("metric", pa.string()),
        ("value", pa.float64()),
        ("true_number", pa.string()),
        ("noise", pa.string()),
    ],
    {"privacy": "NOT PRIVATE: errors are computed from the true numbers, and the noise is drawn from a seed"},
)


@dataclass(frozen=True)
class _Rows:
    """Rows of the result, gathered column by column."""

    columns: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in _SCHEMA.names})

    def add(self, row: Mapping[str, Any]) -> None:
        for name, values in self.columns.items():
            values.append(row[name])

    def table(self) -> pa.Table:
        return pa.table(self.columns, _SCHEMA)


def _timed_release(data: Data, arguments: Mapping[str, Any], where: str) -> tuple[Release, float]:
    """A release and the seconds it took; `where` is added to an error as a note."""
    began = time.perf_counter()
    try:
        release = data.release(**arguments)
    except Exception as error:
        error.add_note(where)
        raise
    return release, time.perf_counter() - began


def _measured(
    release: Release,
    truth: TrueByLevel,
    levels: Sequence[str] | None,
    metrics: Mapping[str, Metric] | None,
    *,
    by_size: bool,
) -> Iterator[dict[str, Any]]:
    """Level, metric and value of every row about a release."""
    if by_size and truth.data.is_group_sizes:
        raise ValueError(f"by_size: {truth.data.name!r} has group sizes, and it is about counts; leave it out")
    chosen = metrics or (GROUP_SIZE_METRICS if truth.data.is_group_sizes else COUNT_METRICS)
    n_nodes = {level["level"]: level["nodes"] for level in release.statement["levels"]}
    for level in levels or ():
        if level not in release.levels:
            raise ValueError(
                f"levels: {level!r} is not a level of {truth.data.name!r}; its levels are {', '.join(release.levels)}"
            )
    for depth, level in enumerate(release.levels):
        if levels is None or level in levels:
            released = release.table(level)
            if metrics is not None and {"std_dev", "count"} <= {*released.column_names}:
                released = release.table(level, alpha=ALPHA)
            path = tuple(column for column in released.column_names if column not in RESERVED)
            result = LevelResult(released, truth.at(path), n_nodes[level])
            for size, part in [(ALL, result), *(parts_of(result) if by_size else [])]:
                for name, metric in chosen.items():
                    row = {"level": level, "depth": depth, "metric": name, "value": float(metric(part))}
                    yield {**row, "true_number": size}


def _terms(release: Release, budget: Budget) -> dict[str, Any]:
    amounts = {"epsilon": budget.epsilon, "delta": budget.delta, "rho": budget.rho}
    stated = {key: release.statement[key] for key in ("neighboring", "accounting")}
    return stated | {name: None if amount is None else float(amount) for name, amount in amounts.items()}


def _listed(given: Any, argument: str, one: str) -> list[Any]:
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise TypeError(f"{argument}: {safe_text(given)} must be {one}, or a list of them")
    return list(given)


def _check(sets: Sequence[Any], mechanisms: Mapping[str, Any], budgets: Sequence[Any], runs: int, metrics: Any) -> None:
    for argument, value in (("mechanisms", mechanisms), ("metrics", {} if metrics is None else metrics)):
        if not isinstance(value, Mapping):
            raise TypeError(f"{argument}: {type(value).__name__} has no names; give a dictionary by name")
    for argument, values in (("data", sets), ("mechanisms", mechanisms), ("budgets", budgets)):
        if not values:
            raise ValueError(f"{argument}: nothing is given to compare; give at least one")
    for one in sets:
        if not isinstance(one, Data):
            raise TypeError(f"data: {type(one).__name__} must be a tallytree.evaluate.Data(name, release, true)")
        if not isinstance(one.true, pa.Table):
            raise TypeError(
                f"data: the truth of {one.name!r} is a {type(one.true).__name__} and must be a pyarrow table; "
                "pyarrow.Table.from_pandas(…) makes one of a data frame"
            )
    for budget in budgets:
        if not isinstance(budget, Budget):
            raise TypeError(f"budgets: {safe_text(budget)} must be a tallytree.Budget, for instance Budget(epsilon=1)")
    for metric in (metrics or {}).values():
        if not callable(metric):
            raise TypeError(f"metrics: {safe_text(metric)} must be a function of a LevelResult")
    names = [one.name for one in sets]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"data: {name!r} is the name of two data sets; give each its own")
    if isinstance(runs, bool) or not isinstance(runs, int):
        raise TypeError(f"runs: {safe_text(runs)} must be an integer")
    if runs < 1:
        raise ValueError(f"runs: {runs} must be at least 1")
