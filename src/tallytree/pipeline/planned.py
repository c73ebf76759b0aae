"""A planned release, and its run: tabulate, record in the ledger, measure, reconcile.

The order of `Planned.run` is what keeps noise safe. The true statistics are complete before the noise key exists, and
the key is bound to a digest of them and to the spec: the same noise never meets different statistics. The ledger
records the release after the statistics are complete, so that refused records spend nothing, and before the noise
source is made.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar

from tallytree.accounting import Plan, StabilityPlan
from tallytree.accounting.sensitivity import largest_size_sensitivity, level_sensitivities
from tallytree.accounting.spending import Loss
from tallytree.errors import BudgetExceeded
from tallytree.hierarchy import Hierarchy, nodes_per_level
from tallytree.ledger import Account
from tallytree.measurements import Measurement, Statistic
from tallytree.pipeline.arguments import SharedArguments
from tallytree.private.engines import Engine
from tallytree.private.noise import entropy
from tallytree.private.noise.noise_source import KeyedNoise, NoiseSource, OpenDPNoise
from tallytree.product import Product
from tallytree.progress import level_progress
from tallytree.release import LevelTable, Release
from tallytree.release.measured_table import measurement_tables
from tallytree.stages import stage
from tallytree.terms import Terms

M = TypeVar("M")


class HasDigest(Protocol):
    """True statistics, complete."""

    def digest(self) -> bytes:
        """A digest of all of them, for the derivation of the noise key; never published."""


T = TypeVar("T", bound=HasDigest)


@dataclass(frozen=True, eq=False)
class Reconciled:
    """What a mechanism made of its measurements.

    Attributes:
        tables: the released tables, root first.
        taken: the noisy measurements, in order.
        about: what the statement says about the tables.
        maximum: what the statement says about the largest size, where it was measured.
    """

    tables: Mapping[str, LevelTable]
    taken: tuple[Measurement, ...]
    about: Mapping[str, Any]
    maximum: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Planned(ABC, Generic[T, M]):
    """A release that is checked and planned: no private row was read, and nothing is spent.

    Planning seals it. A copy with other fields (`dataclasses.replace`) is not sealed and does not run: its noise, its
    statement and its place in the ledger need not be about the same release.

    Attributes:
        mechanism: turns noisy measurements into released tables.
        statistics: what is measured for it at each measured level, root first.
        plan: the noise of every measured level.
        engine: where records are tabulated.
        account: the release's place in a ledger; None without one.
        sealed: whether the fields are those that were planned together.
    """

    mechanism: M
    statistics: Mapping[str, Statistic]
    plan: Plan
    engine: Engine
    account: Account | None
    sealed: bool = field(default=False, init=False)

    measured_column: ClassVar[Literal["value", "values"]]
    """How the noisy measurements of a node are published: one number, or a list of them."""

    def __repr__(self) -> str:
        """What would be measured; nothing of the records."""
        return f"{type(self).__name__}({self.tree!r}, measuring {', '.join(self.plan.levels) or 'nothing'})"

    @property
    @abstractmethod
    def options(self) -> SharedArguments:
        """The options that all releases share."""

    @property
    def terms(self) -> Terms:
        """What is protected, and how the run behaves."""
        return self.options

    @property
    @abstractmethod
    def tree(self) -> Hierarchy | Product:
        """The public tree."""

    @abstractmethod
    def check_records(self) -> None:
        """Check the schema of the records; no private row is read."""

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """What was asked for, JSON-able, without the names of tables."""

    @abstractmethod
    def table_names(self) -> dict[str, str | None]:
        """How the published spec names the tables that were given."""

    @abstractmethod
    def statement(self) -> dict[str, Any]:
        """The privacy statement; it follows from the plan alone, so it is known before anything is spent."""

    @abstractmethod
    def tabulate(self) -> T:
        """The true statistics, from the records."""

    @abstractmethod
    def reconcile(self, true: T, source: NoiseSource, on_measure: Callable[[str], None]) -> Reconciled:
        """Measure the true statistics with noise, and make the released tables of what was measured."""

    def check(self) -> None:
        """Check the ledger's room and the records' schema, reading no private row."""
        self._check_room()
        self.check_records()

    def run(self) -> Release:
        """Tabulate, record, measure, reconcile; the budget is spent here."""
        if not self.sealed:
            raise BudgetExceeded("budget: the release was changed after its noise was planned; plan it anew")
        spec, statement = self.spec(), self.statement()
        asked = canonical(spec, statement)
        with level_progress(self.options.progress, self.plan.levels) as on_measure:
            self._check_room()
            with stage("tabulate", dataset=self.dataset):
                true = self.tabulate()
            with stage("record", dataset=self.dataset):
                source = paid_noise(self.account, self.plan, self.terms, asked, true.digest())
            with stage("reconcile", dataset=self.dataset):
                made = self.reconcile(true, source, on_measure)
        statement |= made.about
        if made.maximum:
            statement["maximum"] |= made.maximum
        measured = measurement_tables(self.tree, made.taken, self.measured_column)
        return Release(statement, spec | self.table_names(), made.tables, measured, self.tree)

    def finish(self) -> None:
        """Note in the ledger that the release was handed over, or saved."""
        if self.account is not None:
            self.account.finish()

    @property
    def dataset(self) -> str | None:
        """The data set's name in the ledger, if the release is recorded in one."""
        return None if self.account is None else self.account.posting.dataset

    @abstractmethod
    def check_plan(self) -> None:
        """Refuse a noise plan that is not about the other fields; see `check_noise_plan`."""

    def seal(self) -> Self:
        """Check the noise plan once more, against the fields, and seal the release.

        Raises:
            BudgetExceeded: the noise is planned for another sensitivity.
        """
        self.check_plan()
        object.__setattr__(self, "sealed", True)
        return self

    def _check_room(self) -> None:
        """Refuse what the ledger would not take, before a private row is read."""
        if self.account is not None:
            self.account.check()


