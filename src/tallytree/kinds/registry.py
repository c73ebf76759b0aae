"""The released statistics by name: `kind_of` finds what a name, or a statement, is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallytree.kinds.contributions import CONTRIBUTIONS
from tallytree.kinds.counts import COUNTS
from tallytree.kinds.flows import FLOWS
from tallytree.kinds.group_sizes import GROUP_SIZES
from tallytree.kinds.households import HOUSEHOLDS
from tallytree.kinds.kind import Kind
from tallytree.kinds.tables import TABLES

KINDS: Mapping[str, Kind] = {
    kind.name: kind for kind in (COUNTS, FLOWS, TABLES, GROUP_SIZES, HOUSEHOLDS, CONTRIBUTIONS)
}
"""All of them, by the name that specs and statements have."""


def kind_of(statistic: str | Mapping[str, Any]) -> Kind:
    """What is released.

    Args:
        statistic: its name, or the statement of a release or of its plan.

    Raises:
        ValueError: no statistic has that name.
    """
    name = statistic if isinstance(statistic, str) else statistic.get("statistic")
    found = KINDS.get(name) if isinstance(name, str) else None
    if found is None:
        raise ValueError(f"statistic: {name!r} is not known; choose one of {', '.join(KINDS)}")
    return found
