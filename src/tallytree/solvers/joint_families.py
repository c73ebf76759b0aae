"""Tail counts of a complete hierarchy at once: monotone, additive, integer, from noisy tail counts of every level.

Upward, every node's own cells give a posterior (`state_chain.posterior`, with rates and dispersions found from the
same noisy cells), which is combined with the sum of its children's by inverse variances. Downward, the root is made
monotone and rounded. Then, with a parent's integers fixed, its children are estimated anew: the parent's groups of each
size are what they share, their estimates are made to add up (`monotone_sums.fit_with_sums`), and are rounded. A parent
is runs of equal tail counts, and its children can only change where it does, so fitting a family costs
(children) × (runs).

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
from tallytree.solvers.joint_downward import MAX_ITERATIONS, WEIGHED_VARIANCE, Part, Tails, estimate_families
from tallytree.solvers.joint_upward import (
    Estimate,
    NoisyCells,
    SizeModel,
    add_children,
    combine,
    observe,
    share_variance,
)
from tallytree.solvers.monotone_sums import isotonic_decreasing
from tallytree.solvers.rates import DISPERSIONS, noise_variance, size_blocks

Done = TypeVar("Done")

logger = logging.getLogger(__name__)

SLICES = 32
"""The nodes of a level are divided into about this many slices, which threads work on."""
MAX_TAIL_SUM = 2**50
"""Sums of noisy tail counts are below this, so that doubles hold them exactly."""


class TailsLevel(NamedTuple):
    """One measured level."""

    values: IntArray
    """(nodes, cells) noisy tail counts."""
    first_child: IntArray
    """(nodes + 1,) node i has the children first_child[i]:first_child[i + 1] of the next measured level, one at
    least. Not used in the last level."""
    scale: float
    """Of the noise, > 0."""
    laplace: bool
    """Whether the noise is Laplace; Gaussian otherwise."""
    most: FloatArray
    """(nodes,) an upper bound of each node's tail counts; may be infinite."""

    def cells(self) -> NoisyCells:
        """What kernels get of the level."""
        return NoisyCells(self.values, float(self.scale), self.laplace, self.most)


class TailsFit(NamedTuple):
    """What `fit` returns."""

    levels: list[Tails]
    """Root first."""
    variances: list[FloatArray]
    """(nodes, cells) for each level, root first: the approximate variance of each tail count."""
    iterations: int
    """Of the family that took most."""
    primal: float
    """The primal residual of that family, in groups."""
    dual: float
    """The dual residual of that family, in groups."""


def fit(
    levels: Sequence[TailsLevel],
    *,
    first_size: int,
    total: int | None = None,
    dispersions: npt.ArrayLike = DISPERSIONS,
    tolerance: float = 0.01,
) -> TailsFit:
    """Estimate the tail counts of all nodes.

    Args:
        levels: what was measured, root first; the root has one node. All have the same cells.
        first_size: the size of cell 0; cell j is the number of groups of size ≥ first_size + j.
        total: the value of the root's cell 0, if it is known.
        dispersions: κ to choose from (see `rates`); a single one is used as it is; infinity means no smoothing.
        tolerance: of both residuals of every family, in groups (see `monotone_sums.fit_with_sums`).

    Returns:
        Non-negative integer tail counts, non-increasing in each node; each node's are the sum of its children's.

    Raises:
        ValueError: for levels that do not fit together, noise without a scale, a tolerance or a dispersion that is not
            positive, or values so large that doubles cannot add them up.
    """
    kappas = np.atleast_1d(np.asarray(dispersions, dtype=np.float64))
    _check(levels, kappas, tolerance)
    n = levels[0].values.shape[1]
    model = SizeModel(first_size, size_blocks(n, first_size), kappas)
    estimates, below = _upward(levels, model)
    root = np.empty(n, np.int64)
    _round_root(estimates[0].mean[0], estimates[0].variance[0], levels[0].most[0], root)
    if total is not None:
        np.minimum(root, total, out=root)
        root[0] = total
    start = np.flatnonzero(np.diff(root, prepend=-1))
    tails = [Tails(np.array([0, len(start)], dtype=np.int64), start, root[start])]
    worst = (0, 0.0, 0.0)
    for i in range(1, len(levels)):
        first_child = levels[i - 1].first_child
        families = _downward(levels[i], first_child, estimates[i].mean, below[i], tails[-1], model, tolerance)
        parts = _in_threads(families, np.diff(first_child))
        tails.append(_joined(parts))
        worst = max([worst, *((int(part[3][0]), float(part[3][1]), float(part[3][2])) for part in parts)])
        share_variance(first_child, estimates[i - 1].variance, estimates[i].variance)
    if worst[0] >= MAX_ITERATIONS:
        logger.info(
            "the estimate is valid, but not the nearest: a family's residuals are %.2g and %.2g after %d iterations",
            *(worst[1], worst[2], worst[0]),
        )
    return TailsFit(tails, [estimate.variance for estimate in estimates], *worst)


