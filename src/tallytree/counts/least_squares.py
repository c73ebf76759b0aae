"""`LeastSquares`: measure from the root down, then fit all that was measured at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tallytree.compute.arrays import FloatArray, IntArray, offsets_of
from tallytree.counts.descent import measured_families, measured_root
from tallytree.counts.mechanism import CountsMechanism, checked_sparsity, statistics_of_counts
from tallytree.counts.released_counts import ReleasedCounts, whole_level
from tallytree.hierarchy import Tree
from tallytree.measurements import Measures, Statistic
from tallytree.solvers.simplex import chebyshev_families
from tallytree.solvers.sparse_support import support
from tallytree.solvers.tree import project
from tallytree.solvers.tree_shape import MAX_TREE_SUM
from tallytree.solvers.tree_variance import Combined, combined_variances
from tallytree.validate import integer

MIN_VARIANCE = 1e-9
"""For noise that is nearly always 0: what is measured must not be taken for a fact that others could contradict."""


@dataclass(frozen=True)
class LeastSquares(CountsMechanism):
    """Release the counts that fit everything that was measured best: one least-squares problem over the whole tree.

    The children of every non-zero node are measured, level by level, as in `TopDown`. After each level the integers
    x ≥ 0 that add up and minimise Σ (x − noisy)²/variance over *all levels so far* are found, exactly: what is measured
    of a node's descendants corrects the node. The next level descends into what `TopDown` would, given those counts:
    the children that IntOpt (Boninsegna and Silvestri 2025) leaves positive. The others are 0, are not looked into, and
    do not enter the fit, so that false positives are no more than in `TopDown`. All of this is computed from noisy
    measurements and public facts, so it costs no privacy.

    `std_dev` of a count is that of the least-squares estimate without the constraint x ≥ 0 and without pruning (Hay et
    al. 2010); near zero the error is smaller, and not symmetric. With a `sparsity` it is not known.

    Args:
        sparsity: κ, for sparse data: in the end a leaf that is not zero must be worth κ² of the sum of squares, what
            was measured of its ancestors included (`solvers.sparse_support`). 0 keeps all; 3 halves the false
            positives of the paper's sparse data at ε = 1 (`docs/counts.md`). Not for data that are not sparse: a true
            count that does not stand out of the noise is left out, too, and its siblings get what it had.
        largest_fit: where more nodes than this would be fitted at once, counts stay as projected family by family, as
            in `TopDown`, and have no `std_dev`. A node takes some 300 bytes of memory.

    Raises:
        ValueError: a sparsity that is negative or not finite, or a negative largest_fit.
        TypeError: an option of another kind.
    """

    corrects_upward: ClassVar[bool] = True

    sparsity: float = 0.0
    largest_fit: int = 2**25

    def __post_init__(self) -> None:
        """Check the options."""
        checked_sparsity(self.sparsity)
        integer(self.largest_fit, "largest_fit", least=0)

    def statistics(self, tree: Tree, *, total_is_public: bool) -> dict[str, Statistic]:
        """The levels to be measured, root first, and what is measured there."""
        return statistics_of_counts(tree, total_is_public=total_is_public)

    def reconcile(self, tree: Tree, total: int | None, measurer: Measures) -> list[ReleasedCounts]:
        """Counts per level, root first, with their standard deviations where all levels were fitted."""
        levels = [_root(tree, total, measurer)]
        measured = [depth for depth in range(1, len(tree.levels)) if not tree.only_children(depth)]
        for depth in measured:
            levels.append(_descend(tree, depth, levels[-1], measurer))
            if depth == measured[-1] and self.sparsity > 0:
                levels = _reprojected(_without(levels, _supported(levels, self.sparsity**2)))
            if self._fits(levels):
                levels = _fitted(levels)
        # What `support` chose, it chose by the same noise: the fit's own variances know nothing of that.
        return _released(tree, levels, with_std_dev=self.sparsity == 0 and self._fits(levels))

    def _fits(self, levels: Sequence[_Level]) -> bool:
        """Whether all levels can be fitted at once."""
        noisy = sum(float(np.abs(level.noisy).sum(dtype=np.float64)) for level in levels)
        return sum(len(level.nodes) for level in levels) <= self.largest_fit and noisy < MAX_TREE_SUM / 2


@dataclass(frozen=True, eq=False)
class _Level:
    """What was measured at a level of the nodes that are not zero.

    Every node has a child among the nodes of the next measured level, and its parent among those of the one above.

    Attributes:
        depth: the level.
        nodes: int64 (n,), family after family.
        parents: int64 (n,), the places of their parents in the measured level above, ascending.
        noisy: int64 (n,).
        variance: of the noise; 0 where the value is public.
        families: int64 (n above,), how many children of each node of the level above were measured.
        counts: int64 (n,), as they are estimated so far: positive, and a parent's is the sum of its children's.
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
        """Only some nodes, and of the level above only some."""
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
    """The root; without nodes where it is 0, for then everything is."""
    value, variance = total, 0.0
    if value is None:
        value, noise = measured_root(tree, measurer)
        variance = max(noise.variance, MIN_VARIANCE)
    node = np.zeros(int(value > 0), dtype=np.int64)
    return _Level(0, node, node, node + value, variance, np.ones(1, dtype=np.int64), node + value)


