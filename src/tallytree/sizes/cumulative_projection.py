"""`CumulativeProjection`: M_c, consistent sizes from noisy tail counts (Fioretto et al. 2021, sections 8 and 9.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from tallytree.hierarchy import Hierarchy
from tallytree.kinds.measurements import Measures, Statistic
from tallytree.kinds.mechanism import MOST_OF_GENERAL_SOLVERS
from tallytree.kinds.terms import Invariants
from tallytree.sizes import solver_options
from tallytree.sizes.mechanism import ReleasedSizes, SizesDomain, SizesMechanism, measured_everywhere
from tallytree.sizes.nearest_consistent import nearest_consistent
from tallytree.sizes.noisy import NoisyLevel, measure_level, measure_levels
from tallytree.solvers.sizes import isotonic
from tallytree.support.arrays import IntArray

CumulativeSolver = Literal["two_step", "relaxed", "mip"]


@dataclass(frozen=True)
class CumulativeProjection(SizesMechanism):
    """Measure the tail counts of every node, which have half the sensitivity of histograms, and make them consistent.

    Where all numbers of groups are public, tail counts are the paper's cumulative counts (T_s = G − c_(s−1)).

    Args:
        solver: `"two_step"` (M_c^dp, Algorithm 2: isotonic regression of every node, rounded, differenced to a
            histogram; then the consistent histograms nearest to these in L2), or, for comparison with the paper on
            small inputs, `"relaxed"` (M_c^r: Model 2 as a convex program, then every number is rounded, so that levels
            need not add up) and `"mip"` (M_c, SCIP). The last two need `pip install "tallytree[papers]"` and cannot
            keep public numbers of groups per leaf.
        time_limit: seconds, for `"relaxed"` and `"mip"`.

    Raises:
        ValueError: an unknown solver, or an option out of range.
        TypeError: an option of the wrong type.
        ModuleNotFoundError: the solver needs an extra that is not installed.
    """

    solver: CumulativeSolver = "two_step"
    time_limit: float = 60.0

    def __post_init__(self) -> None:
        """Check the options."""
        solver_options.check_options(self.solver, get_args(CumulativeSolver), self.time_limit)

    @property
    def most(self) -> int | None:
        """See `Mechanism.most`: general solvers take less."""
        return None if self.solver in ("two_step",) else MOST_OF_GENERAL_SOLVERS

    @property
    def caveat(self) -> str | None:
        """What the solver `"relaxed"` does not keep."""
        return solver_options.caveat(self.solver)

    def statistics(self, hierarchy: Hierarchy, *, invariants: Invariants) -> dict[str, Statistic]:
        """The levels to be measured, root first, and the statistic that is measured at each."""
        if self.solver != "two_step":
            solver_options.refuse_public_groups(self.solver, "two_step", invariants)
        return measured_everywhere(hierarchy, "tail_counts")

    def reconcile(self, domain: SizesDomain, measurer: Measures) -> Sequence[ReleasedSizes]:
        """Measure, and compute the group sizes of every level, root first."""
        if self.solver != "two_step":
            from tallytree.sizes import paper_solvers

            noisy = measure_levels(domain, measurer, "tail_counts")
            return paper_solvers.release_tails(domain, noisy, self.solver, self.time_limit)
        histograms = []
        for depth in domain.measured_depths:
            level = measure_level(domain, depth, measurer, "tail_counts")
            histograms.append(replace(level, values=_monotone_histogram(domain, level)))
        return nearest_consistent(domain, histograms)


def _monotone_histogram(domain: SizesDomain, level: NoisyLevel) -> IntArray:
    """The nearest non-increasing tail counts of every node, rounded, as histograms, int64 (nodes, sizes).

    Tail counts lie between 0 and the node's number of groups, as in Algorithm 2; where that is private, a public total
    is the upper bound.
    """
    nodes, cells = level.values.shape
    groups = domain.groups[level.depth]
    most = groups if groups is not None else domain.total
    # Isotonic regression fits non-decreasing values, so it is given the negative tail counts.
    fitted = isotonic.fit_rows(
        -level.values.reshape(-1),
        np.arange(nodes + 1, dtype=np.int64) * cells,
        norm=2,
        lower=None if most is None else -np.asarray(most),
        upper=0,
    )
    tails = np.zeros((nodes, domain.width + 1), dtype=np.int64)
    tails[:, domain.width - cells : -1] = -fitted.reshape(nodes, cells)
    if groups is not None:
        tails[:, 0] = groups
    return tails[:, :-1] - tails[:, 1:]
