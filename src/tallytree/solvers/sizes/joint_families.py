"""Tail counts of a complete hierarchy at once: monotone, additive, integer, from noisy tail counts of every level.

The raw cells of all levels are added up (`joint_rates.add_up`). From these sums follow the rates that every node
expects, from the root down, and with them every node's own cells give a posterior (`state_chain.posterior`). Upward, it
is combined with the sum of its children's by inverse variances. Downward, the root is made monotone and rounded. Then,
with a parent's integers fixed, its children are estimated anew: the parent's groups of each size are what they share,
their estimates are made to add up (`monotone_sums.fit_with_sums`), and are rounded. A parent is runs of equal tail
counts, and its children can only change where it does, so fitting a family costs (children) × (runs).

Source: ours.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from tallytree.solvers.checks import check_offsets
from tallytree.solvers.sizes.joint_downward import MAX_ITERATIONS, WEIGHED_VARIANCE, Part, Tails, estimate_families
from tallytree.solvers.sizes.joint_rates import (
    Estimate,
    NoisyCells,
    RawSums,
    SizeModel,
    add_children,
    add_up,
    combine,
    estimate_children,
    observe,
    rates_of_roots,
    shared_variances,
    sums_of_children,
)
from tallytree.solvers.sizes.monotone_sums import isotonic_decreasing
from tallytree.solvers.sizes.rates import DISPERSIONS, noise_variance, size_blocks
from tallytree.support.arrays import FloatArray, IntArray, chunks
from tallytree.support.kernels import kernel
from tallytree.support.machine import side_by_side

Done = TypeVar("Done")

logger = logging.getLogger(__name__)

SLICES = 32
"""The nodes of a level are divided into about this many slices, which threads work on."""
LEAST_CELLS = 4_000
"""A slice has at least about this many cells, which take some milliseconds: a thread costs a tenth of one."""
LEAST_DOUBT = 1e-9
"""Of `doubted_variance`, as a part of the variance, so that it is never 0."""
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
    iterations: int
    """Of the family that took most."""
    primal: float
    """The primal residual of that family, in groups."""
    dual: float
    """The dual residual of that family, in groups."""


class FromBelow(NamedTuple):
    """What the nodes of a level get from all levels below them."""

    sums: Estimate
    """The sums of the children's estimates."""
    doubt: FloatArray
    """(nodes,) how unreliable they are: see `Climbed.doubt`."""


class Climbed(NamedTuple):
    """What the pass upward finds at some consecutive levels."""

    estimates: list[Estimate]
    """Root first, from every node's own cells and all cells below."""
    below: list[Estimate]
    """Root first, from the cells below alone; empty for leaves."""
    doubt: FloatArray
    """(nodes,) of the first level, the variance that least squares over raw cells, its own and those below, would have
    with the noise of `doubted_variance`."""

    def sent_up(self, first_child: IntArray) -> FromBelow:
        """What the level above gets, whose node i has the children first_child[i] … first_child[i + 1] − 1."""
        sums = _empty((len(first_child) - 1, self.estimates[0].mean.shape[1]))
        add_children(first_child, self.estimates[0], sums)
        return FromBelow(sums, np.add.reduceat(self.doubt, first_child[:-1]))


class Descended(NamedTuple):
    """What the pass downward finds."""

    levels: list[Tails]
    """Root first."""
    worst: tuple[int, float, float]
    """Of the family that took most iterations: their number, and its primal and dual residuals, in groups."""


