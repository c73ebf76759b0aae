"""What a number of a release counts, in words: the unit that stands beside it wherever it is shown.

With an enforced contribution bound a count is not of all records. So its unit names the bound, and a sentence says what
is left out, where that was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ONCE_IN_A_LEAF = "Every person counts at most once in a leaf."
ONCE_IN_A_CELL = "Every person counts at most once in a combination of leaves."
"""The notes of a statement where people are counted, and not their records."""

NOUNS = {"counts": "records", "tables": "records", "flows": "trips", "group_sizes": "groups", "contributions": "people"}
"""What the numbers of a statistic count."""


def counted_noun(statement: Mapping[str, Any]) -> str:
    """What is counted, in the plural and without the bound: records, trips, groups, people."""
    if {ONCE_IN_A_LEAF, ONCE_IN_A_CELL} & {*statement.get("notes", ())}:
        return "leaves of people"
    return NOUNS.get(str(statement.get("statistic")), "records")


def counted_unit(statement: Mapping[str, Any]) -> str:
    """What is counted, with the bound where one is enforced: "trips, at most 5 a person"."""
    noun = counted_noun(statement)
    if not statement.get("max_contributions_enforced"):
        return noun
    of = "memberships, " if statement.get("statistic") == "group_sizes" else ""
    return f"{noun}, {of}at most {statement['max_contributions']:,} a person"


def bound_sentence(statement: Mapping[str, Any]) -> str:
    """That an enforced bound leaves records out, and how many, where that was measured; empty without a bound."""
    if not statement.get("max_contributions_enforced"):
        return ""
    contributions = statement.get("contributions", {})
    if "summary" in contributions:
        return str(contributions["summary"])
    known = "is estimated" if contributions else "is not known; the option contributions estimates it"
    what = "memberships" if statement["statistic"] == "group_sizes" else counted_noun(statement)
    return (
        f"Counts are of bounded {what}: of every person at most {statement['max_contributions']:,} count, and the "
        f"others are left out. How many these are {known}."
    )
