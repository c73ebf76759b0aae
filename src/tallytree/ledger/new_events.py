"""The events of a release or a limit: what is added to the books, or why it is refused.

**Runs.** A release under a run's name that is the one which was made before is charged once. A run is repeated where
its last entry has the same plan and the same keyed digest of the statistics. Its key is derived from them and from the
secret, so the noise is the same noise on the same numbers, and the same release results: a function of what was
released before, which loses nothing more. Anything else under the same name is another release: other noise, and
another loss.

Whether a release was repeated must not be seen in two outputs of one run: it says exactly whether the statistics have
changed. So only the last entry of a run is repeated; and where changes are charged, only one that is not finished,
whose output nobody has seen (`tallytree.run.release_keys`).
"""

from __future__ import annotations

import re
import secrets
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from typing import Literal

from tallytree.accounting.periods import ALL_TIME, Window
from tallytree.accounting.spending import Approval, Entry, Posting, Standing, admits_more, granted, shown
from tallytree.budget import Budget
from tallytree.kinds.terms import Neighboring, ProtectedUnit
from tallytree.ledger.books import OpenBooks
from tallytree.ledger.chain import Head
from tallytree.ledger.database import FileIdentity
from tallytree.ledger.events import amounts, approval_facts, event_text, release_text
from tallytree.ledger.names import checked_name, checked_run, near_names

OnChanged = Literal["error", "charge"]
"""What happens to a release under the name of an earlier run that is another release: refused, or charged as one."""

KeyedDigest = Callable[[str], str]
"""The keyed digest of a release's statistics, or of its inputs, 64 hex digits, for the entry with this release id."""

_SAME = ("statistic", "mechanism", "max_contributions", "unit", "loss")


def made_before(
    earlier: Sequence[Entry], posting: Posting, statistics: KeyedDigest | None, on_changed: OnChanged
) -> Entry | None:
    """The last entry of the run, if it is of the same plan and statistics and may be repeated; else None.

    Args:
        earlier: the entries of the run that decide about it (`OpenBooks.of_run`).
        posting: the release.
        statistics: the keyed digest of its statistics for a release id; None without a secret.
        on_changed: what happens to another release under this name.

    Raises:
        ValueError: an entry of the same plan spent something else, which one plan cannot.
    """
    last = _repeatable(earlier, posting, on_changed)
    if last is None or statistics is None:
        return None
    return last if last.statistics == statistics(last.release_id) else None


def may_be_made_before(earlier: Sequence[Entry], posting: Posting, on_changed: OnChanged) -> bool:
    """Whether the release may turn out to be the last entry of its run; its statistics are not known yet."""
    return _repeatable(earlier, posting, on_changed) is not None


def check_run_is_new(earlier: Sequence[Entry], posting: Posting, *, secret: bool, on_changed: OnChanged) -> None:
    """Refuse another release under the name of an earlier run, unless it is to be charged as one.

    Args:
        earlier: the entries of the run that decide about it (`OpenBooks.of_run`).
        posting: the release, which `made_before` does not have.
        secret: whether a secret was given, or it is not known yet.
        on_changed: whether it is refused.

    Raises:
        ValueError: an entry has the name of this run, and the release is another one.
    """
    if not earlier or on_changed == "charge" or _revises(posting, earlier[-1]):
        return
    last = earlier[-1]
    if last.revises != posting.revises:
        why = "that one is a revision" if posting.revises is None else "that one is not the release that it revises"
    elif last.statistics is None:  # before the plan, which a secret changes
        why = "that one was made without a secret, so the same release cannot be made again"
    elif not secret:
        why = "no secret was given, so the same release cannot be made again"
    elif last.plan is None or last.plan != posting.plan:
        why = f"its plan differs: {which_parts(last, posting)}"
    elif not _of_period(last, posting):
        why = f"its period differs: that one is of {last.period}"
    else:
        why = "its statistics differ: the records, or the secret"
    raise ValueError(
        f"run: {posting.run!r} is the run of entry {last.number} of the data set {posting.dataset!r}, and this "
        f'release is another one: {why}; give another run name, or on_changed="charge" (`--on-changed charge`) to '
        "spend its budget as well"
    )


def which_parts(entry: Entry, posting: Posting) -> str:
    """Which parts of the plan of a release are not those of an entry's, in words."""
    before, now = entry.parts, posting.parts
    if before is None or now is None:
        return "the spec, a public table, the version of the software, or whether a secret was given"
    names = {**now, **before}  # a part that one of them does not have differs
    return " and ".join(name for name in names if before.get(name) != now.get(name)) or "a public table"


