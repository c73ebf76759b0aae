"""The first screen of a report: what it is, how many, which numbers can be used, who is protected, whom to ask.

It is for a reader who has two minutes. So it has one number, one verdict, a bar for each level, and a few cards of one
number and one sentence. All else is further down.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from tallytree.kinds.registry import kind_of
from tallytree.release.counted_unit import counted_noun, counted_unit, worded, words_of
from tallytree.release.households_release import IN_HOUSEHOLD
from tallytree.release.intervals import reach_of_households
from tallytree.release.risk_statement import of_hundred
from tallytree.release.statement import CHECKED, WARNING, description_of
from tallytree.release.view.release_view import ReleaseView
from tallytree.views.report.reading import ALPHA, PublishedError
from tallytree.views.report.wording import capitalized, listed, name, off_by, plural, what_is_counted, whole

MOST_LEVELS = 8
"""Bars on the first screen; the table further down has all levels."""
ENOUGH = 0.9
"""A level can be used where at least this share of its numbers can be."""
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


@dataclass(frozen=True)
class Card:
    """One number and one sentence.

    Attributes:
        question: that it answers.
        number: the number, or a few words in its place.
        sentence: what it means.
    """

    question: str
    number: str
    sentence: str


@dataclass(frozen=True)
class UsableBar:
    """How many numbers of a level can be used.

    Attributes:
        level: its name.
        parts: the shares that are reliable, to be used with care, and neither, in per cent; they add up to 100.
        words: the shares in words.
        least: from which number on they can be used, in words; empty where that is not known, or all can be used.
    """

    level: str
    parts: tuple[float, float, float]
    words: str
    least: str


@dataclass(frozen=True)
class FrontPage:
    """What the first screen shows; texts may be empty.

    Attributes:
        title: the heading.
        publisher: who publishes the release.
        contact: whom to ask.
        status: how final the numbers are.
        revises: that the release takes the place of an earlier one.
        period: what time it is about.
        what: what was published, in a sentence.
        number: how many there are in all.
        unit: of what, with the bound where one is enforced.
        error: how far off that number is.
        left_out: that records were left out, and which.
        verdict: which numbers can be used.
        bars: of levels, root first.
        more: levels that have no bar.
        cards: further numbers.
        beside: of a release with a second part: how many there are in that, of what, and how far off that is.
    """

    title: str
    publisher: str
    contact: str
    status: str
    revises: str
    period: str
    what: str
    number: str
    unit: str
    error: str
    left_out: str
    verdict: str
    bars: Sequence[UsableBar]
    more: int
    cards: Sequence[Card]
    beside: Sequence[tuple[str, str, str]] = ()


def front_page(view: ReleaseView, errors: Sequence[PublishedError], folder: str) -> FrontPage:
    """The first screen of a release's report.

    Args:
        view: of the release.
        errors: of its levels, root first. Tables that nobody asked for are not shown.
        folder: the name of its folder, which is the title where none was given.
    """
    statement = view.statement
    said = {key: name(text, 200) for key, text in description_of(statement).items() if isinstance(text, str)}
    which = statement["release"]
    number, error = _in_all(view)
    noun = name(counted_noun(statement))
    errors = [each for level, each in zip(view.levels, errors, strict=False) if _is_asked(view, level)] or errors
    bars = [_bar(each, noun) for each in errors if each.usable is not None]
    return FrontPage(
        title=said.get("title") or name(folder),
        publisher=said.get("publisher", ""),
        contact=said.get("contact", ""),
        status=said.get("status", ""),
        revises="Takes the place of an earlier release" if "revises" in which else "",
        period=period_words(which.get("period")),
        what=_what(view),
        number=number,
        unit=name(counted_unit(statement)) if number else "",
        error=error,
        left_out=_left_out(statement),
        verdict=verdict(errors, noun, tables=view.kind.has_tables),
        bars=bars[:MOST_LEVELS],
        more=max(len(bars) - MOST_LEVELS, 0),
        cards=_cards(view, errors, noun),
    )


def period_words(period: object) -> str:
    """The first and the last day that a release is about, for readers: a year, a month, a day, or from when to when."""
    if not isinstance(period, str):
        return ""
    begin, _, end = period.partition("/")
    try:
        first, last = (date.fromisoformat(each) for each in (begin, end or begin))
    except ValueError:
        return name(period)
    if first == last:
        return _day(first)
    if (first.day, first.month, last.day, last.month, first.year) == (1, 1, 31, 12, last.year):
        return f"{first.year}"
    following = date.fromordinal(last.toordinal() + 1) if last < date.max else last
    if first.day == 1 and (first.year, first.month) == (last.year, last.month) and following.day == 1:
        return f"{_MONTHS[first.month - 1]} {first.year}"
    return f"{_day(first)} to {_day(last)}"


def _day(day: date) -> str:
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


def in_all(view: ReleaseView) -> tuple[str, str, str]:
    """How many there are in all, of what, and how far off that is; see `FrontPage`."""
    number, error = _in_all(view)
    return number, name(counted_unit(view.statement)), error


def _is_asked(view: ReleaseView, level: str) -> bool:
    """Whether somebody asked for a table; those of persons in households by area are in every such release."""
    about = next(each for each in view.statement["levels"] if each["level"] == level)
    attributes = {*about.get("table", ())} - {*view.sides[0].columns} if view.sides else set()
    added = "part_of" in view.statement and attributes == {IN_HOUSEHOLD}
    return bool(about.get("asked", True)) and not added


def _what(view: ReleaseView) -> str:
    statement = view.statement
    what = name(what_is_counted(statement, view.release.spec), 400)
    sentence = capitalized(what)
    if not view.kind.nested:
        return f"{sentence}."
    lowest = statement["levels"][-1]
    return f"{sentence}, down to {lowest['nodes']:,} {view.kind.words.cells} at {name(view.word(lowest['level']))}."


def _in_all(view: ReleaseView) -> tuple[str, str]:
    """How many there are in all, and how far off that is; empty where no table says it."""
    if view.tree is None:
        return "", ""
    of_sizes = view.kind.by_size
    level = next((each for each in view.levels if view.kind.nested or not view.paths(each)), None)
    if level is None and "part_of" in view.statement:  # persons, of whom there need not be a table of the total
        row = view.release.total(alpha=ALPHA).to_pylist()[0]
        return whole(row["count"]), off_by(row["count"], row["ci_lower"], row["ci_upper"])
    if level is None or not view.rows(level) or (view.rows(level) > 1 and not of_sizes):
        return "", ""
    rows = view.with_intervals(level, view.read(level, 0, view.rows(level)), ALPHA)
    number = sum(rows.column(view.number).to_pylist())
    first = rows.slice(0, 1).to_pylist()[0]
    lower, upper = (first.get(f"{'tail_' if of_sizes else ''}{end}") for end in ("ci_lower", "ci_upper"))
    if "households_std_dev" in first:
        reach = int(reach_of_households(rows, ALPHA)[0])
        lower, upper = max(number - reach, 0), number + reach
    if view.public_groups is not None if of_sizes else first.get("std_dev") == 0 and lower == upper:
        return whole(number), "exactly"
    return whole(number), "" if lower is None or upper is None else off_by(number, lower, upper)


def _left_out(statement: Mapping[str, Any]) -> str:
    """Which records are not in the numbers; empty where none was left out, or the publisher says that none is."""
    outside = [f"the {kind_of(statement).words.outside}"] if statement["on_unknown"] == "drop" else []
    if statement["release"].get("period_is") == CHECKED:
        outside.append("the period")
    if not outside:
        return ""
    return worded(
        f"Records outside {listed(outside, 'or')} are left out; how many is not published.", words_of(statement)
    )


def _bar(error: PublishedError, noun: str) -> UsableBar:
    usable = error.usable or (0, 0, 0)
    total = max(sum(usable), 1)
    parts = tuple(100 * each / total for each in usable)
    names = ("reliable", "with care", "do not use")
    words = ", ".join(f"{_percent(part)} {what}" for part, what in zip(parts, names, strict=True) if part)
    least = f"use from about {_least(error)} {noun}" if error.usable_from and parts[0] < 100 else ""
    return UsableBar(name(error.level), (parts[0], parts[1], parts[2]), words, least)


def _percent(part: float) -> str:
    """A share in per cent, as a whole number, which is 0 or 100 only where the share is."""
    return f"{100 if part == 100 else min(max(round(part), 1), 99)} %"


def _least(error: PublishedError) -> str:
    return whole(math.ceil(error.usable_from or 0.0))


def verdict(errors: Sequence[PublishedError], noun: str, *, tables: bool = False) -> str:
    """Which numbers a reader can use, in a sentence or two.

    Args:
        errors: of the levels, root first; or of tables, in any order.
        noun: what is counted.
        tables: whether they are tables.
    """
    known = [each for each in errors if each.usable is not None and any(each.usable)]
    if not known:
        return "How far off each number is was not computed. The command “tallytree error” does that."
    poor = {each.level: _poor(each) for each in known}
    worst = max(known, key=lambda each: poor[each.level])
    if not poor[worst.level]:
        return "You can use every number."
    if tables:
        good = [each for each in known if poor[each.level] <= 1 - ENOUGH]
        where = "" if len(good) == len(known) else f" of {plural(len(good), 'table')} of {len(known):,}"
    else:
        down_to = next((place for place, each in enumerate(known) if poor[each.level] > 1 - ENOUGH), len(known))
        good = known[:down_to]
        where = "" if len(good) == len(known) else f" down to {name(good[-1].level)}" if good else ""
        worst = known[-1] if poor[known[-1].level] else worst
    which = "nearly all" if any(poor[each.level] for each in good) else "the"
    begin = (
        f"You can use {which} numbers{where}."
        if good
        else "Use single numbers of this release only where they are marked as reliable."
    )
    share = _percent(100 * poor[worst.level])
    below = f": those below about {_least(worst)} {noun}" if worst.usable_from else ""
    return f"{begin} At {name(worst.level)} do not use {share} of the numbers{below}."


def _poor(error: PublishedError) -> float:
    """The share of a level's numbers that are not to be used."""
    good, care, poor = error.usable or (1, 0, 0)
    return poor / (good + care + poor)


