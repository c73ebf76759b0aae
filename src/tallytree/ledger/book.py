"""The ledger: what every release of a data set has spent, in one SQLite file that processes share.

A release is recorded before its noise is drawn and is never taken back, so one that crashes counts as spent. A data
set is known by the name that its publisher declares, never by its content: a corrected file is the same people.

What is added up, and how a limit counts it, is in `spending`.

**Why the sum holds across processes.** Reading the total, comparing and inserting are one transaction that begins by
taking SQLite's write lock (`BEGIN IMMEDIATE`). The journal is a rollback journal, not a write-ahead log: a
release writes once, a log needs shared memory that network file systems lack, and would leave entries in a second file
that a copy of the first forgets. With it `synchronous=EXTRA` is needed: with FULL, a power cut just after a commit can
bring the journal back and undo it.
"""

from __future__ import annotations

import difflib
import logging
import os
import re
import sqlite3
import tempfile
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Literal, cast, get_args

from tallytree.accounting.spending import DataSet, Entry, Loss, Posting
from tallytree.budget import Budget
from tallytree.terms import Neighboring, Unit, neighboring_relation
from tallytree.validate import integer

logger = logging.getLogger(__name__)

APPLICATION_ID = 0x54546C67
FORMAT_VERSION = 1

FileIdentity = tuple[int, int]
"""A file's device and inode, which stay as they are while SQLite writes to it."""

_PRAGMAS = ("synchronous = EXTRA", "fullfsync = ON", "foreign_keys = ON", "cell_size_check = ON")