def fit(
    levels: Sequence[TailsLevel],
    *,
    first_size: int,
    total: int | None = None,
    dispersions: npt.ArrayLike = DISPERSIONS,
    tolerance: float = 0.01,
) -> TailsFit:
    """Estimate the tail counts of all nodes.

    A tree that is cut into bands is worked on by the functions that this one calls: `raw_sums`, `own_estimates` and
    `climb` one after the other, each with what bands have sent up or parents hand down; then `root_tails`, and
    `descend` above the cut and below it.

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
    if not levels or levels[0].values.ndim != 2 or len(levels[0].values) != 1 or levels[0].values.shape[1] == 0:
        check_options(dispersions, tolerance)
        raise ValueError("levels must begin with the root: one node, with one cell at least")
    model = size_model(levels[0].values.shape[1], first_size, dispersions)
    check_options(dispersions, tolerance)
    check_levels(levels)
    sums = raw_sums(levels)
    climbed = climb(levels, own_estimates(levels, sums, model)[0], model)
    root = root_tails(climbed, levels[0], sums[0], model, total)
    found = descend(levels[1:], levels[0].first_child, climbed, 1, root, model, tolerance)
    warn_of(found.worst)
    return TailsFit([root, *found.levels], *found.worst)


def size_model(cells: int, first_size: int, dispersions: npt.ArrayLike = DISPERSIONS) -> SizeModel:
    """What is assumed of the numbers of groups of each size: see `fit`."""
    kappas = np.atleast_1d(np.asarray(dispersions, dtype=np.float64))
    return SizeModel(first_size, size_blocks(cells, first_size), kappas)


def doubted_variance(level: TailsLevel) -> float:
    """The variance of the noise in a raw cell, times (1 − p)², where p is the probability that the noise is 0.

    Estimates are biased where they rest on expected numbers. Where p is nearly 1, they rest on the cells.
    """
    variance = float(noise_variance(level.scale, level.laplace))
    if level.laplace:
        certain = math.tanh(0.5 / level.scale)
    else:
        # The sum over all integers is about one of the two, whichever is more (Poisson's summation formula).
        few = 1 + 2 * sum(math.exp(-k * k / (2 * variance)) for k in (1, 2, 3))
        certain = 1 / max(few, math.sqrt(2 * math.pi * variance))
    return variance * ((1 - certain) ** 2 + LEAST_DOUBT)


def raw_sums(levels: Sequence[TailsLevel], under: RawSums | None = None) -> list[RawSums]:
    """The raw cells of each node and all below it; `under` is what the last level gets from below, None for leaves."""
    variances = [float(noise_variance(level.scale, level.laplace)) for level in levels]
    return add_up([level.values for level in levels], variances, [level.first_child for level in levels], under)


def raw_sums_under(levels: Sequence[TailsLevel], first_child: IntArray) -> RawSums:
    """What the level above gets, whose node i has the children first_child[i] … first_child[i + 1] − 1."""
    return sums_of_children(raw_sums(levels)[0], levels[0].values, first_child)


def own_estimates(
    levels: Sequence[TailsLevel],
    sums: Sequence[RawSums],
    model: SizeModel,
    first_child: IntArray | None = None,
    above: FloatArray | None = None,
) -> tuple[list[Estimate], FloatArray]:
    """Estimates of consecutive levels from each node's own cells alone, with rates from the cells of all levels.

    Args:
        levels: what was measured, upper levels first.
        sums: the raw sums of these levels.
        model: of the numbers of groups.
        first_child: (parents + 1,) where each parent's children begin in the first of the levels; None for the root.
        above: (parents, cells + 1) the rates that the parents hand down; None for the root.

    Returns:
        The estimates, upper levels first; and (nodes, cells + 1) the rates that the last level hands down, empty where
        nothing is below it.
    """
    found: list[Estimate] = []
    for level, raw in zip(levels, sums, strict=True):
        n = level.values.shape[1]
        own, cells = _empty(level.values.shape), level.cells()
        rates = np.empty((len(raw.values), n + 1))
        if first_child is None or above is None:
            items = np.ones(len(level.values), dtype=np.int64)
            work = partial(_observe_roots, cells, raw, model, own, rates)
        else:
            items = np.diff(first_child)
            work = partial(_estimate_children, cells, raw, first_child, above, model, own, rates)
        _in_threads(work, items, n)
        found.append(own)
        first_child, above = level.first_child, rates
    return found, rates


def _observe_roots(
    cells: NoisyCells, raw: RawSums, model: SizeModel, own: Estimate, rates: FloatArray, part: slice
) -> None:
    observe(cells, part.start, part.stop, model, own)
    if len(rates):
        rates_of_roots(cells, raw, part.start, part.stop, model, rates)


def _estimate_children(
    cells: NoisyCells,
    raw: RawSums,
    first_child: IntArray,
    above: FloatArray,
    model: SizeModel,
    own: Estimate,
    rates: FloatArray,
    part: slice,
) -> None:
    estimate_children(cells, raw, first_child, part.start, part.stop, above, model, own, rates)


def climb(
    levels: Sequence[TailsLevel], own: Sequence[Estimate], model: SizeModel, under: FromBelow | None = None
) -> Climbed:
    """Estimates of consecutive levels, from every node's own cells and all cells below.

    Args:
        levels: what was measured, upper levels first.
        own: the estimates from each node's own cells; overwritten.
        model: of the numbers of groups.
        under: what the last of the levels gets from those below it; None where it is the leaves'.
    """
    below: list[Estimate] = []
    doubt = np.zeros(0)
    for i in range(len(levels) - 1, -1, -1):
        level = levels[i]
        if below:
            under = Climbed([own[i + 1]], [], doubt).sent_up(level.first_child)
        own_doubt = doubted_variance(level)
        if under is None:
            doubt = np.full(len(level.values), own_doubt)
            below.append(_empty((0, 0)))
        else:
            # The noisier estimate is the more likely to be wrong: shares as the squares of the noise's variances.
            share = under.doubt**2 / (under.doubt**2 + own_doubt**2)
            combine(model.blocks, own[i], under.sums, share)
            doubt = 1 / (1 / under.doubt + 1 / own_doubt)
            below.append(under.sums)
    return Climbed(list(own), below[::-1], doubt)


def root_tails(climbed: Climbed, root: TailsLevel, sums: RawSums, model: SizeModel, total: int | None) -> Tails:
    """The integer tail counts of the root, which has the first of the estimates.

    Args:
        climbed: the estimates.
        root: what was measured there.
        sums: the raw sums of the root.
        model: of the numbers of groups.
        total: cell 0, if it is known.
    """
    values = np.empty(root.values.shape[1], np.int64)
    estimate = climbed.estimates[0]
    variance = estimate.wide[0].copy()
    if len(sums.values):
        shared = np.empty(len(values))
        below = climbed.below[0].variance[0]
        shared_variances(sums.values[0], float(sums.variance[0]), root.most[0], below, model, shared)
        np.maximum(variance, shared, out=variance)
    _round_root(estimate, root.most[0], variance, values)
    if total is not None:
        np.minimum(values, total, out=values)
        values[0], variance[0] = total, 0.0
    start = np.flatnonzero(np.diff(values, prepend=-1))
    last = np.append(start[1:], len(values)) - 1
    return Tails(np.array([0, len(start)], dtype=np.int64), start, values[start], variance[last])


def descend(
    levels: Sequence[TailsLevel],
    first_child: IntArray,
    climbed: Climbed,
    first: int,
    parents: Tails,
    model: SizeModel,
    tolerance: float,
) -> Descended:
    """The integer tail counts of consecutive levels, given those of the level above them.

    Args:
        levels: what was measured, upper levels first.
        first_child: (parents + 1,) where each parent's children begin in the first of the levels.
        climbed: the estimates of these levels.
        first: at which of the estimates the levels begin.
        parents: of the level above.
        model: of the numbers of groups.
        tolerance: of the residuals, in groups.
    """
    tails: list[Tails] = []
    worst = (0, 0.0, 0.0)
    for i, level in enumerate(levels):
        mean, below = climbed.estimates[first + i].mean, climbed.below[first + i]
        work = _downward(level, first_child, mean, below, parents, model, tolerance)
        parts = _in_threads(work, np.diff(first_child), level.values.shape[1])
        parents = _joined(parts)
        tails.append(parents)
        worst = max([worst, *((int(part[-1][0]), float(part[-1][1]), float(part[-1][2])) for part in parts)])
        first_child = level.first_child
    return Descended(tails, worst)


def warn_of(worst: tuple[int, float, float]) -> None:
    """Say that a family was not fitted to the tolerance; see `Descended.worst`."""
    if worst[0] >= MAX_ITERATIONS:
        logger.info(
            "the estimate is valid, but not the nearest: a family's residuals are %.2g and %.2g after %d iterations",
            *(worst[1], worst[2], worst[0]),
        )


def check_options(dispersions: npt.ArrayLike, tolerance: float) -> None:
    """Refuse options of `fit`.

    Raises:
        ValueError: a tolerance or a dispersion that is not positive.
    """
    kappas = np.atleast_1d(np.asarray(dispersions, dtype=np.float64))
    if not tolerance > 0:
        raise ValueError(f"tolerance={tolerance} must be positive")
    if len(kappas) == 0 or not (kappas > 0).all():
        raise ValueError(f"dispersions={kappas.tolist()} must be positive numbers, one at least")


def check_levels(levels: Sequence[TailsLevel], nodes: Sequence[int] | None = None) -> None:
    """Refuse levels that do not fit together.

    Args:
        levels: consecutive ones, upper levels first.
        nodes: how many nodes each level has in the whole tree, where these are those of a band.

    Raises:
        ValueError: see `fit`.
    """
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
        if largest * (len(level.values) if nodes is None else nodes[i]) >= MAX_TAIL_SUM:
            raise ValueError(f"levels[{i}].values holds {largest} in {len(level.values)} nodes, too much to add up")


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
    variance = np.concatenate([part[3] for part in parts])
    return Tails(np.concatenate([*offsets, begins[-1:]]), start, value, variance)


def _in_threads(work: Callable[[slice], Done], nodes: IntArray, cells: int) -> list[Done]:
    """Do the work for consecutive slices of items of about as many nodes, side by side; kernels release the lock."""
    return list(side_by_side(work, chunks(nodes, max(1, -(-int(nodes.sum()) // SLICES), LEAST_CELLS // cells))))


def _empty(shape: tuple[int, ...]) -> Estimate:
    return Estimate(np.empty(shape), np.empty(shape), np.empty(shape))


@kernel
def _round_root(estimate: Estimate, most: float, variance: FloatArray, out: IntArray) -> None:
    """Write the non-increasing tail counts that are nearest to the root's means, rounded; adds that to variances."""
    mean = estimate.mean[0]
    n = len(mean)
    x, scratch, first, weight = np.empty(n), np.empty((2, n)), np.empty(n, np.int64), np.empty(n)
    for r in range(n):
        weight[r] = 1.0 / max(estimate.variance[0, r], WEIGHED_VARIANCE)
    isotonic_decreasing(mean, weight, most, x, scratch[0], scratch[1], first)
    for r in range(n):
        out[r] = int(np.floor(x[r] + 0.5))
        variance[r] += (out[r] - x[r]) ** 2
