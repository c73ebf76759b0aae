"""What a data set has spent: sums are exact, and a limit counts every kind of release soundly or not at all."""

from fractions import Fraction

import pytest

import tallytree as tt
from helpers.inside import Approval, CountsArguments, Loss, plan_counts
from helpers.ledger_entries import BOTH, PEOPLE, PURE, RHO, TERMS, approximate, posting, pure, threshold, zcdp


def test_sums_are_exact(ledger):
    ledger.set_limit("people", tt.Budget(epsilon=1), **TERMS)
    for _ in range(3):
        ledger.record(posting(pure("1/3")))
    assert ledger.spent("people") == {"epsilon": 1}
    assert ledger.remaining("people") == {"epsilon": 0}
    with pytest.raises(tt.BudgetExceeded):
        ledger.record(posting(pure(Fraction(1, 10**40))))
    assert len(ledger.entries("people")) == 3


def test_many_different_amounts_are_added_exactly(ledger):
    amounts = [Fraction(1, n) for n in range(1, 60)]
    for amount in amounts:
        ledger.record(posting(zcdp(amount)))
    assert ledger.spent("people") == {"rho": sum(amounts)}
    assert list(ledger.dataset("people").running_totals())[-1] == ledger.spent("people")


CANNOT = "cannot be counted against the limit of the data set 'people'"


@pytest.mark.parametrize(
    ("limit", "loss", "counted"),
    [
        (PURE, pure(1), {"epsilon": Fraction(1)}),
        (PURE, approximate(1, "1/10000000"), CANNOT),
        (PURE, zcdp(1), CANNOT),
        (BOTH, pure(1), {"epsilon": Fraction(1), "delta": Fraction(0)}),
        (BOTH, approximate(1, "1/10000000"), {"epsilon": Fraction(1), "delta": Fraction(1, 10**7)}),
        (BOTH, zcdp(1), CANNOT),
        (RHO, pure(1), {"rho": Fraction(1, 2)}),
        (RHO, approximate(1, "1/10000000", "1/30"), {"rho": Fraction(1, 30)}),
        (RHO, zcdp(1), {"rho": Fraction(1)}),
        (PURE, threshold(1, "1/10000000"), CANNOT),
        (BOTH, threshold(1, "1/10000000"), {"epsilon": Fraction(1), "delta": Fraction(1, 10**7)}),
        (RHO, threshold(1, "1/10000000"), CANNOT),
    ],
)
def test_a_limit_counts_every_kind_of_release_soundly_or_not_at_all(ledger, limit, loss, counted):
    ledger.set_limit("people", limit, **TERMS)
    if isinstance(counted, str):
        with pytest.raises(ValueError, match=f"^budget: .*{counted}") as caught:
            ledger.record(posting(loss))
        assert "or set its limit in " in str(caught.value)
        assert ledger.entries() == ()
    else:
        ledger.record(posting(loss))
        assert ledger.spent("people") == counted


@pytest.mark.parametrize(
    ("limit", "earlier", "loss", "remedy", "works"),
    [
        (PURE, [pure("1/9")], approximate(1, "1/10000000", "1/30"),
         "give a budget in epsilon alone, or set its limit in epsilon and delta, or in rho", (BOTH, RHO)),
        (PURE, [], threshold(1, "1/10000000"),
         "give a budget in epsilon alone, by a mechanism without a threshold, or set its limit in epsilon and delta",
         (BOTH,)),
        (PURE, [], zcdp(1), "give a budget in epsilon alone, or set its limit in rho", (RHO,)),
        (BOTH, [threshold(1, "1/10000000")], zcdp(1), "give a budget in epsilon, with or without delta", ()),
        (RHO, [zcdp("1/9")], threshold(1, "1/10000000"), "give any budget, by a mechanism without a threshold", ()),
    ],
)  # fmt: skip
def test_the_remedies_of_a_refusal_are_those_that_work(ledger, limit, earlier, loss, remedy, works):
    ledger.set_limit("people", limit, **TERMS)
    for each in earlier:
        ledger.record(posting(each))
    with pytest.raises(ValueError, match=CANNOT) as caught:
        ledger.record(posting(loss))
    assert str(caught.value).endswith(f"; {remedy}")
    for number, other in enumerate(works):
        ledger.set_limit("people", other, approval=Approval(reason="as it says"), **TERMS)
        if number == len(works) - 1:
            ledger.record(posting(loss))


def test_the_delta_of_a_limit_is_a_limit_too(ledger):
    ledger.set_limit("people", tt.Budget(epsilon=10, delta=1e-6), **TERMS)
    ledger.record(posting(approximate(1, "6/10000000")))
    with pytest.raises(tt.BudgetExceeded, match="delta 4e-07 that is left"):
        ledger.record(posting(approximate(1, "5/10000000")))


@pytest.mark.parametrize(
    ("losses", "spent"),
    [
        ([], {"epsilon": 0}),
        ([pure(1), pure(2)], {"epsilon": 3}),
        ([pure(1), approximate(2, "1/1000")], {"epsilon": 3, "delta": Fraction(1, 1000)}),
        ([pure(1), approximate(2, "1/1000", "1/8"), zcdp("1/4")], {"rho": Fraction(7, 8)}),
    ],
)
def test_without_a_limit_a_data_set_is_added_up_in_the_strongest_terms_it_has(ledger, losses, spent):
    ledger.record(posting(pure(1), dataset="another"))
    for loss in losses:
        ledger.record(posting(loss))
    if losses:
        assert ledger.spent("people") == spent
        assert ledger.remaining("people") is None
    ledger.set_limit("people", tt.Budget(rho=10), **TERMS)
    assert list(ledger.spent("people")) == ["rho"]


@pytest.mark.parametrize(
    ("budget", "loss"),
    [
        # Two levels of half the budget: each is eps²/2-zCDP.
        (tt.Budget(epsilon=1), Loss(Fraction(1), Fraction(0), Fraction(1, 4))),
        (tt.Budget(rho=0.5), None),
        (tt.Budget(epsilon=1, delta=1e-8), None),
    ],
)
def test_a_loss_is_what_the_plan_spends_and_never_more_than_the_budget(areas, budget, loss):
    job = plan_counts(CountsArguments(PEOPLE, areas, budget, neighboring="change_one"))
    spent = Loss.of(job.plan)
    if loss is not None:
        assert spent == loss
    assert spent.kind == budget.kind
    if budget.epsilon is not None:
        assert spent.epsilon <= budget.epsilon
        assert spent.delta == (budget.delta or 0)
    if budget.kind != "pure":
        assert spent.rho == sum(level.cost for level in job.plan.levels.values())
    if budget.rho is not None:
        assert Fraction(49, 100) < spent.rho <= budget.rho


@pytest.mark.parametrize(
    "amounts",
    [(Fraction(-5), Fraction(0), Fraction(1)), (0.25, Fraction(0), Fraction(1)), (Fraction(1), None, Fraction(1)),
     (Fraction(1), Fraction(1), Fraction(1)), (Fraction(1), Fraction(0), Fraction(-1)), (None, None, None),
     (Fraction(1), Fraction(0), None)],
)  # fmt: skip
def test_a_loss_that_no_release_can_have_is_never_added_up(amounts):
    with pytest.raises(ValueError, match="loss: "):
        Loss(*amounts)
