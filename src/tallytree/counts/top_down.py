"""`TopDown`: measure and project level by level, from the root down (InfTDA, Boninsegna and Silvestri 2025).

`measured_families` measures the children of the nodes that are not 0, family by family, in chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np

from tallytree.counts.expected_variances import ExpectedVariances, fitted_variances
from tallytree.counts.mechanism import Begun, GoesDown, checked_sparsity, statistics_of_counts
from tallytree.counts.released_counts import ReleasedCounts
from tallytree.hierarchy import Tree
from tallytree.kinds.measurements import Measures, Noise, Statistic
from tallytree.kinds.mechanism import MOST_OF_GENERAL_SOLVERS
from tallytree.solvers.trees.families import survivors
from tallytree.solvers.trees.simplex import chebyshev_families, euclidean_families
from tallytree.support.arrays import IntArray, chunks, offsets_of
from tallytree.support.validate import require_packages, text

CELLS_AT_ONCE = 4_000_000
"""Families are measured and projected in chunks of about this many children, which bounds the memory of a step."""


@dataclass(frozen=True, eq=False)
class MeasuredFamilies:
    """The measured children of some nodes of the level above; a family is all children of one node.

    Attributes:
        parents: which entries of the `ReleasedCounts` of the level above are the parents.
        totals: int64 (parents,), the count of each parent.
        nodes: int64 (children,), node numbers, family after family.
        offsets: int64 (parents + 1,), where each family begins.
        noisy: int64 (children,), the noisy measurements.
        noise: the distribution of the noise in each of them.
    """

    parents: slice
    totals: IntArray
    nodes: IntArray
    offsets: IntArray
    noisy: IntArray
    noise: Noise


def measured_root(tree: Tree, measurer: Measures) -> tuple[int, Noise]:
    """The noisy total number of records, and the distribution of its noise."""
    measured = measurer.measure(tree.levels[0], np.zeros(1, dtype=np.int64), "total")
    return int(measured.values[0]), measured.noise


def measured_families(tree: Tree, depth: int, above: ReleasedCounts, measurer: Measures) -> Iterator[MeasuredFamilies]:
    """The children, at `depth`, of all nodes in `above`, measured chunk by chunk."""
    for parents in chunks(tree.child_counts(depth - 1, above.nodes), CELLS_AT_ONCE):
        nodes, offsets = tree.children(depth - 1, above.nodes[parents])
        measured = measurer.measure(tree.levels[depth], nodes, "counts")
        yield MeasuredFamilies(parents, above.counts[parents], nodes, offsets, measured.values, measured.noise)


def positive_nodes(level: ReleasedCounts) -> ReleasedCounts:
    """The nodes with a count above 0. Pruning is final: descendants of the other nodes are never measured."""
    kept = level.counts > 0
    return ReleasedCounts(level.nodes[kept], level.counts[kept])


Projection = Literal["chebyshev", "chebyshev-descending", "euclidean", "cvxpy-l2", "cvxpy-linf"]

FamilyProjection = Callable[[IntArray, IntArray, IntArray], IntArray]
"""From noisy values, offsets of the families and their totals to the counts of all children."""

_PROJECTIONS: dict[str, FamilyProjection] = {
    "chebyshev": chebyshev_families,
    "chebyshev-descending": partial(chebyshev_families, order="descending"),
    "euclidean": euclidean_families,
}
"""The projections of the product; the others are the papers' solvers, imported where one of them is chosen."""


