"""Cells of flows that learn from each other: what is expected of every measured node, and what its level tells of it.

From the root down, level by level:

1. **What is expected.** A cell is expected to have its part M of its parent's count. Parts are equal, or in proportion
   to the totals of what the level refines: a destination that has many trips from all origins is expected to have many
   from this one. Such a total is the sum of the level's measurements, without the cell's own. It is drawn to what equal
   parts would be, as far as noise explains the difference. Of the two, the level's own measurements choose: the parts
   under whose laws they are more probable.
2. **The laws** of x/M are learned from all cells of the level (`solvers.trees.cell_laws`), those that IntOpt left out
   too: they were chosen by their noise.
3. **Each cell.** The law and the cell's estimate from its own measurement and those below it give its median, mean and
   variance. M is to know nothing of the cell: it is made of the parent's mean given the parent's own measurement alone.

All of this is post-processing of the noisy measurements, and the same in every run: nothing is drawn. M may come from
elsewhere: nothing but `_expected` computes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tallytree.counts.measured_level import MeasuredLevel
from tallytree.counts.prior_fit import PriorOfCounts
from tallytree.hierarchy import Tree
from tallytree.product import Product
from tallytree.solvers.trees.cell_laws import (
    LEAST_EXPECTED,
    LISTED,
    CellLaws,
    CellPosteriors,
    cell_laws,
    cell_posteriors,
    least_of_cells,
)
from tallytree.support.arrays import FloatArray, IntArray

LEAST_VARIANCE = 0.01
"""Of a count: none is taken to be known better."""
BEYOND = 4.0
"""Standard deviations above its parent's mean beyond which no true number is looked for."""
LEAST_OF_PARENT = 1e-3
LEAST_PART = 0.05
"""Of an equal part: no part is expected to be smaller."""
PARTS_OF_PRIOR = (0.5, 0.9, 0.98)
"""The parts of M that are tried; the rest is what is expected without a prior, so that a 0 in it may have records."""
PARTS_APART = (1e-4, 1e4)
"""Where the variance of parts is looked for, beside that of noise."""


@dataclass(frozen=True, eq=False)
class LearnedLevel:
    """What is learned of the nodes of a measured level, float64 (n,) each.

    Attributes:
        median: of each true number; it errs least.
        mean: of it.
        variance: of it.
        zero: the probability that it is 0.
        slack: by how much its own measurement could be smaller with its median, and those of its ancestors, still at
            `LISTED`, all other measurements as they are; infinite where it does not matter.
        rest: the sum of the means of its children, less the medians of those that are listed.
        rest_variance: of the true number that `rest` stands for, beside those that are listed.
    """

    median: FloatArray
    mean: FloatArray
    variance: FloatArray
    zero: FloatArray
    slack: FloatArray
    rest: FloatArray
    rest_variance: FloatArray


def learned(
    tree: Tree, levels: Sequence[MeasuredLevel], slacks: Sequence[FloatArray], prior: PriorOfCounts | None = None
) -> list[LearnedLevel]:
    """What the cells of each level tell of each other, root first.

    Args:
        tree: the public tree.
        levels: the measured levels, root first, with what was left out; the root's count is not 0.
        slacks: of the first levels, whose nodes are listed by another rule: `LearnedLevel.slack` by that rule, float64
            (n,) each.
        prior: what the counts are expected to resemble; None without it.
    """
    estimates, variances = _from_below(levels)
    root = np.maximum(estimates[0], 1.0)
    zeros = np.zeros(1)
    found = [LearnedLevel(root, root, variances[0], zeros, slacks[0], zeros, zeros)]
    mean, variance = root, variances[0]
    for place in range(1, len(levels)):
        level, kept = levels[place], len(levels[place].nodes)
        alone = _cells(level, level.noisy.astype(np.float64), np.full(kept, level.variance), mean, variance)
        cells = _cells(level, estimates[place], variances[place], mean, variance, place < len(levels) - 1)
        expected, laws = _expected(tree, level, mean, cells, prior)
        cells[1] = alone[1] = expected
        known = cell_posteriors(cells, laws)
        if place < len(slacks):
            slack = slacks[place]
        else:
            slack = _slack(levels, place, estimates, variances, found[-1], cells, laws, known)
        found[-1] = _with_rest(found[-1], level, known)
        here = slice(0, kept)
        found.append(
            LearnedLevel(
                known.median[here], known.mean[here], known.variance[here], known.zero[here], slack,
                np.zeros(kept), np.zeros(kept),
            )
        )  # fmt: skip
        if place < len(levels) - 1:
            of_own = cell_posteriors(alone[:, here], laws)
            mean, variance = of_own.mean, of_own.variance
    return found


