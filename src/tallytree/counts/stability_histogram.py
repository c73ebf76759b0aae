"""`StabilityHistogram`: noisy counts above a threshold, and their sums (SH of Boninsegna and Silvestri 2025)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tallytree.counts.expected_variances import ExpectedVariances
from tallytree.counts.mechanism import AddsUp
from tallytree.counts.released_counts import ReleasedCounts
from tallytree.hierarchy import Tree
from tallytree.kinds.measurements import Measures, Noise, Statistic


@dataclass(frozen=True)
class StabilityHistogram(AddsUp):
    """Publish the leaf cells whose noisy count reaches a threshold; inner levels are sums of them.

    Noise is added to cells with records only, so every published cell has records: there are no false discoveries. Time
    and memory grow with the number of records, not with the number of cells. Cells with few records are left out, and
    sums are too small by the records in them (Boninsegna and Silvestri 2025, Theorem 8 and section 5).

    It needs a budget with ε and δ. The noise is discrete Laplace, and the threshold is the least that δ allows. The
    proof of privacy is in `tallytree.accounting.stability`. A public total is not used.
    """

    keeps_total: ClassVar[bool] = False

    def statistics(self, tree: Tree, *, total_is_public: bool) -> dict[str, Statistic]:
        """The leaf level, which alone is measured."""
        return {tree.levels[-1]: "stable_counts"}

    def expected_variances(self, tree: Tree, noise: Mapping[str, Noise]) -> list[ExpectedVariances | None] | None:
        """See `CountsMechanism.expected_variances`: of published leaves; nothing public tells what sums lack."""
        leaf = noise[tree.levels[-1]].variance
        above: list[ExpectedVariances | None] = [None] * (len(tree.levels) - 1)
        return [*above, ExpectedVariances(np.array([leaf]), np.array([leaf]))]

    def leaves(self, tree: Tree, first: int, stop: int, measurer: Measures) -> Iterator[ReleasedCounts]:
        """See `AddsUp`: those that reach the threshold."""
        passed = measurer.measure_stable(tree.levels[-1])
        yield ReleasedCounts(passed.nodes, passed.values)
