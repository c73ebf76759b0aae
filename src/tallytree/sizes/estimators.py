"""Group sizes of single nodes, estimated one level at a time (Kuo et al. 2018, section 4), as runs.

An estimator says what it wants measured and turns the noisy cells of some nodes into runs (size, number of groups,
variance of the size): integers ≥ 0 that add up to each node's public number of groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from tallytree.arrays import IntArray, offsets_of
from tallytree.measurements import Measurement, Statistic
from tallytree.solvers import isotonic, simplex
from tallytree.solvers.isotonic import Norm
from tallytree.solvers.matching import NodeRuns

EstimatorName = Literal["cumulative", "sorted", "naive"]


class Bounds(NamedTuple):
    """Public facts about the nodes that are estimated: their numbers of groups, and the range of sizes."""

    groups: IntArray
    smallest: int
    largest: int


@dataclass(frozen=True)
class Estimator:
    """One way to estimate group sizes.

    Attributes:
        statistic: what it wants measured.
        cells: how many cells that is for each node.
        estimate: from the noisy cells to runs.
    """

    statistic: Statistic
    cells: Callable[[Bounds], IntArray]
    estimate: Callable[[Measurement, Bounds, Norm], NodeRuns]


def _cumulative(measured: Measurement, bounds: Bounds, norm: Norm) -> NodeRuns:
    """Isotonic regression of the cumulative histogram c_s = G − T_(s+1) (section 4.3).

    The difference of two noisy cells, spread over the groups that are estimated to have that size, gives the variance
    2·Var(noise) / groups (section 5.1.2).
    """
    cells = np.diff(measured.offsets)
    cumulative = np.repeat(bounds.groups, cells) - measured.values
    fit = isotonic.fit_row_runs(cumulative, measured.offsets, norm=norm, lower=0, upper=bounds.groups)
    # c is constant on each run, so groups sit at the first size of a run; those above the last cell have size K.
    row_ends = fit.offsets[1:]
    value = np.insert(fit.value, row_ends, bounds.groups)
    length = np.insert(fit.length, row_ends, 1)
    offsets = fit.offsets + np.arange(len(fit.offsets))
    size = bounds.smallest + _ordinals(length, offsets)
    jump = np.diff(value, prepend=0)
    first = offsets[:-1]
    jump[first] = value[first]
    return _kept(offsets, size, jump, 2 * measured.noise.variance)


def _sorted(measured: Measurement, bounds: Bounds, norm: Norm) -> NodeRuns:
    """Isotonic regression of the sorted sizes (section 4.2); a block's variance is Var(noise) / |block| (5.1.1)."""
    fit = isotonic.fit_row_runs(
        measured.values, measured.offsets, norm=norm, lower=bounds.smallest, upper=bounds.largest
    )
    return NodeRuns(fit.offsets, fit.value, fit.length, measured.noise.variance / fit.length)


def _naive(measured: Measurement, bounds: Bounds, norm: Norm) -> NodeRuns:
    """Projection of the noisy histogram on {H ≥ 0, ΣH = G} in integers (section 4.1); `norm` has no part in it."""
    histogram = simplex.euclidean_families(measured.values, measured.offsets, bounds.groups)
    size = bounds.smallest + _ordinals(np.ones(len(histogram), dtype=np.int64), measured.offsets)
    return _kept(measured.offsets, size, histogram, measured.noise.variance)


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


def _table_width(extra: int) -> Callable[[Bounds], IntArray]:
    return lambda bounds: np.full(len(bounds.groups), bounds.largest - bounds.smallest + extra, dtype=np.int64)


ESTIMATORS: dict[EstimatorName, Estimator] = {
    "cumulative": Estimator("tail_counts", _table_width(0), _cumulative),
    "sorted": Estimator("sorted_sizes", lambda bounds: bounds.groups, _sorted),
    "naive": Estimator("histogram", _table_width(1), _naive),
}
