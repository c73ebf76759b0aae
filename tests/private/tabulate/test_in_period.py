"""Records outside the period are left out: in every engine, for every type and kind of table, and without a trace."""

from __future__ import annotations

import contextlib
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallytree as tt
from helpers.inside import LeafKey, Period
from tallytree.private.engines import CountGroups, CountRecords, InPeriod, Local
from tallytree.private.tabulate.columns import _weeks, _whole_months
from tallytree.private.tabulate.contribution_bound import ContributionBound

DAYS = [date(2026, 2, 27) + timedelta(i) for i in range(40)] + [date(2024, 2, 29), date(2025, 3, 4), date(1, 1, 1)]
READ = [
    *map(str, DAYS), "2026-03-04T00:00:00", "2026-03-04 23:59:59.999", "2026-03-04T01:00:00+02:00", "2026-03-10T24",
    "2026-02", "2026-03", "2026-04", "2026-W09", "2026-W10", "2026-W11", "2026-W53", "1999-W53", "",
]  # fmt: skip
UNREADABLE = [
    "2026-13", "2026-00", "2026-W00", "2026-W60", "2026", "2026-03-04/2026-03-05", " 2026-03-04", "2026-3-4",
    "2026-03-32", "2026-02-30", "1999-02-30", "04/03/2026", "04.03.2026", "now", "20260304", "2026-03-04\n",
    "2026-03-04x", "2026-03\n", "epoch", "infinity", "٢٠٢٦-03-04", "NaT", "-", " ",
]  # fmt: skip
PERIODS = [
    "2026-03-04",
    "2026-W10",
    "2026-03",
    "2026",
    "2026-03-01/2026-03-31",
    "2026-03-02/2026-03-15",
    "2024-02",
    "2025-11-03/2027-03-28",
]


def request_of(n: int, period: str, **options: Any) -> CountRecords:
    places = tt.Hierarchy.from_table(pa.table({"leaf": [f"{i}" for i in range(n)]}), ["leaf"])
    return CountRecords((LeafKey(places, ("leaf",)),), period=InPeriod("day", Period.parse(period)), **options)


def kept(engine: Any, days: Any, period: str, **options: Any) -> list[int]:
    """The numbers of the records that are kept: each has a leaf of its own."""
    table = pa.table({"leaf": [f"{i}" for i in range(len(days))], "day": days})
    found = engine.tabulate(table, request_of(len(days), period, **options))
    assert set(found.counts.tolist()) <= {1}
    return sorted(found.parts[0].tolist())


def lies_in(text: str, period: Period) -> bool:
    """Whether all days that a text names lie in a period; of a time of a day, that day's do."""
    if len(text) > len("2026-03-04") and text[10] in "T ":
        text = text[:10]
    if len(text) == len("2026"):
        return False
    with contextlib.suppress(ValueError):
        days = Period.parse(text)
        return period.first <= days.first and days.last <= period.last and "/" not in text
    return False


SLOW = [pytest.mark.slow, pytest.mark.needs("pyspark", "sqlglot")]
ON_SPARK = ["2026-03-04", "2026-W10", "2024-02", "2025-11-03/2027-03-28"]
"""A day, a week, a month, and a range: the others are these with other days."""


@pytest.mark.parametrize(
    ("any_engine", "period"),
    [*(("local", period) for period in PERIODS), *(pytest.param("spark", period, marks=SLOW) for period in ON_SPARK)],
    indirect=["any_engine"],
)
def test_of_texts_those_are_kept_that_name_days_in_the_period(any_engine, period):
    expected = [i for i, text in enumerate(READ) if lies_in(text, Period.parse(period))]
    assert expected
    days = pa.array([*READ, None])
    for each in (days, days.dictionary_encode(), days.cast(pa.large_string())):
        assert kept(any_engine, each, period) == expected
    # What cannot be read is left out where records that cannot be placed are.
    everything = pa.array([*READ, "2025-W53", *UNREADABLE])
    assert kept(any_engine, everything, period, on_unknown="drop") == expected


