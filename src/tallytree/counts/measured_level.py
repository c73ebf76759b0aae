"""`MeasuredLevel`: what `LeastSquares` knows of one level, of the nodes that are not 0; and fits of such levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tallytree.solvers.trees.linear import Combined, TreeEstimates, combined_estimates, combined_variances
from tallytree.solvers.trees.project import project
from tallytree.solvers.trees.simplex import chebyshev_families
from tallytree.solvers.trees.sparse_support import support
from tallytree.support.arrays import BoolArray, FloatArray, IntArray, offsets_of

_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """The measured children that are 0: they are not among the nodes of their level, and have no descendants here.

    Attributes:
        parents: int64 (m,), ascending, the index of each one's parent in the measured level above.
        noisy: int64 (m,), their noisy measurements.
        nodes: int64 (m,), node numbers.
    """

    parents: IntArray = field(default_factory=_NONE.copy)
    noisy: IntArray = field(default_factory=_NONE.copy)
    nodes: IntArray = field(default_factory=_NONE.copy)

    def below(self, above: BoolArray) -> LeftOut:
        """Those whose parents are kept."""
        here = above[self.parents]
        return LeftOut((np.cumsum(above) - 1)[self.parents[here]], self.noisy[here], self.nodes[here])

    def with_more(self, parents: IntArray, noisy: IntArray, nodes: IntArray) -> LeftOut:
        """These and others."""
        if not len(parents):
            return self
        both = np.concatenate([self.parents, parents])
        order = np.argsort(both, kind="stable")
        columns = (np.concatenate(each)[order] for each in ((self.noisy, noisy), (self.nodes, nodes)))
        return LeftOut(both[order], *columns)

    def sums(self, families: int) -> FloatArray:
        """The sum of the measurements by parent, float64 (families,)."""
        found: FloatArray = np.bincount(self.parents, self.noisy, minlength=families).astype(np.float64)
        return found


@dataclass(frozen=True, eq=False)
class MeasuredLevel:
    """The measurements and counts of the nodes of one level that are not 0.

    Every node has a child among the nodes of the next measured level, and its parent is among those of the measured
    level above.

    Attributes:
        depth: the level.
        nodes: int64 (n,), node numbers, family after family.
        parents: int64 (n,), ascending, the index of each node's parent in the measured level above.
        noisy: int64 (n,), the noisy measurements.
        variance: of the noise; 0 where the value is public.
        families: int64 (n above,), the number of measured children of each node of the measured level above.
        counts: int64 (n,), the estimates so far: positive, and a parent's count is the sum of its children's.
        left_out: the measured children that are 0; None where nothing needs them, or they are too many to keep.
        laplace: whether the noise is Laplace noise.
    """

    depth: int
    nodes: IntArray
    parents: IntArray
    noisy: IntArray
    variance: float
    families: IntArray
    counts: IntArray
    left_out: LeftOut | None = None
    laplace: bool = False

    @property
    def others(self) -> LeftOut:
        """What was left out.

        Raises:
            ValueError: it was not kept.
        """
        if self.left_out is None:
            raise ValueError(f"left_out: the level at depth {self.depth} was measured without it")
        return self.left_out

    @property
    def offsets(self) -> IntArray:
        """Where each family begins: int64 (n above + 1,)."""
        return np.searchsorted(self.parents, np.arange(len(self.families) + 1)).astype(np.int64)

    def kept(self, these: BoolArray, above: BoolArray) -> MeasuredLevel:
        """The level with some of its nodes only, and with some of the nodes of the level above only.

        Nodes that go and whose parents stay are left out from now on.
        """
        places = np.cumsum(above) - 1
        left_out = self.left_out
        if left_out is not None:
            gone = ~these & above[self.parents]
            left_out = left_out.below(above).with_more(places[self.parents[gone]], self.noisy[gone], self.nodes[gone])
        return replace(
            self,
            nodes=self.nodes[these],
            parents=places[self.parents[these]],
            noisy=self.noisy[these],
            families=self.families[above],
            counts=self.counts[these],
            left_out=left_out,
        )


def without(levels: Sequence[MeasuredLevel], kept: Sequence[BoolArray]) -> list[MeasuredLevel]:
    """The levels with the nodes that are kept."""
    above = [np.ones(1, dtype=np.bool_), *kept]
    return [level.kept(these, higher) for level, these, higher in zip(levels, kept, above, strict=False)]


def first_children(levels: Sequence[MeasuredLevel]) -> IntArray:
    """All levels as one tree or forest, see `tallytree.solvers`: `first_child`, with the nodes numbered in order."""
    sizes = np.array([len(level.nodes) for level in levels])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    below = [level.offsets[:-1] + start for level, start in zip(levels[1:], starts[1:], strict=False)]
    return np.concatenate([*below, np.full(sizes[-1] + 1, starts[-1])]).astype(np.int64)


def reprojected(levels: Sequence[MeasuredLevel]) -> list[MeasuredLevel]:
    """New counts by IntOpt, from the root down; nodes with a count of 0 are removed."""
    found = [levels[0]]
    for level in levels[1:]:
        found.append(replace(level, counts=chebyshev_families(level.noisy, level.offsets, found[-1].counts)))
    return without(found, [level.counts > 0 for level in found])


def fitted(
    levels: Sequence[MeasuredLevel],
    targets: Sequence[IntArray] | None = None,
    factors: Sequence[FloatArray] | None = None,
) -> list[MeasuredLevel]:
    """New counts by the least-squares fit of all levels; nodes with a count of 0 are removed.

    Args:
        levels: the measured levels, root first.
        targets: per level, what each node's count is fitted to, int64 (n,); by default its measurement.
        factors: per level, what the weight of each node is multiplied by, float64 (n,) > 0; by default 1.
    """
    if not len(levels[0].nodes):
        return list(levels)
    starts = offsets_of(np.array([len(level.nodes) for level in levels]))
    parent = np.concatenate([levels[0].parents - 1, *(b.parents + s for b, s in zip(levels[1:], starts, strict=False))])
    least = min((level.variance for level in levels if level.variance > 0), default=1.0)
    weights = [np.full(len(level.nodes), least / level.variance if level.variance else np.inf) for level in levels]
    if factors is not None:
        weights = [weight * factor for weight, factor in zip(weights, factors, strict=True)]
    wanted = np.concatenate([level.noisy for level in levels] if targets is None else targets)
    order = _order(levels)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    above = parent[order]
    above[above >= 0] = place[above[above >= 0]]
    x = np.empty(len(order), dtype=np.int64)
    x[order] = project(above, wanted[order], np.concatenate(weights)[order])
    found = [
        replace(level, counts=x[start : start + len(level.nodes)]) for level, start in zip(levels, starts, strict=False)
    ]
    return without(found, [level.counts > 0 for level in found])


def _order(levels: Sequence[MeasuredLevel]) -> IntArray:
    """An order of all nodes, level by level and family by family, with siblings in the order of `sibling_keys`."""
    found, start = [], 0
    for level in levels:
        found.append(start + np.lexsort((sibling_keys(level.depth, level.nodes), level.parents)))
        start += len(level.nodes)
    return np.concatenate(found)


def sibling_keys(depth: int, nodes: IntArray) -> npt.NDArray[np.uint64]:
    """What siblings are ordered by in a fit: a mix of the bits of their numbers (SplitMix64), uint64 (n,).

    Of two siblings that may get a unit at the same cost the first one gets it. Measurements are integers, so that is
    common. In the tree's order first children would be too large and last ones too small, and a sum over areas of all
    first children would add that up. The order is a function of public numbers alone.
    """
    mixed = nodes.astype(np.uint64) + np.uint64((depth + 1) * 0x9E3779B97F4A7C15 % 2**64)
    for factor in (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(30))) * factor
    return mixed ^ (mixed >> np.uint64(31))


def supported(levels: Sequence[MeasuredLevel], penalty: float) -> list[BoolArray]:
    """Per level, which nodes are kept by `solvers.trees.sparse_support`."""
    sizes = np.array([len(level.nodes) for level in levels])
    noisy = np.concatenate([level.noisy for level in levels])
    kept = support(first_children(levels), noisy, np.repeat([level.variance for level in levels], sizes), penalty)
    return np.split(kept, np.cumsum(sizes)[:-1])


def combined(levels: Sequence[MeasuredLevel]) -> Combined:
    """The variance of every node that was kept. Pruned nodes enter as measured nodes without descendants."""
    if not len(levels[0].nodes):
        return Combined([np.full(len(level.nodes), level.variance) for level in levels], [])
    return combined_variances(
        [level.offsets for level in levels[1:]],
        [level.variance for level in levels],
        [level.families - np.diff(level.offsets) for level in levels[1:]],
    )


def estimated(levels: Sequence[MeasuredLevel]) -> TreeEstimates:
    """The unbiased estimate of every node, from all measurements, those of nodes that were left out too."""
    return combined_estimates(
        [level.offsets for level in levels[1:]],
        [level.variance for level in levels],
        [level.noisy for level in levels],
        [level.families - np.diff(level.offsets) for level in levels[1:]],
        [level.others.sums(len(level.families)) for level in levels[1:]],
    )
