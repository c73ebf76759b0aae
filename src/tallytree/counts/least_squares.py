"""`LeastSquares`: measure from the root down, and fit all measurements at once by least squares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from tallytree.compute.arrays import BoolArray, FloatArray, IntArray, offsets_of
from tallytree.counts.auto_sparsity import NOTHING_MEASURED, likely, sparsity_of
from tallytree.counts.expected_variances import ExpectedVariances, fitted_variances
from tallytree.counts.in_bands import Begun
from tallytree.counts.measured_level import LeftOut, MeasuredLevel, first_children, without
from tallytree.counts.mechanism import CountsMechanism, checked_sparsity, statistics_of_counts
from tallytree.counts.released_counts import ReleasedCounts, dense_level
from tallytree.counts.top_down import TopDown
from tallytree.counts.top_down_measuring import MeasuredFamilies, measured_families, measured_root
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

AUTO: Literal["auto"] = "auto"
"""The `sparsity` that is chosen from the noisy measurements."""

SURELY_KEPT = 3.5
"""κ of what `sparsity="auto"` keeps in any case: what the data show so clearly, a wrong model must not drop."""

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
            keeps all; 3 halves the false discoveries of the paper's sparse data at ε = 1
            (`docs/explanation/counts.md`). Use it for sparse data only: a true count that is small compared to the
            noise is set to 0 too, and its siblings get its
            part of the parent's count. `"auto"` chooses from the noisy measurements: it estimates how many leaves are
            not 0; if these are few, it keeps the nodes that are more probably positive than 0, and what κ = 3.5 keeps;
            otherwise the release is that of 0 (`counts.auto_sparsity`). The statement says what was estimated, under
            `sparsity`.
        largest_fit: the most nodes that are fitted at once. Beyond it, counts stay as projected family by family, as in
            `TopDown`, and have no `std_dev`. A node takes about 300 bytes of memory.

    Raises:
        ValueError: a sparsity that is negative or not finite, or a negative largest_fit.
        TypeError: an option of the wrong type.
    """

    corrects_upward: ClassVar[bool] = True
    lists_remainders: ClassVar[bool] = False
    """Whether the nodes that are listed are chosen at the end, see `counts.unlisted`."""

    sparsity: float | Literal["auto"] = 0.0
    largest_fit: int = 2**25

    def __post_init__(self) -> None:
        """Check the options."""
        if self.sparsity != AUTO:
            checked_sparsity(self.sparsity, or_auto=True)
        integer(self.largest_fit, "largest_fit", least=0)

    def statistics(self, tree: Tree, *, total_is_public: bool) -> dict[str, Statistic]:
        """The levels to be measured, root first, and the statistic that is measured at each."""
        return statistics_of_counts(tree, total_is_public=total_is_public)

    def expected_variances(self, tree: Tree, noise: Mapping[str, Noise]) -> list[ExpectedVariances | None] | None:
        """See `CountsMechanism.expected_variances`; none with a `sparsity`."""
        return None if self._whole else [*fitted_variances(tree, noise, upward=True)]

    def reconcile(self, tree: Tree, total: int | None, measurer: Measures) -> list[ReleasedCounts]:
        """Measure, and compute the counts of every level, root first; with `std_dev` where all levels were fitted."""
        return self._begun(tree, total, measurer, most=None).levels

    def reconcile_and_tell(
        self, tree: Tree, total: int | None, measurer: Measures
    ) -> tuple[Sequence[ReleasedCounts], Mapping[str, Any]]:
        """See `CountsMechanism.reconcile_and_tell`: how sparse the data are, with `sparsity="auto"`."""
        begun = self._begun(tree, total, measurer, most=None)
        return begun.levels, begun.facts

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
        return NODE_BYTES * (nodes if self._whole else min(nodes, self.largest_fit))

    @property
    def _whole(self) -> bool:
        """Whether nodes are chosen from all levels at once."""
        return self.sparsity != 0 or self.lists_remainders

    def why_whole(self) -> str:
        """See `tallytree.counts.in_bands`."""
        if self.sparsity:
            return "LeastSquares with a sparsity works on all nodes at once; choose TopDown, or give more memory"
        return (
            f"LeastSquares fits up to {self.largest_fit:,} nodes at once; give more memory, a smaller largest_fit "
            "(what is beyond it is projected as by TopDown), or choose TopDown"
        )

    def _begun(self, tree: Tree, total: int | None, measurer: Measures, *, most: int | None) -> Begun:
        """All levels; or, where they have more than `most` nodes, those above the first that is too much."""
        levels = [_root(tree, total, measurer)]
        measured = [depth for depth in range(1, len(tree.levels)) if not tree.only_children(depth)]
        dropped = False
        facts: Mapping[str, Any] = {"sparsity": NOTHING_MEASURED} if self.sparsity == AUTO else {}
        for depth in measured:
            room = None if most is None or self._whole else most - sum(len(level.nodes) for level in levels)
            with_left_out = self.sparsity == AUTO or self.lists_remainders
            level = _measured_level(tree, depth, levels[-1], measurer, room, with_left_out=with_left_out)
            if level is None:
                return Begun(_counts_above(tree, depth, levels), measured_below=True)
            levels.append(level)
            if depth == measured[-1] and self.sparsity and len(levels[0].nodes):
                kept, facts = self._sparse(tree, levels)
                dropped = kept is not None
                levels = levels if kept is None else _reprojected(without(levels, kept))
            if self._fits(levels):
                levels = _fitted(levels)
        # What was dropped was chosen by the same noise, which the variances of the fit do not take into account.
        std_dev = not dropped and self.sparsity in (0, AUTO) and self._fits(levels)
        return self._finished(tree, levels, facts, with_std_dev=std_dev)

    def _finished(
        self, tree: Tree, levels: Sequence[MeasuredLevel], facts: Mapping[str, Any], *, with_std_dev: bool
    ) -> Begun:
        """All levels as they are published."""
        return Begun(_released(tree, levels, with_std_dev=with_std_dev), dense=True, facts=facts)

    def _sparse(
        self, tree: Tree, levels: Sequence[MeasuredLevel]
    ) -> tuple[list[BoolArray] | None, Mapping[str, Mapping[str, Any]]]:
        """Per level, which nodes are kept (None: all), and what the statement says of it."""
        if self.sparsity != AUTO:
            return _supported(levels, float(self.sparsity) ** 2), {}
        sizes = [tree.size(level.depth) for level in levels]
        found = sparsity_of(levels, sizes)
        if not found.applied:
            return None, {"sparsity": found.facts()}
        sure = _supported(levels, SURELY_KEPT**2)
        kept = [one | other for one, other in zip(likely(levels, sizes, found), sure, strict=True)]
        return kept, {"sparsity": found.facts()}

    def _fits(self, levels: Sequence[MeasuredLevel]) -> bool:
        """Whether all levels can be fitted at once; beyond, the counts stay as they were projected."""
        noisy = sum(float(np.abs(level.noisy).sum(dtype=np.float64)) for level in levels)
        return sum(len(level.nodes) for level in levels) <= self.largest_fit and noisy < MAX_TREE_SUM / 2


