"""The `Measurer`, which adds noise: mechanisms see private statistics only through its noisy answers."""

from __future__ import annotations

import dataclasses
import logging
import operator
from collections.abc import Callable
from typing import Protocol, cast, runtime_checkable

import numpy as np

from tallytree.errors import BudgetExceeded
from tallytree.kinds.measurements import Measurement, Noise, Statistic
from tallytree.private.noise.discrete import NoiseSource
from tallytree.private.tabulate.leaf_statistics import MAX_TOTAL
from tallytree.support import stages
from tallytree.support.arrays import IntArray

logger = logging.getLogger(__name__)


class TrueStatistics(Protocol):
    """Private statistics of every node, cell by cell."""

    def size(self, level: str) -> int:
        """How many nodes the level has (public)."""

    def width(self, level: str, node: int, statistic: Statistic) -> int:
        """How many cells the statistic has at a node (public)."""

    def cells(
        self, level: str, nodes: IntArray, statistic: Statistic, part: tuple[int, int] | None = None
    ) -> tuple[IntArray, IntArray, IntArray]:
        """True values of `nodes`, the offsets where each node's begin, and the cells' numbers within the level.

        With a `part`, of one node, only the cells part[0] … part[1] − 1, numbered as among all of its cells.
        """


@runtime_checkable
class HasPresent(Protocol):
    """Private statistics that know which nodes have records."""

    def present(self, level: str) -> tuple[IntArray, IntArray]:
        """The nodes of the level with records, ascending, and how many each has, ≥ 1; both private."""


class PlannedStatistic(Protocol):
    """How one statistic of a level is measured; implemented by `tallytree.accounting.LevelPlan`."""

    @property
    def level(self) -> str:
        """Its name."""

    @property
    def statistic(self) -> Statistic:
        """What is measured."""

    @property
    def noise(self) -> Noise:
        """The noise of every cell."""


class PlannedStable(PlannedStatistic, Protocol):
    """How counts above a threshold are measured; implemented by `tallytree.accounting.StableLevel`."""

    @property
    def threshold(self) -> int:
        """The least noisy count that is published."""


class MeasuringPlan(Protocol):
    """What may be measured: the plan of a release, or what a published statement says was measured."""

    def planned(self, level: str, statistic: str) -> PlannedStatistic | None:
        """How this statistic of a level is measured; None where it is not."""

    def planned_stable(self, level: str) -> PlannedStable | None:
        """How counts above a threshold are measured at a level; None where they are not."""


