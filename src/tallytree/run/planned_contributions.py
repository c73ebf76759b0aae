"""A planned release of people by their number of records alone, before the contribution bound is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

from tallytree.accounting import Asked, NoisePlan, plan_noise
from tallytree.accounting.scales import next_float, representable
from tallytree.accounting.sensitivity import sensitivity
from tallytree.budget import Budget, exact
from tallytree.errors import BudgetExceeded
from tallytree.kinds.contributions import DEFAULT_AT_MOST, Contributions
from tallytree.kinds.measurements import Statistic
from tallytree.kinds.terms import AUTO, Unit, options_of
from tallytree.private import CountGroups, CountHouseholds, CountRecords, GroupRows, NoiseSource
from tallytree.release import Release
from tallytree.release.contributions_table import FILE
from tallytree.release.level_tables import PlainTable, read_all
from tallytree.release.statement import privacy_statement
from tallytree.run.arguments import ContributionsArguments, CountsArguments
from tallytree.run.auto_bound import FirstPhase, counted_people_of, recommendation
from tallytree.run.people import CountedPeople, MeasuredContributions, PublishedContributions, counted_noun
from tallytree.run.plan_counts import plan_counts
from tallytree.run.planned import LEAST, PLANNED_SOFTWARE, Planned, Reconciled, check_same
from tallytree.run.planning import account
from tallytree.run.workspace import Workspace


@dataclass(frozen=True)
class PeopleByRecords:
    """What turns the measurement into a table: nothing, the noisy numbers are published as they are."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PlannedContributions(Planned[FirstPhase, PeopleByRecords]):
    """A planned release of people by their number of records.

    Attributes:
        chosen_for: the planned release whose contribution bound is to be chosen; it is not run.
        asked: up to how many records people are told apart.
        plan: the noise.
        bound: the contribution bound of the other release; None where it is chosen when that is made.
    """

    chosen_for: Planned[Any, Any]
    asked: Contributions
    plan: NoisePlan
    bound: int | None

    releases = ("contributions",)

    @property
    def beside(self) -> Sequence[Statistic]:
        """See `Planned.beside`."""
        return ("contributions",)

    @property
    def unit(self) -> Unit:
        """See `Planned.unit`: that of the release whose bound is to be chosen."""
        return self.chosen_for.unit

    @property
    def counted_people(self) -> CountedPeople:
        """See `Planned.counted_people`."""
        return CountedPeople(self.asked.at_most, self.bound or LEAST)

    @property
    def request(self) -> CountRecords | CountGroups | GroupRows | CountHouseholds:
        """See `Planned.request`: that of the release whose bound is to be chosen."""
        return self.chosen_for.request

    def _anew(self) -> Self:
        """See `Planned._anew`."""
        return replace(self, chosen_for=replace(self.chosen_for))

    def check_plan(self) -> None:
        """See `Planned.check_plan`: the arguments are those of the other release too."""
        check_same(self, self.chosen_for, "arguments", "tree", "public_tree")
        super().check_plan()

    def own_spec(self) -> dict[str, Any]:
        """See `Planned.own_spec`: the spec of the release that the bound is for, and how people are counted."""
        return {
            "statistic": "contributions",
            "contributions": {"at_most": self.asked.at_most},
            "chosen_for": self.chosen_for.spec,
        }

    def own_statement(self) -> dict[str, Any]:
        """See `Planned.own_statement`."""
        terms = self.arguments
        noun = counted_noun(terms, self.chosen_for.statistic)
        statement = privacy_statement(
            statistic="contributions",
            levels={},
            plan=self.plan,
            terms=terms,
            mechanism=self.mechanism,
            invariants=["the hierarchy"],
            notes=[
                f"People are counted by their number of {noun} in the hierarchy; who has none is not counted, and who "
                f"has more than {self.asked.at_most} is counted as having so many. No bound on contributions is needed "
                "for this guarantee, and none is applied."
            ],
            tabulated_by=PLANNED_SOFTWARE,
            dataset=self.dataset,
        )
        # Nothing is bounded here, and nothing assumed: the numbers would be read as what this release enforces.
        statement |= {"max_contributions": None, "max_contributions_enforced": None}
        table = {"level": FILE, "nodes": len(self.counted_people.bins), "measured": True}
        statement["levels"] = [table | statement["contributions"]]
        statement["contributions"] |= {"at_most": self.asked.at_most, "bound": self.bound or AUTO}
        return statement

    def tabulate(self, work: Workspace | None = None, people: CountedPeople | None = None) -> FirstPhase:
        """See `Planned.tabulate`."""
        people = people or self.counted_people
        true = counted_people_of(self.chosen_for.tabulate(None, people))
        return FirstPhase(true, true.digest())  # of the people alone: nothing else is measured

    def published_people(self, measured: MeasuredContributions) -> PublishedContributions:
        """See `Planned.published_people`; a bound that is chosen is the one that the release would choose."""
        noun = counted_noun(self.arguments, self.chosen_for.statistic)
        chosen = recommendation(self.chosen_for, measured)
        bound = self.bound or int((chosen or {})["max_contributions"])
        facts = measured.facts(bound, noun, applied=False) | {"bound": bound, "recommended": chosen}
        return PublishedContributions(measured.table(), {"contributions": facts})

    def fit(
        self,
        true: FirstPhase,
        source: NoiseSource,
        on_measure: Callable[[str], None],
        work: Workspace | None,
        people: PublishedContributions,
    ) -> Reconciled:
        """See `Planned.fit`: nothing is fitted, and the noisy numbers are published as they are."""
        if people.table is None:
            raise BudgetExceeded("contributions: people were not counted by their number of records")
        kept = read_all(people.table).rename_columns({"people": "value"})
        measured = PlainTable(kept if self.arguments.keep_measurements else kept.slice(0, 0))
        return Reconciled({FILE: people.table}, (), {}, people.facts, measured={FILE: measured})

    def as_release(self, statement: Mapping[str, Any], spec: Mapping[str, Any], made: Reconciled) -> Release:
        """See `Planned.as_release`: one table, which is of no level, and what was measured for it."""
        return Release(statement, spec, made.tables, made.measured or {})


