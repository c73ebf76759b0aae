"""Names of data sets and of runs: which are allowed, which are the same, and which look alike.

A mistyped name starts with nothing spent. Two names are near each other where they are the same but for capitals,
accents and letters that look alike; where one begins with the other; or where one or two letters differ. The letters
that look alike are those of Greek and Cyrillic that have the shape of a Latin one (the capitals and small letters of
Unicode's `confusables.txt` that a keyboard writes), and what Unicode itself calls the same (NFKC), such as full-width
letters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


def checked_name(dataset: object) -> str:
    """A data set's name; the same text in another encoding of its accents is the same name.

    Raises:
        TypeError: not text.
        ValueError: empty, longer than 200 characters, or with spaces around it or characters that cannot be seen.
    """
    return _checked(dataset, "dataset", "the data set in the ledger")


def checked_run(run: object) -> str:
    """A run's name; the same text in another encoding of its accents is the same name.

    Raises:
        TypeError: not text.
        ValueError: empty, longer than 200 characters, or with spaces around it or characters that cannot be seen.
    """
    return _checked(run, "run", "the run")


def _checked(name: object, argument: str, what: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{argument}: {type(name).__name__} must be the name of {what}")
    if not name or name != name.strip() or not name.isprintable() or len(name) > 200:
        raise ValueError(
            f"{argument}: {name[:200]!r} must be a name of 1 to 200 printable characters without spaces around it"
        )
    return unicodedata.normalize("NFC", name)


_LOOK_ALIKE = str.maketrans(
    # Greek capitals, Greek small letters
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
    "\u03b1\u03b2\u03b5\u03b3\u03b7\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03c9"
    # Cyrillic capitals, Cyrillic small letters
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0405\u0406\u0408"
    "\u0430\u0432\u0435\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0455\u0456\u0458\u04bb\u0501\u051b\u051d"
    "01",
    "ABEZHIKMNOPTYXabeynikvoptuxwABEKMHOPCTYXSIJabekmhopctyxsijhdqwol",
)
_SHORTEST = 3
"""Shorter names begin too many others, and differ from too many in a letter."""

_LONG = 6
"""From here on two letters may differ."""

_MOST = 2
_SHOWN = 3


def near_names(name: str, known: Sequence[str]) -> list[str]:
    """The names that look like this one, the nearest first; none where it is one of those known.

    Args:
        name: the name that was given.
        known: those that the ledger has.
    """
    if name in known:
        return []
    ours = _shape(name)
    near = [(_apart(ours, _shape(other)), other) for other in known]
    return [other for apart, other in sorted(near) if apart <= _MOST][:_SHOWN]


def _shape(name: str) -> str:
    """The name without capitals and accents, in Latin letters where they look like its own."""
    letters = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).translate(_LOOK_ALIKE))
    return "".join(c for c in letters if not unicodedata.combining(c)).casefold()


def _apart(one: str, other: str) -> int:
    """How many letters differ between two shapes; at most 2 where one begins with the other, 3 for more than 2."""
    short, long = sorted((one, other), key=len)
    if short == long:
        return 0
    if len(short) < _SHORTEST:
        return _MOST + 1
    allowed = _MOST if len(short) >= _LONG else 1
    apart = _edits(short, long) if len(long) - len(short) <= allowed else _MOST + 1
    if apart <= allowed:
        return apart
    return _MOST if long.startswith(short) else _MOST + 1


def _edits(one: str, other: str) -> int:
    """The fewest letters to put in, leave out, replace or exchange with the next, which turn one into the other."""
    rows = [list(range(len(other) + 1))]
    for i, letter in enumerate(one, 1):
        rows.append([i])
        for j, another in enumerate(other, 1):
            fewest = min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (letter != another))
            if i > 1 and j > 1 and (letter, one[i - 2]) == (other[j - 2], another):
                fewest = min(fewest, rows[i - 2][j - 2] + 1)
            rows[i].append(fewest)
    return rows[-1][-1]
