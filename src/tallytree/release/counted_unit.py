"""What a number of a release counts, in words: the unit that stands beside it wherever it is shown.

With an enforced contribution bound a count is not of all records. So its unit names the bound, and a sentence says what
is left out, where that was measured.

A publisher may call units by words of its own (`words.py`), which stand in the statement. Then the unit has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallytree.kinds.terms import AUTO
from tallytree.release.words import in_plural, worded, words_of

ONCE_IN_A_LEAF = "Every person counts at most once in a leaf."
ONCE_IN_A_CELL = "Every person counts at most once in a combination of leaves."
"""The notes of a statement where people are counted, and not their records."""

_NOUNS = {
    "counts": "records",
    "tables": "records",
    "flows": "trips",
    "group_sizes": "groups",
    "contributions": "people",
}


def counted_noun(statement: Mapping[str, Any]) -> str:
    """What is counted, in the plural and without the bound: records, trips, leaves of people, groups, people.

    In the publisher's words, where the statement has them.
    """
    return _worded(_noun(statement), statement)


def _worded(noun: str, statement: Mapping[str, Any]) -> str:
    """A noun in the publisher's words. A record may be called as a person is, where everyone has one at most."""
    words = words_of(statement)
    if noun in ("records", "trips") and "record" in words and statement.get("max_contributions") == 1:
        return in_plural(words["record"])
    return worded(noun, words)


def _noun(statement: Mapping[str, Any]) -> str:
    if {ONCE_IN_A_LEAF, ONCE_IN_A_CELL} & {*statement.get("notes", ())}:
        return "leaves of people"
    return _NOUNS.get(str(statement.get("statistic")), "records")


def is_bounded(statement: Mapping[str, Any]) -> bool:
    """Whether numbers are of bounded records: a contribution bound is enforced."""
    return bool(statement.get("max_contributions_enforced")) and statement.get("statistic") != "contributions"


def at_most(noun: str, bound: int | str) -> str:
    """What counts under a bound: "trips, at most 5 a person"; "at most m" where it is not chosen yet."""
    most = f"{bound:,}" if isinstance(bound, int) else "m"
    return f"{noun}, at most {most} a person"


def counted_unit(statement: Mapping[str, Any]) -> str:
    """What a number of a release counts, with the bound where one is enforced: "trips, at most 5 a person"."""
    noun = _noun(statement)
    if is_bounded(statement):
        bound = statement["max_contributions"]
        noun = f"groups of {at_most('memberships', bound)}" if noun == "groups" else at_most(noun, bound)
    return _worded(noun, statement)


def bound_sentence(statement: Mapping[str, Any]) -> str:
    """What is counted, and what the bound leaves out, with its interval where that was measured; else empty."""
    if not is_bounded(statement):
        return ""
    contributions = statement.get("contributions", {})
    if statement["max_contributions"] == AUTO:
        return f"Counts are of {counted_unit(statement)}; m is chosen from the noisy numbers of people in the release."
    if "summary" in contributions:
        return str(contributions["summary"])
    known = "is estimated" if contributions else "is not known; the option contributions estimates it"
    return f"Counts are of {counted_unit(statement)}. How many others the bound leaves out {known}."
