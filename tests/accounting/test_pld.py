"""Composed privacy-loss distributions: against brute force, a second evaluator, closed forms and published savings."""

import math
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tallytree as tt
from tallytree.accounting import LevelPlan, NoisePlan, epsilon_from_rho, gaussian_for, plan_noise, pld
from tallytree.accounting.scales import next_float
from tallytree.accounting.sensitivity import sensitivity
from tallytree.mechanisms import Noise

COUNTS = ("counts", sensitivity("counts", "change_one"))
PRESENCE = ("counts", sensitivity("counts", "add_remove"))
ROOT = ("total", sensitivity("total", "change_one"))


LEVELS = ["state", "county"]


def several(n, what=COUNTS):
    return {f"level{i}": what for i in range(n)}


def scale(budget, levels, accounting=None):
    return next(iter(plan_noise(budget, levels, accounting=accounting).levels.values())).noise.scale


def claimed(mechanisms, epsilon, delta=1e-8):
    """The δ that the library claims at an ε."""
    return pld._delta_at(mechanisms, epsilon, Fraction(delta))


def mass(sigma, reach):
    """Of the discrete Gaussian on -reach … reach; what lies outside is below 1e-30."""
    k = np.arange(-reach, reach + 1)
    power = np.exp(-(k**2) / (2 * float(sigma) ** 2))
    return power / power.sum()


def tilted_delta(mechanisms, epsilon, points):
    """An upper bound of δ(ε) that shares no code with the library, accurate at any δ.

    Each value of a cell's loss is split between its two grid neighbors so that the masses under both inputs stay as
    they are, and all cells are convolved after multiplying masses by exp(θ·loss), which centres the sum on ε.
    """
    std_dev = math.sqrt(sum(times * (shift / float(sigma)) ** 2 for sigma, shift, times in mechanisms))
    step, theta = std_dev / points, max(0.0, (epsilon - std_dev**2 / 2) / std_dev**2)
    parts, offset, size, log_mass = [], 0, 1, 0.0
    for sigma, shift, times in mechanisms:
        reach = math.ceil(13 * float(sigma) + theta * shift + 5)
        k = np.arange(-reach, reach + 1)
        loss = (shift**2 - 2 * shift * k) / (2 * float(sigma) ** 2)
        log_p = -(k**2) / (2 * float(sigma) ** 2)
        log_p = log_p - np.log(np.exp(log_p).sum())
        below = np.floor(loss / step).astype(int)
        to_above = np.clip(np.expm1(below * step - loss) / np.expm1(-step), 0, 1)
        lowest = below.min()
        length = below.max() - lowest + 2
        cells = np.bincount(below - lowest, np.exp(log_p + theta * below * step) * (1 - to_above), length)
        cells += np.bincount(below - lowest + 1, np.exp(log_p + theta * (below + 1) * step) * to_above, length)
        parts.append((cells / cells.sum(), times))
        log_mass += times * math.log(cells.sum())
        offset, size = offset + times * int(lowest), size + times * (int(length) - 1)
    length = 1 << (size - 1).bit_length()
    spectrum = np.prod([np.fft.rfft(cells, length) ** times for cells, times in parts], axis=0)
    loss = (offset + np.arange(size)) * step
    above = loss > epsilon
    terms = -np.expm1(epsilon - loss[above]) * np.exp(-theta * (loss[above] - epsilon))
    return math.exp(log_mass - theta * epsilon) * float(np.fft.irfft(spectrum, length)[:size][above] @ terms)


def gaussian_delta(epsilon, rho):
    """Of the continuous Gaussian mechanism (Balle and Wang 2018, Theorem 5)."""
    mean = math.sqrt(2 * rho)
    phi = [math.erfc((epsilon / mean + sign * mean / 2) / math.sqrt(2)) / 2 for sign in (-1, 1)]
    return phi[0] - math.exp(epsilon) * phi[1]


# What is valid, and what is refused


@pytest.mark.parametrize("relation", ["add_remove", "change_one"])
@pytest.mark.parametrize("statistic", ["counts", "total", "tail_counts", "sorted_sizes", "histogram"])
def test_it_is_the_default_exactly_where_it_is_proven(statistic, relation):
    budget = tt.Budget(epsilon=1, delta=1e-8)
    for m in (1, 2):
        levels = several(2, (statistic, sensitivity(statistic, relation, m)))
        proven = m == 1 and (statistic, relation) != ("histogram", "change_one")
        assert plan_noise(budget, levels).accounting == ("pld" if proven else "zcdp")
        if not proven:
            with pytest.raises(ValueError, match=r'accounting: "pld" (is proven for max_contr|has no proof for .hist)'):
                plan_noise(budget, levels, accounting="pld")


