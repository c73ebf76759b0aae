"""Released group sizes: of one level, summed over the tree, and counts of what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tallytree.hierarchy import Hierarchy
from tallytree.sizes.domain import SizesDomain
from tallytree.support.arrays import FloatArray, IntArray, NumberArray, sum_by_key


@dataclass(frozen=True, eq=False)
class ReleasedSizes:
    """Released group sizes of one level: one entry per (node, size) with groups, in ascending order.

    Attributes:
        nodes: int64 (n,), node numbers.
        sizes: int64 (n,).
        groups: int64 (n,) > 0, the number of groups of that node and size. A mechanism kept for comparison may release
            float64 numbers ≠ 0.
        std_dev: float64 (n,), of the error of the node's tail count at that size (its number of groups of that size or
            more), where the mechanism knows it.
    """

    nodes: IntArray
    sizes: IntArray
    groups: NumberArray
    std_dev: FloatArray | None = None

    def tail_counts(self) -> NumberArray:
        """Of each entry, the node's number of groups of that size or more: (n,)."""
        totals = np.cumsum(self.groups[::-1])[::-1]
        last = np.append(self.nodes[1:] != self.nodes[:-1], True) if len(self.nodes) else np.zeros(0, dtype=bool)
        after = np.append(totals[1:], 0)[last]  # all groups of the later nodes, for each node
        found: NumberArray = totals - np.repeat(after, np.diff(np.flatnonzero(last), prepend=-1))
        return found


def sum_over_tree(hierarchy: Hierarchy, leaves: ReleasedSizes, largest: int) -> list[ReleasedSizes]:
    """Group sizes of every level, root first, from those of the leaves."""
    levels = [summed(leaves.nodes, leaves.sizes, leaves.groups, largest)]
    for depth in range(len(hierarchy.levels) - 1, 0, -1):
        below = levels[-1]
        levels.append(summed(hierarchy.parents(depth, below.nodes), below.sizes, below.groups, largest))
    return levels[::-1]


def summed(nodes: IntArray, sizes: IntArray, groups: NumberArray, largest: int) -> ReleasedSizes:
    """One entry per (node, size), in ascending order, from any number of entries in any order."""
    keys, total = sum_by_key(nodes * (largest + 1) + sizes, groups)
    return ReleasedSizes(*np.divmod(keys, largest + 1), total)


def keeps_public_groups(domain: SizesDomain, levels: Sequence[ReleasedSizes]) -> bool:
    """Whether the released number of groups of every node is the public one, where it is public."""
    for groups, released in zip(domain.groups, levels, strict=True):
        if groups is not None:
            found = np.zeros(len(groups), dtype=released.groups.dtype)
            np.add.at(found, released.nodes, released.groups)
            if not np.array_equal(found, groups):
                return False
    return True


def count_negative(levels: Sequence[ReleasedSizes]) -> int:
    """The number of (node, size) with a negative number of groups."""
    return sum(int(np.count_nonzero(level.groups < 0)) for level in levels)


def count_fractional(levels: Sequence[ReleasedSizes]) -> int:
    """The number of (node, size) with a number of groups that is not an integer."""
    return sum(int(np.count_nonzero(level.groups != np.rint(level.groups))) for level in levels)


def count_violations(hierarchy: Hierarchy, levels: Sequence[ReleasedSizes], largest: int, *, first: int = 0) -> int:
    """The number of (node, size) whose groups are not the sum of the children's (Fioretto et al. 2021, Table 7).

    Args:
        hierarchy: the public tree.
        levels: consecutive levels, of the whole tree or of a band.
        largest: the greatest size.
        first: the depth of the first of them.
    """
    violations = 0
    for depth, (above, below) in enumerate(pairwise(levels), first + 1):
        nodes = np.concatenate([above.nodes, hierarchy.parents(depth, below.nodes)])
        sizes = np.concatenate([above.sizes, below.sizes])
        _, rest = sum_by_key(nodes * (largest + 1) + sizes, np.concatenate([above.groups, -below.groups]))
        violations += int(np.count_nonzero(rest))
    return violations
