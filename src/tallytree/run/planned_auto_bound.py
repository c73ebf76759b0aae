"""`max_contributions="auto"`: the contribution bound is chosen from noisy numbers of people, then the rest is measured.

**Two phases.** First people by their number of records are measured, with the share of the budget that `contributions`
has. The bound m is chosen from these noisy numbers and from public facts (`choosing_bound`), among the ends of the
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
"""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa

from tallytree.accounting import LevelPlan, NoisePlan
from tallytree.accounting.scales import next_float, representable
from tallytree.accounting.sensitivity import Sensitivity, sensitivity
from tallytree.accounting.spending import Posting
from tallytree.budget import Budget
from tallytree.errors import BudgetExceeded
from tallytree.hierarchy import nodes_per_level
from tallytree.kinds.contributions import Contributions, contribution_bins
from tallytree.kinds.terms import AUTO
from tallytree.private import NoiseSource, TrueContributions
from tallytree.release.counted_unit import counted_unit
from tallytree.run.arguments import ContributionsArguments, FlowsArguments
from tallytree.run.choosing_bound import recommendation, weighed_levels
from tallytree.run.measured_contributions import MeasuredContributions, measured_contributions
from tallytree.run.planned import CHANGED, PaidNoise, Planned, Reconciled, check_same, with_facts
from tallytree.run.planned_records import AnyRecords
from tallytree.run.shared_arguments import SharedArguments
from tallytree.run.workspace import Workspace
from tallytree.sources.data_frames import is_frame

A = TypeVar("A", bound=SharedArguments)

LEAST = 1
"""The bound whose bins people are counted in: those of a bound that is not known. It is also the least candidate."""

_DEPENDS_ON_THE_BOUND = ("sensitivity", "noise", "spent", "margin")
"""What a statement says of a measurement, and cannot say before the bound is known."""

_CHANGED = (
    "records: they are not those that were counted before the contribution bound was chosen, so they changed while the "
    "release was made; keep them as they are until it is finished"
)


