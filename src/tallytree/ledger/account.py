"""The entry of one release in a ledger: checked, then recorded, then finished."""

from __future__ import annotations

import logging
import warnings

from tallytree.accounting.spending import DataSet, Posting
from tallytree.ledger.database import FileIdentity
from tallytree.ledger.dataset_names import nearest_name
from tallytree.ledger.ledger import Ledger

logger = logging.getLogger(__name__)


class Account:
    """The entry of a planned release in a ledger: checked, then recorded, then finished."""

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
            self._warn_of_a_similar_name()
        return found

    def _warn_of_a_similar_name(self) -> None:
        """Warn where a known name is similar: a mistyped name starts with nothing spent, and with no limit."""
        known = [each.name for each in self.ledger.datasets()] if self.ledger.path.exists() else []
        near = nearest_name(self.posting.dataset, known)
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
