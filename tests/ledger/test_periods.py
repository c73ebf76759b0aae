"""Limits of a week, a month or a year: what they admit, day by day, and what the ledger keeps of them."""

import dataclasses
import sqlite3
import warnings
from contextlib import nullcontext
from datetime import date, timedelta
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallytree as tt
from helpers.inside import ROLLING_DAYS, Approval, Period, Window, make_secret
from helpers.ledger_entries import TERMS, posting, pure, zcdp
from tallytree.ledger import Ledger
from tallytree.ledger.events import event_text, read_event, release_text

START = date(2026, 3, 2)


def of(days, loss, run=None):
    return dataclasses.replace(posting(loss), period=None if days is None else Period.parse(days), run=run)


@pytest.mark.parametrize(
    ("first", "second", "idle"),
    [
        ((3, {}), (5, {"per": "year"}), "epsilon 5 in a year"),
        ((3, {}), (3, {"per": "year"}), "epsilon 3 in a year"),
        ((3, {}), (2, {"per": "year"}), None),
        ((5, {"per": "year"}), (3, {}), "epsilon 5 in a year"),
        ((3, {"per": "year"}), (4, {"per": "month"}), "epsilon 4 in a month"),
        ((3, {"per": "year"}), (4, {"per": "week"}), None),  # a week lies in two years
        ((3, {"per": "year", "begins": date(2001, 4, 1)}), (4, {"per": "month"}), None),
        ((3, {"per": "year", "rolling": True}), (4, {"per": "week"}), "epsilon 4 in a week"),
        ((3, {"per": "week", "rolling": True}), (4, {"per": "month"}), None),
        ((3, {"per": "year", "rolling": True}), (4, {}), None),
    ],
)
def test_a_limit_that_a_longer_one_makes_idle_is_warned_of(ledger, first, second, idle):
    """Whichever of the two is set later; it is set all the same."""
    ledger.set_limit("people", tt.Budget(epsilon=first[0]), **first[1], **TERMS)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        ledger.set_limit("people", tt.Budget(epsilon=second[0]), **second[1])
    assert [str(each.message).partition(" can never bind, ")[0] for each in said] == (
        [] if idle is None else [f"limit: {idle}"]
    )
    assert len(ledger.contents().datasets["people"].limits) == 2
    if said:
        assert said[0].filename == __file__


@pytest.mark.parametrize(
    ("all_time", "year", "idle"),
    [
        (tt.Budget(epsilon=3), tt.Budget(epsilon=3, delta=1e-9), True),
        (tt.Budget(epsilon=2), tt.Budget(rho=2), True),  # ε²/2
        (tt.Budget(epsilon=3), tt.Budget(rho=2), False),
        (tt.Budget(rho=1), tt.Budget(epsilon=9, delta=1e-6), False),  # which adds up ε, not ρ
        (tt.Budget(epsilon=3, delta=1e-6), tt.Budget(epsilon=3, delta=1e-7), False),
    ],
)
def test_limits_in_different_terms_are_compared_by_what_they_admit(ledger, all_time, year, idle):
    ledger.set_limit("people", all_time, **TERMS)
    with pytest.warns(UserWarning, match="can never bind") if idle else nullcontext():
        ledger.set_limit("people", year, per="year")


def test_a_limit_of_a_week_holds_for_each_week(ledger):
    ledger.set_limit("people", tt.Budget(epsilon=1), per="week", **TERMS)
    for days in ("2026-03-02", "2026-03-08", "2026-03-09"):
        ledger.record(of(days, pure("1/2")))
    with pytest.raises(
        tt.BudgetExceeded,
        match=r"epsilon 0\.5 is more than the epsilon 0 that is left in 2026-03-02/2026-03-08 of the limit of a week "
        r"of the data set 'people', epsilon 1; give a smaller budget",
    ):
        ledger.record(of("2026-03-08/2026-03-09", pure("1/2")))
    ledger.record(of("2026-03-10", pure("1/2")))
    assert [(str(days), sums.epsilon) for days, sums in ledger.standing("people").spent_in(Window("week"))] == [
        ("2026-03-02/2026-03-08", 1),
        ("2026-03-09/2026-03-15", 1),
    ]
    assert [str(each.period) for each in ledger.entries()] == ["2026-03-02", "2026-03-08", "2026-03-09", "2026-03-10"]


def test_a_rolling_limit_holds_for_any_seven_days(ledger):
    ledger.set_limit("people", tt.Budget(epsilon=1), per="week", rolling=True, **TERMS)
    for days in ("2026-03-06", "2026-03-07"):
        ledger.record(of(days, pure("1/2")))
    with pytest.raises(tt.BudgetExceeded, match="of the limit of any 7 days"):
        ledger.record(of("2026-03-12", pure("1/2")))
    ledger.record(of("2026-03-13", pure("1/2")))


