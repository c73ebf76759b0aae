"""True counts of every level, summed from the leaves. Private: only a `Measurer` may hold them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tallytree.hierarchy import Tree
from tallytree.kinds.measurements import Statistic
from tallytree.private.tabulate.array_digest import array_digest
from tallytree.private.tabulate.true_contributions import TrueContributions, digest_with
from tallytree.support.arrays import IntArray, sum_by_key


class CountsOfSome:
    """Counts of some nodes of one or more levels; of others nothing is known here, and nothing is answered.

    A node that was answered with a part of its records would get the noise of the node all the same, and the difference
    to its whole count would be published without noise. So every node that is asked for is checked.

    Args:
        tree: the public tree.
        levels: per depth, the nodes with records, ascending, and how many each has.
        covers: whether all of some nodes (int64) of a level are among those whose counts are complete.
        distinct: whether no person is counted twice in a leaf, which makes the leaf level's another statistic.
    """

    def __init__(
        self,
        tree: Tree,
        levels: dict[int, tuple[IntArray, IntArray]],
        covers: Callable[[int, IntArray], bool],
        *,
        distinct: bool,
    ) -> None:
        self._tree, self._levels, self._covers = tree, levels, covers
        self._depths = {level: depth for depth, level in enumerate(tree.levels)}
        self._statistics = statistics_of_levels(tree, distinct=distinct)

    def __repr__(self) -> str:
        """Nothing of the counts."""
        return f"{type(self).__name__}(<private>)"

    def size(self, level: str) -> int:
        """How many nodes the level has."""
        return self._tree.size(self._depths[level])

    def width(self, level: str, node: int, statistic: Statistic) -> int:
        """One cell."""
        return 1

    def present(self, level: str) -> tuple[IntArray, IntArray]:
        """The nodes that have records, ascending, and how many: both private."""
        nodes, counts = self._known(level)
        kept = counts > 0
        return nodes[kept], counts[kept]

    def cells(
        self, level: str, nodes: IntArray, statistic: Statistic, part: tuple[int, int] | None = None
    ) -> tuple[IntArray, IntArray, IntArray]:
        """The count of each of `nodes`: one cell a node, numbered like it; the only part is that cell.

        Raises:
            ValueError: another statistic, or nodes whose counts are not known here.
        """
        if statistic not in ("stable_counts", self._statistics[level]):
            raise ValueError(f"statistic: {statistic!r} is not the count of the level {level!r}")
        known = self._known(level)
        if not self._covers(self._depths[level], nodes):
            raise ValueError(f"nodes: some of the level {level!r} are not in the part that is worked on")
        return counts_of(*known, nodes), np.arange(len(nodes) + 1, dtype=np.int64), nodes

    def _known(self, level: str) -> tuple[IntArray, IntArray]:
        found = self._levels.get(self._depths[level])
        if found is None:
            raise ValueError(f"level: {level!r} is not in the part that is worked on")
        return found


class TrueCounts(CountsOfSome):
    """Counts of every node that has records; the others are 0.

    Args:
        tree: the public tree.
        leaves: int64 (n,), leaf numbers, distinct.
        counts: int64 (n,), records of each.
        distinct: see `CountsOfSome`.
        contributions: people by their number of records, where they are measured too: part of the digest, and measured
            by a measurer of their own.
    """

    def __init__(
        self,
        tree: Tree,
        leaves: IntArray,
        counts: IntArray,
        *,
        distinct: bool = False,
        contributions: TrueContributions | None = None,
    ) -> None:
        self.contributions = contributions
        order = np.argsort(leaves, kind="stable")
        levels = [(leaves[order], counts[order])]
        for depth in range(len(tree.levels) - 1, 0, -1):
            nodes, here = levels[-1]
            levels.append(sum_by_key(tree.parents(depth, nodes), here))
        super().__init__(tree, dict(enumerate(reversed(levels))), lambda depth, nodes: True, distinct=distinct)

    @property
    def total(self) -> int:
        """The number of records in all (private unless the total is invariant)."""
        return int(self._levels[0][1].sum())

    def digest(self) -> bytes:
        """A digest of all statistics, for the derivation of the noise key; never published."""
        levels = array_digest(array for level in self._levels.values() for array in level)
        return digest_with(levels, self.contributions)


def statistics_of_levels(tree: Tree, *, distinct: bool) -> dict[str, Statistic]:
    """What the count of each level is: with `distinct`, that of the leaf level is another statistic."""
    statistics: dict[str, Statistic] = dict.fromkeys(tree.levels, "counts")
    if distinct:
        statistics[tree.levels[-1]] = "distinct_counts"
    statistics[tree.levels[0]] = "total"
    return statistics


def counts_of(present: IntArray, counts: IntArray, nodes: IntArray) -> IntArray:
    """The counts of some nodes, int64 (n,), given those of the nodes with records, ascending; the others have 0."""
    values = np.zeros(len(nodes), dtype=np.int64)
    if len(present):
        place = np.minimum(np.searchsorted(present, nodes), len(present) - 1)
        found = present[place] == nodes
        values[found] = counts[place[found]]
    return values
