"""A planned release of counts, or of flows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tallytree.accounting import Plan, StabilityPlan
from tallytree.counts import CountsMechanism, ReleasedCounts
from tallytree.counts.mechanism import MeasuresInPlace, in_place_of_counts
from tallytree.counts.released_counts import count_negative, count_violations
from tallytree.hierarchy import Hierarchy, nodes_per_level
from tallytree.ledger import Account
from tallytree.measurements import Measures
from tallytree.pipeline.common import (
    canonical,
    check_plan,
    check_room,
    dataset,
    measurement_tables,
    paid_noise,
    table_name,
)
from tallytree.pipeline.progress import level_progress
from tallytree.private.engines.engine import Engine
from tallytree.private.measurer import Measurer
from tallytree.private.noise import entropy
from tallytree.private.tabulate.contribution_bound import ContributionBound
from tallytree.private.tabulate.records import LeafKey
from tallytree.private.tabulate.true_counts import TrueCounts
from tallytree.product import Product
from tallytree.release import NodeTable, Release
from tallytree.release.statement import TOTAL_IS_PUBLIC, privacy_statement
from tallytree.terms import Terms

_UNUSED_TOTAL = (
    "The number of records is neither used nor published exactly, but it is not protected either: what is protected is "
    "the content of a record, and replacing one leaves their number as it is."
)

MAX_RECORDS = 2**58
"""A family's noisy counts and its total are added up to 2^60 at most; what is drawn at a level stays below the rest."""

_LEFT_OUT = (
    "Noise was added to cells with records only, and noisy counts below {} at the level {!r} were left out, as were "
    "cells without records. All counts, sums above all, are too small by what was left out."
)


@dataclass(frozen=True, eq=False, repr=False)
class CountsJob:
    """A planned release of counts.

    Attributes:
        records: the private table.
        tree: a `Hierarchy` or a `Product`.
        keys: the records' columns for each hierarchy of the tree.
        count: the column with the number of records per row, or None where each row is one.
        mechanism: turns measurements into counts.
        plan: the noise of every measured level.
        terms: the shared arguments.
        engine: where records are tabulated.
        argument: the name of `records` in messages.
        statistic: `"counts"` or `"flows"`.
        progress: whether to show progress.
        account: where the release is recorded, if it is.
    """

    records: Any
    tree: Hierarchy | Product
    keys: tuple[LeafKey, ...]
    count: str | None
    mechanism: CountsMechanism
    plan: Plan
    terms: Terms
    engine: Engine
    argument: str
    statistic: str
    progress: bool
    account: Account | None = None

    def __repr__(self) -> str:
        """What would be measured; nothing of the records."""
        return f"CountsJob({self.tree!r}, measuring {', '.join(self.plan.levels) or 'nothing'})"

    def check(self) -> None:
        """Check the records' schema, reading no row, and that the ledger has room."""
        check_room(self.account)
        self.engine.check_counts(
            self.records, self.keys, count=self.count, argument=self.argument, person=self.terms.person
        )

    def run(self) -> Release:
        """Tabulate, measure, reconcile; the budget is spent here."""
        spec: dict[str, Any] = {
            "statistic": self.statistic,
            "tree": repr(self.tree),
            "columns": [list(key.columns) for key in self.keys],
            "count": self.count,
            "person": self.terms.person,
            "distinct": self.terms.distinct,
        }
        statement = self.statement()
        asked_for = self.mechanism.statistics(self.tree, total_is_public=self.terms.total_is_public)
        wanted = in_place_of_counts(asked_for, self.tree, distinct=self.terms.distinct)
        check_plan(self.plan, wanted, self.terms, self.tree)
        asked = canonical(spec, statement)
        check_room(self.account)
        true = self._tabulate()
        total = true.total if self._total_is_published else None
        with level_progress(self.progress, self.plan.levels) as on_measure:
            source = paid_noise(self.account, self.plan, self.terms, asked, true.digest())
            measurer = Measurer(true, self.plan, source, on_measure)
            levels = self.mechanism.reconcile(self.tree, total, self.door(measurer))
        tables = {
            level: NodeTable(self.tree, depth, released.nodes, _columns(released))
            for depth, (level, released) in enumerate(zip(self.tree.levels, levels, strict=True))
        }
        statement |= {
            "constraint_violations": count_violations(self.tree, levels),
            "negative_numbers": count_negative(levels),
        }
        spec[self.argument] = table_name(self.records)
        return Release(statement, spec, tables, measurement_tables(self.tree, measurer.taken, "value"), self.tree)

    def door(self, measurer: Measures) -> Measures:
        """What the mechanism is handed: the measurer, asked for the statistics that were planned."""
        return MeasuresInPlace(measurer, self.tree.levels[-1]) if self.terms.distinct else measurer

    def finish(self) -> None:
        """Note in the ledger that the release was handed over, or saved."""
        if self.account is not None:
            self.account.finish()

    def statement(self) -> dict[str, Any]:
        """The privacy statement; it follows from the plan alone, so it is known before anything is spent."""
        invariants = ["the hierarchy"]
        if self._total_is_published:
            invariants.append(TOTAL_IS_PUBLIC)
        notes = [each for each in (self.mechanism.caution,) if each is not None]
        if self.terms.total_is_public and not self._total_is_published:
            notes.append(_UNUSED_TOTAL)
        if isinstance(self.plan, StabilityPlan):
            notes.append(_LEFT_OUT.format(self.plan.stable.threshold, self.plan.stable.level))
        if self.count is not None:
            notes.append(f"Each row stands for as many records as its column {self.count!r} says.")
        if self.terms.distinct:
            notes.append("Every person counts at most once in a leaf.")
        return privacy_statement(
            statistic=self.statistic,
            levels=nodes_per_level(self.tree),
            plan=self.plan,
            terms=self.terms,
            mechanism=self.mechanism,
            invariants=invariants,
            notes=notes,
            dataset=dataset(self.account),
        )

    @property
    def _total_is_published(self) -> bool:
        """Whether the number of records is published exactly: it is public, and the mechanism keeps it."""
        return self.terms.total_is_public and self.mechanism.keeps_total

    def _tabulate(self) -> TrueCounts:
        true = self.engine.count_records(
            self.records,
            self.keys,
            count=self.count,
            on_unknown=self.terms.on_unknown,
            argument=self.argument,
            bound=self._bound(),
        )
        leaves = self.tree.leaf_numbers(true.parts) if isinstance(self.tree, Product) else true.parts[0]
        levels = TrueCounts(self.tree, leaves, true.counts, distinct=self.terms.distinct)
        if levels.total > MAX_RECORDS:  # before the ledger has the release: mechanisms would fail once it is paid for
            raise ValueError(f"{self.argument}: counts add up to more than 2^58; use a coarser unit")
        return levels

    def _bound(self) -> ContributionBound | None:
        """What counts of one person, chosen by a key of its own: the noise key must not exist before the statistics."""
        terms = self.terms
        if terms.person is None:
            return None
        secret = entropy.fresh_key() if terms.seed is None else entropy.key_from_seed(terms.seed)
        key = entropy.derive(secret, "records that count")
        return ContributionBound(terms.person, terms.max_contributions, key, distinct=terms.distinct)


def _columns(released: ReleasedCounts) -> pa.Table:
    """The published columns of a level: the standard deviation where the mechanism knows it."""
    known = {} if released.std_dev is None else {"std_dev": released.std_dev}
    return pa.table({"count": released.counts, **known})
