"""Periods and windows: dates as calendars have them, and sums of windows against a count day by day."""

from datetime import date, timedelta
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallytree.accounting.losses import Loss, LossSums
from tallytree.accounting.periods import ALL_TIME, ROLLING_DAYS, Period, Window, named_day

START = date(2026, 1, 1)
DAYS = 120


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2026-03-04", "2026-03-04", "2026-03-04"),
        ("2026-W10", "2026-03-02", "2026-03-08"),
        ("2020-W53", "2020-12-28", "2021-01-03"),
        ("2024-02", "2024-02-01", "2024-02-29"),
        ("2026-12", "2026-12-01", "2026-12-31"),
        ("2026", "2026-01-01", "2026-12-31"),
        ("2026-03-04/2026-03-10", "2026-03-04", "2026-03-10"),
    ],
)
def test_a_period_is_the_days_that_a_text_names(text, first, last):
    period = Period.parse(text)
    assert (period.first.isoformat(), period.last.isoformat()) == (first, last)
    assert Period.parse(str(period)) == period


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-13",
        "2026-02-30",
        "2026-W54",
        "20260304",
        "yesterday",
        "2026-03-10/2026-03-04",
        "0001",
        "9999",
        "9999-W52",
    ],
)
def test_what_names_no_days_is_refused(text):
    with pytest.raises(ValueError, match=r"^period: "):
        Period.parse(text)


NO_PERIOD = [
    "trips-2026-03-04-v2", "2026-03-04_2026-03-05", "2026-W10-W12", "2026-W10-12", "2026-03-04..06", "2026-03-04+7d",
    "2026-03-to-05", "2026-03-2026-05", "2025-2026-03", "since-2026-03-04", "\u06622026-03-04", "2026-03-04\n",
    "2026", "20260304", "x2026-031", "2026-13", "nightly", "2026-03-04/2026-03-10",
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "period"),
    [
        ("2026-03-04", "2026-03-04"),
        ("2026-W10", "2026-W10"),
        ("2026-03", "2026-03"),
        *((name, None) for name in NO_PERIOD),
    ],
)
def test_the_name_of_a_run_is_a_period_where_it_is_a_date_and_nothing_else(name, period):
    assert Period.of_name(name) == (None if period is None else Period.parse(period))


WINDOWS = [
    Window("week"),
    Window("month"),
    Window("year"),
    Window("week", begins=date(2026, 1, 1)),
    Window("month", begins=date(2026, 1, 15)),
    Window("year", begins=date(2020, 4, 6)),
    Window("week", rolling=True),
    Window("month", rolling=True),
    Window("year", rolling=True),
]


@pytest.mark.parametrize("window", [*WINDOWS, ALL_TIME], ids=str)
def test_windows_are_stored_as_text(window):
    assert Window.parse(str(window)) == window


@pytest.mark.parametrize("window", [each for each in WINDOWS if not each.rolling], ids=str)
def test_windows_of_a_calendar_follow_each_other_without_a_gap(window):
    found = list(window.met_by(Period(date(2019, 1, 1), date(2029, 12, 31))))
    assert all(one.last + timedelta(1) == other.first for one, other in pairwise(found))
    lengths = {(each.last - each.first).days + 1 for each in found}
    assert lengths == {"week": {7}, "month": {28, 29, 30, 31}, "year": {365, 366}}[window.length]
    assert max(lengths) == ROLLING_DAYS[window.length]
    if window.begins is not None:
        assert {each.first.day for each in found} == {window.begins.day} or window.length == "week"
        assert window.of_day(window.begins).first == window.begins


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"length": "day"}, 'per: \'day\' is not known; choose "week", "month", "year" or "all"'),
        ({"rolling": True}, "per: 'all' is all time"),
        ({"length": "week", "rolling": True, "begins": START}, "begins: 2026-01-01 has no place beside rolling"),
        ({"length": "month", "begins": date(2026, 1, 31)}, "begins: 2026-01-31 is a day that not every month has"),
    ],
)
def test_windows_that_cannot_be_are_refused(given_, message):
    with pytest.raises(ValueError, match=message):
        Window(**given_)
    with pytest.raises(TypeError, match=r"begins: str must be a datetime\.date"):
        Window("week", begins="2026-01-01")
    with pytest.raises(TypeError, match="rolling: str must be True or False"):
        Window("week", rolling="yes")
    with pytest.raises(TypeError, match="per: None must be"):
        Window(None)
    for text in ("soon", "20260304", "2026-W10-3"):
        with pytest.raises(ValueError, match=f"begins: '{text}' is no day"):
            named_day(text, "begins")


