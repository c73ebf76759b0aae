"""Which terms and names a data set has, and which limits."""

from fractions import Fraction

import pytest

import tallytree as tt
from helpers.inside import Approval
from helpers.ledger_entries import BOTH, PURE, RHO, TERMS, approximate, posting, pure, release, threshold, zcdp
from tallytree.ledger import Ledger


@pytest.mark.parametrize(
    ("changes", "begins"),
    [
        ({"neighboring": "change_one"}, "neighboring: 'change_one' is the relation here"),
        ({"max_contributions": 2}, "max_contributions: 2 is the bound"),
        ({"unit": "trip", "statistic": "flows"}, "dataset: 'trip' is the unit"),
    ],
)
@pytest.mark.parametrize("after", ["release", "limit"])
def test_another_relation_or_unit_is_never_mixed_in(ledger, changes, begins, after):
    ledger.set_limit("people", tt.Budget(epsilon=9), **TERMS, unit="record")
    ledger.set_limit("another", tt.Budget(epsilon=9), **TERMS, unit="record", max_contributions=2)
    if after == "release":
        ledger.record(posting(pure(1)))
    for refused in (ledger.check, ledger.record):
        with pytest.raises(ValueError, match=f"^{begins}") as caught:
            refused(posting(pure(1), **changes))
        assert "so keep to " in str(caught.value)
    assert len(ledger.entries()) == (after == "release")
    ledger.record(posting(pure(1), dataset="another", max_contributions=2))


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("", ValueError),
        (" people", ValueError),
        ("a\nb", ValueError),
        ("\udc80", ValueError),
        ("x" * 201, ValueError),
        (7, TypeError),
    ],
)
def test_a_data_set_needs_a_name_that_can_be_seen(areas, path, ledger, name, error):
    for ask in (
        lambda: ledger.set_limit(name, tt.Budget(epsilon=1), **TERMS),
        lambda: release(areas, path, dataset=name),
    ):
        with pytest.raises(error, match=r"^dataset: .* must be (a|the) name"):
            ask()
    assert not path.exists()


def test_the_same_name_in_another_encoding_is_the_same_data_set(areas, path):
    ledger = Ledger(path)
    ledger.set_limit("Bevo\N{LATIN SMALL LETTER O WITH DIAERESIS}", tt.Budget(epsilon=1), **TERMS)
    release(areas, path, dataset="Bevoo\N{COMBINING DIAERESIS}")
    assert [dataset.name for dataset in ledger.datasets()] == ["Bevo\N{LATIN SMALL LETTER O WITH DIAERESIS}"]


def test_a_limit_may_be_raised_and_lowered_but_not_below_what_is_spent(ledger):
    ledger.set_limit("people", tt.Budget(epsilon=1), **TERMS)
    ledger.record(posting(pure(1)))
    with pytest.raises(tt.BudgetExceeded) as caught:
        ledger.record(posting(pure("1/2")))
    assert str(caught.value) == (
        "budget: epsilon 0.5 is more than the epsilon 0 that is left of the limit of the data set 'people', "
        "epsilon 1; give a smaller budget, or raise the limit with `tallytree limit`"
    )
    ledger.set_limit("people", tt.Budget(epsilon=3), approval=Approval(reason="a second release was approved"))
    ledger.record(posting(pure("1/2")))
    with pytest.raises(ValueError, match=r"^budget: .*epsilon 1 .*less than what is spent.*epsilon 1"):
        ledger.set_limit("people", tt.Budget(epsilon=1))
    ledger.set_limit("people", tt.Budget(epsilon=1.5))
    assert ledger.remaining("people") == {"epsilon": 0}


def test_a_limit_that_cannot_count_what_was_released_is_refused(ledger):
    ledger.record(posting(zcdp("1/2")))
    for budget in (PURE, BOTH):
        with pytest.raises(ValueError, match=r"^budget: the data set has releases that a limit of .* cannot count; "):
            ledger.set_limit("people", budget)
    ledger.set_limit("people", RHO)
    assert ledger.remaining("people") == {"rho": Fraction(3, 2)}


def test_a_release_with_a_threshold_has_no_rho_and_shares_no_data_set_with_releases_in_rho(ledger):
    ledger.record(posting(threshold(1, "1/1000")))
    ledger.record(posting(approximate(1, "1/1000", "1/8")))
    assert ledger.spent("people") == {"epsilon": 2, "delta": Fraction(1, 500)}
    assert [entry.loss.rho for entry in ledger.entries("people")] == [None, Fraction(1, 8)]
    with pytest.raises(ValueError, match=r"^budget: rho 0.5 cannot be added .*'people'"):
        ledger.record(posting(zcdp("1/2")))
    with pytest.raises(ValueError, match=r"set it in epsilon and delta, which counts every release$"):
        ledger.set_limit("people", RHO)
    ledger.record(posting(zcdp("1/2"), dataset="others"))
    with pytest.raises(ValueError, match=r"^budget: epsilon 1, delta 0.001 cannot be added .* 'others'"):
        ledger.record(posting(threshold(1, "1/1000"), dataset="others"))
    assert len(ledger.entries("people")) == 2
    assert len(ledger.entries("others")) == 1


@pytest.mark.parametrize(
    ("changes", "error", "begins"),
    [
        ({"neighboring": None}, ValueError, "neighboring: the ledger does not know the data set 'new' yet; "),
        ({"neighboring": "both"}, ValueError, "neighboring: 'both' is not known; "),
        ({"max_contributions": 0}, ValueError, "max_contributions: 0 must be at least 1"),
        ({"unit": "house"}, ValueError, "unit: 'house' is not known; "),
        ({"budget": 1.0}, TypeError, "budget: 1.0 must be a tallytree.Budget, "),
    ],
)
def test_a_mistaken_limit_changes_nothing(ledger, changes, error, begins):
    ledger.record(posting(pure(1)))
    with pytest.raises(error, match=f"^{begins}"):
        ledger.set_limit("new", **{"budget": PURE, "neighboring": "bounded"} | changes)
    assert [dataset.name for dataset in ledger.datasets()] == ["people"]


def test_a_data_set_that_is_not_there_is_named_with_those_that_are(ledger):
    ledger.record(posting(pure(1)))
    for ask in (ledger.spent, ledger.remaining, ledger.entries, ledger.dataset):
        with pytest.raises(ValueError, match=r"^dataset: the ledger '.*' has no 'peeple'; it has 'people'$"):
            ask("peeple")
