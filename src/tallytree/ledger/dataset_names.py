"""Names of data sets and of runs: which are allowed, and which are the same."""

from __future__ import annotations

import unicodedata


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
