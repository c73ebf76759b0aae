"""Attack rates: against exact optimal tests on small supports, against riskcal, and against published formulas."""

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

import tallytree as tt
from tallytree.accounting import plan_noise, plan_stability, pld
from tallytree.accounting.risk import FALSE_POSITIVE_RATES, attack_rates, by_losses, by_rho, most_true_positives
from tallytree.accounting.sensitivity import sensitivity

RELATIONS = ("add_remove", "change_one")


def planned(budget, relation="change_one", levels=1, m=1, **options):
    bound = sensitivity("counts", relation, m)
    return plan_noise(budget, {f"level{i}": ("counts", bound) for i in range(levels)}, **options)


def best_true_positives(p, q, alpha):
    """The power of the best test of Q against P at level alpha (Neyman and Pearson), randomised at the boundary."""
    order = np.argsort(-np.log(p) + np.log(q))
    wrong = np.cumsum(q[order])
    full = np.searchsorted(wrong, alpha, side="right")
    before = wrong[full - 1] if full else 0.0
    return p[order][:full].sum() + (alpha - before) / q[order][full] * p[order][full]


def shifted_pairs(noise, shifts):
    """P and Q of cells that move by these shifts, on a support that holds all but 1e-12 of the noise."""
    scale = float(noise.scale)
    reach = math.ceil((40 if noise.distribution == "discrete_laplace" else 9) * scale) + 2
    k = np.arange(-reach, reach + 1)

    def masses(shift):
        if noise.distribution == "discrete_laplace":
            mass = np.exp(-np.abs(k - shift) / scale)
        else:
            mass = np.exp(-((k - shift) ** 2) / (2 * scale**2))
        return mass / mass.sum()

    p, q = np.ones(1), np.ones(1)
    for shift in shifts:
        p, q = np.outer(p, masses(shift)).ravel(), np.outer(q, masses(0)).ravel()
    kept = (p > 0) & (q > 0)
    return p[kept], q[kept]


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.05, 0.3, 0.9])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    "budget", [tt.Budget(epsilon=1), tt.Budget(epsilon=3), tt.Budget(rho=0.1), tt.Budget(epsilon=1, delta=1e-6)]
)
def test_no_test_of_neighbors_does_better_than_is_stated(budget, relation, alpha):
    plan = planned(budget, relation)
    shifts = (1, -1) if relation == "change_one" else (1,)
    p, q = shifted_pairs(plan.levels["level0"].noise, shifts)
    stated = most_true_positives(plan, alpha)
    best = max(best_true_positives(p, q, alpha), best_true_positives(q, p, alpha))
    assert best <= stated + 1e-9
    assert stated <= (1.002 * best + 1e-6 if plan.accounting == "pld" else min(1, 2.2 * best))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_pure_privacy_has_the_trade_off_of_its_definition(epsilon):
    rates = {
        rate.false_positive_rate: rate.true_positive_rate for rate in attack_rates(planned(tt.Budget(epsilon=epsilon)))
    }
    for alpha, found in rates.items():
        expected = min(math.exp(epsilon) * alpha, 1 - math.exp(-epsilon) * (1 - alpha))
        assert expected <= found <= expected + 2e-6
    assert tuple(rates) == FALSE_POSITIVE_RATES


def test_many_pure_levels_are_judged_by_their_rho_where_that_is_less():
    # 20 levels of 1/5 each: epsilon is 4, and rho 20 · (1/5)²/2 = 0.4, which says more.
    plan = planned(tt.Budget(epsilon=4), levels=20)
    assert most_true_positives(plan, 0.05) == pytest.approx(by_rho(0.4, 0.05), abs=2e-6)
    assert most_true_positives(plan, 0.05) < min(0.05 * math.exp(4), 1 - math.exp(-4) * 0.95)


@pytest.mark.parametrize("rho", [0.001, 0.1, 0.5, 4.0])
def test_rho_allows_all_that_gaussian_noise_shows_and_not_much_more(rho):
    normal = NormalDist()
    for alpha in (0.01, 0.05, 0.5):
        gaussian = normal.cdf(normal.inv_cdf(alpha) + math.sqrt(2 * rho))
        assert gaussian <= by_rho(rho, alpha) <= min(1.0, 1.5 * gaussian)


@pytest.mark.needs("riskcal")
def test_riskcal_finds_the_same_rates():
    from riskcal.analysis import conversions

    plan = planned(tt.Budget(epsilon=2, delta=1e-7), levels=5)
    composed = pld._composed(pld.curves((each.sensitivity, each.noise) for each in plan.measured), plan.budget.delta)
    for alpha in (0.001, 0.01, 0.05, 0.5):
        oracle = 1 - conversions.get_beta_from_pld(composed, alpha)
        assert oracle <= by_losses(plan, alpha) <= 1.0005 * oracle + 1e-9
        of_rho = 1 - conversions.get_beta_from_zcdp(0.3, alpha)
        assert by_rho(0.3, alpha) == pytest.approx(of_rho, rel=1e-3)
        of_epsilon = 1 - conversions.get_beta_from_adp(1.0, 1e-3, alpha)
        stable = plan_stability(tt.Budget(epsilon=1, delta=1e-3), "leaf", sensitivity("stable_counts", "add_remove"), 1)
        assert of_epsilon <= most_true_positives(stable, alpha) <= of_epsilon + 3e-6


def test_losses_say_more_than_rho_does():
    plan = planned(tt.Budget(epsilon=1, delta=1e-8), levels=8)
    rho = float(plan.spent["rho"])
    assert by_losses(plan, 0.05) < 0.95 * by_rho(rho, 0.05)
    assert most_true_positives(plan, 0.05) == pytest.approx(by_losses(plan, 0.05), abs=2e-6)


@pytest.mark.slow
def test_rates_grow_with_the_budget_and_with_the_false_positives():
    at = [
        [most_true_positives(planned(tt.Budget(epsilon=e, delta=1e-8)), a) for a in (0.01, 0.05)] for e in (0.5, 1, 4)
    ]
    assert np.all(np.diff(at, axis=0) > 0)
    assert np.all(np.diff(at, axis=1) > 0)
    assert most_true_positives(planned(tt.Budget(epsilon=1000)), 0.01) == 1.0


def test_a_release_that_measures_nothing_shows_nothing():
    nothing = plan_noise(tt.Budget(epsilon=1), {})
    assert most_true_positives(nothing, 0.05) == 0.05


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 2])
def test_a_rate_that_is_none_is_refused(alpha):
    with pytest.raises(ValueError, match=f"alpha: {alpha} must lie strictly between 0 and 1"):
        most_true_positives(planned(tt.Budget(epsilon=1)), alpha)


def test_a_plan_without_delta_has_no_profile():
    with pytest.raises(ValueError, match=r"plan: Budget\(rho=0\.5\) has no delta"):
        by_losses(planned(tt.Budget(rho=0.5)), 0.05)


def test_the_profile_is_never_below_what_the_plan_was_planned_by():
    plan = planned(tt.Budget(epsilon=1, delta=1e-6), levels=3)
    mechanisms = pld.curves((each.sensitivity, each.noise) for each in plan.measured)
    deltas = pld.profile(mechanisms, plan.budget.delta)(np.array([0.0, 0.5, 1.0]))
    assert np.all(np.diff(deltas) < 0)
    assert deltas[2] <= 1e-6
    assert deltas[2] == pytest.approx(pld._delta_at(mechanisms, 1.0, Fraction(1, 10**6)), rel=1e-12)