_SCHEMA = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT_VERSION};
CREATE TABLE datasets (
    name TEXT PRIMARY KEY NOT NULL,
    neighboring TEXT NOT NULL CHECK (neighboring IN ('add_remove', 'change_one')),
    max_contributions INTEGER NOT NULL CHECK (max_contributions >= 1),
    unit TEXT CHECK (unit IN ('record', 'trip', 'membership'))
);
CREATE TABLE limits (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    dataset TEXT NOT NULL REFERENCES datasets (name),
    set_at TEXT NOT NULL,
    epsilon TEXT,
    delta TEXT,
    rho TEXT
);
CREATE TABLE releases (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    dataset TEXT NOT NULL REFERENCES datasets (name),
    recorded_at TEXT NOT NULL,
    statistic TEXT NOT NULL,
    mechanism TEXT NOT NULL,
    epsilon TEXT,
    delta TEXT,
    rho TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('started', 'finished')),
    version TEXT NOT NULL
);
CREATE TRIGGER releases_stay BEFORE DELETE ON releases
BEGIN SELECT RAISE(ABORT, 'a ledger gives nothing back'); END;
CREATE TRIGGER releases_do_not_change
BEFORE UPDATE OF number, dataset, recorded_at, statistic, mechanism, epsilon, delta, rho, version ON releases
BEGIN SELECT RAISE(ABORT, 'a ledger gives nothing back'); END;
CREATE TRIGGER limits_stay BEFORE DELETE ON limits
BEGIN SELECT RAISE(ABORT, 'a later limit replaces an earlier one'); END;
CREATE TRIGGER limits_do_not_change BEFORE UPDATE ON limits
BEGIN SELECT RAISE(ABORT, 'a later limit replaces an earlier one'); END;
CREATE TRIGGER datasets_stay BEFORE DELETE ON datasets
BEGIN SELECT RAISE(ABORT, 'a ledger gives nothing back'); END;
CREATE TRIGGER datasets_do_not_change BEFORE UPDATE OF name, neighboring, max_contributions ON datasets
BEGIN SELECT RAISE(ABORT, 'a data set keeps its terms'); END;
CREATE TRIGGER releases_are_not_replaced BEFORE INSERT ON releases
WHEN EXISTS (SELECT 1 FROM releases WHERE number = NEW.number)
BEGIN SELECT RAISE(ABORT, 'a ledger gives nothing back'); END;
CREATE TRIGGER limits_are_not_replaced BEFORE INSERT ON limits
WHEN EXISTS (SELECT 1 FROM limits WHERE number = NEW.number)
BEGIN SELECT RAISE(ABORT, 'a later limit replaces an earlier one'); END;
CREATE TRIGGER datasets_are_not_replaced BEFORE INSERT ON datasets
WHEN EXISTS (SELECT 1 FROM datasets WHERE name = NEW.name)
BEGIN SELECT RAISE(ABORT, 'a data set keeps its terms'); END;
CREATE TRIGGER datasets_keep_their_unit BEFORE UPDATE OF unit ON datasets WHEN OLD.unit IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a data set keeps its terms'); END;
"""
"""Amounts are exact rationals, as the text p/q. No fact in it depends on a record."""


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
        >>> from tallytree.ledger.book import Ledger
        >>> ledger = Ledger(tempfile.mkdtemp() + "/ledger.db")
        >>> ledger.set_limit("people", tt.Budget(epsilon=2), neighboring="add_remove")
        >>> ledger.remaining("people")
        {'epsilon': Fraction(2, 1)}
    """

    path: Path
    timeout: float = field(default=10.0, kw_only=True)

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 10.0) -> None:
        if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
            raise TypeError(f"ledger: {path!r} must be the path of a file, or a tallytree.ledger.book.Ledger")
        if not 0 <= timeout <= 1e6:
            raise ValueError(f"timeout: {timeout!r} must be a number of seconds, 0 or more")
        object.__setattr__(self, "path", Path(path))
        object.__setattr__(self, "timeout", float(timeout))

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, timeout: float = 10.0) -> Ledger:
        """Make an empty ledger.

        Raises:
            FileExistsError: something is there.
            OSError: the file cannot be made.
        """
        ledger = cls(path, timeout=timeout)
        if not ledger._make():
            raise FileExistsError(f"ledger: {str(ledger.path)!r} exists; open it with Ledger(path), or choose another")
        return ledger

    # --- Looking ---

    def datasets(self) -> tuple[DataSet, ...]:
        """Every data set, by name.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file is no ledger, or is damaged.
            OSError: it cannot be read; TimeoutError where another process keeps it locked.
        """
        with self._transaction("BEGIN") as connection:
            names = [name for (name,) in connection.execute("SELECT name FROM datasets ORDER BY name")]
            return tuple(self._known(connection, name) for name in names)

    def dataset(self, name: str) -> DataSet:
        """One data set.

        Raises:
            ValueError: the ledger does not know it.
            ValueError, OSError: see `datasets`.
        """
        with self._transaction("BEGIN") as connection:
            return self._known(connection, checked_name(name))

    def entries(self, dataset: str | None = None) -> tuple[Entry, ...]:
        """The releases in the order they were recorded, of one data set or of all; raises as `dataset` does."""
        found = self.datasets() if dataset is None else (self.dataset(dataset),)
        return tuple(sorted((entry for one in found for entry in one.entries), key=lambda entry: entry.number))

    def spent(self, dataset: str) -> dict[str, Fraction]:
        """What a data set's releases have spent, exactly; see `DataSet.spent`. Raises as `dataset` does."""
        return self.dataset(dataset).spent

    def remaining(self, dataset: str) -> dict[str, Fraction] | None:
        """What a data set's limit leaves, exactly; None without a limit. Raises as `dataset` does."""
        return self.dataset(dataset).remaining

    # --- Writing ---

    def set_limit(
        self,
        dataset: str,
        budget: Budget,
        *,
        neighboring: str | None = None,
        max_contributions: int | None = None,
        unit: Unit | None = None,
    ) -> None:
        """Set what all releases of a data set together may spend, those already recorded included.

        A later limit replaces an earlier one; the ledger keeps both.

        Args:
            dataset: the data set's declared name.
            budget: the limit: pure ε, (ε, δ) or ρ. It counts releases as `tallytree.accounting.spending` says.
            neighboring: the relation of all its releases; may be left out where the ledger knows the data set.
            max_contributions: the most records of one person; by default 1, or what the ledger knows.
            unit: `"record"`, `"trip"` or `"membership"`; by default that of the first release.

        Raises:
            ValueError: other terms than the ledger has, or less than is spent already; nothing was changed.
            TypeError: an argument of the wrong kind.
            OSError: the ledger cannot be written, or is locked.
        """
        name = checked_name(dataset)
        if not isinstance(budget, Budget):
            raise TypeError(f"budget: {budget!r} must be a tallytree.Budget, for instance Budget(epsilon=2)")
        relation = None if neighboring is None else neighboring_relation(neighboring)
        most = None if max_contributions is None else integer(max_contributions, "max_contributions", least=1)
        if unit is not None and unit not in get_args(Unit):
            raise ValueError(f'unit: {unit!r} is not known; choose "record", "trip" or "membership"')
        if not self.path.exists() and relation is not None:
            self._make()
        with self._transaction("BEGIN IMMEDIATE") as connection:
            known = _read(connection, name)
            if known is None and relation is None:
                raise ValueError(
                    f"neighboring: the ledger does not know the data set {name!r} yet; say which relation its "
                    'releases have, "add_remove" or "change_one"'
                )
            given = relation or cast(DataSet, known).neighboring
            terms = given, most or (1 if known is None else known.max_contributions), unit
            _register(connection, known, name, *terms)
            self._known(connection, name).check_limit(budget)
            connection.execute(
                "INSERT INTO limits (dataset, set_at, epsilon, delta, rho) VALUES (?, ?, ?, ?, ?)",
                (name, _now(), _text(budget.epsilon), _text(budget.delta), _text(budget.rho)),
            )

    def check(self, posting: Posting) -> DataSet:
        """Try to record a release and undo it: whether the ledger can be written, and has room.

        Returns:
            The data set as it is now, without the release.

        Raises:
            BudgetExceeded, ValueError, OSError: as `record` would now.
        """
        if not self.path.exists():
            with self._blank() as blank:
                return Ledger(blank).check(posting)
        with self._transaction("BEGIN IMMEDIATE") as connection:
            before = self._insert(connection, posting)[1]
            connection.rollback()
            return before

    def record(self, posting: Posting, *, into: FileIdentity | None = None) -> int:
        """Record a release, as `"started"`; when this returns, it is on the disk, and spent.

        Args:
            posting: the release.
            into: the file that was checked before; another one in its place is refused.

        Returns:
            The entry's number, for `finish`.

        Raises:
            BudgetExceeded: the data set's limit has no room for it; nothing was recorded.
            ValueError: another relation or unit, or a loss that the limit cannot count; or the file is no ledger.
            OSError: the ledger cannot be written; TimeoutError where another process keeps it locked.
        """
        if into is None and not self.path.exists():
            self._make()
        with self._transaction("BEGIN IMMEDIATE") as connection:
            if into is not None and self.identity() != into:
                raise ValueError(
                    f"ledger: {str(self.path)!r} is not the file that was checked before the records were read; put it "
                    "back, and run the release again"
                )
            return self._insert(connection, posting)[0]

    def identity(self) -> FileIdentity | None:
        """Which file is there now; None if there is none."""
        if not self.path.exists():
            return None
        status = self.path.stat()
        return status.st_dev, status.st_ino

    def finish(self, number: int) -> None:
        """Note that a recorded release was handed over; it makes no difference to what is spent."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            connection.execute("UPDATE releases SET state = 'finished' WHERE number = ?", (number,))

    # --- The file ---

    def _insert(self, connection: sqlite3.Connection, posting: Posting) -> tuple[int, DataSet]:
        checked_name(posting.dataset)
        known = _read(connection, posting.dataset)
        _register(connection, known, posting.dataset, posting.neighboring, posting.max_contributions, posting.unit)
        before = self._known(connection, posting.dataset)
        before.check_room(posting.loss)
        cursor = connection.execute(
            "INSERT INTO releases (dataset, recorded_at, statistic, mechanism, epsilon, delta, rho, state, version) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, 'started', ?)",
            (
                posting.dataset,
                _now(),
                posting.statistic,
                posting.mechanism,
                _text(posting.loss.epsilon),
                _text(posting.loss.delta),
                _text(posting.loss.rho) or NO_RHO,
                metadata.version("tallytree"),
            ),
        )
        return cast(int, cursor.lastrowid), before

    def _known(self, connection: sqlite3.Connection, name: str) -> DataSet:
        found = _read(connection, name)
        if found is None:
            known = [repr(other) for (other,) in connection.execute("SELECT name FROM datasets ORDER BY name")]
            raise ValueError(
                f"dataset: the ledger {str(self.path)!r} has no {name!r}; it has {', '.join(known) or 'none yet'}"
            )
        return found

    @contextmanager
    def _transaction(self, begin: Literal["BEGIN", "BEGIN IMMEDIATE"]) -> Iterator[sqlite3.Connection]:
        """A transaction on a checked file: committed at the end, rolled back after an error.

        The file must not be opened by other means in this process: closing it again would drop SQLite's locks.
        """
        if not self.path.exists():
            raise FileNotFoundError(f"ledger: no file at {str(self.path)!r}; give the path of a ledger")
        if not self.path.is_file():
            raise ValueError(f"ledger: {str(self.path)!r} is not a file; give the path of a ledger")
        uri = f"{self.path.absolute().as_uri()}?mode=rw"  # never makes the file
        with (
            _in_our_words(self.path),
            closing(sqlite3.connect(uri, uri=True, timeout=self.timeout, isolation_level=None)) as connection,
        ):
            for pragma in _PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
            (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
            if journal != "delete":
                raise ValueError(
                    f"ledger: {str(self.path)!r} has the journal mode {journal!r}, in which a copy can miss entries; "
                    "set it back with `PRAGMA journal_mode = DELETE`"
                )
            connection.execute(begin)
            try:
                self._verify(connection)
                yield connection
                if connection.in_transaction:
                    connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.rollback()

    def _verify(self, connection: sqlite3.Connection) -> None:
        """Refuse a file that is no ledger, is damaged, or comes from another version."""
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        if application != APPLICATION_ID:
            raise ValueError(f"ledger: {str(self.path)!r} is not a tallytree ledger; give the path of one")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version != FORMAT_VERSION:
            raise ValueError(
                f"ledger: {str(self.path)!r} has format version {version}; this tallytree reads {FORMAT_VERSION}"
            )
        whole = connection.execute("PRAGMA quick_check(1)").fetchall() == [("ok",)]
        if not whole or _tables(connection) != _expected_tables():
            raise _damaged(self.path)

    def _make(self) -> bool:
        """Make the file, whole at once, so that nobody meets a ledger without its tables; False if it was there."""
        with self._blank() as blank:
            try:
                os.link(blank, self.path)
            except FileExistsError:
                return False
        folder = os.open(self.path.absolute().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return True

    @contextmanager
    def _blank(self) -> Iterator[Path]:
        """An empty ledger beside the path, for as long as the context lasts."""
        folder = self.path.absolute().parent
        try:
            handle, name = tempfile.mkstemp(prefix=f".{self.path.name}.", suffix=".partial", dir=folder)  # mode 0600
        except OSError as error:
            remedy = f"{error.strerror}; the ledger {self.path.name!r} cannot be made there"
            raise type(error)(error.errno, remedy, str(folder)) from None
        os.close(handle)
        try:
            with _in_our_words(self.path), closing(sqlite3.connect(name, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
            yield Path(name)
        finally:
            Path(name).unlink()


class Account:
    """A planned release's place in a ledger: checked, then recorded, then finished."""

    def __init__(self, ledger: Ledger, posting: Posting) -> None:
        self.ledger = ledger
        self.posting = posting
        self._number: int | None = None
        self._checked: FileIdentity | None = None
        self._warned = False

    def check(self) -> DataSet:
        """See `Ledger.check`; nothing is recorded. Warns of a new data set where one of nearly its name is known."""
        self._checked = self.ledger.identity()
        found = self.ledger.check(self.posting)
        if not (self._warned or found.entries or found.limit):
            self._warn_of_a_likely_slip()
        return found

    def _warn_of_a_likely_slip(self) -> None:
        """A name that was mistyped starts with nothing spent, and with no limit."""
        known = [each.name for each in self.ledger.datasets()] if self.ledger.path.exists() else []
        near = _nearest(self.posting.dataset, known)
        if near is not None:
            self._warned = True
            warnings.warn(
                f"dataset: {self.posting.dataset!r} is new in the ledger {self.ledger.path.name!r}, so nothing of it "
                f"is spent and it has no limit; if {near!r} is meant, give that name",
                stacklevel=2,
            )

    def record(self) -> None:
        """See `Ledger.record`; no noise may be drawn unless this has returned."""
        self._number = self.ledger.record(self.posting, into=self._checked)

    def finish(self) -> None:
        """Note that the release was handed over; where that fails, it stays recorded as started, and is spent."""
        if self._number is None:
            return
        try:
            self.ledger.finish(self._number)
        except (OSError, ValueError) as error:
            logger.warning("the release stays in the ledger as started, which changes nothing else: %s", error)


