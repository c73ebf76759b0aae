"""The publisher's own words for units, in sentences of this package: `worded` puts them in the places of ours.

A unit is named as record (or trip), person, group, in the singular and in the plural. Names that are quoted in a
sentence, such as those of columns and levels, stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

UNIT_KEYS = ("record", "person", "group")
"""Units that a publisher may call by words of its own."""

_SINGULARS = {"record": "record", "trip": "record", "person": "person", "group": "group"}
_PLURALS = {"records": "record", "trips": "record", "people": "person", "persons": "person", "groups": "group"}
UNIT_OF = _SINGULARS | _PLURALS
"""The unit that a word of ours stands for."""
_QUOTED = r"""(?<!\w)'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\""""
_UNITS = re.compile(rf"{_QUOTED}|\b(?:(an?) )?({'|'.join((*_PLURALS, *_SINGULARS))})\b", re.I)
_OF_GROUPS = (
    (re.compile(r"\bhas one membership of a group\b"), "belongs to one group"),
    (re.compile(r"\bhas at most (\S+) memberships of groups\b"), r"belongs to at most \1 groups"),
    (re.compile(r"\bmemberships of groups\b|\bgroups of memberships\b"), "groups"),
)
"""Memberships of groups are clumsy once groups have a name that readers know."""
_ITSELF = re.compile(r"\bone person, who has one record\b")
"""Where a record is a person, as in a census."""
_AN = re.compile(r"(?!eu|one|uni|us[aeiou]|ut[aeiou])[aeiou]|hour|heir|honest", re.I)
"""How a word begins that has "an" before it, not "a"."""


def words_of(statement: Mapping[str, Any]) -> Mapping[str, str]:
    """The publisher's words for units; none where the statement has none."""
    return (statement.get("description") or {}).get("words") or {}


def words_of_a_person(statement: Mapping[str, Any]) -> Mapping[str, str]:
    """The words for sentences on how many records a person has: a record stays one where both have the same word."""
    words = words_of(statement)
    if words.get("record") != words.get("person"):
        return words
    return {unit: word for unit, word in words.items() if unit != "record"}


def worded(sentence: str, words: Mapping[str, str]) -> str:
    """A sentence of this package with the publisher's words for units; what is quoted in it stays.

    Args:
        sentence: it names units as this package does: record or trip, person, group.
        words: by unit, its word, or the words for one and for several with a slash between them.
    """
    if not words:
        return sentence
    if words.get("record") == words.get("person"):
        sentence = _ITSELF.sub("one person", sentence)
        sentence = sentence.replace("person's records", "person's details")
    if "group" in words:
        for pattern, plain in _OF_GROUPS:
            sentence = pattern.sub(plain, sentence)

    def replaced(found: re.Match[str]) -> str:
        article, name = found[1], found[2]
        unit = "" if name is None else UNIT_OF[name.lower()]
        if unit not in words:
            return found[0]
        one, _, several = words[unit].partition("/")
        word = (several or plural_of(one)) if name.lower() in _PLURALS else one
        said = word if article is None else f"{'an' if _AN.match(word) else 'a'} {word}"
        return said[0].upper() + said[1:] if found[0][0].isupper() else said

    return _UNITS.sub(replaced, sentence)


def plural_of(word: str) -> str:
    """The plural of an English noun that has a regular one."""
    if re.search(r"(s|x|z|ch|sh)$", word):
        return f"{word}es"
    return f"{word[:-1]}ies" if re.search(r"[^aeiou]y$", word) else f"{word}s"
