"""`SizesDomain`: the public facts about group sizes, and which levels are measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tallytree.hierarchy import Hierarchy
from tallytree.kinds.measurements import Statistic
from tallytree.kinds.terms import Invariants
from tallytree.support.arrays import IntArray


@dataclass(frozen=True, eq=False)
class SizesDomain:
    """The public facts about group sizes.

    Attributes:
        hierarchy: the public tree.
        groups: per level, root first, int64 (nodes,), the number of groups of each node; None where it is private.
        smallest: the smallest size that is published; at least 1 where numbers of groups are private.
        largest: K, the largest size that is published.
    """

    hierarchy: Hierarchy
    groups: tuple[IntArray | None, ...]
    smallest: int
    largest: int

    @classmethod
    def from_leaves(
        cls,
        hierarchy: Hierarchy,
        groups_per_leaf: IntArray,
        smallest: int,
        largest: int,
        invariants: Invariants = "groups",
    ) -> SizesDomain:
        """Keep what is public of the numbers of groups of the leaves, int64 (n_leaves,), added up over the tree.

        Raises:
            ValueError: `smallest` is 0 where numbers of groups are private: tail counts do not count groups of size 0.
        """
        if invariants != "groups" and smallest < 1:
            raise ValueError(f"smallest: {smallest} must be at least 1 where the numbers of groups are private")
        by_level = [groups_per_leaf]
        for depth in range(len(hierarchy.levels) - 1, 0, -1):
            by_level.append(np.add.reduceat(by_level[-1], hierarchy.first_child[depth - 1][:-1]))
        groups = [
            here if invariants == "groups" or (invariants == "total" and len(here) == 1) else None
            for here in reversed(by_level)
        ]
        return cls(hierarchy, tuple(groups), smallest, largest)

    @property
    def width(self) -> int:
        """The number of sizes: smallest … largest."""
        return self.largest - self.smallest + 1

    @property
    def total(self) -> int | None:
        """The number of groups of the root, if it is public."""
        return None if self.groups[0] is None else int(self.groups[0][0])

    @property
    def groups_are_public(self) -> bool:
        """Whether the number of groups of every node is public."""
        return self.groups[-1] is not None

    @property
    def measured_depths(self) -> list[int]:
        """See `measured_depths`."""
        return measured_depths(self.hierarchy)


def measured_depths(hierarchy: Hierarchy) -> list[int]:
    """The depths of the levels to be measured, root first. A level that repeats the level above it is not measured."""
    return [depth for depth in range(len(hierarchy.levels)) if not hierarchy.only_children(depth)]


def measured_everywhere(hierarchy: Hierarchy, statistic: Statistic) -> dict[str, Statistic]:
    """The levels to be measured, root first, all with the same statistic."""
    return {hierarchy.levels[depth]: statistic for depth in measured_depths(hierarchy)}
