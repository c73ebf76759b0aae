"""What `compare` computes of a level: functions of its released and its true table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from tallytree._compute.arrays import IntArray
from tallytree.lab.compare import count_errors as of_counts
from tallytree.lab.compare.metrics import earth_movers_distance, l1_error, paired_counts


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
"""What `compare` computes for group sizes: the mean over nodes (Kuo et al. 2018) and the sum (Fioretto et al. 2021)."""
