"""Names of data sets that look alike are named; others are not."""

import pytest

import tallytree as tt
from helpers.inside import Approval
from helpers.ledger_entries import TERMS, posting, pure
from tallytree.ledger import Ledger
from tallytree.ledger.names import near_names

ES = "\N{CYRILLIC SMALL LETTER ES}"


@pytest.mark.parametrize(
    "slip",
    [
        "cencus",
        "cenus",
        "censuus",
        "cesnus",
        "CENSUS",
        "Census",
        "census.parquet",
        "census 2020",
        "cen",
        f"{ES}ensus",
        "c\N{CYRILLIC SMALL LETTER IE}nsu\N{CYRILLIC SMALL LETTER DZE}",
        "\N{FULLWIDTH LATIN SMALL LETTER C}ensus",
        "\N{GREEK CAPITAL LETTER EPSILON}ensus",
        "c\N{LATIN SMALL LETTER E WITH ACUTE}nsus",
    ],
)
def test_a_slip_is_near(slip):
    assert near_names(slip, ["trips", "census"]) == ["census"]


@pytest.mark.parametrize("name", ["census", "tips and tricks", "ce", "people", "surveys", "senses of"])
def test_a_name_of_its_own_or_a_known_one_is_no_slip(name):
    assert near_names(name, ["census", "x", "ab"]) == []


def test_the_nearest_comes_first_and_there_are_at_most_three():
    known = ["people 2020", "people 2021", "people 2022", "people 2030", "people"]
    assert near_names("people 2021b", known) == ["people 2021", "people", "people 2020"]
    assert near_names("abd", ["abc", "abcd", "xyz"]) == ["abc", "abcd"]


@pytest.fixture
def strict(ledger):
    ledger.set_limit("census", tt.Budget(epsilon=1), **TERMS)
    return ledger


@pytest.mark.parametrize(
    ("slip", "remedy"),
    [
        ("cencus", "if 'census' is meant, give that name; else set a limit with `tallytree limit`"),
        ("census.parquet", "if 'census' is meant, give that name; else set a limit with `tallytree limit`"),
        (f"{ES}ensus", "if 'census' is meant, give that name; else set a limit with `tallytree limit`"),
        ("trips", "set a limit with `tallytree limit`"),
    ],
)
def test_a_strict_ledger_refuses_a_data_set_without_a_limit(strict, slip, remedy):
    assert strict.strict
    for ask in (strict.check, strict.record):
        with pytest.raises(ValueError, match=r"^dataset: .* which is strict: ") as caught:
            ask(posting(pure(100), dataset=slip))
        assert str(caught.value) == (
            f"dataset: {slip!r} has no limit in the ledger 'ledger.db', which is strict: it takes only releases of "
            f"data sets with a limit; {remedy}"
        )
    assert strict.entries() == ()
    strict.record(posting(pure(1), dataset="census"))


def test_a_strict_ledger_refuses_a_known_data_set_without_a_limit_too(ledger):
    ledger.record(posting(pure(1)))
    assert not ledger.strict
    ledger.set_strict(True, approval=Approval(reason="every data set has a limit now"))
    with pytest.raises(ValueError, match=r"^dataset: 'people' has no limit .*'ledger.db', .*strict"):
        ledger.record(posting(pure(1)))
    ledger.set_strict(False)
    ledger.record(posting(pure(1)))


def test_who_makes_a_ledger_says_whether_it_is_strict(tmp_path, ledger):
    assert not Ledger.create(tmp_path / "a.db").strict
    assert Ledger.create(tmp_path / "b.db", strict=True).strict
    ledger.record(posting(pure(1)))
    ledger.set_limit("people", tt.Budget(epsilon=1))
    assert not ledger.strict


def test_a_limit_of_a_new_data_set_with_nearly_a_known_name_is_warned_of(strict):
    for slip in ("cencus", f"{ES}ensus"):
        with pytest.warns(UserWarning, match=rf"^dataset: '{slip}' is new in the ledger 'ledger.db', .* 'census' "):
            strict.set_limit(slip, tt.Budget(epsilon=1), **TERMS)
    strict.set_limit("trips", tt.Budget(epsilon=1), **TERMS)
    strict.set_limit("census", tt.Budget(epsilon=0.5))
