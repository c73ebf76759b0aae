"""Which limit admits more than another, and what one of several runs may spend."""

from fractions import Fraction

import pytest

import tallytree as tt
from helpers.inside import CountsArguments, plan_counts
from helpers.ledger_entries import PEOPLE, approximate, posting, pure, threshold, zcdp
from tallytree.accounting import epsilon_from_rho, rho_from_epsilon
from tallytree.accounting.losses import shown_down, shown_up
from tallytree.accounting.run_shares import run_shares
from tallytree.accounting.spending import Approval, DataSet, LimitEntry, Loss, admits_more

EIGHTH = Fraction(1, 8)
ONE, BOTH, RHO = tt.Budget(epsilon=1), tt.Budget(epsilon=1, delta=1e-6), tt.Budget(rho=0.5)


@pytest.mark.parametrize(
    ("new", "old", "more"),
    [
        (ONE, ONE, False),
        (tt.Budget(epsilon=1.1), ONE, True),
        (tt.Budget(epsilon=0.9), ONE, False),
        (BOTH, BOTH, False),
        (tt.Budget(epsilon=0.1, delta=2e-6), BOTH, True),
        (tt.Budget(epsilon=2, delta=1e-9), BOTH, True),
        (tt.Budget(rho=0.6), RHO, True),
        (tt.Budget(rho=0.4), RHO, False),
        # From a limit to a looser kind.
        (tt.Budget(epsilon=0.1, delta=1e-9), ONE, True),
        (tt.Budget(rho=0.0001), ONE, True),
        (tt.Budget(epsilon=0.0001, delta=1e-9), RHO, True),
        # To a stricter kind: only as much of it as implies the old one.
        (ONE, BOTH, False),
        (tt.Budget(epsilon=1.1), BOTH, True),
        (ONE, RHO, False),
        (tt.Budget(epsilon=1.1), RHO, True),
        (tt.Budget(rho=rho_from_epsilon(Fraction(999, 1000), Fraction(1, 10**6), "zcdp")), BOTH, False),
        (tt.Budget(rho=rho_from_epsilon(Fraction(1001, 1000), Fraction(1, 10**6), "zcdp")), BOTH, True),
    ],
)  # fmt: skip
def test_a_limit_admits_more_unless_it_implies_the_other(new, old, more):
    assert admits_more(new, old) == more


def people(budget, *losses):
    """A data set with a limit, and releases."""
    limit = LimitEntry(set_at="", limit=budget, raised=False, approval=Approval(), position=2)
    return DataSet(
        name="people",
        neighboring="add_remove",
        max_contributions=None,
        unit="person",
        limits=() if budget is None else (limit,),
        entries=tuple(posting(loss) for loss in losses),
    )


def lost(amounts):
    """What a run loses at most that asks for this, of a mechanism that measures one level."""
    if "rho" in amounts:
        return zcdp(amounts["rho"])
    if "delta" in amounts:
        epsilon, delta = amounts["epsilon"], amounts["delta"]
        return approximate(epsilon, delta, rho_from_epsilon(epsilon, delta, "zcdp"))
    return pure(amounts["epsilon"])


@pytest.mark.parametrize("runs", [1, 7, 365])
@pytest.mark.parametrize(
    ("budget", "spent"),
    [
        (tt.Budget(epsilon=2), ()),
        (tt.Budget(epsilon=2), (pure("1/3"),)),
        (tt.Budget(epsilon=2, delta=1e-6), (threshold("1/3", "1/3000000"),)),
        (tt.Budget(rho=0.5), ()),
        (tt.Budget(rho=0.7), (approximate(1, "1/1000000", "1/7"), pure("1/9"))),
    ],
)
def test_as_many_runs_fit_as_were_planned_and_no_larger_ones(budget, spent, runs):
    """Runs in what fits are admitted; in a thousandth more they are not; in what does not fit not one is."""
    dataset = people(budget, *spent)
    found = run_shares(dataset, runs)
    assert {name: amount * runs for name, amount in found.exact.items()} == dataset.remaining
    assert any(each.fits for each in found.asking)
    for each in found.asking:
        assert all(amount == Fraction(f"{float(amount):.6g}") for amount in each.amounts.values())
        loss = lost(each.amounts)
        if not each.fits:
            with pytest.raises(ValueError, match="cannot be counted against the limit"):
                dataset.check_room(loss)
            continue
        people(budget, *spent, *[loss] * (runs - 1)).check_room(loss)
        (name, amount), *rest = sorted(each.amounts.items(), reverse=True)
        larger = lost({name: amount * Fraction(1001, 1000), **dict(rest)})
        with pytest.raises(tt.BudgetExceeded):
            people(budget, *spent, *[larger] * (runs - 1)).check_room(larger)


@pytest.mark.parametrize("split", [None, {"all": 1, "state": 5, "county": 1}])
def test_what_a_plan_in_rho_says_holds_of_real_plans(areas, split):
    dataset = people(tt.Budget(rho=0.5))
    rho, epsilon, both = (each.amounts for each in run_shares(dataset, 7, Fraction(1, 10**6)).asking)
    for amounts, options in ((rho, {}), (epsilon, {}), (both, {"accounting": "zcdp"})):
        arguments = CountsArguments(
            PEOPLE,
            areas,
            tt.Budget(**amounts),
            neighboring="change_one",
            max_contributions=2,
            budget_split=split,
            **options,
        )
        loss = Loss.of(plan_counts(arguments).plan)
        people(tt.Budget(rho=0.5), *[loss] * 6).check_room(loss)


def test_a_run_against_rho_may_ask_for_the_converted_epsilon_and_delta():
    asking = run_shares(people(tt.Budget(rho=0.7)), 7, Fraction(1, 10**6)).asking
    assert asking[0].amounts == {"rho": Fraction(1, 10)}
    near = epsilon_from_rho(Fraction(1, 10), Fraction(1, 10**6), "zcdp")
    assert 0 <= near - asking[2].amounts["epsilon"] < Fraction(1, 10**4)
    assert asking[2].amounts["delta"] == Fraction(1, 10**6)


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (people(None), r"^dataset: 'people' has no limit in the ledger, so there is nothing to divide; set one with "),
        (people(ONE, pure(1)), r"^dataset: nothing is left of the limit of 'people'; raise it with `tallytree limit` "),
        (people(RHO, zcdp("1/2")), r"^dataset: nothing is left of the limit of 'people'; "),
    ],
)
def test_nothing_cannot_be_divided(dataset, message):
    with pytest.raises(ValueError, match=message):
        run_shares(dataset, 7)


def test_without_a_delta_that_is_left_only_pure_runs_fit():
    asking = run_shares(people(BOTH, approximate(EIGHTH, "1/1000000")), 2).asking
    assert [each.fits for each in asking] == [True, False]
    assert asking[1].note == "no delta is left"


@pytest.mark.parametrize(
    ("amount", "up", "down"),
    [
        (Fraction(1, 10**390), "1e-390", "1e-390"),
        (Fraction(10**390), "1e+390", "1e+390"),
        (Fraction(2, 3 * 10**350), "6.66667e-351", "6.66666e-351"),
        (Fraction(0), "0", "0"),
        (Fraction(2, 3), "0.666667", "0.666666"),
    ],
)
def test_an_amount_that_is_no_float_is_never_shown_as_nothing(amount, up, down):
    assert (shown_up(amount), shown_down(amount)) == (up, down)