def _all(level: MeasuredLevel) -> tuple[IntArray, IntArray, FloatArray]:
    """Of the nodes of a level, then of those that were left out: the parent, the number, the measurement."""
    left = level.others
    return (
        np.concatenate([level.parents, left.parents]),
        np.concatenate([level.nodes, left.nodes]),
        np.concatenate([level.noisy, left.noisy]).astype(np.float64),
    )


def _from_below(levels: Sequence[MeasuredLevel]) -> tuple[list[FloatArray], list[FloatArray]]:
    """The estimate of every node by its own measurement and those below it, and the variance of its error."""
    estimates = [levels[-1].noisy.astype(np.float64)]
    variances = [np.full(len(levels[-1].nodes), levels[-1].variance)]
    for level, below in zip(levels[-2::-1], levels[:0:-1], strict=True):
        families, left = len(level.nodes), below.others
        sums = np.bincount(below.parents, estimates[-1], minlength=families) + left.sums(families)
        of_sums = np.bincount(below.parents, variances[-1], minlength=families)
        of_sums = of_sums + below.variance * np.bincount(left.parents, minlength=families)
        gain = level.variance / (level.variance + of_sums)
        estimates.append(level.noisy + gain * (sums - level.noisy))
        variances.append(gain * of_sums)
    return estimates[::-1], variances[::-1]


def _cells(
    level: MeasuredLevel,
    estimates: FloatArray,
    variances: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    combined: bool = False,
) -> FloatArray:
    """The cells of a level for `cell_laws`, (5, n), those left out last; M is an equal part of the parent's mean.

    Args:
        level: with what was left out.
        estimates: float64 (n,), of its nodes.
        variances: float64 (n,), of them.
        mean: float64 (n above,), of the parents.
        variance: float64 (n above,), of the parents.
        combined: whether estimates are made of several measurements, so that their errors are about normal.
    """
    parents, _, noisy = _all(level)
    kept = len(level.nodes)
    above = np.maximum(mean, LEAST_OF_PARENT)
    expected = np.maximum((above / level.families)[parents], LEAST_EXPECTED)
    deviations = np.sqrt(np.concatenate([variances, np.full(len(parents) - kept, level.variance)]))
    laplace = np.full(len(parents), float(level.laplace))
    laplace[:kept] *= not combined
    most = np.maximum((above + BEYOND * np.sqrt(variance))[parents], 2 * expected)
    return np.stack([np.concatenate([estimates, noisy[kept:]]), expected, deviations, laplace, most])


def _expected(
    tree: Tree, level: MeasuredLevel, mean: FloatArray, cells: FloatArray, prior: PriorOfCounts | None = None
) -> tuple[FloatArray, CellLaws]:
    """M of every cell, and the laws with it: of the parts that are tried, those that explain the level best.

    Parts are equal; of a product also by totals; with a prior also mixtures of its own and the best of these.
    """
    equal, laws = cells[1], cell_laws(cells)
    best = equal
    if not isinstance(tree, Product):
        return best, laws
    parents, nodes, noisy = _all(level)

    def by_laws(parts: FloatArray) -> tuple[FloatArray, CellLaws]:
        expected = np.maximum(_scaled(parts, parents, equal), LEAST_EXPECTED)
        return expected, cell_laws(np.stack([cells[0], expected, *cells[2:]]))

    by_totals = equal * _parts_by_totals(tree.refined_nodes(level.depth, nodes), noisy, level.variance, equal)
    tried = by_laws(by_totals)
    if tried[1].likelihood > laws.likelihood:
        best, laws = tried
    known = None if prior is None else prior.at(level.depth, nodes)
    there = None if known is None else ~np.isnan(known)
    if known is not None and there is not None and there.any():
        own, others = best.copy(), best
        own[there] = _scaled(known[there], parents[there], best[there])
        for part in PARTS_OF_PRIOR:
            tried = by_laws(part * own + (1 - part) * others)
            if tried[1].likelihood > laws.likelihood:
                best, laws = tried
    return best, laws


