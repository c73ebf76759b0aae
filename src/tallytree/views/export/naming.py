"""Names for files, sheets and tables that differ also where capitals do not count."""

from __future__ import annotations

import re
from collections.abc import Iterable

SHEET_LENGTH = 31
"""Characters that Excel allows in the name of a sheet."""
_NOT_IN_SHEETS = re.compile(r"[\[\]:*?/\\\x00-\x1f\x7f]")


def unique_names(names: Iterable[str], *, taken: Iterable[str] = (), longest: int = 10_000) -> list[str]:
    """The names, each with a number after it where an earlier one is the same but for capitals.

    Args:
        names: what is wanted.
        taken: names that none may be.
        longest: how many characters a name may have; longer ones are cut.
    """
    used = {name.casefold() for name in taken}
    found: list[str] = []
    for name in names:
        made, number = name[:longest], 1
        while made.casefold() in used:
            number += 1
            suffix = f"-{number}"
            made = name[: longest - len(suffix)] + suffix
        used.add(made.casefold())
        found.append(made)
    return found


def file_stems(names: Iterable[str]) -> list[str]:
    """Names for files, without a suffix, that are also addresses: letters and digits of any script, `_`, `-` and `.`.

    Args:
        names: of the tables.
    """
    legal = (re.sub(r"[^\w.-]+", "_", name).strip(".") or "table" for name in names)
    return unique_names(name.encode()[:150].decode(errors="ignore") for name in legal)


def sheet_names(names: Iterable[str], *, taken: Iterable[str] = ()) -> list[str]:
    """Names as Excel allows them for sheets: characters that it forbids are `_`, at most 31, none twice.

    Args:
        names: of the tables.
        taken: names of other sheets.
    """
    legal = (_NOT_IN_SHEETS.sub("_", name).strip().strip("'") or "table" for name in names)
    return unique_names(legal, taken=("History", *taken), longest=SHEET_LENGTH)  # Excel keeps "History" for itself


def resource_names(names: Iterable[str]) -> list[str]:
    """Names as a data package allows them: small letters, digits, `.`, `-` and `_`."""
    legal = (re.sub(r"[^a-z0-9._-]+", "-", name.casefold()).strip("-") or "table" for name in names)
    return unique_names(legal)


def variable_names(names: Iterable[str]) -> list[str]:
    """Names as CSVW allows them for columns: letters, digits and `_`, of which none begins the name."""
    legal = (re.sub(r"[^A-Za-z0-9_]+", "_", name).lstrip("_") or "column" for name in names)
    return unique_names(legal)


def identifiers(names: Iterable[str], *, taken: Iterable[str] = ()) -> list[str]:
    """Names as SDMX allows them for dimensions: capitals, digits and `_`, beginning with a letter."""
    legal = (re.sub(r"[^A-Z0-9_]+", "_", name.upper()).strip("_") for name in names)
    return unique_names((name if name[:1].isalpha() else f"DIM_{name}" for name in legal), taken=taken, longest=50)
