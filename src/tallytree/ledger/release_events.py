"""The events of a release: what is added to the books when it is recorded, or why it is refused."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, replace
from pathlib import Path

from tallytree.accounting.spending import Posting, Standing
from tallytree.ledger.books import OpenBooks
from tallytree.ledger.chain import Head
from tallytree.ledger.database import FileIdentity
from tallytree.ledger.dataset_names import checked_name, checked_run
from tallytree.ledger.events import event_text, release_text
from tallytree.ledger.runs import (
    KeyedDigest,
    OnChanged,
    check_run_is_new,
    made_before,
    may_be_made_before,
)
from tallytree.ledger.similar_names import near_names

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
    recorded = Recorded(books.last_number + 1, secrets.token_hex(16), again=False)
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
    known = books.datasets.get(posting.dataset)
    earlier = books.of_run(posting.dataset, posting.run, posting.plan)
    new: list[bytes] = []
    if known is None or not may_be_made_before(earlier, posting, on_changed):
        check_run_is_new(earlier, posting, secret=True, on_changed=on_changed)
        known, new = _admitted(books, posting, path)
    return known, [*new, release_text(posting, books.last_number + 1, secrets.token_hex(16), None)]


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
    known = books.datasets.get(posting.dataset)
    if books.strict and (known is None or not known.limits):
        near = near_names(posting.dataset, [name for name, each in books.datasets.items() if each.limits])
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
