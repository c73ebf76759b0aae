"""K that is measured: how it is asked for, what is planned and what is paid."""

from dataclasses import replace
from fractions import Fraction

import pytest

import tallytree as tt
from helpers.inside import Loss, NoisePlan, make_release
from helpers.private_maximum import planned, rows
from tallytree.sizes import PrivateMaximum
from tallytree.sizes.private_maximum import DEFAULT_AT_MOST, DEFAULT_SHARE

# --- The argument ---


def test_the_defaults_are_those_of_the_word():
    assert PrivateMaximum() == PrivateMaximum(DEFAULT_SHARE, DEFAULT_AT_MOST)
    assert PrivateMaximum(share=0.1).share == Fraction(1, 10)
    assert repr(PrivateMaximum(0.02, 500)) == "PrivateMaximum(share=0.02, at_most=500)"


def test_the_word_private_takes_the_defaults(areas):
    job = planned(areas, max_group_size="private")
    assert job.private_maximum == PrivateMaximum()
    assert (job.largest, job.plan.maximum.share) == (100_000, Fraction(1, 100))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"share": 0}, ValueError, r"share: 0 must lie strictly between 0 and 1 \(for instance 0.01\)"),
        ({"share": 1}, ValueError, "share: 1 must lie strictly between 0 and 1"),
        ({"share": float("nan")}, ValueError, "share: nan must be finite"),
        ({"share": "half"}, TypeError, "share: str must be a number"),
        ({"at_most": 0}, ValueError, "at_most: 0 must be at least 1"),
        ({"at_most": 2**31}, ValueError, "at_most: 2147483648 must be at most 2147483646"),
        ({"at_most": 9.5}, TypeError, "at_most: 9.5 must be an integer"),
    ],
)
def test_a_bad_option_is_named_when_it_is_made(arguments, error, message):
    with pytest.raises(error, match=message):
        PrivateMaximum(**arguments)


def test_what_max_group_size_may_be_is_said(areas):
    with pytest.raises(
        ValueError, match="max_group_size: 'privat' is not known; give an integer, \"private\", or tally"
    ):
        planned(areas, max_group_size="privat")
    with pytest.raises(TypeError, match=r"max_group_size: 2.5 must be an integer"):
        planned(areas, max_group_size=2.5)


@pytest.mark.parametrize("given", [None, PrivateMaximum])
def test_what_is_no_size_is_told_what_would_be(areas, given):
    with pytest.raises(TypeError, match=r'max_group_size: .* must be an integer, "private", or tallytree'):
        rows(areas, max_group_size=given)


@pytest.mark.parametrize(
    ("given", "name"),
    [(2_000_000_000, "max_group_size"), (PrivateMaximum(at_most=2_000_000_000), "max_group_size: at_most")],
)
def test_more_cells_than_a_machine_holds_are_refused_before_anything_is_spent(areas, given, name):
    with pytest.raises(
        ValueError, match=rf"^{name}: 2,000,000,001 sizes are 2,000,000,001 cells to measure at every node, more than"
    ):
        rows(areas, max_group_size=given)
    assert planned(areas, max_group_size=given, mechanism=tt.sizes.Matching("sorted")) is not None


@pytest.mark.parametrize(("least", "invariants", "at_most"), [(5, "groups", 5), (0, "none", 1), (0, "total", 1)])
def test_a_bound_that_leaves_one_size_is_refused(areas, least, invariants, at_most):
    with pytest.raises(ValueError, match=rf"at_most: {at_most} must be more than the least size that is published, "):
        planned(areas, max_group_size=PrivateMaximum(at_most=at_most), min_group_size=least, invariants=invariants)


# --- The plan and what it costs ---


def test_the_levels_share_what_the_maximum_leaves_as_the_split_says(areas):
    split = {"all": 1, "state": 1, "county": 2}
    plan = planned(areas, budget_split=split).plan
    assert plan.maximum.share == Fraction(1, 10)
    assert [level.share for level in plan.levels.values()] == [Fraction(9, 40), Fraction(9, 40), Fraction(9, 20)]
    assert sum(each.share for each in plan.measured) == 1
    assert plan.maximum.noise.scale == 10
    assert [level.noise.scale for level in plan.levels.values()] == [Fraction(40, 9), Fraction(40, 9), Fraction(20, 9)]
    assert plan.spent == {"epsilon": 1}


@pytest.mark.parametrize(
    ("budget", "accounting"),
    [
        (tt.Budget(epsilon=2), None),
        (tt.Budget(rho=2), None),
        (tt.Budget(epsilon=2, delta=1e-6), "pld"),
        (tt.Budget(epsilon=2, delta=1e-6), "zcdp"),
    ],
)
def test_totals_and_the_ledger_have_the_maximum(areas, budget, accounting):
    plan = planned(areas, budget, accounting=accounting).plan
    without = NoisePlan(budget, plan.accounting, plan.levels)
    for name in plan.spent:
        if name != "delta":
            assert without.spent[name] < plan.spent[name]
    loss = Loss.of(plan)
    assert loss.rho - Loss.of(without).rho == (plan.maximum.cost**2 / 2 if budget.kind == "pure" else plan.maximum.cost)
    if budget.epsilon is not None:
        assert loss.epsilon == plan.spent["epsilon"] <= budget.epsilon
        assert loss.epsilon > Fraction(999, 1000) * budget.epsilon


