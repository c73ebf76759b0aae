"""The unit person: one sum over all statistics of the same people, each release with its own contribution bound."""

import itertools
from dataclasses import replace
from fractions import Fraction

import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import CountsArguments, SizesArguments, plan_counts, plan_group_sizes
from helpers.ledger_entries import TERMS, posting, pure
from tallytree.ledger import Ledger

AREAS = tt.Hierarchy.from_table(pa.table({"state": ["A", "A"], "county": ["x", "y"]}), ["state", "county"])
LARGEST = 3


def test_a_new_data_set_takes_every_statistic_and_every_bound(ledger):
    ledger.set_limit("census", tt.Budget(epsilon=3), **TERMS)
    for changes in (
        {},
        {"statistic": "flows", "unit": "trip", "max_contributions": 4},
        {"statistic": "group_sizes", "unit": "membership", "max_contributions": 2},
    ):
        ledger.record(posting(pure(1), dataset="census", **changes))
    census = ledger.dataset("census")
    assert (census.unit, census.max_contributions) == ("person", None)
    assert [(entry.unit, entry.max_contributions) for entry in census.entries] == [
        ("record", 1),
        ("trip", 4),
        ("membership", 2),
    ]
    with pytest.raises(tt.BudgetExceeded):
        ledger.record(posting(pure("1/100"), dataset="census"))
    with pytest.raises(ValueError, match=r"^neighboring: 'change_one' is the relation here"):
        ledger.check(posting(pure("1/100"), dataset="census", neighboring="change_one"))


def test_a_release_without_a_limit_makes_a_data_set_of_people(ledger):
    ledger.record(posting(pure(1)))
    ledger.record(posting(pure(1), statistic="group_sizes", unit="membership", max_contributions=7))
    assert ledger.dataset("people").unit == "person"
    assert ledger.spent("people") == {"epsilon": 2}


@pytest.mark.parametrize("relation", ["add_remove", "change_one"])
def test_a_stated_bound_protects_the_whole_person(ledger, relation):
    ledger.set_limit("people", tt.Budget(epsilon=9), neighboring=relation, max_contributions=3)
    given = posting(pure(1), neighboring=relation)
    for ask in (ledger.check, ledger.record):
        with pytest.raises(ValueError, match=r"^max_contributions: 2 .*only a part of a person"):
            ask(replace(given, max_contributions=2))
    for most in (3, 4):
        ledger.record(replace(given, max_contributions=most))
    assert len(ledger.entries()) == 2


def test_a_bound_is_stated_once_and_not_above_what_is_protected(ledger):
    ledger.record(posting(pure(1), max_contributions=2))
    budget = tt.Budget(epsilon=9)
    with pytest.raises(ValueError, match=r"^max_contributions: 3 records .*more than the 2"):
        ledger.set_limit("people", budget, max_contributions=3)
    ledger.set_limit("people", budget, max_contributions=2)
    ledger.set_limit("people", budget)
    for most in (1, 3):
        with pytest.raises(
            ValueError, match=f"^max_contributions: {most} is the bound on a person's records here, but"
        ):
            ledger.set_limit("people", budget, max_contributions=most)
    assert ledger.dataset("people").max_contributions == 2


@pytest.mark.parametrize("unit", ["record", "trip", "membership"])
def test_the_unit_of_one_statistic_can_be_declared(ledger, unit):
    ledger.set_limit("people", tt.Budget(epsilon=9), **TERMS, unit=unit)
    assert ledger.dataset("people").max_contributions == 1
    ledger.record(posting(pure(1), unit=unit))
    for other in {"record", "trip", "membership"} - {unit}:
        with pytest.raises(ValueError, match=f"^dataset: '{other}' is the unit of protection here"):
            ledger.record(posting(pure(1), unit=other))
    with pytest.raises(ValueError, match=r"^max_contributions: 2 is the bound"):
        ledger.record(posting(pure(1), unit=unit, max_contributions=2))
    with pytest.raises(ValueError, match=r"^dataset: 'person' is the unit of protection here"):
        ledger.set_limit("people", tt.Budget(epsilon=9), unit="person")


# --- The proof of `tallytree.accounting.spending`, on all pairs of small data sets ---


def ways(most):
    """How many of at most `most` records lie at each of two places."""
    return [way for way in itertools.product(range(most + 1), repeat=2) if sum(way) <= most]


def counts(at):
    """Of the state and of its two counties."""
    return {"all": (sum(at),), "county": at}


def tails(sizes):
    """Tail counts of one group in each county, which is there when it has a member."""
    one = [tuple(int(min(size, LARGEST) >= s) for s in range(1, LARGEST + 1)) for size in sizes]
    return {"all": tuple(map(sum, zip(*one, strict=True))), "county": (*one[0], *one[1])}


