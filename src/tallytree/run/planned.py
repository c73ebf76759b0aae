"""A planned release, which is data, and its run: tabulate, record in the ledger, measure, reconcile.

The order of `Planned.run` is what keeps noise safe. The true statistics are complete before the noise key exists, and
the key is bound to a digest of them and to the spec (`release_keys`): the same noise never meets different statistics.
The ledger records the release after the statistics are complete, so that refused records spend nothing, and before the
noise source is made.
"""

from __future__ import annotations

import copy
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar

from tallytree.accounting import NoisePlan, Plan, StabilityPlan
from tallytree.accounting.sensitivity import level_sensitivities, sensitivity
from tallytree.accounting.spending import Posting
from tallytree.engines import Engine, Local
from tallytree.errors import SPENT, BudgetExceeded
from tallytree.hierarchy import Hierarchy, Levels, nodes_per_level
from tallytree.kinds.measurements import Measurement, Statistic
from tallytree.kinds.terms import UNITS, Unit
from tallytree.ledger import Account, KeyedDigest
from tallytree.private import KeyedNoise, NoiseSource, OpenDPNoise, core_dumps_disabled
from tallytree.product import Product
from tallytree.release import LevelTable, Release
from tallytree.release.described import described_statement
from tallytree.release.detail import DETAIL_NOTE
from tallytree.release.measured_table import measurement_tables
from tallytree.release.risk_statement import public_total, risk_statement, weak_protection
from tallytree.release.statement import ASSUMED, CHECKED, versions
from tallytree.run.planning import opened, posting
from tallytree.run.private_inputs import inputs_digest
from tallytree.run.promises import marked
from tallytree.run.release_keys import ReleaseKeys, plan_digest, release_key
from tallytree.run.same_shape import refuse_other_shape
from tallytree.run.shared_arguments import SharedArguments
from tallytree.run.workspace import Workspace, workspace
from tallytree.support.markup import html_table
from tallytree.support.progress import level_progress
from tallytree.support.stages import stage
from tallytree.trees.bands import ForcedCut

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
        arguments: what was given.
        tree: the levels that are measured and published, with their nodes.
        public_tree: the public tree, as the release holds it.
        table_names: how the published spec names the tables that were given.
        mechanism: turns noisy measurements into released tables.
        statistics: what is measured for it at each measured level, root first.
        plan: the noise of every measured level.
        engine: where records are tabulated.
        account: the release's place in a ledger; None without one.
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
    sealed_text: str = field(default="", init=False)

    measured_column: ClassVar[Literal["value", "values"]]
    """How the noisy measurements of a node are published: one number, or a list of them."""

    def __repr__(self) -> str:
        """What would be measured; nothing of the records."""
        return f"{type(self).__name__}({self.tree!r}, measuring {', '.join(self.plan.levels) or 'nothing'})"

    def _repr_html_(self) -> str:
        """What would be measured, as a table for notebooks; nothing of the records."""
        rows = [(level, size, level in self.plan.levels) for level, size in nodes_per_level(self.tree).items()]
        title = f"Planned: {type(self.mechanism).__name__}"
        return html_table(title, ("level", "nodes", "measured"), rows, "No private row was read, nothing was spent.")

    @abstractmethod
    def check_records(self) -> None:
        """Check the schema of the records; no private row is read."""

    @cached_property
    @abstractmethod
    def spec(self) -> Mapping[str, Any]:
        """What was asked for, JSON-able, without the names of tables."""

    @cached_property
    @abstractmethod
    def statement(self) -> Mapping[str, Any]:
        """The privacy statement; it follows from the plan alone, so it is known before anything is spent."""

    @property
    def beside(self) -> Sequence[Statistic]:
        """What the arguments say is measured beside the levels, in order."""
        return ()

    @property
    def quantity(self) -> int:
        """The most that one record adds to the size of its group; 1 where records have no quantity."""
        return 1

    @abstractmethod
    def tabulate(self, work: Workspace | None = None) -> T:
        """The true statistics, from the records; with a workspace, they may be in its private files."""

    @abstractmethod
    def reconcile(
        self, true: T, source: NoiseSource, on_measure: Callable[[str], None], work: Workspace | None = None
    ) -> Reconciled:
        """Measure the true statistics with noise, and make the released tables of what was measured.

        With a workspace band by band, from and to its files, if the mechanism can; all numbers are the same.
        """

    def measured(
        self, true: T, paid: PaidNoise, on_measure: Callable[[str], None], work: Workspace | None
    ) -> tuple[Planned[Any, Any], Reconciled]:
        """What is made of the true statistics with the noise that is paid for, and the release that it is made for.

        That is this one, unless noisy answers choose another one; `Reconciled.about` has its statement then.
        """
        return self, self.reconcile(true, paid.source, on_measure, work)

    def rehearse(self) -> None:
        """Try a mechanism from outside; what only mechanisms of this library make is not tried."""

    def check(self) -> None:
        """Check what is revised, the ledger's room, the mechanism and the records' schema, reading no private row."""
        refuse_other_shape(self)
        self._check_room()
        self.rehearse()
        self.check_records()

    @core_dumps_disabled()
    def run(self, *, forced: ForcedCut | None = None) -> Release:
        """Tabulate, record, measure, reconcile; the budget is spent here.

        Args:
            forced: with `memory`, where the tree is cut; for tests, which compare cuts.
        """
        if not self.sealed_text or not self._is_as_sealed():
            raise BudgetExceeded("budget: the release was changed after its noise was planned; plan it anew")
        self.check_plan()
        refuse_other_shape(self)
        with (
            self.telling_what_is_spent(),
            level_progress(self.arguments.progress, self.plan.levels) as on_measure,
            workspace(self.arguments.memory, self.engine, forced) as work,
        ):
            self._check_room()
            self.rehearse()
            if self.account is not None and isinstance(self.plan, NoisePlan):
                self.plan.check_without_kept()
            # It follows from the plan, so it is computed before the payment, where a failure costs nothing. It is added
            # after it, so that no noise depends on how risk is worded or computed.
            risk = self.risk()
            inputs = self._inputs()  # before they are read: of a file that is replaced meanwhile it is known
            with self.stage("tabulate"):
                true = self.tabulate(work)
            with self.stage("record"):
                paid = paid_noise(self, self.sealed_text, true.digest(), inputs)
            with self.stage("reconcile"):
                shown, made = self.measured(true, paid, on_measure, work)
            statement = with_facts({**self.statement, **made.about}, made.beside)
            statement = marked(statement, self.mechanism)
            statement["release"] = {"id": paid.release_id, "run": self.arguments.run, "plan": self.plan_digest}
            if self.arguments.days is not None:
                statement["release"]["period"] = str(self.arguments.days)
                statement["release"]["period_is"] = ASSUMED if self.arguments.period_column is None else CHECKED
            if self.arguments.revised is not None:
                statement["release"]["revises"] = self.arguments.revised.stated
            # Which engine tabulated is told, and is no part of the plan: every engine finds the same statistics.
            statement["software"] |= versions(self.engine.software)
            statement |= risk if shown is self else shown.risk()
            total = public_total(statement, getattr(made, "persons", made).tables)
            statement = weak_protection(statement, total) | statement
            if not self.arguments.keep_measurements:
                statement["measurements_kept"] = False
            # Last, so that neither the plan nor the noise depends on how the publisher describes the release.
            statement = described_statement(statement, self.arguments.description)
            spec = copy.deepcopy({**self.spec, **self.table_names})
            release = shown.as_release(statement, spec, made)
            if self.account is not None:
                self.account.finish_repeatable()
            return release

    @property
    def expected_work(self) -> str:
        """What making the numbers takes in time and memory, as a sentence; empty where it is not estimated."""
        return ""

    def risk(self) -> dict[str, Any]:
        """The entry `risk` of the statement; none where the noise is drawn from a seed, and nothing is protected."""
        return {} if self.arguments.seed is not None else {"risk": risk_statement(self.plan, self.statement)}

    def finish(self) -> None:
        """Note in the ledger that the release was handed over, or saved."""
        if self.account is not None:
            self.account.finish()

    def stage(self, name: str) -> AbstractContextManager[None]:
        """A stage of this run in the log; see `tallytree.stages`."""
        return stage(name, dataset=self.dataset, run=self.arguments.run)

    def as_release(self, statement: Mapping[str, Any], spec: Mapping[str, Any], made: Reconciled) -> Release:
        """The release of what was made."""
        measured = made.measured
        if measured is None:
            taken = made.taken if self.arguments.keep_measurements else ()
            measured = measurement_tables(self.tree, taken, self.measured_column)
        if made.detail is not None:
            statement = {**statement, "notes": [*statement["notes"], DETAIL_NOTE]}
        return Release(statement, spec, made.tables, measured, self.public_tree, made.contributions, made.detail)

    @contextmanager
    def telling_what_is_spent(self) -> Iterator[None]:
        """Add to an error, or an interruption, that the budget is spent, if the ledger has the release by then."""
        try:
            yield
        except BaseException as error:
            recorded = None if self.account is None else self.account.recorded
            if recorded is not None:
                error.add_note(self._spent_note(recorded.number))
            raise

    def _spent_note(self, number: int) -> str:
        """What an error after the payment has to say."""
        if self.arguments.secret is None:
            return f"{SPENT} (ledger entry {number}); another attempt is another release, and spends it again"
        how = "" if self.arguments.on_changed == "error" else ' and on_changed="error"'
        entry = f"{SPENT} (ledger entry {number})"
        return f"{entry}; repeat the run {self.arguments.run!r} with the same secret{how}, free of charge"

    @property
    def unit(self) -> Unit:
        """What a person has up to `max_contributions` of."""
        return UNITS[self.statistic]

    @property
    def posting(self) -> Posting:
        """The entry that this release has in a ledger, made of its own fields."""
        return posting(
            self.arguments, self.statistic, self.mechanism, self.plan, unit=self.unit, plan_digest=self.plan_digest,
            parts=self._parts,
        )  # fmt: skip

    @cached_property
    def plan_digest(self) -> str:
        """The public digest of all that decides the release besides its records and its key; see `release_keys`."""
        return plan_digest(canonical(self.spec, self.statement), self.public_tree)

    @cached_property
    def _parts(self) -> Mapping[str, str]:
        """See `Posting.parts`."""
        spec = {key: given for key, given in self.spec.items() if key != "tree"}
        statement = {**self.statement, "software": None}
        statement["levels"] = [{**level, "nodes": None} for level in self.statement.get("levels", ())]
        return {
            "the spec": _sha256(canonical(spec, statement)),
            "the public hierarchy": plan_digest("", self.public_tree),
            "the version of the software": _sha256(json.dumps(self.statement["software"], sort_keys=True)),
        }

    @property
    def dataset(self) -> str | None:
        """The data set's name in the ledger, if the release is recorded in one."""
        return None if self.account is None else self.account.posting.dataset

    def check_plan(self) -> None:
        """Refuse a noise plan that is not about the other fields; see `check_noise_plan`."""
        check_noise_plan(self)

    def _is_as_sealed(self) -> bool:
        """Whether what the fields say now, and what was computed of them when it was sealed, is what was sealed."""
        anew = replace(self)  # a copy, of which nothing is computed yet
        return all(canonical(each.spec, each.statement) == self.sealed_text for each in (anew, self))

    def seal(self) -> Self:
        """Check the noise plan once more, against the fields, and seal the release.

        Raises:
            BudgetExceeded: the noise is planned for another sensitivity.
        """
        self.check_plan()
        if self.account is not None:
            self.account.posting = self.posting
        object.__setattr__(self, "sealed_text", canonical(self.spec, self.statement))
        return self

    def _inputs(self) -> KeyedDigest | None:
        """Gives the keyed digest of the files of the records, as they are now; None where it is not known."""
        given = self.arguments
        if self.account is None or given.secret is None:
            return None
        table = getattr(given, "records", None)  # every kind of release has them
        return inputs_digest(given.secret, given.dataset, given.run, table, "records")

    def _check_room(self) -> None:
        """Refuse what the ledger would not take, before a private row is read."""
        if self.account is not None:
            self.account.check()


