"""Tail counts of a whole hierarchy at once: monotone, additive and whole, from noisy tail counts of every level.

Upward, every node's own cells give a posterior (`state_chain.posterior`, with rates and dispersions found from the
same noisy cells), which is combined with the sum of its children's by inverse variances. Downward, the root is made
monotone and rounded; then, with a parent's whole numbers fixed, its children are estimated anew, with the parent's
groups of each size as what they share, made to add up (`monotone_sums.fit_with_sums`), and rounded. A parent is runs of
equal tail counts, and its children can only change where it does, so fitting a family costs (children) × (runs).

Source: ours.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from tallytree.compute.arrays import FloatArray, IntArray, chunks
from tallytree.compute.kernels import kernel
from tallytree.compute.threads import side_by_side
from tallytree.solvers.checks import check_offsets
from tallytree.solvers.families import MAX_ITERATIONS, WEIGHED_VARIANCE, Part, estimate_families
from tallytree.solvers.monotone_sums import isotonic_decreasing
from tallytree.solvers.rates import DISPERSIONS, choose_dispersion, local_rates, noise_variance, size_blocks
from tallytree.solvers.state_chain import posterior

Done = TypeVar("Done")

logger = logging.getLogger(__name__)

EXTRA = 0.05
"""Groups added to each window of sizes, so that no rate is 0."""
SLICES = 32
"""The nodes of a level are worked on in about as many slices, in threads."""
MAX_INPUT = 2**50
"""Sums of noisy tail counts stay below this, so that doubles hold them exactly."""


class Level(NamedTuple):
    """One measured level."""

    values: IntArray
    """(nodes, cells) noisy tail counts."""
    first_child: IntArray
    """(nodes + 1,) node i has the children first_child[i]:first_child[i + 1] of the next measured level, one at
    least. Not looked at in the last level."""
    scale: float
    """Of the noise, > 0."""
    laplace: bool
    """Whether the noise is Laplace; Gaussian otherwise."""
    most: FloatArray
    """(nodes,) an upper bound of each node's tail counts; may be infinite."""


class Tails(NamedTuple):
    """Tail counts of one level's nodes as runs of equal cells."""

    offsets: IntArray
    """(nodes + 1,) node i has the runs offsets[i]:offsets[i + 1], one at least."""
    start: IntArray
    """(runs,) the cell at which a run begins; 0 for a node's first."""
    value: IntArray
    """(runs,) ≥ 0, decreasing within a node."""


class Fit(NamedTuple):
    """What `fit` returns."""

    levels: list[Tails]
    """Root first."""
    variances: list[FloatArray]
    """(nodes, cells) for each level, root first: the variance of each tail count, about."""
    iterations: int
    """Of the family that took most."""
    primal: float
    """Its residuals, in groups."""
    dual: float


def fit(
    levels: Sequence[Level],
    *,
    first_size: int,
    total: int | None = None,
    dispersions: npt.ArrayLike = DISPERSIONS,
    tolerance: float = 0.01,
) -> Fit:
    """Estimate the tail counts of all nodes.

    Args:
        levels: what was measured, root first; the root has one node. All have the same cells.
        first_size: the size of cell 0; cell j is the number of groups of size ≥ first_size + j.
        total: the value of the root's cell 0, if it is known.
        dispersions: κ to choose from (see `rates`); one alone is taken as it is; infinity stands for no smoothing.
        tolerance: of both residuals of every family, in groups (see `monotone_sums.fit_with_sums`).

    Returns:
        Non-negative whole tail counts, decreasing in each node; every node's are the sum of its children's.

    Raises:
        ValueError: for levels that do not fit together, noise without a scale, a tolerance or a dispersion that is not
            positive, or values so large that doubles cannot add them up.
    """
    kappas = np.atleast_1d(np.asarray(dispersions, dtype=np.float64))
    _check(levels, kappas, tolerance)
    n = levels[0].values.shape[1]
    blocks = size_blocks(n, first_size)
    estimates, below = _upward(levels, first_size, blocks, kappas)
    whole = np.empty(n, np.int64)
    _round_root(estimates[0][0][0], estimates[0][1][0], levels[0].most[0], whole)
    if total is not None:
        np.minimum(whole, total, out=whole)
        whole[0] = total
    start = np.flatnonzero(np.diff(whole, prepend=-1))
    tails = [Tails(np.array([0, len(start)], dtype=np.int64), start, whole[start])]
    worst = (0, 0.0, 0.0)
    for i in range(1, len(levels)):
        families = _downward(levels, i, estimates[i][0], below[i], tails[-1], kappas, tolerance, first_size, blocks)
        parts = _in_threads(families, np.diff(levels[i - 1].first_child))
        begins = np.cumsum([0, *(len(part[1]) for part in parts)])
        offsets = [part[0][:-1] + begin for part, begin in zip(parts, begins[:-1], strict=True)]
        columns = [np.concatenate([part[column] for part in parts]) for column in (1, 2)]
        tails.append(Tails(np.concatenate([*offsets, begins[-1:]]), columns[0], columns[1]))
        worst = max([worst, *((int(part[3][0]), float(part[3][1]), float(part[3][2])) for part in parts)])
        _share_variance(levels[i - 1].first_child, estimates[i - 1][1], estimates[i][1])
    if worst[0] >= MAX_ITERATIONS:
        logger.info(
            "the estimate is valid, but not the nearest: a family's residuals are %.2g and %.2g after %d iterations",
            *(worst[1], worst[2], worst[0]),
        )
    return Fit(tails, [variance for _, variance in estimates], *worst)