def joint_losses(plans, relation, bounds):
    """The privacy loss of both releases together, exactly, for all pairs of neighboring data sets.

    The loss of discrete Laplace noise of scale s on values that move by d in the L1 norm is d/s, which is attained.
    """
    here = list(itertools.product(ways(bounds[0]), ways(bounds[1])))
    there = here if relation == "change_one" else [((0, 0), (0, 0))]
    for rest in itertools.product(range(2), repeat=4):
        for pair in itertools.product(here, there):
            tables = [
                (
                    counts(tuple(o + p for o, p in zip(rest[:2], person[0], strict=True))),
                    tails(tuple(o + p for o, p in zip(rest[2:], person[1], strict=True))),
                )
                for person in pair
            ]
            yield sum(
                Fraction(abs(a - b)) / each.noise.scale
                for plan, one, other in zip(plans, *tables, strict=True)
                for each in plan.measured
                for a, b in zip(one[level_of(each)], other[level_of(each)], strict=True)
            )


def level_of(each):
    """The only level of one node is the root: `all` and the state are the same."""
    return "county" if each.level == "county" else "all"


@pytest.mark.parametrize("relation", ["add_remove", "change_one"])
@pytest.mark.parametrize(
    "bounds", [(1, 1), pytest.param((2, 1), marks=pytest.mark.slow), pytest.param((1, 2), marks=pytest.mark.slow)]
)
def test_the_joint_loss_of_two_statistics_is_at_most_the_sum_that_is_charged(path, relation, bounds):
    people = pa.table({"state": ["A"], "county": ["x"]})
    members = pa.table({"state": ["A"], "county": ["x"], "home": ["1"]})
    shared = {"neighboring": relation, "ledger": path, "dataset": "people"}
    planned = [
        plan_counts(CountsArguments(people, AREAS, tt.Budget(epsilon=1), max_contributions=bounds[0], **shared)),
        plan_group_sizes(
            SizesArguments(
                members,
                AREAS,
                tt.Budget(epsilon=2),
                group="home",
                max_group_size=LARGEST,
                max_contributions=bounds[1],
                **shared,
            )
        ),
    ]
    for each in planned:
        each.account.record()
    charged = Ledger(path).spent("people")["epsilon"]
    assert Fraction(299, 100) < charged <= 3
    assert {each.statistic for each in planned[1].plan.measured} == {"tail_counts"}
    losses = set(joint_losses([each.plan for each in planned], relation, bounds))
    assert max(losses) <= charged
    assert max(losses) > 2  # so it would not do to charge the larger of the two


def test_the_sum_also_bounds_a_second_release_that_is_chosen_after_the_first():
    """Exact laws of discrete Laplace noise with P(k) ∝ 2^−|k|, whose loss is ln 2 where one value moves by 1.

    What was seen of the count decides what is counted next: the members of one home or of the other.
    """

    def weight(noise):
        return Fraction(1, 3) * Fraction(1, 2) ** abs(noise)

    def law(count, homes):
        """The probability of every pair of outputs."""
        seen = range(-4, 7)
        return {
            (first, second): weight(first - count) * weight(second - homes[0 if first > 1 else 1])
            for first, second in itertools.product(seen, seen)
        }

    ratios = set()
    for count, one, other in itertools.product(range(3), repeat=3):
        before = law(count, (one, other))
        for homes in ((one + 1, other), (one, other + 1), (one, other)):
            after = law(count + 1, homes)
            ratios |= {before[output] / after[output] for output in before}
            ratios |= {after[output] / before[output] for output in before}
    assert max(ratios) == 4


def test_people_by_their_number_of_records_are_protected_with_all_of_them_whatever_bound_is_stated(ledger):
    ledger.set_limit("people", tt.Budget(epsilon=3), neighboring="add_remove", max_contributions=5)
    ledger.record(posting(pure(1), statistic="contributions", max_contributions=2))
    with pytest.raises(ValueError, match=r"^max_contributions: 2 protects only a part of a person"):
        ledger.record(posting(pure(1), max_contributions=2))
    # And a bound that is stated afterwards is no larger than what that release protects.
    ledger.set_limit("homes", tt.Budget(epsilon=3), neighboring="add_remove")
    ledger.record(posting(pure(1), dataset="homes", statistic="contributions", max_contributions=2))
    ledger.set_limit("homes", tt.Budget(epsilon=3), max_contributions=5)
    assert ledger.dataset("homes").max_contributions == 5


def test_a_statistic_of_a_later_version_is_read_and_protects_so_many_records_as_it_states(ledger):
    ledger.set_limit("people", tt.Budget(epsilon=3), neighboring="add_remove")
    ledger.record(posting(pure(1), statistic="quantiles", max_contributions=2))
    assert [(each.statistic, each.protects_all_records) for each in ledger.entries()] == [("quantiles", False)]
    with pytest.raises(ValueError, match=r"^max_contributions: 5"):
        ledger.set_limit("people", tt.Budget(epsilon=3), max_contributions=5)
