"""What a number of a release counts, in words: the unit that stands beside it wherever it is shown.

With an enforced contribution bound a count is not of all records. So its unit names the bound, and a sentence says what
is left out, where that was measured.

A publisher may call units by words of its own, which stand in the statement: `worded` puts them into sentences of this
package. A unit is named there as record (or trip), person, group, in the singular and in the plural. Names that are
quoted in a sentence, such as those of columns and levels, stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tallytree.kinds.registry import kind_of
from tallytree.kinds.terms import AUTO

ONCE_IN_A_LEAF = "Every person counts at most once in a leaf."
ONCE_IN_A_CELL = "Every person counts at most once in a combination of leaves."
"""The notes of a statement where people are counted, and not their records."""

UNIT_KEYS = ("record", "person", "group")
"""Units that a publisher may call by words of its own."""

_SINGULARS = {"record": "record", "trip": "record", "person": "person", "group": "group"}
_PLURALS = {"records": "record", "trips": "record", "people": "person", "persons": "person", "groups": "group"}
UNIT_OF = _SINGULARS | _PLURALS
"""The unit that a word of ours stands for."""
_QUOTED = r"""(?<!\w)'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\""""
_UNITS = re.compile(rf"{_QUOTED}|\b(?:(an?) )?({'|'.join((*_PLURALS, *_SINGULARS))})\b", re.I)
_AN = re.compile(r"(?!eu|one|uni|us[aeiou]|ut[aeiou])[aeiou]|hour|heir|honest", re.I)
"""How a word begins that has "an" before it, not "a"."""


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
    return kind_of(statement).words.noun


def is_bounded(statement: Mapping[str, Any]) -> bool:
    """Whether numbers are of bounded records: a contribution bound is enforced."""
    return bool(statement.get("max_contributions_enforced")) and not kind_of(statement).protects_all_records


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


def words_of(statement: Mapping[str, Any]) -> Mapping[str, str]:
    """The publisher's words for units; none where the statement has none."""
    return (statement.get("description") or {}).get("words") or {}


def worded(sentence: str, words: Mapping[str, str]) -> str:
    """A sentence of this package with the publisher's words for units; what is quoted in it stays.

    Args:
        sentence: it names units as this package does: record or trip, person, group.
        words: by unit, its word, or the words for one and for several with a slash between them. A record that has the
            word of a person is called record here: how many records a person has must still be told.
    """
    if words.get("record") == words.get("person"):
        words = {unit: word for unit, word in words.items() if unit != "record"}
    if not words:
        return sentence

    def replaced(found: re.Match[str]) -> str:
        article, name = found[1], found[2]
        unit = "" if name is None else UNIT_OF[name.lower()]
        if unit not in words:
            return found[0]
        word = in_plural(words[unit]) if name.lower() in _PLURALS else words[unit].partition("/")[0]
        said = word if article is None else f"{'an' if _AN.match(word) else 'a'} {word}"
        return said[0].upper() + said[1:] if found[0][0].isupper() else said

    return _UNITS.sub(replaced, sentence)


def in_plural(word: str) -> str:
    """The publisher's word for several: what follows a slash, or the regular plural."""
    one, _, several = word.partition("/")
    return several or plural_of(one)


def plural_of(word: str) -> str:
    """The plural of an English noun that has a regular one."""
    if re.search(r"(s|x|z|ch|sh)$", word):
        return f"{word}es"
    return f"{word[:-1]}ies" if re.search(r"[^aeiou]y$", word) else f"{word}s"
