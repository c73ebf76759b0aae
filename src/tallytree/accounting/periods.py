"""Periods of releases, and the windows of time in which a limit counts them: exact arithmetic on dates, no files.

**What a limit of a window promises.** Let every release be made of records of its own period only, and let a person's
records that lie in a window W be changed: added and removed, or replaced, up to the contribution bound of each release.
A release whose period has no day in common with W is made of the same records as before, whatever the others have
published, so it loses nothing. The others are those that the limit counts for W. Their losses add up by the argument of
`accounting.spending`, which holds also where a later release is chosen after earlier ones were seen. So what all
releases tell of a person's records in W is bounded by the limit. Of records in several windows it is bounded by the
sum of what the limit admits for each: who is to be protected for longer needs a limit for longer.

A release counts in every window that its period meets; one without a period counts in every window. Both are on the
safe side: to count a release where it loses nothing admits less.

**Windows.** A calendar window begins each week (on Monday), month or year, or at each of them from a date. A rolling
window is any 7, 31 or 366 days that follow each other: as many as the longest week, month or year has, so a limit that
rolls implies the one of the calendar.

**Few windows matter.** Go through the windows in order. A release comes in with the first window that has the first day
of its period, and goes out later. So between two such windows the sums only fall, and every sum that occurs is at most
that of the first window that has the first day of some period, or of one that only releases without a period meet. Of
the windows that meet one period, the first one matters, too.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import MINYEAR, date, timedelta
from functools import reduce
from itertools import accumulate
from operator import itemgetter
from typing import Literal, cast, get_args

from tallytree.accounting.losses import LossSums
from tallytree.support.validate import choice, flag

WindowLength = Literal["week", "month", "year", "all"]
"""How long a window is; `"all"`: all time."""

ROLLING_DAYS: Mapping[str, int] = {"week": 7, "month": 31, "year": 366}
"""How many days a window has that rolls."""

_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_WEEK = r"[0-9]{4}-W[0-9]{2}"
_NAME = re.compile(rf"{_DAY}|{_WEEK}|[0-9]{{4}}-[0-9]{{2}}")
"""A run's name that is a period."""
_FIRST_MONDAY = date(2001, 1, 1)
"""The first day of a year, a month and a week."""
FIRST_YEAR, LAST_YEAR = MINYEAR + 1, 9998
"""Years in which every window lies within what a calendar has."""


@dataclass(frozen=True, order=True)
class Period:
    """The days that a release is about.

    Attributes:
        first: the first of them.
        last: the last of them.
    """

    first: date
    last: date

    @classmethod
    def parse(cls, text: str) -> Period:
        """The period that a text names: a day, an ISO week, a month, a year, or two days with a slash between.

        Raises:
            ValueError: it names none.
        """
        try:
            first, last = _days(text)
        except (ValueError, OverflowError):  # the last week of the calendar has days beyond it
            raise ValueError(
                f"period: {text[:60]!r} names no days; write a day (2026-03-04), a week (2026-W10), a month (2026-03), "
                "a year (2026), or the first and the last day (2026-03-04/2026-03-10)"
            ) from None
        if not first <= last:
            raise ValueError(f"period: {text!r} ends before it begins; write the first day before the last one")
        if first.year < FIRST_YEAR or last.year > LAST_YEAR:
            raise ValueError(f"period: {text!r} must lie in the years {FIRST_YEAR} to {LAST_YEAR}")
        return cls(first, last)

    @classmethod
    def of_name(cls, run: str) -> Period | None:
        """The period that the name of a run is: a day, an ISO week or a month; None where it is anything else.

        A longer name may be about more days than the one that it has in it ("since 2026-03-04"). A year is no period:
        a name of four digits may be a number.
        """
        try:
            return cls.parse(run) if _NAME.fullmatch(run) else None
        except ValueError:  # 2026-13-45 is no date
            return None

    def __str__(self) -> str:
        """As it is stored: one day, or the first and the last day."""
        first, last = self.first.isoformat(), self.last.isoformat()
        return first if first == last else f"{first}/{last}"

    def meets(self, other: Period) -> bool:
        """Whether the two have a day in common."""
        return self.first <= other.last and other.first <= self.last


Dated = Mapping[Period | None, LossSums]
"""What releases lost, by their period; None: those without one, which count in every window."""


