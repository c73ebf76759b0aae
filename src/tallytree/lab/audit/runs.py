"""Many runs at once: every noisy measurement that a plan allows, as one array of (runs, cells) per level.

A mechanism sees a part of this, whatever it measures and in whatever order: a cell has one noisy value, which a
`Measurer` with keyed noise returns at every call. All that is published is computed from it. So any difference between
two data sets that a release can show is in the joint distribution of a run's cells over all levels. This includes
faults that single cells do not show, such as noise that two cells share.

The library's own `Measurer` adds the noise: to it, a run is a node whose cells are all cells of the level. So a
measurer whose noise depends on the true value is seen, if that value occurs. True values are as large as is asked for
(`raised`): what is added to all cells of both data sets leaves them neighbors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tallytree.errors import BudgetExceeded
from tallytree.lab._internals import (
    LevelPlan,
    Measurement,
    Measurer,
    NoiseSource,
    Plan,
    StableLevel,
    Statistic,
    TrueStatistics,
)
from tallytree.support.arrays import IntArray, concatenate_ranges


@dataclass(frozen=True, eq=False)
class RunsOfLevel:
    """One level, measured at all nodes in every run.

    Attributes:
        planned: what is measured, and with which noise.
        true: int64 (cells,), without noise.
        offsets: int64 (nodes + 1,), node i's cells are offsets[i] … offsets[i + 1] − 1.
        noisy: int64 (runs, cells); where there is a threshold, 0 for cells that are left out.
    """

    planned: LevelPlan | StableLevel
    true: IntArray
    offsets: IntArray
    noisy: IntArray


def draw_runs(
    statistics: TrueStatistics, plan: Plan, source: NoiseSource, runs: int, *, first: int = 0, raised: int = 0
) -> dict[str, RunsOfLevel]:
    """Measure every level of the plan in the runs `first` … `first` + `runs` − 1; see `draw_these_runs`."""
    these = np.arange(first, first + runs, dtype=np.int64)
    return draw_these_runs(statistics, plan, source, these, run_stride(statistics, plan), raised=raised)


def run_stride(statistics: TrueStatistics, plan: Plan) -> int:
    """How far apart the numbers of a cell are in two runs that follow each other: more than there are cells."""
    numbers = (all_cells(statistics, planned)[2] for planned in plan.levels.values())
    largest = max((int(found.max(initial=0)) for found in numbers), default=0)
    return 1 << largest.bit_length()


def draw_these_runs(
    statistics: TrueStatistics, plan: Plan, source: NoiseSource, runs: IntArray, stride: int, *, raised: int = 0
) -> dict[str, RunsOfLevel]:
    """Measure every level of the plan in the runs of these numbers, int64 (n,).

    A run is in the high bits of a cell's number, at the same place for all levels: every run has noise of its own, and
    a source that confuses one node, or one level, with another does so in every run.

    Args:
        statistics: the true ones.
        plan: what is measured.
        source: the noise.
        runs: their numbers.
        stride: how far apart the numbers of a cell are in two runs that follow each other.
        raised: is added to the true value of every cell.
    """
    drawn = {}
    for level, planned in plan.levels.items():
        true, offsets, numbers = all_cells(statistics, planned)
        cells = RunCells(true + raised, numbers, runs, stride)
        noisy = measured_runs(cells, plan, planned, source)
        drawn[level] = RunsOfLevel(planned, cells.true, offsets, noisy)
    return drawn


@dataclass(frozen=True, eq=False)
class RunCells:
    """The cells of a level in many runs, as true statistics in which a run is a node.

    Attributes:
        true: int64 (cells,), without noise.
        numbers: int64 (cells,), of the cells within the level.
        runs: int64 (n,), the numbers of the runs.
        stride: see `run_stride`.
    """

    true: IntArray
    numbers: IntArray
    runs: IntArray
    stride: int

    def size(self, level: str) -> int:
        """More than the number of any run."""
        return int(self.runs.max(initial=0)) + 1

    def width(self, level: str, node: int, statistic: Statistic) -> int:
        """How many cells a run has."""
        return len(self.true)

    def cells(
        self, level: str, nodes: IntArray, statistic: Statistic, part: tuple[int, int] | None = None
    ) -> tuple[IntArray, IntArray, IntArray]:
        """All cells of some runs."""
        numbers = (nodes[:, None] * self.stride + self.numbers).reshape(-1)
        return np.tile(self.true, len(nodes)), np.arange(len(nodes) + 1, dtype=np.int64) * len(self.true), numbers

    def present(self, level: str) -> tuple[IntArray, IntArray]:
        """The cells of all runs that have records, by their numbers."""
        there = self.true > 0
        numbers = (self.runs[:, None] * self.stride + self.numbers[there]).reshape(-1)
        return numbers, np.tile(self.true[there], len(self.runs))


def measured_runs(cells: RunCells, plan: Plan, planned: LevelPlan | StableLevel, source: NoiseSource) -> IntArray:
    """The noisy cells of all runs, int64 (runs, cells); where there is a threshold, 0 for cells that are left out."""
    measurer = Measurer(cells, plan, source, keep=lambda measurement: None)
    if not isinstance(planned, StableLevel):
        values = measurer.measure(planned.level, cells.runs, planned.statistic).values
        return values.reshape(len(cells.runs), len(cells.true))
    found = measurer.measure_stable(planned.level)
    noisy = np.zeros((len(cells.runs), len(cells.true)), dtype=np.int64)
    run, number = np.divmod(found.nodes, cells.stride)
    noisy[np.searchsorted(cells.runs, run), np.searchsorted(cells.numbers, number)] = found.values
    return noisy


class ReplayMeasurer:
    """Measures for a mechanism from the cells of one run, in place of a `Measurer`."""

    def __init__(self, levels: Mapping[str, RunsOfLevel], run: int) -> None:
        self._levels = levels
        self._run = run

    def measure(
        self, level: str, nodes: IntArray, statistic: Statistic, cells: tuple[int, int] | None = None
    ) -> Measurement:
        """This run's noisy values of `statistic` at `nodes` of `level`, or of some cells of one node.

        Raises:
            BudgetExceeded: the plan has no such measurement.
        """
        drawn = self._levels.get(level)
        if drawn is None or drawn.planned.statistic != statistic or isinstance(drawn.planned, StableLevel):
            raise BudgetExceeded(
                f"measure: {statistic!r} at level {level!r} is not in the plan, so no budget is set aside for it"
            )
        starts = drawn.offsets[nodes]
        lengths = drawn.offsets[nodes + 1] - starts
        first_cell = 0
        if cells is not None:
            first_cell = cells[0]
            starts, lengths = starts + first_cell, np.array([cells[1] - first_cell])
        places, offsets = concatenate_ranges(starts, lengths)
        noisy = drawn.noisy[self._run][places]
        return Measurement(level, statistic, nodes, noisy, offsets, drawn.planned.noise, first_cell)

    def measure_stable(self, level: str) -> Measurement:
        """This run's nodes of `level` above the threshold, with their noisy counts.

        Raises:
            BudgetExceeded: the plan has no threshold there.
        """
        drawn = self._levels.get(level)
        if drawn is None or not isinstance(drawn.planned, StableLevel):
            raise BudgetExceeded(f"measure: counts above a threshold at level {level!r} are not in the plan")
        row = drawn.noisy[self._run]
        nodes = np.flatnonzero(row)
        offsets = np.arange(len(nodes) + 1, dtype=np.int64)
        return Measurement(level, drawn.planned.statistic, nodes, row[nodes], offsets, drawn.planned.noise)


def all_cells(statistics: TrueStatistics, planned: LevelPlan | StableLevel) -> tuple[IntArray, IntArray, IntArray]:
    """The true cells of a level's nodes, where each node's begin, and their numbers; see `TrueStatistics.cells`."""
    nodes = np.arange(statistics.size(planned.level), dtype=np.int64)
    return statistics.cells(planned.level, nodes, planned.statistic)