class Measurer:
    """Holds what is private and answers with noisy values, within a plan that was checked against the budget.

    Args:
        statistics: the true values.
        plan: the noise and statistic of every level that may be measured.
        source: where the noise comes from.
        on_measure: called with a level's name before it is measured (for progress; the name is public).
        keep: called with every measurement, in order, in place of keeping it in `taken`.
    """

    def __init__(
        self,
        statistics: TrueStatistics,
        plan: MeasuringPlan,
        source: NoiseSource,
        on_measure: Callable[[str], None] = lambda level: None,
        keep: Callable[[Measurement], None] | None = None,
    ) -> None:
        self._statistics = statistics
        self._plan = plan
        self._source = source
        self._on_measure = on_measure
        self._taken: list[Measurement] = []
        self._keep = self._taken.append if keep is None else keep
        # A run in bands logs nothing of its parts: how it is divided may follow from true statistics.
        self._log = logger.debug if keep is None else _not_logged
        self._parts: dict[str, tuple[int, int]] = {}
        self._stable: Measurement | None = None

    @property
    def taken(self) -> tuple[Measurement, ...]:
        """Every measurement so far, in order, as narrow integers; they are noisy, so they may be published.

        None where they are given to `keep`.

        One with `first_cell` > 0 goes on where the measurement before it at the same level ended.
        """
        return tuple(self._taken)

    @stages.part("measure")
    def measure(
        self, level: str, nodes: IntArray, statistic: Statistic, cells: tuple[int, int] | None = None
    ) -> Measurement:
        """Noisy values of `statistic` at `nodes` (int64 (n,), distinct) of `level`.

        Arguments are untrusted: names come from the plan; nodes are copied and checked; cells become plain integers.

        With `cells`, the cells cells[0] … cells[1] − 1 of a single node. A cell's noise is a function of its number, so
        it is the same as when all cells of the node are measured at once. Parts of a node, like single nodes, are parts
        of the level's query and cost no more than it. A part begins at 0 or where the last one ended, so that the kept
        cells are the first ones of the node, in order.

        Raises:
            BudgetExceeded: the plan has no such measurement.
            ValueError: nodes that the level does not have, or cells that the node does not have, or not in order.
            TypeError: nodes or cells that are not integers.
            OverflowError: a true value to which noise cannot be added within 64 bits; no noise is drawn.
        """
        planned = self._plan.planned(str(level), str(statistic))
        if planned is None:
            raise BudgetExceeded(
                f"measure: {statistic!r} at level {level!r} is not in the plan, so no budget is set aside for it"
            )
        level, statistic = planned.level, planned.statistic
        nodes = _checked_nodes(nodes, self._statistics.size(level))
        part = None if cells is None else self._checked_part(level, nodes, statistic, cells)
        self._on_measure(level)
        true, offsets, numbers = self._statistics.cells(level, nodes, statistic, part)
        _check_room(true, level)
        noise = self._source.draw(planned.noise, (level, statistic), numbers)
        self._log("measured %s at %d nodes of level %r", statistic, len(nodes), level)
        noisy = np.add(true, noise, out=noise)
        noisy.flags.writeable = False
        measurement = Measurement(level, statistic, nodes, noisy, offsets, planned.noise, part[0] if part else 0)
        self._keep(dataclasses.replace(measurement, values=_narrowed(noisy)))
        if part is None:
            self._parts.pop(level, None)
        else:
            self._parts[level] = (int(nodes[0]), part[1])
        return measurement

    @stages.part("measure")
    def measure_stable(self, level: str) -> Measurement:
        """The nodes of `level` whose noisy count passed the threshold, with that count; the same at every call.

        Nodes without records get no noise, and which nodes these are is private. So the threshold is applied here:
        neither the result nor the log distinguishes a node that was left out from a node without records. See
        `accounting.stability`.

        Raises:
            BudgetExceeded: the plan has no threshold for this level.
            TypeError: statistics that do not know which nodes have records.
            OverflowError: a true value to which noise cannot be added within 64 bits; no noise is drawn.
        """
        planned = self._plan.planned_stable(str(level))
        if planned is None:
            raise BudgetExceeded(
                f"measure: counts above a threshold at level {level!r} are not in the plan, so no budget is set aside "
                "for them"
            )
        if self._stable is not None:
            return self._stable
        if not isinstance(self._statistics, HasPresent):
            raise TypeError("statistics: they must be counts, to know which nodes have records")
        self._on_measure(planned.level)
        nodes, true = self._statistics.present(planned.level)
        _check_room(true, planned.level)
        noisy = true + self._source.draw(planned.noise, (planned.level, planned.statistic), nodes)
        passed = noisy >= planned.threshold
        nodes, noisy = nodes[passed], noisy[passed]
        self._log("published %d nodes of level %r, above a threshold", len(nodes), planned.level)
        for array in (nodes, noisy):
            array.flags.writeable = False
        offsets = np.arange(len(nodes) + 1, dtype=np.int64)
        self._stable = Measurement(planned.level, planned.statistic, nodes, noisy, offsets, planned.noise)
        self._keep(dataclasses.replace(self._stable, values=_narrowed(noisy)))
        return self._stable

    def _checked_part(
        self, level: str, nodes: IntArray, statistic: Statistic, cells: tuple[int, int]
    ) -> tuple[int, int]:
        """The first cell and the one after the last, as plain integers, once they are cells of the one node."""
        if len(nodes) != 1:
            raise ValueError(f"cells: a part is of one node, and nodes has {len(nodes)}; measure them one by one")
        try:
            first, stop = (int(operator.index(cell)) for cell in cells)
        except (TypeError, ValueError):
            raise TypeError("cells: it must be two integers, the first cell and the one after the last") from None
        node = int(nodes[0])
        width = self._statistics.width(level, node, statistic)
        if not 0 <= first < stop <= width:
            raise ValueError(f"cells: {first} … {stop} must be a part of 0 … {width} that is not empty")
        if first > 0 and self._parts.get(level) != (node, first):
            raise ValueError(
                f"cells: {first} … {stop} must begin at 0, or where the last part of the same node ended; "
                "measure parts in order"
            )
        return first, stop


def _not_logged(message: str, *arguments: object) -> None:
    """Log nothing."""


def _check_room(true: IntArray, level: str) -> None:
    """Refuse values to which noise cannot be added within 64 bits."""
    if len(true) and not -MAX_TOTAL <= true.min() <= true.max() <= MAX_TOTAL:
        raise OverflowError(f"measure: a value at level {level!r} is beyond 2^62, so adding noise could wrap around")


def _narrowed(values: IntArray) -> IntArray:
    """The same integers in the narrowest type that holds them: what is kept may be a gigabyte."""
    least, greatest = int(values.min(initial=0)), int(values.max(initial=0))
    for kind in (np.int8, np.int16, np.int32):
        limits = np.iinfo(kind)
        if limits.min <= least and greatest <= limits.max:
            narrow = values.astype(kind)
            narrow.flags.writeable = False
            return cast(IntArray, narrow)
    return values


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
