"""The estimators of the group sizes of single nodes (Kuo et al. 2018, section 4).

An estimator has a statistic to be measured. It fits the noisy cells of some nodes and, given the nodes' numbers of
groups, computes runs (size, number of groups, variance of the size) from the fit: integers ≥ 0 that add up to these
numbers. Where the numbers are private, they are estimated from the fit first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from tallytree.kinds.measurements import Measurement, Statistic
from tallytree.solvers.sizes import isotonic
from tallytree.solvers.sizes.isotonic import Norm, RowRuns, RunStream
from tallytree.solvers.sizes.matching import NodeRuns
from tallytree.solvers.trees import simplex
from tallytree.support.arrays import IntArray, offsets_of

EstimatorName = Literal["cumulative", "sorted", "naive"]


class Bounds(NamedTuple):
    """Public facts about some nodes: their numbers of groups (None where private), and the range of sizes."""

    groups: IntArray | None
    smallest: int
    largest: int


class FittedCells(NamedTuple):
    """The fit to the noisy cells of some nodes. Private numbers of groups are estimated from it.

    Attributes:
        runs: per node, the runs of equal fitted cells (or, for `"naive"`, the noisy cells themselves, each a run of 1).
        noise_variance: the variance of the noise in a cell.
    """

    runs: RowRuns
    noise_variance: float


@dataclass(frozen=True)
class Estimator:
    """An estimator of group sizes.

    Attributes:
        statistic: the statistic to be measured.
        fit: from the noisy cells and their bounds to the fit.
        numbers: from the fit to an estimate of each node's number of groups; None where these must be public.
        estimate: from the fit and each node's number of groups to runs.
        fit_parts: from the noisy cells of one node, part by part in order, to its fit, without keeping the parts; None
            where a node has so few cells that they are always measured at once.
    """

    statistic: Statistic
    fit: Callable[[Measurement, Bounds, Norm], FittedCells]
    numbers: Callable[[FittedCells], IntArray] | None
    estimate: Callable[[FittedCells, IntArray, Bounds], NodeRuns]
    fit_parts: Callable[[Iterable[Measurement], Bounds, Norm], FittedCells] | None = None


def _fit_tails(measured: Measurement, bounds: Bounds, norm: Norm) -> FittedCells:
    """Isotonic regression of the negative tail counts −T_s, which do not decrease (section 4.3).

    With public numbers of groups, G added to it is the cumulative histogram c_(s−1) = G − T_s; the fit is clipped to
    [−G, 0].
    """
    least = None if bounds.groups is None else -bounds.groups
    runs = isotonic.fit_row_runs(-measured.values, measured.offsets, norm=norm, lower=least, upper=0)
    return FittedCells(runs, measured.noise.variance)


def _largest_tail(fit: FittedCells) -> IntArray:
    """The first fitted tail count, which estimates the number of groups."""
    return -fit.runs.value[fit.runs.offsets[:-1]]


def _cumulative(fit: FittedCells, groups: IntArray, bounds: Bounds) -> NodeRuns:
    """The number of groups of a size is the drop of the fitted tail counts there.

    Its variance is that of a difference of two noisy cells. Spread over the groups of that size it is
    2·Var(noise) / groups (section 5.1.2).
    """
    runs = fit.runs if bounds.groups is not None else _without_first_cell(fit.runs)
    cumulative = np.maximum(runs.value + np.repeat(groups, np.diff(runs.offsets)), 0)
    # c is constant on each run, so groups sit at the first size of a run; those above the last cell have size K.
    row_ends = runs.offsets[1:]
    cumulative = np.insert(cumulative, row_ends, groups)
    length = np.insert(runs.length, row_ends, 1)
    offsets = runs.offsets + np.arange(len(runs.offsets))
    size = bounds.smallest + _ordinals(length, offsets)
    jump = np.diff(cumulative, prepend=0)
    first = offsets[:-1]
    jump[first] = cumulative[first]
    return _kept(offsets, size, jump, 2 * fit.noise_variance)


def _without_first_cell(runs: RowRuns) -> RowRuns:
    """The rows without their first cells, which measure the private numbers of groups only."""
    length = runs.length.copy()
    length[runs.offsets[:-1]] -= 1
    kept = length > 0
    return RowRuns(offsets_of(kept.astype(np.int64))[runs.offsets], runs.value[kept], length[kept])


def _fit_sorted(measured: Measurement, bounds: Bounds, norm: Norm) -> FittedCells:
    """Isotonic regression of the sorted sizes (section 4.2)."""
    runs = isotonic.fit_row_runs(
        measured.values, measured.offsets, norm=norm, lower=bounds.smallest, upper=bounds.largest
    )
    return FittedCells(runs, measured.noise.variance)


def _fit_sorted_parts(parts: Iterable[Measurement], bounds: Bounds, norm: Norm) -> FittedCells:
    """As `_fit_sorted`, for one node; its memory grows with the number of runs, not with the number of groups."""
    stream = RunStream(norm=norm, lower=bounds.smallest, upper=bounds.largest)
    noise_variance = 0.0
    for part in parts:
        stream.push(part.values)
        noise_variance = part.noise.variance
    return FittedCells(stream.finish(), noise_variance)


def _sorted(fit: FittedCells, groups: IntArray, bounds: Bounds) -> NodeRuns:
    """A block of the fit is a run of groups, with variance Var(noise) / |block| (section 5.1.1)."""
    return NodeRuns(fit.runs.offsets, fit.runs.value, fit.runs.length, fit.noise_variance / fit.runs.length)


def _keep_histogram(measured: Measurement, bounds: Bounds, norm: Norm) -> FittedCells:
    """The noisy histogram without change; `norm` is not used."""
    cells = RowRuns(measured.offsets, measured.values, np.ones(len(measured.values), dtype=np.int64))
    return FittedCells(cells, measured.noise.variance)


def _sum_of_cells(fit: FittedCells) -> IntArray:
    """The sum of the noisy histogram, at least 0. The sum is unbiased and has the noise of all cells."""
    return np.maximum(np.add.reduceat(fit.runs.value, fit.runs.offsets[:-1]), 0)


def _naive(fit: FittedCells, groups: IntArray, bounds: Bounds) -> NodeRuns:
    """The projection of the noisy histogram on the integers with H ≥ 0, ΣH = G (section 4.1)."""
    histogram = simplex.euclidean_families(fit.runs.value, fit.runs.offsets, groups)
    size = bounds.smallest + _ordinals(fit.runs.length, fit.runs.offsets)
    return _kept(fit.runs.offsets, size, histogram, fit.noise_variance)


def _kept(offsets: IntArray, size: IntArray, groups: IntArray, variance_of_groups: float) -> NodeRuns:
    """The runs that have groups; the variance of a cell's count is spread over the groups in it."""
    kept = groups > 0
    return NodeRuns(
        offsets_of(kept.astype(np.int64))[offsets], size[kept], groups[kept], variance_of_groups / groups[kept]
    )


def _ordinals(length: IntArray, offsets: IntArray) -> IntArray:
    """Where each run begins within its row, counted in cells."""
    begin = np.cumsum(length) - length
    counts = np.diff(offsets)
    nonempty = counts > 0
    return begin - np.repeat(begin[offsets[:-1][nonempty]], counts[nonempty])


ESTIMATORS: dict[EstimatorName, Estimator] = {
    "cumulative": Estimator("tail_counts", _fit_tails, _largest_tail, _cumulative),
    "sorted": Estimator("sorted_sizes", _fit_sorted, None, _sorted, _fit_sorted_parts),
    "naive": Estimator("histogram", _keep_histogram, _sum_of_cells, _naive),
}
