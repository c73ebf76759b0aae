"""`LeastSquares`: measure from the root down, and fit all measurements at once by least squares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from tallytree.counts.expected_variances import ExpectedVariances, fitted_variances
from tallytree.counts.measured_level import (
    LeftOut,
    MeasuredLevel,
    combined,
    estimated,
    fitted,
    reprojected,
    supported,
    without,
)
from tallytree.counts.mechanism import Begun, GoesDown, checked_sparsity, statistics_of_counts
from tallytree.counts.prior_fit import PriorOfCounts, prior_fit
from tallytree.counts.released_counts import ListedErrors, ReleasedCounts, dense_level, typical_error
from tallytree.counts.sparse_fit import NOTHING_MEASURED, NothingDropped, SparseFit, sparse_fit, whole_fit
from tallytree.counts.top_down import MeasuredFamilies, TopDown, measured_families, measured_root
from tallytree.hierarchy import Tree
from tallytree.kinds.measurements import Measures, Noise, Statistic
from tallytree.solvers.trees.linear import Combined, TreeEstimates
from tallytree.solvers.trees.shape import MAX_TREE_SUM
from tallytree.solvers.trees.simplex import chebyshev_families
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.validate import integer

NODE_BYTES = 300
"""Of memory that a node of a fit takes, about."""

AUTO: Literal["auto"] = "auto"
"""The `sparsity` that is chosen from the noisy measurements."""

MIN_VARIANCE = 1e-9
"""Used where the variance is smaller, or 0: noisy values as exact constraints could contradict each other."""


@dataclass(frozen=True)
class LeastSquares(GoesDown):
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
            kept if the measurements of the leaf and its ancestors outweigh this cost (`solvers.trees.sparse_support`).
            0 keeps all; 3 halves the false discoveries of the paper's sparse data at ε = 1
            (`docs/explanation/counts.md`). Use it for sparse data only: a true count that is small compared to the
            noise is set to 0 too, and its siblings get its
            part of the parent's count. `"auto"` chooses from the noisy measurements: it estimates how many leaves are
            not 0; if these are few, it keeps the nodes that are more probably positive than 0, and what κ = 3.5 keeps;
            otherwise the release is that of 0 (`counts.auto_sparsity`), but for the total of flows and products, which
            is at its unbiased estimate. The statement says what was estimated, under `sparsity`.
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
        """See `CountsMechanism.expected_variances`; none with a number as `sparsity`, nor with remainders."""
        return (
            None
            if self.sparsity not in (0, AUTO) or self.lists_remainders
            else [*fitted_variances(tree, noise, upward=True)]
        )

    @property
    def rounding(self) -> float:
        """See `CountsMechanism.rounding`: that of a fraction which is rounded to the nearest integer."""
        return 1 / 12

    def takes_prior(self, tree: Tree) -> bool:
        """See `CountsMechanism`."""
        return tree.enumerated and self.sparsity == 0

    def reconcile_and_tell(
        self, tree: Tree, total: int | None, measurer: Measures, prior: PriorOfCounts | None = None
    ) -> tuple[Sequence[ReleasedCounts], Mapping[str, Any]]:
        """See `CountsMechanism.reconcile_and_tell`: how sparse the data are, with `sparsity="auto"`."""
        begun = self.begin(tree, total, measurer, whole=True, prior=prior)
        return begun.levels, begun.facts

    def descend(self, tree: Tree, depth: int, above: ReleasedCounts, measurer: Measures) -> ReleasedCounts:
        """See `GoesDown`: what was too much for one fit stays as projected, as in `TopDown`."""
        return TopDown().descend(tree, depth, above, measurer)

    def bytes_at_once(self, tree: Tree) -> int:
        """See `GoesDown`: those of the nodes that are fitted at once."""
        nodes = sum(tree.size(depth) for depth in range(len(tree.levels)) if not tree.only_children(depth))
        # The leaves of a sparse fit are chosen from all levels at once, fitted or not.
        return NODE_BYTES * (nodes if self._whole else min(nodes, self.largest_fit))

    @property
    def _whole(self) -> bool:
        """Whether nodes are chosen from all levels at once."""
        return self.sparsity != 0 or self.lists_remainders

    def why_whole(self) -> str:
        """See `GoesDown`."""
        if self.sparsity:
            return "LeastSquares with a sparsity works on all nodes at once; choose TopDown, or give more memory"
        return (
            f"LeastSquares fits up to {self.largest_fit:,} nodes at once; give more memory, a smaller largest_fit "
            "(what is beyond it is projected as by TopDown), or choose TopDown"
        )

    def begin(
        self, tree: Tree, total: int | None, measurer: Measures, *, whole: bool, prior: PriorOfCounts | None = None
    ) -> Begun:
        """See `GoesDown`: all levels; but not the `whole`, those above the first that is too much for one fit."""
        levels = [_root(tree, total, measurer)]
        before: Sequence[MeasuredLevel] = levels
        measured = [depth for depth in range(1, len(tree.levels)) if not tree.only_children(depth)]
        for depth in measured:
            room = None if whole or self._whole else self.largest_fit - sum(len(level.nodes) for level in levels)
            level = _measured_level(tree, depth, levels[-1], measurer, room, most_left_out=self._most_left_out())
            if level is None:
                return Begun(_counts_above(tree, depth, levels), measured_below=True)
            levels.append(level)
            if depth == measured[-1] and self.sparsity not in (0, AUTO) and len(levels[0].nodes):
                levels = reprojected(without(levels, supported(levels, float(self.sparsity) ** 2)))
            before = levels
            if self._fits(levels):
                levels = fitted(levels)
        return self._finished(tree, before, levels, prior)

    def _finished(
        self,
        tree: Tree,
        before: Sequence[MeasuredLevel],
        levels: Sequence[MeasuredLevel],
        prior: PriorOfCounts | None = None,
    ) -> Begun:
        """All levels as they are published.

        Args:
            tree: the public tree.
            before: the measured levels before the last fit.
            levels: after it.
            prior: what the counts are expected to resemble; None without it.
        """
        facts: Mapping[str, Any] = {"sparsity": NOTHING_MEASURED} if self.sparsity == AUTO else {}
        chosen: SparseFit | NothingDropped | None = None
        if prior is not None and self._may_choose(before):
            known, errors = prior_fit(before, prior)
            return Begun(_with_errors(tree, _released(tree, known, with_std_dev=True), errors), dense=True)
        if self._may_choose(before):
            if self.sparsity == AUTO:
                chosen = sparse_fit(before, levels, [tree.possible(level.depth) for level in before])
            if self.sparsity in (0, AUTO) and not isinstance(chosen, SparseFit) and not tree.enumerated:
                chosen = whole_fit(before, levels, tree.possible(before[-1].depth), chosen)
            if self.sparsity == AUTO and chosen is not None:
                facts = {"sparsity": chosen.facts}
        if isinstance(chosen, SparseFit):
            return Begun(_released(tree, chosen.levels, errors=chosen.errors), dense=True, facts=facts)
        # What κ dropped was chosen by the same noise, which the variances of the fit do not take into account.
        std_dev = self.sparsity in (0, AUTO) and self._fits(levels)
        return Begun(_released(tree, levels, with_std_dev=std_dev), dense=True, facts=facts)

    def _most_left_out(self) -> float:
        """How many measurements of a level's nodes that are 0 are kept; none where nothing needs them."""
        if self.lists_remainders:
            return np.inf
        return self.largest_fit if self.sparsity in (0, AUTO) else 0

    def _may_choose(self, levels: Sequence[MeasuredLevel]) -> bool:
        """Whether there is something to choose from, and all of it was kept."""
        kept = all(level.left_out is not None for level in levels)
        return kept and len(levels) > 1 and len(levels[0].nodes) > 0 and self._fits(levels)

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
    families = np.ones(1, dtype=np.int64)
    return MeasuredLevel(0, node, node, node + value, variance, families, node + value, LeftOut())


