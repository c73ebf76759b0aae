"""What the options about people with several records mean: the bound on them, and counting people by their records."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from tallytree.kinds.contributions import Contributions
from tallytree.kinds.measurements import Statistic
from tallytree.private import ContributionBound, entropy
from tallytree.run.arguments import PersonOptions
from tallytree.run.release_keys import release_key


def contribution_bound(
    given: PersonOptions, asked: Contributions | None, *, distinct: bool = False
) -> ContributionBound | None:
    """What counts of one person, chosen by a key of its own: the noise key must not exist before the statistics.

    Where people are counted too, a run that can be repeated has a fingerprint of all that could count: its bound may
    be chosen after it is recorded (`planned_auto_bound`).
    """
    if given.person is None:
        return None
    key = entropy.derive(release_key(given), "records that count")
    up_to = 0 if asked is None else asked.at_most
    return ContributionBound(
        given.person,
        given.bound,
        key,
        distinct=distinct,
        people_up_to=up_to,
        fingerprint=asked is not None and given.secret is not None,
    )


def shares_beside(given: PersonOptions, maximum: Fraction | None = None) -> dict[Statistic, Fraction]:
    """What is measured beside the levels, in order, with its share of the budget.

    Args:
        given: the arguments.
        maximum: the share that measures the largest size, where it is private.

    Raises:
        ValueError: nothing is left for the levels.
    """
    asked = given.asked_contributions
    found: dict[Statistic, Fraction] = {} if maximum is None else {"largest_size": maximum}
    if asked is not None:
        found["contributions"] = asked.share
    if sum(found.values()) >= 1:
        raise ValueError(
            f"contributions: its share, {float(found['contributions'])}, and that of max_group_size, "
            f"{float(found['largest_size'])}, leave nothing of the budget for the levels; lower one of them"
        )
    return found


def beside_the_levels(given: PersonOptions, *, maximum: bool = False) -> list[Statistic]:
    """What the arguments say is measured beside the levels, in order."""
    found: list[Statistic] = ["largest_size"] if maximum else []
    return found if given.asked_contributions is None else [*found, "contributions"]


def contributions_spec(given: PersonOptions) -> dict[str, Any]:
    """What the published spec says of counting people by their records; nothing where they are not counted."""
    asked = given.asked_contributions
    return {} if asked is None else {"contributions": {"share": float(asked.share), "at_most": asked.at_most}}


def with_contributions(statement: Mapping[str, Any], given: PersonOptions) -> dict[str, Any]:
    """The statement, which says up to how many records people are counted by."""
    asked = given.asked_contributions
    if asked is None:
        return dict(statement)
    return {**statement, "contributions": {**statement["contributions"], "at_most": asked.at_most}}
