"""The `Measurer`: the only door to the private statistics."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

import numpy as np

from tallytree.arrays import IntArray
from tallytree.budget import BudgetExceeded
from tallytree.measurements import Measurement, Statistic
from tallytree.privacy.accounting import NoisePlan
from tallytree.privacy.sources import NoiseSource

logger = logging.getLogger(__name__)


class TrueStatistics(Protocol):
    """Private statistics of every node, cell by cell."""

    def cells(self, level: str, nodes: IntArray, statistic: Statistic) -> tuple[IntArray, IntArray, IntArray]:
        """True values of `nodes`, the offsets where each node's begin, and the cells' numbers within the level."""


class Measurer:
    """Holds what is private and answers with noisy values, within a plan that was checked against the budget.

    Args:
        statistics: the true values.
        plan: the noise and statistic of every level that may be measured.
        source: where the noise comes from.
        on_measure: called with a level's name before it is measured (for progress; it learns nothing private).
    """

    def __init__(
        self,
        statistics: TrueStatistics,
        plan: NoisePlan,
        source: NoiseSource,
        on_measure: Callable[[str], None] = lambda level: None,
    ) -> None:
        self._statistics = statistics
        self._plan = plan
        self._source = source
        self._on_measure = on_measure
        self._taken: list[Measurement] = []

    @property
    def taken(self) -> tuple[Measurement, ...]:
        """Every measurement so far, in order; they are noisy, so they may be published."""
        return tuple(self._taken)

    def measure(self, level: str, nodes: IntArray, statistic: Statistic) -> Measurement:
        """Noisy values of `statistic` at `nodes` (int64 (n,), distinct) of `level`.

        Raises:
            BudgetExceeded: the plan has no such measurement; no noise is drawn.
        """
        planned = self._plan.levels.get(level)
        if planned is None or planned.statistic != statistic:
            raise BudgetExceeded(
                f"measure: {statistic!r} at level {level!r} is not in the plan, so no budget is set aside for it"
            )
        self._on_measure(level)
        true, offsets, cells = self._statistics.cells(level, nodes, statistic)
        noise = self._source.draw(planned.noise, (level, statistic), cells)
        logger.debug("measured %s at %d nodes of level %r", statistic, len(nodes), level)
        noisy = np.add(true, noise, out=noise)
        noisy.flags.writeable = False
        measurement = Measurement(level, statistic, nodes, noisy, offsets, planned.noise)
        self._taken.append(measurement)
        return measurement