def _repeatable(earlier: Sequence[Entry], posting: Posting, on_changed: OnChanged) -> Entry | None:
    """The last entry of the run, if it has the same plan, a keyed digest, and no output that a change could betray.

    Raises:
        ValueError: an entry of the same plan spent something else: the same noise would be drawn at another scale.
    """
    for entry in earlier:
        same = entry.plan is not None and entry.plan == posting.plan
        if same and any(getattr(entry, name) != getattr(posting, name) for name in _SAME):
            raise ValueError(
                f"plan: entry {entry.number} of the data set {posting.dataset!r} has the digest of this plan, and "
                "another mechanism, contribution bound or loss; give another run name"
            )
    last = earlier[-1] if earlier else None
    if last is None or last.plan is None or last.plan != posting.plan or last.statistics is None:
        return None
    if not _of_period(last, posting) or last.revises != posting.revises:
        return None
    return None if on_changed == "charge" and last.state == "finished" else last


def _revises(posting: Posting, entry: Entry) -> bool:
    """Whether a release revises the one of an entry: it is a new release, and is charged, whatever has changed."""
    return posting.revises is not None and posting.revises == entry.release_id


def _of_period(entry: Entry, posting: Posting) -> bool:
    """Whether an entry counts in all windows that a release is to count in; one without a period counts in each."""
    return entry.period is None or entry.period == posting.period


@dataclass(frozen=True)
class LimitAsked:
    """A limit that is to be set; see `Ledger.set_limit` for what is in it."""

    dataset: str
    budget: Budget
    neighboring: Neighboring | None
    max_contributions: int | None
    unit: ProtectedUnit | None
    strict: bool | None
    approval: Approval
    window: Window = ALL_TIME

    def check_relation(self) -> None:
        """Refuse a new data set without a neighboring relation.

        Raises:
            ValueError: none is given.
        """
        if self.neighboring is None:
            raise ValueError(
                f"neighboring: the ledger does not know the data set {self.dataset!r} yet; say which relation its "
                'releases have, "add_remove" or "change_one" (`--neighboring`)'
            )

    def events(self, books: OpenBooks, path: Path) -> list[bytes]:
        """The events that set the limit; warns of a name that is nearly another's, and of a limit without effect.

        Raises:
            ValueError: other terms than the ledger has, less than is spent, or more than before without a reason.
        """
        known = books.running.datasets.get(self.dataset)
        terms = self._made(books, path) if known is None else self._stated(known)
        if known is not None:
            known.check_limit(self.budget, self.window)
            self._check_reason(known)
            self._warn_of_idle(known)
        window = None if self.window == ALL_TIME else str(self.window)
        facts = {**amounts(self.budget), **approval_facts(self.approval), "window": window}
        limit = event_text("limit", dataset=self.dataset, **facts)
        changed = [] if self.strict in (None, books.running.strict) else [strict_text(bool(self.strict), self.approval)]
        return [*changed, *terms, limit]

    def _made(self, books: OpenBooks, path: Path) -> list[bytes]:
        """The event that makes the data set."""
        self.check_relation()
        near = near_names(self.dataset, [*books.running.datasets])
        if near:
            warnings.warn(
                f"dataset: {self.dataset!r} is new in the ledger {path.name!r}, so nothing of it is spent; if "
                f"{' or '.join(map(repr, near))} is meant, its people can lose the limits of both",
                stacklevel=4,
            )
        unit = self.unit or "person"
        most = self.max_contributions or (None if unit == "person" else 1)
        terms = {"neighboring": self.neighboring, "max_contributions": most, "unit": unit}
        return [event_text("dataset", dataset=self.dataset, **terms)]

    def _stated(self, known: Standing) -> list[bytes]:
        """The event that states terms which were open."""
        known.check_terms(self.neighboring, self.max_contributions, self.unit)
        most = self.max_contributions if known.max_contributions is None else None
        if most is not None:
            known.check_stated_bound(most)
        unit = self.unit if known.unit is None else None
        if most is None and unit is None:
            return []
        return [event_text("terms", dataset=self.dataset, max_contributions=most, unit=unit)]

    def _check_reason(self, known: Standing) -> None:
        before = known.limit_of(self.window)
        if before is not None and admits_more(self.budget, before) and self.approval.reason is None:
            raise ValueError(
                f"reason: the limit of the data set {self.dataset!r}, {shown(granted(before))}, would be raised "
                f"to {shown(granted(self.budget))}; say why (`--reason`), for the ledger keeps it"
            )

    def _warn_of_idle(self, known: Standing) -> None:
        """Warn where this limit, or one of shorter windows, refuses nothing that one of longer windows admits."""
        limits = {each.window: each.limit for each in known.limits} | {self.window: self.budget}
        for longer, window in permutations(limits, 2):
            most, limit = limits[longer], limits[window]
            comparable = self.window in (longer, window) and most.kind in (limit.kind, "pure")
            if comparable and longer.contains(window) and not admits_more(most, limit):
                warnings.warn(
                    f"limit: {shown(granted(limit))} in {window.words} can never bind, since the data set "
                    f"{self.dataset!r} may spend {shown(granted(most))} in {longer.words}; lower it or raise the other",
                    stacklevel=4,
                )


def strict_text(strict: bool, approval: Approval) -> bytes:
    """The event that says whether releases of data sets without a limit are refused."""
    return event_text("strict", strict=bool(strict), **approval_facts(approval))