def _check(levels: Sequence[TailsLevel], dispersions: FloatArray, tolerance: float) -> None:
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
        if largest * len(level.values) >= MAX_TAIL_SUM:
            raise ValueError(f"levels[{i}].values holds {largest} in {len(level.values)} nodes, too much to add up")


def _upward(levels: Sequence[TailsLevel], model: SizeModel) -> tuple[list[Estimate], list[Estimate]]:
    """Estimates from every node's own cells and all cells below; and from those below alone (empty for leaves)."""
    estimates: list[Estimate] = []
    below = [Estimate(np.empty((0, 0)), np.empty((0, 0)))]
    raw = np.zeros(0)  # per node, the variance that least squares over raw cells, its own and those below, would have
    for level in reversed(levels):
        own, cells = Estimate(np.empty(level.values.shape), np.empty(level.values.shape)), level.cells()

        def work(slices: slice, cells: NoisyCells = cells, own: Estimate = own) -> None:
            observe(cells, slices.start, slices.stop, model, own)

        _in_threads(work, np.ones(len(level.values), dtype=np.int64))
        own_noise = noise_variance(level.scale, level.laplace)
        if estimates:
            sums = Estimate(np.empty(level.values.shape), np.empty(level.values.shape))
            add_children(level.first_child, *estimates[-1], *sums)
            raw_below = np.add.reduceat(raw, level.first_child[:-1])
            # The noisier estimate is the more likely to be wrong: shares as the squares of the noise's variances.
            share = raw_below**2 / (raw_below**2 + own_noise**2)
            combine(model.blocks, *own, *sums, share)
            raw = 1 / (1 / raw_below + 1 / own_noise)
            below.append(sums)
        else:
            raw = np.full(len(level.values), own_noise)
        estimates.append(own)
    return estimates[::-1], below[::-1]


def _downward(
    level: TailsLevel,
    first_child: IntArray,
    mean: FloatArray,
    below: Estimate,
    parents: Tails,
    model: SizeModel,
    tolerance: float,
) -> Callable[[slice], Part]:
    """The function that estimates the families of a slice of parents, whose children are the nodes of `level`."""
    cells = level.cells()

    def work(slices: slice) -> Part:
        found: Part = estimate_families(
            cells, first_child, slices.start, slices.stop, mean, below, model, parents, tolerance
        )
        return found

    return work


def _joined(parts: Sequence[Part]) -> Tails:
    """The runs of consecutive slices of nodes as those of one level."""
    begins = np.cumsum([0, *(len(part[1]) for part in parts)])
    offsets = [part[0][:-1] + begin for part, begin in zip(parts, begins[:-1], strict=True)]
    start, value = (np.concatenate([part[column] for part in parts]) for column in (1, 2))
    return Tails(np.concatenate([*offsets, begins[-1:]]), start, value)


def _in_threads(work: Callable[[slice], Done], weights: IntArray) -> list[Done]:
    """Do the work for consecutive slices of items of about equal weight, side by side; kernels release the lock."""
    return list(side_by_side(work, chunks(weights, max(1, -(-int(weights.sum()) // SLICES)))))


@kernel
def _round_root(mean: FloatArray, variance: FloatArray, most: float, out: IntArray) -> None:
    """Write the non-increasing tail counts that are nearest to the means, rounded."""
    n = len(mean)
    x, scratch, first, weight = np.empty(n), np.empty((2, n)), np.empty(n, np.int64), np.empty(n)
    for r in range(n):
        weight[r] = 1.0 / max(variance[r], WEIGHED_VARIANCE)
    isotonic_decreasing(mean, weight, most, x, scratch[0], scratch[1], first)
    for r in range(n):
        out[r] = int(np.floor(x[r] + 0.5))
