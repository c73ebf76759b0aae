"""Rows that say how much is not listed: which releases have them, and what refuses them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NOTE = (
    "Cells are listed where that lowers the expected error. A row without a label in some columns counts what is not "
    "listed of the cell that its other columns name; every table adds up to the total."
)

NO_INTERVALS = "its numbers have no intervals; release with unlisted='zero' for them"


def lists_remainders(statement: Mapping[str, Any]) -> bool:
    """Whether tables have rows, null in the finer columns, with how much is not listed."""
    return bool((statement.get("mechanism") or {}).get("name") == "Remainders")


def refuse_remainders(statement: Mapping[str, Any], argument: str, what: str) -> None:
    """Refuse what needs every count to lie at a node.

    Args:
        statement: of the release.
        argument: the name of the argument that is refused, for the message.
        what: why, and what to do instead.

    Raises:
        ValueError: tables have rows with how much is not listed.
    """
    if lists_remainders(statement):
        raise ValueError(f"{argument}: the release has rows with how much is not listed (unlisted='remainder'); {what}")
