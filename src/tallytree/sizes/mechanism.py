"""What a mechanism for group sizes is, and the public facts it works on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from tallytree.arrays import IntArray, sum_by_key
from tallytree.hierarchy import Hierarchy
from tallytree.measurements import Measures, Statistic


@dataclass(frozen=True, eq=False)
class SizesDomain:
    """The public facts about group sizes.

    Attributes:
        hierarchy: the public tree.
        groups: per level, int64, the public number of groups of each node.
        smallest: the least size of a group.
        largest: K, the greatest size of a group.
    """

    hierarchy: Hierarchy
    groups: tuple[IntArray, ...]
    smallest: int
    largest: int

    @classmethod
    def from_leaves(cls, hierarchy: Hierarchy, groups_per_leaf: IntArray, smallest: int, largest: int) -> SizesDomain:
        """Add up the groups of the leaves, int64 (n_leaves,), over the tree."""
        by_level = [groups_per_leaf]
        for depth in range(len(hierarchy.levels) - 1, 0, -1):
            by_level.append(np.add.reduceat(by_level[-1], hierarchy.first_child[depth - 1][:-1]))
        return cls(hierarchy, tuple(reversed(by_level)), smallest, largest)


@dataclass(frozen=True, eq=False)
class LevelSizes:
    """Released group sizes of one level: one entry per (node, size) with groups, ascending.

    Attributes:
        nodes: int64 (n,), node numbers.
        sizes: int64 (n,).
        groups: int64 (n,), how many groups of that size the node has, > 0.
    """

    nodes: IntArray
    sizes: IntArray
    groups: IntArray


@runtime_checkable
class SizesMechanism(Protocol):
    """Turns noisy measurements into consistent group sizes; implemented by `Matching`.

    It gets a door to the noisy measurements and public facts, nothing else.
    """

    def statistics(self, hierarchy: Hierarchy) -> dict[str, Statistic]:
        """The levels to be measured, root first, and what is measured there."""

    def release_sizes(self, domain: SizesDomain, measurer: Measures) -> Sequence[LevelSizes]:
        """Group sizes per level, root first."""


def sum_over_tree(hierarchy: Hierarchy, leaves: LevelSizes, largest: int) -> list[LevelSizes]:
    """Group sizes of every level, root first, from those of the leaves."""
    levels = [_joined(leaves.nodes, leaves.sizes, leaves.groups, largest)]
    for depth in range(len(hierarchy.levels) - 1, 0, -1):
        below = levels[-1]
        levels.append(_joined(hierarchy.parents(depth, below.nodes), below.sizes, below.groups, largest))
    return levels[::-1]


def _joined(nodes: IntArray, sizes: IntArray, groups: IntArray, largest: int) -> LevelSizes:
    keys, total = sum_by_key(nodes * (largest + 1) + sizes, groups)
    return LevelSizes(*np.divmod(keys, largest + 1), total)
