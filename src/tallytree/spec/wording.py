"""Phrases that several messages share."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MAX_NAME = 100
"""Letters; nothing that is longer was meant to be one of our names."""

LEAST_LIKENESS = 0.7
"""Of a name with another first letter: `rounding`, which is like `accounting` by 0.67, was not meant to be that."""


def shortened(text: str) -> str:
    """The text, or the beginning of a long one."""
    return text if len(text) <= MAX_NAME else f"{text[:MAX_NAME]}…"


def article(noun: str) -> str:
    """The noun with a or an."""
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def alternatives(names: Iterable[str]) -> str:
    """`x, y or z`."""
    *most, last = names
    return f"{', '.join(most)} or {last}"


def closest(name: str, known: Iterable[str]) -> str | None:
    """What was probably meant."""
    if len(name) > MAX_NAME:
        return None
    near = difflib.get_close_matches(name, list(known), n=1)
    meant = near and (near[0][0] == name[0] or difflib.get_close_matches(name, near, cutoff=LEAST_LIKENESS))
    return near[0] if meant else None


def unknown(name: str, known: Iterable[str], what: str) -> str:
    """That the name is none of those known, with the closest of them."""
    known = list(known)
    near = closest(name, known)
    guess = f"did you mean {near}? " if near else ""
    return f"{shortened(name)!r} is not {article(what)}; {guess}known: {', '.join(known) or 'none'}"
