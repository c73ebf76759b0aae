"""`TablesMechanism`: the base of the mechanisms for tables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from tallytree.kinds.measurements import Measures, Statistic
from tallytree.kinds.mechanism import Mechanism
from tallytree.solvers.tables.marginals import Detail, Marginal
from tallytree.support.arrays import BoolArray, FloatArray, IntArray


class Layout(Protocol):
    """What a mechanism knows of the tables; implemented by `TableLayout`."""

    @property
    def levels(self) -> tuple[str, ...]:
        """The names of the tables."""

    @property
    def families(self) -> tuple[IntArray, ...]:
        """Per area level but the last, int64 (areas + 1,): where the children of each area begin."""

    @property
    def detail(self) -> Detail:
        """The detail cells of an area."""

    def area_level(self, depth: int) -> int:
        """The level of a table's areas."""

    def areas(self, depth: int) -> int:
        """How many areas a table has."""

    def marginal(self, depth: int) -> Marginal:
        """A table's marginal of the detail cells."""

    def width(self, depth: int) -> int:
        """How many cells a table has in an area."""

    @property
    def impossible(self) -> BoolArray | None:
        """The detail cells that are 0, bool (finest areas or 1, cells); None where there are none."""

    def impossible_cells(self, depth: int) -> BoolArray | None:
        """The cells of a table that are 0, bool (areas or 1, cells of an area); None where there are none."""


@dataclass(frozen=True, eq=False)
class PublicTotals:
    """Totals of areas that are published exactly.

    Attributes:
        area_level: their level in the areas' tree.
        totals: int64 (areas,), ≥ 0.
    """

    area_level: int
    totals: IntArray


@dataclass(frozen=True, eq=False)
class FittedTables:
    """What a mechanism makes of noisy tables.

    Attributes:
        leaves: (finest areas, detail cells), integers ≥ 0: every published table is a sum of them. 0 where
            `Layout.impossible` says so.
        std_devs: of all tables, by name: (areas, 1), or (areas, cells of an area). A mechanism from outside
            that knows no errors leaves it empty, and `unbiased` too.
        unbiased: of all tables, by name: the estimates before x ≥ 0 and rounding, float64 (areas, cells of an area).
        misses: of the tables that the numbers could not all be near to at once, by name: by how much the numbers miss
            what was decided for the table, as the root of the mean square in standard deviations.
        rounding: of tables where it is not negligible, by name: what rounding adds to a standard deviation, in squares.
            `std_devs` have it.
        typical_errors: of all tables, by name: the root mean square error that is expected of each published number,
            given all noisy numbers, float64 (areas, cells of an area). A mechanism that knows none leaves it empty.
    """

    leaves: IntArray
    std_devs: Mapping[str, FloatArray]
    unbiased: Mapping[str, FloatArray]
    misses: Mapping[str, float]
    rounding: Mapping[str, float] = field(default_factory=dict)
    typical_errors: Mapping[str, FloatArray] = field(default_factory=dict)


class TablesMechanism(Mechanism):
    """Computes one table of non-negative integers from noisy marginals; the base of those of `tallytree.tables`."""

    package: ClassVar[str] = "tallytree.tables"

    @property
    def takes_prior(self) -> bool:
        """Whether `reconcile` has an argument `prior`, a `solvers.tables.prior.PriorOfTables`."""
        return False

    @abstractmethod
    def reconcile(
        self,
        layout: Layout,
        measured: Mapping[str, Statistic],
        totals: PublicTotals | None,
        measurer: Measures,
    ) -> FittedTables:
        """Measure, and compute the detail of every area.

        Args:
            layout: the tables.
            measured: the tables that are measured, and the statistic that each is measured as.
            totals: what is published exactly.
            measurer: measures tables, some areas at a time.
        """
