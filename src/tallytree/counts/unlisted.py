"""`unlisted="remainder"`: which nodes are listed, and what is left of each count beside them.

What adds up cannot be better than publishing nothing where nothing is known of the cells: a parent's 100 trips must lie
somewhere among 1,000 pairs. So a node is listed only where that lowers the expected absolute error of its count, and
the rest of its parent's count is published as one number.

The number with the least expected absolute error is the median of what the measurements say of a node. A node is listed
where its parent is, and the median is ½ or more. Two models say it, and the measurements choose:

* that of `counts.auto_sparsity`: a node is 0 with a probability 1 − p, and about N(m, s²) otherwise
  (`solvers.trees.sparse_posterior`). Every leaf that is not 0 has the same law; the tree above says where they lie.
* laws that the cells of each level learn from each other (`counts.learned_cells`): a cell has a multiple of its part of
  its parent's count. It needs no tree, and holds where a few cells are large and many small.

The expected square of either's error at inner levels is known but for a constant, without a model (Stein 1981). The
first model is used where it errs less in all, and no level tells against it.

Levels of few nodes have nothing to learn from, and those with little noise nothing to gain. They keep the counts that
they have without remainders. Below, the integers that add up, with what is left of every parent at 0 or more, nearest
to the medians in units of s, are published. All of this is post-processing of the noisy measurements, and the same in
every run: nothing is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from tallytree.counts.learned_cells import LearnedLevel, learned
from tallytree.counts.least_squares import LeastSquares
from tallytree.counts.listed_errors import Known, Rule, known_of, listed_errors, sparsity_of
from tallytree.counts.measured_level import MeasuredLevel
from tallytree.counts.mechanism import Begun
from tallytree.counts.prior_fit import PriorOfCounts
from tallytree.counts.released_counts import ListedErrors, ReleasedCounts
from tallytree.counts.sparse_fit import SparseFit, counts_of, places_of, share_unlisted, sparse_fit, whole_fit
from tallytree.hierarchy import Tree
from tallytree.solvers.trees.cell_laws import LISTED
from tallytree.solvers.trees.project import project
from tallytree.solvers.trees.sparse_posterior import Posterior
from tallytree.support.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Remainders(LeastSquares):
    """`LeastSquares` that lists a node only where that lowers the expected error, and says how much is not listed.

    What `release_flows` and `release_counts` use with `unlisted="remainder"`.

    Raises:
        ValueError: a sparsity.
    """

    lists_remainders: ClassVar[bool] = True

    def takes_prior(self, tree: Tree) -> bool:
        """See `CountsMechanism`."""
        return not tree.enumerated

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if self.sparsity != 0:
            raise ValueError(
                f"sparsity: {self.sparsity!r} drops nodes, and unlisted='remainder' says how much is not listed; leave "
                "one of the two out"
            )

    def _finished(
        self,
        tree: Tree,
        before: Sequence[MeasuredLevel],
        levels: Sequence[MeasuredLevel],
        prior: PriorOfCounts | None = None,
    ) -> Begun:
        if not self._may_choose(before):
            return super()._finished(tree, before, levels)
        found, about = listed(tree, before, levels, [tree.possible(level.depth) for level in before], prior)
        return Begun(_all_levels(tree, [level.depth for level in before], found), dense=True, facts=about)


LEAST_VARIANCE = 0.01
"""Of a count that is not 0: no count is taken to be known better."""
LEAST_LEARNED, LEAST_NOISE = 200, 0.02
"""A level of fewer measured nodes keeps the counts of the fit, and one whose noise is a smaller part of the total."""
AGAINST = 1.5
"""In standard deviations: how far a level may tell against the model of the tree."""
FIRMER = 100.0
"""Times as firmly as its children a node is fitted to its median, which knows what was measured of them."""
CERTAIN = 1e-4
"""The variance of a count that is kept."""


@dataclass(frozen=True, eq=False)
class _Wanted:
    """What a model wants of every measured node, level by level, float64 (n,) each.

    Attributes:
        median: of its true number.
        variance: of it.
        rest: what is left beside the children that are listed.
        rest_variance: of that; infinite where `rest` says nothing.
        least: the least measurement at which it is listed.
        zero: the probability that it is 0.
        firmer: how many times as firmly as its children it is fitted.
    """

    median: FloatArray
    variance: FloatArray
    rest: FloatArray
    rest_variance: FloatArray
    least: FloatArray
    zero: FloatArray
    firmer: float


def listed(
    tree: Tree,
    levels: Sequence[MeasuredLevel],
    whole: Sequence[MeasuredLevel],
    sizes: Sequence[int],
    prior: PriorOfCounts | None = None,
) -> tuple[list[ReleasedCounts], Mapping[str, Any]]:
    """The listed nodes of every measured level with their counts, and what is left beside their children.

    Args:
        tree: the public tree.
        levels: all measured levels, root first, with what was left out; the root's count is not 0.
        whole: the same levels in the fit of all nodes.
        sizes: the number of nodes of each of them in the public tree.
        prior: what the counts are expected to resemble; None without it.

    Returns:
        The levels, with `unlisted`; and what the statement says of the model.
    """
    found = sparsity_of(levels, sizes)
    known = known_of(levels, sizes, found)
    today = sparse_fit(levels, whole, sizes)
    if not isinstance(today, SparseFit):
        today = whole_fit(levels, whole, sizes[-1], today)
    first = _first_learned(levels)
    fit = [_of_fit(*each) for each in zip(today.levels, today.errors, levels[:first], strict=False)]
    slacks = [level.noisy - errors.listed_from for level, (_, errors) in zip(levels, fit, strict=False)]
    cells = learned(tree, levels, slacks, prior)
    by_tree = _tree_errs_less(levels, known, cells)
    wanted = _of_tree(known) if by_tree else _of_cells(levels, cells)
    ends = np.cumsum([0, *(len(level.nodes) for level in levels)])
    firm = int(ends[first])
    parent = np.concatenate([[-1], *(b.parents + start for b, start in zip(levels[1:], ends, strict=False))])
    median, variance = wanted.median.copy(), np.maximum(wanted.variance, LEAST_VARIANCE)
    median[:firm], variance[:firm] = np.concatenate([counts for counts, _ in fit]), CERTAIN
    shown = median >= LISTED
    shown[0] = True
    for begin, end in pairwise(ends[1:]):
        shown[begin:end] &= shown[parent[begin:end]]
    nodes = np.flatnonzero(shown)
    children = np.bincount(parent[nodes[1:]], minlength=len(shown))
    families = np.concatenate([*(level.families for level in levels[1:]), np.zeros(len(levels[-1].nodes), np.int64)])
    partly = np.flatnonzero(shown & (children < families))
    partly = partly[partly >= ends[first - 1]]
    errors = listed_errors(levels, wanted.least, zero=wanted.zero if found.few else None)
    errors[:first] = [each for _, each in fit]
    below = wanted.firmer ** (len(levels) - 1.0 - np.repeat(np.arange(len(levels)), np.diff(ends)))
    counts = _counts(
        levels[0], nodes, partly, parent, (median, below / variance),
        (np.maximum(wanted.rest, 0.0), below / wanted.firmer / np.maximum(wanted.rest_variance, LEAST_VARIANCE)),
    )  # fmt: skip
    left = np.zeros(len(shown), dtype=np.int64)
    left[partly] = counts[len(nodes) :]
    published = np.zeros(len(shown), dtype=np.int64)
    published[nodes] = counts[: len(nodes)]
    levels_published = []
    for place, (level, error) in enumerate(zip(levels, errors, strict=True)):
        part = slice(ends[place], ends[place + 1])
        of_rest = None
        if place + 1 < len(levels):
            children_listed = published[ends[place + 1] : ends[place + 2]] > 0
            of_rest = _errors_of_rest(error, errors[place + 1], levels[place + 1].parents, children_listed)
        levels_published.append(_level(level, published[part], left[part], error, of_rest))
    rest = float(left.sum()) / max(float(published[0]), 1.0)
    at_most = share_unlisted(errors[0], errors[-1].at(np.flatnonzero(published[ends[-2] :])))
    shares = {key: float(f"{each:.3g}") for key, each in (("in_unlisted", rest), ("unlisted_at_most", at_most))}
    return levels_published, {"unlisted": {**found.facts(), "learned": not by_tree, **shares}}


def _first_learned(levels: Sequence[MeasuredLevel]) -> int:
    """The place of the first level that does not keep its counts; the leaves never do."""
    first, total = 1, float(levels[0].counts[0])
    while first < len(levels) - 1:
        level = levels[first]
        noise = math.sqrt(2 * level.variance / math.pi) * len(level.nodes)
        if _learns(level) and noise > LEAST_NOISE * total:
            break
        first += 1
    return first


def _learns(level: MeasuredLevel) -> bool:
    return len(level.nodes) + len(level.others.nodes) >= LEAST_LEARNED


def _of_fit(fit: MeasuredLevel, errors: ListedErrors, level: MeasuredLevel) -> tuple[IntArray, ListedErrors]:
    """The counts of all nodes of a level in the fit without remainders, and their errors; of others nothing is told."""
    n, at = len(level.nodes), places_of(fit.nodes, level.nodes)

    def spread(values: FloatArray, other: float) -> FloatArray:
        found = np.full(n, other)
        found[at] = values
        return found

    zero = None if errors.probability_zero is None else spread(errors.probability_zero, np.nan)
    return counts_of(fit, level), ListedErrors(
        spread(errors.unbiased, 0.0), spread(errors.std_dev, 0.0), spread(errors.listed_from, -np.inf), zero,
        errors.laplace,
    )  # fmt: skip


def _tree_errs_less(levels: Sequence[MeasuredLevel], known: Known, cells: Sequence[LearnedLevel]) -> bool:
    """Whether the model of the tree is used: at inner levels it errs less in all, and no level tells against it.

    The mean of x given all measurements has a slope of its variance over that of the noise in the own measurement y. So
    (mean − y)² + 2·variance is, but for a constant, the expected square of its error (Stein's unbiased estimate of the
    risk). Of each level the sum of the differences is taken, in its standard deviations.

    The leaves that it lists are to be better than no leaf by what the laws say, too. A listed count c of which the true
    number is 0 errs by c more than nothing, and by 2·x − c less where that is x ≤ c.
    """
    told = []
    for level, part, cell in zip(levels[1:-1], known.levels[1:], cells[1:], strict=False):
        if not _learns(level):
            continue
        chance, value = known.posterior.probability[part], np.maximum(known.posterior.mean[part], 0.0)
        mean = chance * value
        variance = chance * (known.posterior.variance[part] + value**2) - mean**2
        risk, other = (
            (each - level.noisy) ** 2 + 2 * np.minimum(of, level.variance)
            for each, of in ((mean, variance), (cell.mean, cell.variance))
        )
        apart = risk - other
        told.append(float(apart.sum()) / max(float(np.sqrt((apart**2).sum())), 1e-9))
    count = _median(known.posterior)[known.levels[-1]]
    zero, mean = cells[-1].zero, cells[-1].mean
    if_there = np.maximum(count - 2 * mean / np.maximum(1 - zero, 1e-9), -count)
    loss = np.where(count >= LISTED, zero * count + (1 - zero) * if_there, 0.0)
    return bool(told) and sum(told) < 0 and max(told) <= AGAINST and float(loss.sum()) <= 0


def _of_tree(known: Known) -> _Wanted:
    """What the model of the tree wants."""
    n = len(known.means)
    least = Rule(known, np.full(n, 0.5), LISTED).least()
    return _Wanted(
        _median(known.posterior), known.posterior.variance, np.zeros(n), np.full(n, np.inf), least, known.zero, 1.0
    )


def _of_cells(levels: Sequence[MeasuredLevel], cells: Sequence[LearnedLevel]) -> _Wanted:
    """What the laws of cells want."""
    least = np.concatenate([np.ceil(level.noisy - cell.slack) for level, cell in zip(levels, cells, strict=True)])
    median, variance, rest, rest_variance, zero = (
        np.concatenate([getattr(cell, name) for cell in cells])
        for name in ("median", "variance", "rest", "rest_variance", "zero")
    )
    return _Wanted(median, variance, rest, rest_variance, least, zero, FIRMER)


def _all_levels(tree: Tree, depths: Sequence[int], levels: Sequence[ReleasedCounts]) -> list[ReleasedCounts]:
    """The counts of every level of the tree from those of the measured ones; in between every node has one child.

    What is left beside a node's children is given at the level right above these.
    """
    found: list[ReleasedCounts] = []
    for first, stop, level in zip(depths, [*depths[1:], len(tree.levels)], levels, strict=True):
        nodes, left = level.nodes, level.unlisted
        rest = np.empty(0, dtype=np.int64) if left is None else left.nodes
        for depth in range(first, stop):
            if depth > first:
                nodes, rest = (tree.children(depth - 1, each)[0] for each in (nodes, rest))
            at_last = None if left is None or depth < stop - 1 else replace(left, nodes=rest)
            found.append(replace(level, nodes=nodes, unlisted=at_last))
    return found


def _level(
    level: MeasuredLevel, counts: IntArray, left: IntArray, errors: ListedErrors, errors_of_rest: ListedErrors | None
) -> ReleasedCounts:
    kept, rest = np.flatnonzero(counts), np.flatnonzero(left)
    of_rest = None if errors_of_rest is None else errors_of_rest.at(rest)
    unlisted = ReleasedCounts(level.nodes[rest], left[rest], errors=of_rest)
    return ReleasedCounts(level.nodes[kept], counts[kept], unlisted=unlisted, errors=errors.at(kept))


def _errors_of_rest(errors: ListedErrors, below: ListedErrors, parents: IntArray, these: BoolArray) -> ListedErrors:
    """What is known of what is left of every node beside its listed children: its estimate less theirs.

    It lies between two numbers, but for noise. Half their distance is added to the standard deviation of the noise.
    """
    families, listed = len(errors.unbiased), np.flatnonzero(these)
    least, most = (
        end - np.bincount(parents[listed], each[listed], minlength=families)
        for end, each in zip(errors.bounds(), below.bounds()[::-1], strict=True)
    )
    squares = np.bincount(parents[listed], below.std_dev[listed] ** 2, minlength=families)
    return ListedErrors(
        (least + most) / 2,
        np.sqrt(errors.std_dev**2 + squares) + (most - least) / 2,
        np.full(families, -np.inf),
        None if errors.probability_zero is None else np.full(families, np.nan),
        errors.laplace,
    )


def _counts(
    root: MeasuredLevel,
    nodes: IntArray,
    partly: IntArray,
    parent: IntArray,
    wanted: tuple[FloatArray, FloatArray],
    rest: tuple[FloatArray, FloatArray],
) -> IntArray:
    """The integers of the listed nodes, then those of what is left beside the children of some of them.

    Args:
        root: the root's level.
        nodes: int64, the listed nodes.
        partly: int64, those with children that are not listed.
        parent: int64 (n,), of each node.
        wanted: float64 (n,) each, what each node's count is to be, and the weight of that.
        rest: the same of what is left beside its children.
    """
    place = np.full(len(parent), -1, dtype=np.int64)
    place[nodes] = np.arange(len(nodes))
    above = np.concatenate([[-1], place[parent[nodes[1:]]], place[partly]])
    counts, weights = (
        np.concatenate([of_node[nodes], of_rest[partly]]) for of_node, of_rest in zip(wanted, rest, strict=True)
    )
    counts = np.rint(counts).astype(np.int64)
    if root.variance == 0:
        counts[0], weights[0] = root.noisy[0], np.inf
    return project(above, counts, weights)


def _median(known: Posterior) -> FloatArray:
    """The median of every node's count; 0 where it is more probably 0 than not."""
    from scipy.special import ndtri  # 0.2 s: only where it is needed

    probability = np.maximum(known.probability, 0.5 + 1e-12)
    found = known.mean + np.sqrt(known.variance) * ndtri(1 - 0.5 / probability)
    return np.where(known.probability > 0.5, np.maximum(found, 0.0), 0.0)
