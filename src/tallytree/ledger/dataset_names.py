"""Names of data sets: which are allowed, and which known one a mistyped one resembles."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Sequence

from tallytree.validate import safe_text


def checked_name(dataset: object) -> str:
    """A data set's name; the same text in another encoding of its accents is the same name.

    Raises:
        TypeError: not text.
        ValueError: empty, longer than 200 characters, or with spaces around it or characters that cannot be seen.
    """
    if not isinstance(dataset, str):
        raise TypeError(f"dataset: {safe_text(dataset)} must be the name of the data set in the ledger")
    if not dataset or dataset != dataset.strip() or not dataset.isprintable() or len(dataset) > 200:
        raise ValueError(
            f"dataset: {dataset[:200]!r} must be a name of 1 to 200 printable characters without spaces around it"
        )
    return unicodedata.normalize("NFC", dataset)


def nearest_name(name: str, known: Sequence[str]) -> str | None:
    """The data set of nearly this name, whatever the capitals; None where there is none, or it is this one."""
    folded = {each.casefold(): each for each in known if each != name}
    near = difflib.get_close_matches(name.casefold(), [*folded], n=1, cutoff=0.85)
    return folded[near[0]] if near and name not in known else None
