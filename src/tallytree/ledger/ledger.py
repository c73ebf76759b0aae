"""The ledger: what every release of a data set has spent, in one SQLite file that several processes share.

A release is recorded before its noise is drawn, and an entry is never removed, so a release that crashes counts as
spent. A data set is identified by the name that its publisher declares, never by its content: a corrected file is about
the same people.

`tallytree.accounting.spending` says what is added up and how a limit counts it; `database` says why the sum holds where
several processes write.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import cast, get_args

from tallytree.accounting.spending import DataSet, Entry, Posting
from tallytree.budget import Budget
from tallytree.ledger.database import FileIdentity, blank_ledger, file_identity, make_ledger, transaction
from tallytree.ledger.dataset_names import checked_name
from tallytree.ledger.rows import insert_limit, insert_release, known_data_set, read_data_set, register_data_set
from tallytree.terms import Unit, neighboring_relation
from tallytree.validate import integer, path_text, safe_text, text

_RELATION_IS_MISSING = (
    "neighboring: the ledger does not know the data set {!r} yet; say which relation its releases have, "
    '"add_remove" or "change_one"'
)


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
    def create(cls, path: str | os.PathLike[str], *, timeout: float = 10.0) -> Ledger:
        """Make an empty ledger.

        Raises:
            FileExistsError: something is there.
            OSError: the file cannot be made.
        """
        ledger = cls(path, timeout=timeout)
        if not make_ledger(ledger.path):
            raise FileExistsError(f"ledger: {str(ledger.path)!r} exists; open it with Ledger(path), or choose another")
        return ledger

    # --- Reading ---

    def datasets(self) -> tuple[DataSet, ...]:
        """Every data set, by name.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file is no ledger, or is damaged.
            OSError: it cannot be read; TimeoutError where another process keeps it locked.
        """
        with transaction(self.path, self.timeout, "BEGIN") as connection:
            names = [name for (name,) in connection.execute("SELECT name FROM datasets ORDER BY name")]
            return tuple(known_data_set(connection, name, self.path) for name in names)

    def dataset(self, name: str) -> DataSet:
        """One data set.

        Raises:
            ValueError: the ledger does not know it.
            ValueError, OSError: see `datasets`.
        """
        with transaction(self.path, self.timeout, "BEGIN") as connection:
            return known_data_set(connection, checked_name(name), self.path)

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
            raise TypeError(f"budget: {safe_text(budget)} must be a tallytree.Budget, for instance Budget(epsilon=2)")
        relation = None if neighboring is None else neighboring_relation(neighboring)
        most = None if max_contributions is None else integer(max_contributions, "max_contributions", least=1)
        if unit is not None and text(unit, "unit", '"record", "trip" or "membership"') not in get_args(Unit):
            raise ValueError(f'unit: {unit!r} is not known; choose "record", "trip" or "membership"')
        if not self.path.exists():
            if relation is None:
                raise ValueError(_RELATION_IS_MISSING.format(name))
            make_ledger(self.path)
        with transaction(self.path, self.timeout, "BEGIN IMMEDIATE") as connection:
            known = read_data_set(connection, name)
            if known is None and relation is None:
                raise ValueError(_RELATION_IS_MISSING.format(name))
            given = relation or cast(DataSet, known).neighboring
            terms = given, most or (1 if known is None else known.max_contributions), unit
            register_data_set(connection, known, name, *terms)
            known_data_set(connection, name, self.path).check_limit(budget)
            insert_limit(connection, name, budget)

    def check(self, posting: Posting) -> DataSet:
        """Try to record a release and undo it: whether the ledger can be written, and has room.

        Returns:
            The data set as it is now, without the release.

        Raises:
            BudgetExceeded, ValueError, OSError: as `record` would now.
        """
        if not self.path.exists():
            with blank_ledger(self.path) as blank:
                return Ledger(blank).check(posting)
        with transaction(self.path, self.timeout, "BEGIN IMMEDIATE") as connection:
            before = insert_release(connection, posting, self.path)[1]
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
            make_ledger(self.path)
        with transaction(self.path, self.timeout, "BEGIN IMMEDIATE") as connection:
            if into is not None and self.identity() != into:
                raise ValueError(
                    f"ledger: {str(self.path)!r} is not the file that was checked before the records were read; put it "
                    "back, and run the release again"
                )
            return insert_release(connection, posting, self.path)[0]

    def identity(self) -> FileIdentity | None:
        """Which file is there now; None if there is none."""
        return file_identity(self.path)

    def finish(self, number: int) -> None:
        """Note that a recorded release was handed over; it makes no difference to what is spent."""
        with transaction(self.path, self.timeout, "BEGIN IMMEDIATE") as connection:
            connection.execute("UPDATE releases SET state = 'finished' WHERE number = ?", (number,))
