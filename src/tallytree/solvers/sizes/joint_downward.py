"""The downward step of `joint_families`: a parent's integer tail counts are shared out among its children.

`docs/explanation/joint.md` gives the reasons. Source: ours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tallytree.solvers.sizes.joint_rates import Estimate, NoisyCells, SizeModel, family_dispersions
from tallytree.solvers.sizes.monotone_sums import fit_with_sums, isotonic_decreasing, round_with_sums
from tallytree.solvers.sizes.rates import local_rates, noise_variance, widen
from tallytree.solvers.sizes.state_chain import posterior
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.kernel_arrays import consecutive, enlarged, enlarged_rows, put
from tallytree.support.kernels import inlined, kernel

EXTRA_SHARE = 0.1
"""Groups added to each window of sizes, where the rates are shares of a parent's groups."""
WEIGHED_VARIANCE = 0.01
"""No cell has a weight in fits as if its variance were less. A smaller variance does not tell integers apart, and with
a wider range of weights the fits of families would take long."""
MAX_ITERATIONS = 1_000


class Tails(NamedTuple):
    """Tail counts of one level's nodes as runs of equal cells."""

    offsets: IntArray
    """(nodes + 1,) node i has the runs offsets[i]:offsets[i + 1], one at least."""
    start: IntArray
    """(runs,) the cell at which a run begins; 0 for a node's first."""
    value: IntArray
    """(runs,) ≥ 0, decreasing within a node."""
    variance: FloatArray
    """(runs,) of the error of the value at the last cell of the run, approximately."""

    def of_nodes(self, first: int, stop: int) -> Tails:
        """Those of the nodes first … stop − 1."""
        begin, end = int(self.offsets[first]), int(self.offsets[stop])
        here = slice(begin, end)
        return Tails(self.offsets[first : stop + 1] - begin, self.start[here], self.value[here], self.variance[here])


Part = tuple[IntArray, IntArray, IntArray, FloatArray, FloatArray]
"""The children's runs: offsets, start, value, variance; and iterations and residuals of the slowest family."""


@kernel
def _shared_rates(
    mean: FloatArray, most: FloatArray, kids: IntArray, drop: FloatArray, first_size: int, rate: FloatArray
) -> None:
    """The rates of each child: the parent's groups of each size, shared in proportion to the children's local rates."""
    end = rate.shape[1] - 1
    everything = np.zeros(end + 1)
    fitted, ones, scratch, first = np.empty(end), np.ones(end), np.empty((2, end)), np.empty(end, np.int64)
    for k in range(len(kids)):
        if most[kids[k]] > 0:
            isotonic_decreasing(mean[kids[k], :end], ones, most[kids[k]], fitted, scratch[0], scratch[1], first)
            local_rates(fitted, first_size, EXTRA_SHARE, rate[k])
            everything += rate[k]
    for k in range(len(kids)):
        for r in range(1, end):
            rate[k, r] = drop[r] * rate[k, r] / everything[r] if rate[k, r] > 0 else 0.0
        rate[k, end] = 0.0


@kernel
def _targets(
    cells: NoisyCells,
    kids: IntArray,
    rate: FloatArray,
    dispersion: FloatArray,
    below: Estimate,
    begin: IntArray,
    target: FloatArray,
    variance: FloatArray,
    weight: FloatArray,
    x: FloatArray,
    first_size: int,
) -> None:
    """For each child (row) and run of its parent (column): estimate, variance and weight, and a monotone start x.

    Weights are those of known rates, and variances those of uncertain ones.
    """
    runs, end = len(begin) - 1, begin[-1]
    scratch, first = np.empty((5, end + 1)), np.empty(end, np.int64)
    m, v, wide, factor, work = np.empty(end), np.empty(end), np.empty(end), np.empty(end), np.empty((9, end))
    noise = noise_variance(cells.scale, cells.laplace)
    for k in range(len(kids)):
        c = kids[k]
        if cells.most[c] == 0:
            weight[k] = np.inf
            continue
        posterior(cells.values[c, :end], cells.scale, cells.laplace, cells.most[c], rate[k], dispersion, m, v, scratch)
        widen(noise, rate[k], dispersion, first_size, wide, factor, work)
        for r in range(runs):
            # Cells of a run have the same posterior where drops of rate 0 are certain, and nearly so elsewhere.
            s = begin[r]
            wide[s] = factor[s] * v[s]
            if len(below.mean) > 0:
                gain = v[s] / (v[s] + below.variance[c, s])
                m[s] += gain * (below.mean[c, s] - m[s])
                v[s] = gain * below.variance[c, s]
                wide[s] = (1.0 - gain) ** 2 * wide[s] + gain**2 * below.wide[c, s]
            target[k, r], variance[k, r] = m[s], wide[s]
            weight[k, r] = (begin[r + 1] - s) / max(v[s], WEIGHED_VARIANCE)
        isotonic_decreasing(target[k], weight[k], cells.most[c], x[k], scratch[0], scratch[1], first)
    for r in range(runs):
        least = np.inf
        for k in range(len(kids)):
            least = min(least, weight[k, r])
        for k in range(len(kids)):
            # A child without groups is 0 whatever its weight, which must not count for more in residuals than others'.
            if weight[k, r] == np.inf:
                weight[k, r] = least if least < np.inf else 1.0


