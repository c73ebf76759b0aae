"""`compare`: any mechanisms on any data over budgets and runs, as one tidy table; `summary`: its means and spreads."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.budget import Budget
from tallytree.compute.arrays import IntArray
from tallytree.evaluate import count_errors as of_counts
from tallytree.evaluate.metrics import NUMBERS, earth_movers_distance, l1_error, paired_counts
from tallytree.release import Release


@dataclass(frozen=True, eq=False, repr=False)
class Data:
    """A data set that mechanisms can be compared on: how it is released, and the truth.

    Attributes:
        name: in the results.
        release: called with `mechanism`, `budget`, `neighboring`, `accounting` and `seed`, gives a release: for
            instance `functools.partial(tt.release_counts, records, areas)`.
        true: the true numbers: the path columns of the leaves, and `count` (without it each row is one), or `size` and
            `groups`; rows with one path add up. It need not be what is released: sizes that the release clamps have to
            be clamped here, or the clamping counts as an error.
    """

    name: str
    release: Callable[..., Release]
    true: pa.Table

    def __repr__(self) -> str:
        """The name; nothing of the data."""
        return f"Data({self.name!r})"

    @property
    def is_group_sizes(self) -> bool:
        """Whether the truth is groups per size; otherwise it is counts."""
        return {"size", "groups"} <= set(self.true.column_names)


@dataclass(frozen=True, eq=False, repr=False)
class LevelResult:
    """A level of a release beside the truth, which metrics are computed from.

    Attributes:
        released: the released table.
        true: the same of the true data.
        n_nodes: how many nodes the level has; tables of flows list the non-zero ones only.
    """

    released: pa.Table
    true: pa.Table
    n_nodes: int

    def __repr__(self) -> str:
        """The size; nothing of the data."""
        return f"LevelResult({self.n_nodes} nodes)"

    @cached_property
    def counts(self) -> tuple[IntArray, IntArray]:
        """Released and true counts of every node that has a row in either table, in one order: int64 (nodes,) each."""
        return paired_counts(self.released, self.true)


Metric = Callable[[LevelResult], float]


COUNT_METRICS: Mapping[str, Metric] = {
    "max_absolute_error": lambda level: of_counts.max_error(*level.counts),
    "mean_absolute_error": lambda level: of_counts.mean_error(*level.counts, level.n_nodes),
    "false_discovery_rate": lambda level: of_counts.false_discoveries(*level.counts),
    "false_negative_rate": lambda level: of_counts.false_negatives(*level.counts),
}
"""What `compare` computes for counts and flows: Boninsegna and Silvestri 2025, section 5."""

GROUP_SIZE_METRICS: Mapping[str, Metric] = {
    "earth_movers_distance": lambda level: float(
        earth_movers_distance(level.released, level.true).sum() / level.n_nodes
    ),
    "l1_error": lambda level: float(l1_error(level.released, level.true)),
}
"""What it computes for group sizes: the mean over nodes of Kuo et al. 2018, and the sum of Fioretto et al. 2021."""


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
) -> pa.Table:
    """Release data by every mechanism with every budget, several times, and measure how far it is from the truth.

    For experiments: the noise is seeded, and errors are computed from the true data, so neither the releases nor the
    results are private.

    Args:
        data: the data set, or several.
        mechanisms: by the names they have in the results, e.g. `{"InfTDA": tt.counts.TopDown()}`.
        budgets: the budget, or several.
        neighboring: `"add_remove"` or `"change_one"`, or both.
        accounting: for budgets with δ: None (the default), `"pld"`, `"zcdp"`, `"paper"`, or several. Other budgets are
            accounted for exactly and have one row.
        runs: releases for each of these. Each draws other noise.
        seed: of the noise. Equal arguments give equal results, but for the seconds.
        levels: only these; by default all levels.
        metrics: by name, functions of a `LevelResult`; by default `COUNT_METRICS`, or `GROUP_SIZE_METRICS`.

    Returns:
        One row per data set, mechanism, budget, relation, accounting, run, level and metric: `data`, `mechanism`,
        `epsilon`, `delta`, `rho` (null where the budget has none), `neighboring`, `accounting` (as the statement has
        it), `run` (from 0), `seed`, `seconds` (of the release), `level`, `depth`, `metric` and `value`.

    Raises:
        ValueError: nothing to compare, a name that is there twice, fewer than one run, an unknown level, a true table
            without a path column.
        TypeError: mechanisms or metrics without names, metrics that are no functions, or something that is no `Data` or
            no `Budget`.
        What a release raises, with a note of which it was.
    """
    sets = [data] if isinstance(data, Data) else list(data)
    given = [budgets] if isinstance(budgets, Budget) else list(budgets)
    _check(sets, mechanisms, given, runs, metrics)
    if isinstance(levels, str):
        raise TypeError(f"levels: {levels!r} must be a list of levels' names, for instance [{levels!r}]")
    relations = [neighboring] if isinstance(neighboring, str) else list(neighboring)
    accountings = [accounting] if accounting is None or isinstance(accounting, str) else list(accounting)
    seeds = [int(word >> 1) for word in np.random.SeedSequence(seed).generate_state(runs, np.uint64)]
    rows = _Rows()
    truths = [_Truth(one) for one in sets]
    for truth, (name, mechanism), budget, relation in itertools.product(truths, mechanisms.items(), given, relations):
        for account in accountings if budget.kind == "approximate" else [None]:
            for run, run_seed in enumerate(seeds):
                arguments = {"budget": budget, "neighboring": relation, "accounting": account, "seed": run_seed}
                try:
                    began = time.perf_counter()
                    release = truth.data.release(mechanism=mechanism, **arguments)
                    seconds = time.perf_counter() - began
                except Exception as error:
                    error.add_note(f"compare: data {truth.data.name!r}, mechanism {name!r}, {budget!r}, run {run}")
                    raise
                about = {"data": truth.data.name, "mechanism": name, "run": run, "seed": run_seed, "seconds": seconds}
                for measured in _measured(release, truth, levels, metrics):
                    rows.add(about | _terms(release, budget) | measured)
    return rows.table()


def summary(results: pa.Table) -> pa.Table:
    """Mean, standard deviation, least and greatest value over the runs.

    Args:
        results: from `compare`, or several of them, one below the other.

    Returns:
        One row per group of runs, in the order of the results: their columns but `run`, `seed`, `seconds` and `value`;
        then `runs`, `mean`, `sd` (with runs − 1; null for one run), `min`, `max` and the mean of the `seconds`.

    Raises:
        ValueError: a column is missing.
    """
    for column in _SCHEMA.names:
        if column not in results.column_names:
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
    return grouped.sort_by("row_min").select([*keys, *names]).rename_columns([*keys, *names.values()])


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
    ]
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


class _Truth:
    """The true tables of a data set, each level added up when it is first asked for."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self._tables: dict[tuple[str, ...], pa.Table] = {}

    def at(self, path: tuple[str, ...]) -> pa.Table:
        if path not in self._tables:
            self._tables[path] = self._summed(path)
        return self._tables[path]

    def _summed(self, path: tuple[str, ...]) -> pa.Table:
        true, sizes = self.data.true, self.data.is_group_sizes
        for column in path:
            if column not in true.column_names:
                raise ValueError(f"data: true of {self.data.name!r} has no column {column!r}, which the release has")
        value = "groups" if sizes else "count"
        if value not in true.column_names:
            true = true.append_column(value, pa.array(np.ones(true.num_rows, dtype=np.int64)))
        columns = {column: true[column].cast(pa.large_string()) for column in path}
        columns |= {column: true[column] for column in (["size"] if sizes else [])}
        if not columns:
            return pa.table({value: pa.array([pc.sum(true[value]).as_py() or 0], true.schema.field(value).type)})
        summed = pa.table(columns | {value: true[value]}).group_by(list(columns)).aggregate([(value, "sum")])
        return summed.select([*columns, f"{value}_sum"]).rename_columns([*columns, value])