def test_windows_that_are_the_same_are_equal():
    assert Window("week", begins=date(2026, 1, 7)) == Window("week", begins=date(2019, 5, 1)) != Window("week")
    assert Window("week", begins=date(2026, 1, 5)) == Window("week")
    assert Window("month", begins=date(2026, 4, 15)) == Window("month", begins=date(2026, 1, 15)) != Window("month")
    assert Window("month", begins=date(2026, 7, 1)) == Window("month")
    assert Window("year", begins=date(2026, 4, 6)) == Window("year", begins=date(2020, 4, 6)) != Window("year")
    assert Window("year", begins=date(2026, 1, 1)) == Window("year")
    said = [Window("week", begins=date(2026, 1, 7)), Window("month", begins=date(2026, 4, 15)),
            Window("year", begins=date(2026, 4, 6)), Window("year", rolling=True)]  # fmt: skip
    assert [each.words for each in said] == [
        "a week from Wednesday", "a month from day 15", "a year from April 6", "any 366 days",
    ]  # fmt: skip


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_periods_at_the_ends_of_the_calendar_have_windows(window):
    for text in ("0002-01-01/0002-12-31", "9998", "9998-06-15", "0002-01-01/9998-12-31"):
        period = Period.parse(text)
        sums = window.sums({period: LossSums(number=1)}, period)
        assert all(each.number == 1 for _, each in sums)
        assert len(sums) < 3  # however many windows a period meets, few matter
        if not window.rolling and window.length == "year":
            assert list(window.met_by(period))[-1].last >= period.last


def days_of(window):
    """Every window of a kind that meets the days of the test, found day by day."""
    if window.rolling:
        length = timedelta(ROLLING_DAYS[window.length] - 1)
        starts = (START + timedelta(day) for day in range(-length.days, DAYS))
        return [Period(start, start + length) for start in starts]
    return [*dict.fromkeys(window.of_day(START + timedelta(day)) for day in range(DAYS))]


periods = st.tuples(st.integers(0, DAYS - 1), st.sampled_from([0, 0, 0, 1, 6, 30, 80])).map(
    lambda each: Period(START + timedelta(each[0]), START + timedelta(min(sum(each), DAYS - 1)))
)
releases = st.lists(st.tuples(st.none() | periods, st.integers(1, 20)), max_size=12)


@given(releases, st.none() | periods, st.sampled_from(WINDOWS))
def test_no_window_has_more_than_the_candidates(given_, new, window):
    dated = {}
    for period, tenths in given_:
        loss = Loss(Fraction(tenths, 10), Fraction(0), Fraction(tenths**2, 200))
        dated[period] = dated.get(period, LossSums()) + loss.sums

    def spent(days):
        return sum(Fraction(t, 10) for period, t in given_ if period is None or period.meets(days))

    assert all(each.epsilon == spent(days) for days, each in window.met(dated))
    sums = window.sums(dated, new)
    for days, each in sums:
        if days is not None:
            assert each.epsilon == spent(days)
            assert new is None or days.meets(new)
    everywhere = [spent(days) for days in days_of(window) if new is None or days.meets(new)]
    assert max(each.epsilon for _, each in sums) == max(everywhere)
    assert max(each.number for _, each in sums) == max(
        sum(period is None or period.meets(days) for period, _ in given_)
        for days in days_of(window)
        if new is None or days.meets(new)
    )
