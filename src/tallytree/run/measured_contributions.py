"""People counted by their number of records, with noise, and what that tells of the contribution bound."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tallytree.accounting import Plan
from tallytree.accounting.left_out import left_out
from tallytree.hierarchy import Levels
from tallytree.kinds.contributions import Contributions, contribution_bins
from tallytree.kinds.measurements import Noise
from tallytree.kinds.terms import UNITS, Terms
from tallytree.private import LeafCounts, LeafGroups, Measurer, NoiseSource, TrueContributions
from tallytree.release.contributions_table import contributions_table, left_out_facts, left_out_unknown
from tallytree.release.level_tables import LevelTable
from tallytree.support.arrays import IntArray


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


@dataclass(frozen=True, eq=False)
class PublishedContributions:
    """What a release publishes of them.

    Attributes:
        table: the table; None where they were not measured.
        facts: by the statement's keys.
    """

    table: LevelTable | None = None
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)


def true_contributions(
    found: LeafCounts | LeafGroups, tree: Levels, asked: Contributions | None, bound: int
) -> TrueContributions | None:
    """The true numbers of people in the bins, where they are to be measured.

    Args:
        found: what the engine found, with how many people have 1, 2, … records.
        tree: the public tree; the numbers have their place at its root.
        asked: what was asked for.
        bound: the bound that the bins are those of.
    """
    if found.people is None or asked is None:
        return None
    bins = contribution_bins(bound, asked.at_most)
    return TrueContributions(tree.levels[0], bins, found.people, found.fingerprint)


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


def published_contributions(
    true: TrueContributions | None,
    asked: Contributions | None,
    plan: Plan,
    source: NoiseSource,
    terms: Terms,
    statistic: str,
) -> PublishedContributions:
    """Measure them where that was asked for, and say what the bound leaves out."""
    if true is None or asked is None:
        return PublishedContributions()
    measured = measured_contributions(true, plan, source, contribution_bins(terms.bound, asked.at_most))
    return measured.published(terms, statistic)


def counted_noun(terms: Terms, statistic: str) -> str:
    """What is counted of a person, in the plural."""
    if terms.distinct_people:
        return "leaves of people"
    return f"{UNITS[statistic]}s"
