"""The errors that a planned release will have, by simulation: a public stand-in, measured and reconciled repeatedly.

A stand-in is last year's release, or a public table. What is simulated on it is computed from it without noise, so it
has to be public. The noise is that of the parametric bootstrap (`bootstrap.py`): its keys are derived from fresh
entropy, or from a seed, under a label that no release uses. Neither records nor a release's keys are in reach.
"""

from __future__ import annotations

import math
import os
from functools import singledispatch
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tallytree.hierarchy import nodes_per_level
from tallytree.numbers.accuracy.bootstrap import (
    CountReplicates,
    HouseholdReplicates,
    PublishedTables,
    ReplicatedLevel,
    Replicates,
    SizeReplicates,
    StatedPlan,
    TableReplicates,
    fresh_sources,
)
from tallytree.numbers.accuracy.expected_errors import ALPHA, ExpectedError, shown_levels
from tallytree.numbers.accuracy.squared_errors import looked_up
from tallytree.product import Product
from tallytree.release import Release
from tallytree.release.intervals import LevelErrors, stated_errors
from tallytree.release.manifest import MANIFEST
from tallytree.release.quality import usable_numbers
from tallytree.release.view.layouts import totals_at
from tallytree.release.view.release_view import PublishedLevel, ReleaseView
from tallytree.run import Planned, PlannedCounts, PlannedHouseholds, PlannedSizes, PlannedTables
from tallytree.run.counted_records import listed_counts
from tallytree.sizes.mechanism import summed
from tallytree.sizes.private_maximum import largest_published
from tallytree.support.arrays import FloatArray, IntArray, NumberArray
from tallytree.support.stages import stage, step_progress
from tallytree.support.validate import integer

StandIn: TypeAlias = Replicates | HouseholdReplicates

DEFAULT_REPLICATES = 20
MAX_REPLICATES = 10_000
MOST_JUDGED = 20
"""Replicates whose numbers are kept, to judge them by each other's errors."""
MANY_CELLS = 10_000
"""So many cells of one replicate show the quantile of their errors; of fewer, all replicates together."""


def simulated_errors(
    planned: Planned[Any, Any],
    like: Any,
    *,
    replicates: int = DEFAULT_REPLICATES,
    seed: int | None = None,
    progress: bool = False,
) -> list[ExpectedError]:
    """The errors of a planned release on a stand-in, root first.

    `std_dev` and `half_width` are of the cells of the stand-in that are not 0; `expected_maximum` is of all cells, and
    `unreliable` of all numbers that a release would list.

    Args:
        planned: the planned release; it is not run.
        like: see `stand_in_of`.
        replicates: how many; from 2 to 10,000.
        seed: makes the replicates reproducible.
        progress: show a progress bar on standard error.

    Raises:
        ValueError, TypeError: a stand-in that cannot be used, or a number out of range.
    """
    rounds = integer(replicates, "replicates", least=2, most=MAX_REPLICATES)
    replicated = stand_in_of(planned, like)
    known = [stated_errors(planned.statement, level) for level in planned.tree.levels]
    levels = [_SimulatedLevel(*each, errors) for each, errors in zip(replicated.truths(), known, strict=True)]
    with stage("simulate"), step_progress(progress, rounds, "replicates") as done:
        for released in replicated.releases(fresh_sources(rounds, seed)):
            for level, rows in zip(levels, released, strict=True):
                level.add(rows)
            done()
    return [
        level.figures(name, nodes)
        for name, nodes, level in zip(
            shown_levels(planned), nodes_per_level(planned.tree).values(), levels, strict=True
        )
    ]


def _mean(found: list[float]) -> float | None:
    """The mean; None of nothing."""
    return sum(found) / len(found) if found else None


