"""Many runs of a plan that measures the largest size first: what is measured afterwards depends on the K of the run.

All runs of one K are drawn at once, with sizes clamped to it. The views have a column for every cell under the greatest
K; in a run, the cells that its own K leaves out are 0, whatever the data are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tallytree.lab._internals import LevelPlan, NoisePlan, NoiseSource, TrueSizes, TrueStatistics
from tallytree.lab.audit.events import AuditedView, Score
from tallytree.lab.audit.runs import (
    ReplayMeasurer,
    RunCells,
    RunsOfLevel,
    all_cells,
    draw_these_runs,
    measured_runs,
    run_stride,
)
from tallytree.lab.audit.views import Publisher, cell_labels, log_likelihood_ratio
from tallytree.sizes.private_maximum import largest_published
from tallytree.support.arrays import IntArray, NumberArray, concatenate_ranges


@dataclass(frozen=True, eq=False)
class MaximumRuns:
    """Runs that measured the largest size first.

    Attributes:
        planned: how the largest size is measured.
        statistics: the true ones, with sizes clamped to what is public.
        noisy: int64 (runs,), the noisy maximum.
        largest: int64 (runs,), K.
        within: the runs of every K that came out, in their order.
        place: int64 (runs,), where a run is among those of its K.
    """

    planned: LevelPlan
    statistics: TrueSizes
    noisy: IntArray
    largest: IntArray
    within: Mapping[int, Mapping[str, RunsOfLevel]]
    place: IntArray


def draw_within_maximum(statistics: TrueStatistics, plan: NoisePlan, source: NoiseSource, runs: int) -> MaximumRuns:
    """Measure everything in the plan `runs` times, each time with sizes clamped to the K that came out.

    Raises:
        TypeError: statistics that have no largest size.
    """
    if plan.maximum is None or not isinstance(statistics, TrueSizes):
        raise TypeError(f"plan: a {type(statistics).__name__} goes with no plan that measures the largest size")
    stride = run_stride(statistics, plan)
    every = np.arange(runs, dtype=np.int64)
    root, statistic = plan.maximum.level, plan.maximum.statistic
    true = statistics.largest_size().cells(root, np.zeros(1, dtype=np.int64), statistic)[0]
    cells = RunCells(true, np.zeros(1, dtype=np.int64), every, stride)
    noisy = measured_runs(cells, plan, plan.maximum, source)[:, 0]
    largest = largest_published(noisy, plan.maximum.noise, *statistics.bounds)
    within, place = {}, np.zeros(runs, dtype=np.int64)
    for each in np.unique(largest).tolist():
        here = np.flatnonzero(largest == each)
        within[each] = draw_these_runs(statistics.clamped(each), plan, source, here, stride)
        place[here] = np.arange(len(here))
    return MaximumRuns(plan.maximum, statistics, noisy, largest, within, place)


def measured_within_maximum(before: MaximumRuns, after: MaximumRuns, plan: NoisePlan) -> AuditedView:
    """All that was measured, the noisy maximum first, with the log-likelihood ratios under the claimed noise as scores.

    K is a function of the noisy maximum, the same under both data sets, so that the ratio of a run is that of its
    maximum plus those of its levels under its K.
    """
    table = _Table(before.statistics, plan)
    of_maximum, of_levels = _likelihood_ratios(before, after, plan, table)

    def of_all(runs: NumberArray) -> Any:
        return of_maximum(runs) + of_levels(runs)

    scores = (
        Score("the log-likelihood ratio of all measurements", of_all),
        Score("the log-likelihood ratio of the maximum", of_maximum),
        Score("the log-likelihood ratio of the levels", of_levels),
    )
    return AuditedView(table.filled(before), table.filled(after), ["maximum", *table.labels], scores)


def published_within_maximum(
    publisher: Publisher, before: MaximumRuns, after: MaximumRuns, releases: int
) -> AuditedView:
    """The noisy maximum, and all that the mechanism publishes, from the first `releases` runs."""
    within: dict[int, Publisher] = {}

    def published(drawn: MaximumRuns, run: int) -> NumberArray:
        largest = int(drawn.largest[run])
        if largest not in within:
            within[largest] = publisher.within(largest)
        vector = within[largest].publish(ReplayMeasurer(drawn.within[largest], int(drawn.place[run])))
        return np.concatenate([drawn.noisy[run : run + 1], vector])

    sides = [np.stack([published(drawn, run) for run in range(releases)]) for drawn in (before, after)]
    return AuditedView(sides[0], sides[1], [f"released {label}" for label in ("maximum", *publisher.labels)])


class _Table:
    """Where the cells of every level and K are in the columns of a view; column 0 is the noisy maximum."""

    def __init__(self, statistics: TrueSizes, plan: NoisePlan) -> None:
        self._offsets = {level: offsets for level, (_, offsets) in true_cells(statistics, plan).items()}
        widths = [int(offsets[-1]) for offsets in self._offsets.values()]
        begins = np.cumsum([1, *widths])
        self._begins: dict[str, int] = dict(zip(self._offsets, begins.tolist(), strict=False))
        self._width = int(begins[-1])

    @property
    def labels(self) -> list[str]:
        return [label for level, offsets in self._offsets.items() for label in cell_labels(level, offsets)]

    def columns(self, level: str, offsets: IntArray) -> IntArray:
        """Of the cells of a level whose nodes have fewer of them: the first ones of every node."""
        cells, _ = concatenate_ranges(self._offsets[level][:-1], np.diff(offsets))
        return cells + self._begins[level]

    def filled(self, drawn: MaximumRuns) -> IntArray:
        table = np.zeros((len(drawn.noisy), self._width), dtype=np.int64)
        table[:, 0] = drawn.noisy
        for largest, levels in drawn.within.items():
            rows = np.flatnonzero(drawn.largest == largest)
            for level, runs in levels.items():
                table[np.ix_(rows, self.columns(level, runs.offsets))] = runs.noisy
        return table


def true_cells(statistics: TrueSizes, plan: NoisePlan) -> dict[str, tuple[IntArray, IntArray]]:
    """The true cells of every level, and where those of its nodes begin."""
    return {level: all_cells(statistics, planned)[:2] for level, planned in plan.levels.items()}


def _likelihood_ratios(
    before: MaximumRuns, after: MaximumRuns, plan: NoisePlan, table: _Table
) -> tuple[Callable[[NumberArray], Any], Callable[[NumberArray], Any]]:
    """Of the noisy maximum, and of all levels under the K that follows from it."""
    root = np.zeros(1, dtype=np.int64)
    true, neighbor = (
        side.statistics.largest_size().cells(before.planned.level, root, "largest_size")[0] for side in (before, after)
    )
    of_maximum = log_likelihood_ratio(before.planned.noise, true, neighbor, slice(0, 1))
    ratios = {}
    for largest in sorted({*before.within, *after.within}):
        sides = [true_cells(side.statistics.clamped(largest), plan) for side in (before, after)]
        ratios[largest] = [
            (
                table.columns(level, offsets),
                log_likelihood_ratio(plan.levels[level].noise, cells, sides[1][level][0], slice(None)),
            )
            for level, (cells, offsets) in sides[0].items()
        ]

    def of_levels(runs: NumberArray) -> Any:
        largest = largest_published(runs[:, 0].astype(np.int64), before.planned.noise, *before.statistics.bounds)
        ratio = np.zeros(len(runs))
        for each in np.unique(largest).tolist():
            rows = np.flatnonzero(largest == each)
            for columns, of_level in ratios[each]:
                ratio[rows] += of_level(runs[np.ix_(rows, columns)])
        return np.round(ratio, 9)

    return of_maximum, of_levels