def _measured_level(
    tree: Tree,
    depth: int,
    above: MeasuredLevel,
    measurer: Measures,
    room: int | None = None,
    *,
    most_left_out: float = 0,
) -> MeasuredLevel | None:
    """The level at `depth`: the children that IntOpt leaves positive, given the counts of their parents.

    None where there are more of them than there is `room` for; all are measured then too. What was measured of the
    others is kept where these are at most `most_left_out`.
    """
    parents = ReleasedCounts(_nodes_at(tree, depth - 1, above), above.counts)
    sizes = tree.child_counts(depth - 1, parents.nodes)
    parts: list[tuple[IntArray, IntArray, IntArray, IntArray]] = [(_NONE, _NONE, _NONE, _NONE)]
    others: list[tuple[IntArray, IntArray, IntArray]] = [(_NONE, _NONE, _NONE)]
    variance, found, laplace, left = MIN_VARIANCE, 0, False, 0
    for families in measured_families(tree, depth, parents, measurer):
        counts = chebyshev_families(families.noisy, families.offsets, families.totals)
        kept = np.flatnonzero(counts)
        found += len(kept)
        if room is not None and found > room:
            parts = parts[:1]
            continue
        parts.append((families.nodes[kept], _parents_in(families, kept), families.noisy[kept], counts[kept]))
        left += len(counts) - len(kept)
        if left <= most_left_out:
            zero = np.flatnonzero(counts == 0)
            others.append((_parents_in(families, zero), families.noisy[zero], families.nodes[zero]))
        else:
            others = others[:1]
        variance = max(families.noise.variance, MIN_VARIANCE)
        laplace = families.noise.distribution == "discrete_laplace"
    if room is not None and found > room:
        return None
    nodes, places, noisy, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    left_out = None
    if left <= most_left_out:
        left_out = LeftOut(*(np.concatenate(column) for column in zip(*others, strict=True)))
    return MeasuredLevel(depth, nodes, places, noisy, variance, sizes, counts, left_out, laplace)


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


