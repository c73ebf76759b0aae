"""The `Measurer`: the only door to the private statistics."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

import numpy as np

from tallytree.arrays import IntArray
from tallytree.errors import BudgetExceeded
from tallytree.measurements import Measurement, Statistic
from tallytree.privacy.accounting import NoisePlan
from tallytree.privacy.sources import NoiseSource
from tallytree.tabulate.statistics import LARGEST_TOTAL

logger = logging.getLogger(__name__)


class TrueStatistics(Protocol):
    """Private statistics of every node, cell by cell."""

    def size(self, level: str) -> int:
        """How many nodes the level has (public)."""

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

        Whoever asks is not trusted: only the plan's own names and a checked copy of `nodes` meet the true values.

        Raises:
            BudgetExceeded: the plan has no such measurement.
            ValueError: nodes that the level does not have.
            TypeError: nodes that are not integers.
            OverflowError: a true value to which noise cannot be added within 64 bits; no noise is drawn.
        """
        planned = self._plan.planned(str(level), str(statistic))
        if planned is None:
            raise BudgetExceeded(
                f"measure: {statistic!r} at level {level!r} is not in the plan, so no budget is set aside for it"
            )
        level, statistic = planned.level, planned.statistic
        nodes = _checked_nodes(nodes, self._statistics.size(level))
        self._on_measure(level)
        true, offsets, cells = self._statistics.cells(level, nodes, statistic)
        if len(true) and not -LARGEST_TOTAL <= true.min() <= true.max() <= LARGEST_TOTAL:
            raise OverflowError(
                f"measure: a value at level {level!r} is beyond 2^62, so adding noise could wrap around"
            )
        noise = self._source.draw(planned.noise, (level, statistic), cells)
        logger.debug("measured %s at %d nodes of level %r", statistic, len(nodes), level)
        noisy = np.add(true, noise, out=noise)
        noisy.flags.writeable = False
        measurement = Measurement(level, statistic, nodes, noisy, offsets, planned.noise)
        self._taken.append(measurement)
        return measurement


def _checked_nodes(nodes: IntArray, size: int) -> IntArray:
    """A read-only copy of the nodes, once they are nodes of the level."""
    copy = np.array(nodes, copy=True, subok=False)
    if copy.ndim != 1 or (copy.size and copy.dtype.kind not in "iu"):
        raise TypeError(f"nodes: an array of {copy.dtype} with shape {copy.shape} must be a flat array of integers")
    copy = copy.astype(np.int64)
    if copy.size and (copy.min() < 0 or copy.max() >= size):
        raise ValueError(f"nodes: {int(copy.min())} … {int(copy.max())} must lie between 0 and {size - 1}")
    copy.flags.writeable = False
    return copy
