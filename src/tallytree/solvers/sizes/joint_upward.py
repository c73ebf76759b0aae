"""The upward step of `joint_families`: estimates from each node's own cells, combined with those from the cells below.

`docs/explanation/joint.md` gives the reasons. Source: ours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tallytree.solvers.sizes.monotone_sums import isotonic_decreasing
from tallytree.solvers.sizes.rates import choose_dispersion, local_rates, noise_variance
from tallytree.solvers.sizes.state_chain import posterior
from tallytree.solvers.sizes.uncertain_rates import widen
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.kernels import kernel

EXTRA_GROUPS = 0.05
"""Groups added to each window of sizes, so that no rate is 0."""


class NoisyCells(NamedTuple):
    """The noisy tail counts of all nodes of a level."""

    values: IntArray
    """(nodes, cells)"""
    scale: float
    """Of the noise, > 0."""
    laplace: bool
    """Whether the noise is Laplace; Gaussian otherwise."""
    most: FloatArray
    """(nodes,) an upper bound of each node's tail counts; may be infinite."""


class SizeModel(NamedTuple):
    """What is assumed of the numbers of groups of each size."""

    first_size: int
    """The size of cell 0."""
    blocks: IntArray
    """(cells,) the block of each cell, see `rates.size_blocks`."""
    dispersions: FloatArray
    """κ to choose from, see `rates`."""


class Estimate(NamedTuple):
    """Means and variances of the tail counts of a level, or of what is below it; empty where nothing is."""

    mean: FloatArray
    """(nodes, cells)"""
    variance: FloatArray
    """(nodes, cells) with the rates as known; estimates are combined with these."""
    wide: FloatArray
    """(nodes, cells) of the same means with uncertain rates, see `uncertain_rates`; these are stated."""


@kernel
def observe(cells: NoisyCells, begin: int, end: int, model: SizeModel, out: Estimate) -> None:
    """Posterior means and variances of the nodes begin … end − 1 from their own cells."""
    n = cells.values.shape[1]
    mu, dispersion, scratch, first = np.empty(n + 1), np.empty(n + 1), np.empty((5, n + 1)), np.empty(n, np.int64)
    fitted, ones, work = np.empty(n), np.ones(n), np.empty((9, n))
    raw = 1.0 / noise_variance(cells.scale, cells.laplace)
    for node in range(begin, end):
        values, most = cells.values[node], cells.most[node]
        mean, variance = out.mean[node], out.variance[node]
        if most == 0:
            mean[:] = 0.0
            variance[:] = 0.0
            out.wide[node] = 0.0
            continue
        isotonic_decreasing(values.astype(np.float64), ones, most, fitted, mean, variance, first)
        local_rates(fitted, model.first_size, EXTRA_GROUPS, mu)
        choose_dispersion(values, raw, mu, model.blocks, model.dispersions, dispersion)
        posterior(values, cells.scale, cells.laplace, most, mu, dispersion, mean, variance, scratch)
        widen(1.0 / raw, mu, dispersion, model.first_size, out.wide[node], fitted, work)
        for r in range(n):
            out.wide[node, r] = fitted[r] * variance[r]


@kernel
def add_children(first_child: IntArray, children: Estimate, sums: Estimate) -> None:
    """Sums of the children's means and variances, node by node."""
    for node in range(len(first_child) - 1):
        sums.mean[node] = 0.0
        sums.variance[node] = 0.0
        sums.wide[node] = 0.0
        for c in range(first_child[node], first_child[node + 1]):
            for r in range(children.mean.shape[1]):
                sums.mean[node, r] += children.mean[c, r]
                sums.variance[node, r] += children.variance[c, r]
                sums.wide[node, r] += children.wide[c, r]


@kernel
def combine(blocks: IntArray, own: Estimate, sums: Estimate, share: FloatArray) -> None:
    """Combine each node's estimate with that from below, by inverse variances; both variances may grow first.

    The two estimates are independent. Where they differ over a block of sizes by more than their variances allow, the
    excess is added to the variances: it stands for small biases of bounded estimates, which add up over children. Of
    each node's excess, `share` goes to the estimate from below and the rest to the node's own.
    """
    mean, variance, spread = own.mean, own.variance, sums.variance
    n = mean.shape[1]
    excess, cells = np.empty(blocks[n - 1] + 1), np.empty(blocks[n - 1] + 1)
    for node in range(len(mean)):
        excess[:] = 0.0
        cells[:] = 0.0
        for r in range(n):
            gap = mean[node, r] - sums.mean[node, r]
            excess[blocks[r]] += gap * gap - variance[node, r] - spread[node, r]
            cells[blocks[r]] += 1.0
        for r in range(n):
            more = max(excess[blocks[r]] / cells[blocks[r]], 0.0)
            spread[node, r] += share[node] * more
            variance[node, r] += (1.0 - share[node]) * more
            sums.wide[node, r] += share[node] * more
            own.wide[node, r] += (1.0 - share[node]) * more
            both = variance[node, r] + spread[node, r]
            if both > 0.0:
                gain = variance[node, r] / both
                mean[node, r] += gain * (sums.mean[node, r] - mean[node, r])
                variance[node, r] = gain * spread[node, r]
                own.wide[node, r] = (1.0 - gain) ** 2 * own.wide[node, r] + gain**2 * sums.wide[node, r]