def _descend(tree: Tree, depth: int, above: _Level, measurer: Measures) -> _Level:
    """The children that IntOpt leaves positive, given the counts of their parents."""
    parents = ReleasedCounts(_nodes_at(tree, depth - 1, above), above.counts)
    sizes = tree.child_counts(depth - 1, parents.nodes)
    parts: list[tuple[IntArray, IntArray, IntArray, IntArray]] = [(_NONE, _NONE, _NONE, _NONE)]
    variance = MIN_VARIANCE
    for families in measured_families(tree, depth, parents, measurer):
        counts = chebyshev_families(families.noisy, families.offsets, families.totals)
        kept = np.flatnonzero(counts)
        parent = families.parents.start + np.searchsorted(families.offsets, kept, side="right") - 1
        parts.append((families.nodes[kept], parent, families.noisy[kept], counts[kept]))
        variance = max(families.noise.variance, MIN_VARIANCE)
    nodes, places, noisy, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    return _Level(depth, nodes, places, noisy, variance, sizes, counts)


_NONE = np.empty(0, dtype=np.int64)


def _nodes_at(tree: Tree, depth: int, level: _Level) -> IntArray:
    """The nodes of a level, or what stands for them further down, where every node has one child."""
    nodes = level.nodes
    for above in range(level.depth, depth):
        nodes = tree.children(above, nodes)[0]
    return nodes


def _without(levels: Sequence[_Level], kept: Sequence[_Mask]) -> list[_Level]:
    """Only the nodes that are kept."""
    above = [np.ones(1, dtype=np.bool_), *kept]
    return [level.kept(these, higher) for level, these, higher in zip(levels, kept, above, strict=False)]


def _reprojected(levels: Sequence[_Level]) -> list[_Level]:
    """New counts, from the root down, by IntOpt."""
    found = [levels[0]]
    for level in levels[1:]:
        found.append(replace(level, counts=chebyshev_families(level.noisy, level.offsets, found[-1].counts)))
    return _without(found, [level.counts > 0 for level in found])


def _fitted(levels: Sequence[_Level]) -> list[_Level]:
    """New counts: the least-squares fit of all levels; nodes that it leaves at 0 go."""
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
    """Which nodes have evidence enough to be there."""
    sizes = np.array([len(level.nodes) for level in levels])
    starts = offsets_of(sizes)
    below = [level.offsets + start for level, start in zip(levels[1:], starts[1:], strict=False)]
    first_child = np.concatenate([*(offsets[:-1] for offsets in below), np.full(sizes[-1] + 1, starts[-1])])
    noisy = np.concatenate([level.noisy for level in levels])
    kept = support(first_child, noisy, np.repeat([level.variance for level in levels], sizes), penalty)
    return np.split(kept, starts[1:-1])


def _released(tree: Tree, levels: Sequence[_Level], *, with_std_dev: bool) -> list[ReleasedCounts]:
    """The counts of all levels of the tree."""
    combined = _combined(levels) if with_std_dev else None
    released: list[ReleasedCounts] = []
    everywhere: FloatArray | None = None
    place = -1
    for depth in range(len(tree.levels)):
        place += place + 1 < len(levels) and levels[place + 1].depth == depth
        counts = ReleasedCounts(_nodes_at(tree, depth, levels[place]), levels[place].counts)
        if tree.enumerated:
            counts = whole_level(tree, depth, counts)
        if combined is not None:
            variances = combined.nodes[place]
            if tree.enumerated:
                everywhere = variances = _everywhere(tree, depth, levels, combined, place, everywhere)
            counts = replace(counts, std_dev=np.sqrt(variances))
        released.append(counts)
    return released


def _combined(levels: Sequence[_Level]) -> Combined:
    """The variance of every node that was kept; those that were not count as measured, with nothing below them."""
    if not len(levels[0].nodes):
        return Combined([np.full(len(level.nodes), level.variance) for level in levels], [])
    return combined_variances(
        [level.offsets for level in levels[1:]],
        [level.variance for level in levels],
        [level.families - np.diff(level.offsets) for level in levels[1:]],
    )


def _everywhere(
    tree: Tree,
    depth: int,
    levels: Sequence[_Level],
    combined: Combined,
    place: int,
    above: FloatArray | None,
) -> FloatArray:
    """The variance of every node of a level: of what was not measured, that of the node above it which is 0."""
    if above is None:
        return combined.nodes[0] if len(combined.nodes[0]) else np.array([levels[0].variance])
    variances = above[tree.parents(depth, np.arange(tree.size(depth), dtype=np.int64))]
    if levels[place].depth == depth and combined.families:
        children, offsets = tree.children(depth - 1, _nodes_at(tree, depth - 1, levels[place - 1]))
        of_a_child = combined.of_a_child(place - 1, levels[place].variance)
        variances[children] = np.repeat(of_a_child, np.diff(offsets))
        variances[levels[place].nodes] = combined.nodes[place]
    return variances