def _root(tree: Tree, total: int | None, measurer: Measures) -> MeasuredLevel:
    """The root; the level has no nodes where the root's count is 0, since all counts are 0 then."""
    value, variance = total, 0.0
    if value is None:
        value, noise = measured_root(tree, measurer)
        variance = max(noise.variance, MIN_VARIANCE)
    node = np.zeros(int(value > 0), dtype=np.int64)
    return MeasuredLevel(0, node, node, node + value, variance, np.ones(1, dtype=np.int64), node + value)


def _measured_level(
    tree: Tree,
    depth: int,
    above: MeasuredLevel,
    measurer: Measures,
    room: int | None = None,
    *,
    with_left_out: bool = False,
) -> MeasuredLevel | None:
    """The level at `depth`: the children that IntOpt leaves positive, given the counts of their parents.

    None where there are more of them than there is `room` for; all are measured then too.
    """
    parents = ReleasedCounts(_nodes_at(tree, depth - 1, above), above.counts)
    sizes = tree.child_counts(depth - 1, parents.nodes)
    parts: list[tuple[IntArray, IntArray, IntArray, IntArray]] = [(_NONE, _NONE, _NONE, _NONE)]
    others: list[tuple[IntArray, IntArray]] = [(_NONE, _NONE)]
    variance, found = MIN_VARIANCE, 0
    for families in measured_families(tree, depth, parents, measurer):
        counts = chebyshev_families(families.noisy, families.offsets, families.totals)
        kept = np.flatnonzero(counts)
        found += len(kept)
        if room is not None and found > room:
            parts = parts[:1]
            continue
        parts.append((families.nodes[kept], _parents_in(families, kept), families.noisy[kept], counts[kept]))
        if with_left_out:
            zero = np.flatnonzero(counts == 0)
            others.append((_parents_in(families, zero), families.noisy[zero]))
        variance = max(families.noise.variance, MIN_VARIANCE)
    if room is not None and found > room:
        return None
    nodes, places, noisy, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    left_out = LeftOut(*(np.concatenate(column) for column in zip(*others, strict=True)))
    return MeasuredLevel(depth, nodes, places, noisy, variance, sizes, counts, left_out)


