"""`Independent`: every node estimated by itself (Kuo et al. 2018, section 4); levels are not made consistent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tallytree.hierarchy import Hierarchy
from tallytree.kinds.measurements import Measures, Statistic
from tallytree.kinds.terms import Invariants
from tallytree.sizes.level_estimates import (
    EstimatorOption,
    LevelEstimates,
    NormOption,
    check_estimator,
    checked_norms,
    estimated_sizes,
)
from tallytree.sizes.mechanism import ReleasedSizes, SizesDomain, SizesMechanism, measured_depths, summed


@dataclass(frozen=True)
class Independent(SizesMechanism):
    """Estimate every node of every level by itself: children do not add up to their parents.

    For comparison: it shows how consistency changes the error. Each level keeps the public numbers of groups: that of
    every node, or their sum.

    Args:
        estimator: `"cumulative"`, `"sorted"` or `"naive"`, or a mapping from every level's name to one; see `Matching`.
        norm: 1 or 2, of the isotonic regression of `"cumulative"` and `"sorted"`: one for all levels, or a mapping from
            every level's name to one.

    Raises:
        ValueError: an unknown estimator or norm.
        TypeError: an estimator that is neither a name nor a mapping.
    """

    estimator: EstimatorOption = "cumulative"
    norm: NormOption = 1

    def __post_init__(self) -> None:
        """Check the options."""
        check_estimator(self.estimator)
        object.__setattr__(self, "norm", checked_norms(self.norm))

    @property
    def caveat(self) -> str:
        """That levels do not add up."""
        return "estimates every node by itself, so its levels do not add up."

    def statistics(self, hierarchy: Hierarchy, *, invariants: Invariants) -> dict[str, Statistic]:
        """The levels to be measured, root first, and the statistic that is measured at each."""
        estimates = LevelEstimates(hierarchy, measured_depths(hierarchy), self.estimator, self.norm)
        return estimates.statistics(invariants)

    def reconcile(self, domain: SizesDomain, measurer: Measures) -> Sequence[ReleasedSizes]:
        """Measure, and compute the group sizes of every level, root first."""
        hierarchy = domain.hierarchy
        levels: list[ReleasedSizes] = []
        for depth in range(len(hierarchy.levels)):
            if hierarchy.only_children(depth):
                levels.append(levels[-1])
                continue
            (runs,) = LevelEstimates(hierarchy, [depth], self.estimator, self.norm).of(domain, measurer)
            levels.append(summed(*estimated_sizes(runs), domain.largest))
        return levels
