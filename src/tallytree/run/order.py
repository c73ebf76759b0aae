"""From a planned release to a release, in the order that keeps noise safe: read this file first.

1. What is planned is what runs: the release is as it was sealed, and its noise is that of its fields.
2. The ledger has room, and a mechanism from outside was tried. No private row was read.
3. The true statistics are tabulated, and complete, before a noise key exists.
4. The ledger records the release. Refused records spend nothing, since that is after step 3; no noise is drawn for a
   release that is not recorded, since that is before step 5.
5. The noise key is made. It is bound to a digest of the statistics, to the spec and the statement with every scale
   (`release_keys`), so the same noise never meets other statistics or another scale.
6. What is measured beside the levels, then the levels, get noise; a mechanism makes tables of the noisy values. Where
   noisy numbers choose the contribution bound, steps 3 and 5 are repeated for the chosen one (`auto_bound`).
7. What is said of the release is put together. No noise depends on it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tallytree.accounting import NoisePlan
from tallytree.errors import SPENT, BudgetExceeded
from tallytree.ledger import KeyedDigest
from tallytree.private import KeyedNoise, NoiseSource, OpenDPNoise, one_release
from tallytree.release import Release
from tallytree.release.risk_statement import public_total, weak_protection
from tallytree.release.statement import ASSUMED, CHECKED, described_statement, versions
from tallytree.run import rehearsal
from tallytree.run.auto_bound import first_phase, second_phase
from tallytree.run.checked_results import marked
from tallytree.run.options import SharedArguments
from tallytree.run.people import PublishedContributions, measured_contributions
from tallytree.run.planned import Planned, Reconciled, with_facts
from tallytree.run.planning import opened
from tallytree.run.release_keys import ReleaseKeys, inputs_digest, release_key
from tallytree.run.workspace import workspace
from tallytree.support.spill_folders import core_dumps_disabled
from tallytree.support.stages import level_progress, run_progress, stage
from tallytree.trees.bands import ForcedCut

A = TypeVar("A", bound=SharedArguments)


def released(plan: Callable[[A], Planned[Any, Any]], arguments: A) -> Release:
    """Plan a release with `plan` and make it: all that a public function does."""
    with run_progress(arguments.progress), one_release():
        with stage("plan", dataset=arguments.dataset, run=arguments.run):
            planned = plan(arguments)
        release = make_release(planned)
        finish(planned)
        return release


def check(planned: Planned[Any, Any]) -> None:
    """Check what is revised, the ledger's room, the mechanism and the records' schema, reading no private row."""
    _refuse_what_cannot_be_made(planned)
    request: Any = planned.request  # each kind has its own
    planned.engine.check(planned.arguments.private_table, request)


@core_dumps_disabled()
def make_release(planned: Planned[Any, Any], *, forced: ForcedCut | None = None) -> Release:
    """Tabulate, record, measure, fit; the budget is spent here.

    Args:
        planned: a release that planning has sealed.
        forced: with `memory`, where the tree is cut; for tests, which compare cuts.

    Raises:
        BudgetExceeded: the release was changed after it was sealed, or the ledger has no room.
    """
    planned.check_sealed()
    given = planned.arguments
    with (
        telling_what_is_spent(planned),
        level_progress(given.progress, planned.plan.levels) as on_measure,
        workspace(given.memory, planned.engine, forced) as work,
    ):
        _refuse_what_cannot_be_made(planned)
        if planned.account is not None and isinstance(planned.plan, NoisePlan):
            planned.plan.check_without_kept()
        # It follows from the plan, so it is computed before the payment, where a failure costs nothing. It is added
        # after it, so that no noise depends on how risk is worded or computed.
        risk = planned.risk()
        if work is not None:
            planned.require_room(work)
        inputs = _inputs(planned)  # before they are read: of a file that is replaced meanwhile it is known
        with _stage(planned, "tabulate"):
            true = first_phase(planned, work) if planned.bound_is_chosen else planned.tabulate(work)
        with _stage(planned, "record"):
            paid = paid_noise(planned, planned.sealed_text, true.digest(), inputs)
        with _stage(planned, "reconcile"):
            if planned.bound_is_chosen:
                shown, true, source, people = second_phase(planned, true, paid.source, paid.after_a_choice, work)
            else:
                shown, source, people = planned, paid.source, measured_people(planned, true, paid.source)
            made = shown.fit(true, source, on_measure, work, people)
        release = as_released(planned, shown, made, paid.release_id, risk if shown is planned else shown.risk())
        if planned.account is not None:
            planned.account.finish_repeatable()
        return release


def finish(planned: Planned[Any, Any]) -> None:
    """Note in the ledger that the release was handed over, or saved."""
    if planned.account is not None:
        planned.account.finish()


def _refuse_what_cannot_be_made(planned: Planned[Any, Any]) -> None:
    """Step 2: what is known before a private row is read."""
    revised = planned.arguments.revised
    if revised is not None:
        revised.refuse_other(planned.statement, planned.public_tree, planned.arguments.days, planned.account)
    if planned.prior is not None:
        planned.prior.refuse_unpaid(planned.account, seeded=planned.arguments.seed is not None)
    if planned.account is not None:
        planned.account.check()
    rehearsal.rehearse(planned)


def measured_people(planned: Planned[Any, Any], true: Any, source: NoiseSource) -> PublishedContributions:
    """People by their number of records, measured where that was asked for, as they are published."""
    asked = planned.counted_people
    if asked is None:
        return PublishedContributions()
    return planned.published_people(measured_contributions(true.contributions, planned.plan, source, asked.bins))


def as_released(
    planned: Planned[Any, Any], shown: Planned[Any, Any], made: Reconciled, release_id: str, risk: dict[str, Any]
) -> Release:
    """Step 7: the release of what was made, with its statement and its spec."""
    given = planned.arguments
    stated = dict(planned.statement)
    if shown is not planned:  # what holds whatever bound is chosen, then what holds for the chosen one
        stated |= {**shown.statement, "notes": [*shown.statement["notes"], planned.note_of_choice]}
    statement = marked(with_facts({**stated, **made.about}, made.beside), planned.mechanism)
    statement["release"] = {"id": release_id, "run": given.run, "plan": planned.plan_digest}
    if given.days is not None:
        statement["release"]["period"] = str(given.days)
        statement["release"]["period_is"] = ASSUMED if given.period_column is None else CHECKED
    if given.revised is not None:
        statement["release"]["revises"] = given.revised.stated
    # Which engine tabulated is told, and is no part of the plan: every engine finds the same statistics.
    statement["software"] |= versions(planned.engine.software)
    statement |= risk
    statement = weak_protection(statement, public_total(statement, getattr(made, "persons", made).tables)) | statement
    if not given.keep_measurements:
        statement["measurements_kept"] = False
    # Last, so that neither the plan nor the noise depends on how the publisher describes the release.
    statement = described_statement(statement, given.description)
    return shown.as_release(statement, copy.deepcopy({**planned.spec, **planned.table_names}), made)


def _stage(planned: Planned[Any, Any], name: str) -> Any:
    """A stage of this run in the log; see `tallytree.support.stages`."""
    return stage(name, dataset=planned.dataset, run=planned.arguments.run)


def _inputs(planned: Planned[Any, Any]) -> KeyedDigest | None:
    """Gives the keyed digest of the files of the records, as they are now; None where it is not known."""
    given = planned.arguments
    if planned.account is None or given.secret is None:
        return None
    return inputs_digest(given.secret, given.dataset, given.run, given.private_table, "records")


@contextmanager
def telling_what_is_spent(planned: Planned[Any, Any]) -> Iterator[None]:
    """Add to an error, or an interruption, that the budget is spent, if the ledger has the release by then."""
    try:
        yield
    except BaseException as error:
        recorded = None if planned.account is None else planned.account.recorded
        if recorded is not None:
            error.add_note(_spent_note(planned.arguments, recorded.number))
        raise


def _spent_note(given: SharedArguments, number: int) -> str:
    """What an error after the payment has to say."""
    if given.secret is None:
        return f"{SPENT} (ledger entry {number}); another attempt is another release, and spends it again"
    how = "" if given.on_changed == "error" else ' and on_changed="error"'
    return f"{SPENT} (ledger entry {number}); repeat the run {given.run!r} with the same secret{how}, free of charge"


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
    """Steps 4 and 5: record the release, then make the noise source; no noise key exists before it is on the disk.

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
