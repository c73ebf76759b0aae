"""`LeastSquares`: measure from the root down, and fit all measurements at once by least squares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tallytree.compute.arrays import FloatArray, IntArray, offsets_of
from tallytree.counts.expected_variances import ExpectedVariances, fitted_variances
from tallytree.counts.in_bands import Begun
from tallytree.counts.mechanism import CountsMechanism, checked_sparsity, statistics_of_counts
from tallytree.counts.released_counts import ReleasedCounts, dense_level
from tallytree.counts.top_down import TopDown
from tallytree.counts.top_down_measuring import measured_families, measured_root
from tallytree.hierarchy import Tree
from tallytree.measurements import Measures, Noise, Statistic
from tallytree.solvers.simplex import chebyshev_families
from tallytree.solvers.sparse_support import support
from tallytree.solvers.tree import project
from tallytree.solvers.tree_shape import MAX_TREE_SUM
from tallytree.solvers.tree_variance import Combined, combined_variances
from tallytree.validate import integer

NODE_BYTES = 300
"""Of memory that a node of a fit takes, about."""

MIN_VARIANCE = 1e-9
"""Used where the variance is smaller, or 0: noisy values as exact constraints could contradict each other."""


@dataclass(frozen=True)
class LeastSquares(CountsMechanism):
    """Release the counts that fit all measurements best: one least-squares problem over the tree.

    The children of every non-zero node are measured, level by level, as in `TopDown`. After each level, the integers
    x ≥ 0 that add up and minimise Σ (x − noisy)²/variance over *all levels so far* are found, exactly. So the
    measurements of a node's descendants correct the node's count. Given those counts, the next level is pruned as in
    `TopDown`: the children that IntOpt (Boninsegna and Silvestri 2025) leaves positive are kept. The others are 0,
    their descendants are never measured, and they do not enter the fit, so that there are no more false discoveries
    than in `TopDown`. All of this is computed from noisy measurements and public metadata, so it costs no privacy.

    `std_dev` of a count is the standard deviation of the least-squares estimate without the constraint x ≥ 0 and
    without pruning (Hay et al. 2010). Near zero the error is smaller, and not symmetric. With a `sparsity` it is not
    known.

    Args:
        sparsity: κ, for sparse data. In the end every leaf that is not 0 costs κ² in the sum of squares, and a leaf is
            kept if the measurements of the leaf and its ancestors outweigh this cost (`solvers.sparse_support`). 0
            keeps all; 3 halves the false discoveries of the paper's sparse data at ε = 1 (`docs/counts.md`). Use it for
            sparse data only: a true count that is small compared to the noise is set to 0 too, and its siblings get its
            part of the parent's count.
        largest_fit: the most nodes that are fitted at once. Beyond it, counts stay as projected family by family, as in
            `TopDown`, and have no `std_dev`. A node takes about 300 bytes of memory.

    Raises:
        ValueError: a sparsity that is negative or not finite, or a negative largest_fit.
        TypeError: an option of the wrong type.
    """

    corrects_upward: ClassVar[bool] = True

    sparsity: float = 0.0
    largest_fit: int = 2**25

    def __post_init__(self) -> None:
        """Check the options."""
        checked_sparsity(self.sparsity)
        integer(self.largest_fit, "largest_fit", least=0)

    def statistics(self, tree: Tree, *, total_is_public: bool) -> dict[str, Statistic]:
        """The levels to be measured, root first, and the statistic that is measured at each."""
        return statistics_of_counts(tree, total_is_public=total_is_public)

    def expected_variances(self, tree: Tree, noise: Mapping[str, Noise]) -> list[ExpectedVariances | None] | None:
        """See `CountsMechanism.expected_variances`; none with a `sparsity`."""
        return None if self.sparsity > 0 else [*fitted_variances(tree, noise, upward=True)]

    def reconcile(self, tree: Tree, total: int | None, measurer: Measures) -> list[ReleasedCounts]:
        """Measure, and compute the counts of every level, root first; with `std_dev` where all levels were fitted."""
        begun = self._begun(tree, total, measurer, most=None)
        return begun.levels

    def begin(self, tree: Tree, total: int | None, measurer: Measures) -> Begun:
        """See `tallytree.counts.in_bands`: the levels that are fitted at once, which often are all levels."""
        return self._begun(tree, total, measurer, most=self.largest_fit)

    def descend(self, tree: Tree, depth: int, above: ReleasedCounts, measurer: Measures) -> ReleasedCounts:
        """See `tallytree.counts.in_bands`: what was too much for one fit stays as projected, as in `TopDown`."""
        return TopDown().descend(tree, depth, above, measurer)

    def bytes_at_once(self, tree: Tree) -> int:
        """See `tallytree.counts.in_bands`: those of the nodes that are fitted at once."""
        nodes = sum(tree.size(depth) for depth in range(len(tree.levels)) if not tree.only_children(depth))
        # The leaves of a sparse fit are chosen from all levels at once, fitted or not.
        return NODE_BYTES * (nodes if self.sparsity > 0 else min(nodes, self.largest_fit))

    def why_whole(self) -> str:
        """See `tallytree.counts.in_bands`."""
        if self.sparsity > 0:
            return "LeastSquares with a sparsity works on all nodes at once; choose TopDown, or give more memory"
        return (
            f"LeastSquares fits up to {self.largest_fit:,} nodes at once; give more memory, a smaller largest_fit "
            "(what is beyond it is projected as by TopDown), or choose TopDown"
        )

    def _begun(self, tree: Tree, total: int | None, measurer: Measures, *, most: int | None) -> Begun:
        """All levels; or, where they have more than `most` nodes, those above the first that is too much."""
        levels = [_root(tree, total, measurer)]
        measured = [depth for depth in range(1, len(tree.levels)) if not tree.only_children(depth)]
        for depth in measured:
            room = None if most is None or self.sparsity > 0 else most - sum(len(level.nodes) for level in levels)
            level = _measured_level(tree, depth, levels[-1], measurer, room)
            if level is None:
                return Begun(_counts_above(tree, depth, levels), measured_below=True)
            levels.append(level)
            if depth == measured[-1] and self.sparsity > 0:
                levels = _reprojected(_without(levels, _supported(levels, self.sparsity**2)))
            if self._fits(levels):
                levels = _fitted(levels)
        # `support` chooses by the same noise, which the variances of the fit do not take into account.
        return Begun(_released(tree, levels, with_std_dev=self.sparsity == 0 and self._fits(levels)), dense=True)

    def _fits(self, levels: Sequence[_Level]) -> bool:
        """Whether all levels can be fitted at once."""
        noisy = sum(float(np.abs(level.noisy).sum(dtype=np.float64)) for level in levels)
        return sum(len(level.nodes) for level in levels) <= self.largest_fit and noisy < MAX_TREE_SUM / 2


@dataclass(frozen=True, eq=False)
class _Level:
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
    """

    depth: int
    nodes: IntArray
    parents: IntArray
    noisy: IntArray
    variance: float
    families: IntArray
    counts: IntArray

    @property
    def offsets(self) -> IntArray:
        """Where each family begins: int64 (n above + 1,)."""
        return np.searchsorted(self.parents, np.arange(len(self.families) + 1)).astype(np.int64)

    def kept(self, these: _Mask, above: _Mask) -> _Level:
        """The level with some of its nodes only, and with some of the nodes of the level above only."""
        return replace(
            self,
            nodes=self.nodes[these],
            parents=(np.cumsum(above) - 1)[self.parents[these]],
            noisy=self.noisy[these],
            families=self.families[above],
            counts=self.counts[these],
        )


