"""Records outside the period of a release are left out, in the engine, before anything else is known of them.

A record is kept or left out by its own value alone, whatever the other records are. So neighboring data sets stay
neighboring: a record that is added or removed adds or removes at most one that is kept, and one that is replaced is
replaced, added or removed. (The number of records that are kept is then private: `Terms.total_is_public`.) To refuse
such records would tell that there is one; their number is not counted.

A text that names no day in a form that is read says neither that its record is inside nor that it is outside. So the
run is refused, as for an unknown code and before the payment: whether a run is refused depends on the records, and the
guarantee does not cover it. The message says of which column, and neither how many nor what. With `on_unknown="drop"`
nothing is refused: such a record is left out, by its own value alone again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

import pyarrow as pa

from tallytree.accounting.periods import Period
from tallytree.private.tabulate.records import Records
from tallytree.sources.text_columns import is_text_type

_DAY = timedelta(1)


def kept_rows(records: Records, values: Sequence[str], types: Sequence[pa.DataType]) -> str:
    """The end of a query that leaves out the records outside the period, in DuckDB's dialect; empty without one.

    Those whose day cannot be read stay where they are refused.

    Args:
        records: the records, whose wanted columns these are.
        values: per wanted column, the expression that reads it.
        types: per wanted column, its type.
    """
    tests = [
        f"coalesce({inside}, TRUE)" if column.unreadable == "refused" and _is_text(found) else inside
        for column, value, found in zip(records.wanted, values, types, strict=True)
        if column.days is not None and column.unreadable != "shown" and (inside := in_period(value, found, column.days))
    ]
    return f" WHERE {' AND '.join(tests)}" if tests else ""


def in_period(value: str, kind: pa.DataType, days: Period) -> str:
    """Whether the days that a value names all lie in the period, as SQL; NULL of a text that names no day.

    An empty text is as good as a null (in CSV they are the same) and is outside. So is the 53rd week of a year that has
    none and is not in the period.

    The period is public, and consists of digits and hyphens, so it may stand in a statement.
    """
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not _is_text(kind):
        day = (
            f"utc_day({value})" if pa.types.is_timestamp(kind) and kind.tz is not None else f"TRY_CAST({value} AS DATE)"
        )
        return _between(day, days)
    text = f"CAST({value} AS VARCHAR)"
    # The day of a text is its first ten characters, whatever time and time zone follow.
    is_day = f"full_match(substr({text}, 1, 11), '[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ]?')"
    cases = [f"WHEN {is_day} THEN {_between(f'TRY_CAST(substr({text}, 1, 10) AS DATE)', days)}"]
    if absent := _absent_weeks(days):
        cases.append(f"WHEN {text} IN ({', '.join(absent)}) THEN NULL")
    for pattern, within in (("(0[1-9]|1[0-2])", _whole_months(days)), ("W(0[1-9]|[1-4][0-9]|5[0-3])", _weeks(days))):
        inside = "FALSE" if within is None else f"{text} BETWEEN '{within[0]}' AND '{within[1]}'"
        cases.append(f"WHEN full_match({text}, '[0-9]{{4}}-{pattern}') THEN {inside}")
    return f"CASE WHEN coalesce({text}, '') = '' THEN FALSE {' '.join(cases)} END"


def _is_text(kind: pa.DataType) -> bool:
    """Whether days are read from text; of a column without any value too."""
    return is_text_type(kind.value_type if pa.types.is_dictionary(kind) else kind) or bool(pa.types.is_null(kind))


def _between(day: str, days: Period) -> str:
    return f"{day} BETWEEN DATE '{days.first.isoformat()}' AND DATE '{days.last.isoformat()}'"


def _whole_months(days: Period) -> tuple[str, str] | None:
    """The first and the last month of which all days are in the period, as text; None without one."""
    first = days.first if days.first.day == 1 else (days.first.replace(day=1) + 32 * _DAY).replace(day=1)
    after = days.last + _DAY
    last = (after if after.day == 1 else days.last.replace(day=1)) - _DAY
    return (first.isoformat()[:7], last.isoformat()[:7]) if first <= last else None


def _weeks(days: Period) -> tuple[str, str] | None:
    """The first and the last ISO week of which all days are in the period, as text; None without one."""
    first = days.first + (-days.first.weekday() % 7) * _DAY
    last = days.last - (days.last.isoweekday() % 7) * _DAY
    return (_week(first), _week(last)) if first <= last else None


def _absent_weeks(days: Period) -> list[str]:
    """The 53rd weeks of the years of the period that have 52, as SQL."""
    years = range(days.first.year, days.last.year + 1)
    return [f"'{year:04}-W53'" for year in years if date(year, 12, 28).isocalendar().week < 53]


def _week(day: date) -> str:
    year, week, _ = day.isocalendar()
    return f"{year:04}-W{week:02}"
