"""People with several records: the bound on what counts of one person, and people counted by their records, with noise.

Which records count is chosen by a key of its own (`contribution_bound`). How many people have 1, 2, … records is
measured beside the levels, by a measurer of its own, where the option `contributions` asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from tallytree.accounting import Plan
from tallytree.accounting.left_out import left_out
from tallytree.hierarchy import Levels
from tallytree.kinds.contributions import contribution_bins
from tallytree.kinds.measurements import Noise, Statistic
from tallytree.kinds.registry import kind_of
from tallytree.kinds.terms import Terms
from tallytree.private import (
    ContributionBound,
    LeafCounts,
    LeafGroups,
    Measurer,
    NoiseSource,
    TrueContributions,
    entropy,
)
from tallytree.release.contributions_table import contributions_table, left_out_facts, left_out_unknown
from tallytree.release.level_tables import LevelTable
from tallytree.run.options import SharedArguments
from tallytree.run.release_keys import release_key
from tallytree.support.arrays import IntArray


@dataclass(frozen=True)
class CountedPeople:
    """How people are counted by their number of records.

    Attributes:
        at_most: people with more records are counted as with so many.
        bound: the contribution bound that the bins are those of.
    """

    at_most: int
    bound: int

    @property
    def bins(self) -> tuple[tuple[int, int], ...]:
        """First and last number of records of each bin."""
        return contribution_bins(self.bound, self.at_most)


def contribution_bound(
    given: SharedArguments, people: CountedPeople | None, *, distinct: bool = False
) -> ContributionBound | None:
    """What counts of one person, chosen by a key of its own: the noise key must not exist before the statistics.

    Where people are counted too, a run that can be repeated has a fingerprint of all that could count: its bound may
    be chosen after it is recorded (`auto_bound`).
    """
    if given.person_column is None:
        return None
    return ContributionBound(
        given.person_column,
        given.bound,
        entropy.derive(release_key(given), "records that count"),
        distinct=distinct,
        people_up_to=0 if people is None else people.at_most,
        fingerprint=people is not None and given.secret is not None,
    )


def shares_beside(given: SharedArguments, maximum: Fraction | None = None) -> dict[Statistic, Fraction]:
    """What is measured beside the levels, in order, with its share of the budget.

    Args:
        given: the arguments.
        maximum: the share that measures the largest size, where it is private.

    Raises:
        ValueError: nothing is left for the levels.
    """
    asked = given.asked_contributions
    by_share: dict[Statistic, Fraction] = {} if maximum is None else {"largest_size": maximum}
    if asked is not None:
        by_share["contributions"] = asked.share
    if sum(by_share.values()) >= 1:
        raise ValueError(
            f"contributions: its share, {float(by_share['contributions'])}, and that of max_group_size, "
            f"{float(by_share['largest_size'])}, leave nothing of the budget for the levels; lower one of them"
        )
    return by_share


def beside_the_levels(given: SharedArguments, *, maximum: bool = False) -> list[Statistic]:
    """What the arguments say is measured beside the levels, in order."""
    first: list[Statistic] = ["largest_size"] if maximum else []
    return first if given.asked_contributions is None else [*first, "contributions"]


def contributions_spec(given: SharedArguments) -> dict[str, Any]:
    """What the published spec says of counting people by their records; nothing where they are not counted."""
    asked = given.asked_contributions
    return {} if asked is None else {"contributions": {"share": float(asked.share), "at_most": asked.at_most}}


def with_contributions(statement: Mapping[str, Any], given: SharedArguments) -> dict[str, Any]:
    """The statement, which says up to how many records people are counted by."""
    asked = given.asked_contributions
    if asked is None:
        return dict(statement)
    return {**statement, "contributions": {**statement["contributions"], "at_most": asked.at_most}}


@dataclass(frozen=True, eq=False)
class PublishedContributions:
    """What a release publishes of people by their number of records.

    Attributes:
        table: the table; None where they were not measured.
        facts: by the statement's keys.
    """

    table: LevelTable | None = None
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class MeasuredContributions:
    """Noisy numbers of people by their number of records; all of it may be published.

    Attributes:
        bins: first and last number of records of each bin.
        people: int64 (bins,), noisy.
        noise: of each number.
    """

    bins: tuple[tuple[int, int], ...]
    people: IntArray
    noise: Noise

    def table(self, column: str = "people") -> LevelTable:
        """The table that is published."""
        return contributions_table(self.bins, self.people, self.noise.std_dev, column=column)

    def published(self, terms: Terms, statistic: str) -> PublishedContributions:
        """What a release with these terms publishes of them."""
        facts = self.facts(terms.bound, counted_noun(terms, statistic), applied=True)
        return PublishedContributions(self.table(), {"contributions": facts})

    def facts(self, bound: int, noun: str, *, applied: bool) -> dict[str, Any]:
        """What a statement says of what the bound leaves out; see `left_out_facts`.

        Nothing is known of people with more records than the last number, so nothing is said of a bound that is it.
        """
        if bound == self.bins[-1][1]:
            return {"summary": left_out_unknown(bound, noun, applied=applied)}
        return left_out_facts(left_out(self.bins, self.people, self.noise, bound), bound, noun, applied=applied)


def true_contributions(
    counted: LeafCounts | LeafGroups, tree: Levels, people: CountedPeople | None
) -> TrueContributions | None:
    """The true numbers of people in the bins, where they are to be measured.

    Args:
        counted: what the engine counted, with how many people have 1, 2, … records.
        tree: the public tree; the numbers have their place at its root.
        people: how people are counted.
    """
    if counted.people is None or people is None:
        return None
    return TrueContributions(tree.levels[0], people.bins, counted.people, counted.fingerprint)


def measured_contributions(
    true: TrueContributions, plan: Plan, source: NoiseSource, bins: tuple[tuple[int, int], ...]
) -> MeasuredContributions:
    """Measure them.

    The measurer is one of its own, with the plan's source, in which these numbers have an address that no level has:
    the root's, with a statistic that no level measures. It holds no other statistic, and no other measurer holds these.
    """
    planned = plan.contributions
    if planned is None:
        raise ValueError("contributions: the plan has no noise for them")
    measurer = Measurer(true, plan, source)
    measured = measurer.measure(planned.level, np.zeros(1, dtype=np.int64), "contributions")
    return MeasuredContributions(bins, measured.values, measured.noise)


def counted_noun(terms: Terms, statistic: str) -> str:
    """What is counted of a person, in the plural."""
    if terms.distinct_people:
        return "leaves of people"
    return f"{kind_of(statistic).unit}s"
