"""The entry of one release in a ledger: checked, then recorded, then finished."""

from __future__ import annotations

import logging
import warnings
from typing import get_args

from tallytree.accounting.spending import Posting, Standing
from tallytree.ledger.ledger import Ledger
from tallytree.ledger.release_events import EntryPlace, Recorded
from tallytree.ledger.runs import KeyedDigest, OnChanged
from tallytree.ledger.similar_names import near_names
from tallytree.support.validate import choice

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
