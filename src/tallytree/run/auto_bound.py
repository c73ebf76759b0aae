"""`max_contributions="auto"`: the contribution bound is chosen from noisy numbers of people, then the rest is measured.

**Two phases.** First people by their number of records are measured, with the share of the budget that `contributions`
has. The bound m is chosen from these noisy numbers and from public facts (below), among the ends of the
bins, which are those of m = 1 and so depend on no record. Then at most m records of each person count, and the levels
are measured with the rest of the budget and with noise that is planned for m.

**The loss is at most the budget.** Let D and D' be data sets that differ in one person's records, however many those
are (in either relation). Fix the key that chooses which records count.

1. The first phase measures `contributions`, whose sensitivity is 1 or 2 whatever anybody's number of records is
   (`accounting.sensitivity`). It spends at most its share.
2. m is a function of the noisy answers of the first phase and of public facts. So once the answers are given, m is
   fixed, and it is the same number for D and D'.
3. Given m, of every person at most m records count, by a function of the key and of that person's records alone. So
   what is tabulated of D and of D' differs in at most m records of one person (2m where they are replaced), and the
   sensitivities for m hold, also for a person with more than `at_most` records. `NoisePlan.with_sensitivities` scales
   every level's noise to them: a level spends at most its share of the budget, *for every m*. The shares are those of
   one plan, fixed before anything is measured.
4. The second phase draws from another key, so its noise is independent of the first phase's answers. Adaptive
   composition, in which the second mechanism is chosen by the first one's answers, adds up the two shares: of pure ε
   the densities multiply, P(o₁, o₂)/P'(o₁, o₂) = P(o₁)/P'(o₁) · P(o₂|o₁)/P'(o₂|o₁) ≤ exp(ε₁ + ε₂), and for ρ see Bun
   and Steinke 2016, Lemma 2.3. Privacy-loss distributions are not used: that of a level depends on m, and their
   composition is proven here for fixed ones only (`accounting.pld`); (ε, δ) is converted from ρ.

The bound of the loss holds for every key, so it holds for the release. The ledger has the whole budget before anything
is measured, since the loss does not depend on m.

**What the ledger says of the person.** The entry's bound is `at_most`: M. The guarantee holds for a person with any
number of records, since the bound is enforced, so it holds for everybody with at most M. M is public before anything is
measured, as an entry must be; m is not. A data set for which a bound is stated therefore takes the release if M reaches
that bound, and where a unit has one bound for all releases, M has to be it.

**Keys.** The noise of the first phase has a key of its own. The second key is derived from the digests of both phases'
statistics, from both plans and from the id of the release (`ReleaseKeys.noise_after_a_choice`). The chosen plan says m
and every scale. So no noise of one phase is any of the other, and the same noise never meets other statistics or
another scale. Which records count is chosen by a third key, which draws no noise.

**Repeated runs.** A run with a secret is recorded under the digest of the first phase's statistics. Those of the second
phase must follow from it, or records could be changed between two attempts such that the ledger finds a repetition and
the second phase has other noise: two releases, one payment. The bounded counts of one m do not decide those of another.
So the first digest includes a fingerprint of the number of records of every person in every cell, from which the counts
under every bound follow (`contribution_bound.fingerprint`), and all statistics at the largest bound, which also have
what is public of groups. The second phase counts people once more, and refuses records that are not those of the first.

**Which bound is chosen.** The one of least expected error, noise and cut together. Of every measured level take the sum
of the absolute errors of what is measured there, over all of its cells. For the bound m it is at most

    cells · E|X(m)|  +  d · C(m),

with X(m) the noise of a cell when the level is planned for m; C(m) the records that m leaves out; and d the most by
which one record moves the level's statistic (1 for counts). All records that are left out move counts the same way, so
for counts their errors add up to exactly C(m) at every level, wherever the records lie: nothing has to be assumed of
that. The noise of a level counts as at most d · R, with R the number of all records: that is the error of publishing
zeros, which no mechanism that releases non-negative numbers exceeds by much, however many cells are empty. A level
whose noise reaches it for all m has no say in the noise. The objective is the mean of the levels' sums; the chosen
bound is the least m that minimises it, among the last numbers of the bins, so that no bin is cut in two.

C and R are those of the noisy numbers of people (`accounting.left_out.told_apart`), in the middle of each bin; all
else is public. So this is post-processing, and spends nothing. The noise is that of the budget, the shares and the
relation of the release that is planned; (ε, δ) is converted by ρ, as for `accounting="zcdp"`. Post-processing by the
mechanism lowers the noise of all bounds alike, which this leaves out.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from narwhals.dependencies import is_into_dataframe as is_frame

from tallytree.accounting import Asked, NoisePlan, composable_budget, gaussian_for, laplace_for
from tallytree.accounting.left_out import told_apart
from tallytree.accounting.scales import next_float, representable
from tallytree.accounting.sensitivity import sensitivity
from tallytree.budget import Budget
from tallytree.errors import BudgetExceeded
from tallytree.hierarchy import nodes_per_level
from tallytree.kinds.measurements import Noise, Statistic
from tallytree.kinds.terms import AUTO
from tallytree.private import NoiseSource, TrueContributions
from tallytree.run.options import SharedArguments
from tallytree.run.people import MeasuredContributions, PublishedContributions, measured_contributions
from tallytree.run.planned import LEAST, CountsPeople, Planned
from tallytree.run.workspace import Workspace
from tallytree.trees.unknown_leaves import with_unknown_leaves

A = TypeVar("A", bound=SharedArguments)
P = TypeVar("P", bound=Planned[Any, Any])

OBJECTIVE = (
    "The mean over the measured levels of: cells times the expected absolute noise of a cell (at most the error of "
    "publishing zeros), plus the records left out; the least bound that minimises it is recommended."
)

MOST_LEFT_OUT = 0.5
"""A bound that may leave out a larger share was chosen on too little; the summary says so."""
LITTLE_WAS_SEEN = (
    " The noise hides how many people have more records, so the chosen bound may be far from the best one. With so few "
    "people give a number, or a larger share."
)

_CHANGED = (
    "records: they are not those that were counted before the contribution bound was chosen, so they changed while the "
    "release was made; keep them as they are until it is finished"
)


# --- Planning ---


def for_the_plan(arguments: A, name: str = "records") -> A:
    """The arguments that a release is planned with: with the least bound, where the bound is chosen.

    The tree has the leaves for records of which only the parent is known, where `on_unknown` says so.

    The shares of that plan hold for every bound; `sealed` makes the plans of the others from it.

    Args:
        arguments: what was given.
        name: the argument with the records, in messages.

    Raises:
        ValueError: the records can be read once only, or the losses are to be composed as distributions.
    """
    tree = getattr(arguments, "hierarchy", None)
    if (known := with_unknown_leaves(tree, arguments.on_unknown)) is not tree:
        with_leaves: dict[str, Any] = {"hierarchy": known}
        arguments = replace(arguments, **with_leaves)
    if arguments.max_contributions != AUTO:
        return arguments
    _refuse_what_is_read_once(arguments.private_table, name)
    budget = getattr(arguments, "budget", None)
    approximate = isinstance(budget, Budget) and budget.kind == "approximate"
    if arguments.accounting == "pld" and approximate:
        raise ValueError(
            'accounting: "pld" is not proven where max_contributions="auto" chooses the noise; choose "zcdp", or leave '
            "it out"
        )
    changes: dict[str, Any] = {"max_contributions": LEAST}
    if approximate and arguments.accounting is None:
        changes["accounting"] = "zcdp"
    return replace(arguments, **changes)


def sealed(planned: P, given: SharedArguments) -> P:
    """A release that is planned, sealed; where its bound is chosen, with the noise of the largest one.

    Args:
        planned: the release, planned with `for_the_plan(given)`.
        given: the arguments that were given.

    Raises:
        ValueError: the mechanism measures something else than cells that public facts count.
        BudgetExceeded, TypeError: see `Planned.seal`.
    """
    if given.max_contributions == AUTO:
        asked = planned.arguments.asked_contributions
        if asked is None or not weighed_levels(planned):
            raise ValueError(
                f'max_contributions: "auto" weighs the noise of cells that public facts count, and '
                f"{type(planned.mechanism).__name__} measures sorted sizes; give a number, or another mechanism"
            )
        planned = replace(planned.with_bound(asked.at_most), bound_is_chosen=True)
    return planned.seal()


def _refuse_what_is_read_once(table: Any, name: str) -> None:
    """Refuse records that cannot be read once for each phase.

    Raises:
        ValueError: they are a stream.
    """
    known = isinstance(table, str | os.PathLike | list | tuple | pa.Table | pa.RecordBatch) or is_frame(table)
    if not known and hasattr(table, "__arrow_c_stream__"):
        raise ValueError(
            f'{name}: {type(table).__name__} is read once, as a stream, and with max_contributions="auto" the records '
            "are read twice; give files or a table, such as pyarrow.table(…)"
        )


# --- The two phases ---


@dataclass(frozen=True, eq=False)
class FirstPhase:
    """What is tabulated before the bound is chosen.

    Attributes:
        contributions: people by their number of records.
        statistics: the digest of all statistics, for the derivation of the first noise key; never published.
    """

    contributions: TrueContributions
    statistics: bytes

    def __repr__(self) -> str:
        """Nothing of the people."""
        return "FirstPhase(<private>)"

    def digest(self) -> bytes:
        """See `CountsPeople`."""
        return self.statistics


def first_phase(planned: Planned[Any, Any], work: Workspace | None) -> FirstPhase:
    """The statistics with the largest bound, of which people by records are measured.

    What no release could be made of, such as too many records, is refused here, where nothing is spent yet. The files
    of a run with `memory` are removed.
    """
    if work is None:
        true: CountsPeople = planned.tabulate()
        return FirstPhase(counted_people_of(true), true.digest())
    folder = work.private / "first"
    folder.mkdir(mode=0o700)
    try:
        true = planned.tabulate(replace(work, private=folder))
        return FirstPhase(counted_people_of(true), true.digest())
    finally:
        shutil.rmtree(folder)


def counted_people_of(true: CountsPeople) -> TrueContributions:
    """People by their number of records, among true statistics that have to have them.

    Raises:
        BudgetExceeded: the engine did not count them.
    """
    if true.contributions is None:
        raise BudgetExceeded("contributions: the engine did not count people by their number of records")
    return true.contributions


class NextNoise(Protocol):
    """Gives the noise of what is measured after a choice: see `PaidNoise.after_a_choice`."""

    def __call__(self, statistics: bytes, plan: str) -> NoiseSource:
        """The noise, from the digest of the statistics that are measured next and from that of the chosen plan."""


def second_phase(
    planned: P, first: FirstPhase, source: NoiseSource, next_noise: NextNoise, work: Workspace | None
) -> tuple[P, Any, NoiseSource, PublishedContributions]:
    """Measure people by their records, choose the bound, and tabulate again with it.

    Args:
        planned: the release whose bound is chosen.
        first: what was tabulated for it.
        source: the noise of the first phase.
        next_noise: gives the noise of the second.
        work: where the statistics are kept, if not in memory.

    Returns:
        The release with the chosen bound, its true statistics, its noise, and what is published of people.

    Raises:
        ValueError: the records are not those of the first phase.
    """
    people = planned.counted_people
    measured = measured_contributions(first.contributions, planned.plan, source, people.bins if people else ())
    facts = chosen_bound(planned, measured)
    chosen = planned.with_bound(facts["max_contributions"])
    true = chosen.tabulate(work, people)
    if true.contributions is None or true.contributions.digest() != first.contributions.digest():
        raise ValueError(_CHANGED)
    published = chosen.published_people(measured)
    published.facts["contributions"]["chosen"] = facts
    share = published.facts["contributions"].get("share_left_out")
    if share is not None and share["ci_upper"] > MOST_LEFT_OUT:
        published.facts["contributions"]["summary"] += LITTLE_WAS_SEEN
    return chosen, true, next_noise(true.digest(), chosen.plan_digest), published


# --- Which bound is chosen ---


@dataclass(frozen=True)
class WeighedLevel:
    """What the objective needs of a measured level.

    Attributes:
        statistic: what is measured.
        share: its share of the budget.
        nodes: how many nodes it has.
        cells: how many cells are measured.
    """

    statistic: Statistic
    share: Fraction
    nodes: int
    cells: int


def recommendation(planned: Planned[Any, Any], measured: MeasuredContributions) -> dict[str, Any] | None:
    """The bound of least expected error for a planned release, JSON-able; None where the noise follows no such rule.

    Bounds that ask for more noise than is drawn are left out; None where all do.

    Args:
        planned: the release whose bound is to be chosen.
        measured: the noisy numbers of people.
    """
    levels = weighed_levels(planned)
    if not levels:
        return None
    people = told_apart(measured.bins, measured.people, measured.noise)
    middle = np.array(measured.bins, dtype=np.float64).mean(axis=1)
    everything = max(float(people @ middle), 0.0)
    choices = []
    for _, bound in measured.bins:
        drawn = _noise_of_levels(planned, levels.values(), bound)
        if drawn is None:
            break  # nor is that of a larger bound drawn
        cut = max(float(people @ np.maximum(middle - bound, 0)), 0.0)
        noise, moved = _noise_and_moves(planned, levels.values(), drawn, everything)
        choices.append(
            {
                "max_contributions": bound,
                "noise": round(noise, 1),
                "left_out": round(moved * cut, 1),
                "expected_error": round(noise + moved * cut, 1),
            }
        )
    if not choices:
        return None
    best = min(choices, key=lambda choice: (choice["expected_error"], choice["max_contributions"]))
    return {"max_contributions": best["max_contributions"], "objective": OBJECTIVE, "choices": choices}


def chosen_bound(planned: Planned[Any, Any], measured: MeasuredContributions) -> dict[str, Any]:
    """The bound of least expected error, and what it was chosen from; see `recommendation`.

    Raises:
        BudgetExceeded: there is none, so the release was not planned by `sealed`.
    """
    chosen = recommendation(planned, measured)
    if chosen is None:
        raise BudgetExceeded("max_contributions: no bound can be chosen for this release; plan it anew")
    return chosen


def weighed_levels(planned: Planned[Any, Any]) -> dict[str, WeighedLevel]:
    """The measured levels; none where noise is not added to cells that public facts count."""
    plan = planned.plan
    if not isinstance(plan, NoisePlan) or "sorted_sizes" in planned.statistics.values():
        return {}
    nodes = nodes_per_level(planned.tree)
    return {
        level: WeighedLevel(each.statistic, each.share, nodes[level], nodes[level] * planned.cells_per_node)
        for level, each in plan.levels.items()
    }


def _noise_of_levels(planned: Planned[Any, Any], levels: Iterable[WeighedLevel], bound: int) -> list[Noise] | None:
    """The noise of each level, if the bound were this one; None where one asks for more than is drawn."""
    relation, z = planned.arguments.relation, planned.quantity
    asked = [
        Asked(
            "",
            each.statistic,
            sensitivity(each.statistic, relation, bound, max_quantity=z, nodes=each.nodes),
            each.share,
        )
        for each in levels
    ]
    try:
        return [_noise(planned, each) for each in asked]
    except ValueError:
        return None


def _noise_and_moves(
    planned: Planned[Any, Any], levels: Collection[WeighedLevel], drawn: Sequence[Noise], everything: float
) -> tuple[float, float]:
    """The objective's noise for a bound, and by how much one record that is left out adds to it: means over levels."""
    z, noise, moves = planned.quantity, [], []
    for each, noise_of_each in zip(levels, drawn, strict=True):
        moved = sensitivity(each.statistic, "add_remove", max_quantity=z, nodes=each.nodes).l1
        noise.append(min(each.cells * expected_absolute(noise_of_each), moved * everything))
        moves.append(moved)
    return sum(noise) / len(levels), sum(moves) / len(levels)


def _noise(planned: Planned[Any, Any], asked: Asked) -> Noise:
    """The noise of a level, if its bound were this one."""
    budget, grid = planned.plan.budget, next_float if planned.arguments.noise == "opendp" else representable
    granted = composable_budget(budget, "zcdp" if budget.kind == "approximate" else None)
    noise_for = laplace_for if budget.kind == "pure" else gaussian_for
    return noise_for(asked.sensitivity, granted * asked.share, grid)


def expected_absolute(noise: Noise) -> float:
    """E|X| of the noise of a cell.

    1 / sinh(1 / scale) of discrete Laplace noise; of discrete Gaussian noise that of the continuous law, √(2/π)·scale.
    """
    scale = float(noise.scale)
    if noise.distribution == "discrete_laplace":
        return 1 / math.sinh(1 / scale) if scale > 1 / 700 else 0.0
    return math.sqrt(2 / math.pi) * scale