CHANGED = "budget: the noise is planned for another release; plan it anew"
"""What is said of a release whose noise is not that of its fields."""

PLANNED_SOFTWARE = Local.software
"""The engine's packages in a planned statement, whichever engine tabulates: the noise key is derived from that text."""


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
            measured beside the levels is; or more or less is measured there than they say.
    """
    plan, terms, tree, max_quantity = planned.plan, planned.arguments, planned.tree, planned.quantity
    relation, m = terms.relation, terms.bound
    found = {level: (each.statistic, each.sensitivity) for level, each in plan.levels.items()}
    nodes = nodes_per_level(tree)
    needed = level_sensitivities(planned.statistics, relation, m, max_quantity=max_quantity, nodes=nodes)
    first = [(each.level, each.statistic, each.sensitivity) for each in plan.beside]
    wanted = [
        (tree.levels[0], statistic, sensitivity(statistic, relation, m, max_quantity=max_quantity))
        for statistic in planned.beside
    ]
    lost = plan.stable.most_lost if isinstance(plan, StabilityPlan) else m
    if (found, first, lost) != (needed, wanted, m):
        raise BudgetExceeded(CHANGED)


@dataclass(frozen=True, eq=False)
class PaidNoise:
    """The noise of a release that is recorded.

    Attributes:
        source: the noise of what is measured.
        release_id: the id of the release.
        keys: what the noise key was derived from.
    """

    source: NoiseSource
    release_id: str
    keys: ReleaseKeys = field(repr=False)

    def after_a_choice(self, statistics: bytes, plan: str) -> NoiseSource:
        """The noise of what is measured next, by a plan that answers with `source` have chosen.

        Args:
            statistics: the digest of the true statistics that are measured next.
            plan: the public digest of the chosen plan.
        """
        if isinstance(self.source, OpenDPNoise):
            return OpenDPNoise()
        return KeyedNoise(self.keys.noise_after_a_choice(self.release_id, statistics, plan))


def paid_noise(
    planned: Planned[Any, Any], asked: str, statistics: bytes, inputs: KeyedDigest | None = None
) -> PaidNoise:
    """Record the release, then make the noise source. No noise key exists before the ledger has the release on disk.

    Args:
        planned: the planned release.
        asked: the canonical text of its spec and its statement.
        statistics: the digest of its true statistics.
        inputs: gives the keyed digest of the files that these were read from; None where it is not known.
    """
    account, options = planned.account, planned.arguments

    def keys() -> ReleaseKeys:
        return ReleaseKeys(release_key(options), options.secret is not None, statistics, asked, planned.plan_digest)

    # A secret is read once and before the payment; a fresh key is made after it.
    known = None if options.secret is None else keys()
    release_id = None
    if account is not None:
        elsewhere = account.ledger != opened(options.ledger) or account.on_changed != options.on_changed
        if options.seed is not None or account.posting != planned.posting or elsewhere:
            raise BudgetExceeded(
                "ledger: the release was changed after its place in the ledger was planned; plan it anew"
            )
        release_id = account.record(None if known is None else known.keyed_digest, inputs).release_id
    known = known or keys()
    release_id = release_id or known.unrecorded_id()
    source = OpenDPNoise() if options.noise == "opendp" else KeyedNoise(known.noise(release_id))
    return PaidNoise(source, release_id, known)
