"""What a mechanism for group sizes is, and the public facts it works on."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tallytree.compute.arrays import IntArray, NumberArray, sum_by_key
from tallytree.hierarchy import Hierarchy
from tallytree.measurements import Measures, Statistic
from tallytree.mechanism import Mechanism
from tallytree.terms import Invariants


@dataclass(frozen=True, eq=False)
class SizesDomain:
    """The public facts about group sizes.

    Attributes:
        hierarchy: the public tree.
        groups: per level, int64, the number of groups of each node; None where it is private.
        smallest: the least size of a group that is published; at least 1 where numbers of groups are private.
        largest: K, the greatest size of a group.
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
        """Keep what is public of the groups of the leaves, int64 (n_leaves,), added up over the tree.

        Raises:
            ValueError: `smallest` is 0 where numbers of groups are private: an empty group leaves no trace in tail
                counts.
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
        """How many sizes there are: smallest … largest."""
        return self.largest - self.smallest + 1

    @property
    def total(self) -> int | None:
        """The number of groups in all, if it is public."""
        return None if self.groups[0] is None else int(self.groups[0][0])

    @property
    def groups_are_public(self) -> bool:
        """Whether every node's number of groups is public."""
        return self.groups[-1] is not None

    @property
    def measured_depths(self) -> list[int]:
        """The levels to be measured, root first: none that repeats the one above it."""
        return measured_depths(self.hierarchy)


def measured_depths(hierarchy: Hierarchy) -> list[int]:
    """The levels to be measured, root first: none that repeats the one above it."""
    return [depth for depth in range(len(hierarchy.levels)) if not hierarchy.only_children(depth)]


def measured_everywhere(hierarchy: Hierarchy, statistic: Statistic) -> dict[str, Statistic]:
    """The levels to be measured, root first, all with the same statistic."""
    return {hierarchy.levels[depth]: statistic for depth in measured_depths(hierarchy)}


@dataclass(frozen=True, eq=False)
class ReleasedSizes:
    """Released group sizes of one level: one entry per (node, size) with groups, ascending.

    Attributes:
        nodes: int64 (n,), node numbers.
        sizes: int64 (n,).
        groups: int64 (n,), how many groups of that size the node has, > 0; of a mechanism kept for comparison perhaps
            float64, ≠ 0.
    """

    nodes: IntArray
    sizes: IntArray
    groups: NumberArray


class SizesMechanism(Mechanism):
    """Turns noisy measurements into consistent group sizes; the base of the mechanisms of `tallytree.sizes`."""

    @abstractmethod
    def statistics(self, hierarchy: Hierarchy, *, invariants: Invariants) -> dict[str, Statistic]:
        """The levels to be measured, root first, and what is measured there.

        Raises:
            ValueError: the options do not go with the hierarchy, or with what is public.
        """

    @abstractmethod
    def reconcile(self, domain: SizesDomain, measurer: Measures) -> Sequence[ReleasedSizes]:
        """Group sizes per level, root first."""

    def check_cells(self, hierarchy: Hierarchy, sizes: int) -> None:
        """Refuse, before anything is spent, more nodes and sizes than it can hold.

        Raises:
            ValueError: there are more.
        """

    def understatement(self, hierarchy: Hierarchy) -> dict[str, int]:
        """By which factor each measured level loses more than its calibration says; empty where it is right.

        Only a published calibration that is wrong has such factors; it is kept to reproduce what was published.
        """
        return {}


def keeps_public_groups(domain: SizesDomain, levels: Sequence[ReleasedSizes]) -> bool:
    """Whether released group sizes have the number of groups of every node where that is public."""
    for groups, released in zip(domain.groups, levels, strict=True):
        if groups is not None:
            found = np.zeros(len(groups), dtype=released.groups.dtype)
            np.add.at(found, released.nodes, released.groups)
            if not np.array_equal(found, groups):
                return False
    return True


def sum_over_tree(hierarchy: Hierarchy, leaves: ReleasedSizes, largest: int) -> list[ReleasedSizes]:
    """Group sizes of every level, root first, from those of the leaves."""
    levels = [summed(leaves.nodes, leaves.sizes, leaves.groups, largest)]
    for depth in range(len(hierarchy.levels) - 1, 0, -1):
        below = levels[-1]
        levels.append(summed(hierarchy.parents(depth, below.nodes), below.sizes, below.groups, largest))
    return levels[::-1]


def count_negative(levels: Sequence[ReleasedSizes]) -> int:
    """How many (node, size) have a negative number of groups."""
    return sum(int(np.count_nonzero(level.groups < 0)) for level in levels)


def count_fractional(levels: Sequence[ReleasedSizes]) -> int:
    """How many (node, size) have a number of groups that is not whole."""
    return sum(int(np.count_nonzero(level.groups != np.rint(level.groups))) for level in levels)


def count_violations(hierarchy: Hierarchy, levels: Sequence[ReleasedSizes], largest: int) -> int:
    """In how many (node, size) the children's groups do not add up to the node's (Fioretto et al. 2021, Table 7)."""
    violations = 0
    for depth in range(1, len(levels)):
        above, below = levels[depth - 1], levels[depth]
        nodes = np.concatenate([above.nodes, hierarchy.parents(depth, below.nodes)])
        sizes = np.concatenate([above.sizes, below.sizes])
        _, rest = sum_by_key(nodes * (largest + 1) + sizes, np.concatenate([above.groups, -below.groups]))
        violations += int(np.count_nonzero(rest))
    return violations


def summed(nodes: IntArray, sizes: IntArray, groups: NumberArray, largest: int) -> ReleasedSizes:
    """One entry per (node, size), ascending, from any number of them in any order."""
    keys, total = sum_by_key(nodes * (largest + 1) + sizes, groups)
    return ReleasedSizes(*np.divmod(keys, largest + 1), total)