def _check(levels: Sequence[Level], dispersions: FloatArray, tolerance: float) -> None:
    if not tolerance > 0:
        raise ValueError(f"tolerance={tolerance} must be positive")
    if len(dispersions) == 0 or not (dispersions > 0).all():
        raise ValueError(f"dispersions={dispersions.tolist()} must be positive numbers, one at least")
    if not levels or levels[0].values.ndim != 2 or len(levels[0].values) != 1 or levels[0].values.shape[1] == 0:
        raise ValueError("levels must begin with the root: one node, with one cell at least")
    for i, level in enumerate(levels):
        if i + 1 < len(levels):
            children = len(levels[i + 1].values)
            first = check_offsets(f"levels[{i}].first_child", level.first_child, "the next level", children)
            if len(first) != len(level.values) + 1 or (np.diff(first) < 1).any():
                raise ValueError(
                    f"levels[{i}].first_child must give each of {len(level.values)} nodes a child at least"
                )
        if level.values.shape[1] != levels[0].values.shape[1]:
            raise ValueError(f"levels[{i}].values has {level.values.shape[1]} cells; all levels must have the same")
        if not (0 < level.scale < np.inf):
            raise ValueError(f"levels[{i}].scale={level.scale} must be positive and finite")
        if len(level.most) != len(level.values) or not (level.most >= 0).all():
            raise ValueError(f"levels[{i}].most must be ≥ 0 for each of {len(level.values)} nodes")
        largest = max(int(level.values.max(initial=0)), -int(level.values.min(initial=0)))
        if largest * len(level.values) >= MAX_INPUT:
            raise ValueError(f"levels[{i}].values holds {largest} in {len(level.values)} nodes, too much to add up")


Estimate = tuple[FloatArray, FloatArray]
"""Means and variances: (nodes, cells) each."""


def _upward(
    levels: Sequence[Level], first_size: int, blocks: IntArray, dispersions: FloatArray
) -> tuple[list[Estimate], list[Estimate]]:
    """What every node's own cells and all below say together; and what those below say alone (empty for leaves)."""
    nothing = np.empty((0, 0))
    estimates: list[Estimate] = []
    below: list[Estimate] = [(nothing, nothing)]
    raw = np.zeros(0)  # per node, what least squares over raw cells, its own and those below, would leave of the noise
    for level in reversed(levels):
        mean, variance = np.empty(level.values.shape), np.empty(level.values.shape)

        def observe(
            slices: slice, level: Level = level, mean: FloatArray = mean, variance: FloatArray = variance
        ) -> None:
            noise = (level.scale, level.laplace)
            span = (slices.start, slices.stop)
            _observe(level.values, *noise, level.most, *span, first_size, blocks, dispersions, mean, variance)

        _in_threads(observe, np.ones(len(mean), dtype=np.int64))
        if estimates:
            summed, spread = np.empty(mean.shape), np.empty(mean.shape)
            _add_children(level.first_child, *estimates[-1], summed, spread)
            raw_below = np.add.reduceat(raw, level.first_child[:-1])
            own_noise = noise_variance(level.scale, level.laplace)
            # Who has more noise is the more likely to be wrong: shares as the squares of the noise's variances.
            share = raw_below**2 / (raw_below**2 + own_noise**2)
            _combine(blocks, mean, variance, summed, spread, share)
            raw = 1 / (1 / raw_below + 1 / own_noise)
            below.append((summed, spread))
        else:
            raw = np.full(len(mean), noise_variance(level.scale, level.laplace))
        estimates.append((mean, variance))
    return estimates[::-1], below[::-1]


def _downward(
    levels: Sequence[Level],
    i: int,
    mean: FloatArray,
    below: Estimate,
    above: Tails,
    dispersions: FloatArray,
    tolerance: float,
    first_size: int,
    blocks: IntArray,
) -> Callable[[slice], Part]:
    """How to estimate the families of a slice of level i's parents."""
    level, first_child = levels[i], levels[i - 1].first_child

    def work(slices: slice) -> Part:
        found: Part = estimate_families(
            level.values,
            first_child,
            slices.start,
            slices.stop,
            level.scale,
            level.laplace,
            mean,
            *below,
            level.most,
            first_size,
            blocks,
            dispersions,
            *above,
            tolerance,
        )
        return found

    return work


