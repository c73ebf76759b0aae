"""`LeafGaussian`: noisy leaf cells, and their sums (VanillaGauss of Boninsegna and Silvestri 2025)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tallytree.counts.expected_variances import ExpectedVariances, summed_variances
from tallytree.counts.mechanism import AddsUp
from tallytree.counts.released_counts import ReleasedCounts
from tallytree.counts.top_down import CELLS_AT_ONCE
from tallytree.hierarchy import Tree
from tallytree.kinds.measurements import Measures, Noise, Statistic

MAX_LEAF_CELLS = 2**27
"""A cell takes about 70 bytes until it is in a table, so all of them take 9 GiB."""


@dataclass(frozen=True)
class LeafGaussian(AddsUp):
    """Measure every leaf cell with all of the budget; inner levels are sums of the noisy leaves.

    For comparison (Boninsegna and Silvestri 2025, section 5, VanillaGauss). Children add up to their parents exactly,
    and every count is unbiased. But counts may be negative, nearly every empty cell gets a count that is not 0, and the
    noise of an inner node grows with its number of leaf cells. The statement gives the number of negative counts.

    The budget decides the distribution of the noise, in spite of the mechanism's name: discrete Gaussian with δ or ρ,
    discrete Laplace with ε alone.

    A public total is not used, as in the paper: the root is the sum of the noisy leaves.
    """

    keeps_total: ClassVar[bool] = False

    @property
    def caveat(self) -> str:
        """That counts may be negative, and that empty cells have counts."""
        return "releases negative counts, and counts for cells without records."

    def statistics(self, tree: Tree, *, total_is_public: bool) -> dict[str, Statistic]:
        """The leaf level, which alone is measured.

        Raises:
            ValueError: more leaf cells than fit in memory.
        """
        level, cells = tree.levels[-1], tree.size(len(tree.levels) - 1)
        if cells > MAX_LEAF_CELLS:
            raise ValueError(
                f"mechanism: {self!r} measures and holds every leaf cell, here the {cells:,} of {level!r}, and takes "
                f"at most {MAX_LEAF_CELLS:,}; leave out a level, or choose TopDown() or StabilityHistogram(), which "
                "write out no empty cells"
            )
        return {level: _measured(tree)}

    def expected_variances(self, tree: Tree, noise: Mapping[str, Noise]) -> list[ExpectedVariances | None] | None:
        """See `CountsMechanism.expected_variances`; they hold for counts near 0 too."""
        return [*summed_variances(tree, noise[tree.levels[-1]])]

    def leaves(self, tree: Tree, first: int, stop: int, measurer: Measures) -> Iterator[ReleasedCounts]:
        """See `AddsUp`: the noisy leaves."""
        level = tree.levels[-1]
        for start in range(first, stop, CELLS_AT_ONCE):
            nodes = np.arange(start, min(start + CELLS_AT_ONCE, stop), dtype=np.int64)
            noisy = measurer.measure(level, nodes, _measured(tree)).values
            kept = noisy != 0
            yield ReleasedCounts(nodes[kept], noisy[kept])


def _measured(tree: Tree) -> Statistic:
    """What is measured of the leaf level, which may be the root too."""
    return "counts" if len(tree.levels) > 1 else "total"