def _scaled(parts: FloatArray, parents: IntArray, equal: FloatArray) -> FloatArray:
    """Parts that add up to what others, `equal`, do, family by family: float64 (n,); those where all are 0."""
    sums, wanted = (np.bincount(parents, each, minlength=int(parents.max()) + 1) for each in (parts, equal))
    scale = np.divide(wanted, sums, out=np.zeros(len(sums)), where=sums > 0)
    return np.where((sums > 0)[parents], parts * scale[parents], equal)


def _parts_by_totals(of: IntArray, noisy: FloatArray, variance: float, equal: FloatArray) -> FloatArray:
    """How many times an equal part each cell is expected to have, float64 (n,), by the totals of what it is of.

    Args:
        of: int64 (n,), for instance the destination of each cell.
        noisy: float64 (n,), the measurements.
        variance: of their noise.
        equal: float64 (n,), M with equal parts.
    """
    _, of = np.unique(of, return_inverse=True)
    sums, wanted, count = np.bincount(of, noisy), np.bincount(of, equal), np.bincount(of)
    ratio, error = sums / wanted, count * variance / wanted**2
    low, high = PARTS_APART
    enough = len(sums) + 2 * np.sqrt(2 * len(sums))  # χ² exceeds it by chance in one of forty cases or fewer
    for _ in range(40):  # the variance of ratios beside noise (Paule and Mandel 1982)
        middle = float(np.sqrt(low * high))
        if float(((ratio - 1) ** 2 / (error + middle)).sum()) > enough:
            low = middle
        else:
            high = middle
    others = np.maximum(wanted[of] - equal, LEAST_EXPECTED)
    of_others = (count[of] - 1) * variance / others**2
    found = 1 + low / (low + of_others) * ((sums[of] - noisy) / others - 1)
    return np.where(count[of] > 1, np.maximum(found, LEAST_PART), 1.0)


def _slack(
    levels: Sequence[MeasuredLevel],
    place: int,
    estimates: Sequence[FloatArray],
    variances: Sequence[FloatArray],
    above: LearnedLevel,
    cells: FloatArray,
    laws: CellLaws,
    known: CellPosteriors,
) -> FloatArray:
    """See `LearnedLevel.slack`, float64 (n,). What is expected of a cell is taken as it is."""
    level, kept = levels[place], len(levels[place].nodes)
    own = np.full(kept, np.inf)
    listed = np.flatnonzero(known.median[:kept] >= LISTED)
    own[listed] = cells[0, listed] - least_of_cells(cells[:, listed], laws)
    # How fast estimates rise with the measurement: this one's with its own, the parent's with this one.
    rise = variances[place] / level.variance
    of_sums = np.bincount(level.parents, variances[place], minlength=len(level.families))
    of_sums = of_sums + level.variance * np.bincount(level.others.parents, minlength=len(level.families))
    higher = levels[place - 1].variance
    with np.errstate(divide="ignore", invalid="ignore"):
        of_parent = np.where(of_sums > 0, higher / (higher + of_sums), 0.0)[level.parents]
        own_of_parent = above.slack * (variances[place - 1] / higher if higher > 0 else 0.0)
        through = np.where(of_parent > 0, own_of_parent[level.parents] / of_parent, np.inf)
    through = np.where(np.isnan(through), np.inf, through)
    found: FloatArray = np.minimum(own, through) / rise
    return found


def _with_rest(above: LearnedLevel, level: MeasuredLevel, known: CellPosteriors) -> LearnedLevel:
    """A level with what is expected beside the listed ones of its children, which are here with those left out."""
    parents, _, _ = _all(level)
    listed = known.median >= LISTED
    listed[len(level.nodes) :] = False
    families = len(level.families)
    beside = known.mean - np.where(listed, known.median, 0.0)
    rest: FloatArray = np.bincount(parents, beside, minlength=families).astype(np.float64)
    variance = np.bincount(parents, np.where(listed, 0.0, known.variance), minlength=families).astype(np.float64)
    return replace(above, rest=rest, rest_variance=variance)
