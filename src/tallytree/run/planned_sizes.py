"""A planned release of group sizes.

The largest size is measured first where it is private: the one thing that is known of it afterwards is a noisy value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tallytree.accounting import NoisePlan
from tallytree.accounting.sensitivity import effective_quantity
from tallytree.hierarchy import Hierarchy, nodes_per_level
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
from tallytree.release.released_tables import about_size_tables, size_tables
from tallytree.release.statement import privacy_statement
from tallytree.run import rehearsal
from tallytree.run.arguments import SizesArguments
from tallytree.run.checked_results import sizes_by
from tallytree.run.counted_records import dropped_or_refused, refuse_more_than
from tallytree.run.people import (
    CountedPeople,
    PublishedContributions,
    beside_the_levels,
    contribution_bound,
    contributions_spec,
    true_contributions,
    with_contributions,
)
from tallytree.run.planned import PLANNED_SOFTWARE, Planned, Reconciled
from tallytree.run.sizes_in_bands import SizesMeasuring, reconcile_in_bands
from tallytree.run.workspace import Workspace
from tallytree.sizes import SizesDomain, SizesMechanism
from tallytree.sizes.private_maximum import PrivateMaximum, largest_published, margin
from tallytree.support.arrays import IntArray
from tallytree.trees.bands import Cut
from tallytree.trees.leaf_keys import LeafKey, leaf_keys

MAX_LIST_CELLS = 2**31
"""Arrow addresses the cells of a list column with 32 bits."""

MAX_GROUPS = 2**50
"""Beyond about 2^53 a float does not hold every integer."""

_CELLS: dict[Invariants, str] = {
    "groups": "tail_counts: groups of size >= s, for s = {next} … {K}; histogram: groups of size s, for s = {smallest} "
    "… {K}; sorted_sizes: the sizes of a node's groups, ascending; chain_tail_counts: for s = {smallest} … {K} the "
    "level's groups that are larger than s, or of size s in this node or a later one.",
    "total": "tail_counts: groups of size >= s, for s = {smallest} … {K} (at the root, where it is G, "
    "for s = {next} … {K}); histogram: groups of size s, for s = {smallest} … {K}; chain_tail_counts: for those s the "
    "level's groups that are larger than s, or of size s in this node or a later one.",
    "none": "tail_counts: groups of size >= s, for s = {smallest} … {K}; histogram: groups of size s, for those s; "
    "chain_tail_counts: for those s the level's groups that are larger than s, or of size s in this node or a later "
    "one.",
}


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
class PlannedSizes(Planned[TabulatedSizes, SizesMechanism]):
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

    releases = ("group_sizes",)

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
        """See `Planned.cells_per_node`."""
        return self.largest - self.smallest + 1

    @property
    def key(self) -> LeafKey:
        """The records' path columns and their hierarchy."""
        return leaf_keys(self.tree, self.arguments.leaf, self.arguments.on_unknown)[0]

    def own_spec(self) -> dict[str, Any]:
        """See `Planned.own_spec`."""
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

    def own_statement(self) -> dict[str, Any]:
        """See `Planned.own_statement`."""
        statement = privacy_statement(
            statistic="group_sizes",
            levels=nodes_per_level(self.tree),
            plan=self.plan,
            terms=self.arguments,
            mechanism=self.mechanism,
            invariants=list(self._invariants()),
            notes=list(self._notes()),
            tabulated_by=PLANNED_SOFTWARE,
            dataset=self.dataset,
            max_quantity=self.arguments.max_quantity,
        )
        if self.plan.maximum is not None:
            statement["maximum"] |= {"at_most": self.largest, "margin": margin(self.plan.maximum.noise)}
        return with_contributions(statement, self.arguments)

    def made_up(self, records: int) -> tuple[PlannedSizes, TabulatedSizes]:
        """See `Planned.made_up`."""
        tree = rehearsal.cut(self.tree, self.cells_per_node)
        leaves, groups = rehearsal.leaf_numbers(tree.n_leaves, records)
        per_leaf = np.zeros(tree.n_leaves, dtype=np.int64)
        per_leaf[leaves] = groups
        bounds = self.smallest, self.largest
        domain = SizesDomain.from_leaves(tree, per_leaf, *bounds, self.invariants)
        true = TrueSizes(tree, leaves, rehearsal.sizes(len(leaves), *bounds), groups, domain.groups, *bounds)
        return replace(self, tree=tree), TabulatedSizes(domain, true)

    def tabulate(self, work: Workspace | None = None, people: CountedPeople | None = None) -> TabulatedSizes:
        """See `Planned.tabulate`."""
        people = people or self.counted_people
        if work is not None:
            work.place.check(self.mechanism)
        counted = self._counted_groups(people)
        leaves, sizes, groups = self._groups_of_leaves(counted)
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
        return TabulatedSizes(domain, true, true_contributions(counted, self.tree, people))

    def fit(
        self,
        true: TabulatedSizes,
        source: NoiseSource,
        on_measure: Callable[[str], None],
        work: Workspace | None,
        people: PublishedContributions,
    ) -> Reconciled:
        """See `Planned.fit`."""
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

    def _counted_groups(self, people: CountedPeople | None = None) -> LeafGroups:
        """What the engine counts in the records."""
        bound = contribution_bound(self.arguments, people)
        return self.engine.tabulate(self.arguments.records, self._request(bound))

    @property
    def request(self) -> CountGroups | GroupRows:
        """See `Planned.request`."""
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

    def _groups_of_leaves(self, counted: LeafGroups | None = None) -> tuple[IntArray, IntArray, IntArray]:
        """Leaf, size and number of groups of every (leaf, size) that has groups."""
        counted = self._counted_groups() if counted is None else counted
        if self.invariants != "groups":  # groups without members are not counted
            kept = counted.sizes > 0
            return counted.leaves[kept], np.maximum(counted.sizes[kept], self.smallest), counted.groups[kept]
        if self.arguments.group is None:
            return counted.leaves, counted.sizes, counted.groups
        return self._with_empty_groups(counted.leaves, counted.sizes, counted.groups)

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

    # --- What the statement says in sentences ---

    def _invariants(self) -> Iterator[str]:
        """What is published exactly."""
        yield "the hierarchy"
        if self.invariants == "groups":
            yield "the number of groups in every leaf (that a group exists, and where)"
        elif self.invariants == "total":
            yield f"the total number of {self._counted_noun().lower()}"
        if self.smallest > (0 if self.invariants == "groups" else 1):
            yield f"no group has fewer than {self.smallest} members (smaller ones are set to that)"

    def _notes(self) -> Iterator[str]:
        """What was measured, what is assumed, and what is not protected."""
        given, smallest = self.arguments, self.smallest
        if self.caution is not None:
            yield self.caution
        if self.reason_of_split is not None:
            yield self.reason_of_split
        if given.quantity is not None:
            yield (
                f"The size of a group is the sum of its records' column {given.quantity!r}, each cut to "
                f"{given.max_quantity}."
            )
        yield f"Sizes are clamped into [{smallest}, {self.largest}] before they are measured."
        if self.plan.maximum is not None:
            yield (
                "The largest size is measured before anything else. K, which is published as maximum.max_group_size, "
                f"is that noisy value plus {margin(self.plan.maximum.noise)} (five standard deviations of its noise), "
                f"but at least {smallest + 1} and at most {self.largest}; then larger groups are set to K."
            )
        largest = self.largest if self.plan.maximum is None else "K"
        yield _CELLS[self.invariants].format(smallest=smallest, next=smallest + 1, K=largest)
        if given.group is None and given.max_quantity > 1:
            yield f"That no record adds more than {given.max_quantity} to a size is assumed, not enforced."
        if self.invariants != "groups":
            yield f"{self._counted_noun()} are counted, so sizes begin with {smallest}."
        if self.invariants == "total":
            yield (
                f"The number of {self._counted_noun().lower()} is published exactly, so neighbouring data sets have "
                "the same: that a person's coming, going or change adds or ends such a group is not protected where "
                "that number shows it."
            )
        if self.invariants == "groups" and smallest == 1:
            yield (
                "It is published that every group has a member, so the presence of a group's only member is not "
                "protected."
            )

    def _counted_noun(self) -> str:
        """Which groups are counted where their numbers are private."""
        quantity = self.arguments.quantity
        of = "members" if quantity is None else f"a sum of {quantity!r} of at least 1"
        inside = " inside the hierarchy" if self.arguments.on_unknown == "drop" else ""
        inside += " in the period" if self.arguments.checked_period is not None else ""
        return f"Groups with {of}{inside}"


