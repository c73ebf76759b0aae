"""What `compare` computes of a level: functions of its released and its true table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import RESERVED
from tallytree.lab.compare import count_errors as of_counts
from tallytree.lab.compare.metrics import earth_movers_distance, l1_error, paired_counts
from tallytree.support.arrays import IntArray


@dataclass(frozen=True, eq=False, repr=False)
class LevelResult:
    """A level of a release beside the truth. Metrics are computed from it.

    Attributes:
        released: the released table.
        true: the same table of the true data.
        n_nodes: how many nodes the level has; tables of flows list only those that are not 0.
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

    @cached_property
    def intervals(self) -> tuple[IntArray, IntArray, IntArray] | None:
        """Lower and upper ends of the stated intervals of the same nodes, and 1 for each that has one, else 0.

        None where the release states none.
        """
        if not {"ci_lower", "ci_upper"} <= {*self.released.column_names}:
            return None
        path = [name for name in self.released.column_names if name not in RESERVED]
        ends = (
            self.released.select([*path, name]).rename_columns([*path, "count"]) for name in ("ci_lower", "ci_upper")
        )
        rows = self.released.select(path).append_column("count", pa.array(np.ones(self.released.num_rows, np.int64)))
        lower, upper, listed = (paired_counts(each, self.true)[0] for each in (*ends, rows))
        return lower, upper, listed


Metric = Callable[[LevelResult], float]


COUNT_METRICS: Mapping[str, Metric] = {
    "max_absolute_error": lambda level: of_counts.max_error(*level.counts),
    "mean_absolute_error": lambda level: of_counts.mean_error(*level.counts, level.n_nodes),
    "false_discovery_rate": lambda level: of_counts.false_discoveries(*level.counts),
    "false_negative_rate": lambda level: of_counts.false_negatives(*level.counts),
}
"""What `compare` computes for counts and flows: Boninsegna and Silvestri 2025, section 5."""

BENCHMARK_METRICS: Mapping[str, Metric] = {
    **COUNT_METRICS,
    "rmse": lambda level: of_counts.root_mean_square(*level.counts, level.n_nodes),
    "bias": lambda level: of_counts.mean_deviation(*level.counts, level.n_nodes),
    "relative_error": lambda level: of_counts.relative_error(*level.counts),
    "coverage": lambda level: _coverage(level),
    "top_10_overlap": lambda level: of_counts.top_overlap(*level.counts, 10),
}
"""For a benchmark of counts: `COUNT_METRICS` and others."""


def _coverage(level: LevelResult) -> float:
    """The share of the listed nodes whose stated interval holds the true number; NaN where none is stated."""
    if level.intervals is None:
        return math.nan
    lower, upper, listed = level.intervals
    true = level.counts[1]
    return float(((lower <= true) & (true <= upper))[listed > 0].mean()) if listed.any() else math.nan


GROUP_SIZE_METRICS: Mapping[str, Metric] = {
    "earth_movers_distance": lambda level: float(
        earth_movers_distance(level.released, level.true).sum() / level.n_nodes
    ),
    "l1_error": lambda level: float(l1_error(level.released, level.true)),
}
"""What `compare` computes for group sizes: the mean over nodes (Kuo et al. 2018) and the sum (Fioretto et al. 2021)."""
