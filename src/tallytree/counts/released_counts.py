"""Released counts: of one level, summed over the tree, what is wrong with them, and how large their errors are.

**Typical errors.** A published count is another number than the unbiased estimate of its node, which x ≥ 0, sums and
rounding have moved. So its error is that of the posterior: what is expected of a node is an equal part of its parent's
count, and how far nodes lie from that is learned from the estimates of the level (`solvers.laws`). Numbers do not
change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tallytree.hierarchy import Tree
from tallytree.solvers.laws import learned_laws
from tallytree.solvers.posteriors import MOST_MOVED, posteriors
from tallytree.solvers.trees.listing import listed_intervals, listing_bias
from tallytree.support.arrays import FloatArray, IntArray, sum_by_key

NODES_AT_ONCE = 4_000_000
"""Parents of nodes are looked up in chunks of this many nodes, which bounds the memory of a step."""


FRACTIONS = 1e-6
"""Sums of fractions that differ by less are equal; of integers none do."""
_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class ListedErrors:
    """What is known of the errors of listed nodes of a level; see `counts.listed_errors`.

    Attributes:
        unbiased: float64 (n,), an unbiased estimate but for what listing does.
        std_dev: float64 (n,), of its error.
        listed_from: float64 (n,), the least `unbiased` at which the node is listed; −inf where it is listed anyway.
        probability_zero: float64 (n,), that the true number is 0; None where that is not known.
        laplace: whether the noise of one measurement is Laplace noise.
    """

    unbiased: FloatArray
    std_dev: FloatArray
    listed_from: FloatArray
    probability_zero: FloatArray | None
    laplace: bool

    def at(self, places: IntArray) -> ListedErrors:
        """Of some of the nodes."""
        return ListedErrors(
            self.unbiased[places],
            self.std_dev[places],
            self.listed_from[places],
            None if self.probability_zero is None else self.probability_zero[places],
            self.laplace,
        )

    def bounds(self, alpha: float = 0.2) -> tuple[FloatArray, FloatArray]:
        """What each true number is at least and at most on average, but for noise whose mean is 0: float64 (n,) each.

        By how much the noise of a listed number is larger than 0 depends on that number, of which its interval at
        `alpha` says enough: a sum of such numbers lies between the sums, but for noise. (Estimates whose median is
        right would not do: their means are not, and a sum adds that up.)
        """
        lower, upper = (
            self.unbiased - listing_bias(end, self._deviations, self.listed_from, laplace=self.laplace)
            for end in self._intervals(alpha)
        )
        chosen = np.isfinite(self.listed_from)
        return np.where(chosen, lower, self.unbiased), np.where(chosen, upper, self.unbiased)

    def centers(self) -> FloatArray:
        """An estimate without the bias of listing, whose median is the true number: float64 (n,)."""
        middle, _ = self._intervals(1.0)
        return np.where(np.isfinite(self.listed_from), middle, self.unbiased)

    @property
    def _deviations(self) -> FloatArray:
        return np.maximum(self.std_dev, 1e-9)

    def _intervals(self, alpha: float) -> tuple[FloatArray, FloatArray]:
        """See `solvers.trees.listing`."""
        ends = listed_intervals(self.unbiased, self._deviations, self.listed_from, alpha, laplace=self.laplace)
        return ends[0].astype(np.float64), ends[1].astype(np.float64)


@dataclass(frozen=True, eq=False)
class ReleasedCounts:
    """Released counts of one level.

    Attributes:
        nodes: int64 (n,), node numbers in the tree's order; the counts of the other nodes of the level are 0.
        counts: int64 (n,).
        std_dev: float64 (n,), the standard deviation of the error of each count; None where the mechanism does not
            know it.
        unlisted: nodes of this level, with what is left of their counts beside those of their listed children; None
            where a node that is not listed is 0.
        unbiased: float64 (n,), beside `std_dev`: the estimate of each before x ≥ 0, sums and rounding.
        typical_error: float64 (n,), beside `std_dev`: the root mean square error that is expected of each count.
        errors: what is known of the errors, in place of `std_dev`, where nodes are listed by their measurements.
    """

    nodes: IntArray
    counts: IntArray
    std_dev: FloatArray | None = None
    unlisted: ReleasedCounts | None = None
    errors: ListedErrors | None = None
    unbiased: FloatArray | None = None
    typical_error: FloatArray | None = None


def dense_level(tree: Tree, depth: int, released: ReleasedCounts) -> ReleasedCounts:
    """Every node of one level of an enumerated tree, in order, zeros included."""
    counts = np.zeros(tree.size(depth), dtype=released.counts.dtype)
    counts[released.nodes] = released.counts
    return ReleasedCounts(np.arange(tree.size(depth), dtype=np.int64), counts)


def published_levels(tree: Tree, levels: Sequence[ReleasedCounts]) -> list[ReleasedCounts]:
    """The levels as they are published, from the nodes that are not 0: dense where the tree is enumerated."""
    if not tree.enumerated:
        return list(levels)
    return [dense_level(tree, depth, released) for depth, released in enumerate(levels)]


def sum_over_tree(tree: Tree, leaves: ReleasedCounts) -> list[ReleasedCounts]:
    """The nodes that are not 0 of every level, root first, from those of the leaf level."""
    levels = [leaves]
    for depth in range(len(tree.levels) - 1, 0, -1):
        levels.append(_sums_of_children(tree, depth, levels[-1]))
    return levels[::-1]


def count_negative(levels: Sequence[ReleasedCounts]) -> int:
    """The number of nodes, of all levels, with a negative count."""
    return sum(int(np.count_nonzero(level.counts < 0)) for level in levels)


def count_violations(tree: Tree, levels: Sequence[ReleasedCounts], *, first: int = 0) -> int:
    """The number of nodes whose count is not the sum of their children's counts.

    Args:
        tree: the public tree.
        levels: consecutive levels, of the whole tree or of a band.
        first: the depth of the first of them.
    """
    violations = 0
    for place, (above, below) in enumerate(pairwise(levels), 1):
        summed = _sums_of_children(tree, first + place, below)
        left = above.unlisted or ReleasedCounts(_NONE, _NONE)
        nodes = np.concatenate([above.nodes, summed.nodes, left.nodes])
        _, rest = sum_by_key(nodes, np.concatenate([above.counts, -summed.counts, -left.counts]))
        violations += int(np.count_nonzero(np.abs(rest) > FRACTIONS))
    return violations


def _sums_of_children(tree: Tree, depth: int, level: ReleasedCounts) -> ReleasedCounts:
    """The nodes of the level above `depth` whose children's counts do not add up to 0, with these sums.

    Where the level above has few nodes, the sums are computed in a dense array, which needs no sorting.
    """
    parents = tree.size(depth - 1)
    if parents > max(len(level.nodes), NODES_AT_ONCE):
        nodes, sums = sum_by_key(tree.parents(depth, level.nodes), level.counts)
        kept = sums != 0
        return ReleasedCounts(nodes[kept], sums[kept])
    dense = np.zeros(parents, dtype=level.counts.dtype)
    for start in range(0, len(level.nodes), NODES_AT_ONCE):
        part = slice(start, start + NODES_AT_ONCE)
        np.add.at(dense, tree.parents(depth, level.nodes[part]), level.counts[part])
    nodes = np.flatnonzero(dense)
    return ReleasedCounts(nodes, dense[nodes])


def typical_error(tree: Tree, depth: int, level: ReleasedCounts, above: ReleasedCounts | None) -> FloatArray:
    """The root mean square error that is expected of each count of a level: float64 (n,).

    Where there are too few nodes to learn from, it is the standard deviation of the estimate. It is no less where the
    count is more than that above what is expected, since there are few such nodes to learn from. A count that is
    further from its estimate than `MOST_MOVED` standard deviations errs by the rest at least.

    Args:
        tree: an enumerated tree.
        depth: of the level.
        level: all of its nodes, with `std_dev` and `unbiased`.
        above: the level above with its typical errors; None of the root.
    """
    s, z, counts = level.std_dev, level.unbiased, level.counts.astype(np.float64)
    if s is None or z is None:
        raise ValueError("level: has no std_dev, or no unbiased estimates")
    squares = s**2
    if above is not None and above.std_dev is not None and above.typical_error is not None:
        parents = tree.parents(depth, level.nodes)
        if tree.only_children(depth):
            return above.typical_error[parents]
        children = tree.child_counts(depth - 1, above.nodes)[parents]
        # The part of its parent's noise that each node has. Where the parent is 0, so much may be there.
        shared = (above.std_dev[parents] / children) ** 2
        expected = np.maximum(above.counts[parents] / children, np.sqrt(shared))[:, None]
        laws = learned_laws(z[:, None], expected, s)
        if laws is not None:
            mean, variance, held = (np.empty_like(expected) for _ in range(3))
            posteriors(
                z[:, None], expected, s, laws.stratum, laws.weights, laws.guarded, laws.parts, mean, variance, held
            )  # fmt: skip
            pooled = 1 - variance[:, 0] / np.where(s > 0, squares, np.inf)
            squares = variance[:, 0] * laws.part + np.clip(pooled, 0, 1) * shared
            squares = np.where(s > 0, squares + ((mean - held)[:, 0] - counts) ** 2, 0.0)
            squares = np.where(counts > expected[:, 0] + s, np.maximum(squares, s**2), squares)
    found: FloatArray = np.sqrt(np.maximum(squares, np.maximum(np.abs(counts - z) - MOST_MOVED * s, 0) ** 2))
    return found