@pytest.mark.parametrize("budget", [tt.Budget(epsilon=2), tt.Budget(rho=2), tt.Budget(epsilon=2, delta=1e-6)])
def test_a_plan_that_does_not_pay_for_its_maximum_cannot_exist(areas, budget):
    """Levels that spend all of the budget, and a maximum beside them."""
    whole = planned(areas, budget, max_group_size=100).plan
    maximum = planned(areas, budget).plan.maximum
    with pytest.raises(tt.BudgetExceeded, match="would spend"):
        NoisePlan(budget, whole.accounting, whole.levels, (maximum,))


@pytest.mark.parametrize("neighboring", ["add_remove", "change_one"])
def test_the_noise_is_for_what_one_person_can_move(areas, neighboring):
    """Three records of 2 join the largest group; one who goes while another comes moves it no further."""
    job = planned(areas, neighboring=neighboring, max_contributions=3, max_quantity=2)
    assert (job.plan.maximum.sensitivity.l1, job.plan.maximum.sensitivity.l2_squared) == (6, 36)
    assert job.plan.maximum.noise.scale == 60
    bounded = planned(areas, max_quantity=1_000, max_group_size=PrivateMaximum(share=0.1, at_most=20))
    assert bounded.plan.maximum.sensitivity.l1 == 21  # sizes 0 … 20
    assert {level.sensitivity.l1 for level in bounded.plan.levels.values()} == {21}


def test_the_noise_of_the_levels_is_that_of_the_public_bound_whatever_comes_out(areas):
    """Quantities up to 1,000 cross 50 thresholds at most, though K is 31 in the end."""
    release = rows(areas, max_quantity=1_000, max_group_size=PrivateMaximum(share=0.5, at_most=50))
    assert release.statement["maximum"]["max_group_size"] < 50
    assert {level["sensitivity"]["l1"] for level in release.statement["levels"]} == {51}


def test_privacy_loss_distributions_are_composed_where_they_are_proven(areas):
    approximate = tt.Budget(epsilon=1, delta=1e-6)
    assert planned(areas, approximate).plan.accounting == "pld"
    assert planned(areas, approximate, neighboring="change_one").plan.accounting == "pld"
    # A quantity moves the largest size by anything up to z, and no proof says that z is the worst.
    assert planned(areas, approximate, max_quantity=2, max_group_size=100).plan.accounting == "pld"
    assert planned(areas, approximate, max_quantity=2).plan.accounting == "zcdp"
    with pytest.raises(ValueError, match="how the cells of 'largest_size' at 'all' move most is not proven"):
        planned(areas, approximate, max_quantity=2, accounting="pld")
    with pytest.raises(ValueError, match=r"but the largest size needs about .*; choose \"zcdp\""):
        planned(areas, approximate, max_group_size=PrivateMaximum(1e-9), accounting="pld")


def test_the_published_chain_spends_its_share_beside_the_loss_that_it_understates(areas):
    with pytest.warns(UserWarning, match="truly spends"):
        plan = planned(areas, mechanism=tt.sizes.Chain("as_published")).plan
    assert plan.maximum.cost == Fraction(1, 10)
    assert plan.spent["epsilon"] == pytest.approx(float(Fraction(1, 10) + Fraction(9, 30) * (1 + 2 + 4)))
    assert {level.noise.scale for level in plan.levels.values()} == {Fraction(10, 3)}


def test_a_job_whose_maximum_was_altered_does_not_run(areas):
    job, public = planned(areas), planned(areas, max_group_size=100_000)
    cheap = replace(job.plan.maximum, sensitivity=replace(job.plan.maximum.sensitivity, l1=0))
    elsewhere = replace(job.plan.maximum, level="state")
    for altered in (
        replace(job, private_maximum=None),
        replace(job, plan=public.plan),
        replace(public, plan=job.plan),
        replace(public, private_maximum=PrivateMaximum()),
        replace(job, plan=replace(job.plan, beside=(cheap,))),
        replace(job, plan=replace(job.plan, beside=(elsewhere,))),
        replace(job, arguments=replace(job.arguments, max_quantity=2)),
        replace(job, arguments=replace(job.arguments, max_contributions=2)),
    ):
        with pytest.raises(tt.BudgetExceeded, match="the release was changed after its noise was planned"):
            make_release(altered)
        with pytest.raises(tt.BudgetExceeded, match="the noise is planned for another release"):
            altered.seal()
    assert make_release(job).statement["spent"] == {"epsilon": 1}


def test_the_ledger_is_charged_for_the_maximum(areas, tmp_path):
    job = planned(areas, ledger=tmp_path / "l", dataset="d")
    assert job.account.posting.loss.epsilon == 1
    make_release(job)
    cheaper = planned(areas, max_group_size=100).plan
    with pytest.raises(tt.BudgetExceeded):
        make_release(replace(job, plan=NoisePlan(cheaper.budget, None, job.plan.levels)))
