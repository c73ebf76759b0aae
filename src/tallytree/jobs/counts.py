"""A planned release of counts, or of flows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tallytree.counts import CountsMechanism, LevelCounts
from tallytree.engines.engine import Engine
from tallytree.hierarchy import Hierarchy, level_sizes
from tallytree.jobs.common import canonical, check_plan, check_room, dataset, measurement_tables, paid_noise, table_name
from tallytree.measure import Measurer
from tallytree.privacy.accounting import NoisePlan
from tallytree.privacy.ledger import Account
from tallytree.product import Product
from tallytree.progress import level_progress
from tallytree.release import NodeTable, Release
from tallytree.statement import TOTAL_IS_PUBLIC, privacy_statement
from tallytree.tabulate.levels import CountLevels
from tallytree.tabulate.records import LeafKey
from tallytree.terms import Terms


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
    plan: NoisePlan
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
        self.engine.check_counts(self.records, self.keys, count=self.count, argument=self.argument)

    def run(self) -> Release:
        """Tabulate, measure, reconcile; the budget is spent here."""
        spec: dict[str, Any] = {
            "statistic": self.statistic,
            "tree": repr(self.tree),
            "columns": [list(key.columns) for key in self.keys],
            "count": self.count,
        }
        statement = self.statement()
        wanted = self.mechanism.statistics(self.tree, total_is_public=self.terms.total_is_public)
        check_plan(self.plan, wanted, self.terms, self.tree)
        asked = canonical(spec, statement)
        check_room(self.account)
        true = self._tabulate()
        total = true.total if self.terms.total_is_public else None
        with level_progress(self.progress, self.plan.levels) as on_measure:
            source = paid_noise(self.account, self.plan, self.terms, asked, true.digest())
            measurer = Measurer(true, self.plan, source, on_measure)
            levels = self.mechanism.release_counts(self.tree, total, measurer)
        tables = {
            level: NodeTable(self.tree, depth, released.nodes, _columns(released))
            for depth, (level, released) in enumerate(zip(self.tree.levels, levels, strict=True))
        }
        spec[self.argument] = table_name(self.records)
        return Release(statement, spec, tables, measurement_tables(self.tree, measurer.taken, "value"), self.tree)

    def finish(self) -> None:
        """Note in the ledger that the release was handed over, or saved."""
        if self.account is not None:
            self.account.finish()

    def statement(self) -> dict[str, Any]:
        """The privacy statement; it follows from the plan alone, so it is known before anything is spent."""
        invariants = ["the hierarchy"]
        if self.terms.total_is_public:
            invariants.append(TOTAL_IS_PUBLIC)
        counted = f"Each row stands for as many records as its column {self.count!r} says."
        return privacy_statement(
            statistic=self.statistic,
            levels=level_sizes(self.tree),
            plan=self.plan,
            terms=self.terms,
            mechanism=self.mechanism,
            invariants=invariants,
            notes=[] if self.count is None else [counted],
            dataset=dataset(self.account),
        )

    def _tabulate(self) -> CountLevels:
        true = self.engine.count_records(
            self.records, self.keys, count=self.count, on_unknown=self.terms.on_unknown, argument=self.argument
        )
        leaves = self.tree.leaf_numbers(true.parts) if isinstance(self.tree, Product) else true.parts[0]
        return CountLevels(self.tree, leaves, true.counts)


def _columns(released: LevelCounts) -> pa.Table:
    """The published columns of a level: the standard deviation where the mechanism knows it."""
    known = {} if released.std_dev is None else {"std_dev": released.std_dev}
    return pa.table({"count": released.counts, **known})
