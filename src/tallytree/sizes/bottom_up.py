"""`BottomUp`: estimate the leaves and add them up; the baseline of Kuo et al. 2018."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tallytree.hierarchy import Hierarchy
from tallytree.kinds.measurements import Statistic
from tallytree.kinds.terms import Invariants
from tallytree.sizes.estimators import EstimatorName
from tallytree.sizes.level_estimates import LevelEstimates, check_estimator, checked_norm, leaves_of, runs_of
from tallytree.sizes.mechanism import LeavesInBands, Measurers, ReleasedSizes, SizesDomain, measured_depths, nothing
from tallytree.solvers.sizes.isotonic import Norm
from tallytree.solvers.sizes.matching import NodeRuns
from tallytree.support.validate import safe_text
from tallytree.trees.bands import Band, Cut


@dataclass(frozen=True)
class BottomUp(LeavesInBands):
    """Measure the leaves alone, with all of the budget, estimate each by itself, and add them up (Kuo, section 6).

    It is the most accurate mechanism at the leaves. In the levels above, the errors of the leaves add up.

    Args:
        estimator: `"cumulative"`, `"sorted"` or `"naive"`; see `Matching`.
        norm: 1 or 2, of the isotonic regression of `"cumulative"` and `"sorted"`.

    Raises:
        ValueError: an unknown estimator or norm.
        TypeError: an estimator that is not a name.
    """

    estimator: EstimatorName = "cumulative"
    norm: Norm = 1

    def __post_init__(self) -> None:
        """Check the options."""
        if not isinstance(self.estimator, str):
            raise TypeError(
                f"estimator: {safe_text(self.estimator)} must be one name, since the leaves alone are estimated"
            )
        check_estimator(self.estimator)
        object.__setattr__(self, "norm", checked_norm(self.norm))

    def statistics(self, hierarchy: Hierarchy, *, invariants: Invariants) -> dict[str, Statistic]:
        """The leaf level, or the highest level with the same nodes, and the statistic that is measured there."""
        return self._leaves(hierarchy).statistics(invariants)

    def leaves(self, domain: SizesDomain, cut: Cut, measurers: Measurers) -> Iterator[ReleasedSizes]:
        """See `LeavesInBands.leaves`; every leaf is estimated by itself."""
        estimates = self._leaves(domain.hierarchy).in_bands(domain, cut, measurers)
        top = next(estimates.top(), None)
        if top is None:
            yield from estimates.each_band(_first_level, nothing)
            return
        for band in cut.bands:
            # The levels below the measured level repeat it, so its node numbers are those of the leaves.
            yield leaves_of(band, runs_of(top, *band.span(cut.depth)))

    def _leaves(self, hierarchy: Hierarchy) -> LevelEstimates:
        return LevelEstimates(hierarchy, measured_depths(hierarchy)[-1:], self.estimator, self.norm)


def _first_level(band: Band, levels: Iterator[NodeRuns], given: None) -> ReleasedSizes:
    """The leaves of a band, of which one level is measured."""
    return leaves_of(band, next(levels))
