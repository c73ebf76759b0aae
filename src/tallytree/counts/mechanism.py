"""What a mechanism for counts is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from tallytree.arrays import FloatArray, IntArray
from tallytree.hierarchy import Tree
from tallytree.measurements import Measures, Statistic


@dataclass(frozen=True, eq=False)
class LevelCounts:
    """Released counts of one level.

    Attributes:
        nodes: int64 (n,), node numbers in the tree's order; the level's other nodes are 0.
        counts: int64 (n,).
        std_dev: float64 (n,), the standard deviation of each count's error, where the mechanism knows it.
    """

    nodes: IntArray
    counts: IntArray
    std_dev: FloatArray | None = None


@runtime_checkable
class CountsMechanism(Protocol):
    """Turns noisy measurements into consistent counts; implemented by `TopDown`.

    It gets a door to the noisy measurements and public facts, nothing else.
    """

    def statistics(self, tree: Tree, *, total_is_public: bool) -> dict[str, Statistic]:
        """The levels to be measured, root first, and what is measured there."""

    def release_counts(self, tree: Tree, total: int | None, measurer: Measures) -> Sequence[LevelCounts]:
        """Counts per level, root first; `total` where it is public, else None."""


def statistics_of_counts(tree: Tree, *, total_is_public: bool) -> dict[str, Statistic]:
    """The levels that have something to measure: not a public root, and no level that repeats the one above it."""
    root: dict[str, Statistic] = {} if total_is_public else {tree.levels[0]: "total"}
    depths = range(1, len(tree.levels))
    return root | {tree.levels[depth]: "counts" for depth in depths if not tree.only_children(depth)}


def whole_level(tree: Tree, depth: int, released: LevelCounts) -> LevelCounts:
    """Every node of an enumerated level in order, zeros included."""
    counts = np.zeros(tree.size(depth), dtype=np.int64)
    counts[released.nodes] = released.counts
    return LevelCounts(np.arange(tree.size(depth), dtype=np.int64), counts)
