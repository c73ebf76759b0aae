"""True tables, summed from the combinations of leaves. Private: only a `Measurer` may hold them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tallytree.kinds.measurements import Statistic
from tallytree.private.tabulate.array_digest import array_digest
from tallytree.private.tabulate.leaf_statistics import LeafCounts
from tallytree.private.tabulate.true_contributions import TrueContributions, digest_with
from tallytree.support.arrays import IntArray
from tallytree.tables import PublicTotals, TableLayout

ROWS_AT_ONCE = 2**22


class TrueTables:
    """The measured tables, with all their cells.

    Args:
        layout: all tables.
        leaves: records per combination of leaves.
        statistics: the tables that are measured, and the statistic that each is measured as.
        contributions: people by their number of records, where they are measured too: part of the digest, and measured
            by a measurer of their own.
        totals: what is published exactly: part of the digest, since it decides the release.

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
    ) -> None:
        self.contributions = contributions
        self.total = int(leaves.counts.sum())
        self._statistics = dict(statistics)
        self._layout = layout
        self._depths = {name: depth for depth, name in enumerate(layout.levels)}
        for name, statistic in statistics.items():
            _check_fits(layout, self._depths[name], statistic)
        detail = _detail(layout, leaves)
        self._tables = {name: layout.summed(detail, self._depths[name]).ravel() for name in statistics}
        self._digest = array_digest([*leaves.parts, leaves.counts, *(() if totals is None else (totals.totals,))])

    def __repr__(self) -> str:
        """Nothing of the counts."""
        return "TrueTables(<private>)"

    def digest(self) -> bytes:
        """A digest of all statistics, for the derivation of the noise key; never published."""
        return digest_with(self._digest, self.contributions)

    def size(self, level: str) -> int:
        """How many areas the table has."""
        return self._layout.areas(self._depths[level])

    def width(self, level: str, node: int, statistic: Statistic) -> int:
        """How many cells it has in an area."""
        return self._layout.width(self._depths[level])

    def cells(
        self, level: str, nodes: IntArray, statistic: Statistic, part: tuple[int, int] | None = None
    ) -> tuple[IntArray, IntArray, IntArray]:
        """The counts of all cells of each of some areas; a cell's number is that within the table."""
        if self._statistics.get(level) != statistic:
            raise ValueError(f"statistic: {statistic!r} is not what is measured of the table {level!r}")
        width = self.width(level, 0, statistic)
        first, stop = (0, width) if part is None else part
        numbers = ((nodes * width)[:, None] + np.arange(first, stop, dtype=np.int64)).ravel()
        return self._tables[level][numbers], np.arange(len(nodes) + 1, dtype=np.int64) * (stop - first), numbers


def _check_fits(layout: TableLayout, depth: int, statistic: Statistic) -> None:
    """Refuse what `accounting.sensitivity` does not prove of a table: no plan asks for it.

    Raises:
        ValueError: a total of several cells, or distinct counts of cells with several combinations of leaves.
    """
    fits = {"total": layout.size(depth) == 1, "distinct_counts": layout.is_finest(depth), "counts": True}
    if not fits.get(statistic, False):
        raise ValueError(f"statistic: {statistic!r} does not hold of the table {layout.levels[depth]!r}")


def _detail(layout: TableLayout, leaves: LeafCounts) -> IntArray:
    """The records of every detail cell of the finest areas: int64 (areas, cells)."""
    areas, cells = layout.areas_per_level[-1], layout.detail.cells
    detail = np.zeros(areas * cells, dtype=np.int64)
    for start in range(0, len(leaves.counts), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        np.add.at(detail, layout.detail_cells([part[rows] for part in leaves.parts]), leaves.counts[rows])
    return detail.reshape(areas, cells)
