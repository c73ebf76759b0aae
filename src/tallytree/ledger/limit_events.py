"""The events of a limit: what is added to the books when it is set, or why it is refused."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from tallytree.accounting.periods import ALL_TIME, Window
from tallytree.accounting.spending import Approval, Standing, admits_more, granted, shown
from tallytree.budget import Budget
from tallytree.kinds.terms import Neighboring, ProtectedUnit
from tallytree.ledger.books import OpenBooks
from tallytree.ledger.events import amounts, approval_facts, event_text
from tallytree.ledger.similar_names import near_names


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
        known = books.datasets.get(self.dataset)
        terms = self._made(books, path) if known is None else self._stated(known)
        if known is not None:
            known.check_limit(self.budget, self.window)
            self._check_reason(known)
            self._warn_of_idle(known)
        window = None if self.window == ALL_TIME else str(self.window)
        facts = {**amounts(self.budget), **approval_facts(self.approval), "window": window}
        limit = event_text("limit", dataset=self.dataset, **facts)
        changed = [] if self.strict in (None, books.strict) else [strict_text(bool(self.strict), self.approval)]
        return [*changed, *terms, limit]

    def _made(self, books: OpenBooks, path: Path) -> list[bytes]:
        """The event that makes the data set."""
        self.check_relation()
        near = near_names(self.dataset, [*books.datasets])
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