_Mask = npt.NDArray[np.bool_]


def _root(tree: Tree, total: int | None, measurer: Measures) -> _Level:
    """The root; the level has no nodes where the root's count is 0, since all counts are 0 then."""
    value, variance = total, 0.0
    if value is None:
        value, noise = measured_root(tree, measurer)
        variance = max(noise.variance, MIN_VARIANCE)
    node = np.zeros(int(value > 0), dtype=np.int64)
    return _Level(0, node, node, node + value, variance, np.ones(1, dtype=np.int64), node + value)


def _measured_level(
    tree: Tree, depth: int, above: _Level, measurer: Measures, room: int | None = None
) -> _Level | None:
    """The level at `depth`: the children that IntOpt leaves positive, given the counts of their parents.

    None where there are more of them than there is `room` for; all are measured then too.
    """
    parents = ReleasedCounts(_nodes_at(tree, depth - 1, above), above.counts)
    sizes = tree.child_counts(depth - 1, parents.nodes)
    parts: list[tuple[IntArray, IntArray, IntArray, IntArray]] = [(_NONE, _NONE, _NONE, _NONE)]
    variance, found = MIN_VARIANCE, 0
    for families in measured_families(tree, depth, parents, measurer):
        counts = chebyshev_families(families.noisy, families.offsets, families.totals)
        kept = np.flatnonzero(counts)
        found += len(kept)
        if room is not None and found > room:
            parts = parts[:1]
            continue
        parent = families.parents.start + np.searchsorted(families.offsets, kept, side="right") - 1
        parts.append((families.nodes[kept], parent, families.noisy[kept], counts[kept]))
        variance = max(families.noise.variance, MIN_VARIANCE)
    if room is not None and found > room:
        return None
    nodes, places, noisy, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    return _Level(depth, nodes, places, noisy, variance, sizes, counts)


_NONE = np.empty(0, dtype=np.int64)


def _nodes_at(tree: Tree, depth: int, level: _Level) -> IntArray:
    """The nodes of a level, or their descendants at `depth`; in between every node has one child."""
    nodes = level.nodes
    for above in range(level.depth, depth):
        nodes = tree.children(above, nodes)[0]
    return nodes