class _SimulatedLevel:
    """The errors of one level of all replicates.

    Args:
        cells: int64 (n,), those of the stand-in, distinct.
        true: int64 (n,), their numbers; cells that are not there are 0.
        errors: what a release would state of the level's errors.
    """

    def __init__(self, cells: IntArray, true: NumberArray, errors: LevelErrors) -> None:
        self._stated = errors
        there = true != 0
        self._cells, self._true = cells[there], true[there]
        self._squares: list[float] = []
        self._errors: list[FloatArray] = []
        self._largest: list[float] = []
        self._rows: list[ReplicatedLevel] = []
        self._unreliable: list[float] = []
        self._moved: list[float] = []

    def add(self, rows: ReplicatedLevel) -> None:
        """Take in the rows of a replicate."""
        errors = np.abs(looked_up(self._cells, rows.cells, rows.numbers) - self._true).astype(np.float64)
        if len(rows.cells):
            self._moved.append(float(np.mean(rows.numbers != looked_up(rows.cells, self._cells, self._true))))
        listed = looked_up(rows.cells, self._cells, np.ones(len(self._cells)))
        beside = np.abs(rows.numbers[listed == 0]).max(initial=0)
        self._largest.append(float(max(errors.max(initial=0.0), beside)))
        self._squares.append(float(np.mean(np.square(errors))) if len(errors) else 0.0)
        self._errors.append(np.array([np.quantile(errors, 1 - ALPHA)]) if len(errors) > MANY_CELLS else errors)
        if "std_dev" in rows.columns.column_names:
            self._judge(rows.columns, self._stated)
        elif len(self._rows) < MOST_JUDGED:
            self._rows.append(rows)

    def figures(self, level: str, nodes: int) -> ExpectedError:
        """What all replicates show."""
        self._judge_by_each_other()
        std_dev = math.sqrt(sum(self._squares) / len(self._squares))
        return ExpectedError(
            level,
            nodes,
            std_dev,
            self._half_width(),
            sum(self._largest) / len(self._largest),
            "simulation",
            _mean(self._unreliable),
            _mean(self._moved),
        )

    def _half_width(self) -> float:
        """What one error in ten exceeds: of the errors of all replicates, or their mean where there are many cells."""
        errors = np.concatenate(self._errors)
        if not len(errors):
            return 0.0
        return float(errors.mean() if len(self._cells) > MANY_CELLS else np.quantile(errors, 1 - ALPHA))

    def _judge(self, rows: pa.Table, errors: LevelErrors) -> None:
        """Add the share of numbers that are not usable; none where no number has a standard deviation."""
        judged = usable_numbers([rows], errors)
        if judged is not None:
            self._unreliable.append(judged[2] / sum(judged))

    def _judge_by_each_other(self) -> None:
        """Judge numbers that are published without errors by the root mean square error of their cell.

        A cell that is 0 in truth is listed by chance, and then errs by all of its number: its errors are those of the
        replicates that list it. Other cells err by their true number where they are not listed.
        """
        if not self._rows:
            return
        cells = np.concatenate([rows.cells for rows in self._rows])
        numbers = np.concatenate([rows.numbers for rows in self._rows]).astype(np.float64)
        known, places, times = np.unique(cells, return_inverse=True, return_counts=True)
        true = looked_up(known, self._cells, self._true).astype(np.float64)
        squares = np.bincount(places, np.square(numbers - true[places]), len(known))
        squares += np.square(true) * (len(self._rows) - times)
        std_dev = np.sqrt(squares / np.where(true == 0, times, len(self._rows)))[places]
        ends = np.cumsum([len(rows.cells) for rows in self._rows])
        for rows, errors in zip(self._rows, np.split(std_dev, ends[:-1]), strict=True):
            self._judge(pa.table({"count": rows.numbers, "std_dev": errors}), LevelErrors(len(self._rows)))


@singledispatch
def stand_in_of(planned: Planned[Any, Any], like: Any) -> StandIn:
    """What measures and reconciles a stand-in as the planned release will measure its records.

    Args:
        planned: the planned release.
        like: a release, the folder of one, or a public table: a path or glob (Parquet, CSV), or a data frame; with the
            columns of the leaves, and `count`; of group sizes `size` and `groups`. A release of tables has to have
            all tables that are planned. Of persons and households it is a table of persons, with the records' columns.

    Raises:
        ValueError: it is not of this tree, or a release of another statistic; a column is missing.
        TypeError: not a release or a table; or a planned release that cannot be simulated.
    """
    raise TypeError(f"planned: {type(planned).__name__} cannot be simulated; give counts, flows, tables or group sizes")


@stand_in_of.register
def _of_counts(planned: PlannedCounts, like: Any) -> CountReplicates:
    published = _published(planned, like, planned.statistic)
    if published is not None:
        nodes, counts = published.nodes, np.rint(published.numbers).astype(np.int64)
    else:
        listed = listed_counts(planned.engine, like, planned.keys, "count", "like")
        tree = planned.tree
        nodes = tree.leaf_numbers(listed.parts) if isinstance(tree, Product) else listed.parts[0]
        counts = listed.counts
    kept = counts > 0
    public = planned.arguments.total_is_public and planned.mechanism.keeps_total
    plan = StatedPlan.of(planned.plan)
    return CountReplicates(
        planned.tree, planned.mechanism, plan, public, nodes[kept], counts[kept], planned.prior_arguments
    )


