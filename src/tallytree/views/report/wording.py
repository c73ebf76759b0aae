"""Numbers and facts of a statement in words for people: few digits, no symbols."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from tallytree.kinds.registry import kind_of
from tallytree.release.counted_unit import worded, words_of

NINE_IN_TEN = 1.645
"""The standard deviations within which nine in ten errors lie, if they are about normal."""

_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Unicode's characters that set the direction of text."""


def whole(number: float) -> str:
    """A published number, with all of its digits; a fraction with two decimals."""
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,.2f}"


def rounded(number: float) -> str:
    """A number for people: at most three significant digits, as a decimal."""
    if not math.isfinite(number):
        return "infinite"
    if number == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(number)))
    near = round(number, digits)
    return f"{near:,.{max(digits, 0)}f}".rstrip("0").rstrip(".") if digits > 0 else f"{near:,.0f}"


def about(half_width: float) -> str:
    """How far off a number may be, in words: one or two significant digits are enough."""
    if half_width == 0:
        return "exact"
    if half_width < 0.5:
        return "less than ± 1"
    digits = 1 - math.floor(math.log10(half_width)) if half_width >= 10 else 0
    return f"about ± {round(half_width, digits):,.0f}"


def percent(share: float) -> str:
    """A share for people, as a percentage with at most three significant digits."""
    return f"{rounded(100 * share)} %"


def amount(value: float | str) -> str:
    """An amount of a budget; tiny ones as a power of ten."""
    if isinstance(value, str):
        return value
    return f"{value:.3g}" if value and abs(value) < 1e-3 else rounded(value)


def listed(items: Iterable[str], last: str = "and") -> str:
    """A list in words: a, b and c."""
    each = [*items]
    return each[0] if len(each) == 1 else f"{', '.join(each[:-1])} {last} {each[-1]}" if each else ""


def name(text: object, length: int = 120) -> str:
    """A name or label as a page may show it, as plain text: on one line, not too long, with no control characters.

    Characters that turn the direction of what follows are dropped. A name with letters that are written from right to
    left is isolated, so that it does not turn the sentence around it.
    """
    spaced = "".join(" " if character in "\t\r\n\u2028\u2029" else character for character in str(text))
    kept = "".join(
        character
        for character in spaced
        if unicodedata.category(character) not in ("Cc", "Cs", "Cn") and character not in _TURNING
    )
    kept = kept if len(kept) <= length else kept[: length - 1] + "…"
    turned = any(unicodedata.bidirectional(character) in ("R", "AL") for character in kept)
    return f"\u2068{kept}\u2069" if turned else kept


def titled(level: Mapping[str, Any]) -> str:
    """What a level of a statement is called where people read: its name; of tables its levels, such as town × sex."""
    return (" × ".join(level["table"]) or "total") if "table" in level else str(level["level"])


def what_is_counted(statement: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    """What one number of the release is, in the publisher's words."""
    words = words_of(statement)
    example = "" if "group" in words or not isinstance(spec.get("group"), str) else " (such as households or vehicles)"
    return worded(kind_of(statement).words.what.format(example), words)


def off(std_dev: float) -> float:
    """How far off nine in ten numbers with this standard deviation are, at most."""
    return NINE_IN_TEN * std_dev


def off_by(number: float, lower: float, upper: float) -> str:
    """How far off a number may be, by its interval; an interval that is not about as long on both sides as it is.

    The explorer says it in the same way (`offText` in `views/explore/page/draw.js`).
    """
    far, near = max(upper - number, number - lower), min(upper - number, number - lower)
    return f"({whole(lower)} to {whole(upper)})" if far > 1.5 * near + 1 else f"± {whole(far)}"


def capitalized(text: str) -> str:
    """A text as a sentence or a title begins: the rest of it stays."""
    return text[:1].upper() + text[1:]


def plural(number: int, one: str, more: str | None = None) -> str:
    """A number with its noun."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"