def test_a_release_without_a_period_counts_in_every_window(ledger):
    ledger.set_limit("people", tt.Budget(epsilon=1), per="week", **TERMS)
    ledger.record(of("2026-03-02", pure("1/2")))
    ledger.record(of(None, pure("1/2")))
    for days in ("2026-03-02", None):
        with pytest.raises(tt.BudgetExceeded):
            ledger.record(of(days, pure("1/10")))
    ledger.record(of("2027-01-01", pure("1/2")))
    with pytest.raises(tt.BudgetExceeded):
        ledger.record(of("2027-01-01", pure("1/10")))


def test_several_limits_hold_at_once(ledger):
    ledger.set_limit("people", tt.Budget(rho=1), **TERMS)
    ledger.set_limit("people", tt.Budget(rho=Fraction("1/4")), per="month")
    ledger.set_limit("people", tt.Budget(rho=Fraction("1/10")), per="week")
    ledger.record(of("2026-03-02", zcdp("1/10")))
    with pytest.raises(tt.BudgetExceeded, match="of a week"):
        ledger.record(of("2026-03-03", zcdp("1/100")))
    ledger.record(of("2026-03-09", zcdp("1/10")))
    with pytest.raises(tt.BudgetExceeded, match=r"rho 0\.05 that is left in 2026-03-01/2026-03-31 of the limit of a m"):
        ledger.record(of("2026-03-16", zcdp("1/10")))
    known = ledger.standing("people")
    assert known.limit == tt.Budget(rho=1)
    assert known.remaining == {"rho": Fraction(4, 5)}
    assert known.window_limits == {
        Window("month"): tt.Budget(rho=Fraction("1/4")),
        Window("week"): tt.Budget(rho=Fraction("1/10")),
    }
    assert ledger.dataset("people").dated == known.dated


def test_a_limit_is_not_below_what_a_window_has_spent_and_is_raised_with_a_reason(ledger):
    ledger.set_limit("people", tt.Budget(epsilon=1), per="week", **TERMS)
    ledger.record(of("2026-03-02", pure("1/2")))
    with pytest.raises(ValueError, match=r"a month of epsilon 0\.4 .*spent already in 2026-03-01/"):
        ledger.set_limit("people", tt.Budget(epsilon=Fraction("2/5")), per="month")
    with pytest.raises(ValueError, match=r"^reason: "):
        ledger.set_limit("people", tt.Budget(epsilon=2), per="week")
    ledger.set_limit("people", tt.Budget(epsilon=2), per="week", approval=Approval(reason="a wider table"))
    ledger.set_limit("people", tt.Budget(epsilon=3))  # of all time: the first of its kind, so no reason is asked for
    assert [(str(each.window), each.raised) for each in ledger.standing("people").limits] == [
        ("week", False),
        ("week", True),
        ("all", False),
    ]
    with pytest.raises(ValueError, match=r"cannot be counted .*a week .*'people'"):
        ledger.record(of("2026-03-02", zcdp("1/10")))


def test_a_strict_ledger_takes_data_sets_with_a_limit_of_a_window(ledger):
    ledger.set_limit("people", tt.Budget(epsilon=1), per="year", **TERMS)
    assert ledger.strict
    ledger.record(of("2026-03-02", pure(1)))
    with pytest.raises(ValueError, match="which is strict"):
        ledger.record(dataclasses.replace(of("2026-03-02", pure(1)), dataset="others"))


def test_events_without_periods_are_those_of_before(ledger, path):
    ledger.set_limit("people", tt.Budget(epsilon=1), **TERMS)
    ledger.record(posting(pure("1/2")))
    with sqlite3.connect(path) as connection:
        texts = " ".join(str(row) for row in connection.execute("SELECT * FROM events"))
    assert "period" not in texts
    assert "window" not in texts


def test_the_period_is_stated_and_follows_the_name_of_the_run(tmp_path):
    areas = tt.Hierarchy.from_table(pa.table({"county": ["a", "b"]}), levels=["county"])
    records = pa.table({"county": ["a", "b", "b"]})
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.set_limit("people", tt.Budget(epsilon=1), neighboring="add_remove", per="week")
    options = {"neighboring": "add_remove", "ledger": ledger, "dataset": "people"}
    by_name = tt.release_counts(records, areas, tt.Budget(epsilon=Fraction("1/4")), run="2026-03-04", **options)
    stated = tt.release_counts(
        records, areas, tt.Budget(epsilon=Fraction("1/4")), run="2026-03-05", period="2026-W11", **options
    )
    without = tt.release_counts(records, areas, tt.Budget(epsilon=Fraction("1/4")), **options)
    found = [each.statement["release"].get("period") for each in (by_name, stated, without)]
    assert found == ["2026-03-04", "2026-03-09/2026-03-15", None]
    assert [each.period and str(each.period) for each in ledger.entries()] == found
    with pytest.raises(ValueError, match="period: 'soon' names no days"):
        tt.release_counts(records, areas, tt.Budget(epsilon=1), neighboring="add_remove", period="soon")