def plan_release(plan: Callable[[A], Planned[Any, Any]], arguments: A) -> Planned[Any, Any]:
    """Plan a release, also one whose contribution bound is chosen when it is made.

    A release of people by their number of records bounds nothing, so it is planned like any other.

    Args:
        plan: plans a release of these arguments, once the bound is a number.
        arguments: what was given.
    """
    if arguments.max_contributions == AUTO and not isinstance(arguments, ContributionsArguments):
        return _plan_auto_bound(plan, arguments)
    return plan(arguments)


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
        """See `HasDigest`."""
        return self.statistics


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PlannedAutoBound(Planned[FirstPhase, Any]):
    """A planned release whose contribution bound is chosen when it is made; see the module's docstring.

    Attributes:
        largest: the release with the largest bound that can be chosen, `at_most`; it is not run.
        asked: how people are counted, and up to how many records.
        plan: the noise with that bound; what it spends holds for every bound.
    """

    largest: AnyRecords
    asked: Contributions
    plan: NoisePlan

    measured_column = "value"

    @property
    def bins(self) -> tuple[tuple[int, int], ...]:
        """First and last number of records of each bin; the bound is one of the last ones."""
        return contribution_bins(LEAST, self.asked.at_most)

    @property
    def candidates(self) -> list[int]:
        """The bounds that can be chosen."""
        return [last for _, last in self.bins]

    @property
    def posting(self) -> Posting:
        """See `Planned.posting`: the whole budget, and `at_most` as the bound on a person's records."""
        return replace(super().posting, max_contributions=self.asked.at_most)

    @property
    def expected_work(self) -> str:
        """See `Planned.expected_work`."""
        return self.largest.expected_work

    def with_bound(self, bound: int) -> AnyRecords:
        """The release with a bound; it is not sealed, so it cannot be run by itself."""
        return with_bound(self.largest, bound)

    def check_records(self) -> None:
        """See `Planned.check_records`."""
        self.largest.check_records()

    def check_plan(self) -> None:
        """See `Planned.check_plan`: the noise of every bound that can be chosen is planned once, and none is dearer.

        Raises:
            BudgetExceeded: a plan is about another release, or spends another amount.
        """
        same = ("statistic", "arguments", "tree", "public_tree", "mechanism", "plan", "account")
        check_same(self, self.largest, *same)
        for bound in self.candidates:
            candidate = self.with_bound(bound)
            candidate.check_plan()
            if (candidate.plan.spent, candidate.arguments.bound) != (self.plan.spent, bound):
                raise BudgetExceeded(CHANGED)

    @cached_property
    def spec(self) -> dict[str, Any]:
        """See `Planned.spec`."""
        return {**self.largest.spec, "max_contributions": AUTO}

    @cached_property
    def statement(self) -> dict[str, Any]:
        """See `Planned.statement`: what holds whatever bound is chosen, so no sensitivity or noise of a level."""
        planned = with_facts(self.largest.statement, {})
        unit = planned["unit_of_protection"]
        open_unit = unit.replace(f"at most {self.asked.at_most} ", "at most m ") + ", with m chosen from noisy numbers"
        if "maximum" in planned:
            planned["maximum"] = _whatever_the_bound(planned["maximum"])
        planned |= {
            "max_contributions": AUTO,
            "unit_of_protection": open_unit,
            "guarantee": planned["guarantee"].replace(unit, open_unit),
            "levels": [_whatever_the_bound(level) for level in planned["levels"]],
            "notes": [*planned["notes"], _note(self.candidates)],
        }
        planned["contributions"]["chosen_among"] = self.candidates
        return {**planned, "counted": counted_unit(planned)}

    def rehearse(self) -> None:
        """See `Planned.rehearse`: with the largest bound."""
        self.largest.rehearse()

    def tabulate(self, work: Workspace | None = None) -> FirstPhase:
        """See `Planned.tabulate`: the statistics with the largest bound, of which people by records are measured.

        What no release could be made of, such as too many records, is refused here, where nothing is spent yet.
        """
        if work is None:
            return self._first_phase(None)
        folder = work.private / "first"
        folder.mkdir(mode=0o700)
        try:
            return self._first_phase(replace(work, private=folder))
        finally:
            shutil.rmtree(folder)

    def _first_phase(self, work: Workspace | None) -> FirstPhase:
        true = self.largest.tabulate_with(self.asked, work, bins_of=LEAST)
        if true.contributions is None:
            raise BudgetExceeded("contributions: the engine did not count people by their number of records")
        return FirstPhase(true.contributions, true.digest())

    def measured(
        self, true: FirstPhase, paid: PaidNoise, on_measure: Callable[[str], None], work: Workspace | None
    ) -> tuple[Planned[Any, Any], Reconciled]:
        """See `Planned.measured`: both phases; the release that was chosen, and what was made for it."""
        people = measured_contributions(true.contributions, self.plan, paid.source, self.bins)
        facts = chosen_bound(self.largest, people)
        chosen = self.with_bound(facts["max_contributions"])
        # Mypy knows the three kinds of releases as one union; each takes what it has tabulated itself.
        release: Any = chosen
        second = release.tabulate_with(self.asked, work, bins_of=LEAST)
        if second.contributions is None or second.contributions.digest() != true.contributions.digest():
            raise ValueError(_CHANGED)
        source = paid.after_a_choice(second.digest(), chosen.plan_digest)
        published = people.published(chosen.arguments, self.statistic)
        published.facts["contributions"]["chosen"] = facts
        share = published.facts["contributions"].get("share_left_out")
        if share is not None and share["ci_upper"] > MOST_LEFT_OUT:
            published.facts["contributions"]["summary"] += LITTLE_WAS_SEEN
        made = release.reconcile_levels(second, source, on_measure, work, published)
        notes = {"notes": [*chosen.statement["notes"], _note(self.candidates)]}
        return chosen, replace(made, about={**chosen.statement, **notes, **made.about})

    def reconcile(
        self,
        true: FirstPhase,
        source: NoiseSource,
        on_measure: Callable[[str], None],
        work: Workspace | None = None,
    ) -> Reconciled:
        """Refuse to measure with one source: see `measured`.

        Raises:
            BudgetExceeded: always.
        """
        raise BudgetExceeded("noise: a release whose bound is chosen has noise of two keys; run it as it was planned")