def _days(text: str) -> tuple[date, date]:
    """The first and the last day that a text names.

    Raises:
        ValueError: it names none.
    """
    if re.fullmatch(rf"{_DAY}/{_DAY}", text):
        begins, ends = text.split("/")
        return date.fromisoformat(begins), date.fromisoformat(ends)
    if re.fullmatch(_DAY, text):
        return (date.fromisoformat(text),) * 2
    if re.fullmatch(_WEEK, text):
        monday = date.fromisocalendar(int(text[:4]), int(text[6:]), 1)
        return monday, monday + timedelta(6)
    if re.fullmatch(r"[0-9]{4}(-[0-9]{2})?", text):
        length: WindowLength = "month" if len(text) > len("2026") else "year"
        first = date.fromisoformat(f"{text}-01" if length == "month" else f"{text}-01-01")
        return first, Window(length).starting(first).last
    raise ValueError(text)


@dataclass(frozen=True)
class Window:
    """The windows of time of a limit.

    Attributes:
        length: how long each of them is.
        rolling: whether they begin on every day.
        begins: a day on which one of them begins, where they do not follow the calendar; of the days that make the
            same windows, the one in 2001.

    Raises:
        ValueError: what does not go together.
        TypeError: a value of the wrong kind.
    """

    length: WindowLength = "all"
    rolling: bool = False
    begins: date | None = None

    def __post_init__(self) -> None:
        """Check what goes together."""
        choice(self.length, "per", get_args(WindowLength))
        flag(self.rolling, "rolling")
        if self.begins is not None and type(self.begins) is not date:  # a datetime is one, too
            raise TypeError(f"begins: {type(self.begins).__name__} must be a datetime.date")
        if self.length == "all" and (self.rolling or self.begins):
            raise ValueError("per: 'all' is all time, which neither rolls nor begins; name week, month or year")
        if self.rolling and self.begins:
            raise ValueError(f"begins: {self.begins} has no place beside rolling windows, which begin on every day")
        if self.begins is not None and self.length != "week" and self.begins.day > 28:
            raise ValueError(f"begins: {self.begins} is a day that not every month has; begin by the 28th")
        if self.begins is not None:
            object.__setattr__(self, "begins", self._same_windows(self.begins))

    def _same_windows(self, begins: date) -> date | None:
        """The day in 2001 that makes the same windows; None where they follow the calendar."""
        if self.length == "week":
            day = _FIRST_MONDAY + timedelta(begins.weekday())
        else:
            day = begins.replace(year=_FIRST_MONDAY.year)
            day = day.replace(month=1) if self.length == "month" else day
        return None if day == _FIRST_MONDAY else day

    def __str__(self) -> str:
        """As it is stored."""
        if self.rolling:
            return f"{self.length}, rolling"
        return self.length if self.begins is None else f"{self.length} from {self.begins.isoformat()}"

    @classmethod
    def parse(cls, text: str) -> Window:
        """The windows that a stored text names.

        Raises:
            ValueError: it names none.
        """
        length, _, begins = text.partition(" from ")
        if begins:
            return cls(named_length(length), begins=named_day(begins, "begins"))
        length, _, rolling = text.partition(", ")
        if rolling not in ("", "rolling"):
            raise ValueError(f"per: {text!r} is no window")
        return cls(named_length(length), rolling=bool(rolling))

    def contains(self, other: Window) -> bool:
        """Whether each window of the other kind lies in one of this kind, so that what counts there counts here."""
        if self.rolling:
            return ROLLING_DAYS[self.length] >= ROLLING_DAYS.get(other.length, ROLLING_DAYS["year"] + 1)
        return self == ALL_TIME or (self == Window("year") and other == Window("month"))

    @property
    def words(self) -> str:
        """As it is said: "any 7 days", "a week", "a week from Sunday", "a month from day 15", "all time"."""
        if self.length == "all":
            return "all time"
        if self.rolling:
            return f"any {ROLLING_DAYS[self.length]} days"
        if self.begins is None:
            return f"a {self.length}"
        first = {
            "week": f"{self.begins:%A}",
            "month": f"day {self.begins.day}",
            "year": f"{self.begins:%B} {self.begins.day}",
        }
        return f"a {self.length} from {first[self.length]}"

    def starting(self, day: date) -> Period:
        """The window whose first day this is."""
        if self.rolling:
            return Period(day, day + timedelta(ROLLING_DAYS[self.length] - 1))
        if self.length == "week":
            return Period(day, day + timedelta(6))
        months = 1 if self.length == "month" else 12
        return Period(day, _months_later(day, months) - timedelta(1))

    def of_day(self, day: date) -> Period:
        """The window of the calendar that a day lies in."""
        begins = self.begins or _FIRST_MONDAY
        if self.length == "week":
            return self.starting(day - timedelta((day - begins).days % 7))
        first = day.replace(day=begins.day)
        if self.length == "year":
            first = first.replace(month=begins.month)
        if first > day:
            first = _months_later(first, -1 if self.length == "month" else -12)
        return self.starting(first)

    def met_by(self, period: Period) -> Iterator[Period]:
        """The windows of the calendar that have a day in common with a period, in order."""
        window = self.of_day(period.first)
        yield window
        while window.last < period.last:
            window = self.of_day(window.last + timedelta(1))
            yield window

    def met(self, dated: Dated) -> list[tuple[Period, LossSums]]:
        """The sums of the windows that some period meets, in order; of rolling ones, of those that matter."""
        known = [period for period in dated if period is not None]
        windows = self.candidates(dated) if self.rolling else {each for period in known for each in self.met_by(period)}
        return _sums_of(sorted(windows), dated)

    def _first_with(self, day: date) -> Period:
        """The first window that has a day."""
        return self.starting(day - timedelta(ROLLING_DAYS[self.length] - 1)) if self.rolling else self.of_day(day)

    def candidates(self, dated: Dated, new: Period | None = None) -> list[Period]:
        """Windows among which every sum of losses that occurs has one with at least that sum.

        Args:
            dated: what releases lost, by period.
            new: only windows that have a day in common with this one matter; None: all of them do.
        """
        found = {self._first_with(period.first) for period in dated if period is not None}
        if new is not None:
            found = {self._first_with(new.first), *(window for window in found if window.meets(new))}
        return sorted(found)

    def sums(self, dated: Dated, new: Period | None = None) -> list[tuple[Period | None, LossSums]]:
        """The sums of `candidates`; where there is none, what counts in every window, which has no days then."""
        windows = self.candidates(dated, new)
        return [*_sums_of(windows, dated)] if windows else [(None, dated.get(None, LossSums()))]