_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Recorded:
    """A release in the ledger.

    Attributes:
        number: the entry's number.
        release_id: 32 hex digits, which the release's folder has too.
        again: whether the entry was there before, so that nothing was charged.
    """

    number: int
    release_id: str
    again: bool


@dataclass(frozen=True)
class EntryPlace:
    """The file in which a release was tried, and how far it went.

    Attributes:
        file: which one.
        last: its last event.
    """

    file: FileIdentity | None
    last: Head


@dataclass(frozen=True)
class Tried:
    """What a try to record a release found.

    Attributes:
        standing: the data set, without the release.
        place: where it can be recorded; None where there is no file yet.
    """

    standing: Standing
    place: EntryPlace | None


def recorded_posting(
    books: OpenBooks,
    posting: Posting,
    path: Path,
    statistics: KeyedDigest | None,
    on_changed: OnChanged,
    inputs: KeyedDigest | None = None,
) -> tuple[Recorded, list[bytes]]:
    """The entry of a release, and the events that record it: where it was recorded before, only its inputs, if new.

    Args:
        books: what the ledger holds.
        posting: the release.
        path: of the ledger.
        statistics: the keyed digest of its statistics for a release id; None without a secret.
        on_changed: what happens to another release under the name of an earlier run.
        inputs: the keyed digest of its inputs for a release id; None where that is not known.

    Raises:
        BudgetExceeded, ValueError: see `Ledger.record`.
    """
    posting = _checked(posting)
    earlier = books.of_run(posting.dataset, posting.run, posting.plan)
    before = made_before(earlier, posting, statistics, on_changed)
    if before is not None:
        now = None if inputs is None else _hex_digest(inputs(before.release_id), "inputs")
        new = [] if now in (None, before.inputs) else [event_text("inputs", number=before.number, inputs=now)]
        return Recorded(before.number, before.release_id, again=True), new
    check_run_is_new(earlier, posting, secret=statistics is not None, on_changed=on_changed)
    _, new = _admitted(books, posting, path)
    recorded = Recorded(books.running.last_number + 1, secrets.token_hex(16), again=False)
    digest = None if statistics is None else _hex_digest(statistics(recorded.release_id), "statistics")
    read = None if inputs is None else _hex_digest(inputs(recorded.release_id), "inputs")
    return recorded, [*new, release_text(posting, recorded.number, recorded.release_id, digest, read)]


def _hex_digest(digest: str, argument: str) -> str:
    """The digest.

    Raises:
        ValueError: it is none.
    """
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"{argument}: a digest must be 64 hex digits")
    return digest


def tried_posting(
    books: OpenBooks, posting: Posting, path: Path, on_changed: OnChanged
) -> tuple[Standing, list[bytes]]:
    """The data set of a release whose statistics are not known yet, and the events that would record the release.

    Raises:
        BudgetExceeded, ValueError: see `Ledger.check`.
    """
    posting = _checked(posting)
    known = books.running.datasets.get(posting.dataset)
    earlier = books.of_run(posting.dataset, posting.run, posting.plan)
    new: list[bytes] = []
    if known is None or not may_be_made_before(earlier, posting, on_changed):
        check_run_is_new(earlier, posting, secret=True, on_changed=on_changed)
        known, new = _admitted(books, posting, path)
    return known, [*new, release_text(posting, books.running.last_number + 1, secrets.token_hex(16), None)]


def _checked(posting: Posting) -> Posting:
    """The posting with names in their normal form."""
    run = None if posting.run is None else checked_run(posting.run)
    if posting.plan is not None and not _DIGEST.fullmatch(posting.plan):
        raise ValueError("plan: a digest must be 64 hex digits")
    return replace(posting, dataset=checked_name(posting.dataset), run=run)


def _admitted(books: OpenBooks, posting: Posting, path: Path) -> tuple[Standing, list[bytes]]:
    """The data set of a release, which has room for it, and where it is new, the event that makes it.

    Raises:
        BudgetExceeded: it has not.
        ValueError: other terms, a loss that cannot be counted, or a data set without a limit in a strict ledger.
    """
    known = books.running.datasets.get(posting.dataset)
    if books.running.strict and (known is None or not known.limits):
        near = near_names(posting.dataset, [name for name, each in books.running.datasets.items() if each.limits])
        meant = f"if {' or '.join(map(repr, near))} is meant, give that name; else set" if near else "set"
        raise ValueError(
            f"dataset: {posting.dataset!r} has no limit in the ledger {path.name!r}, which is strict: it takes only "
            f"releases of data sets with a limit; {meant} a limit with `tallytree limit`"
        )
    if known is not None:
        known.check_release_terms(posting)
        known.check_room(posting.loss, posting.period)
        return known, []
    made = Standing(name=posting.dataset, neighboring=posting.neighboring, max_contributions=None, unit="person")
    terms = {"neighboring": made.neighboring, "max_contributions": None, "unit": "person"}
    return made, [event_text("dataset", dataset=made.name, **terms)]