def _nearest(name: str, known: Sequence[str]) -> str | None:
    """The data set of nearly this name, whatever the capitals; None where there is none, or it is this one."""
    folded = {each.casefold(): each for each in known if each != name}
    near = difflib.get_close_matches(name.casefold(), [*folded], n=1, cutoff=0.85)
    return folded[near[0]] if near and name not in known else None


def checked_name(dataset: object) -> str:
    """A data set's name; the same text in another encoding of its accents is the same name.

    Raises:
        TypeError: not text.
        ValueError: empty, longer than 200 characters, or with spaces around it or characters that cannot be seen.
    """
    if not isinstance(dataset, str):
        raise TypeError(f"dataset: {dataset!r} must be the name of the data set in the ledger")
    if not dataset or dataset != dataset.strip() or not dataset.isprintable() or len(dataset) > 200:
        raise ValueError(
            f"dataset: {dataset[:200]!r} must be a name of 1 to 200 printable characters without spaces around it"
        )
    return unicodedata.normalize("NFC", dataset)


def _tables(connection: sqlite3.Connection) -> dict[str, str]:
    """The definitions of tables and triggers by name; those of SQLite itself aside."""
    return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"))


@cache
def _expected_tables() -> dict[str, str]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(_SCHEMA)
        return _tables(connection)