def _parents_in(families: MeasuredFamilies, children: IntArray) -> IntArray:
    """The index, in the level above, of the parent of some of the measured children."""
    places: IntArray = np.searchsorted(families.offsets, children, side="right") - 1 + families.parents.start
    return places


_NONE = np.empty(0, dtype=np.int64)


def _nodes_at(tree: Tree, depth: int, level: MeasuredLevel) -> IntArray:
    """The nodes of a level, or their descendants at `depth`; in between every node has one child."""
    nodes = level.nodes
    for above in range(level.depth, depth):
        nodes = tree.children(above, nodes)[0]
    return nodes


def _counts_above(tree: Tree, depth: int, levels: Sequence[MeasuredLevel]) -> list[ReleasedCounts]:
    """The nodes that are not 0 of every level above `depth`, root first."""
    place, found = -1, []
    for above in range(depth):
        place += place + 1 < len(levels) and levels[place + 1].depth == above
        found.append(ReleasedCounts(_nodes_at(tree, above, levels[place]), levels[place].counts))
    return found


def _reprojected(levels: Sequence[MeasuredLevel]) -> list[MeasuredLevel]:
    """New counts by IntOpt, from the root down; nodes with a count of 0 are removed."""
    found = [levels[0]]
    for level in levels[1:]:
        found.append(replace(level, counts=chebyshev_families(level.noisy, level.offsets, found[-1].counts)))
    return without(found, [level.counts > 0 for level in found])


def _fitted(levels: Sequence[MeasuredLevel]) -> list[MeasuredLevel]:
    """New counts by the least-squares fit of all levels; nodes with a count of 0 are removed."""
    if not len(levels[0].nodes):
        return list(levels)
    starts = offsets_of(np.array([len(level.nodes) for level in levels]))
    parent = np.concatenate([levels[0].parents - 1, *(b.parents + s for b, s in zip(levels[1:], starts, strict=False))])
    least = min((level.variance for level in levels if level.variance > 0), default=1.0)
    weights = [np.full(len(level.nodes), least / level.variance if level.variance else np.inf) for level in levels]
    order = _mixed(levels)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    above = parent[order]
    above[above >= 0] = place[above[above >= 0]]
    x = np.empty(len(order), dtype=np.int64)
    x[order] = project(above, np.concatenate([level.noisy for level in levels])[order], np.concatenate(weights)[order])
    found = [
        replace(level, counts=x[start : start + len(level.nodes)]) for level, start in zip(levels, starts, strict=False)
    ]
    return without(found, [level.counts > 0 for level in found])


def _mixed(levels: Sequence[MeasuredLevel]) -> IntArray:
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


def _supported(levels: Sequence[MeasuredLevel], penalty: float) -> list[BoolArray]:
    """Per level, which nodes are kept by `solvers.sparse_support`."""
    sizes = np.array([len(level.nodes) for level in levels])
    noisy = np.concatenate([level.noisy for level in levels])
    kept = support(first_children(levels), noisy, np.repeat([level.variance for level in levels], sizes), penalty)
    return np.split(kept, np.cumsum(sizes)[:-1])


def _released(tree: Tree, levels: Sequence[MeasuredLevel], *, with_std_dev: bool) -> list[ReleasedCounts]:
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


def _combined(levels: Sequence[MeasuredLevel]) -> Combined:
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
    levels: Sequence[MeasuredLevel],
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
