"""What a ledger records: releases, limits, and who approved them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

from tallytree.accounting.losses import Loss
from tallytree.accounting.periods import ALL_TIME, Period, Window
from tallytree.budget import Budget
from tallytree.kinds.registry import KINDS
from tallytree.kinds.terms import Neighboring, Unit

State = Literal["started", "finished"]
"""`"started"`: recorded, and maybe drawn; `"finished"`: handed over or saved, or, of a release that can be repeated,
complete, so that it may have been seen. Both are spent."""

MOST_CHARACTERS = 500
"""Of a text in an approval."""


@dataclass(frozen=True, kw_only=True)
class Approval:
    """Who approved something, why, and a reference to it; each may be left out.

    Attributes:
        approved_by: who approved it.
        reason: why.
        ticket: a reference, such as the number of a ticket or of a decision.

    Raises:
        TypeError: something that is not text.
        ValueError: text that is empty, too long, or cannot be printed.
    """

    approved_by: str | None = None
    reason: str | None = None
    ticket: str | None = None

    def __post_init__(self) -> None:
        """Check the texts."""
        for each in fields(self):
            text = getattr(self, each.name)
            if text is None:
                continue
            if not isinstance(text, str):
                raise TypeError(f"{each.name}: {type(text).__name__} must be text")
            if not text.strip() or not text.isprintable() or len(text) > MOST_CHARACTERS:
                raise ValueError(
                    f"{each.name}: {text[:60]!r} must be one line of 1 to {MOST_CHARACTERS} printable characters"
                )

    def stated(self) -> dict[str, str]:
        """What was given, by name."""
        return {each.name: text for each in fields(self) if (text := getattr(self, each.name)) is not None}


def protects_all_records(statistic: str) -> bool:
    """Whether releases of a statistic protect a person with any number of records, whatever `max_contributions` is.

    A ledger may have releases of statistics that only a later version knows: those count as bound by theirs.
    """
    return statistic in KINDS and KINDS[statistic].protects_all_records


@dataclass(frozen=True, kw_only=True)
class Posting:
    """What is recorded of a release; nothing in it depends on a record.

    Attributes:
        dataset: the declared name of the data set.
        statistic: the name of what is released.
        mechanism: the mechanism's name.
        neighboring: the neighboring relation.
        max_contributions: the most records of one person.
        unit: what a person has so many of.
        loss: what the release spends.
        run: the name of the run; None for a release that cannot be made again.
        plan: 64 hex digits, the public digest of the spec and of the planned statement; None where none is known.
        approval: who approved the release, and why.
        period: the days that its records are about; None where that is not known.
        revises: the id of the earlier release that it takes the place of; None of one that revises none.
        parts: public digests of parts of the plan, by what they are called: "the spec" and others. They only say which
            part of another plan differs; None where they are not known.
    """

    dataset: str
    statistic: str
    mechanism: str
    neighboring: Neighboring
    max_contributions: int
    unit: Unit
    loss: Loss
    run: str | None = None
    plan: str | None = None
    approval: Approval = Approval()
    period: Period | None = None
    revises: str | None = None
    parts: Mapping[str, str] | None = field(default=None, hash=False)

    @property
    def protects_all_records(self) -> bool:
        """Whether it protects a person with any number of records, whatever `max_contributions` is."""
        return protects_all_records(self.statistic)


@dataclass(frozen=True, kw_only=True)
class Entry(Posting):
    """A release that was recorded.

    Attributes:
        number: its number in the ledger.
        recorded_at: when, in UTC, as 2025-12-31T23:59:59Z.
        state: `"started"` or `"finished"`; both are spent.
        release_id: 32 random hex digits, which its folder has too.
        statistics: 64 hex digits, a digest of the statistics that is keyed by the publisher's secret; None without one.
        position: its place among all events of the ledger.
        version: the version of tallytree that recorded it.
        inputs: 64 hex digits, a digest of which files the records were read from, keyed by the publisher's secret; None
            where that is not known.
    """

    number: int
    recorded_at: str
    state: State
    release_id: str
    statistics: str | None
    position: int
    version: str
    inputs: str | None = None


@dataclass(frozen=True, kw_only=True)
class LimitEntry:
    """A limit that was set.

    Attributes:
        set_at: when, in UTC, as 2025-12-31T23:59:59Z.
        limit: the limit.
        raised: whether it admits losses that the limit before it did not.
        approval: who approved it, and why.
        position: its place among all events of the ledger.
        window: the windows of time in each of which the releases together may spend that.
    """

    set_at: str
    limit: Budget
    raised: bool
    approval: Approval
    position: int
    window: Window = ALL_TIME
