"""Which numbers of groups `joint_families` expects in every node: from the raw cells of all levels, from the root down.

Sums of raw cells are unbiased, however many are added up, where sums of estimates that cannot fall below 0 are not. So
the rates of the root come from the sums over the whole tree. The rates of children are those of their parent, shared in
proportion to what their own cells and those below them show. `docs/explanation/joint.md` gives the reasons. Source:
ours.

**The upward step**: estimates from each node's own cells, combined with those from the cells below.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tallytree.solvers.sizes.monotone_sums import isotonic_decreasing
from tallytree.solvers.sizes.rates import (
    TOGETHER,
    choose_dispersion,
    likeliest_dispersions,
    local_rates,
    log_likelihoods,
    noise_variance,
    widen,
)
from tallytree.solvers.sizes.state_chain import posterior
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.kernel_arrays import consecutive
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
    """(nodes, cells) of the same means with uncertain rates, see `widen`; these are stated."""


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


FAMILY_GROUPS = 12.0
"""Groups added to each window of sizes of a child of mean size, so that a child of which little is known has the rates
of its parent. Chosen on hawaiian and taxi of 2, 5, 12 and 30."""
SIZE_GROUPS = 0.1
"""Groups added to a child's number of groups, so that no child's share is 0."""
LEAST_RATE = 1e-7
"""Added to a parent's rates: its children may have groups of a size of which it seems to have none."""
SPIKE_POWER = 4
"""Of the share with which a drop that differs from the local average counts. 1 would be the best estimate of the
parent's drop alone. But the children's cells, of which it was computed, are used once more with these rates, so that
noise would count twice. Chosen on hawaiian and taxi of 1, 2 and 4."""


class RawSums(NamedTuple):
    """Unbiased tail counts of the nodes of a level, from their raw cells and all those below them."""

    values: FloatArray
    """(nodes, cells); empty for a level that has nothing measured below it, whose raw cells they are."""
    variance: FloatArray
    """(nodes,) of the noise in a cell."""


@kernel
def drops_or_rates(
    raw: FloatArray, variance: float, fitted: FloatArray, mu: FloatArray, model: SizeModel, out: FloatArray
) -> None:
    """The rates that a node hands down: the local average `mu`, but the drops of `fitted` where the data have spikes.

    Each block's κ is that of greatest likelihood, less one for each step on the list of dispersions from that nearest
    to 1. A drop counts with the share (τ² / (τ² + 2·variance))^`SPIKE_POWER`, τ² = κ·mu: almost entirely where it may
    differ from the average by much more than the noise, hardly elsewhere.

    Args:
        raw: (n,) unbiased noisy tail counts.
        variance: of their noise.
        fitted: (n,) the monotone fit of `raw`.
        mu: (n + 1,) rates of the drops.
        model: of the numbers of groups.
        out: (n + 1,) rates; may not be `mu`.
    """
    n = len(raw)
    likelihood = np.zeros((len(model.dispersions), model.blocks[n - 1] + 1))
    if len(model.dispersions) > 1:
        log_likelihoods(raw, 1.0 / variance, mu, model.blocks, model.dispersions, likelihood, np.int64(1))
    plain = int(np.argmin(np.abs(model.dispersions - 1.0)))
    out[0] = out[n] = 0.0
    for r in range(1, n):
        top, choice = -np.inf, plain
        for k in range(len(model.dispersions)):
            worth = likelihood[k, model.blocks[r]] - abs(k - plain)
            if worth > top:
                top, choice = worth, k
        scatter = model.dispersions[choice] * mu[r]
        share = (1.0 / (1.0 + 2.0 * variance / scatter)) ** SPIKE_POWER if scatter > 0.0 else 0.0
        out[r] = mu[r] + share * (fitted[r - 1] - fitted[r] - mu[r])