def _measured(
    release: Release, truth: _Truth, levels: Sequence[str] | None, metrics: Mapping[str, Metric] | None
) -> Iterator[dict[str, Any]]:
    """Level, metric and value of every row about a release."""
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
            path = tuple(column for column in released.column_names if column not in NUMBERS)
            result = LevelResult(released, truth.at(path), n_nodes[level])
            for name, metric in chosen.items():
                yield {"level": level, "depth": depth, "metric": name, "value": float(metric(result))}


def _terms(release: Release, budget: Budget) -> dict[str, Any]:
    amounts = {"epsilon": budget.epsilon, "delta": budget.delta, "rho": budget.rho}
    stated = {key: release.statement[key] for key in ("neighboring", "accounting")}
    return stated | {name: None if amount is None else float(amount) for name, amount in amounts.items()}


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
            raise TypeError(f"budgets: {budget!r} must be a tallytree.Budget, for instance Budget(epsilon=1)")
    for name, metric in (metrics or {}).items() if isinstance(metrics, Mapping) else ():
        if not callable(metric):
            raise TypeError(f"metrics: {name!r} is {metric!r} and must be a function of a LevelResult")
    names = [one.name for one in sets]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"data: {name!r} is the name of two data sets; give each its own")
    if isinstance(runs, bool) or not isinstance(runs, int):
        raise TypeError(f"runs: {runs!r} must be an integer")
    if runs < 1:
        raise ValueError(f"runs: {runs} must be at least 1")
