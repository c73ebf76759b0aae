"""`Chain`: M_c^ch, cumulative counts over all sizes and nodes of a level (Fioretto et al. 2021, section 9.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from tallytree.hierarchy import Hierarchy
from tallytree.kinds.measurements import Measures, Statistic
from tallytree.kinds.terms import Invariants
from tallytree.sizes.mechanism import ReleasedSizes, SizesDomain, SizesMechanism, measured_depths, measured_everywhere
from tallytree.sizes.nearest_consistent import keep_public_groups
from tallytree.sizes.noisy import level_weights, measure_levels
from tallytree.solvers.sizes.chain_regression import fit_chain
from tallytree.support.validate import text

Calibration = Literal["valid", "as_published"]


@dataclass(frozen=True)
class Chain(SizesMechanism):
    """Measure, per level, the number of groups at or after each (size, node), and make all of them monotone at once.

    The post-processing is exact: one isotonic regression with a cell per size and leaf. Where the number of groups of
    every leaf is public, its result is fitted to these numbers too.

    Args:
        calibration: `"valid"`: one more member of a group changes a cell of *every* node of the level, so the
            sensitivity is the number of nodes. `"as_published"`: the paper's sensitivity of 1, which is wrong; use it
            only to reproduce the paper's table. It warns, and the plan, the statement and the ledger give the ε that is
            really spent. See `docs/decisions/0011-chain.md`.

    Raises:
        ValueError: an unknown calibration.
    """

    calibration: Calibration = "valid"

    def __post_init__(self) -> None:
        """Check the options."""
        if text(self.calibration, "calibration", '"valid" or "as_published"') not in get_args(Calibration):
            raise ValueError(f'calibration: {self.calibration!r} is not known; choose "valid" or "as_published"')

    def statistics(self, hierarchy: Hierarchy, *, invariants: Invariants) -> dict[str, Statistic]:
        """The levels to be measured, root first, and the statistic that is measured at each."""
        return measured_everywhere(hierarchy, "chain_tail_counts")

    def understatement(self, hierarchy: Hierarchy) -> dict[str, int]:
        """As published, the privacy loss of a level is the calibrated one times its number of nodes."""
        if self.calibration == "valid":
            return {}
        return {hierarchy.levels[depth]: hierarchy.size(depth) for depth in measured_depths(hierarchy)}

    def reconcile(self, domain: SizesDomain, measurer: Measures) -> Sequence[ReleasedSizes]:
        """Measure, and compute the group sizes of every level, root first."""
        noisy = measure_levels(domain, measurer, "chain_tail_counts")
        leaves = fit_chain(
            [level.values for level in noisy],
            [level.first_leaf for level in noisy],
            level_weights(noisy),
            total=domain.total,
        )
        return keep_public_groups(domain, noisy, leaves)