@inlined
def _estimate_family(
    cells: NoisyCells,
    kids: IntArray,
    mean: FloatArray,
    below: Estimate,
    model: SizeModel,
    total: FloatArray,
    total_variance: FloatArray,
    begin: IntArray,
    tolerance: float,
    worst: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """The integer tail counts of two or more children and their variances, a column for each run of the parent.

    `total` are the values of the parent's runs, `total_variance` their variances, `begin` the cells at which they
    begin, and where the last one ends.

    Given the parent, the children's errors are those of independent estimates whose sum is known: v − v²/Σv. The
    parent's own error is shared in proportion to v. To this comes how far a number was moved by rounding.
    """
    runs, end = len(total), begin[-1]
    drop, rate, dispersion = np.zeros(end + 1), np.zeros((len(kids), end + 1)), np.empty(end + 1)
    for r in range(1, runs):
        drop[begin[r]] = total[r - 1] - total[r]
    _shared_rates(mean, cells.most, kids, drop, model.first_size, rate)
    family_dispersions(cells, kids, rate, model, end, dispersion)
    shape = (len(kids), runs)
    x, target, weight, rounded = np.zeros(shape), np.zeros(shape), np.ones(shape), np.zeros(shape)
    variance = np.zeros(shape)
    _targets(cells, kids, rate, dispersion, below, begin, target, variance, weight, x, model.first_size)
    most = cells.most[kids]
    done, primal, dual = fit_with_sums(target, weight, most, total, tolerance, MAX_ITERATIONS, x)
    if done > worst[0]:
        worst[0], worst[1], worst[2] = done, primal, dual
    round_with_sums(x, total, most, rounded)
    for r in range(runs):
        together = variance[:, r].sum()
        for k in range(len(kids)):
            if together > 0:
                share = variance[k, r] / together
                others = together - variance[k, r]
                variance[k, r] = share * (others + share * total_variance[r])
            variance[k, r] += (rounded[k, r] - x[k, r]) ** 2
    return rounded, variance


@kernel
def estimate_families(
    cells: NoisyCells,
    first_child: IntArray,
    begin_family: int,
    end_family: int,
    mean: FloatArray,
    below: Estimate,
    model: SizeModel,
    parents: Tails,
    tolerance: float,
) -> Part:
    """The runs of the children of the parents begin_family … end_family − 1.

    Children are constant where their parent is, so the rows of a family have one column for each run of the parent that
    is not 0. Runs are appended to buffers that double.

    Args:
        cells: of the children's level.
        first_child: (parents + 1,) parent i has the children first_child[i] … first_child[i + 1] − 1.
        begin_family: the first parent.
        end_family: one after the last parent.
        mean: (nodes, cells) of the children's level, from their own cells and those below.
        below: the sums of the children's own children; empty if they have none.
        model: of the numbers of groups.
        parents: the integer tail counts of the parents' level.
        tolerance: of the residuals, in groups.

    Returns:
        Offsets, start, value and variance of the runs; iterations and residuals of the slowest family.
    """
    n = cells.values.shape[1]
    offset = first_child[begin_family]
    out = np.zeros(first_child[end_family] - offset + 1, np.int64)
    buffer, errors = np.empty((2, 1024), np.int64), np.empty(1024)
    used = 0
    worst = np.zeros(3)
    for parent in range(begin_family, end_family):
        kids = consecutive(first_child[parent], first_child[parent + 1])
        first_run, runs, end = parents.offsets[parent], parents.offsets[parent + 1] - parents.offsets[parent], n
        if parents.value[first_run + runs - 1] == 0:
            runs -= 1
            end = parents.start[first_run + runs]
        total = parents.value[first_run : first_run + runs].astype(np.float64)
        total_variance = parents.variance[first_run : first_run + runs]
        begin = np.empty(runs + 1, np.int64)
        put(parents.start[first_run : first_run + runs], begin)
        begin[runs] = end
        rounded, variance = np.zeros((len(kids), runs)), np.zeros((len(kids), runs))
        if len(kids) == 1:
            put(total, rounded[0])
            put(total_variance, variance[0])
        elif runs > 0:
            rounded, variance = _estimate_family(
                cells, kids, mean, below, model, total, total_variance, begin, tolerance, worst
            )
        for k in range(len(kids)):
            if used + runs + 2 > buffer.shape[1]:
                size = 2 * (used + runs + 2)
                buffer, errors = enlarged_rows(buffer, used, size), enlarged(errors, used, size)
            before = -1
            for r in range(runs):
                if rounded[k, r] != before:
                    before = rounded[k, r]
                    buffer[0, used], buffer[1, used] = begin[r], before
                    used += 1
                errors[used - 1] = variance[k, r]
            if before != 0 and end < n:
                buffer[0, used], buffer[1, used], errors[used] = end, 0, 0.0
                used += 1
            out[kids[k] - offset + 1] = used
    return out, buffer[0, :used].copy(), buffer[1, :used].copy(), errors[:used].copy(), worst