@stand_in_of.register
def _of_sizes(planned: PlannedSizes, like: Any) -> SizeReplicates:
    published = _published(planned, like, "group_sizes")
    if published is not None and published.sizes is not None:
        nodes, sizes = published.nodes, published.sizes
        groups = np.rint(published.numbers).astype(np.int64)
    else:
        listed = planned.listed_groups(like, "like")
        nodes, sizes, groups = listed.leaves, listed.sizes, listed.groups
    kept = groups > 0 if planned.invariants == "groups" else (groups > 0) & (sizes > 0)
    nodes, sizes, groups = nodes[kept], sizes[kept], groups[kept]
    largest = planned.largest
    if planned.plan.maximum is not None:
        noisy = np.array([sizes.max(initial=planned.smallest)])
        largest = int(largest_published(noisy, planned.plan.maximum.noise, planned.smallest, largest)[0])
    leaves = summed(nodes, np.clip(sizes, planned.smallest, largest), groups, largest)
    sizes_between = planned.smallest, largest
    return SizeReplicates.of(
        planned.tree, leaves, sizes_between, planned.invariants, planned.mechanism, StatedPlan.of(planned.plan)
    )


@stand_in_of.register
def _of_tables(planned: PlannedTables, like: Any) -> TableReplicates:
    layout, level = planned.layout, planned.exact_level
    release = _release(like, "tables")
    if release is None:
        truth = _public_tables(planned, listed_counts(planned.engine, like, planned.keys, "count", "like"))
    else:
        truth = PublishedTables(layout, _cells_of_tables(release, planned))
    totals = None if level is None else totals_at(layout, truth.tables, level)
    return TableReplicates(truth, planned.mechanism, StatedPlan.of(planned.plan), totals, planned.prior_arguments)


def _public_tables(planned: PlannedTables, listed: Any) -> PublishedTables:
    """The tables of the records of a public table, from its counts by leaves.

    Raises:
        ValueError: it counts records that are impossible.
    """
    layout = planned.layout
    detail = np.zeros((layout.areas_per_level[-1], layout.detail.cells), dtype=np.int64)
    np.add.at(detail.reshape(-1), layout.detail_cells(listed.parts), listed.counts)
    if layout.impossible is not None and (layout.impossible & (detail > 0)).any():
        raise ValueError("like: it counts records in cells that the spec lists as impossible; leave these rows out")
    return PublishedTables.of_detail(layout, detail)


@stand_in_of.register
def _of_households(planned: PlannedHouseholds, like: Any) -> HouseholdReplicates:
    if isinstance(like, Release) or (isinstance(like, str | os.PathLike) and (Path(like) / MANIFEST).is_file()):
        raise ValueError(
            "like: it is a release, which does not tell who lives with whom; of persons and households give a public "
            "table of persons with the columns of the records, such as `tallytree export DIR --to records` makes"
        )
    listed, persons = planned.listed_persons(like, "like"), planned.persons
    truth = _public_tables(persons, listed.persons)
    tables = TableReplicates(truth, persons.mechanism, StatedPlan.of(persons.plan), None, persons.prior_arguments)
    return HouseholdReplicates(planned, tables, planned.ranks_of(listed))


def _cells_of_tables(release: Release, planned: PlannedTables) -> dict[str, IntArray]:
    """The numbers of every planned table in a release, int64 (cells,).

    Raises:
        ValueError: it does not have all of them.
    """
    layout = planned.layout
    cells = ReleaseView(release, planned.public_tree).all_cells()
    for depth, name in enumerate(layout.levels):
        if name not in cells or len(cells[name]) != layout.size(depth):
            raise ValueError(
                f"like: the release does not have the planned table {name!r}; give a release of the same tables, or a "
                "public table of all cells"
            )
    return {name: cells[name] for name in layout.levels}


def _published(planned: Planned[Any, Any], like: Any, statistic: str) -> PublishedLevel | None:
    """The leaves of a release, or None for a table.

    Raises:
        ValueError: a release of another statistic, or not of this tree.
    """
    release = _release(like, statistic)
    if release is None:
        return None
    if tuple(release.levels) != planned.tree.levels:
        raise ValueError(
            f"like: its levels are {', '.join(release.levels)}, not {', '.join(planned.tree.levels)} as planned; give "
            "a release over the same tree, or a public table"
        )
    return ReleaseView(release, planned.public_tree).published(len(planned.tree.levels) - 1)


def _release(like: Any, statistic: str) -> Release | None:
    """The stand-in, if it is a release or the folder of one.

    Raises:
        ValueError: a release of another statistic.
    """
    release = like
    if isinstance(like, str | os.PathLike) and (Path(like) / MANIFEST).is_file():
        release = Release.load(like)
    if not isinstance(release, Release):
        return None
    released = release.statement.get("statistic")
    if released != statistic:
        raise ValueError(f"like: it is a release of {released!r}; give one of {statistic!r}, or a public table")
    return release
