"""The threshold: against high precision, against enumeration, and that neither it nor the scale can be any less."""

import dataclasses
import itertools
import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import tallytree as tt
from tallytree.accounting import StabilityPlan, plan_stability
from tallytree.accounting.scales import next_float
from tallytree.accounting.sensitivity import sensitivity
from tallytree.accounting.stability import least_threshold, suffices
from tallytree.lab.audit.inputs import Neighborhood
from tallytree.lab.audit.threshold import hockey_stick
from tallytree.mechanisms import Noise

BUDGET = tt.Budget(epsilon=1, delta=1e-8)
RELATIONS = ("add_remove", "change_one")


def plan(neighboring="change_one", m=1, budget=BUDGET, **options):
    return plan_stability(budget, "leaf", sensitivity("stable_counts", neighboring, m), m, **options)


def altered(made, **changes):
    return StabilityPlan(made.budget, dataclasses.replace(made.stable, **changes))


# --- The least threshold ---


@pytest.mark.parametrize(
    ("scale", "m", "delta", "threshold"),
    [
        # q^(t-1)/(1 + q) <= 1e-8: t - 1 >= scale·(ln 1e8 - ln(1 + q)).
        (1, 1, Fraction(1, 10**8), 20),  # 18.421 - 0.313 = 18.107
        (2, 1, Fraction(1, 10**8), 37),  # 2·(18.421 - 0.474) = 35.893
        # Three lone records: t - 1 >= 2·(18.421 + ln 3 - 0.474) = 38.090; one cell of three: t - 3 >= 35.893.
        (2, 3, Fraction(1, 10**8), 40),
    ],
)
def test_thresholds_worked_by_hand(scale, m, delta, threshold):
    assert least_threshold(Fraction(scale), m, delta) == threshold


def conditions(threshold, scale, m, delta):
    """Conditions 2 and 3 in a few hundred digits."""
    with mpmath.workdps(400):
        rate = mpmath.mpf(scale.denominator) / scale.numerator
        allowed = mpmath.mpf(delta.numerator) / delta.denominator
        q = mpmath.exp(-rate)
        p = {count: mpmath.exp(-rate * (threshold - count)) / (1 + q) for count in (1, m)}
        vanish = max(1 - (1 - p[1]) ** m, p[m])
        appear = all(p[count] + mpmath.exp(-rate * count) <= 1 for count in (1, m))
        return threshold >= m and vanish <= allowed and appear


@pytest.mark.parametrize("delta", [Fraction(1, 2), Fraction(1, 20), Fraction(1, 10**8), Fraction(1, 10**80)])
@pytest.mark.parametrize("m", [1, 2, 7, 1000, 10**6])
@pytest.mark.parametrize(
    "scale", [Fraction(1, 1000), Fraction(1, 3), Fraction(2), Fraction(20), Fraction(2 * 10**6), Fraction(10**9)]
)
def test_it_is_the_least_that_high_precision_confirms(scale, m, delta):
    threshold = least_threshold(scale, m, delta)
    assert type(threshold) is int
    assert conditions(threshold, scale, m, delta)
    assert not conditions(threshold - 1, scale, m, delta)
    assert suffices(threshold + 1, scale, m, delta)


def test_the_conditions_at_one_and_at_m_imply_those_in_between():
    for scale, m, delta in itertools.product((0.5, 3, 40), (2, 5, 9), (0.4, 0.01, 1e-6)):
        threshold = least_threshold(Fraction(scale), m, Fraction(delta))
        q = math.exp(-1 / scale)
        p = [0.0, *(q ** (threshold - count) / (1 + q) for count in range(1, m + 1))]
        assert all(p[count] <= 1 - q**count for count in range(1, m + 1))
        most = max(1 - math.prod(1 - p[count] for count in split) for split in partitions(m))
        assert most == pytest.approx(max(1 - (1 - p[1]) ** m, p[m]))
        assert most <= delta


