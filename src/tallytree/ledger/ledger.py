"""The ledger: what every release of a data set has spent, in one SQLite file that several processes share.

A release is recorded before its noise is drawn, and an entry is never removed, so a release that crashes counts as
spent. A data set is identified by the name that its publisher declares, never by its content: a corrected file is about
the same people.

`tallytree.accounting.spending` says what is added up and how a limit counts it; `database` says why the sum holds
where several processes write.

`Account` is the entry of one release: checked, then recorded, then finished.
"""

from __future__ import annotations

import logging
import os
import warnings
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import get_args

from tallytree.accounting.periods import Window, WindowLength
from tallytree.accounting.spending import Approval, DataSet, Entry, Posting, Standing, granted, shown
from tallytree.budget import Budget
from tallytree.errors import MAY_BE_SPENT, SPENT
from tallytree.kinds.terms import ProtectedUnit, neighboring_relation
from tallytree.ledger.books import Books, OpenBooks, known_dataset
from tallytree.ledger.database import blank_ledger, file_identity, make_ledger, remove_leftovers
from tallytree.ledger.events import amounts, event_text
from tallytree.ledger.names import checked_name, checked_run, near_names
from tallytree.ledger.new_events import (
    EntryPlace,
    KeyedDigest,
    LimitAsked,
    OnChanged,
    Recorded,
    Tried,
    recorded_posting,
    strict_text,
    tried_posting,
)
from tallytree.ledger.verified import forget_ledger, listed_books, opened_books
from tallytree.support.markup import html_table
from tallytree.support.validate import choice, integer, path_text, safe_text


