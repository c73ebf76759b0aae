"""Noisy measurements: the only values computed from private data that a mechanism sees."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal, NoReturn, Protocol

from tallytree.support.arrays import IntArray

Distribution = Literal["discrete_laplace", "discrete_gaussian"]
Statistic = Literal[
    "counts",
    "stable_counts",
    "distinct_counts",
    "total",
    "histogram",
    "tail_counts",
    "persons_by_rank",
    "chain_tail_counts",
    "sorted_sizes",
    "largest_size",
    "contributions",
]
"""What can be measured of records, under the name that mechanisms and statements have for it: `statistic`. What is
released is a `Kind`."""

BESIDE_THE_LEVELS: Mapping[Statistic, str] = {
    "largest_size": "the largest size",
    "contributions": "people by number of records",
}
"""What is measured of all records together, beside the levels: each at most once, and before them; and in words."""


@dataclass(frozen=True)
class Noise:
    """The distribution of the integer noise in a cell.

    Attributes:
        distribution: discrete Laplace, P(k) ∝ exp(−|k| / scale), or discrete Gaussian, P(k) ∝ exp(−k² / (2 scale²)).
        scale: the parameter of the distribution, exactly.
    """

    distribution: Distribution
    scale: Fraction

    @cached_property
    def variance(self) -> float:
        """The variance of the discrete distribution, which is slightly below that of the continuous distribution."""
        scale = float(self.scale)
        if self.distribution == "discrete_laplace":
            return 2 * math.exp(-1 / scale) / math.expm1(-1 / scale) ** 2
        if scale > 5:  # the sum below differs from scale² by less than exp(−2π²·25)
            return scale * scale
        masses = [math.exp(-k * k / (2 * scale * scale)) for k in range(1, 100)]
        return 2 * sum(k * k * mass for k, mass in enumerate(masses, 1)) / (1 + 2 * sum(masses))

    @property
    def std_dev(self) -> float:
        """The standard deviation of the noise."""
        return math.sqrt(self.variance)


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy values of what was measured: of some nodes of one level, or of some cells of one node.

    Attributes:
        level: the level's name.
        statistic: what was measured.
        nodes: int64 (n,), node numbers.
        values: (cells,), the true values plus noise, node after node: int64, or narrower integers in memory or on disk.
        offsets: int64 (n + 1,), the cells of node i are values[offsets[i] : offsets[i + 1]].
        noise: the distribution of the noise in every cell.
        first_cell: the number, within its node, of the first cell; > 0 only where a node is measured in parts.
    """

    level: str
    statistic: Statistic
    nodes: IntArray
    values: IntArray
    offsets: IntArray
    noise: Noise
    first_cell: int = 0


class Measures(Protocol):
    """Measures private statistics with noise. A mechanism gets one of these and public metadata, and nothing else."""

    def measure(
        self, level: str, nodes: IntArray, statistic: Statistic, cells: tuple[int, int] | None = None
    ) -> Measurement:
        """Measure some nodes of a level.

        Args:
            level: the level's name.
            nodes: int64 (n,), distinct node numbers.
            statistic: what is planned to be measured at the level.
            cells: for a single node, measure the cells cells[0] … cells[1] − 1 only. They get the same noise as if all
                cells were measured at once. The parts of a node are measured in order.

        Raises:
            BudgetExceeded: the plan has no such level, or has something else measured there.
        """

    def measure_stable(self, level: str) -> Measurement:
        """Measure the nodes of a level that have records; keep those whose noisy count reaches the threshold.

        The result may be published. It does not tell which other nodes have records.

        Raises:
            BudgetExceeded: the plan has no threshold for the level.
        """


class NoisyAnswers:
    """Implements `Measures` for a mechanism from outside: it answers, and holds nothing else to read or to copy.

    A mechanism that hands what it got to other processes, or keeps it in a cache on disk, would copy true statistics
    with a measurer. This is no wall against code that means harm: in one process there is none.

    Args:
        measurer: what measures.
    """

    __slots__ = ("_measure", "_measure_stable")

    def __init__(self, measurer: Measures) -> None:
        self._measure = measurer.measure
        self._measure_stable = measurer.measure_stable

    def measure(
        self, level: str, nodes: IntArray, statistic: Statistic, cells: tuple[int, int] | None = None
    ) -> Measurement:
        """See `Measures`."""
        return self._measure(level, nodes, statistic, cells)

    def measure_stable(self, level: str) -> Measurement:
        """See `Measures`."""
        return self._measure_stable(level)

    def __reduce__(self) -> NoReturn:
        raise TypeError("measurer: it stays in its process; copy, pickle or cache the measurements, not the measurer")
