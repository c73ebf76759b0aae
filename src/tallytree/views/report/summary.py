"""The summary of a report: what was published, how far off it is, what is protected and what is not, in plain words.

It is for somebody who has never heard of differential privacy. So it has no symbols, and few digits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tallytree.kinds.registry import kind_of
from tallytree.release import Release
from tallytree.release.counted_unit import bound_sentence, counted_noun, counted_unit, is_bounded, worded, words_of
from tallytree.release.surprises import drowned_sentence
from tallytree.release.view.release_view import ReleaseView
from tallytree.views.report.reading import PublishedError
from tallytree.views.report.wording import about, listed, name, off, percent, plural, what_is_counted


def summary(view: ReleaseView, errors: Sequence[PublishedError]) -> list[tuple[str, str]]:
    """Questions and their answers, each in a sentence or three."""
    release = view.release
    return [
        ("What was published?", _published(view)),
        ("How far off are the numbers?", " ".join(filter(None, (_how_far_off(release, errors), _drowned(release))))),
        ("What is protected?", _protected(release.statement)),
        ("What is not?", _not_protected(release.statement)),
    ]


def _drowned(release: Release) -> str:
    said = drowned_sentence(release)
    return name(said, 1_000) if said else ""


def _published(view: ReleaseView) -> str:
    release = view.release
    statement, kind = release.statement, kind_of(release.statement)
    what = what_is_counted(statement, release.spec)
    if not kind.reconciled:
        return f"This release publishes {what}."
    levels = [each for each in statement["levels"] if each["nodes"] > 1] or list(statement["levels"])
    lowest = levels[-1]
    numbers = sum(table.num_rows for table in release.level_tables.values())
    finest = f" The finest level, {name(view.word(lowest['level']))}, has {lowest['nodes']:,} {kind.words.cells}."
    down = finest if kind.nested else ""
    agree = (
        "The numbers of parts do not always add up to those of the whole."
        if statement.get("constraint_violations")
        else "The numbers agree with each other: the parts of every area add up to it."
    )
    counted = f"{plural(numbers, 'number')} in {plural(len(release.levels), kind.words.level)}"
    bound = name(bound_sentence(statement), 5_000)
    return " ".join(each for each in (f"This release publishes {what}: {counted}.{down} {agree}", bound) if each)


def _how_far_off(release: Release, errors: Sequence[PublishedError]) -> str:
    noun, bounded = counted_noun(release.statement), ""
    if is_bounded(release.statement):
        bounded = f", which here is the number of {counted_unit(release.statement)}"
    exact = [each for each in errors if each.most == 0.0]
    invariants = [each for each in release.statement["invariants"] if each not in ("the hierarchy", "the hierarchies")]
    facts = [name(worded(fact, words_of(release.statement))) for fact in invariants]
    kept = facts or ([f"those of {listed([name(each.level) for each in exact])}"] if exact else [])
    which = f"All numbers but {listed(kept)} were" if kept else "Every number was"
    begin = f"{which} changed at random, on purpose, to protect people."
    known = [each for each in errors if each.median is not None]
    if known:
        typical = _extremes([(name(each.level), each.reach or 0.0) for each in known])
        sizes = (
            " (These figures are for the numbers of groups of a size or more.)"
            if kind_of(release.statement).by_size
            else ""
        )
        return f"{begin} Nine in ten numbers are within {typical} {noun} of the truth{bounded}.{sizes}"
    noisy = [(name(each.level), off(each.noise)) for each in errors if each.noise]
    if not noisy:
        return f"{begin} How far off they are is not stated in this release."
    own = "Their own errors were not computed: the command “tallytree error” adds them."
    return (
        f"{begin} The noise that was added to the measurements is within {_extremes(noisy)} {noun} nine times in ten; "
        f"the published numbers are mostly nearer to the truth. {own}"
    )


def _extremes(levels: Sequence[tuple[str, float]]) -> str:
    """How far off numbers are, at the level where that is least, but not 0, and where it is most."""
    moved = [each for each in levels if each[1] >= 0.5] or list(levels[-1:])
    first, last = min(moved, key=lambda each: each[1]), max(moved, key=lambda each: each[1])
    if about(first[1]) == about(last[1]):
        return f"{about(first[1])}" if len(moved) > 1 else f"{about(first[1])} (at {first[0]})"
    return f"{about(first[1])} (at {first[0]}) to {about(last[1])} (at {last[0]})"


def _protected(statement: Mapping[str, Any]) -> str:
    if not statement["private"]:
        return (
            "Nobody. The noise of this release came from a fixed seed, so anybody can remove it. It is for tests and "
            "experiments, and must not be made from data about real people."
        )
    whom = name(statement["unit_of_protection"])
    rates = (statement.get("risk") or {}).get("rates") or []
    if statement["neighboring"] == "add_remove":
        hidden = "whether the data hold that person's records at all"
    else:
        hidden = "what that person's records say"
    hidden = worded(hidden, words_of(statement))
    begin = f"The privacy of {whom}."
    if not rates:
        return f"{begin} How well a reader can tell {hidden} is bounded; “The guarantee” below says how."
    rate = rates[-1]
    found = float(rate["true_positive_rate"])
    verdict = next(text for most, text in _VERDICTS if found <= most).format(hidden)
    return (
        f"{begin} {verdict} Somebody who knows everything about everybody else, and accepts "
        f"{percent(rate['false_positive_rate'])} of false suspicions, finds it out in at most {percent(found)} of the "
        f"cases; guessing blindly would find it out in {percent(rate['false_positive_rate'])}."
    )


_VERDICTS = (
    (0.25, "From all that is published, nobody can tell with much confidence {}."),
    (0.6, "The protection is limited: a reader can learn something about {}."),
    (1.0, "The protection is weak: a determined reader may well find out {}."),
)
"""Up to which share an attacker finds out, with 5 % false suspicions, and how that is said."""


def _not_protected(statement: Mapping[str, Any]) -> str:
    words = words_of(statement)
    facts = [name(worded(fact, words)) for fact in statement["invariants"]]
    sentences = [f"Published exactly, without any noise: {listed(facts)}."] if facts else []
    if statement["neighboring"] == "change_one":
        sentences.append("That somebody is in the data is not protected, only what their records say.")
    if statement["max_contributions"] is not None and not statement["max_contributions_enforced"]:
        most = worded(plural(statement["max_contributions"], "record"), words_of(statement))
        sentences.append(f"It is taken on trust that nobody has more than {most}; whoever has more is protected less.")
    sentences.append("Further releases about the same people weaken the protection: what each gives away adds up.")
    sentences.append("Statistics also show what is true of groups, and that can be bad for their members.")
    return " ".join(sentences)