def test_one_level_without_a_proof_is_enough_to_count_in_rho():
    levels = {"region": ("histogram", sensitivity("histogram", "change_one")), "city": COUNTS}
    assert plan_noise(tt.Budget(epsilon=1, delta=1e-8), levels).accounting == "zcdp"


def test_how_many_curves_a_plan_composes():
    budget = tt.Budget(epsilon=1, delta=1e-8)
    shifted = {
        "change_one": plan_noise(budget, several(3))._curves,
        "add_remove": plan_noise(budget, several(3, PRESENCE))._curves,
        "with a private root": plan_noise(budget, {"all": ROOT} | several(3))._curves,
    }
    counted = {name: sorted((shift, times) for _, shift, times in curves) for name, curves in shifted.items()}
    assert counted == {"change_one": [(1, 6)], "add_remove": [(1, 3)], "with a private root": [(1, 1), (1, 6)]}


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        (tt.Budget(epsilon=1, delta=1e-13), "delta must be at least 1e-12"),
        (tt.Budget(epsilon=1e-4, delta=1e-8), r"noise of scale 0.2 to 10000, but 'level0' needs about 4.79e\+04"),
        (tt.Budget(epsilon=10**4, delta=1e-8), "noise of scale 0.2 to 10000, but 'level0' needs about 0.01"),
    ],
)
def test_what_floats_cannot_carry_is_counted_in_rho(budget, message):
    assert plan_noise(budget, several(1)).accounting == "zcdp"
    with pytest.raises(ValueError, match=message):
        plan_noise(budget, several(1), accounting="pld")


@pytest.mark.parametrize("budget", [tt.Budget(epsilon=1), tt.Budget(rho=1)])
def test_budgets_without_delta_need_none(budget):
    assert plan_noise(budget, several(1)).accounting is None
    with pytest.raises(ValueError, match="needs no conversion"):
        plan_noise(budget, several(1), accounting="pld")


def test_a_plan_over_its_budget_cannot_exist():
    budget = tt.Budget(epsilon=1, delta=1e-8)
    plan = plan_noise(budget, several(3))
    smaller = {
        name: replace(level, noise=Noise("discrete_gaussian", level.noise.scale * Fraction(9999, 10000)))
        for name, level in plan.levels.items()
    }
    with pytest.raises(tt.BudgetExceeded, match=r"more than Budget\(epsilon=1.0, delta=1e-08\)"):
        NoisePlan(budget, "pld", smaller)
    laplace = LevelPlan("state", *COUNTS[:1], Fraction(1), COUNTS[1], Noise("discrete_laplace", Fraction(100)))
    with pytest.raises(tt.BudgetExceeded, match="is accounted for with discrete_gaussian noise"):
        NoisePlan(budget, "pld", {"state": laplace})
    with pytest.raises(ValueError, match="no one pattern of discrete Gaussian shifts"):
        pld.curves([(COUNTS[1], laplace.noise)])


def test_nothing_measured_spends_nothing():
    plan = plan_noise(tt.Budget(epsilon=1, delta=1e-8), {})
    assert plan.spent == {"epsilon": 0, "delta": 0, "rho": 0}


