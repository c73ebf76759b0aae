"""A planned release of tables."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tallytree.hierarchy import nodes_per_level
from tallytree.kinds.foreign import is_foreign
from tallytree.kinds.measurements import Measurement
from tallytree.private import CountRecords, Measurer, NoiseSource, TrueTables
from tallytree.release.counted_unit import ONCE_IN_A_CELL
from tallytree.release.detail import detail_facts, detail_table
from tallytree.release.level_files import MeasurementFiles, table_files
from tallytree.release.released_tables import cell_by_cell, published_tables
from tallytree.release.statement import TOTAL_IS_PUBLIC, TOTALS_ARE_PUBLIC, privacy_statement
from tallytree.run import rehearsal
from tallytree.run.arguments import TablesArguments
from tallytree.run.checked_results import about_foreign_tables, tables_by
from tallytree.run.counted_records import counted_records, request_for
from tallytree.run.people import (
    CountedPeople,
    PublishedContributions,
    contributions_spec,
    true_contributions,
    with_contributions,
)
from tallytree.run.planned import PLANNED_SOFTWARE, Planned, Reconciled
from tallytree.run.workspace import Workspace, not_taken
from tallytree.solvers.tables.prior import PriorOfTables
from tallytree.support.arrays import rows_at
from tallytree.support.machine import described_bytes, memory_bytes
from tallytree.tables import FittedTables, LeastSquares, PublicTotals, TableLayout, TablesMechanism
from tallytree.trees.impossible import stated
from tallytree.trees.leaf_keys import LeafKey, leaf_keys

logger = logging.getLogger(__name__)

MAX_RECORDS_OF_TABLES = 2**50
"""Tables are fitted in doubles: beyond, rounding shows beside the noise."""
OWN_SECONDS, DETAIL_SECONDS = 1.1, 0.15
"""For a million cells of the levels' own details, and of the finest areas' detail."""
OWN_BYTES, DETAIL_BYTES = 45, 25
"""For each of them."""
UNMET = 0.5
"""A table whose numbers are farther than this from what was decided for it, in standard deviations, is named."""
_AREAS_NOT_PROTECTED = (
    "What is protected is the content of a record within its area at the level {!r}: which of these areas it lies in "
    "is not, since the totals of these areas are published exactly."
)
_AGREE = (
    "Every published table is a sum of the cells of one table of integers, so all of them agree, and every coarser "
    "table follows from them."
)

_LEARNS = (
    "Numbers are moved towards what is usual: each cell learns from all areas how far cells lie from what is expected "
    "of them. A place that is unlike all others comes out as more usual than it is."
)


CELL_BYTES = 64
"""Of memory that a cell of a table takes, about: its true, its noisy and its released number, and its error."""


def bytes_at_once(layout: TableLayout) -> int:
    """What a release of tables takes where all is there at once, about: in memory, or in files.

    Each level of the areas has a detail, and rows of all tables that are named there or below.
    """
    named = [(layout.area_level(depth), layout.marginal(depth)) for depth in range(len(layout.levels))]
    rows = [
        layout.detail.cells + sum(map(layout.detail.size, {marginal for at, marginal in named if at >= level}))
        for level in range(len(layout.areas_per_level))
    ]
    return CELL_BYTES * sum(areas * cells for areas, cells in zip(layout.areas_per_level, rows, strict=True))


def learning_notes(mechanism: TablesMechanism) -> list[str]:
    """What readers are told where cells learn from each other."""
    return [_LEARNS] if isinstance(mechanism, LeastSquares) and mechanism.pooling == "areas" else []


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PlannedTables(Planned[TrueTables, TablesMechanism]):
    """A planned release of tables.

    Attributes:
        arguments: what was given.
        tree: the tables in place of levels, those that were asked for first.
        totals: totals of areas that are public; None where there are none, or only the number of records.
        totals_level: the name of their level.
    """

    arguments: TablesArguments
    tree: TableLayout
    totals: PublicTotals | None
    totals_level: str | None

    releases = ("tables",)

    @property
    def layout(self) -> TableLayout:
        """The tables."""
        return self.tree

    @property
    def keys(self) -> tuple[LeafKey, ...]:
        """The records' columns for each hierarchy."""
        return leaf_keys(self.layout.product, self.arguments.leaf, self.arguments.on_unknown)

    @property
    def exact_level(self) -> int | None:
        """The area level whose totals are published exactly, with those above it; None without one."""
        if self.totals is not None:
            return self.totals.area_level
        return 0 if self.arguments.total_is_public else None

    @property
    def request(self) -> CountRecords:
        """See `Planned.request`."""
        whose = {"person": self.arguments.person, "impossible": self.layout.product.impossible}
        return request_for(self.arguments, self.keys, "records", **whose)

    def own_spec(self) -> dict[str, Any]:
        """See `Planned.own_spec`."""
        given = self.arguments
        return {
            "statistic": "tables",
            "tree": repr(self.layout.product),
            "columns": [list(key.columns) for key in self.keys],
            **self.leaf_spec,
            "tables": [list(table.levels) for table in self.layout.tables[: self.layout.asked]],
            "count": given.count,
            "person": given.person,
            "distinct": given.distinct,
            **contributions_spec(given),
            **given.period_spec,
        }

    def own_statement(self) -> dict[str, Any]:
        """See `Planned.own_statement`."""
        invariants = ["the hierarchies"]
        if self.totals_level is not None:
            invariants.append(TOTALS_ARE_PUBLIC.format(self.totals_level))
        elif self.arguments.total_is_public:
            invariants.append(TOTAL_IS_PUBLIC)
        invariants += stated(self.layout.product.impossible, " in every area")
        notes = [each for each in (self.mechanism.caution, _AGREE) if each is not None]
        notes += learning_notes(self.mechanism)
        if self.totals_level is not None:
            notes.append(_AREAS_NOT_PROTECTED.format(self.totals_level))
        if self.arguments.count is not None:
            notes.append(f"Each row stands for as many records as its column {self.arguments.count!r} says.")
        if self.arguments.distinct:
            notes.append(ONCE_IN_A_CELL)
        statement = privacy_statement(
            statistic="tables",
            levels=nodes_per_level(self.layout),
            plan=self.plan,
            terms=self.arguments,
            mechanism=self.mechanism,
            invariants=invariants,
            notes=notes,
            tabulated_by=PLANNED_SOFTWARE,
            dataset=self.dataset,
        )
        for depth, (about, table) in enumerate(zip(statement["levels"], self.layout.tables, strict=True)):
            about |= {
                "table": list(table.levels),
                "asked": depth < self.layout.asked,
                "zeros_listed": self.layout.lists_zeros(depth),
            }
        return with_contributions(statement, self.arguments)

    @property
    def expected_bytes(self) -> float:
        """What the tables take in memory beside the process, about."""
        own, detail = self.layout.work(self.statistics)
        return OWN_BYTES * own + DETAIL_BYTES * detail

    @property
    def expected_work(self) -> str:
        """See `Planned.expected_work`; of two processors, from releases of 0.9 to 54 million cells."""
        own, detail = self.layout.work(self.statistics)
        seconds = (OWN_SECONDS * own + DETAIL_SECONDS * detail) / 1e6
        time = f"about {seconds:,.0f}" if seconds >= 1 else "less than 1"
        room = f"{described_bytes(max(self.expected_bytes, 1e8))} of memory beside 0.5 GB for the process"
        memory, needed = self.arguments.memory, bytes_at_once(self.layout)
        if memory is not None and needed > memory_bytes(memory, "memory"):
            room = f"{memory} of memory; the disk has to have room for {described_bytes(needed)} of temporary files"
        return f"After the records are read, the tables take {time} s of two processors, and about {room}."

    def made_up(self, records: int) -> tuple[PlannedTables, TrueTables]:
        """See `Planned.made_up`."""
        layout = rehearsal.cut_layout(self.layout)
        cells = rehearsal.cell_numbers(layout, records)
        totals = None if self.totals is None else rehearsal.totals_of(layout, cells, self.totals.area_level)
        true = TrueTables(layout, cells, self.statistics, None, totals)
        return dataclasses.replace(self, tree=layout, totals=totals), true

    @property
    def prior_arguments(self) -> dict[str, Any]:
        """What `TablesMechanism.reconcile` takes of the prior, by argument; nothing without one."""
        if self.prior is None:
            return {}
        tables: Mapping[Any, Any] = self.prior.tables
        return {"prior": PriorOfTables(tables, self.prior.errors, self.prior.revised)}

    def require_room(self, work: Workspace) -> None:
        """See `Planned.require_room`."""
        work.require_room(bytes_at_once(self.layout))

    def tabulate(self, work: Workspace | None = None, people: CountedPeople | None = None) -> TrueTables:
        """See `Planned.tabulate`."""
        people = people or self.counted_people
        impossible = self.layout.product.impossible
        arrays = None if work is None else work.arrays(bytes_at_once(self.layout))
        cells = counted_records(self.engine, self.arguments, self.keys, "records", people, impossible)
        if int(cells.counts.sum()) > MAX_RECORDS_OF_TABLES:
            raise ValueError("records: counts of tables add up to more than 2^50; use a coarser unit")
        counted = true_contributions(cells, self.layout, people)
        return TrueTables(self.layout, cells, self.statistics, counted, self.totals, arrays)

    def fit(
        self,
        true: TrueTables,
        source: NoiseSource,
        on_measure: Callable[[str], None],
        work: Workspace | None,
        people: PublishedContributions,
    ) -> Reconciled:
        """See `Planned.fit`."""
        if work is not None:
            return self._fit_in_files(true, source, on_measure, work, people)
        measurer = Measurer(true, self.plan, source, on_measure)
        made, about = self._made(true, measurer, self.prior_arguments)
        detail = detail_table(self.layout, made.leaves) if self.arguments.keep_detail else None
        if detail is not None:  # no part of the plan: with a secret the same run can be repeated with it
            about["detail"] = detail_facts(self.layout, detail)
        taken = tuple(map(self._without_impossible, measurer.taken))
        tables = published_tables(self.layout, made)
        return Reconciled(tables, taken, about, people.facts, people.table, detail=detail)

    def _fit_in_files(
        self,
        true: TrueTables,
        source: NoiseSource,
        on_measure: Callable[[str], None],
        work: Workspace,
        people: PublishedContributions,
    ) -> Reconciled:
        """`fit` of a run with `memory`: what is released is written part by part."""
        arrays = work.arrays(bytes_at_once(self.layout))
        with MeasurementFiles(self.layout, "value", work.published) as measured:

            def take(measurement: Measurement) -> None:
                measured.take(cell_by_cell(self._without_impossible(measurement)))

            keep = take if self.arguments.keep_measurements else not_taken
            measurer = Measurer(true, self.plan, source, on_measure, keep)
            made, about = self._made(true, measurer, {"arrays": arrays})
            tables = table_files(self.layout, made, arrays, work.published, self.said_of_tables(people.facts))
            return Reconciled(tables, (), about, people.facts, people.table, measured=measured.done())

    def _made(
        self, true: TrueTables, measurer: Measurer, options: Mapping[str, Any]
    ) -> tuple[FittedTables, dict[str, Any]]:
        """What the mechanism makes of its measurements, and what the statement says of that.

        Args:
            true: the true tables.
            measurer: measures them.
            options: what `LeastSquares.reconcile` takes besides.
        """
        totals = self.exact_totals(true.total if self.arguments.total_is_public else None)
        made = tables_by(self.mechanism, self.layout, self.statistics, totals, measurer, **options)
        told: Mapping[str, Any] = {}
        if is_foreign(self.mechanism):
            told = about_foreign_tables(self.layout, made, totals)
            made = dataclasses.replace(made, leaves=np.rint(made.leaves).astype(np.int64))
        unmet = {name: round(miss, 2) for name, miss in made.misses.items() if miss > UNMET}
        if unmet:
            logger.warning(
                "tables that moved by more than half a standard deviation to agree with the others as integers, while "
                "their intervals hold: %s",
                ", ".join(unmet),
            )
        negative = int((made.leaves < 0).sum()) if is_foreign(self.mechanism) else 0
        about = {"constraint_violations": 0, "negative_numbers": negative, "unmet": unmet, **told}
        return made, about | {"rounding": made.rounding}

    def _without_impossible(self, measurement: Measurement) -> Measurement:
        """A measurement with 0 in the cells that are impossible: the noise drawn there is not used."""
        zero = self.layout.impossible_cells(self.layout.levels.index(measurement.level))
        if zero is None:
            return measurement
        values = measurement.values.reshape(len(measurement.nodes), -1).copy()
        cells = slice(measurement.first_cell, measurement.first_cell + values.shape[1])
        values[np.broadcast_to(rows_at(zero, measurement.nodes)[:, cells], values.shape)] = 0
        return dataclasses.replace(measurement, values=values.ravel())

    def exact_totals(self, total: int | None) -> PublicTotals | None:
        """What is published exactly: totals of areas that were given, else the number of records where it is public.

        Args:
            total: that number; None where it is private.
        """
        if self.totals is not None or total is None:
            return self.totals
        return PublicTotals(0, np.array([total], dtype=np.int64))
