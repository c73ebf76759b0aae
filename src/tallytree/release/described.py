"""What a publisher says of a release: its title, who publishes it, whom to ask, and what its units are called.

It describes a release and changes nothing of it: it is added to the statement after the noise was drawn, so neither the
plan's digest nor the noise key depends on it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Literal

from tallytree.release.counted_unit import (
    ONCE_IN_A_CELL,
    ONCE_IN_A_LEAF,
    UNIT_KEYS,
    UNIT_OF,
    counted_unit,
    plural_of,
    worded,
)
from tallytree.release.statement import WARNING
from tallytree.support.validate import safe_text, text

Status = Literal["provisional", "revised", "final"]
"""How final the numbers are, as the publisher says."""

DESCRIBED = "description"
"""The key of the statement under which all of it stands."""
MOST_LETTERS, MOST_OF_A_WORD = 200, 40
"""Of a title, a publisher and a contact; and of a word for a unit."""


def checked_line(value: object, argument: str, most: int = MOST_LETTERS) -> str:
    """A line of text as given, without spaces around it.

    Raises:
        TypeError: no text.
        ValueError: it is empty, too long, or has a control character or a line break.
    """
    line = text(value, argument).strip()
    if not line:
        raise ValueError(f"{argument}: {value!r} is empty; write some text, or leave it out")
    if len(line) > most:
        raise ValueError(f"{argument}: {line[:40]!r}… has {len(line):,} characters; {most} is the most, so shorten it")
    if any(unicodedata.category(each) in ("Cc", "Zl", "Zp") for each in line):
        raise ValueError(f"{argument}: {line[:80]!r} has a control character or a line break; take it out")
    return line


def checked_words(value: object) -> dict[str, str]:
    """The publisher's words for units as given: `{"person": "commuter", "group": "child/children"}`.

    Raises:
        TypeError: no mapping of texts.
        ValueError: an unknown unit; a word of another unit; one that is empty, too long, or has more than one slash or
            other characters than letters, spaces, hyphens and apostrophes.
    """
    if not isinstance(value, Mapping):
        raise TypeError(
            f'words: {safe_text(value)} must be a mapping from units to words, such as {{"record": "trip"}}'
        )
    found = {}
    for place, (unit, given) in enumerate(value.items(), 1):
        if unit not in UNIT_KEYS:
            text(unit, "words")
            # Not shown: a column of records may be given in place of words.
            raise ValueError(f"words: key {place} of the mapping is no unit; name {', '.join(UNIT_KEYS)}")
        word = checked_line(given, f"words[{unit}]", MOST_OF_A_WORD)
        parts = [part.strip() for part in word.split("/")]
        if len(parts) > 2 or not all(re.fullmatch(r"[^\W\d_]([^\W\d_]|[ '’-])*", part) for part in parts):
            raise ValueError(
                f"words[{unit}]: {word!r} must be a word, or two with a slash between them, for one and for several, "
                "such as child/children"
            )
        found[unit] = "/".join(parts)
    _require_units_apart(found)
    return found


def _require_units_apart(words: Mapping[str, str]) -> None:
    """Refuse a word that another unit has: a guarantee in such words would say that another unit is protected.

    Raises:
        ValueError: naming both units.
    """
    forms = {unit: {each for part in given.casefold().split("/") for each in (part, plural_of(part))}
             for unit, given in words.items()}  # fmt: skip
    # In a census a record is a person, and both may have one word.
    alike = {"record", "person"} if words.get("record", "").casefold() == words.get("person", "").casefold() else set()
    for unit, own in forms.items():
        ours = {name: other for name, other in UNIT_OF.items() if other != unit}
        theirs = {form: other for other in forms if other != unit and {unit, other} != alike for form in forms[other]}
        for form in sorted(own):
            of = next((ours[part] for part in re.split(r"[ '’-]", form) if part in ours), theirs.get(form))
            if of is not None:
                raise ValueError(
                    f"words[{unit}]: {form!r} is what a {of} is called, and sentences would confuse the two; give the "
                    f"{unit} a word of its own, or leave it out"
                )


def described_statement(statement: Mapping[str, Any], description: Mapping[str, Any]) -> dict[str, Any]:
    """A statement with the publisher's description, and its sentences in the publisher's words.

    Args:
        statement: as it was made.
        description: `title`, `publisher`, `contact`, `status`, `words`, as far as they were given; may be empty.
    """
    made = dict(statement)
    if not description:
        return made
    made[DESCRIBED] = dict(description)
    words = description.get("words") or {}
    for key in made.keys() & {WARNING, "guarantee", "unit_of_protection"}:
        made[key] = worded(made[key], words)
    markers = (ONCE_IN_A_LEAF, ONCE_IN_A_CELL)  # by which a reader knows what is counted
    made["notes"] = [note if note in markers else worded(note, words) for note in made["notes"]]
    for key, sentences in (("risk", ("attack", "summary")), ("contributions", ("summary", "covers"))):
        if key in made:
            part = made[key]
            made[key] = {**part, **{each: worded(part[each], words) for each in sentences if each in part}}
    made["counted"] = counted_unit(made)
    return made


def description_of(statement: Mapping[str, Any]) -> dict[str, Any]:
    """What the publisher says of a release; empty where nothing was said."""
    found = statement.get(DESCRIBED)
    return dict(found) if isinstance(found, Mapping) else {}
