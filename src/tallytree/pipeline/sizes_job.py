"""A planned release of group sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tallytree.accounting import NoisePlan
from tallytree.accounting.sensitivity import effective_quantity
from tallytree.compute.arrays import IntArray
from tallytree.hierarchy import Hierarchy, nodes_per_level
from tallytree.ledger import Account
from tallytree.measurements import Statistic
from tallytree.pipeline.common import (
    canonical,
    check_plan,
    check_room,
    dataset,
    measurement_tables,
    paid_noise,
    table_name,
)
from tallytree.pipeline.measured_maximum import within_measured_maximum
from tallytree.pipeline.progress import level_progress
from tallytree.postprocess.reconcile_sizes import about_tables, size_tables
from tallytree.private.engines.engine import Engine
from tallytree.private.measurer import Measurer
from tallytree.private.tabulate.records import LeafKey
from tallytree.private.tabulate.true_sizes import TrueSizes
from tallytree.release import Release
from tallytree.release.statement import privacy_statement
from tallytree.sizes import SizesDomain, SizesMechanism
from tallytree.sizes.private_maximum import PrivateMaximum, margin
from tallytree.terms import Invariants, Terms


@dataclass(frozen=True, eq=False, repr=False)
class GroupSizesJob:
    """A planned release of group sizes.

    Attributes:
        records: the private table: entity rows, or (leaf, size, groups) rows.
        key: the records' path columns and their hierarchy.
        group: the column that names an entity's group; None for (leaf, size, groups) rows.
        quantity: for entity rows, the column with what each adds to its group's size; None: 1.
        max_quantity: quantities are cut to this.
        size: the column with a group's size; None for entity rows.
        groups: the column with the number of groups of that size; None for entity rows.
        public_groups: for entity rows, the public table of groups per leaf; None where it is private.
        invariants: which numbers of groups are public.
        smallest: sizes are raised to this; at least 1 where the numbers of groups are private.
        largest: K, sizes are cut to this; where K is private, what it is at most.
        private_maximum: how K is measured, where it is private.
        mechanism: turns measurements into group sizes.
        plan: the noise of every measured level.
        terms: the shared arguments.
        engine: where records are tabulated.
        progress: whether to show progress.
        account: where the release is recorded, if it is.
        caution: a sentence that the statement must carry about the mechanism, if there is one.
        listed: the public number of groups of every leaf, where planning has read the table (it may be read once only).
    """

    records: Any
    key: LeafKey
    group: str | None
    quantity: str | None
    max_quantity: int
    size: str | None
    groups: str | None
    public_groups: Any
    invariants: Invariants
    smallest: int
    largest: int
    private_maximum: PrivateMaximum | None
    mechanism: SizesMechanism
    plan: NoisePlan
    terms: Terms
    engine: Engine
    progress: bool
    account: Account | None = None
    caution: str | None = None
    listed: IntArray | None = None

    def __repr__(self) -> str:
        """What would be measured; nothing of the records."""
        return f"GroupSizesJob({self.hierarchy!r}, measuring {', '.join(self.plan.levels)})"

    @property
    def hierarchy(self) -> Hierarchy:
        """The public tree."""
        return self.key.hierarchy

    def check(self) -> None:
        """Check the ledger's room and the records' schema, reading no private row; the public groups are read whole."""
        check_room(self.account)
        if self.group is not None:
            self.engine.check_group_sizes(
                self.records, self.key, group=self.group, quantity=self.quantity, argument="records"
            )
            if self.public_groups is not None:
                self._groups_listed()
        else:
            self.engine.check_group_rows(
                self.records, self.key, size=str(self.size), groups=str(self.groups), argument="records"
            )

    def run(self) -> Release:
        """Tabulate, measure, reconcile; the budget is spent here."""
        spec: dict[str, Any] = {
            "statistic": "group_sizes",
            "tree": repr(self.hierarchy),
            "columns": list(self.key.columns),
            "group": self.group,
            "quantity": self.quantity,
            "max_quantity": self.max_quantity,
            "size": self.size,
            "groups": self.groups,
            "invariants": self.invariants,
            "min_group_size": self.smallest,
            "max_group_size": self._max_group_size(),
        }
        statement = self.statement()
        wanted = self.mechanism.statistics(self.hierarchy, invariants=self.invariants)
        quantity = effective_quantity(self.max_quantity, self.smallest, self.largest)
        private = self.private_maximum is not None
        check_plan(self.plan, wanted, self.terms, self.hierarchy, max_quantity=quantity, private_maximum=private)
        asked = canonical(spec, statement)
        check_room(self.account)
        leaves, sizes, groups = self._tabulate()
        if int(groups.sum()) > MAX_GROUPS:
            raise ValueError("records: they hold more than 2^50 groups, beyond which sums are not exact; use fewer")
        groups_per_leaf = np.zeros(self.hierarchy.n_leaves, dtype=np.int64)
        np.add.at(groups_per_leaf, leaves, groups)
        # From here on the domain knows what is public of these, and nothing else.
        domain = SizesDomain.from_leaves(self.hierarchy, groups_per_leaf, self.smallest, self.largest, self.invariants)
        _refuse_long_lists(domain, wanted)
        true = TrueSizes(self.hierarchy, leaves, sizes, groups, domain.groups, self.smallest, self.largest)
        with level_progress(self.progress, self.plan.levels) as on_measure:
            source = paid_noise(self.account, self.plan, self.terms, asked, true.digest())
            domain, true, largest = within_measured_maximum(domain, true, self.plan, source)
            measurer = Measurer(true, self.plan, source, on_measure)
            levels = self.mechanism.reconcile(domain, measurer)
        tables = size_tables(self.hierarchy, levels)
        statement |= about_tables(domain, levels)
        if largest:
            statement["maximum"] |= largest
        spec |= {"records": table_name(self.records), "public_groups": table_name(self.public_groups)}
        measurements = measurement_tables(self.hierarchy, measurer.taken, "values")
        return Release(statement, spec, tables, measurements, self.hierarchy)

    def finish(self) -> None:
        """Note in the ledger that the release was handed over, or saved."""
        if self.account is not None:
            self.account.finish()

    def statement(self) -> dict[str, Any]:
        """The privacy statement; it follows from the plan alone, so it is known before anything is spent."""
        invariants = ["the hierarchy", *self._public_numbers()]
        if self.smallest > (0 if self.invariants == "groups" else 1):
            invariants.append(f"no group has fewer than {self.smallest} members (smaller ones are set to that)")
        statement = privacy_statement(
            statistic="group_sizes",
            levels=nodes_per_level(self.hierarchy),
            plan=self.plan,
            terms=self.terms,
            mechanism=self.mechanism,
            invariants=invariants,
            notes=self._notes(),
            dataset=dataset(self.account),
            max_quantity=self.max_quantity,
        )
        if self.plan.maximum is not None:
            statement["maximum"] |= {"at_most": self.largest, "margin": margin(self.plan.maximum.noise)}
        return statement

    def _tabulate(self) -> tuple[IntArray, IntArray, IntArray]:
        """Leaf, size and number of groups of every (leaf, size) that has groups."""
        private = self.invariants != "groups"
        smallest = 0 if private else self.smallest
        if self.group is None:
            true = self.engine.group_rows(
                self.records,
                self.key,
                size=str(self.size),
                groups=str(self.groups),
                smallest=smallest,
                largest=self.largest,
                on_unknown=self.terms.on_unknown,
                argument="records",
            )
        else:
            true = self.engine.group_sizes(
                self.records,
                self.key,
                group=self.group,
                quantity=self.quantity,
                max_quantity=self.max_quantity,
                smallest=smallest,
                largest=self.largest,
                on_unknown=self.terms.on_unknown,
                argument="records",
            )
        if private:  # groups without members are not counted
            kept = true.sizes > 0
            return true.leaves[kept], np.maximum(true.sizes[kept], self.smallest), true.groups[kept]
        if self.group is None:
            return true.leaves, true.sizes, true.groups
        return self._with_empty_groups(true.leaves, true.sizes, true.groups)

    def _groups_listed(self) -> IntArray:
        """The public number of groups of every leaf, int64 (n_leaves,)."""
        if self.listed is not None:
            return self.listed.copy()
        return groups_of_leaves(self.public_groups, self.hierarchy, self.engine)

    def _with_empty_groups(
        self, leaves: IntArray, sizes: IntArray, groups: IntArray
    ) -> tuple[IntArray, IntArray, IntArray]:
        """The groups of the records, and those that only the public table knows."""
        empty = self._groups_listed()
        np.subtract.at(empty, leaves, groups)
        if (empty < 0).any():
            leaf = self.hierarchy.leaf_table().slice(int(np.argmax(empty < 0)), 1).to_pylist()[0]
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

    def _max_group_size(self) -> int | dict[str, int | float]:
        """As a spec gives it."""
        if self.private_maximum is None:
            return self.largest
        return {"share": float(self.private_maximum.share), "at_most": self.largest}

    def _public_numbers(self) -> list[str]:
        if self.invariants == "groups":
            return ["the number of groups in every leaf (that a group exists, and where)"]
        return [f"the total number of {self._counted().lower()}"] if self.invariants == "total" else []

    def _counted(self) -> str:
        """Which groups are counted where their numbers are private."""
        of = "members" if self.quantity is None else f"a sum of {self.quantity!r} of at least 1"
        inside = " inside the hierarchy" if self.terms.on_unknown == "drop" else ""
        return f"Groups with {of}{inside}"

    def _notes(self) -> list[str]:
        notes = [] if self.caution is None else [self.caution]
        if self.quantity is not None:
            notes.append(
                f"The size of a group is the sum of its records' column {self.quantity!r}, each cut to "
                f"{self.max_quantity}."
            )
        notes.append(f"Sizes are clamped into [{self.smallest}, {self.largest}] before they are measured.")
        if self.plan.maximum is not None:
            notes.append(
                "The largest size is measured before anything else. K, which is published as maximum.max_group_size, "
                f"is that noisy value plus {margin(self.plan.maximum.noise)} (five standard deviations of its noise), "
                f"but at least {self.smallest + 1} and at most {self.largest}; then larger groups are set to K."
            )
        largest = self.largest if self.plan.maximum is None else "K"
        notes.append(_CELLS[self.invariants].format(smallest=self.smallest, next=self.smallest + 1, K=largest))
        if self.group is None and self.max_quantity > 1:
            notes.append(f"That no record adds more than {self.max_quantity} to a size is assumed, not enforced.")
        if self.invariants != "groups":
            notes.append(f"{self._counted()} are counted, so sizes begin with {self.smallest}.")
        if self.invariants == "total":
            notes.append(
                f"The number of {self._counted().lower()} is published exactly, so neighbouring data sets have the "
                "same: that a person's coming, going or change adds or ends such a group is not protected where that "
                "number shows it."
            )
        if self.invariants == "groups" and self.smallest == 1:
            notes.append(
                "It is published that every group has a member, so the presence of a group's only member is not "
                "protected."
            )
        return notes


def _refuse_long_lists(domain: SizesDomain, statistics: Mapping[str, Statistic]) -> None:
    """Refuse sorted sizes that no list of a table can hold, while nothing is spent; their numbers are public."""
    for level, groups in zip(domain.hierarchy.levels, domain.groups, strict=True):
        if statistics.get(level) == "sorted_sizes" and groups is not None and groups.max() >= MAX_LIST:
            raise ValueError(
                f"mechanism: the sorted sizes of a node at {level!r} are {groups.max()} cells, and a measurement has "
                f'fewer than 2^31 a node; use the estimator "cumulative" at this level'
            )


def groups_of_leaves(public_groups: Any, hierarchy: Hierarchy, engine: Engine) -> IntArray:
    """The public number of groups of every leaf, int64 (n_leaves,); a leaf that is not listed has none."""
    key = LeafKey(hierarchy, hierarchy.columns)
    listed = engine.count_records(public_groups, (key,), count="groups", on_unknown="error", argument="public_groups")
    groups = np.zeros(hierarchy.n_leaves, dtype=np.int64)
    groups[listed.parts[0]] = listed.counts
    return groups


MAX_LIST = 2**31
"""Arrow addresses the cells of a list column with 32 bits."""

MAX_GROUPS = 2**50
"""Beyond about 2^53 a float does not hold every whole number."""

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
