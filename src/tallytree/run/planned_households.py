"""A planned release of persons and households that agree.

Persons are measured and fitted first, as tables. How many persons of every area live in households, N, is read from the
published integers. Then the persons by rank are measured, and households by size are fitted to them such that their
members add up to N. All that follows the two measurements is computed from noisy answers and public facts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa

from tallytree.accounting import NoisePlan
from tallytree.errors import BudgetExceeded
from tallytree.hierarchy import Hierarchy, Levels, nodes_per_level
from tallytree.kinds.households import PERSONS, SIZES
from tallytree.kinds.measurements import Measurement
from tallytree.private import (
    ContributionBound,
    CountHouseholds,
    LeafHouseholds,
    Measurer,
    NoiseSource,
    TrueHouseholds,
    TrueRanks,
    TrueTables,
)
from tallytree.product import Product
from tallytree.release import Release
from tallytree.release.households_release import IN_OR_OUTSIDE, HouseholdsRelease
from tallytree.release.level_tables import LevelTable, NodeTable, read_all
from tallytree.release.released_tables import about_size_tables, measurement_tables
from tallytree.release.statement import WARNING, described_statement, privacy_statement
from tallytree.release.view.release_view import published_level
from tallytree.run.arguments import HouseholdsArguments
from tallytree.run.counted_records import MAX_RECORDS
from tallytree.run.people import CountedPeople, PublishedContributions, contribution_bound
from tallytree.run.planned import CHANGED, PLANNED_SOFTWARE, Planned, Reconciled, check_same
from tallytree.run.planned_tables import MAX_RECORDS_OF_TABLES, PlannedTables, learning_notes
from tallytree.run.workspace import Workspace
from tallytree.sizes import SizesDomain
from tallytree.sizes.given_persons import (
    HouseholdsBySize,
    MeasuredRanks,
    sizes_given_persons,
)
from tallytree.sizes.mechanism import ReleasedSizes
from tallytree.solvers.checks import MAX_EXACT
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.tables import TableLayout, TablesMechanism
from tallytree.tables.layout import sizes_of
from tallytree.trees.leaf_keys import LeafKey, leaf_keys

_AGREES = (
    "At every level and in every area, the members of the households by size add up to the published number of "
    "persons in households. Households by size add up over areas, and every table of persons is a sum of the cells of "
    "one table of integers."
)
_RANKS = (
    "persons_by_rank: for every area the number of households of s members or more, for s = 1 … {0}, and the number of "
    "persons beyond the {0}th of their household, added up. These were measured; the numbers of persons in households "
    "are those of the tables of persons."
)
_LAST = (
    "Households of {0} members or more are one class, whose size is given as {0}; the column persons has how many "
    "members they have together."
)
_IN_NONE = "A record whose column {!r} is null or empty is of a person who lives in no household."
_WITHOUT_RECORDS = "A household of which no record counts is none."


@dataclass(frozen=True)
class SizesGivenPersons:
    """The way in which households by size are made, as a statement names it; it has no options."""


def size_level(level: str) -> str:
    """What the persons by rank of a level of areas are called in the plan of both parts."""
    return f"{SIZES}/{level}"


@dataclass(frozen=True, eq=False)
class PartLevels:
    """The measured and published levels of both parts, those of persons first. Implements `Levels`.

    Attributes:
        persons: the tables of persons.
        areas: the public tree of areas.
    """

    persons: TableLayout
    areas: Hierarchy

    @property
    def product(self) -> Product:
        """The hierarchies of the tables of persons."""
        return self.persons.product

    @property
    def levels(self) -> tuple[str, ...]:
        """The names of the tables, then those of the persons by rank."""
        return (*self.persons.levels, *map(size_level, self.areas.levels))

    def size(self, depth: int) -> int:
        """How many cells a table has, or how many areas a level."""
        levels, place = self._at(depth)
        return levels.size(place)

    def path_columns(self, depth: int) -> tuple[str, ...]:
        """See `Levels.path_columns`."""
        levels, place = self._at(depth)
        return levels.path_columns(place)

    def path_table(self, depth: int, nodes: IntArray) -> pa.Table:
        """See `Levels.path_table`."""
        levels, place = self._at(depth)
        return levels.path_table(place, nodes)

    def coded_paths(self, depth: int, nodes: IntArray) -> pa.Table:
        """See `Levels.coded_paths`."""
        levels, place = self._at(depth)
        return levels.coded_paths(place, nodes)

    def _at(self, depth: int) -> tuple[Levels, int]:
        tables = len(self.persons.levels)
        return (self.persons, depth) if depth < tables else (self.areas, depth - tables)


@dataclass(frozen=True, eq=False)
class ReconciledHouseholds(Reconciled):
    """What was made of the measurements of both parts.

    Attributes:
        persons: the tables of persons.
        households: households by size.
    """

    persons: Reconciled | None = None
    households: Reconciled | None = None


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PlannedHouseholds(Planned[TrueHouseholds, TablesMechanism]):
    """A planned release of persons and households.

    Attributes:
        arguments: what was given.
        plan: the noise of both parts.
        public_tree: the hierarchies of the tables of persons: those that were given, and whether a person lives in a
            household.
        given: the hierarchies that records have columns of.
        persons: the tables of persons, with their share of the plan; they are not run by themselves.
        reason_of_split: a sentence on the shares of the levels of households by size.
    """

    arguments: HouseholdsArguments
    tree: PartLevels
    public_tree: Product
    plan: NoisePlan
    given: Product
    persons: PlannedTables
    reason_of_split: str

    releases = ("households",)

    @property
    def areas(self) -> Hierarchy:
        """The public tree of areas."""
        return self.tree.areas

    @property
    def keys(self) -> tuple[LeafKey, ...]:
        """The records' columns for each hierarchy that was given."""
        return leaf_keys(self.given, self.arguments.leaf, self.arguments.on_unknown)

    @property
    def request(self) -> CountHouseholds:
        """See `Planned.request`."""
        return self._request(None)

    def _request(self, bound: ContributionBound | None) -> CountHouseholds:
        given = self.arguments
        return CountHouseholds(
            self.keys,
            given.household,
            "drop" if given.on_unknown == "drop" else "error",
            person=given.person,
            bound=bound,
            impossible=self.given.impossible,
            period=given.in_period,
        )

    def _anew(self) -> Self:
        """See `Planned._anew`."""
        return replace(self, persons=replace(self.persons))

    def check_plan(self) -> None:
        """See `Planned.check_plan`: also that the tables of persons have their part of this plan, and its prior.

        Raises:
            BudgetExceeded: they have another.
        """
        super().check_plan()
        self.persons.check_plan()
        check_same(self, self.persons, "prior")
        of_persons = {name: each for name, each in self.plan.levels.items() if name in self.persons.tree.levels}
        if dict(self.persons.plan.levels) != of_persons or self.persons.tree is not self.tree.persons:
            raise BudgetExceeded(CHANGED)

    def own_spec(self) -> dict[str, Any]:
        """See `Planned.own_spec`."""
        given = self.arguments
        of_tables = self.persons.spec
        return {
            **{
                key: of_tables[key]
                for key in ("tree", "tables", "person", "period_column", "period")
                if key in of_tables
            },
            "statistic": "households",
            "columns": [list(key.columns) for key in self.keys],
            **self.persons.leaf_spec,
            "household": given.household,
            "max_household_size": given.max_household_size,
            "share_of_sizes": float(given.sizes_share),
        }

    def own_statement(self) -> dict[str, Any]:
        """See `Planned.own_statement`."""
        of_tables = self.persons.statement
        largest = self.arguments.max_household_size
        notes = [] if self.mechanism.caution is None else [self.mechanism.caution]
        notes += [
            _AGREES,
            *learning_notes(self.persons.mechanism),
            _IN_NONE.format(self.arguments.household),
            _WITHOUT_RECORDS,
            _RANKS.format(largest),
            _LAST.format(largest),
            self.reason_of_split,
        ]
        statement = privacy_statement(
            statistic="households",
            levels=nodes_per_level(self.tree),
            plan=self.plan,
            terms=self.arguments,
            mechanism=self.mechanism,
            invariants=of_tables["invariants"],
            notes=notes,
            tabulated_by=PLANNED_SOFTWARE,
            dataset=self.dataset,
        )
        tables = len(self.tree.persons.levels)
        for depth, about in enumerate(statement["levels"]):
            about["part"] = PERSONS if depth < tables else SIZES
        return {**statement, "max_household_size": largest, "share_of_sizes": float(self.arguments.sizes_share)}

    @property
    def expected_work(self) -> str:
        """See `Planned.expected_work`: of the tables of persons, which take most of it."""
        return self.persons.expected_work

    def tabulate(self, work: Workspace | None = None, people: CountedPeople | None = None) -> TrueHouseholds:
        """See `Planned.tabulate`: both parts in one pass, so that they count the same records."""
        bound = contribution_bound(self.arguments, people)
        counted = self.engine.tabulate(self.arguments.records, self._request(bound))
        if int(counted.persons.counts.sum()) > min(MAX_RECORDS, MAX_RECORDS_OF_TABLES):
            raise ValueError("records: there are more than 2^50, beyond which sums are not exact; use fewer")
        tables = TrueTables(self.persons.layout, counted.persons, self.persons.statistics)
        return TrueHouseholds(tables, self.ranks_of(counted))

    def listed_persons(self, table: Any, argument: str) -> LeafHouseholds:
        """What a public table of persons has, with the columns of the records; all of its rows count.

        Raises:
            ValueError, TypeError: it does not fit.
        """
        asked = replace(self._request(None), on_unknown="error", argument=argument, person=None, period=None)
        return self.engine.tabulate(table, asked)

    def ranks_of(self, counted: LeafHouseholds) -> TrueRanks:
        """The persons by rank of what an engine counted."""
        names = {level: size_level(level) for level in self.areas.levels}
        return TrueRanks(self.areas, counted.households, self.largest, names)

    @property
    def largest(self) -> int:
        """K."""
        return self.arguments.max_household_size

    def fit(
        self,
        true: TrueHouseholds,
        source: NoiseSource,
        on_measure: Callable[[str], None],
        work: Workspace | None,
        people: PublishedContributions,
    ) -> ReconciledHouseholds:
        """See `Planned.fit`: persons first, then households by size, given the published persons.

        Both parts draw from one source. Their noise is independent, since no measurement of one has the name of a
        measurement of the other, and so none has its address.
        """
        persons = self.persons.fit(true.persons, source, on_measure, None, people)
        households = self.sizes_given(persons.tables, true.ranks, source, on_measure)
        about = {key: households.about[key] for key in ("constraint_violations", "mended")}
        return ReconciledHouseholds({}, (), about, persons=persons, households=households)

    def _persons_in_households(self, tables: Mapping[str, LevelTable]) -> tuple[list[IntArray], list[FloatArray]]:
        """The published persons in households of every area and their errors, one array a level, root first.

        An error is the square root of the variance of the unbiased estimate, and the square of how far the published
        number was moved from it: a number beside one that x ≥ 0 raised has moved with it.
        """
        layout, found, errors = self.persons.layout, [], []
        places = {sizes_of(self.public_tree, table): depth for depth, table in enumerate(layout.tables)}
        for depth in range(len(self.areas.levels)):
            areas = self.areas.size(depth)
            others = (1,) * (len(self.public_tree.attributes) - 2)
            place = places[areas, *others, len(IN_OR_OUTSIDE)]
            table = tables[layout.levels[place]]
            published = published_level(table, layout, place)
            cells = np.zeros((2, areas * len(IN_OR_OUTSIDE)))
            rows = read_all(table)
            moved = published.numbers - rows["unbiased"].to_numpy() if "unbiased" in rows.column_names else 0
            cells[:, published.nodes] = published.numbers, np.hypot(rows["std_dev"].to_numpy(), moved)
            numbers, std_dev = cells.reshape(2, areas, -1)[:, :, 0]
            found.append(numbers.astype(np.int64))
            errors.append(std_dev)
        return found, errors

    def sizes_given(
        self,
        of_persons: Mapping[str, LevelTable],
        true: TrueRanks,
        source: NoiseSource,
        on_measure: Callable[[str], None],
    ) -> Reconciled:
        """Households by size, from the noisy persons by rank and the published persons in households."""
        persons, std_devs = self._persons_in_households(of_persons)
        areas, largest = self.areas, self.largest
        measurer = Measurer(true, self.plan, source, on_measure)
        ranks: list[MeasuredRanks | None] = []
        for depth, level in enumerate(areas.levels):
            if size_level(level) not in self.plan.levels:
                ranks.append(None)
                continue
            nodes = np.arange(areas.size(depth), dtype=np.int64)
            measured = measurer.measure(size_level(level), nodes, "persons_by_rank")
            most = MAX_EXACT // max(measured.values.size, 1)  # larger values are noise alone; sums must be exact
            values = np.clip(measured.values, -most, most).reshape(len(nodes), -1)
            ranks.append(MeasuredRanks(values, measured.noise))
        fitted = sizes_given_persons(ranks, persons, areas.first_child, std_devs)
        tables: dict[str, LevelTable] = {}
        released, disagreeing = [], 0
        for depth, made in enumerate(fitted.levels):
            table = _size_table(areas, depth, made)
            tables[areas.levels[depth]] = table
            groups, sizes, members = (table.columns.column(name).to_numpy() for name in ("groups", "size", "persons"))
            released.append(ReleasedSizes(table.nodes, sizes, groups))
            in_all = np.zeros(areas.size(depth), dtype=np.int64)
            np.add.at(in_all, table.nodes, members)
            disagreeing += int(np.count_nonzero(in_all != persons[depth]))
        private = (None,) * len(areas.levels)
        about = about_size_tables(SizesDomain(areas, private, 1, largest), released)
        about["constraint_violations"] += disagreeing
        taken = tuple(map(_under_its_own_name, measurer.taken))
        return Reconciled(tables, taken, {**about, "mended": int(fitted.mended)})

    def as_release(self, statement: Mapping[str, Any], spec: Mapping[str, Any], made: Reconciled) -> HouseholdsRelease:
        """See `Planned.as_release`: the release with both parts, each with a statement of its own."""
        if not isinstance(made, ReconciledHouseholds) or made.persons is None or made.households is None:
            raise TypeError("made: it must be what was made of both parts")
        tables = {**self.persons.statement, **made.persons.about}
        persons = self.persons.as_release(self._of_part(PERSONS, tables, statement), self.persons.spec, made.persons)
        about = self._of_part(SIZES, {**self._sizes_statement, **made.households.about}, statement)
        households = Release(
            about,
            {**spec, **self._sizes_spec},
            made.households.tables,
            measurement_tables(self.areas, made.households.taken if self.arguments.keep_measurements else (), "values"),
            self.areas,
        )
        return HouseholdsRelease(statement, spec, {}, {}, persons=persons, households=households)

    def _of_part(self, part: str, own: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[str, Any]:
        """The statement of a part: what is measured is its own, what is protected is that of the whole release."""
        spent = ", ".join(f"{name} = {amount}" for name, amount in whole["spent"].items())
        note = (
            f"This is the part {part!r} of one release of persons and households. What is spent here is this part's; "
            f"the guarantee is that of the whole release, which spends {spent} for both parts together."
        )
        statement = {**own, "notes": [note, *own["notes"]]}
        description = self.arguments.description
        words = description.get("words", {})
        person = words.get("person", "person")  # a record of the tables is one, and is called so
        own_words = {"group": "household"} if part == SIZES else {"record": person, "person": person}
        description = {**description, "words": {**own_words, **words}}
        statement = described_statement(statement, description)
        same = (
            WARNING,
            "private",
            "guarantee",
            "unit_of_protection",
            "ledger",
            "release",
            "risk",
            "software",
            "measurements_kept",
        )
        shared = {key: whole[key] for key in same if key in whole}
        statement = {key: shared[key] for key in shared if key == WARNING} | statement | shared
        statement["part_of"] = {
            "statistic": "households",
            "part": part,
            "budget": whole["budget"],
            "spent": whole["spent"],
        }
        return statement

    @cached_property
    def _sizes_statement(self) -> dict[str, Any]:
        """The planned statement of households by size."""
        own = {level: each for level in self.areas.levels if (each := self.plan.levels.get(size_level(level)))}
        levels = {level: replace(each, level=level) for level, each in own.items()}
        largest = self.arguments.max_household_size
        return privacy_statement(
            statistic="group_sizes",
            levels=nodes_per_level(self.areas),
            plan=replace(self.plan, levels=levels),
            terms=self.arguments,
            mechanism=SizesGivenPersons(),
            invariants=["the hierarchy"],
            notes=[_AGREES, _WITHOUT_RECORDS, _RANKS.format(largest), _LAST.format(largest), self.reason_of_split],
            tabulated_by=PLANNED_SOFTWARE,
            dataset=self.dataset,
        )

    @property
    def _sizes_spec(self) -> dict[str, Any]:
        """The published spec of households by size."""
        return {
            "statistic": "group_sizes",
            "tree": repr(self.areas),
            "columns": list(self.keys[0].columns),
            "group": self.arguments.household,
            "invariants": "none",
            "min_group_size": 1,
            "max_group_size": self.arguments.max_household_size,
        }


def _under_its_own_name(measurement: Measurement) -> Measurement:
    return replace(measurement, level=measurement.level.removeprefix(size_level("")))


def _size_table(areas: Hierarchy, depth: int, level: HouseholdsBySize) -> NodeTable:
    """The published table of a level: a row for each (area, size) with households."""
    largest = level.households.shape[1]
    nodes, sizes = np.nonzero(level.households)
    groups, std_dev = level.households[nodes, sizes], level.std_dev[nodes, sizes]
    last = sizes == largest - 1
    size = sizes + 1
    columns = {
        "size": size,
        "groups": groups,
        "persons": size * groups + np.where(last, level.excess[nodes], 0),
        "persons_std_dev": np.where(last, level.last_class_std_dev[nodes], size * std_dev),
        "households_std_dev": level.households_std_dev[nodes],
        "std_dev": std_dev,
    }
    return NodeTable(areas, depth, nodes, pa.table(columns))
