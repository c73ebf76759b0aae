"""The tabulation in SQL: records are grouped where they are and never loaded into Python row by row.

One pass over the records groups them; every check, and the join with the hierarchy, then works on the grouped rows.
Columns have names of ours (see `renamed_columns`), so no name given by a user is part of a statement, and values are
always parameters. The statements are kept once, in DuckDB's dialect, for every engine (see `session` and `dialect`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tallytree.compute.arrays import IntArray
from tallytree.private.tabulate.contribution_bound import Cells, ContributionBound, count_people, keep_bounded
from tallytree.private.tabulate.key_types import hint_on_types
from tallytree.private.tabulate.leaf_statistics import MAX_TOTAL, LeafCounts, LeafGroups
from tallytree.private.tabulate.records import (
    LeafKey,
    Records,
    Wanted,
    enumerate_names,
    key_types,
    named,
)
from tallytree.private.tabulate.renamed_columns import id_columns
from tallytree.private.tabulate.session import Session


def count_records(
    db: Session, records: Records, keys: Sequence[LeafKey], drop_unknown: bool, bound: ContributionBound | None = None
) -> LeafCounts:
    """Records per combination of leaves; where a column of numbers follows the keys', its sum.

    With a bound, of every person only the records that count; those outside the hierarchy are left out before.
    """
    numbers = [column for column in records.wanted if column.use == "number"]
    amount = "exact_sum(v0)" if numbers else "count(*)"
    person = "" if bound is None else "g"
    _group(db, records, extra=person, amount=amount, groups_by=person)
    _match(db, records, keys, drop_unknown, kept=[person] if person else [])
    columns = [f"leaf{i}" for i in range(len(keys))]
    people, amounts = None, "matched"
    if bound is not None:
        cells = Cells.of_records(columns)
        people = count_people(db, bound, cells)
        keep_bounded(db, bound, cells)
        amounts = "counting"
    _refuse_large_total(db, records, numbers, amounts)
    *parts, counts = _result(db, columns, amounts)
    return LeafCounts(tuple(parts), counts, people)


def group_rows(
    db: Session, records: Records, key: LeafKey, smallest: int, largest: int, drop_unknown: bool
) -> LeafGroups:
    """Groups per leaf and clamped size, from rows that state (leaf, size, groups)."""
    clamped = "greatest(least(v0, $largest), $smallest) AS size"
    _group(db, records, extra=clamped, amount="exact_sum(v1)", groups_by="size", smallest=smallest, largest=largest)
    _match(db, records, [key], drop_unknown, kept=("size",))
    _refuse_large_total(db, records, records.wanted[-1:], "matched")
    return LeafGroups(*_result(db, ["leaf0", "size"], "matched"))


def group_sizes(
    db: Session,
    records: Records,
    key: LeafKey,
    max_quantity: int,
    smallest: int,
    largest: int,
    drop_unknown: bool,
    bound: ContributionBound | None = None,
) -> LeafGroups:
    """Groups per leaf and clamped size, from one row per member, each counting 1 or its quantity, cut to the most.

    With a bound, of every person only the memberships that count. A group of which none counts has size 0.
    """
    people, amounts = None, "matched"
    if bound is not None:
        amounts = "amounts"
        people = _group_bounded(db, records, key, max_quantity, drop_unknown, bound)
    else:
        if any(column.use == "number" for column in records.wanted):
            _group(db, records, extra="g", amount="exact_sum(least(v0, $most))", groups_by="g", most=max_quantity)
        else:
            _group(db, records, extra="g", amount="count(*)", groups_by="g")
        _match(db, records, [key], drop_unknown, kept=("g",))
    leaves, sizes, groups, spans = db.arrays(
        f"""
        WITH entire_group AS (
            SELECT min(leaf0) AS leaf, max(leaf0) AS other, exact_sum(amount) AS members
            FROM {amounts} WHERE leaf0 IS NOT NULL GROUP BY g
        )
        SELECT leaf, CAST(greatest(least(members, $largest), $smallest) AS BIGINT) AS size, count(*) AS groups,
            bool_or(leaf <> other) AS spans
        FROM entire_group GROUP BY leaf, size ORDER BY leaf, size
        """,
        smallest=smallest,
        largest=largest,
    )
    if spans.any():
        raise ValueError(
            f"{records.argument}: a group (column {_group_column(records)!r}) has records in more than one leaf; give "
            "every group one leaf, for instance by an id that is made of the leaf and the group"
        )
    return LeafGroups(leaves, sizes, groups, people)


def _group_bounded(
    db: Session, records: Records, key: LeafKey, max_quantity: int, drop_unknown: bool, bound: ContributionBound
) -> IntArray | None:
    """`amounts` has every group of every leaf, with the amounts of the memberships that count; 0 where none does.

    Every group keeps a row in each of its leaves: whether one has several does not depend on which memberships count.

    Returns:
        How many people have how many memberships, where that is asked for.
    """
    has_quantity = any(column.use == "number" for column in records.wanted)
    most = {"most": max_quantity} if has_quantity else {}
    quantity = "least(v0, $most) AS q" if has_quantity else "1 AS q"
    _group(db, records, extra=f"g, p, {quantity}", amount="count(*)", groups_by="g, p, q", **most)
    _match(db, records, [key], drop_unknown, kept=("g", "p", "q"))
    db.make("every_group", "SELECT DISTINCT leaf0, g FROM matched WHERE leaf0 IS NOT NULL")
    cells = Cells.of_memberships()
    people = count_people(db, bound, cells)
    keep_bounded(db, bound, cells)
    db.make(
        "amounts",
        "SELECT leaf0, g, amount * q AS amount FROM counting UNION ALL SELECT leaf0, g, 0 FROM every_group",
    )
    return people


def _group_column(records: Records) -> str:
    return next(column.name for column in records.wanted if column.use == "group")


def _path_length(records: Records) -> int:
    return sum(len(columns) for columns in records.keys)


def _group(db: Session, records: Records, *, extra: str, amount: str, groups_by: str, **parameters: int) -> None:
    """The one pass over the records: `grouped` has each distinct path (and `groups_by`), its amount and its faults."""
    numbers = [column for column in records.wanted if column.use == "number"]
    path = [f"k{i}" for i in range(_path_length(records))]
    faults = [f"bool_or(v{i} IS NULL) AS fault{i}" for i in range(len(numbers))]
    columns, distinct = [*path, extra, f"{amount} AS amount", *faults], [*path, groups_by]
    source, places = db.source(records)
    db.make(
        "grouped",
        f"SELECT {_listed(columns)} FROM ({source}) AS source GROUP BY {_listed(distinct)}",
        **places,
        **parameters,
    )
    nameless = [f"{name} IS NULL" for name in [*path, *id_columns(records)]]
    tests = [f"coalesce(bool_or({test}), false)" for test in [*nameless, *(f"fault{i}" for i in range(len(numbers)))]]
    found = db.run(f"SELECT {_listed(tests)} FROM grouped")[0]
    for column, at_fault in zip(records.wanted, found, strict=True):
        if at_fault:
            raise ValueError(f"{records.argument}: column {column.name!r} {named(column)}{_FAULTS[column.use]}")


_FAULTS = {
    "key": "has null keys (or empty cells); drop or fill those rows",
    "group": "has null ids (or empty cells); drop or fill those rows",
    "person": "has null ids (or empty cells), so whose records these are is not known; drop or fill those rows",
    "number": (
        "must hold integers from 0 to 2^62 (floats: below 2^53), but some are negative, fractional, missing, too "
        "large or not numbers; correct or drop those rows"
    ),
}


def _match(db: Session, records: Records, keys: Sequence[LeafKey], drop_unknown: bool, kept: Sequence[str]) -> None:
    """`matched` has the leaf numbers of the rows of `grouped`, NULL outside the hierarchy, and what else is kept."""
    joins, leaves, first = [], [], 0
    for i, (key, columns) in enumerate(zip(keys, records.keys, strict=True)):
        labels = dict(enumerate_names(key.leaf_columns(columns)))
        db.register(f"leaves{i}", pa.table({**labels, "leaf": np.arange(key.hierarchy.n_leaves)}))
        path = range(first, first + len(columns))
        joins.append(f"LEFT JOIN leaves{i} ON {_same_path(i, path)}")
        leaves.append(f"leaves{i}.leaf AS leaf{i}")
        first = path.stop
    db.make("matched", f"SELECT {_listed([*leaves, *kept, 'amount'])} FROM grouped {' '.join(joins)}")
    if not drop_unknown:
        _refuse_unknown(db, records, keys)
    db.drop("grouped")


def _same_path(i: int, path: range) -> str:
    return " AND ".join(f"CAST(k{k} AS VARCHAR) = leaves{i}.c{c}" for c, k in enumerate(path))


def _refuse_unknown(db: Session, records: Records, keys: Sequence[LeafKey]) -> None:
    tests = [f"coalesce(bool_or(leaf{i} IS NULL), false)" for i in range(len(records.keys))]
    found = db.run(f"SELECT {_listed(tests)} FROM matched")[0]
    first = 0
    for i, (columns, unknown) in enumerate(zip(records.keys, found, strict=True)):
        path = range(first, first + len(columns))
        first = path.stop
        if unknown:
            # The first in order, so that the message does not depend on threads. The path is all it may say.
            texts = _listed([f"CAST(k{k} AS VARCHAR) AS label{k}" for k in path])
            outside = f"grouped ANTI JOIN leaves{i} ON {_same_path(i, path)}"
            labels = db.run(f"SELECT {texts} FROM {outside} ORDER BY {_listed([f'label{k}' for k in path])} LIMIT 1")[0]
            place = ", ".join(f"{column}={label!r}" for column, label in zip(columns, labels, strict=True))
            raise ValueError(
                f"{records.argument}: a record is outside the hierarchy, at {place}; add that leaf to the hierarchy's "
                "table, correct the record, or (private records only) leave such records out with on_unknown='drop'"
                f"{_hint_on_types(records, keys, i)}"
            )


def _hint_on_types(records: Records, keys: Sequence[LeafKey], i: int) -> str:
    """What of the types of the ith key's columns may put a record outside; the first such thing among the files."""
    found = (list(key_types(keys, records.keys, layout))[i] for layout in records.layouts)
    return next((hint for key, columns, types in found if (hint := hint_on_types(columns, types, key.hierarchy))), "")


def _known(n_keys: int) -> str:
    return " AND ".join(f"leaf{i} IS NOT NULL" for i in range(n_keys))


def _refuse_large_total(db: Session, records: Records, numbers: Sequence[Wanted], amounts: str) -> None:
    (too_large,) = db.run(
        f"SELECT coalesce(exact_sum(amount), 0) > {MAX_TOTAL} FROM {amounts} WHERE {_known(len(records.keys))}"
    )[0]
    if too_large:
        column = "".join(f"column {column.name!r} {named(column)}" for column in numbers)
        raise ValueError(f"{records.argument}: {column}adds up to more than 2^62; use a coarser unit")


def _result(db: Session, columns: Sequence[str], amounts: str) -> list[IntArray]:
    """The rows of `amounts` inside the hierarchy that have an amount, in order."""
    known = _known(sum(column.startswith("leaf") for column in columns))
    return db.arrays(
        f"SELECT {_listed(columns)}, CAST(amount AS BIGINT) AS amount FROM {amounts} "
        f"WHERE {known} AND amount > 0 ORDER BY {_listed(columns)}"
    )


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(column for column in columns if column)
