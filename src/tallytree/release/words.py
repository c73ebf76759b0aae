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
_AN = re.compile(r"(?!eu|one|uni|us[aeiou]|ut[aeiou])[aeiou]|hour|heir|honest", re.I)
"""How a word begins that has "an" before it, not "a"."""


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
