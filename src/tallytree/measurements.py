"""Noisy measurements: all that crosses the firewall from the private side to the mechanisms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal, Protocol

from tallytree.compute.arrays import IntArray

Distribution = Literal["discrete_laplace", "discrete_gaussian"]
Statistic = Literal[
    "counts",
    "stable_counts",
    "distinct_counts",
    "total",
    "histogram",
    "tail_counts",
    "chain_tail_counts",
    "sorted_sizes",
    "largest_size",
]


@dataclass(frozen=True)
class Noise:
    """The distribution of the integer noise in a cell.

    Attributes:
        distribution: discrete Laplace, P(k) ∝ exp(−|k| / scale), or discrete Gaussian, P(k) ∝ exp(−k² / (2 scale²)).
        scale: its parameter, exactly.
    """

    distribution: Distribution
    scale: Fraction

    @cached_property
    def variance(self) -> float:
        """The variance of the discrete distribution, which is a little below that of its continuous cousin."""
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
    """Noisy values of one statistic at some nodes of one level, or of some cells of one node.

    Attributes:
        level: the level's name.
        statistic: what was measured.
        nodes: int64 (n,), node numbers.
        values: (cells,), the true value plus noise, node after node: int64, or narrower integers where it is kept.
        offsets: int64 (n + 1,), node i's cells are values[offsets[i] : offsets[i + 1]].
        noise: the distribution of the noise in every cell.
        first_cell: which of its node's cells the first value is; > 0 only where a node is measured in parts.
    """

    level: str
    statistic: Statistic
    nodes: IntArray
    values: IntArray
    offsets: IntArray
    noise: Noise
    first_cell: int = 0


class Measures(Protocol):
    """The only door to the private statistics; a mechanism gets one of these and public facts, nothing else."""

    def measure(
        self, level: str, nodes: IntArray, statistic: Statistic, cells: tuple[int, int] | None = None
    ) -> Measurement:
        """Noisy values of `statistic` at `nodes` (int64 (n,)) of `level`.

        Args:
            level: its name.
            nodes: distinct node numbers.
            statistic: what was planned for the level.
            cells: of a single node, only the cells cells[0] … cells[1] − 1, which get the noise that they have as
                part of the whole. Parts of a node are measured in order.

        Raises:
            BudgetExceeded: the level was not planned for, or for another statistic.
        """

    def measure_stable(self, level: str) -> Measurement:
        """The nodes of `level` whose noisy count passed the threshold, with that count; the others are left out.

        All of it may be published. Only nodes with records get noise, and which ones those are is not told.

        Raises:
            BudgetExceeded: this was not planned for the level.
        """
