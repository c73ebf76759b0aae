import dataclasses
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallytree as tt
from tallytree.accounting import (
    LevelPlan,
    NoisePlan,
    epsilon_from_rho,
    gaussian_for,
    laplace_for,
    plan_noise,
    rho_from_epsilon,
)
from tallytree.accounting.sensitivity import Sensitivity, sensitivity
from tallytree.mechanisms import Noise

COUNTS = sensitivity("counts", "change_one")
LEVELS = {"state": ("counts", COUNTS), "county": ("counts", COUNTS)}

epsilons = st.fractions(min_value=Fraction(1, 100), max_value=20)
deltas = st.integers(2, 14).map(lambda exponent: Fraction(1, 10**exponent))
sensitivities = st.integers(1, 50).flatmap(
    lambda m: st.sampled_from([Sensitivity(m, m * m), Sensitivity(4 * m, 6 * m * m)])
)


@given(sensitivities, epsilons)
def test_laplace_noise_spends_at_most_what_it_was_given_and_nearly_all_of_it(bound, epsilon):
    spent = bound.l1 / laplace_for(bound, epsilon).scale
    assert spent <= epsilon
    assert spent > epsilon * (1 - Fraction(1, 10**5))


@given(sensitivities, st.fractions(min_value=Fraction(1, 10**4), max_value=10))
def test_gaussian_noise_spends_at_most_what_it_was_given_and_nearly_all_of_it(bound, rho):
    spent = Fraction(bound.l2_squared) / (2 * gaussian_for(bound, rho).scale ** 2)
    assert spent <= rho
    assert spent > rho * (1 - Fraction(1, 10**5))


@settings(max_examples=50)
@given(epsilons, deltas)
def test_the_papers_conversion_is_lemma_3_solved_for_rho(epsilon, delta):
    rho = rho_from_epsilon(epsilon, delta, "paper")
    with mpmath.workdps(70):
        log = -mpmath.log(mpmath.mpf(delta.numerator) / delta.denominator)
        exact = mpmath.mpf(rho.numerator) / rho.denominator
        loss = exact + 2 * mpmath.sqrt(exact * log)
        wanted = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        assert wanted * (1 - mpmath.mpf(10) ** -30) < loss <= wanted


def delta_of(rho, epsilon):
    """Corollary 13 of Canonne, Kamath and Steinke 2020, minimised over a fine grid of orders."""
    excess = np.exp(np.linspace(-10, 25, 400_001))
    order = 1 + excess
    return np.exp(
        (excess * (order * float(rho) - float(epsilon)) - np.log(excess) - order * np.log1p(1 / excess)).min()
    )


@settings(max_examples=10)
@given(epsilons, deltas)
def test_the_tight_conversion_meets_delta_and_is_not_looser_than_it_need_be(epsilon, delta):
    rho = rho_from_epsilon(epsilon, delta, "zcdp")
    assert delta_of(rho, epsilon) <= float(delta) * (1 + 1e-6)  # a grid is a little above the least
    assert delta_of(rho * Fraction(101, 100), epsilon) > float(delta)


@settings(max_examples=50)
@given(epsilons, deltas)
def test_conversions_are_inverse_and_the_tight_one_allows_more(epsilon, delta):
    tight, paper = (rho_from_epsilon(epsilon, delta, method) for method in ("zcdp", "paper"))
    assert tight > paper
    for rho, method in ((tight, "zcdp"), (paper, "paper")):
        assert epsilon_from_rho(rho, delta, method) == pytest.approx(float(epsilon), rel=1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-8), (1, 1e-8), (10, 1e-8), (1, 1e-5)])
def test_the_tight_conversion_agrees_with_opendp(epsilon, delta):
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    rho = rho_from_epsilon(Fraction(str(epsilon)), Fraction(str(delta)), "zcdp")
    space = dp.atom_domain(T="i32"), dp.absolute_distance(T="f64")
    scale = float(gaussian_for(Sensitivity(1, 1), rho).scale)
    curve = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale)).map(1.0)
    assert curve.epsilon(delta) == pytest.approx(epsilon, rel=1e-3)


def test_hand_worked_numbers():
    # epsilon = 1 over two levels of sensitivity 2 is scale 4; rho = 1/2 over two of L2² = 2 is sigma² = 4.
    plan = plan_noise(tt.Budget(epsilon=1), LEVELS)
    assert [level.noise for level in plan.levels.values()] == [Noise("discrete_laplace", Fraction(4))] * 2
    assert plan.spent == {"epsilon": 1}
    plan = plan_noise(tt.Budget(rho=0.5), LEVELS)
    assert [level.noise for level in plan.levels.values()] == [Noise("discrete_gaussian", Fraction(2))] * 2
    assert plan.spent == {"rho": Fraction(1, 2)}
    # Lemma 3 at epsilon = 1, delta = 1e-8: rho = (sqrt(1 + ln 1e8) - sqrt(ln 1e8))² = 0.013215…
    plan = plan_noise(tt.Budget(epsilon=1, delta=1e-8), LEVELS, accounting="paper")
    assert float(plan.spent["rho"]) == pytest.approx(0.0132153628528, rel=1e-9)


