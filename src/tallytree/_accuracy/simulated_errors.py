"""The errors that a planned release will have, by simulation: a public stand-in, measured and reconciled repeatedly.

A stand-in is last year's release, or a public table. What is simulated on it is computed from it without noise, so it
has to be public. The noise is that of the parametric bootstrap (`bootstrap.py`): its keys are derived from fresh
entropy, or from a seed, under a label that no release uses. Neither records nor a release's keys are in reach.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tallytree._accounting import Plan, StabilityPlan
from tallytree._accuracy.bootstrap import CountReplicates, SizeReplicates, StatedPlan, fresh_sources
from tallytree._accuracy.expected_errors import ALPHA, ExpectedError, shown_levels
from tallytree._accuracy.squared_errors import looked_up
from tallytree._compute.arrays import FloatArray, IntArray, NumberArray
from tallytree._progress import step_progress
from tallytree._run import Planned, PlannedCounts, PlannedSizes
from tallytree._run.counted_records import listed_counts
from tallytree._stages import stage
from tallytree._validate import integer
from tallytree.hierarchy import nodes_per_level
from tallytree.product import Product
from tallytree.release import Release
from tallytree.release.manifest import MANIFEST
from tallytree.release.view.release_view import PublishedLevel, ReleaseView
from tallytree.sizes.private_maximum import largest_published
from tallytree.sizes.released_sizes import summed

StandIn: TypeAlias = CountReplicates | SizeReplicates

DEFAULT_REPLICATES = 20
MAX_REPLICATES = 10_000
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

    `std_dev` and `half_width` are of the cells of the stand-in that are not 0; `expected_maximum` is of all cells.

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
    truth = [(cells[there], true[there]) for cells, true in replicated.truths() for there in (true != 0,)]
    squares, largest = np.zeros((len(truth), rounds)), np.zeros((len(truth), rounds))
    widths = [_Widths() for _ in truth]
    with stage("simulate"), step_progress(progress, rounds, "replicates") as done:
        for at, levels in enumerate(replicated.run(fresh_sources(rounds, seed))):
            for depth, ((cells, true), (found, numbers)) in enumerate(zip(truth, levels, strict=True)):
                errors, most = _errors(cells, true, found, numbers)
                if len(errors):
                    squares[depth, at] = np.mean(np.square(errors))
                    widths[depth].add(errors)
                largest[depth, at] = most
            done()
    figures = zip(
        np.sqrt(squares.mean(axis=1)), [each.half_width for each in widths], largest.mean(axis=1), strict=True
    )
    return [
        ExpectedError(level, nodes, float(std_dev), float(width), float(most), "simulation")
        for level, nodes, (std_dev, width, most) in zip(
            shown_levels(planned), nodes_per_level(planned.tree).values(), figures, strict=True
        )
    ]


class _Widths:
    """What one error in ten exceeds: of the errors of all replicates, or their mean where there are many cells."""

    def __init__(self) -> None:
        self._errors: list[FloatArray] = []

    def add(self, errors: FloatArray) -> None:
        many = len(errors) > MANY_CELLS
        self._errors.append(np.array([np.quantile(errors, 1 - ALPHA)]) if many else errors)
        self._many = many

    @property
    def half_width(self) -> float:
        if not self._errors:
            return 0.0
        errors = np.concatenate(self._errors)
        return float(errors.mean() if self._many else np.quantile(errors, 1 - ALPHA))


def _errors(cells: IntArray, true: IntArray, found: IntArray, numbers: NumberArray) -> tuple[FloatArray, float]:
    """|released − true| of the cells that are not 0, and the largest of all cells."""
    errors = np.abs(looked_up(cells, found, numbers) - true).astype(np.float64)
    there = looked_up(found, cells, np.ones(len(cells)))
    beside = np.abs(numbers[there == 0]).max(initial=0)
    return errors, float(max(errors.max(initial=0.0), beside))


def stand_in_of(planned: Planned[Any, Any], like: Any) -> StandIn:
    """What measures and reconciles a stand-in as the planned release will measure its records.

    Args:
        planned: the planned release.
        like: a release, the folder of one, or a public table: a path or glob (Parquet, CSV), or a data frame; with the
            columns of the leaves, and `count`; of group sizes `size` and `groups`.

    Raises:
        ValueError: it is not of this tree, or a release of another statistic; or a column is missing.
        TypeError: not a release or a table; or a planned release that cannot be simulated.
    """
    if isinstance(planned, PlannedCounts):
        return _of_counts(planned, like)
    if isinstance(planned, PlannedSizes):
        return _of_sizes(planned, like)
    raise TypeError(f"planned: {type(planned).__name__} cannot be simulated; give counts, flows or group sizes")


def _of_counts(planned: PlannedCounts, like: Any) -> CountReplicates:
    published = _published(planned, like, planned.statistic)
    if published is not None:
        nodes, counts = published.nodes, np.rint(published.numbers).astype(np.int64)
    else:
        found = listed_counts(planned.engine, like, planned.keys, "count", "like")
        tree = planned.tree
        nodes = tree.leaf_numbers(found.parts) if isinstance(tree, Product) else found.parts[0]
        counts = found.counts
    kept = counts > 0
    public = planned.arguments.total_is_public and planned.mechanism.keeps_total
    return CountReplicates(planned.tree, planned.mechanism, _stated(planned.plan), public, nodes[kept], counts[kept])


def _of_sizes(planned: PlannedSizes, like: Any) -> SizeReplicates:
    published = _published(planned, like, "group_sizes")
    if published is not None and published.sizes is not None:
        nodes, sizes = published.nodes, published.sizes
        groups = np.rint(published.numbers).astype(np.int64)
    else:
        found = planned.listed_groups(like, "like")
        nodes, sizes, groups = found.leaves, found.sizes, found.groups
    kept = groups > 0 if planned.invariants == "groups" else (groups > 0) & (sizes > 0)
    nodes, sizes, groups = nodes[kept], sizes[kept], groups[kept]
    largest = planned.largest
    if planned.plan.maximum is not None:
        noisy = np.array([sizes.max(initial=planned.smallest)])
        largest = int(largest_published(noisy, planned.plan.maximum.noise, planned.smallest, largest)[0])
    leaves = summed(nodes, np.clip(sizes, planned.smallest, largest), groups, largest)
    sizes_between = planned.smallest, largest
    return SizeReplicates.of(
        planned.tree, leaves, sizes_between, planned.invariants, planned.mechanism, _stated(planned.plan)
    )


def _stated(plan: Plan) -> StatedPlan:
    """A plan as replicates take it."""
    thresholds = {plan.stable.level: plan.stable.threshold} if isinstance(plan, StabilityPlan) else {}
    return StatedPlan({level: (each.statistic, each.noise) for level, each in plan.levels.items()}, thresholds)


def _published(planned: Planned[Any, Any], like: Any, statistic: str) -> PublishedLevel | None:
    """The leaves of a release, or None for a table.

    Raises:
        ValueError: a release of another statistic, or not of this tree.
    """
    release = like
    if isinstance(like, str | os.PathLike) and (Path(like) / MANIFEST).is_file():
        release = Release.load(like)
    if not isinstance(release, Release):
        return None
    found = release.statement.get("statistic")
    if found != statistic:
        raise ValueError(f"like: it is a release of {found!r}; give one of {statistic!r}, or a public table")
    if tuple(release.levels) != planned.tree.levels:
        raise ValueError(
            f"like: its levels are {', '.join(release.levels)}, not {', '.join(planned.tree.levels)} as planned; give "
            "a release over the same tree, or a public table"
        )
    return ReleaseView(release, planned.public_tree).published(len(planned.tree.levels) - 1)
