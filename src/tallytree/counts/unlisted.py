"""`unlisted="remainder"`: which nodes are listed, and what is left of each count beside them.

What adds up cannot be better than publishing nothing where nothing is known of the cells: a parent's 100 trips must lie
somewhere among 1,000 pairs. So a node is listed only where that lowers the expected absolute error of its count, and
the rest of its parent's count is published as one number.

The model is that of `counts.auto_sparsity`: given all measurements, a node is 0 with a probability 1 − p, and about
N(m, s²) otherwise (`solvers.trees.sparse_posterior`). The number with the least expected absolute error is the median
of that. A node is listed where its parent is, and the median is ½ or more. The integers that add up, with what is left
of every parent at 0 or more, nearest to the medians in units of s, are published. An inner node below which much is not
listed keeps its count in the fit of all nodes, as in `counts.sparse_fit`. All of this is post-processing of the
noisy measurements, and the same in every run: nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from tallytree.counts.least_squares import LeastSquares
from tallytree.counts.listed_errors import Rule, known_of, listed_errors, sparsity_of
from tallytree.counts.measured_level import MeasuredLevel
from tallytree.counts.mechanism import Begun
from tallytree.counts.prior_fit import PriorOfCounts
from tallytree.counts.released_counts import ListedErrors, ReleasedCounts
from tallytree.counts.sparse_fit import FIRMNESS, expected_in, firm_counts, share_unlisted
from tallytree.hierarchy import Tree
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
        found, about = listed(before, levels, [tree.size(level.depth) for level in before])
        return Begun(_all_levels(tree, [level.depth for level in before], found), dense=True, facts=about)


LEAST_MEDIAN = 0.5
"""A median below this is nearer to 0 than to 1."""
LEAST_VARIANCE = 0.01
"""Of a count that is not 0: no count is taken to be known better."""


def listed(
    levels: Sequence[MeasuredLevel], whole: Sequence[MeasuredLevel], sizes: Sequence[int]
) -> tuple[list[ReleasedCounts], Mapping[str, Any]]:
    """The listed nodes of every measured level with their counts, and what is left beside their children.

    Args:
        levels: all measured levels, root first, with what was left out; the root's count is not 0.
        whole: the same levels in the fit of all nodes.
        sizes: the number of nodes of each of them in the public tree.

    Returns:
        The levels, with `unlisted`; and what the statement says of the model.
    """
    found = sparsity_of(levels, sizes)
    known = known_of(levels, sizes, found)
    tree = known.tree
    per_level = [len(level.nodes) for level in levels]
    median, variance = _median(known.posterior), np.maximum(known.posterior.variance, LEAST_VARIANCE)
    starts = np.concatenate([[0], np.cumsum(per_level)])
    parent = np.concatenate([[-1], *(b.parents + start for b, start in zip(levels[1:], starts, strict=False))])
    shown = median >= LEAST_MEDIAN
    shown[0] = True
    for begin, end in pairwise(starts[1:]):
        shown[begin:end] &= shown[parent[begin:end]]
    nodes = np.flatnonzero(shown)
    children = np.bincount(parent[nodes[1:]], minlength=len(shown))
    partly = np.flatnonzero(shown & (children < tree.families))
    rule = Rule(known, np.full(len(shown), 0.5), LEAST_MEDIAN)
    errors = listed_errors(levels, rule, chances=known if found.few else None)
    missing, _ = expected_in(known, errors, float(levels[0].counts[0]), shown[known.levels[-1]])
    fits, kept = firm_counts(levels, whole, missing, errors)
    fit = np.concatenate(fits)
    firm = np.concatenate(kept) & (fit > 0)
    firm[0] = True
    own = np.maximum(tree.variances, LEAST_VARIANCE) / FIRMNESS
    median, variance = np.where(firm, fit, median), np.where(firm, np.minimum(own, variance), variance)
    counts = _counts(levels[0], nodes, partly, parent, median, variance)
    left = np.zeros(len(shown), dtype=np.int64)
    left[partly] = counts[len(nodes) :]
    published = np.zeros(len(shown), dtype=np.int64)
    published[nodes] = counts[: len(nodes)]
    levels_published = []
    for place, (level, part, error) in enumerate(zip(levels, known.levels, errors, strict=True)):
        below = None
        if place + 1 < len(levels):
            children_listed = published[known.levels[place + 1]] > 0
            below = _errors_of_rest(error, errors[place + 1], levels[place + 1].parents, children_listed)
        levels_published.append(_level(level, published[part], left[part], error, below))
    rest = float(left.sum()) / max(float(published[0]), 1.0)
    at_most = share_unlisted(errors[0], errors[-1].at(np.flatnonzero(published[known.levels[-1]])))
    shares = {"in_unlisted": rest, "unlisted_at_most": at_most}
    return levels_published, {"unlisted": found.facts() | {key: float(f"{each:.3g}") for key, each in shares.items()}}


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
    root: MeasuredLevel, nodes: IntArray, partly: IntArray, parent: IntArray, median: FloatArray, variance: FloatArray
) -> IntArray:
    """The integers of the listed nodes, then those of what is left beside the children of some of them."""
    place = np.full(len(parent), -1, dtype=np.int64)
    place[nodes] = np.arange(len(nodes))
    above = np.concatenate([[-1], place[parent[nodes[1:]]], place[partly]])
    wanted = np.concatenate([np.rint(median[nodes]), np.zeros(len(partly))]).astype(np.int64)
    weights = np.concatenate([1 / variance[nodes], np.zeros(len(partly))])
    if root.variance == 0:
        wanted[0], weights[0] = root.noisy[0], np.inf
    return project(above, wanted, weights)


def _median(known: Posterior) -> FloatArray:
    """The median of every node's count; 0 where it is more probably 0 than not."""
    from scipy.special import ndtri  # 0.2 s: only where it is needed

    probability = np.maximum(known.probability, 0.5 + 1e-12)
    found = known.mean + np.sqrt(known.variance) * ndtri(1 - 0.5 / probability)
    return np.where(known.probability > 0.5, np.maximum(found, 0.0), 0.0)