def partitions(total, largest=None):
    if total == 0:
        yield ()
    for first in range(min(total, largest or total), 0, -1):
        yield from ((first, *rest) for rest in partitions(total - first, first))


# --- Enumeration ---


def masses(count, scale, threshold, reach):
    """The probabilities of what a cell shows, by definition: nothing, and threshold … reach."""
    noise = np.arange(-3_000, 3_001)
    weights = np.exp(-np.abs(noise) / scale)
    weights /= weights.sum()
    shown = np.zeros(reach - threshold + 2)
    for value, weight in zip(count + noise, weights, strict=True):
        shown[0 if count == 0 or value < threshold else min(value, reach) - threshold + 1] += weight
    return shown


@pytest.mark.parametrize(
    "moves",
    [
        ((1, 0),),
        ((0, 1),),
        ((0, 2), (1, 0)),
        ((3, 2), (7, 8)),
        ((2, 0), (0, 1), (8, 9)),
    ],
)
@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 2), Fraction(2)])
def test_the_divergence_is_that_of_the_enumerated_outputs(moves, epsilon):
    scale, threshold, reach = Fraction(3, 2), 4, 60
    tables = [[masses(count, 1.5, threshold, reach) for count in move] for move in moves]
    joint = [np.array(1.0), np.array(1.0)]
    for side, _ in enumerate(joint):
        for table in tables:
            joint[side] = np.multiply.outer(joint[side], table[side])
    brute = np.maximum(joint[0] - math.exp(epsilon) * joint[1], 0).sum()
    assert float(hockey_stick(moves, scale, threshold, epsilon)) == pytest.approx(brute, abs=1e-12)


def neighbors(relation, m, counts, places):
    """How cells move between neighboring data sets that have some of these counts in so many cells."""
    found = set()
    for data in itertools.combinations_with_replacement(counts, places):
        near = Neighborhood(relation, m).of(np.array(data))
        pairs = np.stack([np.broadcast_to(data, near.shape), near], axis=2).tolist()
        for pair in pairs:
            moved = sorted((a, b) for a, b in pair if a != b)
            found |= {tuple(moved), tuple(sorted((b, a) for a, b in moved))}
    return found