def plan_contributions(arguments: ContributionsArguments) -> PlannedContributions:
    """Plan a release of people by their number of records; see `tallytree.release_contributions`."""
    options = options_of(arguments, CountsArguments)
    if arguments.prior is not None:
        raise ValueError("prior: people by their number of records take none; leave it out")
    return contributions_of(plan_counts(CountsArguments(**options)), arguments.share, arguments.at_most)


def contributions_of(planned: Planned[Any, Any], share: Any = None, at_most: int | None = None) -> PlannedContributions:
    """Plan a release of people by their number of records, to choose the bound of another planned release.

    Args:
        planned: the other release; it is not run, and spends nothing.
        share: the share of its budget that is spent; by default that of its `contributions`, or all of it.
        at_most: the last number of records; by default that of its `contributions`, or 1,000.

    Raises:
        ValueError: nothing names the people; a share that is not above 0 and at most 1; a number out of range.
    """
    bound = None if planned.bound_is_chosen else planned.arguments.bound
    planned = replace(planned, bound_is_chosen=False)  # with the largest bound, where it is chosen
    given: Any = planned.arguments
    if given.person is None:
        raise ValueError("person: to count people by their number of records, name the column with the ids of people")
    own = given.asked_contributions
    most = at_most if at_most is not None else own.at_most if own is not None else DEFAULT_AT_MOST
    asked = Contributions(at_most=most)
    if bound is not None and asked.at_most <= bound:
        raise ValueError(
            f"at_most: {asked.at_most} must be more than max_contributions, which is {bound}; give "
            "the most records that a person may have"
        )
    part = share_of_budget(share) if share is not None else own.share if own is not None else Fraction(1)
    budget = part_of(given.budget, part)
    moved = sensitivity("contributions", given.relation)
    grid = next_float if given.noise == "opendp" else representable
    first = Asked(planned.tree.levels[0], "contributions", moved, Fraction(1))
    plan = plan_noise(budget, {}, None, given.accounting, grid, [first])
    mechanism = PeopleByRecords()
    made = PlannedContributions(
        statistic="contributions",
        arguments=given,
        tree=planned.tree,
        public_tree=planned.public_tree,
        table_names=planned.table_names,
        mechanism=mechanism,
        statistics={},
        plan=plan,
        engine=planned.engine,
        account=account(given, "contributions", mechanism, plan, unit=planned.unit),
        chosen_for=planned,
        asked=asked,
        bound=bound,
    )
    return made.seal()


def share_of_budget(share: Any) -> Fraction:
    """The share of a budget that a release spends, as a rational.

    Raises:
        ValueError: not above 0, or above 1.
        TypeError: not a number.
    """
    part = exact(share, "share")
    if not 0 < part <= 1:
        raise ValueError(f"share: {float(part)} must be above 0 and at most 1, the whole budget")
    return part


def part_of(budget: Budget, share: Fraction) -> Budget:
    """A share of a budget: of ε, of ε and δ, or of ρ."""
    amounts = {"epsilon": budget.epsilon, "delta": budget.delta, "rho": budget.rho}
    return Budget(**{name: None if amount is None else amount * share for name, amount in amounts.items()})
