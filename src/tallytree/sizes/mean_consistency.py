"""`MeanConsistency`: unconstrained least squares (Hay et al. 2010); a baseline of Kuo et al. 2018."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tallytree.hierarchy import Hierarchy
from tallytree.kinds.measurements import Measures, Statistic
from tallytree.kinds.terms import Invariants
from tallytree.sizes.mechanism import ReleasedSizes, SizesDomain, SizesMechanism, measured_everywhere
from tallytree.sizes.nearest_consistent import released_level
from tallytree.sizes.noisy import (
    CELLS_AT_ONCE,
    NoisyLevel,
    children_offsets,
    leaf_offsets,
    measure_levels,
    tails_of_every_size,
)
from tallytree.support.arrays import FloatArray, chunks

MAX_FITTED_CELLS = 2**26
"""Nearly every (node, size) becomes a row, and takes about 90 bytes until then, so all of them take 6 GiB."""
MIN_VARIANCE = 1e-12
"""Used for noise whose variance is 0 in floats."""


@dataclass(frozen=True)
class MeanConsistency(SizesMechanism):
    """Measure the tail counts of every node; for each size, make them add up over the levels by weighted least squares.

    For comparison. Children add up to their parents exactly, and public numbers of groups are kept. But numbers of
    groups are fractions and may be negative, and nearly every size of every node has one that is not 0, since tail
    counts are not constrained to be monotone. The statement gives how many are negative and how many are fractions.

    The paper's problem (section 5) is stated in histograms, which are differences of tail counts. Least squares is
    linear and has the same weights for all sizes. So the released histograms solve the paper's problem for the
    differences of the measured tail counts, which have half the variance of histograms measured with the same budget.
    See `docs/decisions/0015-mean-consistency.md`.
    """

    @property
    def caveat(self) -> str:
        """That numbers of groups may be fractions, or negative."""
        return "releases fractions of groups, and negative numbers of them."

    def check_cells(self, hierarchy: Hierarchy, sizes: int) -> None:
        """Refuse more cells than fit in memory.

        Raises:
            ValueError: more than 2^26 (node, size).
        """
        nodes = sum(hierarchy.size(depth) for depth in range(len(hierarchy.levels)))
        if nodes * sizes > MAX_FITTED_CELLS:
            raise ValueError(
                f"mechanism: {self!r} releases a number for nearly every node and size, here {nodes:,} × {sizes:,} = "
                f"{nodes * sizes:,} cells, and takes at most {MAX_FITTED_CELLS:,}; lower max_group_size (its "
                "at_most where it is private), or choose another mechanism"
            )

    def statistics(self, hierarchy: Hierarchy, *, invariants: Invariants) -> dict[str, Statistic]:
        """The levels to be measured, root first, and the statistic that is measured at each."""
        return measured_everywhere(hierarchy, "tail_counts")

    def reconcile(self, domain: SizesDomain, measurer: Measures) -> Sequence[ReleasedSizes]:
        """Measure, and compute the group sizes of every level, root first; `groups` is float64."""
        noisy = measure_levels(domain, measurer, "tail_counts")
        tails = _leaf_tails(domain, noisy)
        leaves = tails.copy()
        leaves[:, :-1] -= tails[:, 1:]
        offsets = (leaf_offsets(domain.hierarchy, depth) for depth in range(len(domain.hierarchy.levels)))
        return [released_level(domain, np.add.reduceat(leaves, begins[:-1], axis=0)) for begins in offsets]


def _leaf_tails(domain: SizesDomain, noisy: Sequence[NoisyLevel]) -> FloatArray:
    """The tail counts of every leaf and size, float64 (leaves, sizes), whose sums and differences are exact."""
    from tallytree.solvers.papers import mean_consistency

    tables = [tails_of_every_size(domain, level) for level in noisy]
    first_child = [children_offsets(above.first_leaf, level.first_leaf) for above, level in pairwise(noisy)]
    variances = [max(level.noise.variance, MIN_VARIANCE) for level in noisy]

    def fitted(columns: slice, variances: list[float]) -> FloatArray:
        return mean_consistency.fit([table[:, columns] for table in tables], first_child, variances)[-1]

    leaves, width = tables[-1].shape
    tails = np.empty((leaves, width))
    if domain.groups_are_public or (domain.total is not None and len(noisy) == 1):
        tails[:, 0] = tables[-1][:, 0]
    else:
        exact_root = [0.0, *variances[1:]] if domain.total is not None else variances
        tails[:, :1] = fitted(slice(0, 1), exact_root)
    nodes = sum(len(table) for table in tables)
    for chunk in chunks(np.full(width - 1, nodes, dtype=np.int64), CELLS_AT_ONCE):
        columns = slice(chunk.start + 1, chunk.stop + 1)
        tails[:, columns] = fitted(columns, variances)
    # There are 2^50 groups at most, so what adds up to more is noise; a refusal would come after the payment.
    beyond = np.abs(tails).sum(axis=0) >= mean_consistency.MAX_COLUMN_SUM
    if beyond.any():
        most = mean_consistency.MAX_COLUMN_SUM / 2 / leaves
        tails[:, beyond] = np.clip(tails[:, beyond], -most, most)
    return mean_consistency.with_exact_sums(tails, domain.total)
