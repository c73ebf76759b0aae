"""The children of known parents: a parent's whole tail counts shared out among its children, family by family.

The downward step of `joint`; `docs/joint.md` says why it is as it is. Source: ours.
"""

from __future__ import annotations

import numpy as np

from tallytree.compute.arrays import FloatArray, IntArray
from tallytree.compute.kernels import kernel
from tallytree.solvers.monotone_sums import fit_with_sums, isotonic_decreasing, round_with_sums
from tallytree.solvers.rates import likeliest_dispersions, local_rates, log_likelihoods, noise_variance
from tallytree.solvers.state_chain import posterior

EXTRA_SHARE = 0.1
"""Groups added to each window of sizes, where the rates are shares of a parent's groups."""
WEIGHED_VARIANCE = 0.01
"""In fits, no cell weighs as if its variance were less: whole numbers are not told apart below, and with a wider range
of weights the fits of families would take long."""
MAX_ITERATIONS = 1_000

Part = tuple[IntArray, IntArray, IntArray, FloatArray]
"""The children's runs: offsets, start, value; and iterations and residuals of the slowest family."""


@kernel
def _shared_rates(
    mean: FloatArray, most: FloatArray, kids: IntArray, drop: FloatArray, first_size: int, rate: FloatArray
) -> None:
    """The rates of each child: its share, by its local rates, of the parent's groups of each size."""
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
def estimate_families(
    values: IntArray,
    first_child: IntArray,
    begin_family: int,
    end_family: int,
    scale: float,
    laplace: bool,
    mean: FloatArray,
    below: FloatArray,
    below_variance: FloatArray,
    most: FloatArray,
    first_size: int,
    blocks: IntArray,
    dispersions: FloatArray,
    offsets: IntArray,
    start: IntArray,
    value: IntArray,
    tolerance: float,
) -> Part:
    """The runs of the children of some parents: offsets, start, value; and iterations and residuals of the slowest.

    Children are constant where their parent is, so the rows of a family have one column for each run of the parent that
    is not 0. Runs are appended to buffers that double.
    """
    n = values.shape[1]
    raw = 1.0 / noise_variance(scale, laplace)
    scratch, first = np.empty((5, n + 1)), np.empty(n, np.int64)
    m, v, dispersion = np.empty(n), np.empty(n), np.empty(n + 1)
    offset = first_child[begin_family]
    out = np.zeros(first_child[end_family] - offset + 1, np.int64)
    buffer = np.empty((2, 1024), np.int64)
    used = 0
    worst = np.zeros(3)
    for parent in range(begin_family, end_family):
        kids = np.arange(first_child[parent], first_child[parent + 1])
        runs, end = offsets[parent + 1] - offsets[parent], n
        if value[offsets[parent + 1] - 1] == 0:
            runs -= 1
            end = start[offsets[parent + 1] - 1]
        total = value[offsets[parent] : offsets[parent] + runs].astype(np.float64)
        begin = np.append(start[offsets[parent] : offsets[parent] + runs], end)
        whole = np.zeros((len(kids), runs))
        if len(kids) == 1:
            whole[0] = total
        elif runs > 0:
            drop = np.zeros(end + 1)
            for r in range(1, runs):
                drop[begin[r]] = total[r - 1] - total[r]
            rate = np.zeros((len(kids), end + 1))
            _shared_rates(mean, most, kids, drop, first_size, rate)
            likelihood = np.zeros((len(dispersions), blocks[end - 1] + 1))
            if len(dispersions) > 1:
                for k in range(len(kids)):
                    if most[kids[k]] > 0:
                        given = values[kids[k], :end].astype(np.float64)
                        log_likelihoods(given, np.full(end, raw), rate[k], blocks, dispersions, likelihood)
            likeliest_dispersions(likelihood, blocks[:end], dispersions, dispersion)
            dispersion[end] = dispersion[end - 1]
            x, target, weight = np.zeros((len(kids), runs)), np.zeros((len(kids), runs)), np.ones((len(kids), runs))
            for k in range(len(kids)):
                c = kids[k]
                if most[c] == 0:
                    continue
                posterior(
                    values[c, :end], scale, laplace, most[c], rate[k], dispersion[: end + 1], m[:end], v[:end], scratch
                )
                for r in range(runs):
                    # Cells of a run have the same posterior where drops of rate 0 are certain, and nearly so elsewhere.
                    s = begin[r]
                    if len(below) > 0:
                        gain = v[s] / (v[s] + below_variance[c, s])
                        m[s] += gain * (below[c, s] - m[s])
                        v[s] = max(gain * below_variance[c, s], WEIGHED_VARIANCE)
                    target[k, r] = m[s]
                    weight[k, r] = (begin[r + 1] - s) / max(v[s], WEIGHED_VARIANCE)
                isotonic_decreasing(target[k], weight[k], most[c], x[k], scratch[0], scratch[1], first)
            done, primal, dual = fit_with_sums(target, weight, most[kids], total, tolerance, MAX_ITERATIONS, x)
            if done > worst[0]:
                worst[0], worst[1], worst[2] = done, primal, dual
            round_with_sums(x, total, most[kids], whole)
        for k in range(len(kids)):
            if used + runs + 2 > buffer.shape[1]:
                larger = np.empty((2, 2 * (used + runs + 2)), np.int64)
                larger[:, :used] = buffer[:, :used]
                buffer = larger
            before = -1
            for r in range(runs):
                if whole[k, r] != before:
                    before = whole[k, r]
                    buffer[0, used], buffer[1, used] = begin[r], before
                    used += 1
            if before != 0 and end < n:
                buffer[0, used], buffer[1, used] = end, 0
                used += 1
            out[kids[k] - offset + 1] = used
    return out, buffer[0, :used].copy(), buffer[1, :used].copy(), worst