def within_measured_maximum(
    domain: SizesDomain, true: TrueSizes | SizesInFiles, plan: NoisePlan, source: NoiseSource
) -> tuple[SizesDomain, TrueSizes | SizesInFiles, Mapping[str, Any]]:
    """The domain and the statistics with sizes clamped to K, and what a statement says of K.

    K is a function of the noisy maximum and of public facts; the true maximum is seen by a measurer of its own and by
    nothing else. That measurer has the plan's source, in which the largest size has an address of its own. What it
    holds and what the levels' measurer holds have no statistic in common: the largest size measured once more, after
    clamping, would have the same noise on another value and so give it away.

    Args:
        domain: the public facts; its `largest` is what K is at most.
        true: the statistics with sizes clamped to that, from which (all of them) the source's key is derived. So with
            this key only one K can come out, and statistics clamped to that one.
        plan: has the noise of the maximum.
        source: the noise.
    """
    if plan.maximum is None:
        return domain, true, {}
    measurer = Measurer(true.largest_size(), plan, source)
    measured = measurer.measure(plan.maximum.level, np.zeros(1, dtype=np.int64), "largest_size")
    largest = int(largest_published(measured.values, measured.noise, domain.smallest, domain.largest)[0])
    facts = {"noisy": int(measured.values[0]), "max_group_size": largest}
    return replace(domain, largest=largest), true.clamped(largest), facts