def canonical(spec: Mapping[str, Any], statement: Mapping[str, Any]) -> str:
    """All that was asked for and how it is measured, as one text; fails before anything is spent if it cannot be."""
    return json.dumps([spec, statement], sort_keys=True, ensure_ascii=False, allow_nan=False)


def check_noise_plan(planned: Planned[Any, Any], *, max_quantity: int = 1, private_maximum: bool = False) -> None:
    """Refuse a noise plan whose statistics or sensitivities are not those of the other fields of a planned release.

    Raises:
        BudgetExceeded: a level's statistic or sensitivity is another than the other fields say, or that of the largest
            size is; or it is to be measured although it is public, or the other way round.
    """
    plan, terms, tree = planned.plan, planned.terms, planned.tree
    relation, m = terms.relation, terms.max_contributions
    found = {level: (each.statistic, each.sensitivity) for level, each in plan.levels.items()}
    nodes = nodes_per_level(tree)
    needed = level_sensitivities(planned.statistics, relation, m, max_quantity=max_quantity, nodes=nodes)
    maximum = None
    if plan.maximum is not None:
        maximum = (plan.maximum.level, plan.maximum.statistic, plan.maximum.sensitivity)
    wanted = None
    if private_maximum:
        bound = largest_size_sensitivity(relation, m, max_quantity=max_quantity)
        wanted = (tree.levels[0], "largest_size", bound)
    lost = plan.stable.most_lost if isinstance(plan, StabilityPlan) else m
    if (found, maximum, lost) != (needed, wanted, m):
        raise BudgetExceeded("budget: the noise is planned for another release; plan it anew")


def paid_noise(account: Account | None, plan: Plan, terms: Terms, asked: str, digest: bytes) -> NoiseSource:
    """Record the release, then make the noise source. No key exists before the ledger has the release on disk."""
    if account is not None:
        posting = account.posting
        planned = (posting.loss, posting.neighboring, posting.max_contributions, None)
        if planned != (Loss.of(plan), terms.relation, terms.max_contributions, terms.seed):
            raise BudgetExceeded(
                "ledger: the release was changed after its place in the ledger was planned; plan it anew"
            )
        account.record()
    if terms.noise == "opendp":
        return OpenDPNoise()
    return KeyedNoise(entropy.derive(release_key(terms), "noise", digest.hex(), asked))


def release_key(terms: Terms) -> bytes:
    """A secret key for one run: fresh from the operating system, or of the seed."""
    return entropy.fresh_key() if terms.seed is None else entropy.key_from_seed(terms.seed)


def table_name(table: Any) -> str | None:
    """How a spec names a table: a file without the publisher's folders, anything in memory by its type."""
    if table is None:
        return None
    return Path(table).name if isinstance(table, str | os.PathLike) else f"<{type(table).__name__}>"
