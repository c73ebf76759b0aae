"""True tables, summed from the combinations of leaves, and persons by their rank in their household.

Private: only a `Measurer` may hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tallytree.hierarchy import Hierarchy
from tallytree.kinds.measurements import Statistic
from tallytree.private.tabulate.leaf_statistics import (
    DenseStatistics,
    LeafCounts,
    LeafGroups,
    TrueContributions,
    array_digest,
    digest_with,
)
from tallytree.support.arrays import IntArray
from tallytree.support.large_arrays import LargeArrays
from tallytree.tables import PublicTotals, TableLayout


class TrueTables(DenseStatistics):
    """The measured tables, with all their cells.

    Args:
        layout: all tables.
        leaves: records per combination of leaves.
        statistics: the tables that are measured, and the statistic that each is measured as.
        contributions: people by their number of records, where they are measured too: part of the digest, and measured
            by a measurer of their own.
        totals: what is published exactly: part of the digest, since it decides the release.
        arrays: makes the tables; None has them in memory.

    Raises:
        ValueError: a table is planned as a statistic with less noise than its cells need.
    """

    def __init__(
        self,
        layout: TableLayout,
        leaves: LeafCounts,
        statistics: Mapping[str, Statistic],
        contributions: TrueContributions | None = None,
        totals: PublicTotals | None = None,
        arrays: LargeArrays | None = None,
    ) -> None:
        arrays = arrays or LargeArrays()
        self.contributions = contributions
        self.total = int(leaves.counts.sum())
        depths = {name: depth for depth, name in enumerate(layout.levels)}
        for name, statistic in statistics.items():
            _check_fits(layout, depths[name], statistic)
        detail = _detail(layout, leaves, arrays)
        summed = {name: layout.summed(detail, depths[name], arrays) for name in statistics}
        super().__init__({name: (statistic, summed[name]) for name, statistic in statistics.items()})
        self._digest = array_digest([*leaves.parts, leaves.counts, *(() if totals is None else (totals.totals,))])

    def digest(self) -> bytes:
        """A digest of all statistics, for the derivation of the noise key; never published."""
        return digest_with(self._digest, self.contributions)


def _check_fits(layout: TableLayout, depth: int, statistic: Statistic) -> None:
    """Refuse what `accounting.sensitivity` does not prove of a table: no plan asks for it.

    Raises:
        ValueError: a total of several cells, or distinct counts of cells with several combinations of leaves.
    """
    fits = {"total": layout.size(depth) == 1, "distinct_counts": layout.is_finest(depth), "counts": True}
    if not fits.get(statistic, False):
        raise ValueError(f"statistic: {statistic!r} does not hold of the table {layout.levels[depth]!r}")


def _detail(layout: TableLayout, leaves: LeafCounts, arrays: LargeArrays) -> IntArray:
    """The records of every detail cell of the finest areas: int64 (areas, cells)."""
    areas, cells = layout.areas_per_level[-1], layout.detail.cells
    detail: IntArray = arrays.zeros((areas * cells,), np.int64)
    for rows in arrays.parts(np.ones(len(leaves.counts), dtype=np.int64)):
        np.add.at(detail, layout.detail_cells([part[rows] for part in leaves.parts]), leaves.counts[rows])
    return detail.reshape(areas, cells)


class TrueRanks(DenseStatistics):
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
        by_level = zip(hierarchy.levels, reversed(levels), strict=True)
        super().__init__({names[level]: ("persons_by_rank", cells) for level, cells in by_level})
        self._digest = array_digest([leaves, sizes, groups])

    def digest(self) -> bytes:
        """A digest of all households, for the derivation of the noise key; never published."""
        return self._digest


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
