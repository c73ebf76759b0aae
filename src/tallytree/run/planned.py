"""A planned release: what is measured with which noise, and the functions of its kind that tabulate, measure and fit.

It is data: planning reads no private row and spends nothing. `order.make_release` runs it. A kind of release (counts,
tables, group sizes, households, people by their records) is a class of `Planned` with its own functions.
"""

from __future__ import annotations

import copy
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from tallytree.accounting import LevelPlan, NoisePlan, Plan, StabilityPlan
from tallytree.accounting.scales import next_float, representable
from tallytree.accounting.sensitivity import Sensitivity, level_sensitivities, sensitivity
from tallytree.accounting.spending import Posting
from tallytree.engines import Engine, Local
from tallytree.errors import BudgetExceeded
from tallytree.hierarchy import Hierarchy, Levels, nodes_per_level
from tallytree.kinds.foreign import check_foreign
from tallytree.kinds.measurements import Measurement, Statistic
from tallytree.kinds.registry import kind_of
from tallytree.kinds.terms import AUTO, Unit
from tallytree.ledger import Account
from tallytree.private import CountGroups, CountHouseholds, CountRecords, GroupRows, NoiseSource, TrueContributions
from tallytree.product import Product
from tallytree.release import LevelTable, Release
from tallytree.release.contributions_table import description
from tallytree.release.counted_unit import counted_unit
from tallytree.release.detail import DETAIL_NOTE
from tallytree.release.released_tables import measurement_tables
from tallytree.release.risk_statement import risk_statement
from tallytree.release.statement import described_statement
from tallytree.run.options import SharedArguments
from tallytree.run.people import CountedPeople, MeasuredContributions, PublishedContributions, beside_the_levels
from tallytree.run.planning import posting
from tallytree.run.prior import Prior
from tallytree.run.release_keys import plan_digest
from tallytree.run.workspace import Workspace
from tallytree.support.markup import html_table

CHANGED = "budget: the noise is planned for another release; plan it anew"
"""What is said of a release whose noise is not that of its fields."""

PLANNED_SOFTWARE = Local.software
"""The engine's packages in a planned statement, whichever engine tabulates: the noise key is derived from that text."""

LEAST = 1
"""The bound whose bins people are counted in where it is chosen; also the least bound that can be chosen."""

_DEPENDS_ON_THE_BOUND = ("sensitivity", "noise", "spent", "margin")
"""What a statement says of a measurement, and cannot say before the bound is known."""


class HasDigest(Protocol):
    """True statistics, complete."""

    def digest(self) -> bytes:
        """A digest of all of them, for the derivation of the noise key; never published."""


class CountsPeople(HasDigest, Protocol):
    """True statistics, with people by their number of records."""

    @property
    def contributions(self) -> TrueContributions | None:
        """People by their number of records; None where these are not counted."""


T = TypeVar("T", bound=HasDigest)
M = TypeVar("M")