def _cards(view: ReleaseView, errors: Sequence[PublishedError], noun: str) -> list[Card]:
    statement = view.statement
    cards = [_who(statement)]
    known = [each for each in errors if each.reach is not None]
    if known:
        finest = max(known, key=lambda each: each.reach or 0.0)
        reach = finest.reach or 0.0
        of_sizes = " of a size or more" if view.kind.by_size else ""
        cards.append(
            Card(
                "How far off?",
                "exact" if reach == 0 else f"± {math.ceil(reach):,} {noun}",
                f"Nine in ten numbers{of_sizes} at {name(finest.level)} are within this of the truth.",
            )
        )
    numbers = sum(view.rows(level) for level in view.levels)
    agree = (
        "Parts do not always add up to the whole."
        if statement.get("constraint_violations")
        else "The parts of every area add up to it."
    )
    where = plural(len(view.levels), view.kind.words.level)
    cards.append(Card("How much is there?", plural(numbers, "number"), f"In {where}. {agree}"))
    facts = [name(worded(fact, words_of(statement))) for fact in statement["invariants"]]
    if facts:
        sentence = f"Without any noise, and not protected: {listed(facts)}."
        cards.append(Card("What is exact?", plural(len(facts), "fact"), sentence))
    return cards


def _who(statement: Mapping[str, Any]) -> Card:
    question = "Who is protected?"
    if not statement["private"]:
        return Card(question, "nobody", "The noise came from a seed, so anybody can remove it.")
    first, comma, more = name(statement["unit_of_protection"], 400).partition(", ")
    who = f"{capitalized(more)}. " if comma else ""
    if not (statement.get("risk") or {}).get("rates"):
        return Card(question, first, f"{who}“The guarantee” below says how well.")
    blind, found = of_hundred(statement)
    first += ", weakly" if WARNING in statement else ""
    rest = f"An attacker who knows all others finds out one in at most {found} of 100 cases; a guess does in {blind}."
    return Card(question, first, who + rest)