CASES = [
    *itertools.product(RELATIONS, (1, 2, 3), (tt.Budget(epsilon=1, delta=1e-6), tt.Budget(epsilon=2, delta=0.02))),
    ("add_remove", 1, tt.Budget(epsilon=0.1, delta=0.3)),  # condition 3 decides
    ("change_one", 2, tt.Budget(epsilon=0.1, delta=0.4)),
    ("change_one", 2, tt.Budget(epsilon=30, delta=1e-3)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("relation", "m", "budget"), CASES)
def test_every_pair_of_neighbors_is_within_epsilon_and_delta_and_with_less_some_pair_is_not(relation, m, budget):
    """Enumerates what is released: the tables are sums of it."""
    stable = plan(relation, m, budget).stable
    scale, threshold = stable.noise.scale, stable.threshold
    pairs = neighbors(relation, m, (0, 1, m, threshold), 2 if m == 1 else 4)
    delta = Decimal(budget.delta.numerator) / Decimal(budget.delta.denominator)

    def worst(scale, threshold):
        return max(hockey_stick(moves, scale, threshold, budget.epsilon) for moves in pairs)

    assert worst(scale, threshold) <= delta
    small = budget.delta < Fraction(1, 10)  # above, condition 3 decides, which is not tight
    if small:
        assert worst(scale, threshold - 1) > delta
    # One person's records added to, and taken from, cells far above the threshold: the scale alone counts.
    gained = ((threshold + 50, threshold + 50 + m),)
    lost = ((threshold + 50 + m, threshold + 50),) if relation == "change_one" else ()
    assert hockey_stick(gained + lost, scale, threshold, budget.epsilon) <= Decimal(10) ** -40  # rounding
    assert hockey_stick(gained + lost, scale * 9 / 10, threshold, budget.epsilon) > (delta if small else 0)


@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("relation", RELATIONS)
def test_all_neighbors_with_up_to_three_cells_of_any_count_are_within_epsilon_and_delta(relation, m):
    budget = tt.Budget(epsilon=2, delta=0.02)
    stable = plan(relation, m, budget).stable
    scale, threshold = stable.noise.scale, stable.threshold
    pairs = neighbors(relation, m, range(threshold + m + 1), 3)
    assert len(pairs) >= 2 * (threshold + 1)  # at least each single cell that moves by 1
    delta = Decimal(budget.delta.numerator) / Decimal(budget.delta.denominator)
    assert max(hockey_stick(moves, scale, threshold, budget.epsilon) for moves in pairs) <= delta


# --- The plan ---


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("m", [1, 3, 10**6])
def test_a_plan_spends_its_budget_and_has_no_rho(relation, m):
    made = plan(relation, m)
    assert made.spent["delta"] == BUDGET.delta
    assert Fraction(999, 1000) < made.spent["epsilon"] <= 1
    assert set(made.spent) == {"epsilon", "delta"}
    assert list(made.levels) == ["leaf"]
    assert made.stable.noise.scale == made.stable.sensitivity.l1 == m * (1 + (relation == "change_one"))


def test_the_threshold_is_computed_of_the_scale_as_it_is_drawn():
    budget = tt.Budget(epsilon=0.7, delta=1e-3)
    drawn = plan(budget=budget, grid=next_float).stable
    assert Fraction(float(drawn.noise.scale)) == drawn.noise.scale >= Fraction(20, 7)
    assert drawn.threshold == least_threshold(drawn.noise.scale, 1, budget.delta)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (lambda stable: {"threshold": stable.threshold - 1}, "must be at least 37"),
        (lambda stable: {"threshold": float(stable.threshold)}, "does not add up"),
        (lambda stable: {"noise": Noise("discrete_laplace", stable.noise.scale * Fraction(99, 100))}, "would spend"),
        (lambda stable: {"noise": Noise("discrete_gaussian", stable.noise.scale)}, "discrete Laplace noise"),
        (lambda stable: {"noise": Noise("discrete_laplace", Fraction(1, 10**4))}, "discrete Laplace noise"),
        (lambda stable: {"most_lost": 2}, "must be at least"),
        (lambda stable: {"most_lost": 3}, "does not add up"),
        (lambda stable: {"most_lost": 0}, "does not add up"),
        (lambda stable: {"sensitivity": sensitivity("stable_counts", "change_one", 2)}, "would spend 2.0 of 1.0"),
    ],
)
def test_a_plan_that_would_spend_more_does_not_exist(changes, says):
    made = plan()
    with pytest.raises(tt.BudgetExceeded, match=says):
        altered(made, **changes(made.stable))


def test_a_plan_under_another_budget_does_not_exist():
    made = plan()
    for budget in (tt.Budget(epsilon=1, delta=1e-9), tt.Budget(epsilon=0.9, delta=1e-8), tt.Budget(epsilon=1)):
        with pytest.raises(tt.BudgetExceeded, match="budget: "):
            dataclasses.replace(made, budget=budget)


@pytest.mark.parametrize(
    ("changes", "error", "begins"),
    [
        (
            {"budget": tt.Budget(epsilon=1)},
            ValueError,
            r"budget: .*epsilon=1.0\) has no delta, .* give epsilon and",
        ),
        (
            {"budget": tt.Budget(rho=1)},
            ValueError,
            r"budget: .*rho=1.0\) has no delta, .* give epsilon and",
        ),
        ({"budget": 1.0}, TypeError, "budget: 1.0 must be a tallytree.Budget"),
        ({"accounting": "pld"}, ValueError, "accounting: 'pld' composes .* leave it out"),
    ],
)
def test_what_has_no_threshold_is_refused(changes, error, begins):
    with pytest.raises(error, match=begins):
        plan(**changes)
