"""Group sizes of single nodes, estimated one level at a time (Kuo et al. 2018, section 4), as runs.

An estimator says what it wants measured, fits the noisy cells of some nodes, and turns the fit into runs (size, number
of groups, variance of the size) once the nodes' numbers of groups are known: integers ≥ 0 that add up to them. Where
these numbers are private, the fit gives an estimate of them first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from tallytree.compute.arrays import IntArray, offsets_of
from tallytree.measurements import Measurement, Statistic
from tallytree.solvers import isotonic, simplex
from tallytree.solvers.isotonic import Norm, RowRuns
from tallytree.solvers.isotonic_stream import RunStream
from tallytree.solvers.matching import NodeRuns

EstimatorName = Literal["cumulative", "sorted", "naive"]


class Bounds(NamedTuple):
    """Public facts about the nodes that are estimated: their numbers of groups (if public), and the range of sizes."""

    groups: IntArray | None
    smallest: int
    largest: int


class Fit(NamedTuple):
    """What the noisy cells of some nodes say, before it is known how many groups there are.

    Attributes:
        runs: per node, the runs of equal fitted cells (or, for `"naive"`, the noisy cells themselves, each a run of 1).
        noise_variance: of a cell's noise.
    """

    runs: RowRuns
    noise_variance: float


@dataclass(frozen=True)
class Estimator:
    """One way to estimate group sizes.

    Attributes:
        statistic: what it wants measured.
        fit: from the noisy cells and what bounds them to a fit.
        numbers: from a fit to an estimate of each node's number of groups; None where these must be public.
        estimate: from a fit and each node's number of groups to runs.
        fit_parts: from the parts of one node's noisy cells, in order and none kept, to its fit; None where a node has
            so few cells that it is always measured whole.
    """

    statistic: Statistic
    fit: Callable[[Measurement, Bounds, Norm], Fit]
    numbers: Callable[[Fit], IntArray] | None
    estimate: Callable[[Fit, IntArray, Bounds], NodeRuns]
    fit_parts: Callable[[Iterable[Measurement], Bounds, Norm], Fit] | None = None


def _fit_tails(measured: Measurement, bounds: Bounds, norm: Norm) -> Fit:
    """Isotonic regression of the tail counts with their signs turned, −T_s, so that it does not decrease (4.3).

    With public numbers of groups that is the cumulative histogram, c_(s−1) = G − T_s; clipping to [0, G] is part of it.
    """
    least = None if bounds.groups is None else -bounds.groups
    runs = isotonic.fit_row_runs(-measured.values, measured.offsets, norm=norm, lower=least, upper=0)
    return Fit(runs, measured.noise.variance)


def _largest_tail(fit: Fit) -> IntArray:
    """The first fitted tail count: the number of groups in all."""
    return -fit.runs.value[fit.runs.offsets[:-1]]


def _cumulative(fit: Fit, groups: IntArray, bounds: Bounds) -> NodeRuns:
    """Groups where the fitted tails fall.

    The difference of two noisy cells, spread over the groups that are estimated to have that size, gives the variance
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
    """The rows without their first cells: where numbers of groups are private, these measure them, and nothing else."""
    length = runs.length.copy()
    length[runs.offsets[:-1]] -= 1
    kept = length > 0
    return RowRuns(offsets_of(kept.astype(np.int64))[runs.offsets], runs.value[kept], length[kept])


def _fit_sorted(measured: Measurement, bounds: Bounds, norm: Norm) -> Fit:
    """Isotonic regression of the sorted sizes (section 4.2)."""
    runs = isotonic.fit_row_runs(
        measured.values, measured.offsets, norm=norm, lower=bounds.smallest, upper=bounds.largest
    )
    return Fit(runs, measured.noise.variance)


def _fit_sorted_parts(parts: Iterable[Measurement], bounds: Bounds, norm: Norm) -> Fit:
    """As `_fit_sorted`, of one node; memory is that of the runs, not of the groups."""
    stream = RunStream(norm=norm, lower=bounds.smallest, upper=bounds.largest)
    noise_variance = 0.0
    for part in parts:
        stream.push(part.values)
        noise_variance = part.noise.variance
    return Fit(stream.finish(), noise_variance)


def _sorted(fit: Fit, groups: IntArray, bounds: Bounds) -> NodeRuns:
    """A block of the fit is a run of groups, with variance Var(noise) / |block| (5.1.1)."""
    return NodeRuns(fit.runs.offsets, fit.runs.value, fit.runs.length, fit.noise_variance / fit.runs.length)


def _keep_histogram(measured: Measurement, bounds: Bounds, norm: Norm) -> Fit:
    """The noisy histogram as it is; `norm` has no part in it."""
    cells = RowRuns(measured.offsets, measured.values, np.ones(len(measured.values), dtype=np.int64))
    return Fit(cells, measured.noise.variance)


def _sum_of_cells(fit: Fit) -> IntArray:
    """The sum of the noisy histogram: unbiased, with the noise of all its cells."""
    return np.maximum(np.add.reduceat(fit.runs.value, fit.runs.offsets[:-1]), 0)


def _naive(fit: Fit, groups: IntArray, bounds: Bounds) -> NodeRuns:
    """Projection of the noisy histogram on {H ≥ 0, ΣH = G} in integers (section 4.1)."""
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
