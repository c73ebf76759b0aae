"""Persons by their rank in their household, of every node. Private: only a `Measurer` may hold them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tallytree.hierarchy import Hierarchy
from tallytree.kinds.measurements import Statistic
from tallytree.private.tabulate.array_digest import array_digest
from tallytree.private.tabulate.leaf_statistics import LeafGroups
from tallytree.private.tabulate.true_tables import TrueTables
from tallytree.support.arrays import IntArray


class TrueRanks:
    """How many persons of every node have the rank 1, 2, … K in their household, and how many a higher one.

    The persons of a household of n members have the ranks 1 … n, in any order. So cell s − 1, of the rank s ≤ K, is the
    number of households of s members or more, and the last cell is the sum of max(size − K, 0) over all households.

    Args:
        hierarchy: the public tree.
        households: households per leaf and number of members.
        largest: K.
        names: what each level is called in the plan, by its name in the tree.
    """

    def __init__(self, hierarchy: Hierarchy, households: LeafGroups, largest: int, names: Mapping[str, str]) -> None:
        self._width = largest + 1
        leaves, sizes, groups = households.leaves, households.sizes, households.groups
        of_size = np.zeros((hierarchy.n_leaves, largest + 1), dtype=np.int64)
        np.add.at(of_size, (leaves, np.minimum(sizes, largest)), groups)
        ranks = np.empty_like(of_size)
        ranks[:, :-1] = np.cumsum(of_size[:, :0:-1], axis=1)[:, ::-1]
        ranks[:, -1] = 0
        np.add.at(ranks[:, -1], leaves, groups * np.maximum(sizes - largest, 0))
        levels = [ranks]
        for depth in range(len(hierarchy.levels) - 1, 0, -1):
            levels.append(np.add.reduceat(levels[-1], hierarchy.first_child[depth - 1][:-1], axis=0))
        self._ranks = {names[level]: cells for level, cells in zip(hierarchy.levels, reversed(levels), strict=True)}
        self._digest = array_digest([leaves, sizes, groups])

    def __repr__(self) -> str:
        """Nothing of the numbers."""
        return "TrueRanks(<private>)"

    def digest(self) -> bytes:
        """A digest of all households, for the derivation of the noise key; never published."""
        return self._digest

    def size(self, level: str) -> int:
        """How many nodes the level has."""
        return len(self._ranks[level])

    def width(self, level: str, node: int, statistic: Statistic) -> int:
        """How many cells a node has: K + 1."""
        return self._width

    def cells(
        self, level: str, nodes: IntArray, statistic: Statistic, part: tuple[int, int] | None = None
    ) -> tuple[IntArray, IntArray, IntArray]:
        """The ranks of some nodes; a cell's number is that within the level."""
        if statistic != "persons_by_rank":
            raise ValueError(f"statistic: {statistic!r} is not the persons by rank")
        first, stop = (0, self._width) if part is None else part
        numbers = ((nodes * self._width)[:, None] + np.arange(first, stop, dtype=np.int64)).ravel()
        values = self._ranks[level].ravel()[numbers]
        return values, np.arange(len(nodes) + 1, dtype=np.int64) * (stop - first), numbers


@dataclass(frozen=True, eq=False, repr=False)
class TrueHouseholds:
    """The tables of persons and the ranks, of the same records.

    Attributes:
        persons: the tables.
        ranks: persons by rank.
    """

    persons: TrueTables
    ranks: TrueRanks

    def __repr__(self) -> str:
        """Nothing of the numbers."""
        return "TrueHouseholds(<private>)"

    def digest(self) -> bytes:
        """A digest of all statistics, for the derivation of the noise key; never published."""
        digests = self.persons.digest(), self.ranks.digest()
        return array_digest([np.frombuffer(each, dtype=np.int64) for each in digests])