def _counts_above(tree: Tree, depth: int, levels: Sequence[_Level]) -> list[ReleasedCounts]:
    """The nodes that are not 0 of every level above `depth`, root first."""
    place, found = -1, []
    for above in range(depth):
        place += place + 1 < len(levels) and levels[place + 1].depth == above
        found.append(ReleasedCounts(_nodes_at(tree, above, levels[place]), levels[place].counts))
    return found


def _without(levels: Sequence[_Level], kept: Sequence[_Mask]) -> list[_Level]:
    """The levels with the nodes that are kept."""
    above = [np.ones(1, dtype=np.bool_), *kept]
    return [level.kept(these, higher) for level, these, higher in zip(levels, kept, above, strict=False)]


def _reprojected(levels: Sequence[_Level]) -> list[_Level]:
    """New counts by IntOpt, from the root down; nodes with a count of 0 are removed."""
    found = [levels[0]]
    for level in levels[1:]:
        found.append(replace(level, counts=chebyshev_families(level.noisy, level.offsets, found[-1].counts)))
    return _without(found, [level.counts > 0 for level in found])


def _fitted(levels: Sequence[_Level]) -> list[_Level]:
    """New counts by the least-squares fit of all levels; nodes with a count of 0 are removed."""
    if not len(levels[0].nodes):
        return list(levels)
    starts = offsets_of(np.array([len(level.nodes) for level in levels]))
    parent = np.concatenate([levels[0].parents - 1, *(b.parents + s for b, s in zip(levels[1:], starts, strict=False))])
    least = min((level.variance for level in levels if level.variance > 0), default=1.0)
    weights = [np.full(len(level.nodes), least / level.variance if level.variance else np.inf) for level in levels]
    x = project(parent, np.concatenate([level.noisy for level in levels]), np.concatenate(weights))
    found = [
        replace(level, counts=x[start : start + len(level.nodes)]) for level, start in zip(levels, starts, strict=False)
    ]
    return _without(found, [level.counts > 0 for level in found])


def _supported(levels: Sequence[_Level], penalty: float) -> list[_Mask]:
    """Per level, which nodes are kept by `solvers.sparse_support`."""
    sizes = np.array([len(level.nodes) for level in levels])
    starts = offsets_of(sizes)
    below = [level.offsets + start for level, start in zip(levels[1:], starts[1:], strict=False)]
    first_child = np.concatenate([*(offsets[:-1] for offsets in below), np.full(sizes[-1] + 1, starts[-1])])
    noisy = np.concatenate([level.noisy for level in levels])
    kept = support(first_child, noisy, np.repeat([level.variance for level in levels], sizes), penalty)
    return np.split(kept, starts[1:-1])


def _released(tree: Tree, levels: Sequence[_Level], *, with_std_dev: bool) -> list[ReleasedCounts]:
    """The released counts of all levels of the tree, root first."""
    combined = _combined(levels) if with_std_dev else None
    released: list[ReleasedCounts] = []
    dense: FloatArray | None = None
    place = -1
    for depth in range(len(tree.levels)):
        place += place + 1 < len(levels) and levels[place + 1].depth == depth
        counts = ReleasedCounts(_nodes_at(tree, depth, levels[place]), levels[place].counts)
        if tree.enumerated:
            counts = dense_level(tree, depth, counts)
        if combined is not None:
            variances = combined.nodes[place]
            if tree.enumerated:
                dense = variances = _dense_variances(tree, depth, levels, combined, place, dense)
            counts = replace(counts, std_dev=np.sqrt(variances))
        released.append(counts)
    return released


def _combined(levels: Sequence[_Level]) -> Combined:
    """The variance of every node that was kept. Pruned nodes enter as measured nodes without descendants."""
    if not len(levels[0].nodes):
        return Combined([np.full(len(level.nodes), level.variance) for level in levels], [])
    return combined_variances(
        [level.offsets for level in levels[1:]],
        [level.variance for level in levels],
        [level.families - np.diff(level.offsets) for level in levels[1:]],
    )


def _dense_variances(
    tree: Tree,
    depth: int,
    levels: Sequence[_Level],
    combined: Combined,
    place: int,
    above: FloatArray | None,
) -> FloatArray:
    """The variance of every node of a dense level: a node that was not measured has the variance of its parent."""
    if above is None:
        return combined.nodes[0] if len(combined.nodes[0]) else np.array([levels[0].variance])
    variances = above[tree.parents(depth, np.arange(tree.size(depth), dtype=np.int64))]
    if levels[place].depth == depth and combined.families:
        children, offsets = tree.children(depth - 1, _nodes_at(tree, depth - 1, levels[place - 1]))
        of_a_child = combined.of_a_child(place - 1, levels[place].variance)
        variances[children] = np.repeat(of_a_child, np.diff(offsets))
        variances[levels[place].nodes] = combined.nodes[place]
    return variances