def test_the_same_run_with_another_period_is_refused(tmp_path):
    areas = tt.Hierarchy.from_table(pa.table({"county": ["a", "b"]}), levels=["county"])
    records = pa.table({"county": ["a", "b", "b"]})
    ledger, secret = Ledger(tmp_path / "ledger.db"), make_secret(tmp_path / "secret")
    ledger.set_limit("people", tt.Budget(epsilon=1), neighboring="add_remove", per="week")
    options = {"neighboring": "add_remove", "ledger": ledger, "dataset": "people", "secret": secret, "run": "nightly"}
    first = tt.release_counts(records, areas, tt.Budget(epsilon=1), period="2026-03-04", **options)
    again = tt.release_counts(records, areas, tt.Budget(epsilon=1), period="2026-03-04", **options)
    assert again.table("county").equals(first.table("county"))
    with pytest.raises(ValueError, match="its period differs: that one is of 2026-03-04; give another run name"):
        tt.release_counts(records, areas, tt.Budget(epsilon=1), period="2026-03-11", **options)
    assert len(ledger.entries()) == 1


def test_another_period_is_charged_where_that_is_asked_for(ledger):
    ledger.set_limit("people", tt.Budget(epsilon=1), per="week", **TERMS)
    plan, digest = "a" * 64, lambda release_id: "b" * 64
    mistaken = dataclasses.replace(of("2026-03-04", pure("1/2"), "run"), plan=plan)
    corrected = dataclasses.replace(mistaken, period=Period.parse("2026-03-11"))
    first = ledger.record(mistaken, statistics=digest)
    ledger.finish(first.number)
    second = ledger.record(corrected, statistics=digest, on_changed="charge")
    assert not second.again
    assert second.release_id != first.release_id
    assert ledger.spent("people") == {"epsilon": 1}


def test_a_run_from_before_there_were_periods_is_repeated_free_of_charge(ledger):
    ledger.set_limit("people", tt.Budget(epsilon=1), per="week", **TERMS)
    digest = lambda release_id: "b" * 64  # noqa: E731
    old = dataclasses.replace(of(None, pure(1), "2026-03-04"), plan="a" * 64)
    first = ledger.record(old, statistics=digest)
    again = ledger.record(dataclasses.replace(old, period=Period.parse("2026-03-04")), statistics=digest)
    assert (again.again, again.release_id) == (True, first.release_id)
    assert len(ledger.entries()) == 1


def test_the_same_windows_in_other_words_are_raised_with_a_reason(ledger):
    ledger.set_limit("people", tt.Budget(epsilon=1), per="week", begins=date(2026, 1, 7), **TERMS)
    with pytest.raises(ValueError, match=r"^reason: "):
        ledger.set_limit("people", tt.Budget(epsilon=2), per="week", begins=date(2026, 1, 14))
    with pytest.raises(TypeError, match="rolling: str must be True or False"):
        ledger.set_limit("people", tt.Budget(epsilon=2), per="week", rolling="yes")
    assert len(ledger.standing("people").limits) == 1


@pytest.mark.parametrize("fact", ['"window":"all"', '"window":null', '"window":"week from 20260105"', '"period":null'])
def test_facts_that_no_ledger_writes_are_refused(fact):
    kind = "limit" if "window" in fact else "release"
    facts = {"dataset": "people", "epsilon": "1", "delta": None, "rho": None}
    if kind == "limit":
        text = event_text("limit", **facts, approved_by=None, reason=None, ticket=None)
    else:
        text = release_text(of(None, pure(1)), 1, "c" * 32, None)
    read_event(text)
    with pytest.raises(ValueError, match=r"an event|window|begins"):
        read_event(text.rstrip()[:-1] + b"," + fact.encode() + b"}")


DAYS = 40
periods = st.none() | st.tuples(st.integers(0, DAYS - 1), st.sampled_from([0, 0, 1, 6, 20])).map(
    lambda each: Period(START + timedelta(each[0]), START + timedelta(sum(each)))
)


@settings(max_examples=30)
@given(
    st.lists(st.tuples(periods, st.integers(1, 6)), min_size=1, max_size=14),
    st.sampled_from([Window("week"), Window("week", rolling=True), Window("month"), Window("month", rolling=True)]),
)
def test_no_window_ever_has_more_than_its_limit_and_nothing_is_refused_without_need(tmp_path_factory, asked, window):
    ledger = Ledger(tmp_path_factory.mktemp("ledger") / "ledger.db")
    ledger.set_limit("people", tt.Budget(epsilon=1), per=window.length, rolling=window.rolling, **TERMS)
    admitted = []

    def all_windows():
        days = [START + timedelta(day) for day in range(-40, DAYS + 60)]
        if window.rolling:
            return [Period(day, day + timedelta(ROLLING_DAYS[window.length] - 1)) for day in days]
        return [window.of_day(day) for day in days]

    def most(releases):
        return max(sum(t for p, t in releases if p is None or p.meets(days)) for days in all_windows())

    for period, tenths in asked:
        fits = most([*admitted, (period, tenths)]) <= 10
        try:
            ledger.record(dataclasses.replace(posting(pure(Fraction(tenths, 10))), period=period))
            recorded = True
        except tt.BudgetExceeded:
            recorded = False
        assert recorded == fits
        if recorded:
            admitted.append((period, tenths))
