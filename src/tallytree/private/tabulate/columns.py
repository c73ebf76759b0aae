"""How statements read the columns of records: under our names, within the period, and joined with the leaves.

**Names.** They are k0, k1, … for the columns of paths; g for the group or household, or the person where there is
neither; p for the person beside one; v0, v1 for the numbers. So no name given by a user is part of a statement.

**The period.** Records outside the period of a release are left out, in the engine, before anything else is known of
them. A record is kept or left out by its own value alone, whatever the other records are. So neighboring data sets stay
neighboring: a record that is added or removed adds or removes at most one that is kept, and one that is replaced is
replaced, added or removed. (The number of records that are kept is then private: `Terms.total_is_public`.) To refuse
such records would tell that there is one; their number is not counted.

A text that names no day in a form that is read says neither that its record is inside nor that it is outside. So the
run is refused, as for an unknown code and before the payment: whether a run is refused depends on the records, and the
guarantee does not cover it. The message says of which column, and neither how many nor what. With `on_unknown="drop"`
nothing is refused: such a record is left out, by its own value alone again.

**Leaves.** The leaves of a hierarchy as a table that records are joined with: a column per column of the path, and
`leaf`. A label is text. Where the records hold integers, the labels that are how an integer is written are compared as
integers: no integer is turned into text, and an integer never meets another label.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.accounting.periods import Period
from tallytree.private.tabulate.leaf_statistics import MAX_TOTAL
from tallytree.private.tabulate.records import CANONICAL, Records, enumerate_names, is_narrow_decimal
from tallytree.private.tabulate.session import Session
from tallytree.sources.column_types import is_text_type
from tallytree.sources.leaf_paths import ended
from tallytree.trees.leaf_keys import LeafKey

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


_EXACT_FLOATS = 2**53
"""Below this every integer has an exact float."""


def renamed_columns(records: Records, values: Sequence[str], types: Sequence[pa.DataType]) -> str:
    """Column by column: `c5 AS k0`, numbers validated.

    Args:
        records: the records, whose wanted columns these are.
        values: per wanted column, the expression that reads it, such as `c5`.
        types: per wanted column, its type.
    """
    columns, path, numbers = [], 0, 0
    for column, value, found, is_mixed in zip(records.wanted, values, types, _mixed(records), strict=True):
        if column.days is not None:  # it decides which rows there are
            inside = in_period(value, found, column.days)
            if column.unreadable == "refused":
                columns.append(f"({inside}) IS NULL AS undated")
            elif column.unreadable == "shown":
                columns.append(f"CASE WHEN {value} IS NULL THEN FALSE ELSE {inside} END AS inside")
                columns.append(f"nullif(CAST({value} AS VARCHAR), '') AS day")
            continue
        kind = found.value_type if pa.types.is_dictionary(found) else found
        if is_mixed and column.use in ("key", "group", "household", "person"):
            # Else engines choose what both are united as: Spark makes numbers of texts, so that 7 and 007 are one.
            value, kind = f"CAST({value} AS VARCHAR)", pa.string()
        if column.use == "key":
            columns.append(f"{value} AS k{path}")
            path += 1
        elif column.use in ("group", "household"):
            # An empty text is no id, in no format: a CSV file cannot tell it from a null.
            columns.append(f"{_text_id(value) if is_text_type(kind) else value} AS g")
        elif column.use == "person":
            name = id_columns(records)[-1]
            # Integers stay: they are quicker to group. An empty text is no id, in no format: all who have none would be
            # one person.
            columns.append(f"{value if pa.types.is_integer(kind) else _text_id(value)} AS {name}")
        elif column.use == "number":
            columns.append(f"{_integer(value, kind)} AS v{numbers}")
            numbers += 1
    if rest := [value for column, value in zip(records.wanted, values, strict=True) if column.use == "rest"]:
        columns.append(f"hash({', '.join(rest)}) AS whole")
    return ", ".join(columns)


def _mixed(records: Records) -> list[bool]:
    """Of each wanted column, whether some files have it as text, and others do not."""
    of_columns = zip(*(layout.types for layout in records.layouts), strict=True)
    texts = [
        [is_text_type(each.value_type if pa.types.is_dictionary(each) else each) for each in types]
        for types in of_columns
    ]
    return [any(each) and not all(each) for each in texts]


def id_columns(records: Records) -> list[str]:
    """Our names of the columns with ids, in their order: the group is `g`, and the person where there is no group."""
    uses = [column.use for column in records.wanted if column.use in ("group", "household", "person")]
    return ["g", "p"][: len(uses)]


def _text_id(value: str) -> str:
    return f"nullif(CAST({value} AS VARCHAR), '')"


def _integer(value: str, kind: pa.DataType) -> str:
    """The number as BIGINT, and NULL for everything that is not an integer from 0 to 2^62.

    Casts round ('3.5' becomes 4), so a value is cast only after the test that it is an integer.
    """
    if pa.types.is_floating(kind):
        test = f"{value} >= 0 AND {value} < {_EXACT_FLOATS} AND {value} = floor({value})"
    elif is_text_type(kind) or is_narrow_decimal(kind):
        # Decimals are written out exactly, digit by digit.
        test = f"full_match(CAST({value} AS VARCHAR), '[+]?[0-9]+([.]0*)?')"
        value = f"split_part(CAST({value} AS VARCHAR), '.', 1)"
    else:
        test = f"{value} >= 0"
    number = f"TRY_CAST({value} AS BIGINT)"
    return f"CASE WHEN {test} AND {number} <= {MAX_TOTAL} THEN {number} END"


_ALL_FIT = 18
"""Characters of an integer that certainly fits into 64 bits."""


@dataclass(frozen=True)
class JoinedLeaves:
    """How records are joined with the leaves of a hierarchy.

    Attributes:
        key: the columns that say where a record belongs.
        present: those of these columns that the records have.
        path: the places of these among the columns of all paths.
        join: the joins with tables of the session.
        leaf: the expression for the number of the leaf; NULL outside the hierarchy.
        may_be_null: for each column in `present`, whether it is null in some records that have a leaf.
        unknown_from: from which of these columns on a null is an unknown label, and no fault of its own.
    """

    key: LeafKey
    present: Sequence[str]
    path: range
    join: str
    leaf: str
    may_be_null: Sequence[bool]
    unknown_from: int


def joined_leaves(db: Session, records: Records, keys: Sequence[LeafKey]) -> Iterator[JoinedLeaves]:
    """Make the leaves of each hierarchy a table of the session, and say how records are joined with it.

    A record whose label is unknown, and whose labels above it are known, counts in a leaf of its parent, where the key
    says so (`tallytree.trees.unknown_leaves`). Which leaf that is follows from the record's own labels and the public
    tree alone, so neighboring data sets stay neighboring. A label that the level has below another parent is not
    unknown: such a record is outside the hierarchy.

    Args:
        db: where statements run; the ith table is `leaves{i}`.
        records: their columns.
        keys: the columns that say where a record belongs.
    """
    first = 0
    for i, (key, present) in enumerate(zip(keys, records.keys, strict=True)):
        path = range(first, first + len(present))
        types = [[layout.types[k] for layout in records.layouts] for k in path]
        table, are_integers = leaf_table(key, present, types)
        db.register(f"leaves{i}", table)
        nullable, unknown = key.may_be_null(present), key.unknown_from(present)
        joins = [f"LEFT JOIN leaves{i} ON {same_path(f'leaves{i}', path, are_integers, nullable)}"]
        found = [f"leaves{i}.leaf"]
        for place in range(unknown, len(present)):
            above, leaves, labels = key.parents(present, place)
            name, parent = f"names{i}_{place}", f"parents{i}_{place}"
            db.register(name, pa.table({"label": labels}))
            joins.append(f"LEFT JOIN {name} ON CAST(k{path[place]} AS VARCHAR) = {name}.label")
            leaf = str(int(leaves[0]))  # of the root
            if place:
                db.register(parent, above.append_column("leaf", pa.array(leaves)))
                as_text = [False] * place
                joins.append(f"LEFT JOIN {parent} ON {same_path(parent, path[:place], as_text, as_text)}")
                leaf = f"{parent}.leaf"
            found.append(f"CASE WHEN {name}.label IS NULL THEN {leaf} END")
        leaf = found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"
        nulls = [null or place >= unknown for place, null in enumerate(nullable)]
        yield JoinedLeaves(key, present, path, " ".join(joins), leaf, nulls, unknown)
        first = path.stop


def leaf_table(
    key: LeafKey, present: Sequence[str], types: Sequence[Sequence[pa.DataType]]
) -> tuple[pa.Table, list[bool]]:
    """The leaves with the columns c0, c1, … and `leaf`, their numbers; row i is leaf i.

    A leaf whose branch ends above it has a second row, after all others: with nulls, as records of it may have them.

    Args:
        key: the tree, and the columns in which records say which leaf they belong to.
        present: those of these columns that the records have.
        types: for each of these, its types in the records' files.

    Returns:
        The table, and for each column of the path whether its labels are integers (NULL where no integer is written
        so).
    """
    labels, nullable = key.leaf_columns(present), key.may_be_null(present)
    are_integers = [  # a label that is no integer would be null, as are labels below the end of a branch
        not null and _compared_as_integers(kinds, column)
        for kinds, column, null in zip(types, labels, nullable, strict=True)
    ]
    columns = [_integers(column) if is_ else column for is_, column in zip(are_integers, labels, strict=True)]
    n = key.hierarchy.n_leaves
    kind = np.int32 if n < 2**31 else np.int64  # narrow rows are grouped and sorted faster
    leaves, paths = np.arange(n, dtype=kind), pa.table(dict(enumerate_names(columns)))
    if any(nullable):
        reach = key.reach(present)
        short = np.flatnonzero(reach < len(labels))
        paths = pa.concat_tables([paths, ended(paths, reach).take(short)])
        leaves = np.append(leaves, leaves[short])
    return paths.append_column("leaf", pa.array(leaves)), are_integers


def same_path(table: str, path: Sequence[int], are_integers: Sequence[bool], may_be_null: Sequence[bool]) -> str:
    """The condition under which the columns of a path are those of a row of a table of leaves, or of parents."""
    return " AND ".join(
        f"{f'k{k}' if is_integer else f'CAST(k{k} AS VARCHAR)'} {'IS NOT DISTINCT FROM' if null else '='} {table}.c{c}"
        for c, (k, is_integer, null) in enumerate(zip(path, are_integers, may_be_null, strict=True))
    )


def _compared_as_integers(kinds: Sequence[pa.DataType], labels: pa.ChunkedArray) -> bool:
    values = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in kinds]
    fits = all(pa.types.is_integer(kind) and kind != pa.uint64() for kind in values)
    # Of labels that are longer, some integers of 64 bits would be lost.
    return fits and bool(pc.all(pc.less_equal(pc.utf8_length(labels), _ALL_FIT)).as_py())


def _integers(labels: pa.ChunkedArray) -> pa.ChunkedArray:
    canonical = pc.match_substring_regex(labels, CANONICAL)
    return pc.if_else(canonical, labels, pa.scalar(None, labels.type)).cast(pa.int64())
