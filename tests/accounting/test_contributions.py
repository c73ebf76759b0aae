"""People by their number of records: their sensitivity, by enumeration, and their place in a noise plan."""

import itertools
from fractions import Fraction

import pytest

import tallytree as tt
from helpers.inside import Asked, LevelPlan, Loss, NoisePlan, contribution_bins, plan_noise, sensitivity

RELATIONS = ("add_remove", "change_one")
LEVELS = {
    "all": ("total", sensitivity("total", "add_remove", 3)),
    "c": ("counts", sensitivity("counts", "add_remove", 3)),
}


def histogram(people, bins):
    """How many people have a number of records in each bin; the last also holds those with more."""
    return [sum(first <= min(records, bins[-1][1]) <= last for records in people) for first, last in bins]


def moves(relation, bins, most):
    """How the bins move, over every pair of neighbors: three people at most, with 0 … most records."""
    for others in itertools.combinations_with_replacement(range(most + 1), 2):
        numbers = range(most + 1)
        pairs = itertools.product([0], numbers) if relation == "add_remove" else itertools.product(numbers, repeat=2)
        for before, after in pairs:
            one, two = histogram([*others, before], bins), histogram([*others, after], bins)
            yield tuple(b - a for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("bound", "at_most"), [(1, 2), (2, 5), pytest.param(3, 12, marks=pytest.mark.slow)])
def test_the_sensitivity_is_what_enumeration_finds_whatever_the_bound_is(relation, bound, at_most):
    for m in (1, bound, 1_000):
        found = sensitivity("contributions", relation, m, max_quantity=7)
        differences = list(moves(relation, contribution_bins(bound, at_most), at_most + 3))
        assert max(sum(map(abs, each)) for each in differences) == found.l1
        assert max(sum(step * step for step in each) for each in differences) == found.l2_squared
        shapes = {tuple(sorted((abs(step) for step in each if step), reverse=True)) for each in differences}
        (pattern,) = found.shifts
        assert max(shapes, key=len) == pattern
        assert all(len(shape) <= len(pattern) and set(shape) <= {1} for shape in shapes)


def test_a_person_who_is_replaced_moves_two_bins_and_not_one():
    assert sensitivity("contributions", "add_remove", 9).l2_squared == 1
    assert sensitivity("contributions", "change_one", 9).l2_squared == 2


# --- In a plan ---


def first(relation="add_remove", share=Fraction(1, 10)):
    return Asked("all", "contributions", sensitivity("contributions", relation, 3), share)


@pytest.mark.parametrize("budget", [tt.Budget(epsilon=1), tt.Budget(rho=1), tt.Budget(epsilon=1, delta=1e-8)])
def test_totals_and_the_ledger_have_it(budget):
    plan = plan_noise(budget, LEVELS, beside=[first()])
    alone = NoisePlan(budget, plan.accounting, plan.levels)
    assert plan.measured[0] is plan.contributions
    assert plan.contributions.share + sum(level.share for level in plan.levels.values()) == 1
    cost = plan.contributions.cost
    assert cost > 0
    assert Loss.of(plan).rho - Loss.of(alone).rho == (cost**2 / 2 if budget.kind == "pure" else cost)
    assert all(plan.spent[name] > alone.spent[name] for name in set(plan.spent) - {"delta"})
    whole = plan_noise(budget, LEVELS)
    with pytest.raises(tt.BudgetExceeded, match="would spend"):
        NoisePlan(budget, whole.accounting, whole.levels, (plan.contributions,))


@pytest.mark.parametrize("relation", RELATIONS)
def test_privacy_loss_distributions_are_composed_with_it(relation):
    levels = {"c": ("distinct_counts", sensitivity("distinct_counts", relation, 3))}
    plan = plan_noise(tt.Budget(epsilon=1, delta=1e-8), levels, beside=[first(relation)])
    assert plan.accounting == "pld"
    assert plan_noise(tt.Budget(epsilon=1, delta=1e-8), LEVELS, beside=[first(relation)]).accounting == "zcdp"


def test_the_plan_answers_for_it_at_its_place_alone():
    plan = plan_noise(tt.Budget(epsilon=1), LEVELS, beside=[first()])
    assert plan.planned("all", "contributions") is plan.contributions
    assert plan.planned("c", "contributions") is None
    assert plan.planned("all", "total") is plan.levels["all"]
    assert plan.planned("all", "largest_size") is None
    assert (plan.maximum, plan_noise(tt.Budget(epsilon=1), LEVELS).contributions) == (None, None)


def test_what_has_one_address_is_measured_once():
    plan = plan_noise(tt.Budget(epsilon=1), LEVELS, beside=[first()])
    one = plan.contributions
    half = LevelPlan(one.level, one.statistic, one.share / 2, one.sensitivity, one.noise)
    with pytest.raises(ValueError, match=r"beside: .* must be distinct"):
        NoisePlan(tt.Budget(epsilon=9), None, plan.levels, (one, half))
    with pytest.raises(ValueError, match=r"beside: .* among largest_size, contributions"):
        NoisePlan(tt.Budget(epsilon=9), None, {}, (plan.levels["c"],))
