"""A release with `period_column`: what it states, what it counts, and what it refuses."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

import tallytree as tt
from tallytree.release.statement import ASSUMED, CHECKED

AREAS = tt.Hierarchy.from_table(pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"]}), ["state", "county"])
SEXES = tt.Hierarchy.from_values("sex", ["f", "m"])
TERMS = {"neighboring": "add_remove", "seed": 7, "period": "2026-W10"}


def records(*days, state="A", county="x"):
    n = len(days)
    return pa.table(
        {
            "state": [state] * n, "county": [county] * n, "sex": ["f"] * n, "home": [f"h{i // 2}" for i in range(n)],
            "who": list(range(n)), "day": pa.array(days, pa.date32()),
        }
    )  # fmt: skip


INSIDE = records(*[date(2026, 3, 2 + i % 7) for i in range(60)])
OUTSIDE = pa.concat_tables([records(*[date(2026, 3, 9)] * 40), records(date(2026, 3, 1), None, state="nowhere")])
BOTH = pa.concat_tables([INSIDE, OUTSIDE])

RELEASES = {
    "counts": lambda table, **more: tt.release_counts(table, AREAS, tt.Budget(epsilon=1), **more),
    "people": lambda table, **more: tt.release_counts(
        table, AREAS, tt.Budget(epsilon=1), person="who", contributions=0.2, **more
    ),
    "flows": lambda table, **more: tt.release_flows(
        table, origins=AREAS, destinations=SEXES, origin=["state", "county"], destination=["sex"],
        budget=tt.Budget(epsilon=1), **more
    ),
    "tables": lambda table, **more: tt.release_tables(
        table, tt.Product({"area": AREAS, "sex": SEXES}), tt.Budget(epsilon=1), tables=[("state", "sex"), ()], **more
    ),
    "group sizes": lambda table, **more: tt.release_group_sizes(
        table, AREAS, tt.Budget(epsilon=1), group="home", max_group_size=5, **more
    ),
    "contributions": lambda table, **more: tt.release_contributions(
        table, AREAS, tt.Budget(epsilon=1), person="who", at_most=5, **more
    ),
}  # fmt: skip


@pytest.mark.parametrize("made", RELEASES.values(), ids=RELEASES)
def test_a_release_is_that_of_the_records_in_the_period_alone(made):
    """The noise is of a seed, so equal records make equal releases, whatever lies outside the period."""
    found, alone = (made(table, period_column="day", **TERMS) for table in (BOTH, INSIDE))
    assert found.statement == alone.statement
    assert found.levels == alone.levels
    for level in found.levels:
        assert found.table(level).equals(alone.table(level))


def test_the_statement_says_whether_the_period_was_checked():
    checked = RELEASES["counts"](INSIDE, period_column="day", **TERMS)
    assumed = RELEASES["counts"](INSIDE, **TERMS)
    assert (checked.statement["release"]["period_is"], assumed.statement["release"]["period_is"]) == (CHECKED, ASSUMED)
    assert checked.spec["period_column"] == "day"
    assert any(
        "whose column 'day' lies in the period 2026-03-02/2026-03-08" in each for each in checked.statement["notes"]
    )
    assert "period_column" not in assumed.spec
    without = RELEASES["counts"](INSIDE, neighboring="add_remove", seed=7)
    assert "period_is" not in without.statement["release"]
    for level in without.levels:  # a period that is only stated changes no number
        assert without.table(level).equals(assumed.table(level))


def test_the_total_is_private_where_records_are_left_out():
    terms = {**TERMS, "neighboring": "change_one"}
    checked, assumed = (RELEASES["counts"](INSIDE, **terms, **more) for more in ({"period_column": "day"}, {}))
    assert [each.statement["levels"][0]["measured"] for each in (checked, assumed)] == [True, False]
    assert not any("total" in each or "number of records" in each for each in checked.statement["invariants"])


def test_another_period_is_another_plan():
    from tallytree.run import CountsArguments, plan_counts

    def digest(**more):
        terms = {name: value for name, value in TERMS.items() if name not in ("period", "seed")}
        return plan_counts(CountsArguments(INSIDE, AREAS, tt.Budget(epsilon=1), **terms, **more)).plan_digest

    of_days = [digest(period=days, period_column="day") for days in ("2026-03-02", "2026-03-03")]
    assert of_days[0] != of_days[1]
    assert digest(period="2026-03-02") == digest(period="2026-03-03")  # then it only says in which windows it counts


def test_the_name_of_the_run_may_be_the_period():
    made = RELEASES["counts"](BOTH, neighboring="add_remove", seed=7, period_column="day", run="2026-W10")
    assert made.statement["release"]["period"] == "2026-03-02/2026-03-08"
    with pytest.raises(ValueError, match=r"^period_column: 'day' .*none is known; give"):
        RELEASES["counts"](BOTH, neighboring="add_remove", period_column="day", run="Monday")


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"period_column": "hour"}, ValueError, "records: column 'hour' is missing"),
        ({"period_column": "who"}, TypeError, r"records: column 'who' \(period_column\) holds int64; it must hold dat"),
        ({"period_column": 3}, TypeError, "period_column: int must be the name of a column"),
    ],
)
def test_a_column_that_cannot_be_used_is_refused(given, error, says):
    with pytest.raises(error, match=f"^{says}"):
        RELEASES["counts"](INSIDE, **TERMS, **given)


def test_rows_that_are_no_records_have_no_date():
    rows = pa.table({"state": ["A"], "county": ["x"], "size": [1], "groups": [2], "day": [date(2026, 3, 4)]})
    with pytest.raises(ValueError, match=r"^period_column: 'day' says when a record was, and \(leaf, size"):
        tt.release_group_sizes(
            rows, AREAS, tt.Budget(epsilon=1), size="size", groups="groups", period_column="day", **TERMS
        )


def test_totals_of_all_records_are_not_those_of_a_period():
    totals = pa.table({"state": ["A", "B"], "count": [60, 0]})
    with pytest.raises(ValueError, match=r"^public_totals: they are of all records, and period_column leaves"):
        RELEASES["tables"](INSIDE, public_totals=totals, period_column="day", **{**TERMS, "neighboring": "change_one"})


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "UTC", "Asia/Tokyo"])
@pytest.mark.parametrize(
    "shape", [pa.Table.combine_chunks, lambda table: table.set_column(2, "when", dictionary(table))]
)
def test_a_day_is_that_in_utc_in_every_form_of_a_column_whatever_the_zone_of_the_machine(zone, shape, monkeypatch):
    """A record that counted in two periods would be charged in two windows as if it were in one."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        when = pa.array([datetime(2026, 4, 1, 3, tzinfo=UTC)] * 900, pa.timestamp("us", tz="UTC"))
        table = shape(pa.table({"state": ["A"] * 900, "county": ["x"] * 900, "when": when}))
        terms = {"neighboring": "add_remove", "seed": 7, "period_column": "when"}
        totals = [
            tt.release_counts(table, AREAS, tt.Budget(epsilon=1), period=month, **terms)
            .table("all")["count"][0]
            .as_py()
            for month in ("2026-03", "2026-04")
        ]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert totals[0] < 450 < totals[1]


def dictionary(table):
    return table["when"].dictionary_encode()
