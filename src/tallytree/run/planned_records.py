"""A planned release of records that a tree counts: what counts, tables and group sizes have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

from tallytree.errors import BudgetExceeded
from tallytree.kinds.contributions import Contributions
from tallytree.kinds.foreign import check_foreign
from tallytree.kinds.measurements import Statistic
from tallytree.private import CountGroups, CountRecords, GroupRows, NoiseSource, TrueContributions
from tallytree.release.contributions_table import description
from tallytree.release.described import described_statement
from tallytree.run.arguments import PersonOptions
from tallytree.run.measured_contributions import PublishedContributions, published_contributions
from tallytree.run.person_bound import beside_the_levels
from tallytree.run.planned import CHANGED, HasDigest, Planned, Reconciled, with_facts
from tallytree.run.rehearsal import rehearse
from tallytree.run.workspace import Workspace


class CountsPeople(HasDigest, Protocol):
    """True statistics, with people by their number of records where these are measured too."""

    @property
    def contributions(self) -> TrueContributions | None:
        """People by their number of records."""


T = TypeVar("T", bound=CountsPeople)
M = TypeVar("M")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PlannedRecords(Planned[T, M]):
    """A planned release whose levels count records; people by their number of records may be measured beside them.

    Attributes:
        arguments: what was given.
    """

    arguments: PersonOptions

    @property
    def cells_per_node(self) -> int:
        """How many cells are measured at a node."""
        return 1

    @property
    @abstractmethod
    def request(self) -> CountRecords | CountGroups | GroupRows:
        """What an engine is asked to check, or to count of all records: without a contribution bound."""

    @property
    def leaf_spec(self) -> dict[str, Any]:
        """What the published spec says of the column with the leaf's code; nothing where records have the path."""
        leaf = self.arguments.leaf
        return {} if leaf is None else {"leaf": dict(leaf) if isinstance(leaf, Mapping) else leaf}

    @property
    def beside(self) -> Sequence[Statistic]:
        """See `Planned.beside`."""
        return beside_the_levels(self.arguments)

    def check_plan(self) -> None:
        """See `Planned.check_plan`: the public tree is the one that is measured, too."""
        if self.public_tree is not getattr(self.tree, "product", self.tree):
            raise BudgetExceeded(CHANGED)
        super().check_plan()

    @abstractmethod
    def tabulate_with(
        self, asked: Contributions | None, work: Workspace | None = None, *, bins_of: int | None = None
    ) -> T:
        """The true statistics, and people by their number of records as they are asked for.

        Args:
            asked: up to how many records people are counted; None where they are not.
            work: where the statistics are kept, if not in memory.
            bins_of: the bound that the bins are those of; by default the release's.
        """

    @abstractmethod
    def reconcile_levels(
        self,
        true: T,
        source: NoiseSource,
        on_measure: Callable[[str], None],
        work: Workspace | None,
        people: PublishedContributions,
    ) -> Reconciled:
        """See `Planned.reconcile`, where people by their number of records are measured already."""

    @abstractmethod
    def made_up(self, records: int) -> tuple[PlannedRecords[T, M], T]:
        """Made-up statistics with records in so many leaves, and the release of them, in a tree that may be smaller."""

    def seal(self) -> Self:
        """See `Planned.seal`.

        Raises:
            BudgetExceeded: the noise is planned for another sensitivity.
            TypeError: a mechanism from outside that can be changed, or has options that cannot be published.
        """
        check_foreign(self.mechanism)
        return super().seal()

    def said_of_tables(self, facts: Mapping[str, Mapping[str, Any]]) -> dict[bytes, bytes]:
        """What files of tables say that are written before the statement is whole: what `Release.save` writes later."""
        return description(described_statement(with_facts(self.statement, facts), self.arguments.description))

    def rehearse(self) -> None:
        """See `Planned.rehearse` and `rehearsal.py`."""
        rehearse(self.mechanism, self.made_up)

    def tabulate(self, work: Workspace | None = None) -> T:
        """See `Planned.tabulate`."""
        return self.tabulate_with(self.arguments.asked_contributions, work)

    def reconcile(
        self, true: T, source: NoiseSource, on_measure: Callable[[str], None], work: Workspace | None = None
    ) -> Reconciled:
        """See `Planned.reconcile`."""
        asked = self.arguments.asked_contributions
        people = published_contributions(true.contributions, asked, self.plan, source, self.arguments, self.statistic)
        return self.reconcile_levels(true, source, on_measure, work, people)


AnyRecords = PlannedRecords[Any, Any]