@kernel
def rates_of_roots(cells: NoisyCells, sums: RawSums, begin: int, end: int, model: SizeModel, out: FloatArray) -> None:
    """The rates that the nodes begin … end − 1, which have no parent, hand down.

    Args:
        cells: their noisy tail counts.
        sums: of them and all below.
        begin: the first node.
        end: one after the last node.
        model: of the numbers of groups.
        out: (nodes, cells + 1)
    """
    n = cells.values.shape[1]
    mu, fitted, ones = np.empty(n + 1), np.empty(n), np.ones(n)
    scratch, first = np.empty((2, n)), np.empty(n, np.int64)
    for node in range(begin, end):
        out[node] = 0.0
        if cells.most[node] > 0:
            raw = sums.values[node]
            isotonic_decreasing(raw, ones, cells.most[node], fitted, scratch[0], scratch[1], first)
            local_rates(fitted, model.first_size, EXTRA_GROUPS, mu)
            drops_or_rates(raw, sums.variance[node], fitted, mu, model, out[node])


@kernel
def shared_variances(
    raw: FloatArray, noise: float, most: float, below: FloatArray, model: SizeModel, out: FloatArray
) -> None:
    """Of the root, the variances of the error that the estimates of all nodes below it have in common.

    Rates are shared from the root down, so an error in its rates has the same sign in all nodes below. As far as their
    estimates rest on the rates, and not on their cells, the error does not get smaller when they are added up. How far
    they do is taken as the sum of their variances over that of Poisson numbers, which have only their rates.

    Args:
        raw: (n,) unbiased noisy tail counts of the root, from all levels.
        noise: the variance of their noise.
        most: an upper bound of the root's tail counts.
        below: (n,) the sums of the variances of what is below the root.
        model: of the numbers of groups.
        out: (n,)
    """
    n = len(raw)
    mu, dispersion, fitted, ones = np.empty(n + 1), np.empty(n), np.empty(n), np.ones(n)
    work, first = np.empty((9, n)), np.empty(n, np.int64)
    isotonic_decreasing(raw, ones, most, fitted, work[0], work[1], first)
    local_rates(fitted, model.first_size, EXTRA_GROUPS, mu)
    likelihood = np.zeros((len(model.dispersions), model.blocks[n - 1] + 1))
    if len(model.dispersions) > 1:
        log_likelihoods(raw, 1.0 / noise, mu, model.blocks, model.dispersions, likelihood, np.int64(1))
    likeliest_dispersions(likelihood, model.blocks, model.dispersions, dispersion)
    widen(noise, mu, dispersion, model.first_size, out, fitted, work)
    expected = 0.0
    for r in range(n - 1, -1, -1):
        if below[r] < expected:
            out[r] *= below[r] / expected
        expected += mu[r]


@kernel
def family_dispersions(
    cells: NoisyCells, kids: IntArray, rate: FloatArray, model: SizeModel, end: int, dispersion: FloatArray
) -> None:
    """κ of each drop, by blocks of sizes, from the likelihood of all children's noisy values."""
    raw = 1.0 / noise_variance(cells.scale, cells.laplace)
    likelihood = np.zeros((len(model.dispersions), model.blocks[end - 1] + 1))
    for together in (TOGETHER, 1):
        if len(model.dispersions) > 1:
            likelihood[:] = 0.0
            for k in range(len(kids)):
                if cells.most[kids[k]] > 0:
                    given = cells.values[kids[k], :end].astype(np.float64)
                    log_likelihoods(given, raw, rate[k], model.blocks, model.dispersions, likelihood, together)
        if likeliest_dispersions(likelihood, model.blocks[:end], model.dispersions, dispersion):
            break
    dispersion[end] = dispersion[end - 1]


@kernel
def _shared_rates(
    raw: FloatArray, most: FloatArray, above: FloatArray, first_size: int, rate: FloatArray, fitted: FloatArray
) -> None:
    """The rates of the children of one parent, whose own are `above`; also the monotone fits of their raw cells."""
    children, n = raw.shape
    ones, scratch, first = np.ones(n), np.empty((2, n)), np.empty(n, np.int64)
    groups, everything = np.maximum(raw[:, 0], 0.0) + SIZE_GROUPS, np.zeros(n + 1)
    mean = groups.sum() / children
    for k in range(children):
        rate[k] = 0.0
        if most[k] > 0:
            isotonic_decreasing(raw[k], ones, most[k], fitted[k], scratch[0], scratch[1], first)
            local_rates(fitted[k], first_size, FAMILY_GROUPS * groups[k] / mean, rate[k])
            everything += rate[k]
    for k in range(children):
        for r in range(1, n):
            if rate[k, r] > 0.0:
                rate[k, r] *= (above[r] + LEAST_RATE) / everything[r]
        rate[k, n] = 0.0