def _read(connection: sqlite3.Connection, name: str) -> DataSet | None:
    terms = connection.execute(
        "SELECT neighboring, max_contributions, unit FROM datasets WHERE name = ?", (name,)
    ).fetchone()
    if terms is None:
        return None
    neighboring, max_contributions, unit = terms
    rows = connection.execute(
        "SELECT epsilon, delta, rho FROM limits WHERE dataset = ? ORDER BY number DESC LIMIT 1", (name,)
    )
    limit = next((Budget(**dict(zip(("epsilon", "delta", "rho"), _rationals(row), strict=True))) for row in rows), None)
    entries = tuple(
        Entry(
            dataset=name,
            neighboring=neighboring,
            max_contributions=max_contributions,
            unit=unit,
            number=number,
            recorded_at=recorded_at,
            statistic=statistic,
            mechanism=mechanism,
            loss=_loss(amounts),
            state=state,
        )
        for number, recorded_at, statistic, mechanism, state, *amounts in connection.execute(
            "SELECT number, recorded_at, statistic, mechanism, state, epsilon, delta, rho FROM releases "
            "WHERE dataset = ? ORDER BY number",
            (name,),
        )
    )
    return DataSet(
        name=name,
        neighboring=neighboring,
        max_contributions=max_contributions,
        unit=unit,
        limit=limit,
        entries=entries,
    )