REFUSED = (
    r"^records: column 'day' \(period_column\) has text that is no date in a form that is read: a day \(2026-03-04, "
    r"also with a time after it\), a month \(2026-03\) or an ISO week \(2026-W10\); write dates so, or leave such "
    r"records out with on_unknown='drop'$"
)


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_text_that_names_no_day_is_refused_and_not_shown(text):
    """Among many records that can be read, inside and outside, and whatever else is in its row."""
    days = [*READ, text]
    period = ("2026-03-04", "2026-W10", "2024")[UNREADABLE.index(text) % 3]
    with pytest.raises(ValueError, match=REFUSED):
        kept(Local(), pa.array(days), period)
    table = pa.table({"leaf": ["0", "0"], "day": ["2026-03-04", text], "who": [1, 2], "n": [1, 1]})
    bound = ContributionBound("who", 1, bytes(32))
    with pytest.raises(ValueError, match=REFUSED):
        Local().tabulate(table, request_of(1, "2026-03-04", count="n", bound=bound))
    grouped = CountGroups(
        request_of(1, "2026").keys[0], "who", quantity="n", period=InPeriod("day", Period.parse("2026-03-04"))
    )
    with pytest.raises(ValueError, match=REFUSED):
        Local().tabulate(table, grouped)


def test_every_engine_refuses_what_cannot_be_read_and_reads_what_can(any_engine):
    """The 53rd week of a year of the period that has none is no week; of another year, it is outside in any case."""
    for text in ("04/03/2026", "2026-02-30", "2025-W53"):
        with pytest.raises(ValueError, match=REFUSED):
            kept(any_engine, pa.array([*READ, text]), "2025")
    assert kept(any_engine, pa.array(["2025-W53", "2026-03-04"]), "2026-03-04") == [1]