@kernel
def estimate_children(
    cells: NoisyCells,
    sums: RawSums,
    first_child: IntArray,
    begin: int,
    end: int,
    above: FloatArray,
    model: SizeModel,
    own: Estimate,
    out: FloatArray,
) -> None:
    """Estimates of the children of the parents begin … end − 1 from their own cells, with shares of the parents' rates.

    Args:
        cells: the children's noisy tail counts.
        sums: of them and all below.
        first_child: (parents + 1,) where each parent's children begin.
        begin: the first parent.
        end: one after the last parent.
        above: (parents, cells + 1) the rates that parents hand down.
        model: of the numbers of groups.
        own: out, posterior means and variances of the children.
        out: (children, cells + 1) the rates that the children hand down; empty where nothing is below them.
    """
    n = cells.values.shape[1]
    dispersion, scratch = np.empty(n + 1), np.empty((5, n + 1))
    noise, factor, work = noise_variance(cells.scale, cells.laplace), np.empty(n), np.empty((9, n))
    for parent in range(begin, end):
        first, stop = first_child[parent], first_child[parent + 1]
        kids = consecutive(first, stop)
        rate, fitted = np.empty((len(kids), n + 1)), np.empty((len(kids), n))
        raw = sums.values[first:stop] if len(out) > 0 else cells.values[first:stop].astype(np.float64)
        _shared_rates(raw, cells.most[first:stop], above[parent], model.first_size, rate, fitted)
        family_dispersions(cells, kids, rate, model, n, dispersion)
        dispersion[0] = dispersion[n] = np.inf
        for k in range(len(kids)):
            c = kids[k]
            mean, variance = own.mean[c], own.variance[c]
            if cells.most[c] == 0:
                mean[:] = 0.0
                variance[:] = 0.0
                own.wide[c] = 0.0
            else:
                given = cells.values[c]
                posterior(
                    given, cells.scale, cells.laplace, cells.most[c], rate[k], dispersion, mean, variance, scratch
                )
                widen(noise, rate[k], dispersion, model.first_size, own.wide[c], factor, work)
                for r in range(n):
                    own.wide[c, r] = factor[r] * variance[r]
            if len(out) > 0:
                out[c] = 0.0
                if cells.most[c] > 0:
                    drops_or_rates(raw[k], sums.variance[c], fitted[k], rate[k], model, out[c])


def add_up(
    levels: Sequence[IntArray], variances: Sequence[float], first_child: Sequence[IntArray], under: RawSums | None
) -> list[RawSums]:
    """The raw cells of each node and all below it, combined by inverse variances.

    Args:
        levels: (nodes, cells) noisy tail counts of consecutive levels, upper levels first.
        variances: of the noise in a cell of each level.
        first_child: of each level but the last, where each node's children begin in the next.
        under: the sums of what is below each node of the last level; None where nothing is.

    Returns:
        For each level, upper levels first.
    """
    found: list[RawSums] = []
    for i in range(len(levels) - 1, -1, -1):
        values, variance = levels[i], variances[i]
        if found:
            under = sums_of_children(found[-1], levels[i + 1], first_child[i])
        if under is None:
            found.append(RawSums(np.empty((0, 0)), np.full(len(values), variance)))
            continue
        both = 1 / (1 / variance + 1 / under.variance)
        sums = under.values * (both / under.variance)[:, None]
        sums += values * (both / variance)[:, None]
        found.append(RawSums(sums, both))
    return found[::-1]


def sums_of_children(children: RawSums, values: IntArray, first_child: IntArray) -> RawSums:
    """What the parents get: the sums over each one's children, whose noisy tail counts are `values`."""
    of = children.values if len(children.values) else values
    sums = np.add.reduceat(of, first_child[:-1]).astype(np.float64, copy=False)
    return RawSums(sums, np.add.reduceat(children.variance, first_child[:-1]))