@dataclass(frozen=True)
class Ledger:
    """A ledger of releases, in a SQLite file; safe to use from several processes and threads at once.

    The file is made (for its owner alone, mode 0600) when the first limit is set or the first release is recorded.
    No connection stays open between calls.

    Attributes:
        path: the file.
        timeout: how many seconds to wait while another process writes.

    Example:
        >>> import tempfile
        >>> import tallytree as tt
        >>> from tallytree.ledger import Ledger
        >>> ledger = Ledger(tempfile.mkdtemp() + "/ledger.db")
        >>> ledger.set_limit("people", tt.Budget(epsilon=2), neighboring="add_remove")
        >>> ledger.remaining("people")
        {'epsilon': Fraction(2, 1)}
    """

    path: Path
    timeout: float = field(default=10.0, kw_only=True)

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 10.0) -> None:
        path_text(path, "ledger", "the path of a file, or a tallytree.ledger.Ledger")
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 <= timeout <= 1e6:
            raise ValueError(f"timeout: {safe_text(timeout)} must be a number of seconds, 0 or more")
        object.__setattr__(self, "path", Path(path))
        object.__setattr__(self, "timeout", float(timeout))

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, strict: bool = False, timeout: float = 10.0) -> Ledger:
        """Make an empty ledger.

        Args:
            path: the file to make.
            strict: whether it refuses releases of data sets that have no limit.
            timeout: see the class.

        Raises:
            FileExistsError: something is there.
            OSError: the file cannot be made.
        """
        ledger = cls(path, timeout=timeout)
        if not ledger._make(strict=strict):
            raise FileExistsError(f"ledger: {str(ledger.path)!r} exists; open it with Ledger(path), or choose another")
        return ledger

    def _make(self, *, strict: bool) -> bool:
        """Make the file; False if it exists. What is known of a file that was deleted is forgotten."""
        made = make_ledger(self.path, _first_event(strict=strict))
        if made:
            forget_ledger(self.path)
        return made

    # --- Reading ---

    def _repr_html_(self) -> str:
        """What each data set has spent, as a table for notebooks."""
        if not self.path.exists():
            return html_table("Ledger", ("data set",), [], "The file is not made yet.")
        rows = [
            (
                each.name,
                each.sums.number,
                shown(each.spent),
                granted(each.limit) if each.limit else "none",
                shown(each.remaining) if each.remaining is not None else "no limit",
            )
            for each in self.standings()
        ]
        return html_table("Ledger", ("data set", "releases", "spent", "limit", "remaining"), rows)

    def contents(self) -> Books:
        """All that the ledger holds, each release included; the whole chain is verified.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file is no ledger, was changed, or is damaged.
            OSError: it cannot be read; TimeoutError where another process keeps it locked.
        """
        return listed_books(self.path, self.timeout)

    def datasets(self) -> tuple[DataSet, ...]:
        """Every data set, by name, with its releases; raises as `contents` does."""
        return tuple(self.contents().datasets.values())

    def dataset(self, name: str) -> DataSet:
        """One data set, with its releases.

        Raises:
            ValueError: the ledger does not know it.
            ValueError, OSError: see `contents`.
        """
        return self.contents().known(checked_name(name), self.path)

    def entries(self, dataset: str | None = None) -> tuple[Entry, ...]:
        """The releases in the order they were recorded, of one data set or of all; raises as `dataset` does."""
        found = self.datasets() if dataset is None else (self.dataset(dataset),)
        return tuple(sorted((entry for one in found for entry in one.entries), key=lambda entry: entry.number))

    def standings(self) -> tuple[Standing, ...]:
        """Where every data set stands, by name, without a list of its releases; raises as `contents` does.

        What this process has verified before is not read again (`tallytree.ledger.verified`).
        """
        with opened_books(self.path, self.timeout, "BEGIN") as books:
            return tuple(books.running.datasets[name] for name in sorted(books.running.datasets))

    def standing(self, dataset: str) -> Standing:
        """Where one data set stands: its terms, limits and sums; see `standings`. Raises as `dataset` does."""
        name = checked_name(dataset)
        with opened_books(self.path, self.timeout, "BEGIN") as books:
            return known_dataset(books.running.datasets, name, self.path)

    def last_of_run(self, dataset: str, run: str) -> Entry | None:
        """The last entry of a run; None without one. Raises as `contents` does."""
        with opened_books(self.path, self.timeout, "BEGIN") as books:
            return next(reversed(books.of_run(checked_name(dataset), checked_run(run))), None)

    def spent(self, dataset: str) -> dict[str, Fraction]:
        """What a data set's releases have spent, exactly; see `Standing.spent`. Raises as `dataset` does."""
        return self.standing(dataset).spent

    def remaining(self, dataset: str) -> dict[str, Fraction] | None:
        """What a data set's limit leaves, exactly; None without a limit. Raises as `dataset` does."""
        return self.standing(dataset).remaining

    @property
    def strict(self) -> bool:
        """Whether releases of data sets without a limit are refused; raises as `contents` does."""
        with opened_books(self.path, self.timeout, "BEGIN") as books:
            return books.running.strict

    @property
    def head(self) -> str:
        """The last digest of the chain of events: 64 hex digits.

        Who notes it elsewhere can tell later whether this file is an older copy, or has another past. Raises as
        `contents` does.
        """
        with opened_books(self.path, self.timeout, "BEGIN") as books:
            return books.running.head.digest

    # --- Writing ---

    def set_limit(
        self,
        dataset: str,
        budget: Budget,
        *,
        neighboring: str | None = None,
        max_contributions: int | None = None,
        unit: ProtectedUnit | None = None,
        strict: bool | None = None,
        approval: Approval | None = None,
        per: WindowLength = "all",
        rolling: bool = False,
        begins: date | None = None,
    ) -> None:
        """Set what the releases of a data set together may spend, those already recorded included.

        A later limit replaces an earlier one; the ledger keeps both. A warning says where a new data set has nearly the
        name of another.

        Args:
            dataset: the data set's declared name.
            budget: the limit: pure ε, (ε, δ) or ρ. It counts releases as `tallytree.accounting.spending` says.
            neighboring: the relation of all its releases; may be left out where the ledger knows the data set.
            max_contributions: the most records of one person. Where the unit is the person, each release has a bound of
                its own, unless this states one for all, below which no release may be; for the other units by
                default 1.
            unit: `"person"`, the default of a new data set, which takes every statistic; or `"record"`, `"trip"` or
                `"membership"`, each of which takes one.
            strict: whether releases of data sets without a limit are refused; by default as before, and yes in a ledger
                that this makes.
            approval: who approved it, and why; a limit that admits more than the one before needs a reason.
            per: what the limit is of: all time, or each week, month or year (`tallytree.accounting.periods`). Several
                limits hold at once, one of each kind of window. Windows follow the calendar; weeks begin on Monday.
            rolling: the limit is of any 7 (31, 366) days that follow each other.
            begins: a day on which a window begins, where these do not follow the calendar.

        Raises:
            ValueError: other terms than the ledger has, less than is spent already, or more than before without a
                reason; nothing was changed.
            TypeError: an argument of the wrong kind.
            OSError: the ledger cannot be written, or is locked.
        """
        name = checked_name(dataset)
        if not isinstance(budget, Budget):
            raise TypeError(f"budget: {safe_text(budget)} must be a tallytree.Budget, for instance Budget(epsilon=2)")
        amounts(budget)
        relation = None if neighboring is None else neighboring_relation(neighboring)
        most = None if max_contributions is None else integer(max_contributions, "max_contributions", least=1)
        if unit is not None:
            choice(unit, "unit", get_args(ProtectedUnit))
        remove_leftovers(self.path)
        window = Window(per, rolling, begins)
        asked = LimitAsked(name, budget, relation, most, unit, strict, approval or Approval(), window)
        if not self.path.exists():
            asked.check_relation()
            self._make(strict=strict is not False)
        with opened_books(self.path, self.timeout, "BEGIN IMMEDIATE") as books:
            books.write(asked.events(books, self.path))

    def set_strict(self, strict: bool, *, approval: Approval | None = None) -> None:
        """Say whether releases of data sets without a limit are refused.

        Raises:
            ValueError, OSError: as `set_limit` does.
        """
        with opened_books(self.path, self.timeout, "BEGIN IMMEDIATE") as books:
            books.write([strict_text(strict, approval or Approval())])

    def check(self, posting: Posting, *, on_changed: OnChanged = "error") -> Standing:
        """Try to record a release and undo it: whether the ledger can be written, and has room.

        The statistics are not known yet. So no room is asked for where the same run and plan were recorded with a
        keyed digest of theirs: the release may turn out to be that one.

        Returns:
            The data set as it is now, without the release.

        Raises:
            BudgetExceeded, ValueError, OSError: as `record` would now.
        """
        return self.tried(posting, on_changed=on_changed).standing

    def tried(self, posting: Posting, *, on_changed: OnChanged = "error") -> Tried:
        """See `check`; also says which file was there, and how far it went, for `record(into=)`."""
        choice(on_changed, "on_changed", get_args(OnChanged))
        remove_leftovers(self.path)
        if not self.path.exists():
            with blank_ledger(self.path, _first_event(strict=False)) as blank:
                return Tried(Ledger(blank).check(posting, on_changed=on_changed), None)
        with opened_books(self.path, self.timeout, "BEGIN IMMEDIATE") as books:
            known, events = tried_posting(books, posting, self.path, on_changed)
            place = EntryPlace(file_identity(self.path), books.running.head)
            books.try_to_write(events)
            return Tried(known, place)

    def record(
        self,
        posting: Posting,
        *,
        into: EntryPlace | None = None,
        statistics: KeyedDigest | None = None,
        inputs: KeyedDigest | None = None,
        on_changed: OnChanged = "error",
    ) -> Recorded:
        """Record a release, as `"started"`; when this returns, it is on the disk, and spent.

        A run that is made again of the same statistics under the same plan is charged once: its entry is returned.

        Args:
            posting: the release.
            into: where the release was tried before (`tried`); another file in its place, or an older one, is refused.
            statistics: gives, for a release id, a digest of the statistics (64 hex digits) that is keyed by the
                publisher's secret; None without a secret.
            inputs: gives such a digest of which files the records are read from; None where that is not known.
            on_changed: whether another release under the name of an earlier run is an error, or is charged as one.

        Returns:
            The entry's number, for `finish`; its release id; and whether the entry was there before.

        Raises:
            BudgetExceeded: the data set's limit has no room for it; nothing was recorded.
            ValueError: another relation or unit, a loss that the limit cannot count, or another release under the name
                of an earlier run; a data set without a limit in a strict ledger; or the file is no ledger.
            OSError: the ledger cannot be written; TimeoutError where another process keeps it locked. A note of the
                error says so where the release is in the ledger nevertheless, or may be.
        """
        choice(on_changed, "on_changed", get_args(OnChanged))
        if into is None and not self.path.exists():
            self._make(strict=False)
        recorded = None
        try:
            with opened_books(self.path, self.timeout, "BEGIN IMMEDIATE") as books:
                self._check_place(books, into)
                recorded, events = recorded_posting(books, posting, self.path, statistics, on_changed, inputs)
                books.write(events)
        except BaseException as error:
            if recorded is not None:
                self._tell_what_may_be_spent(error, recorded)
            raise
        return recorded

    def _check_place(self, books: OpenBooks, into: EntryPlace | None) -> None:
        """Refuse a file that is not the one in which the release was tried, or that lacks its last event."""
        if into is not None and not (file_identity(self.path) == into.file and books.has(into.last)):
            raise ValueError(
                f"ledger: {str(self.path)!r} is not the file that was checked before the records were read; put it "
                "back, and run the release again"
            )

    def _tell_what_may_be_spent(self, error: BaseException, recorded: Recorded) -> None:
        """Note where an entry is in the ledger although to record it failed, for instance at its folder's `fsync`."""
        entry = f"(ledger entry {recorded.number})"
        again = "the same run is repeated free of charge with the same secret; any other attempt spends it again"
        try:
            with opened_books(self.path, self.timeout, "BEGIN") as books:
                if (
                    books.running.last_number >= recorded.number
                    and books.entry(recorded.number).release_id == recorded.release_id
                ):
                    error.add_note(f"{SPENT} {entry}; {again}")
        except (OSError, ValueError, MemoryError) as unread:
            error.add_note(f"{MAY_BE_SPENT} {entry}: {unread}; look with `tallytree ledger` before another attempt")

    def finish(self, number: int, *, shown_once: bool = False) -> None:
        """Note that a recorded release is complete, before it is shown; it makes no difference to what is spent.

        Args:
            number: the entry's.
            shown_once: refuse an entry that is finished already: another process may have shown it.

        Raises:
            ValueError: no release has this number; or another one of its run was recorded after it; or it is finished.
                Its output must not be shown then: two outputs of a run tell whether the records have changed.
            ValueError, OSError: see `contents`.
        """
        with opened_books(self.path, self.timeout, "BEGIN IMMEDIATE") as books:
            entry = books.entry(number)
            later = entry.run is not None and books.of_run(entry.dataset, entry.run)[-1].number != number
            if later or (shown_once and entry.state == "finished"):
                raise ValueError(
                    f"run: another process has {'recorded' if later else 'finished'} the run {entry.run!r} meanwhile; "
                    "its release counts, and this one is not shown"
                )
            if entry.state == "started":
                books.write([event_text("finish", number=number)])