def _released(
    tree: Tree,
    levels: Sequence[MeasuredLevel],
    *,
    with_std_dev: bool = False,
    errors: Sequence[ListedErrors] | None = None,
) -> list[ReleasedCounts]:
    """The released counts of all levels of the tree, root first."""
    fit = combined(levels) if with_std_dev else None
    kept = all(level.left_out is not None for level in levels) and len(levels[0].nodes) > 0
    estimates = estimated(levels) if fit is not None and tree.enumerated and kept else None
    released: list[ReleasedCounts] = []
    dense: FloatArray | None = None
    unbiased: FloatArray | None = None
    place = -1
    for depth in range(len(tree.levels)):
        place += place + 1 < len(levels) and levels[place + 1].depth == depth
        counts = ReleasedCounts(_nodes_at(tree, depth, levels[place]), levels[place].counts)
        if tree.enumerated:
            counts = dense_level(tree, depth, counts)
        elif errors is not None:
            counts = replace(counts, errors=errors[place])
        if fit is not None:
            variances = fit.nodes[place]
            if tree.enumerated:
                dense = variances = _dense_variances(tree, depth, levels, fit, place, dense)
            counts = replace(counts, std_dev=np.sqrt(variances))
        if estimates is not None:
            unbiased = _dense_estimates(tree, depth, levels, estimates, place, unbiased)
            counts = replace(counts, unbiased=unbiased)
            counts = replace(counts, typical_error=typical_error(tree, depth, counts, released[-1] if depth else None))
        released.append(counts)
    return released


def _with_errors(
    tree: Tree, released: Sequence[ReleasedCounts], errors: Sequence[tuple[MeasuredLevel, FloatArray]]
) -> list[ReleasedCounts]:
    """The released counts with the typical errors of measured nodes, and of nodes that have no sibling."""
    found: list[ReleasedCounts] = []
    known = {level.depth: (level.nodes, each) for level, each in errors}
    for depth, counts in enumerate(released):
        typical = counts.typical_error
        if typical is not None and depth in known:
            nodes, of_nodes = known[depth]
            typical = typical.copy()
            typical[nodes] = of_nodes
        elif typical is not None and tree.only_children(depth) and found[-1].typical_error is not None:
            typical = found[-1].typical_error[tree.parents(depth, counts.nodes)]
        found.append(replace(counts, typical_error=typical))
    return found


def _dense_estimates(
    tree: Tree,
    depth: int,
    levels: Sequence[MeasuredLevel],
    estimates: TreeEstimates,
    place: int,
    above: FloatArray | None,
) -> FloatArray:
    """The estimate of every node of a dense level: of one that was not measured, its part of its parent's."""
    if above is None:
        return estimates.nodes[0]
    children = tree.child_counts(depth - 1, np.arange(tree.size(depth - 1), dtype=np.int64))
    found = (above / children)[tree.parents(depth, np.arange(tree.size(depth), dtype=np.int64))]
    level = levels[place]
    if level.depth == depth:
        left = level.others
        found[left.nodes] = left.noisy + estimates.shifts[place - 1][left.parents]
        found[level.nodes] = estimates.nodes[place]
    return found


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