NAIVE = [datetime.combine(day, time(hour)) for day in DAYS[:-1] for hour in (0, 23)]
TYPES = [pa.date32(), pa.date64(), *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns"))]


@pytest.mark.parametrize("kind", [*TYPES, pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC")], ids=str)
def test_dates_and_timestamps_of_every_type_are_kept_by_their_day(any_engine, kind, tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")  # a day of UTC is one whatever the zone of the machine is
    moments = [each.replace(tzinfo=UTC) for each in NAIVE] if getattr(kind, "tz", None) else NAIVE
    days = pa.array([*moments, None], pa.timestamp("us", getattr(kind, "tz", None))).cast(kind, safe=False)
    expected = [i for i, moment in enumerate(NAIVE) if date(2026, 3, 2) <= moment.date() <= date(2026, 3, 8)]
    assert kept(any_engine, days, "2026-W10") == expected
    table = pa.table({"leaf": [f"{i}" for i in range(len(days))], "day": days})
    pq.write_table(table, tmp_path / "records.parquet")
    found = any_engine.tabulate(tmp_path / "records.parquet", request_of(len(days), "2026-W10"))
    assert sorted(found.parts[0].tolist()) == expected


@pytest.mark.parametrize("kind", [*TYPES, pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC")], ids=str)
def test_a_time_at_the_ends_of_its_type_is_outside_and_no_error(kind):
    whole, a_day = (pa.int32(), 1) if kind == pa.date32() else (pa.int64(), None)
    if a_day is None:
        a_day = 86_400 * 10 ** {"s": 0, "ms": 3, "us": 6, "ns": 9}[getattr(kind, "unit", "ms")]
    most = 2 ** (whole.bit_width - 1) - 1
    numbers = [most, (date(2026, 3, 4) - date(1970, 1, 1)).days * a_day, -most, -most - 1, most - 1, 0]
    assert kept(Local(), pa.array(numbers, whole).view(kind), "2026-03-04") == [1]


def as_csv(table: pa.Table, folder: Path) -> Any:
    table.to_pandas().to_csv(folder / "records.csv", index=False)
    return folder / "records.csv"


def in_folders(table: pa.Table, folder: Path) -> Any:
    pq.write_to_dataset(table, folder / "parts", partition_cols=["day"])
    return folder / "parts"


@pytest.mark.parametrize(
    "kind",
    [as_csv, in_folders, lambda t, f: t.to_pandas(), lambda t, f: pl.from_arrow(t),
     lambda t, f: pl.from_arrow(t).lazy(), lambda t, f: duckdb.from_arrow(t)],
    ids=["csv", "folders", "pandas", "polars", "lazy", "duckdb"],
)  # fmt: skip
def test_every_kind_of_table_has_its_days(kind, tmp_path):
    table = pa.table({"leaf": [f"{i}" for i in range(len(DAYS))], "day": pa.array(DAYS, pa.date32())}).slice(0, 40)
    found = Local().tabulate(kind(table, tmp_path), request_of(40, "2026-W10"))
    assert sorted(found.parts[0].tolist()) == list(range(3, 10))


def test_records_outside_the_period_are_never_refused(any_engine):
    """A null key, an unknown leaf, a bad number or a missing id is no error there: an error would tell of a record."""
    inside = {"leaf": ["0"], "day": ["2026-03-04"], "who": ["a"], "n": [1.0]}
    outside = {"leaf": [None, "elsewhere", "0", "0"], "day": ["2026-03-05"] * 4, "who": ["b", "b", None, "b"],
               "n": [1.0, 1.0, 1.0, -2.5]}  # fmt: skip
    both = pa.table({name: inside[name] + outside[name] for name in inside})
    bound = ContributionBound("who", 1, bytes(32), people_up_to=2)
    asked = request_of(1, "2026-03-04", count="n", bound=bound)
    alone = any_engine.tabulate(pa.table(inside), asked)
    found = any_engine.tabulate(both, asked)
    assert (found.counts.tolist(), found.people.tolist()) == (alone.counts.tolist(), alone.people.tolist())
    assert any_engine.tabulate(pa.table(outside), asked).counts.tolist() == []
    with pytest.raises(ValueError, match="column 'leaf' has null keys"):
        any_engine.tabulate(both, request_of(1, "2026-03-05"))
    # Those that cannot be placed are left out, the null key as the unknown one.
    dropped = any_engine.tabulate(both, request_of(1, "2026-03-05", on_unknown="drop"))
    assert dropped.counts.tolist() == [2]


def test_members_outside_the_period_are_in_no_group(any_engine):
    places = tt.Hierarchy.from_table(pa.table({"leaf": ["x"]}), ["leaf"])
    table = pa.table({"leaf": ["x"] * 4, "home": ["a", "a", "a", "b"], "day": [date(2026, 3, i) for i in (4, 4, 5, 5)]})
    asked = CountGroups(LeafKey(places, ("leaf",)), "home", period=InPeriod("day", Period.parse("2026-03-04")))
    found = any_engine.tabulate(table, asked)
    assert (found.sizes.tolist(), found.groups.tolist()) == ([2], [1])


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.float64(), pa.timestamp("us", "Europe/Rome"), pa.time64("us")], ids=str
)
def test_a_column_that_has_no_days_is_refused_by_its_type(kind):
    table = pa.table({"leaf": ["0"], "day": pa.array([None], kind)})
    with pytest.raises(TypeError, match=r"^records: column 'day' \(period_column\) holds .*; it must hold dates"):
        Local().check(table, request_of(1, "2026-03-04"))


@given(st.dates(date(1999, 12, 1), date(2001, 2, 1)), st.integers(0, 500))
def test_months_and_weeks_are_those_of_which_all_days_are_in_the_period(first, more):
    period = Period(first, first + timedelta(more))
    every = [period.first + timedelta(i) for i in range(-40, more + 40)]
    for found, names in (
        (_whole_months(period), {f"{day:%Y-%m}" for day in every}),
        (_weeks(period), {f"{day:%G-W%V}" for day in every}),
    ):
        inside = {name for name in names if lies_in(name, period)}
        assert inside == (set() if found is None else {name for name in names if found[0] <= name <= found[1]})