def test_the_accountant_is_imported_only_when_it_is_needed():
    code = """
import sys, tallytree as tt
from tallytree.accounting import plan_noise
from tallytree.accounting.sensitivity import sensitivity
levels = {"a": ("counts", sensitivity("counts", "add_remove"))}
plan_noise(tt.Budget(epsilon=1), levels), plan_noise(tt.Budget(epsilon=1, delta=1e-8), levels, accounting="zcdp")
assert "dp_accounting" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


@pytest.mark.parametrize("on_unknown", ["error", "drop"])
def test_a_release_says_how_it_was_accounted_for(on_unknown):
    areas = tt.Hierarchy.from_table(pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"]}), levels=LEVELS)
    people = pa.table({"state": ["A"] * 60 + ["B"] * 40, "county": ["y"] * 60 + ["x"] * 40})
    budget = tt.Budget(epsilon=1, delta=1e-8)
    statement = tt.release_counts(people, areas, budget, neighboring="change_one", on_unknown=on_unknown).statement
    assert statement["accounting"] == "pld"
    assert statement["software"]["dp-accounting"].startswith("0.")
    assert 0.999 < statement["spent"]["epsilon"] <= 1
    assert [level["measured"] for level in statement["levels"]] == [on_unknown == "drop", True, True]
    by_rho = tt.release_counts(people, areas, budget, neighboring="change_one", max_contributions=2).statement
    assert by_rho["accounting"] == "zcdp"
    assert "dp-accounting" not in by_rho["software"]


# Never more is claimed than holds


@pytest.mark.parametrize("sigma", [Fraction(1, 5), Fraction(1, 3), Fraction(1, 2), Fraction(1), Fraction(12, 5)])
@pytest.mark.parametrize("shifts", [(1,), (1, 1), (1, 1, 1), (2,)])
def test_claims_cover_the_loss_summed_over_all_outcomes(sigma, shifts):
    reach = math.ceil(7 * float(sigma)) + 4
    likely = unlikely = np.ones(())
    for shift in shifts:
        noise = mass(sigma, reach)
        moved = np.zeros_like(noise)
        moved[shift:] = noise[:-shift]
        likely, unlikely = np.multiply.outer(likely, moved), np.multiply.outer(unlikely, noise)
    mechanisms = ((sigma, shifts[0], len(shifts)),)
    for epsilon in np.array([0.05, 0.5, 1, 2, 3]) * math.sqrt(len(shifts)) * shifts[0] / float(sigma):
        exact = max(np.maximum(p - math.exp(epsilon) * q, 0).sum() for p, q in ((likely, unlikely), (unlikely, likely)))
        assume_tail = 1e-11  # of the grid of outcomes
        assert exact <= claimed(mechanisms, epsilon) + assume_tail
        assert claimed(mechanisms, epsilon) <= exact * 1.01 + assume_tail


@pytest.mark.parametrize(("sigma", "times"), [(20, 2), (60, 6)])
def test_the_epsilon_that_is_said_to_be_spent_holds_and_hardly_less_does(sigma, times):
    mechanisms, delta = ((Fraction(sigma), 1, times),), Fraction(1, 10**6)
    spent = float(pld.epsilon_spent(mechanisms, Fraction(5), delta))
    assert spent < 5
    assert claimed(mechanisms, spent) <= delta < claimed(mechanisms, 0.999 * spent)


def test_claims_cover_a_descent_that_chooses_what_it_measures_next():
    # A record is in node a or in node b. Only the child of the node that looks larger is measured next.
    upper, lower = Fraction(3, 2), Fraction(2)
    first, second = mass(upper, 12), mass(lower, 16)
    first_moved, second_moved = np.roll(first, 1), np.roll(second, 1)  # the tails that wrap around are below 1e-13
    with_a = np.multiply.outer(first_moved, first)
    with_b = np.multiply.outer(first, first_moved)
    y = np.arange(len(first))
    looks_larger = np.greater_equal.outer(y, y)[:, :, None]
    children_with_a = np.where(looks_larger, second_moved, second)
    children_with_b = np.where(looks_larger, second, second_moved)
    p, q = with_a[:, :, None] * children_with_a, with_b[:, :, None] * children_with_b
    for epsilon in (0.1, 0.5, 1, 2, 3):
        exact = np.maximum(p - math.exp(epsilon) * q, 0).sum()
        assert exact <= claimed(((upper, 1, 2), (lower, 1, 2)), epsilon)


weights = st.lists(st.integers(1, 20), min_size=1, max_size=6)
budgets = st.tuples(
    st.floats(0.02, 30).map(lambda x: Fraction(round(x, 3)) or 1), st.sampled_from([1e-12, 1e-10, 1e-8, 1e-5, 1e-2])
)


@pytest.mark.parametrize("epsilon", [0.3, 1, 4])
def test_the_same_plan_has_the_same_noise_where_a_processor_computes_other_last_digits(monkeypatch, epsilon):
    def rho():
        shares = [(COUNTS[1], Fraction(1, 3)), (COUNTS[1], Fraction(2, 3))]
        return pld.largest_rho(
            lambda rho: pld.curves((bound, gaussian_for(bound, rho * share)) for bound, share in shares),
            Fraction(epsilon), Fraction(1, 10**8), known=Fraction(1, 10**9),
        )  # fmt: skip

    here, computed = rho(), pld._Composition.deltas_at
    assert here.numerator.bit_length() <= pld._BITS
    for off in (-4e-7, 4e-7):  # float arithmetic takes at most 4e-15 off
        monkeypatch.setattr(
            pld._Composition, "deltas_at", lambda self, given, off=off: computed(self, given) * (1 + off)
        )
        assert rho() == here


@pytest.mark.slow
@settings(max_examples=20)
@given(budgets, weights, st.booleans(), st.sampled_from([COUNTS, PRESENCE]))
def test_plans_hold_by_a_second_evaluation_on_a_finer_grid(numbers, weights, root, what):
    budget = tt.Budget(epsilon=numbers[0], delta=numbers[1])
    levels = several(len(weights), what) | ({"all": ROOT} if root else {})
    split = dict(zip(levels, [*weights, 1], strict=False))
    plan = plan_noise(budget, levels, split, grid=next_float)
    assume(plan.accounting == "pld")
    spent = plan.spent
    assert spent["epsilon"] <= budget.epsilon
    assert spent["delta"] == budget.delta
    assert spent["rho"] == sum(level.cost for level in plan.levels.values())
    # Both at the stated loss and at the budget's.
    for epsilon in (spent["epsilon"], budget.epsilon):
        assert tilted_delta(plan._curves, float(epsilon), 6_000) <= float(budget.delta)


@pytest.mark.slow
@settings(max_examples=15)
@given(st.floats(0.05, 20), st.sampled_from([1e-12, 1e-8, 1e-5]), st.integers(1, 8))
def test_nearly_all_of_the_budget_is_used_and_never_less_than_by_rho(epsilon, delta, n):
    budget = tt.Budget(epsilon=epsilon, delta=delta)
    plan = plan_noise(budget, several(n))
    assume(plan.accounting == "pld")
    assert plan.spent["epsilon"] > budget.epsilon * Fraction(999, 1000)
    assert scale(budget, several(n)) < scale(budget, several(n), "zcdp") < scale(budget, several(n), "paper")


# As tight as published


@pytest.mark.parametrize(("epsilon", "saved"), [(0.1, 0.24), (1, 0.17), (10, 0.095)])
def test_published_savings_over_the_papers_conversion(epsilon, saved):
    budget = tt.Budget(epsilon=epsilon, delta=1e-8)
    ratio = scale(budget, several(8)) / scale(budget, several(8), "paper")
    assert 1 - float(ratio) == pytest.approx(saved, abs=0.005)


@pytest.mark.parametrize("delta", [1e-10, 1e-6])
@pytest.mark.parametrize("epsilon", [0.05, 0.3])
def test_large_noise_agrees_with_the_analytic_gaussian(epsilon, delta):
    plan = plan_noise(tt.Budget(epsilon=epsilon, delta=delta), several(4))
    exact = gaussian_delta(float(plan.spent["epsilon"]), float(plan.spent["rho"]))
    assert exact == pytest.approx(delta, rel=5e-4, abs=2e-14)


def test_the_designs_figure_for_eight_levels_at_sigma_300():
    # epsilon is 0.0604 on a grid of 1e-3, and 0.05987 in the limit.
    found = pld.epsilon_spent(((Fraction(300), 1, 16),), Fraction(1), Fraction(1, 10**8))
    assert float(found) == pytest.approx(0.05987, abs=5e-6)


@pytest.mark.parametrize("epsilon", [0.5, 2])
def test_the_loss_by_rho_of_the_same_noise_is_larger_also_by_opendp(epsilon):
    plan = plan_noise(tt.Budget(epsilon=epsilon, delta=1e-8), several(4))
    assert epsilon_from_rho(plan.spent["rho"], Fraction(1, 10**8), "zcdp") > epsilon
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    sigma = float(plan.levels["level0"].noise.scale)
    one = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=sigma / 2))  # four levels, two cells each by 1
    assert epsilon < one.map(math.sqrt(2)).epsilon(1e-8) < 1.15 * epsilon


def test_more_of_anything_that_spends_means_more_noise():
    def noise(epsilon=1, delta=1e-8, n=3, what=COUNTS):
        return scale(tt.Budget(epsilon=epsilon, delta=delta), several(n, what))

    assert noise(0.1) > noise(0.5) > noise() > noise(2) > noise(8)
    assert noise(delta=1e-12) > noise(delta=1e-10) > noise() > noise(delta=1e-4)
    assert noise(n=1) < noise(n=2) < noise() < noise(n=8)
    assert noise(what=PRESENCE) < noise()


def test_shares_are_of_rho():
    plan = plan_noise(tt.Budget(epsilon=1, delta=1e-8), several(2), {"level0": 1, "level1": 4})
    ratio = plan.levels["level0"].noise.scale / plan.levels["level1"].noise.scale
    assert float(ratio) == pytest.approx(2, rel=1e-8)


def test_more_cells_than_the_arithmetic_was_measured_for_fall_back_to_zcdp():
    """At a thousand cells the FFT's error outgrew a fixed allowance: the stated δ was exceeded by a hundredth."""
    bound = sensitivity("counts", "add_remove")
    budget = tt.Budget(epsilon=10, delta=1e-12)
    assert plan_noise(budget, {f"l{i}": ("counts", bound) for i in range(200)}).accounting == "pld"
    many = {f"l{i}": ("counts", bound) for i in range(201)}
    assert plan_noise(budget, many).accounting == "zcdp"
    with pytest.raises(ValueError, match="at most 200 cells that one person moves, and these levels have 201"):
        plan_noise(budget, many, accounting="pld")