MOST_LEFT_OUT = 0.5
"""A bound that may leave out a larger share was chosen on too little; the summary says so."""
LITTLE_WAS_SEEN = (
    " The noise hides how many people have more records, so the chosen bound may be far from the best one. With so few "
    "people give a number, or a larger share."
)


def chosen_bound(planned: AnyRecords, measured: MeasuredContributions) -> dict[str, Any]:
    """The bound of least expected error, and what it was chosen from; see `choosing_bound.recommendation`.

    Args:
        planned: the release, with any bound.
        measured: the noisy numbers of people.
    """
    found = recommendation(planned, measured)
    assert found is not None  # noqa: S101  (a release without a recommendation is not planned)
    return found


def with_bound(planned: AnyRecords, bound: int) -> AnyRecords:
    """A planned release with another contribution bound, and with noise for it from the same shares of the budget.

    Args:
        planned: the release.
        bound: m; at most the largest number of records that people are counted by.
    """
    # The check that at_most is above the bound is of bounds that are given: one that is chosen may reach it.
    arguments = copy.copy(planned.arguments)
    object.__setattr__(arguments, "max_contributions", bound)
    relation, z, nodes = arguments.relation, planned.quantity, nodes_per_level(planned.tree)

    def needed(each: LevelPlan) -> Sensitivity:
        return sensitivity(each.statistic, relation, bound, max_quantity=z, nodes=nodes[each.level])

    if not isinstance(planned.plan, NoisePlan):
        raise BudgetExceeded("budget: counts above a threshold are not planned for a bound that is chosen")
    grid = next_float if arguments.noise == "opendp" else representable
    changes: dict[str, Any] = {"arguments": arguments, "plan": planned.plan.with_sensitivities(needed, grid)}
    return replace(planned, **changes)


def _plan_auto_bound(plan: Callable[[A], Planned[Any, Any]], arguments: A) -> PlannedAutoBound:
    """Plan a release with the least bound, whose shares then hold for every bound, and make the others from it."""
    _refuse_what_is_read_once(arguments)
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
    planned: Any = plan(replace(arguments, **changes))
    asked = planned.arguments.asked_contributions
    if not weighed_levels(planned):
        raise ValueError(
            f'max_contributions: "auto" weighs the noise of cells that public facts count, and '
            f"{type(planned.mechanism).__name__} measures sorted sizes; give a number, or another mechanism"
        )
    largest: Any = with_bound(planned, asked.at_most)
    made = PlannedAutoBound(
        statistic=largest.statistic,
        arguments=largest.arguments,
        tree=largest.tree,
        public_tree=largest.public_tree,
        table_names=largest.table_names,
        mechanism=largest.mechanism,
        statistics=largest.statistics,
        plan=largest.plan,
        engine=largest.engine,
        account=largest.account,
        largest=largest,
        asked=asked,
    )
    return made.seal()


def _refuse_what_is_read_once(arguments: SharedArguments) -> None:
    """Refuse records that cannot be read once for each phase.

    Raises:
        ValueError: they are a stream.
    """
    name = "trips" if isinstance(arguments, FlowsArguments) else "records"
    table = getattr(arguments, name)
    known = isinstance(table, str | os.PathLike | list | tuple | pa.Table | pa.RecordBatch) or is_frame(table)
    if not known and hasattr(table, "__arrow_c_stream__"):
        raise ValueError(
            f'{name}: {type(table).__name__} is read once, as a stream, and with max_contributions="auto" the records '
            "are read twice; give files or a table, such as pyarrow.table(…)"
        )


def _whatever_the_bound(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in facts.items() if key not in _DEPENDS_ON_THE_BOUND}


def _note(candidates: list[int]) -> str:
    return (
        "The bound max_contributions is chosen from the noisy numbers of people by their number of records, among "
        f"{len(candidates)} public numbers up to {candidates[-1]:,}. The guarantee holds whichever is chosen, for "
        "people with any number of records; what is spent is the whole budget."
    )