def _first_event(*, strict: bool) -> bytes:
    return event_text("ledger", strict=strict, made_from_format=None)


logger = logging.getLogger(__name__)


class Account:
    """The entry of a planned release in a ledger: checked, then recorded, then finished."""

    def __init__(
        self, ledger: Ledger, posting: Posting, on_changed: OnChanged = "error", *, bound_is_assumed: bool = False
    ) -> None:
        choice(on_changed, "on_changed", get_args(OnChanged))
        self.ledger = ledger
        self.posting = posting
        self.on_changed: OnChanged = on_changed
        self.bound_is_assumed = bound_is_assumed
        self.recorded: Recorded | None = None
        self._checked: EntryPlace | None = None
        self._warned = False
        self._repeatable = False

    def check(self) -> Standing:
        """See `Ledger.check`; nothing is recorded. Warns of a new data set where one of nearly its name is known."""
        self.recorded = None
        tried = self.ledger.tried(self.posting, on_changed=self.on_changed)
        found, self._checked = tried.standing, tried.place
        if not (self._warned or found.sums.number or found.limits):
            self._warn_of_a_similar_name()
        self._warn_of_a_smaller_bound(found)
        return found

    def _warn_of_a_smaller_bound(self, found: Standing) -> None:
        """Warn where fewer records of a person are assumed than an earlier release of the same statistic had."""
        most = found.most_bounds.get(self.posting.statistic, 0)
        mine = self.posting.max_contributions
        if self._warned or not self.bound_is_assumed or mine >= most:
            return
        self._warned = True
        warnings.warn(
            f"max_contributions: {mine} is assumed, but an earlier release of {self.posting.statistic} of the data set "
            f"{self.posting.dataset!r} had {most}; what is spent in all holds only for people with at most {mine} "
            "records. If people have more, give their number",
            stacklevel=2,
        )

    def _warn_of_a_similar_name(self) -> None:
        """Warn where a known name is similar: a mistyped name starts with nothing spent, and with no limit."""
        known = self.ledger.standings() if self.ledger.path.exists() else ()
        limited = near_names(self.posting.dataset, [each.name for each in known if each.limits])
        near = " or ".join(map(repr, limited or near_names(self.posting.dataset, [each.name for each in known])))
        if near:
            self._warned = True
            warnings.warn(
                f"dataset: {self.posting.dataset!r} is new in the ledger {self.ledger.path.name!r}, so nothing of it "
                f"is spent and it has no limit; if {near} is meant, give that name",
                stacklevel=2,
            )

    def record(self, statistics: KeyedDigest | None = None, inputs: KeyedDigest | None = None) -> Recorded:
        """See `Ledger.record`; no noise may be drawn unless this has returned."""
        self._repeatable = statistics is not None
        self.recorded = self.ledger.record(
            self.posting, into=self._checked, statistics=statistics, inputs=inputs, on_changed=self.on_changed
        )
        return self.recorded

    def finish_repeatable(self) -> None:
        """Finish the entry of a release that can be repeated, before anybody sees the release.

        Raises:
            ValueError, OSError: see `Ledger.finish`; the release must not be shown then.
        """
        if self.recorded is not None and self._repeatable:
            self.ledger.finish(self.recorded.number, shown_once=self.on_changed == "charge")

    def finish(self) -> None:
        """Note that any other release was handed over; where that fails, it stays recorded as started, and is spent."""
        if self.recorded is None or self._repeatable:
            return
        try:
            self.ledger.finish(self.recorded.number)
        except (OSError, ValueError) as error:
            logger.warning("the release stays in the ledger as started, which changes nothing else: %s", error)
