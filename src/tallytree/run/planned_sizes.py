"""A planned release of group sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tallytree.accounting import NoisePlan
from tallytree.accounting.sensitivity import effective_quantity
from tallytree.hierarchy import Hierarchy, nodes_per_level
from tallytree.kinds.contributions import Contributions
from tallytree.kinds.measurements import Measurement, Statistic
from tallytree.kinds.terms import Invariants
from tallytree.private import (
    ContributionBound,
    CountGroups,
    GroupRows,
    LeafGroups,
    Measurer,
    NoiseSource,
    SizesInFiles,
    TrueContributions,
    TrueSizes,
    digest_with,
)
from tallytree.product import LeafKey, leaf_keys
from tallytree.release.released_tables import about_size_tables, size_tables
from tallytree.release.statement import privacy_statement
from tallytree.run import made_up
from tallytree.run.arguments import SizesArguments
from tallytree.run.checked_results import sizes_by
from tallytree.run.counted_records import dropped_or_refused, refuse_more_than
from tallytree.run.measured_contributions import PublishedContributions, true_contributions
from tallytree.run.measured_maximum import within_measured_maximum
from tallytree.run.person_bound import (
    beside_the_levels,
    contribution_bound,
    contributions_spec,
    with_contributions,
)
from tallytree.run.planned import PLANNED_SOFTWARE, Reconciled
from tallytree.run.planned_records import PlannedRecords
from tallytree.run.sizes_in_bands import SizesMeasuring, reconcile_in_bands
from tallytree.run.sizes_notes import SizesNotes
from tallytree.run.workspace import Workspace
from tallytree.sizes import SizesDomain, SizesMechanism
from tallytree.sizes.private_maximum import PrivateMaximum, margin
from tallytree.support.arrays import IntArray
from tallytree.trees.bands import Cut

MAX_LIST_CELLS = 2**31
"""Arrow addresses the cells of a list column with 32 bits."""

MAX_GROUPS = 2**50
"""Beyond about 2^53 a float does not hold every integer."""


@dataclass(frozen=True, eq=False)
class TabulatedSizes:
    """The true group sizes, with what is public of them.

    Attributes:
        domain: the public facts.
        true: the sizes of every node.
        contributions: people by their number of memberships, where they are measured too.
    """

    domain: SizesDomain
    true: TrueSizes | SizesInFiles
    contributions: TrueContributions | None = None

    def digest(self) -> bytes:
        """A digest of all statistics, for the derivation of the noise key; never published."""
        return digest_with(self.true.digest(), self.contributions)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PlannedSizes(PlannedRecords[TabulatedSizes, SizesMechanism]):
    """A planned release of group sizes.

    Attributes:
        arguments: what was given.
        tree: the public tree.
        plan: the noise of every measured level.
        invariants: which numbers of groups are public.
        smallest: sizes are raised to this; at least 1 where the numbers of groups are private.
        largest: K, sizes are cut to this; where K is private, what it is at most.
        private_maximum: how K is measured, where it is private.
        caution: a sentence that the statement must carry about the mechanism, if there is one.
        listed: the public number of groups of every leaf, int64 (n_leaves,), where there is a table of them.
        reason_of_split: a sentence on the shares of the levels, where they were chosen.
    """

    arguments: SizesArguments
    tree: Hierarchy
    plan: NoisePlan
    invariants: Invariants
    smallest: int
    largest: int
    private_maximum: PrivateMaximum | None
    caution: str | None = None
    listed: IntArray | None = None
    reason_of_split: str | None = None

    measured_column = "values"

    @property
    def beside(self) -> Sequence[Statistic]:
        """See `Planned.beside`."""
        return beside_the_levels(self.arguments, maximum=self.private_maximum is not None)

    @property
    def quantity(self) -> int:
        """See `Planned.quantity`."""
        return effective_quantity(self.arguments.max_quantity, self.smallest, self.largest)

    @property
    def cells_per_node(self) -> int:
        """See `PlannedRecords.cells_per_node`."""
        return self.largest - self.smallest + 1

    @property
    def key(self) -> LeafKey:
        """The records' path columns and their hierarchy."""
        return leaf_keys(self.tree, self.arguments.leaf, self.arguments.on_unknown)[0]

    def check_records(self) -> None:
        """See `Planned.check_records`."""
        self.engine.check(self.arguments.records, self.request)

    @cached_property
    def spec(self) -> dict[str, Any]:
        """See `Planned.spec`."""
        given, maximum = self.arguments, self.private_maximum
        return {
            "statistic": "group_sizes",
            "tree": repr(self.tree),
            "columns": list(self.key.columns),
            **self.leaf_spec,
            "group": given.group,
            "quantity": given.quantity,
            "max_quantity": given.max_quantity,
            "size": given.size,
            "groups": given.groups,
            "invariants": self.invariants,
            "min_group_size": self.smallest,
            "max_group_size": (
                self.largest if maximum is None else {"share": float(maximum.share), "at_most": self.largest}
            ),
            **({} if given.person is None else {"person": given.person}),
            **contributions_spec(given),
            **given.period_spec,
        }

    @cached_property
    def statement(self) -> dict[str, Any]:
        """See `Planned.statement`."""
        notes = SizesNotes(
            self.arguments,
            self.plan,
            self.invariants,
            self.smallest,
            self.largest,
            self.caution,
            self.reason_of_split,
        )
        statement = privacy_statement(
            statistic="group_sizes",
            levels=nodes_per_level(self.tree),
            plan=self.plan,
            terms=self.arguments,
            mechanism=self.mechanism,
            invariants=list(notes.of_invariants()),
            notes=list(notes.of_measurements()),
            tabulated_by=PLANNED_SOFTWARE,
            dataset=self.dataset,
            max_quantity=self.arguments.max_quantity,
        )
        if self.plan.maximum is not None:
            statement["maximum"] |= {"at_most": self.largest, "margin": margin(self.plan.maximum.noise)}
        return with_contributions(statement, self.arguments)

    def made_up(self, records: int) -> tuple[PlannedSizes, TabulatedSizes]:
        """See `PlannedRecords.made_up`."""
        tree = made_up.cut(self.tree, self.cells_per_node)
        leaves, groups = made_up.leaf_numbers(tree.n_leaves, records)
        per_leaf = np.zeros(tree.n_leaves, dtype=np.int64)
        per_leaf[leaves] = groups
        bounds = self.smallest, self.largest
        domain = SizesDomain.from_leaves(tree, per_leaf, *bounds, self.invariants)
        true = TrueSizes(tree, leaves, made_up.sizes(len(leaves), *bounds), groups, domain.groups, *bounds)
        return replace(self, tree=tree), TabulatedSizes(domain, true)

    def tabulate_with(
        self, asked: Contributions | None, work: Workspace | None = None, *, bins_of: int | None = None
    ) -> TabulatedSizes:
        """See `PlannedRecords.tabulate_with`."""
        if work is not None:
            work.place.check(self.mechanism)
        found = self._found(asked)
        leaves, sizes, groups = self._groups_of_leaves(found)
        if int(groups.sum()) > MAX_GROUPS:
            raise ValueError("records: they hold more than 2^50 groups, beyond which sums are not exact; use fewer")
        refuse_more_than(self.mechanism, int(groups.sum()), "records", "groups")
        groups_per_leaf = np.zeros(self.tree.n_leaves, dtype=np.int64)
        np.add.at(groups_per_leaf, leaves, groups)
        # From here on the domain knows what is public of these, and nothing else.
        domain = SizesDomain.from_leaves(self.tree, groups_per_leaf, self.smallest, self.largest, self.invariants)
        self._refuse_long_lists(domain)
        bounds = self.smallest, self.largest
        true: TrueSizes | SizesInFiles
        if work is None:
            true = TrueSizes(self.tree, leaves, sizes, groups, domain.groups, *bounds)
        else:
            true = SizesInFiles.of_leaves(
                self.tree, leaves, sizes, groups, domain.groups, *bounds, work.private, rows=work.rows
            )
        people = true_contributions(found, self.tree, asked, bins_of or self.arguments.bound)
        return TabulatedSizes(domain, true, people)

    def reconcile_levels(
        self,
        true: TabulatedSizes,
        source: NoiseSource,
        on_measure: Callable[[str], None],
        work: Workspace | None,
        people: PublishedContributions,
    ) -> Reconciled:
        """See `PlannedRecords.reconcile_levels`."""
        domain, clamped, maximum = within_measured_maximum(true.domain, true.true, self.plan, source)
        beside = {**({"maximum": maximum} if maximum else {}), **people.facts}
        if isinstance(clamped, SizesInFiles):
            if work is None:
                raise ValueError("work: true sizes in files need the folders of their run")
            made = self._in_bands(clamped, domain, source, on_measure, work, beside)
            return replace(made, beside=beside, contributions=people.table)
        measurer = Measurer(clamped, self.plan, source, on_measure)
        levels = sizes_by(self.mechanism, domain, measurer)
        tables = size_tables(self.tree, levels)
        return Reconciled(tables, measurer.taken, about_size_tables(domain, levels), beside, people.table)

    def _in_bands(
        self,
        true: SizesInFiles,
        domain: SizesDomain,
        source: NoiseSource,
        on_measure: Callable[[str], None],
        work: Workspace,
        facts: Mapping[str, Mapping[str, Any]],
    ) -> Reconciled:
        """Measure and reconcile in bands; the files of the tables say what the statement will say of them."""

        def measured_by(cut: Cut, take: Callable[[Measurement], None] | None) -> SizesMeasuring:
            return SizesMeasuring(true, cut, self.plan, source, on_measure, take, work.place)

        return reconcile_in_bands(
            self.mechanism,
            domain,
            measured_by,
            work,
            keep_measurements=self.arguments.keep_measurements,
            metadata=self.said_of_tables(facts),
        )

    def _found(self, asked: Contributions | None = None) -> LeafGroups:
        """What the engine finds in the records."""
        bound = contribution_bound(self.arguments, asked)
        return self.engine.tabulate(self.arguments.records, self._request(bound))

    @property
    def request(self) -> CountGroups | GroupRows:
        """See `PlannedRecords.request`."""
        return self._request()

    def _request(self, bound: ContributionBound | None = None) -> CountGroups | GroupRows:
        """What the engine counts; without a bound, what it checks."""
        given = self.arguments
        smallest = self.smallest if self.invariants == "groups" else 0
        sizes: dict[str, Any] = {"smallest": smallest, "largest": self.largest, "on_unknown": dropped_or_refused(given)}
        if given.group is None:
            return GroupRows(self.key, size=str(given.size), groups=str(given.groups), **sizes)
        return CountGroups(
            self.key,
            group=given.group,
            quantity=given.quantity,
            max_quantity=given.max_quantity,
            person=given.person,
            bound=bound,
            period=given.in_period,
            **sizes,
        )

    def listed_groups(self, table: Any, argument: str) -> LeafGroups:
        """What a public table lists in the columns `size` and `groups`."""
        smallest = self.smallest if self.invariants == "groups" else 0
        asked = GroupRows(self.key, "size", "groups", smallest=smallest, largest=self.largest, argument=argument)
        return self.engine.tabulate(table, asked)

    def _groups_of_leaves(self, found: LeafGroups | None = None) -> tuple[IntArray, IntArray, IntArray]:
        """Leaf, size and number of groups of every (leaf, size) that has groups."""
        found = self._found() if found is None else found
        if self.invariants != "groups":  # groups without members are not counted
            kept = found.sizes > 0
            return found.leaves[kept], np.maximum(found.sizes[kept], self.smallest), found.groups[kept]
        if self.arguments.group is None:
            return found.leaves, found.sizes, found.groups
        return self._with_empty_groups(found.leaves, found.sizes, found.groups)

    def _with_empty_groups(
        self, leaves: IntArray, sizes: IntArray, groups: IntArray
    ) -> tuple[IntArray, IntArray, IntArray]:
        """The groups of the records, and those that only the public table knows."""
        empty = np.array(self.listed, dtype=np.int64)
        np.subtract.at(empty, leaves, groups)
        if (empty < 0).any():
            leaf = self.tree.leaf_table().slice(int(np.argmax(empty < 0)), 1).to_pylist()[0]
            raise ValueError(
                f"public_groups: the records hold more groups than it says in the leaf {leaf}; "
                "correct the public number of groups, or the group column"
            )
        without_members = np.flatnonzero(empty)
        return (
            np.concatenate([leaves, without_members]),
            np.concatenate([sizes, np.full(len(without_members), self.smallest)]),
            np.concatenate([groups, empty[without_members]]),
        )

    def _refuse_long_lists(self, domain: SizesDomain) -> None:
        """Refuse sorted sizes that no list of a table can hold, while nothing is spent; their numbers are public."""
        for level, groups in zip(domain.hierarchy.levels, domain.groups, strict=True):
            measured = self.statistics.get(level)
            if measured == "sorted_sizes" and groups is not None and groups.max() >= MAX_LIST_CELLS:
                raise ValueError(
                    f"mechanism: the sorted sizes of a node at {level!r} are {groups.max()} cells, and a measurement "
                    f'has fewer than 2^31 a node; use the estimator "cumulative" at this level'
                )