def _register(
    connection: sqlite3.Connection,
    known: DataSet | None,
    name: str,
    neighboring: Neighboring,
    max_contributions: int,
    unit: Unit | None,
) -> None:
    """Hold a data set to its terms, or give it these."""
    if known is None:
        connection.execute("INSERT INTO datasets VALUES (?, ?, ?, ?)", (name, neighboring, max_contributions, unit))
        return
    known.check_terms(neighboring, max_contributions, unit)
    if known.unit is None and unit is not None:
        connection.execute("UPDATE datasets SET unit = ? WHERE name = ?", (unit, name))


def _text(amount: Fraction | None) -> str | None:
    return None if amount is None else str(amount)


NO_RHO = "none"
"""In place of a ρ where none holds; versions that know of no such release refuse the ledger as damaged."""

_RATIONAL = re.compile(r"[0-9]+(/[1-9][0-9]*)?")


def _rationals(row: Sequence[str | None]) -> list[Fraction | None]:
    for text in row:
        if text is not None and not _RATIONAL.fullmatch(text):
            raise sqlite3.DatabaseError(f"{text!r} is not an amount")
    return [None if text is None else Fraction(text) for text in row]


def _loss(row: Sequence[str | None]) -> Loss:
    *known, last = row
    epsilon, delta, rho = _rationals([*known, None if last == NO_RHO else last])
    if last is None or (epsilon is None) != (delta is None) or (rho is None and not delta):
        raise sqlite3.DatabaseError("an amount is missing")
    return Loss(epsilon, delta, rho)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _damaged(path: Path) -> ValueError:
    return ValueError(
        f"ledger: {str(path)!r} is not a tallytree ledger, or a damaged one; give the path of one, or restore it from "
        "a copy that has all releases"
    )


@contextmanager
def _in_our_words(path: Path) -> Iterator[None]:
    """SQLite's errors as the library's, by their primary code."""
    try:
        yield
    except sqlite3.Error as error:
        name = str(path)
        match getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                said: Exception = TimeoutError(
                    f"ledger: {name!r} is locked by another process; try again when that is done"
                )
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
                said = PermissionError(f"ledger: {name!r} cannot be written to; a release has to be recorded in it")
            case sqlite3.SQLITE_CANTOPEN:
                said = PermissionError(
                    f"ledger: {name!r} cannot be opened; it and its folder have to be readable and writable"
                )
            case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR:
                said = OSError(f"ledger: {name!r} could not be written ({error}); is the disk full?")
            case sqlite3.SQLITE_NOMEM:
                said = MemoryError(f"ledger: {name!r} needs more memory than there is")
            case _:
                said = _damaged(path)
        raise said from error
