"""`SizesMechanism`: the base of the mechanisms for group sizes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

from tallytree.hierarchy import Hierarchy
from tallytree.kinds.measurements import Measures, Statistic
from tallytree.kinds.mechanism import Mechanism
from tallytree.kinds.terms import Invariants
from tallytree.sizes.domain import SizesDomain
from tallytree.sizes.released_sizes import ReleasedSizes


class SizesMechanism(Mechanism):
    """Computes released group sizes from noisy measurements; the base of the mechanisms of `tallytree.sizes`."""

    package: ClassVar[str] = "tallytree.sizes"
    default_split: ClassVar[Literal["even", "auto"]] = "even"
    """What `budget_split=None` means. `"auto"` estimates the errors of `Joint`, not of the papers' mechanisms."""
    knows_errors: ClassVar[bool] = False
    """Whether its released sizes have standard deviations (`ReleasedSizes.std_dev`)."""

    @abstractmethod
    def statistics(self, hierarchy: Hierarchy, *, invariants: Invariants) -> dict[str, Statistic]:
        """The levels to be measured, root first, and the statistic that is measured at each.

        Raises:
            ValueError: the options do not fit the hierarchy or the invariants.
        """

    @abstractmethod
    def reconcile(self, domain: SizesDomain, measurer: Measures) -> Sequence[ReleasedSizes]:
        """Measure, and compute the released group sizes of every level, root first."""

    def check_cells(self, hierarchy: Hierarchy, sizes: int) -> None:
        """Refuse more (node, size) cells than fit in memory, before any budget is spent.

        Raises:
            ValueError: too many cells.
        """

    def understatement(self, hierarchy: Hierarchy) -> dict[str, int]:
        """Per measured level, its true privacy loss divided by the calibrated one; empty where the two are equal.

        Only a published calibration that is wrong has such factors. It is kept to reproduce published results.
        """
        return {}
