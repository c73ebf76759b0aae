"""`Matching`: estimate every node, then match and merge groups between levels (Kuo et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import get_args

from tallytree.hierarchy import Hierarchy
from tallytree.kinds.measurements import Statistic
from tallytree.kinds.terms import Invariants
from tallytree.sizes.level_estimates import (
    EstimatorOption,
    LevelEstimates,
    NormOption,
    check_estimator,
    checked_norms,
    leaves_of,
    runs_of,
)
from tallytree.sizes.mechanism import LeavesInBands, Measurers, ReleasedSizes, SizesDomain, measured_depths
from tallytree.solvers.sizes.matching import Carry, Merge, NodeRuns, match_families
from tallytree.support.arrays import IntArray
from tallytree.support.validate import text
from tallytree.trees.bands import Band, Cut


@dataclass(frozen=True)
class Matching(LeavesInBands):
    """Estimate group sizes at every node, then match each parent's groups with its children's and merge the two sizes.

    From the root down, groups are matched in order of size, which is the perfect matching of least cost (Lemma 5). A
    matched pair gets one merged size. The leaves' sizes are rounded, and released sizes of the other levels are their
    sums. All computations are on runs of equal groups.

    Args:
        estimator: `"cumulative"` (accurate for small sizes; measures tail counts), `"sorted"` (accurate for large
            sizes) or `"naive"` (for comparison only): one for all levels, or a mapping from every level's name to one.
        norm: 1 or 2, of the isotonic regression of `"cumulative"` and `"sorted"`: one for all levels, or a mapping from
            every level's name to one.
        merge: `"weighted"` by the inverse of the estimated variances, or plain `"average"`.
        carry: `"unrounded"` rounds merged sizes at the leaves only, `"rounded"` at every level, as the paper does.

    Raises:
        ValueError: an unknown estimator, norm, merge or carry.
        TypeError: an estimator that is neither a name nor a mapping.
    """

    estimator: EstimatorOption = "cumulative"
    norm: NormOption = 1
    merge: Merge = "weighted"
    carry: Carry = "unrounded"

    def __post_init__(self) -> None:
        """Check the options."""
        check_estimator(self.estimator)
        object.__setattr__(self, "norm", checked_norms(self.norm))
        if text(self.merge, "merge", '"weighted" or "average"') not in get_args(Merge):
            raise ValueError(f'merge: {self.merge!r} is not known; choose "weighted" or "average"')
        if text(self.carry, "carry", '"unrounded" or "rounded"') not in get_args(Carry):
            raise ValueError(f'carry: {self.carry!r} is not known; choose "unrounded" or "rounded"')

    def statistics(self, hierarchy: Hierarchy, *, invariants: Invariants) -> dict[str, Statistic]:
        """The levels to be measured, root first, and the statistic that is measured at each."""
        return self._estimates(hierarchy).statistics(invariants)

    def leaves(self, domain: SizesDomain, cut: Cut, measurers: Measurers) -> Iterator[ReleasedSizes]:
        """See `LeavesInBands.leaves`; a band is estimated and matched from the merged groups of its topmost nodes."""
        hierarchy = domain.hierarchy
        estimates = self._estimates(hierarchy).in_bands(domain, cut, measurers)
        levels = estimates.top()
        top = next(levels)
        for depth, below in zip(domain.measured_depths[1:], levels, strict=False):
            # Levels in between that are not measured repeat the level above them, and have its runs.
            top = self.matched(top, hierarchy.first_child[depth - 1], below)
        depths = [depth for depth in domain.measured_depths if depth > cut.depth]
        work = partial(_matched_leaves, self, depths)
        yield from estimates.each_band(work, lambda number: runs_of(top, *cut.band(number).span(cut.depth)))

    def matched(self, parents: NodeRuns, first_child: IntArray, children: NodeRuns) -> NodeRuns:
        """The merged groups of the children of some nodes, given the nodes' own."""
        return match_families(parents, first_child, children, merge=self.merge, carry=self.carry)

    def _estimates(self, hierarchy: Hierarchy) -> LevelEstimates:
        return LevelEstimates(hierarchy, measured_depths(hierarchy), self.estimator, self.norm)


def _matched_leaves(
    mechanism: Matching, depths: Sequence[int], band: Band, levels: Iterator[NodeRuns], runs: NodeRuns
) -> ReleasedSizes:
    """The leaves of a band, from the estimates of its measured levels and the merged groups of its topmost nodes."""
    for depth, below in zip(depths, levels, strict=True):
        runs = mechanism.matched(runs, band.first_child(depth - 1), below)
    return leaves_of(band, runs)