@dataclass(frozen=True)
class TopDown(GoesDown):
    """Release counts level by level: the children of every non-zero node are measured and projected on its count.

    The children's released counts are the integers x ≥ 0 with Σx = the parent's count that are nearest to the noisy
    measurements. A node released as 0 is pruned: its descendants are released as 0 and are never measured, which keeps
    sparse data sparse. Pruning depends on released counts only, so it costs no privacy.

    Args:
        projection: `"chebyshev"` minimises the largest change (IntOpt: Boninsegna and Silvestri 2025, Algorithms 1-4);
            `"chebyshev-descending"` finds another of its optima, which lowers large values first: fewer nodes with
            records become 0, and more without records do not (section 4.2). `"euclidean"` minimises the sum of squared
            changes. All find the exact integer optimum. For comparison, the paper's black boxes (section 5) solve one
            CVXPY problem per family, and need `pip install "tallytree[papers]"`: `"cvxpy-linf"` (TDA_inf: some solution
            whose largest change is least, by HiGHS) and `"cvxpy-l2"` (TDA_2: the real optimum by Clarabel, rounded).
        sparsity: κ. Of every family, the children whose noisy value is above κ standard deviations of the noise are
            kept, and in any case the child with the largest one. While the sum of those kept is below the parent's
            count by more than κ standard deviations, the next largest positive child is kept too. 0 keeps all children.
            `LeastSquares(sparsity=…)` has fewer false discoveries and a smaller error.

    Raises:
        ValueError: an unknown projection, or a sparsity that is negative or not finite.
        TypeError: a sparsity that is not a number.
        ModuleNotFoundError: the projection needs a package that is not installed.
    """

    projection: Projection = "chebyshev"
    sparsity: float = 0.0

    @property
    def most(self) -> int | None:
        """See `Mechanism.most`: the papers' black boxes take less."""
        return None if self.projection in _PROJECTIONS else MOST_OF_GENERAL_SOLVERS

    def __post_init__(self) -> None:
        """Check the options."""
        if text(self.projection, "projection", "the name of a projection") not in get_args(Projection):
            raise ValueError(
                f'projection: {self.projection!r} is not known; choose "chebyshev", "chebyshev-descending" or '
                '"euclidean" (or "cvxpy-l2" or "cvxpy-linf", to compare with)'
            )
        if self.projection not in _PROJECTIONS:
            from tallytree.solvers.papers.third_party import PROJECTION_PACKAGES

            require_packages("projection", repr(self.projection), PROJECTION_PACKAGES[self.projection], "papers")
        checked_sparsity(self.sparsity)

    def statistics(self, tree: Tree, *, total_is_public: bool) -> dict[str, Statistic]:
        """The levels to be measured, root first, and the statistic that is measured at each."""
        return statistics_of_counts(tree, total_is_public=total_is_public)

    def expected_variances(self, tree: Tree, noise: Mapping[str, Noise]) -> list[ExpectedVariances | None] | None:
        """See `CountsMechanism.expected_variances`; none with a `sparsity`, or for the paper's solvers.

        Where no count is near 0, both projections change the children of a node by the same amount, that which is
        missing to the parent's count over their number.
        """
        if self.sparsity > 0 or self.projection not in _PROJECTIONS:
            return None
        return [*fitted_variances(tree, noise, upward=False)]

    @property
    def rounding(self) -> float:
        """See `CountsMechanism.rounding`, measured with families of 2 to 10 children and noise of 0.7 to 1.2.

        What is missing to the parent's count is a fraction f of 1 for every child. The Euclidean projection gives 1 to
        some and 0 to the others: f·(1 − f), on average 1/6. The Chebyshev projection may give 1 to some and −1 to
        others.
        """
        return 0.4 if self.projection.startswith("chebyshev") else 1 / 6

    def begin(self, tree: Tree, total: int | None, measurer: Measures, *, whole: bool) -> Begun:
        """See `GoesDown`: the root."""
        if total is None:
            # The only constraint on a measured root is that it is not negative.
            total = max(0, measured_root(tree, measurer)[0])
        root = ReleasedCounts(np.zeros(1, dtype=np.int64), np.array([total], dtype=np.int64))
        return Begun([positive_nodes(root)])

    def descend(self, tree: Tree, depth: int, above: ReleasedCounts, measurer: Measures) -> ReleasedCounts:
        """The nodes that are not 0 of the level at `depth`, from those of the level above."""
        if tree.only_children(depth):
            return ReleasedCounts(tree.children(depth - 1, above.nodes)[0], above.counts)
        parts = [
            positive_nodes(ReleasedCounts(families.nodes, self._project(families)))
            for families in measured_families(tree, depth, above, measurer)
        ]
        if not parts:
            return above
        return ReleasedCounts(
            np.concatenate([part.nodes for part in parts]), np.concatenate([part.counts for part in parts])
        )

    def _project(self, families: MeasuredFamilies) -> IntArray:
        """The counts of all children, int64 (children,)."""
        nearest = _family_projection(self.projection)
        if self.sparsity == 0:
            return nearest(families.noisy, families.offsets, families.totals)
        kept = survivors(families.noisy, families.offsets, families.totals, self.sparsity * families.noise.std_dev)
        offsets = offsets_of(kept.astype(np.int64))[families.offsets]
        counts = np.zeros(len(kept), dtype=np.int64)
        counts[kept] = nearest(families.noisy[kept], offsets, families.totals)
        return counts


def _family_projection(name: Projection) -> FamilyProjection:
    """The function that a name stands for."""
    if name in _PROJECTIONS:
        return _PROJECTIONS[name]
    from tallytree.solvers.papers.simplex_programs import by_family, chebyshev_mip, euclidean_rounded

    return partial(by_family, chebyshev_mip if name == "cvxpy-linf" else euclidean_rounded)
