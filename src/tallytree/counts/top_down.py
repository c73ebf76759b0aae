"""`TopDown`: measure and project level by level, from the root down (InfTDA, Boninsegna and Silvestri 2025)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from tallytree.compute.arrays import IntArray, offsets_of
from tallytree.counts.descent import Families, measured_families, measured_root, positive
from tallytree.counts.mechanism import CountsMechanism, checked_sparsity, statistics_of_counts
from tallytree.counts.released_counts import ReleasedCounts, whole_levels
from tallytree.hierarchy import Tree
from tallytree.measurements import Measures, Statistic
from tallytree.solvers.papers.simplex_programs import chebyshev_mip_families, euclidean_rounded_families
from tallytree.solvers.simplex import chebyshev_families, euclidean_families
from tallytree.solvers.thresholds import survivors
from tallytree.validate import require_packages

Projection = Literal["chebyshev", "euclidean", "cvxpy-l2", "cvxpy-linf"]

_PROJECTIONS: dict[Projection, Callable[[IntArray, IntArray, IntArray], IntArray]] = {
    "chebyshev": chebyshev_families,
    "euclidean": euclidean_families,
    "cvxpy-l2": euclidean_rounded_families,
    "cvxpy-linf": chebyshev_mip_families,
}

NEEDS: dict[str, tuple[str, ...]] = {"cvxpy-l2": ("cvxpy", "clarabel"), "cvxpy-linf": ("cvxpy", "highspy")}
"""The packages behind a projection."""


@dataclass(frozen=True)
class TopDown(CountsMechanism):
    """Release counts level by level: the children of every non-zero node are measured and projected on its count.

    The children's released counts are the integers x ≥ 0 with Σx = the parent's count that are nearest to the noisy
    measurements. A node released as 0 is not looked into: everything below it is 0 and is not measured, which keeps
    sparse data sparse. Pruning depends on released counts only, so it costs no privacy.

    Args:
        projection: `"chebyshev"` minimises the largest change (IntOpt: Boninsegna and Silvestri 2025, Algorithms 1-4);
            `"euclidean"` minimises the sum of squared changes. Both are the exact integer optimum. For comparison, the
            paper's black boxes (section 5), one CVXPY problem per family, which take `pip install "tallytree[papers]"`:
            `"cvxpy-linf"` (TDA_inf: any solution with the least largest change, by HiGHS) and `"cvxpy-l2"` (TDA_2: the
            real optimum by Clarabel, rounded).
        sparsity: κ. Of every family only children whose noisy value is above κ standard deviations of the noise are
            kept, the largest in any case, and more while those kept fall short of the parent's count by more than κ
            standard deviations. 0 keeps all. `LeastSquares(sparsity=…)` has fewer false positives at less error.

    Raises:
        ValueError: an unknown projection, or a sparsity that is negative or not finite.
        TypeError: a sparsity that is not a number.
        ModuleNotFoundError: the projection needs a package that is not installed.
    """

    projection: Projection = "chebyshev"
    sparsity: float = 0.0

    def __post_init__(self) -> None:
        """Check the options."""
        if self.projection not in get_args(Projection):
            raise ValueError(
                f'projection: {self.projection!r} is not known; choose "chebyshev" or "euclidean" (or "cvxpy-l2" or '
                '"cvxpy-linf", to compare with)'
            )
        require_packages("projection", self.projection, NEEDS.get(self.projection, ()))
        checked_sparsity(self.sparsity)

    def statistics(self, tree: Tree, *, total_is_public: bool) -> dict[str, Statistic]:
        """The levels to be measured, root first, and what is measured there."""
        return statistics_of_counts(tree, total_is_public=total_is_public)

    def reconcile(self, tree: Tree, total: int | None, measurer: Measures) -> list[ReleasedCounts]:
        """Counts per level, root first."""
        if total is None:
            # The only constraint on a measured root is that it is not negative.
            total = max(0, measured_root(tree, measurer)[0])
        released = [positive(ReleasedCounts(np.zeros(1, dtype=np.int64), np.array([total], dtype=np.int64)))]
        for depth in range(1, len(tree.levels)):
            released.append(self._descend(tree, depth, released[-1], measurer))
        return whole_levels(tree, released)

    def _descend(self, tree: Tree, depth: int, above: ReleasedCounts, measurer: Measures) -> ReleasedCounts:
        """The non-zero nodes of the level, from the non-zero nodes of the level above."""
        if tree.only_children(depth):
            return ReleasedCounts(tree.children(depth - 1, above.nodes)[0], above.counts)
        parts = [
            positive(ReleasedCounts(families.nodes, self._project(families)))
            for families in measured_families(tree, depth, above, measurer)
        ]
        if not parts:
            return above
        return ReleasedCounts(
            np.concatenate([part.nodes for part in parts]), np.concatenate([part.counts for part in parts])
        )

    def _project(self, families: Families) -> IntArray:
        """The counts of all children: int64 (children,)."""
        nearest = _PROJECTIONS[self.projection]
        if self.sparsity == 0:
            return nearest(families.noisy, families.offsets, families.totals)
        kept = survivors(families.noisy, families.offsets, families.totals, self.sparsity * families.noise.std_dev)
        offsets = offsets_of(kept.astype(np.int64))[families.offsets]
        counts = np.zeros(len(kept), dtype=np.int64)
        counts[kept] = nearest(families.noisy[kept], offsets, families.totals)
        return counts
