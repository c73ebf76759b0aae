"""What a mechanism for counts is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

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
    """Turns noisy measurements into consistent counts; implemented by the classes of `tallytree.counts`.

    It gets a door to the noisy measurements and public facts, nothing else.
    """

    def statistics(self, tree: Tree, *, total_is_public: bool) -> dict[str, Statistic]:
        """The levels to be measured, root first, and what is measured there."""

    def release_counts(self, tree: Tree, total: int | None, measurer: Measures) -> Sequence[LevelCounts]:
        """Counts per level, root first; `total` where it is public, else None."""


@runtime_checkable
class CorrectsUpward(Protocol):
    """A mechanism for counts in which what is measured of a node's descendants corrects the node."""

    @property
    def corrects_upward(self) -> bool:
        """Whether it does; `budget_split="auto"` then gives the upper levels less."""


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


def checked_sparsity(given: Any) -> float:
    """The threshold of sparse mechanisms, in standard deviations.

    Raises:
        ValueError: negative, infinite or NaN.
        TypeError: not a number (a bool is none).
    """
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise TypeError(f"sparsity: {given!r} must be a number of standard deviations, for instance 3.0")
    if not (math.isfinite(given) and given >= 0):
        raise ValueError(f"sparsity: {given!r} must be at least 0 and finite, for instance 3.0; 0 keeps everything")
    return float(given)
