"""What is seen of many runs: all that was measured, and all that was published."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tallytree.hierarchy import Hierarchy
from tallytree.lab._internals import Measures, Noise, PlannedCounts, PlannedSizes, PlannedTables
from tallytree.lab.audit.events import AuditedView, Score
from tallytree.lab.audit.runs import ReplayMeasurer, RunsOfLevel
from tallytree.product import Product
from tallytree.sizes import SizesDomain
from tallytree.support.arrays import IntArray, NumberArray


def _no_maximum(largest: int) -> Publisher:
    raise TypeError(f"publisher: it has no part for a K that is measured, such as {largest}; give it `within`")


@dataclass(frozen=True, eq=False)
class Publisher:
    """Runs a mechanism and writes all that it publishes as one vector.

    Attributes:
        labels: the names of the vector's entries.
        publish: from the measurements of one run to the vector, int64, or float64 where fractions are released.
        within: the same for runs whose K is measured, for the K that came out; the vector has the same entries.
    """

    labels: list[str]
    publish: Callable[[Measures], NumberArray]
    within: Callable[[int], Publisher] = _no_maximum


def publisher(
    planned: PlannedCounts | PlannedTables | PlannedSizes, tree: Hierarchy | Product | SizesDomain, total: int | None
) -> Publisher:
    """What runs the mechanism of a planned release; `total` where it is public."""
    if isinstance(planned, PlannedSizes) and isinstance(tree, SizesDomain):
        return _sizes_publisher(planned, tree)
    if isinstance(planned, PlannedTables):
        return _tables_publisher(planned, total)
    if isinstance(planned, PlannedCounts):
        return _counts_publisher(planned, total)
    raise TypeError(f"tree: {type(tree).__name__} does not go with a {type(planned).__name__}")


def measured_view(before: Mapping[str, RunsOfLevel], after: Mapping[str, RunsOfLevel], runs: int) -> AuditedView:
    """All that was measured, with the log-likelihood ratios under the claimed noise as scores."""
    labels = [label for level, drawn in before.items() for label in cell_labels(level, drawn.offsets)]
    widths = [len(drawn.true) for drawn in before.values()]
    ends = np.cumsum(widths)
    level_scores = [
        Score(
            f"the log-likelihood ratio of {level}",
            log_likelihood_ratio(drawn.planned.noise, drawn.true, after[level].true, slice(end - width, end)),
        )
        for (level, drawn), width, end in zip(before.items(), widths, ends.tolist(), strict=True)
    ]

    def of_all(runs: NumberArray) -> Any:
        return sum((score.of(runs) for score in level_scores), np.zeros(len(runs)))

    scores = (Score("the log-likelihood ratio of all measurements", of_all), *level_scores) if level_scores else ()
    return AuditedView(_stacked(before, runs), _stacked(after, runs), labels, scores)


def log_likelihood_ratio(
    noise: Noise, true: IntArray, neighbor: IntArray, cells: slice
) -> Callable[[NumberArray], Any]:
    """The logarithm of P(cells | data)/P(cells | neighbor) under the claimed noise."""
    differ = np.flatnonzero(true != neighbor)
    scale = float(noise.scale)

    def of(runs: NumberArray) -> Any:
        here = runs[:, cells][:, differ]
        from_true, from_neighbor = here - true[differ], here - neighbor[differ]
        if noise.distribution == "discrete_laplace":
            return np.round((np.abs(from_neighbor) - np.abs(from_true)).sum(axis=1) / scale, 9)
        return np.round((from_neighbor**2 - from_true**2).sum(axis=1) / (2 * scale * scale), 9)

    return of


def published_view(
    publisher: Publisher, before: Mapping[str, RunsOfLevel], after: Mapping[str, RunsOfLevel], releases: int
) -> AuditedView:
    """All that the mechanism publishes from the first `releases` runs."""
    sides = [
        np.stack([publisher.publish(ReplayMeasurer(drawn, run)) for run in range(releases)])
        for drawn in (before, after)
    ]
    return AuditedView(sides[0], sides[1], [f"released {label}" for label in publisher.labels])


def _counts_publisher(planned: PlannedCounts, total: int | None) -> Publisher:
    tree = planned.tree
    sizes = [tree.size(depth) for depth in range(len(tree.levels))]
    begins = np.cumsum([0, *sizes])

    def publish(measurer: Measures) -> NumberArray:
        levels = planned.mechanism.reconcile(tree, total, planned.measures(measurer))
        vector = np.zeros(begins[-1], dtype=np.result_type(np.int64, *(level.counts.dtype for level in levels)))
        for begin, released in zip(begins[:-1], levels, strict=True):
            vector[begin + released.nodes] = released.counts
        return vector

    nodes = zip(tree.levels, sizes, strict=True)
    return Publisher([f"{level}[{node}]" for level, size in nodes for node in range(size)], publish)


def _tables_publisher(planned: PlannedTables, total: int | None) -> Publisher:
    """All cells of all tables, those that were not asked for too: the mechanism publishes them."""
    layout, totals = planned.layout, planned.exact_totals(total)

    def publish(measurer: Measures) -> IntArray:
        made = planned.mechanism.reconcile(layout, planned.statistics, totals, measurer)
        return np.concatenate([layout.summed(made.leaves, depth).ravel() for depth in range(len(layout.levels))])

    sizes = [(name, layout.size(depth)) for depth, name in enumerate(layout.levels)]
    return Publisher([f"{name}[{cell}]" for name, size in sizes for cell in range(size)], publish)


def _sizes_publisher(planned: PlannedSizes, domain: SizesDomain, largest: int | None = None) -> Publisher:
    known = domain if largest is None else replace(domain, largest=largest)
    hierarchy, width = domain.hierarchy, domain.largest + 1
    begins = np.cumsum([0, *(hierarchy.size(depth) * width for depth in range(len(hierarchy.levels)))])

    def publish(measurer: Measures) -> NumberArray:
        levels = planned.mechanism.reconcile(known, measurer)
        vector = np.zeros(begins[-1], dtype=levels[0].groups.dtype)
        for begin, released in zip(begins[:-1], levels, strict=True):
            vector[begin + released.nodes * width + released.sizes] = released.groups
        return vector

    labels = [
        f"{level}[{node}] size {size}"
        for depth, level in enumerate(hierarchy.levels)
        for node in range(hierarchy.size(depth))
        for size in range(width)
    ]
    return Publisher(labels, publish, lambda largest: _sizes_publisher(planned, domain, largest))


def cell_labels(level: str, offsets: IntArray) -> list[str]:
    """A node's name, with the cell's number where a node has several."""
    return [
        f"{level}[{node}]" if size == 1 else f"{level}[{node}].{cell}"
        for node, size in enumerate(np.diff(offsets).tolist())
        for cell in range(size)
    ]


def _stacked(drawn: Mapping[str, RunsOfLevel], runs: int) -> IntArray:
    arrays = [level.noisy for level in drawn.values()]
    return np.concatenate([np.empty((runs, 0), dtype=np.int64), *arrays], axis=1)