def _in_threads(work: Callable[[slice], Done], weights: IntArray) -> list[Done]:
    """Do the work for consecutive slices of items of about equal weight, side by side; kernels release the lock."""
    return list(side_by_side(work, chunks(weights, max(1, -(-int(weights.sum()) // SLICES)))))


@kernel
def _observe(
    values: IntArray,
    scale: float,
    laplace: bool,
    most: FloatArray,
    begin: int,
    end: int,
    first_size: int,
    blocks: IntArray,
    dispersions: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
) -> None:
    """Posterior means and variances of the nodes begin … end − 1 from their own cells."""
    n = values.shape[1]
    mu, dispersion, scratch, first = np.empty(n + 1), np.empty(n + 1), np.empty((5, n + 1)), np.empty(n, np.int64)
    fitted, ones = np.empty(n), np.ones(n)
    raw = 1.0 / noise_variance(scale, laplace)
    for node in range(begin, end):
        if most[node] == 0:
            mean[node] = 0.0
            variance[node] = 0.0
            continue
        given = values[node].astype(np.float64)
        isotonic_decreasing(given, ones, most[node], fitted, mean[node], variance[node], first)
        local_rates(fitted, first_size, EXTRA, mu)
        choose_dispersion(values[node], raw, mu, blocks, dispersions, dispersion)
        posterior(values[node], scale, laplace, most[node], mu, dispersion, mean[node], variance[node], scratch)


@kernel
def _add_children(
    first_child: IntArray, mean: FloatArray, variance: FloatArray, sums: FloatArray, spread: FloatArray
) -> None:
    """Sums of the children's means and variances, node by node."""
    for node in range(len(first_child) - 1):
        sums[node] = 0.0
        spread[node] = 0.0
        for c in range(first_child[node], first_child[node + 1]):
            sums[node] += mean[c]
            spread[node] += variance[c]


@kernel
def _combine(
    blocks: IntArray, mean: FloatArray, variance: FloatArray, sums: FloatArray, spread: FloatArray, share: FloatArray
) -> None:
    """Combine every node with what comes from below, by inverse variances; both may grow first.

    The two are independent: where, over a block of sizes, they differ by more than their variances allow, the excess is
    taken for errors of both, such as the small biases of bounded estimates, which add up over children: `share` of it,
    for each node, for that of what comes from below.
    """
    n = mean.shape[1]
    excess, cells = np.empty(blocks[n - 1] + 1), np.empty(blocks[n - 1] + 1)
    for node in range(len(mean)):
        excess[:] = 0.0
        cells[:] = 0.0
        for r in range(n):
            gap = mean[node, r] - sums[node, r]
            excess[blocks[r]] += gap * gap - variance[node, r] - spread[node, r]
            cells[blocks[r]] += 1.0
        for r in range(n):
            more = max(excess[blocks[r]] / cells[blocks[r]], 0.0)
            spread[node, r] += share[node] * more
            variance[node, r] += (1.0 - share[node]) * more
            both = variance[node, r] + spread[node, r]
            if both > 0.0:
                gain = variance[node, r] / both
                mean[node, r] += gain * (sums[node, r] - mean[node, r])
                variance[node, r] = gain * spread[node, r]


@kernel
def _share_variance(first_child: IntArray, above: FloatArray, variance: FloatArray) -> None:
    """What is left of the children's variances v once their sum is known with the variance p of their parent.

    v − v²/Σv + (v/Σv)²·p, as for independent normal numbers with a noisy sum.
    """
    n = variance.shape[1]
    total = np.empty(n)
    for node in range(len(first_child) - 1):
        total[:] = 0.0
        for c in range(first_child[node], first_child[node + 1]):
            total += variance[c]
        for c in range(first_child[node], first_child[node + 1]):
            for r in range(n):
                if total[r] > 0:
                    share = variance[c, r] / total[r]
                    variance[c, r] += share * (share * min(above[node, r], total[r]) - variance[c, r])


@kernel
def _round_root(mean: FloatArray, variance: FloatArray, most: float, out: IntArray) -> None:
    """The nearest non-increasing tail counts, rounded."""
    n = len(mean)
    x, scratch, first, weight = np.empty(n), np.empty((2, n)), np.empty(n, np.int64), np.empty(n)
    for r in range(n):
        weight[r] = 1.0 / max(variance[r], WEIGHED_VARIANCE)
    isotonic_decreasing(mean, weight, most, x, scratch[0], scratch[1], first)
    for r in range(n):
        out[r] = int(np.floor(x[r] + 0.5))