def _sums_of(windows: Sequence[Period], dated: Dated) -> list[tuple[Period, LossSums]]:
    """What the releases that meet each window, and those without a period, add up to.

    Args:
        windows: of one kind, in order.
        dated: what releases lost, by period.
    """
    if not windows:
        return []
    # A ledger of years is not added up for a release of a day: releases beyond all of the windows are in none.
    reach = Period(windows[0].first, windows[-1].last)
    near = _SumsByDay({period: sums for period, sums in dated.items() if period is None or period.meets(reach)})
    return [(window, near.of(window)) for window in windows]


class _SumsByDay:
    """What releases lost before and after each day, so that the sum of a window is two differences.

    Of the releases with a period, those that do not meet a window end before it, or begin after it.
    """

    def __init__(self, dated: Dated) -> None:
        self._all = added(dated.values())
        known = [(period, sums) for period, sums in dated.items() if period is not None]
        self._lasts, self._ended = _running(sorted(((each.last, sums) for each, sums in known), key=itemgetter(0)))
        self._firsts, self._begun = _running(sorted(((each.first, sums) for each, sums in known), key=itemgetter(0)))

    def of(self, window: Period) -> LossSums:
        """What the releases that meet a window, and those without a period, add up to."""
        before = self._ended[bisect_left(self._lasts, window.first)]
        after = self._begun[-1] - self._begun[bisect_right(self._firsts, window.last)]
        return self._all - before - after


def _running(dated: Sequence[tuple[date, LossSums]]) -> tuple[list[date], list[LossSums]]:
    """The days, and the sums of the first 0, 1, … of them."""
    return [day for day, _ in dated], [*accumulate((sums for _, sums in dated), initial=LossSums())]


def added(sums: Iterable[LossSums]) -> LossSums:
    """Sums of several parts together."""
    return reduce(LossSums.__add__, sums, LossSums())


def _months_later(day: date, months: int) -> date:
    """The same day of a later month; a day that every month has."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return day.replace(year=year, month=month + 1)


def named_length(text: str, argument: str = "per") -> WindowLength:
    """The length of windows that a user names.

    Raises:
        ValueError: it is none.
    """
    choice(text, argument, get_args(WindowLength))
    return cast(WindowLength, text)


def named_day(text: str | None, argument: str) -> date | None:
    """The day that a user names; None for none.

    Raises:
        ValueError: it is none.
    """
    if text is None:
        return None
    try:
        if re.fullmatch(_DAY, text) is None:  # there are other ways to write one
            raise ValueError(text)
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{argument}: {text[:60]!r} is no day; write it as 2026-03-04") from None


ALL_TIME = Window()
