"""`HistogramProjection`: M_H, the consistent histograms nearest to noisy ones (Fioretto et al. 2021, sections 5-7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from tallytree.hierarchy import Hierarchy
from tallytree.kinds.measurements import Measures, Statistic
from tallytree.kinds.mechanism import MOST_OF_GENERAL_SOLVERS
from tallytree.kinds.terms import Invariants
from tallytree.sizes import solver_options
from tallytree.sizes.mechanism import ReleasedSizes, SizesDomain, SizesMechanism, measured_everywhere
from tallytree.sizes.nearest_consistent import nearest_consistent
from tallytree.sizes.noisy import measure_levels

HistogramSolver = Literal["exact", "cost_table", "constraint_program", "relaxed", "mip"]


@dataclass(frozen=True)
class HistogramProjection(SizesMechanism):
    """Measure the histogram of every node; release the consistent integer histograms nearest to them in L2.

    The integer optimum is exact where at most the total number of groups is public. Where that of every leaf is public,
    the exact real optimum is rounded, and no number changes by 1 or more. The weight of a level is the inverse of the
    variance of its noise (the same for all levels under an even split, as in the paper).

    Args:
        solver: `"exact"` (the problem of M_H^dp, with a certificate), or, for comparison with the paper on small
            inputs, `"cost_table"` (the paper's dynamic program), `"constraint_program"` (M_dp^OP, OR-tools),
            `"relaxed"` (M_H^r: a convex program, then every number is rounded, so that levels need not add up) and
            `"mip"` (SCIP). The last three need `pip install "tallytree[papers]"`, and none of the four can keep public
            numbers of groups per leaf.
        delta: half the width of the cost tables' domains; by default that of the paper, 3·⌈2λ²⌉ at noise of scale λ.
            For `"cost_table"` and `"constraint_program"` only.
        time_limit: seconds, for `"constraint_program"`, `"relaxed"` and `"mip"`.

    Raises:
        ValueError: an unknown solver, or an option out of range.
        TypeError: an option of the wrong type.
        ModuleNotFoundError: the solver needs an extra that is not installed.
    """

    solver: HistogramSolver = "exact"
    delta: int | None = None
    time_limit: float = 60.0

    def __post_init__(self) -> None:
        """Check the options."""
        solver_options.check_options(self.solver, get_args(HistogramSolver), self.time_limit, self.delta)

    @property
    def most(self) -> int | None:
        """See `Mechanism.most`: general solvers take less."""
        return None if self.solver in ("exact", "cost_table") else MOST_OF_GENERAL_SOLVERS

    @property
    def caveat(self) -> str | None:
        """What the solver `"relaxed"` does not keep."""
        return solver_options.caveat(self.solver)

    def statistics(self, hierarchy: Hierarchy, *, invariants: Invariants) -> dict[str, Statistic]:
        """The levels to be measured, root first, and the statistic that is measured at each."""
        if self.solver != "exact":
            solver_options.refuse_public_groups(self.solver, "exact", invariants)
        return measured_everywhere(hierarchy, "histogram")

    def reconcile(self, domain: SizesDomain, measurer: Measures) -> Sequence[ReleasedSizes]:
        """Measure, and compute the group sizes of every level, root first."""
        noisy = measure_levels(domain, measurer, "histogram")
        if self.solver == "exact":
            return nearest_consistent(domain, noisy)
        from tallytree.sizes import paper_solvers

        return paper_solvers.release_histograms(domain, noisy, self.solver, self.delta, self.time_limit)
