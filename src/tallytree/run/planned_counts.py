"""A planned release of counts, or of flows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from tallytree.accounting import StabilityPlan
from tallytree.counts import CountsMechanism
from tallytree.counts.mechanism import GoesDown, MeasuresInPlace
from tallytree.counts.prior_fit import PriorOfCounts
from tallytree.counts.released_counts import count_negative, count_violations
from tallytree.hierarchy import Hierarchy, nodes_per_level
from tallytree.kinds.foreign import is_foreign
from tallytree.kinds.measurements import Measures
from tallytree.private import CountRecords, CountsInFiles, Measurer, NoiseSource, TrueCounts, as_it_is
from tallytree.product import Product
from tallytree.release.counted_unit import ONCE_IN_A_LEAF
from tallytree.release.released_tables import count_tables
from tallytree.release.remainders import NOTE
from tallytree.release.statement import TOTAL_IS_PUBLIC, privacy_statement
from tallytree.run import rehearsal
from tallytree.run.arguments import CountsArguments
from tallytree.run.checked_results import about_foreign_counts, counts_by
from tallytree.run.counted_records import counted_records, refuse_more_than, request_for
from tallytree.run.counts_in_bands import Bands, CountsMeasuring, reconcile_in_bands
from tallytree.run.people import (
    CountedPeople,
    PublishedContributions,
    contributions_spec,
    true_contributions,
    with_contributions,
)
from tallytree.run.planned import PLANNED_SOFTWARE, Planned, Reconciled
from tallytree.run.workspace import Workspace, not_taken
from tallytree.trees.impossible import Impossible, stated
from tallytree.trees.leaf_keys import LeafKey, leaf_keys

_UNUSED_TOTAL = (
    "The number of records is neither used nor published exactly, but it is not protected either: what is protected is "
    "the content of a record, and replacing one leaves their number as it is."
)

_LEFT_OUT = (
    "Noise was added to cells with records only, and noisy counts below {} at the level {!r} were left out, as were "
    "cells without records. All counts, sums above all, are too small by what was left out."
)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PlannedCounts(Planned[TrueCounts | CountsInFiles, CountsMechanism]):
    """A planned release of counts.

    Attributes:
        arguments: what was given; of flows, as counts on the product of the two hierarchies.
        tree: the public tree.
        argument: the name of the records in messages.
    """

    arguments: CountsArguments
    tree: Hierarchy | Product
    argument: Literal["records", "trips"]

    releases = ("counts", "flows")

    @property
    def keys(self) -> tuple[LeafKey, ...]:
        """The records' columns for each hierarchy of the tree."""
        return leaf_keys(self.tree, self.arguments.leaf, self.arguments.on_unknown)

    @property
    def request(self) -> CountRecords:
        """See `Planned.request`."""
        whose = {"person": self.arguments.person, "impossible": self._impossible}
        return request_for(self.arguments, self.keys, self.argument, **whose)

    @property
    def _impossible(self) -> tuple[Impossible, ...]:
        """Combinations of leaves that no record can have."""
        return self.tree.impossible if isinstance(self.tree, Product) else ()

    def own_spec(self) -> dict[str, Any]:
        """See `Planned.own_spec`."""
        return {
            "statistic": self.statistic,
            "tree": repr(self.tree),
            "columns": [list(key.columns) for key in self.keys],
            **self.leaf_spec,
            "count": self.arguments.count,
            "person": self.arguments.person,
            "distinct": self.arguments.distinct,
            **contributions_spec(self.arguments),
            **self.arguments.period_spec,
        }

    def own_statement(self) -> dict[str, Any]:
        """See `Planned.own_statement`."""
        invariants = ["the hierarchy", *stated(self._impossible)]
        if self._total_is_published:
            invariants.append(TOTAL_IS_PUBLIC)
        notes = [each for each in (self.mechanism.caution,) if each is not None]
        if self.arguments.unlisted == "remainder":
            notes.append(NOTE)
        if self.arguments.total_is_public and not self._total_is_published:
            notes.append(_UNUSED_TOTAL)
        if isinstance(self.plan, StabilityPlan):
            notes.append(_LEFT_OUT.format(self.plan.stable.threshold, self.plan.stable.level))
        if self.arguments.count is not None:
            notes.append(f"Each row stands for as many records as its column {self.arguments.count!r} says.")
        if self.arguments.distinct:
            notes.append(ONCE_IN_A_LEAF)
        statement = privacy_statement(
            statistic=self.statistic,
            levels=nodes_per_level(self.tree),
            plan=self.plan,
            terms=self.arguments,
            mechanism=self.mechanism,
            invariants=invariants,
            notes=notes,
            tabulated_by=PLANNED_SOFTWARE,
            dataset=self.dataset,
        )
        return with_contributions(statement, self.arguments)

    def made_up(self, records: int) -> tuple[PlannedCounts, TrueCounts]:
        """See `Planned.made_up`."""
        tree = rehearsal.cut_tree(self.tree)
        numbers = rehearsal.leaf_numbers(tree.size(len(tree.levels) - 1), records)
        return replace(self, tree=tree), TrueCounts(tree, *numbers, distinct=self.arguments.distinct)

    @property
    def prior_arguments(self) -> dict[str, Any]:
        """What `CountsMechanism.reconcile_and_tell` takes of the prior, by argument; nothing without one."""
        if self.prior is None:
            return {}
        tables: Mapping[Any, Any] = self.prior.tables
        levels = {depth: (nodes, tables[depth, 1]) for (depth, of), nodes in tables.items() if of == 0}
        absent = {
            depth: [tables[key].astype(bool) for key in sorted(tables) if key[0] == depth and key[1] > 1]
            for depth in levels
        }
        return {"prior": PriorOfCounts(levels, absent, self.prior.errors, self.prior.revised)}

    def tabulate(
        self, work: Workspace | None = None, people: CountedPeople | None = None
    ) -> TrueCounts | CountsInFiles:
        """See `Planned.tabulate`."""
        given, people = self.arguments, people or self.counted_people
        if work is not None and isinstance(self.mechanism, GoesDown):
            work.place.check(self.mechanism)
        leaves = counted_records(self.engine, given, self.keys, self.argument, people, self._impossible)
        refuse_more_than(self.mechanism, int(leaves.counts.sum()), self.argument, "records")
        counted = true_contributions(leaves, self.tree, people)
        if work is not None:
            return CountsInFiles(
                self.tree, leaves, work.private, distinct=given.distinct, contributions=counted, rows=work.rows
            )
        nodes = self.tree.leaf_numbers(leaves.parts) if isinstance(self.tree, Product) else leaves.parts[0]
        return TrueCounts(self.tree, nodes, leaves.counts, distinct=given.distinct, contributions=counted)

    def fit(
        self,
        true: TrueCounts | CountsInFiles,
        source: NoiseSource,
        on_measure: Callable[[str], None],
        work: Workspace | None,
        people: PublishedContributions,
    ) -> Reconciled:
        """See `Planned.fit`."""
        given = self.arguments
        if isinstance(true, CountsInFiles):
            if work is None:
                raise ValueError("work: true counts in files need the folders of their run")
            bands = Bands(
                self.tree, true, CountsMeasuring(self.plan, source, on_measure, self.measures), work.place, work.rows
            )
            made = self._in_bands(bands, work, people.facts)
            return replace(made, beside=people.facts, contributions=people.table)
        total = true.total if self._total_is_published else None
        measurer = Measurer(true, self.plan, source, on_measure, None if given.keep_measurements else not_taken)
        if is_foreign(self.mechanism):  # what it would tell could take the place of what the statement says
            levels = counts_by(self.mechanism, self.tree, total, self.measures(measurer))
            told: Mapping[str, Any] = about_foreign_counts(levels, total)
        else:
            levels, told = self.mechanism.reconcile_and_tell(
                self.tree, total, self.measures(measurer), **self.prior_arguments
            )
        about = {
            "constraint_violations": count_violations(self.tree, levels),
            "negative_numbers": count_negative(levels),
            **told,
        }
        return Reconciled(count_tables(self.tree, levels), measurer.taken, about, people.facts, people.table)

    def _in_bands(self, bands: Bands, work: Workspace, facts: Mapping[str, Mapping[str, Any]]) -> Reconciled:
        """Measure and reconcile in bands; the files of the tables say what the statement will say of them."""
        return reconcile_in_bands(
            self.mechanism,
            bands,
            work,
            bands.true.total if self._total_is_published else None,
            keep_measurements=self.arguments.keep_measurements,
            metadata=self.said_of_tables(facts),
        )

    @property
    def measures(self) -> Callable[[Measures], Measures]:
        """From the measurer to what the mechanism measures with: it is asked for the statistics that were planned."""
        return partial(MeasuresInPlace, leaf_level=self.tree.levels[-1]) if self.arguments.distinct else as_it_is

    @property
    def _total_is_published(self) -> bool:
        """Whether the number of records is published exactly: it is public, and the mechanism keeps it."""
        return self.arguments.total_is_public and self.mechanism.keeps_total