@dataclass(frozen=True, eq=False)
class Reconciled:
    """What a mechanism made of its measurements.

    Attributes:
        tables: the released tables, root first.
        taken: the noisy measurements, in order.
        about: what the statement says about the tables.
        beside: what it says of what was measured beside the levels, by its keys.
        contributions: people by their number of records, where they were counted.
        measured: the noisy measurements as tables by level, where they are in files; `taken` is empty then.
        detail: of tables, the cells that all of them are sums of, where these are published.
    """

    tables: Mapping[str, LevelTable]
    taken: tuple[Measurement, ...]
    about: Mapping[str, Any]
    beside: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    contributions: LevelTable | None = None
    measured: Mapping[str, LevelTable] | None = None
    detail: LevelTable | None = None


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Planned(ABC, Generic[T, M]):
    """A release that is checked and planned: no private row was read, and nothing is spent.

    Planning seals it. A copy with other fields (`dataclasses.replace`) is not sealed and does not run: its noise, its
    statement and its place in the ledger need not be about the same release.

    What it says of itself follows from its fields and is computed once: `spec`, `statement`, `plan_digest`.

    Attributes:
        statistic: what is released, by its name in specs.
        arguments: what was given. Where the contribution bound is chosen, with the largest one that can be.
        tree: the levels that are measured and published, with their nodes.
        public_tree: the public tree, as the release holds it.
        table_names: how the published spec names the tables that were given.
        mechanism: turns noisy measurements into released tables.
        statistics: what is measured for it at each measured level, root first.
        plan: the noise of every measured level. Where the contribution bound is chosen, with the largest one; what it
            spends holds for every bound.
        engine: where records are tabulated.
        account: the release's place in a ledger; None without one.
        bound_is_chosen: whether the contribution bound is chosen when the release is made; see `auto_bound`.
        prior: what the numbers are expected to resemble; None without it.
        sealed_text: the canonical text of `spec` and `statement` when planning sealed it; empty before that.
    """

    statistic: str
    arguments: SharedArguments
    tree: Levels
    public_tree: Hierarchy | Product
    table_names: Mapping[str, Any]
    mechanism: M
    statistics: Mapping[str, Statistic]
    plan: Plan
    engine: Engine
    account: Account | None
    bound_is_chosen: bool = False
    prior: Prior | None = None
    sealed_text: str = field(default="", init=False)

    releases: ClassVar[tuple[str, ...]]
    """The statistics that this kind of plan releases."""

    # --- The functions of a kind ---

    @property
    @abstractmethod
    def request(self) -> CountRecords | CountGroups | GroupRows | CountHouseholds:
        """What an engine is asked to check, or to count of all records: without a contribution bound."""

    @abstractmethod
    def own_spec(self) -> dict[str, Any]:
        """What was asked for, JSON-able, without the names of tables; for a contribution bound that is a number."""

    @abstractmethod
    def own_statement(self) -> dict[str, Any]:
        """The privacy statement; it follows from the plan alone. For a contribution bound that is a number."""

    def require_room(self, work: Workspace) -> None:
        """Raise an `OSError` if the run's files do not fit on the disk, by public facts."""

    @abstractmethod
    def tabulate(self, work: Workspace | None = None, people: CountedPeople | None = None) -> T:
        """The true statistics, from the records, with people by their number of records where these are counted.

        Args:
            work: where the statistics are kept, if not in memory.
            people: how people are counted; by default `counted_people`.
        """

    @abstractmethod
    def fit(
        self,
        true: T,
        source: NoiseSource,
        on_measure: Callable[[str], None],
        work: Workspace | None,
        people: PublishedContributions,
    ) -> Reconciled:
        """Measure the true statistics with noise, and make the released tables of what was measured.

        Args:
            true: what `tabulate` gave.
            source: the noise.
            on_measure: called with a level's name before it is measured.
            work: with a workspace it is done band by band, from and to its files; all numbers are the same.
            people: what is published of people by their number of records, which are measured already.
        """

    def made_up(self, records: int) -> tuple[Planned[T, M], T]:
        """Made-up statistics with records in so many leaves, and the release of them, in a tree that may be smaller.

        Raises:
            TypeError: no mechanism from outside is taken by this kind, so none is tried.
        """
        raise TypeError(f"mechanism: {type(self).__name__} has no made-up statistics")

    @property
    def quantity(self) -> int:
        """The most that one record adds to the size of its group; 1 where records have no quantity."""
        return 1

    @property
    def cells_per_node(self) -> int:
        """How many cells are measured at a node."""
        return 1

    @property
    def beside(self) -> Sequence[Statistic]:
        """What the arguments say is measured beside the levels, in order."""
        return beside_the_levels(self.arguments)

    @property
    def unit(self) -> Unit:
        """What a person has up to `max_contributions` of."""
        return kind_of(self.statistic).unit

    @property
    def counted_people(self) -> CountedPeople | None:
        """How people are counted by their number of records; None where they are not.

        A bound that is chosen is the last number of one of the bins.
        """
        asked = self.arguments.asked_contributions
        if asked is None:
            return None
        return CountedPeople(asked.at_most, LEAST if self.bound_is_chosen else self.arguments.bound)

    def published_people(self, measured: MeasuredContributions) -> PublishedContributions:
        """What is published of noisy numbers of people."""
        return measured.published(self.arguments, self.statistic)

    @property
    def expected_work(self) -> str:
        """What making the numbers takes in time and memory, as a sentence; empty where it is not estimated."""
        return ""

    def as_release(self, statement: Mapping[str, Any], spec: Mapping[str, Any], made: Reconciled) -> Release:
        """The release of what was made."""
        measured = made.measured
        if measured is None:
            taken = made.taken if self.arguments.keep_measurements else ()
            by_size = kind_of(self.statistic).by_size
            measured = measurement_tables(self.tree, taken, "values" if by_size else "value")
        if made.detail is not None:
            statement = {**statement, "notes": [*statement["notes"], DETAIL_NOTE]}
        return Release(statement, spec, made.tables, measured, self.public_tree, made.contributions, made.detail)

    # --- What it says of itself ---

    def __repr__(self) -> str:
        """What would be measured; nothing of the records."""
        return f"{type(self).__name__}({self.tree!r}, measuring {', '.join(self.plan.levels) or 'nothing'})"

    def _repr_html_(self) -> str:
        """What would be measured, as a table for notebooks; nothing of the records."""
        rows = [(level, size, level in self.plan.levels) for level, size in nodes_per_level(self.tree).items()]
        title = f"Planned: {type(self.mechanism).__name__}"
        return html_table(title, ("level", "nodes", "measured"), rows, "No private row was read, nothing was spent.")

    @cached_property
    def spec(self) -> dict[str, Any]:
        """What was asked for, JSON-able, without the names of tables."""
        return self.own_spec() | ({"max_contributions": AUTO} if self.bound_is_chosen else {})

    @cached_property
    def statement(self) -> dict[str, Any]:
        """The privacy statement; it follows from the plan alone, so it is known before anything is spent."""
        own = self.own_statement() | self._prior_facts
        if self.prior is not None:
            own["notes"] = [*own["notes"], self.prior.note]
        return self._whatever_bound_is_chosen(own) if self.bound_is_chosen else own

    @property
    def _prior_facts(self) -> dict[str, Any]:
        """What the statement says of the prior; nothing without one."""
        return {} if self.prior is None else {"prior": self.prior.facts}

    def risk(self) -> dict[str, Any]:
        """The entry `risk` of the statement; none where the noise is drawn from a seed, and nothing is protected."""
        return {} if self.arguments.seed is not None else {"risk": risk_statement(self.plan, self.statement)}

    @property
    def leaf_spec(self) -> dict[str, Any]:
        """What the published spec says of the column with the leaf's code; nothing where records have the path."""
        leaf = self.arguments.leaf
        return {} if leaf is None else {"leaf": dict(leaf) if isinstance(leaf, Mapping) else leaf}

    @property
    def dataset(self) -> str | None:
        """The data set's name in the ledger, if the release is recorded in one."""
        return None if self.account is None else self.account.posting.dataset

    @cached_property
    def plan_digest(self) -> str:
        """The public digest of all that decides the release besides its records and its key; see `release_keys`."""
        return plan_digest(canonical(self.spec, self.statement), self.public_tree)

    @property
    def posting(self) -> Posting:
        """The entry that this release has in a ledger, made of its own fields."""
        return posting(
            self.arguments, self.statistic, self.mechanism, self.plan, unit=self.unit, plan_digest=self.plan_digest,
            parts=self._parts, prior=None if self.prior is None else self.prior.recorded,
        )  # fmt: skip

    @cached_property
    def _parts(self) -> Mapping[str, str]:
        """See `Posting.parts`."""
        spec = {key: given for key, given in self.spec.items() if key != "tree"}
        statement = {key: given for key, given in self.statement.items() if key != "prior"} | {"software": None}
        of_prior = None if self.prior is None else self.prior.note
        statement["notes"] = [note for note in self.statement.get("notes", ()) if note != of_prior]
        statement["levels"] = [{**level, "nodes": None} for level in self.statement.get("levels", ())]
        parts = {
            "the spec": _sha256(canonical(spec, statement)),
            "the public hierarchy": plan_digest("", self.public_tree),
            "the version of the software": _sha256(json.dumps(self.statement["software"], sort_keys=True)),
        }
        if self.prior is not None:
            parts["the prior"] = _sha256(json.dumps(self.prior.facts, sort_keys=True))
        return parts

    def said_of_tables(self, facts: Mapping[str, Mapping[str, Any]]) -> dict[bytes, bytes]:
        """What files of tables say that are written before the statement is whole: what `Release.save` writes later."""
        return description(described_statement(with_facts(self.statement, facts), self.arguments.description))

    # --- A contribution bound that is chosen: see `auto_bound` ---

    @property
    def candidates(self) -> list[int]:
        """The contribution bounds that can be chosen; empty where it is given."""
        people = self.counted_people
        return [last for _, last in people.bins] if self.bound_is_chosen and people is not None else []

    def with_bound(self, bound: int) -> Self:
        """The release with a given contribution bound, and with noise for it from the same shares of the budget.

        It is not sealed, so it cannot be run by itself.

        Args:
            bound: m; at most the largest number of records that people are counted by.

        Raises:
            BudgetExceeded: counts above a threshold, whose noise follows no shares.
        """
        # The check that at_most is above the bound is of bounds that are given: one that is chosen may reach it.
        arguments = copy.copy(self.arguments)
        object.__setattr__(arguments, "max_contributions", bound)
        relation, z, nodes = arguments.relation, self.quantity, nodes_per_level(self.tree)

        def needed(each: LevelPlan) -> Sensitivity:
            return sensitivity(each.statistic, relation, bound, max_quantity=z, nodes=nodes[each.level])

        if not isinstance(self.plan, NoisePlan):
            raise BudgetExceeded("budget: counts above a threshold are not planned for a bound that is chosen")
        grid = next_float if arguments.noise == "opendp" else representable
        plan = self.plan.with_sensitivities(needed, grid)
        changes: dict[str, Any] = {"arguments": arguments, "plan": plan, "bound_is_chosen": False}
        return replace(self, **changes)

    @property
    def note_of_choice(self) -> str:
        """What the statement says of a contribution bound that is chosen."""
        candidates = self.candidates
        return (
            "The bound max_contributions is chosen from the noisy numbers of people by their number of records, among "
            f"{len(candidates)} public numbers up to {candidates[-1]:,}. The guarantee holds whichever is chosen, for "
            "people with any number of records; what is spent is the whole budget."
        )

    def _whatever_bound_is_chosen(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """The statement as far as it holds whatever bound is chosen: no sensitivity or noise of a level."""
        stated = with_facts(own, {})
        unit, candidates = stated["unit_of_protection"], self.candidates
        open_unit = unit.replace(f"at most {candidates[-1]} ", "at most m ") + ", with m chosen from noisy numbers"
        if "maximum" in stated:
            stated["maximum"] = _without_bound(stated["maximum"])
        stated |= {
            "max_contributions": AUTO,
            "unit_of_protection": open_unit,
            "guarantee": stated["guarantee"].replace(unit, open_unit),
            "levels": [_without_bound(level) for level in stated["levels"]],
            "notes": [*stated["notes"], self.note_of_choice],
        }
        stated["contributions"]["chosen_among"] = candidates
        return {**stated, "counted": counted_unit(stated)}

    # --- Is its noise that of its fields? ---

    def seal(self) -> Self:
        """Check the noise plan once more, against the fields, and seal the release.

        Raises:
            BudgetExceeded: the noise is planned for another sensitivity.
            TypeError: a mechanism from outside that can be changed, or has options that cannot be published.
        """
        check_foreign(self.mechanism)
        self.check_plan()
        if self.account is not None:
            self.account.posting = self.posting
        object.__setattr__(self, "sealed_text", canonical(self.spec, self.statement))
        return self

    def check_sealed(self) -> None:
        """Refuse a release that is not sealed, or whose fields, or what was computed of them, were changed since.

        Raises:
            BudgetExceeded: it is.
        """
        if not self.sealed_text or not self._is_as_sealed():
            raise BudgetExceeded("budget: the release was changed after its noise was planned; plan it anew")
        self.check_plan()

    def _is_as_sealed(self) -> bool:
        """Whether what the fields say now, and what was computed of them when it was sealed, is what was sealed."""
        anew = self._anew()
        same = all(canonical(each.spec, each.statement) == self.sealed_text for each in (anew, self))
        return same and anew.plan_digest == self.plan_digest

    def _anew(self) -> Self:
        """A copy, of which, and of whose parts, nothing is computed yet."""
        return replace(self)

    def check_plan(self) -> None:
        """Refuse a noise plan that is not about the other fields, for any contribution bound that can be chosen.

        Raises:
            BudgetExceeded: it is about another release, or about another bound than the largest that can be chosen; or
                a bound would spend another amount.
        """
        largest = self.candidates[-1:] if self.bound_is_chosen else [self.arguments.bound]
        if self.statistic not in self.releases or largest != [self.arguments.bound]:
            raise BudgetExceeded(CHANGED)
        check_noise_plan(self)
        for bound in self.candidates:
            candidate = self.with_bound(bound)
            candidate.check_plan()
            if (candidate.plan.spent, candidate.arguments.bound) != (self.plan.spent, bound):
                raise BudgetExceeded(CHANGED)


def _without_bound(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in facts.items() if key not in _DEPENDS_ON_THE_BOUND}


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def canonical(spec: Mapping[str, Any], statement: Mapping[str, Any]) -> str:
    """All that was asked for and how it is measured, as one text; fails before anything is spent if it cannot be."""
    return json.dumps([spec, statement], sort_keys=True, ensure_ascii=False, allow_nan=False)


def with_facts(statement: Mapping[str, Any], more: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A copy of a statement that shares nothing with it, with more facts under some of its keys."""
    copied = copy.deepcopy(dict(statement))
    for key, facts in more.items():
        copied[key] |= facts
    return copied


def check_same(planned: Planned[Any, Any], other: Planned[Any, Any], *fields: str) -> None:
    """Refuse a release some of whose fields are not those of the release that it was planned from.

    Raises:
        BudgetExceeded: one of them is another object.
    """
    if any(getattr(planned, name) is not getattr(other, name) for name in fields):
        raise BudgetExceeded(CHANGED)


def check_noise_plan(planned: Planned[Any, Any]) -> None:
    """Refuse a noise plan whose statistics or sensitivities are not those of the other fields of a planned release.

    Args:
        planned: the release.

    Raises:
        BudgetExceeded: a level's statistic or sensitivity is another than the other fields say, or that of what is
            measured beside the levels is; or more or less is measured there than they say; or the public tree is not
            the one that is measured.
    """
    plan, terms, tree, max_quantity = planned.plan, planned.arguments, planned.tree, planned.quantity
    relation, m = terms.relation, terms.bound
    planned_for = {level: (each.statistic, each.sensitivity) for level, each in plan.levels.items()}
    nodes = nodes_per_level(tree)
    needed = level_sensitivities(planned.statistics, relation, m, max_quantity=max_quantity, nodes=nodes)
    first = [(each.level, each.statistic, each.sensitivity) for each in plan.beside]
    wanted = [
        (tree.levels[0], statistic, sensitivity(statistic, relation, m, max_quantity=max_quantity))
        for statistic in planned.beside
    ]
    lost = plan.stable.most_lost if isinstance(plan, StabilityPlan) else m
    same_tree = planned.public_tree is getattr(tree, "product", tree)
    if (planned_for, first, lost) != (needed, wanted, m) or not same_tree:
        raise BudgetExceeded(CHANGED)