@settings(max_examples=30)
@given(
    epsilons,
    st.none() | deltas,
    st.lists(st.fractions(min_value=Fraction(1, 100), max_value=100), min_size=2, max_size=2),
)
def test_no_plan_spends_more_than_its_budget(epsilon, delta, weights):
    budget = tt.Budget(epsilon=epsilon, delta=delta)
    plan = plan_noise(budget, LEVELS, dict(zip(LEVELS, weights, strict=True)))
    assert plan.spent["epsilon"] <= epsilon
    assert plan.spent["epsilon"] > epsilon * Fraction(999, 1000)


def test_a_larger_share_means_less_noise():
    plan = plan_noise(tt.Budget(epsilon=1), LEVELS, {"state": 3, "county": 1})
    assert plan.levels["state"].noise.scale * 3 == plan.levels["county"].noise.scale


def test_a_plan_over_its_budget_cannot_exist():
    level = LevelPlan("state", "counts", Fraction(1), COUNTS, Noise("discrete_laplace", Fraction(1)))
    with pytest.raises(tt.BudgetExceeded, match=r"would spend 2.0 of 1.0"):
        NoisePlan(tt.Budget(epsilon=1), None, {"state": level})


def test_nothing_measured_spends_nothing():
    assert plan_noise(tt.Budget(epsilon=1), {}).spent == {"epsilon": 0}
    assert plan_noise(tt.Budget(epsilon=1, delta=1e-6), {}).spent["epsilon"] == 0


@pytest.mark.parametrize(
    ("budget", "accounting", "message"),
    [
        (tt.Budget(epsilon=1), "zcdp", "needs no conversion"),
        (tt.Budget(epsilon=1), "paper", "needs no conversion"),
        (tt.Budget(rho=1), "paper", "needs no conversion"),
        (tt.Budget(epsilon=1, delta=1e-8), "renyi", "accounting: 'renyi' is not known"),
    ],
)
def test_an_accounting_that_does_not_go_with_the_budget_is_refused(budget, accounting, message):
    with pytest.raises(ValueError, match=message):
        plan_noise(budget, LEVELS, accounting=accounting)


def test_a_budget_of_the_wrong_kind_is_refused():
    with pytest.raises(TypeError, match=r"budget: 1\.0 must be a tallytree.Budget"):
        plan_noise(1.0, LEVELS)


@pytest.mark.parametrize("distribution", ["discrete_laplace", "discrete_gaussian"])
@pytest.mark.parametrize("scale", [Fraction(1, 10), Fraction(1, 2), Fraction(3), Fraction(20)])
def test_the_stated_variance_is_that_of_the_discrete_distribution(distribution, scale):
    k = np.arange(-1000, 1001, dtype=float)
    power = np.abs(k) / float(scale) if distribution == "discrete_laplace" else k * k / (2 * float(scale) ** 2)
    mass = np.exp(-power)
    assert Noise(distribution, scale).variance == pytest.approx((k * k * mass).sum() / mass.sum(), rel=1e-9)


def test_a_budget_for_almost_no_noise_gets_the_least_that_is_drawn():
    plan = plan_noise(tt.Budget(epsilon=10**9), LEVELS)
    assert plan.spent["epsilon"] <= 10**9
    assert {level.noise.scale for level in plan.levels.values()} == {Fraction(1, 1000)}


def test_a_budget_that_asks_for_more_noise_than_is_drawn_is_refused():
    with pytest.raises(ValueError, match=r"budget: .*noise of scale 4e\+12 .*more than the 1e\+09"):
        plan_noise(tt.Budget(epsilon=1e-12), LEVELS)


@pytest.mark.parametrize(
    ("budget", "noise"),
    [
        (tt.Budget(epsilon=1), Noise("discrete_gaussian", Fraction(100))),
        (tt.Budget(rho=1), Noise("discrete_laplace", Fraction(100))),
        (tt.Budget(epsilon=1, delta=1e-6), Noise("discrete_laplace", Fraction(100))),
        (tt.Budget(epsilon=1), Noise("discrete_laplace", Fraction(-100))),
        (tt.Budget(rho=1), Noise("discrete_gaussian", Fraction(-100))),
    ],
)
def test_a_plan_with_noise_that_its_budget_does_not_account_for_cannot_exist(budget, noise):
    """Gaussian noise costs ρ, Laplace noise ε; added up as the other they would say too little."""
    plan = plan_noise(budget, LEVELS)
    forged = dataclasses.replace(plan.levels["county"], noise=noise)
    with pytest.raises(tt.BudgetExceeded, match=r"is accounted for with .* noise .*'counts' at 'county' would have"):
        dataclasses.replace(plan, levels={**plan.levels, "county": forged})
