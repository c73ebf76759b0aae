"""Defects of private records: how many rows have each, by column, and with which values most often.

All of it is private, exact, and for the owner of the data alone. Nothing here goes into a message, a log or a release.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tallytree.private.tabulate.columns import id_columns, joined_leaves
from tallytree.private.tabulate.records import Records
from tallytree.private.tabulate.session import Session
from tallytree.trees.impossible import Impossible
from tallytree.trees.leaf_keys import LeafKey

SHOWN = 10
"""Values that are listed of a defect, the most frequent first."""

NULL, EMPTY, NO_ID = "null (of CSV an empty cell)", "empty text", "null or empty"
UNKNOWN, APART = "unknown code", "labels that do not belong together"
PADDED, CASE, ZEROS, POINT = "padded with spaces", "other letter case", "other leading zeros", "written as a decimal"
FORM = "looks the same, in another Unicode form (NFC, NFD)"
SEVERAL = "several of spaces, letter case, leading zeros, decimals"
IMPOSSIBLE = "a combination that is listed as impossible"
NOT_A_NUMBER = "not an integer from 0 to 2^62, or empty"
UNREADABLE = "no date in a form that is read (2026-03-04, 2026-03, 2026-W10)"
SPELLED = "an id that is also written in another way (spaces, letter case, leading zeros, decimals)"
REPEATED, SCATTERED = "more rows of a person than max_contributions ({:,})", "a group in several leaves"

_IDS = ("group", "household", "person")
_SPACES = "' ' || chr(9) || chr(10) || chr(13) || chr(160)"
_BARE = "ltrim(regexp_replace(lower(trim({}, " + _SPACES + ")), '[.]0+$', ''), '0')"
"""A text without what is often written in different ways."""


@dataclass(frozen=True)
class Defect:
    """A defect of a column.

    Attributes:
        column: as the records name it; of several, with commas.
        what: the defect.
        rows: how many rows have it.
        values: the most frequent values that have it, with their rows.
    """

    column: str
    what: str
    rows: int
    values: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, repr=False)
class Defects:
    """What is wrong with private records; private itself.

    Attributes:
        rows: how many rows there are.
        outside: how many of them are outside the hierarchies, or impossible.
        notes: how many rows are outside the period, and how many repeat, in sentences.
        found: the defects, column by column.
    """

    rows: int
    outside: int
    notes: tuple[str, ...]
    found: tuple[Defect, ...]


def find_defects(
    db: Session,
    records: Records,
    keys: Sequence[LeafKey],
    *,
    impossible: Sequence[Impossible] = (),
    most: int | None = None,
    in_one_leaf: bool = False,
) -> Defects:
    """Look for defects of records; the session is DuckDB's.

    Args:
        db: where statements run.
        records: their columns.
        keys: the columns that say where a record belongs.
        impossible: combinations of leaves that no record can have.
        most: the most rows of a person; None where nobody is named.
        in_one_leaf: whether all rows of a group belong in one leaf.
    """
    source, parameters = db.source(records)
    columns: list[tuple[str, pa.ChunkedArray, bool]] = []
    joins, paths = [], []
    placed = []
    for i, joined in enumerate(joined_leaves(db, records, keys)):
        joins.append(joined.join)
        paths.append(joined.path)
        placed.append(f"{joined.leaf} AS leaf{i}")
        labels = zip(joined.present, joined.key.leaf_columns(joined.present), joined.may_be_null, strict=True)
        columns += [(name, of_column, null) for name, of_column, null in labels]
    leaves = [f"leaf{i}" for i in range(len(keys))]
    db.make("every_row", source, **parameters)
    when = next((column for column in records.wanted if column.use == "period"), None)
    found, notes = ([], []) if when is None else _of_days(db, when.name)
    db.make(
        "placed",
        f"SELECT source.*, {', '.join(placed)} "
        f"FROM every_row AS source {' '.join(joins)} WHERE {'TRUE' if when is None else 'inside'}",
    )
    db.drop("every_row")
    outside = [f"{leaf} IS NULL" for leaf in leaves]
    for k, (name, of_column, may_be_null) in enumerate(columns):
        found += _of_codes(db, k, name, of_column, may_be_null=may_be_null)
    for leaf, present, path in zip(leaves, records.keys, paths, strict=True):
        found += _of_paths(db, path, present, leaf, [columns[k][2] for k in path])
    for i, each in enumerate(impossible):
        db.register(f"impossible{i}", each.leaves)
        same = " AND ".join(f"impossible{i}.leaf{side} = placed.leaf{side}" for side in each.sides)
        combined = f"EXISTS (SELECT 1 FROM impossible{i} WHERE {same})"
        outside.append(combined)
        found += _counted(db, ", ".join(records.keys[side][-1] for side in each.sides), IMPOSSIBLE, combined)
    found += _of_ids(db, records, most=most, in_one_leaf=in_one_leaf)
    numbers = [column.name for column in records.wanted if column.use == "number"]
    for i, name in enumerate(numbers):
        found += _counted(db, name, NOT_A_NUMBER, f"v{i} IS NULL")
    ((rows, away),) = db.run(f"SELECT count(*), count(*) FILTER (WHERE {' OR '.join(outside)}) FROM placed")
    return Defects(int(rows), int(away), (*notes, *_repeated(db, records)), tuple(found))


def _of_days(db: Session, column: str) -> tuple[list[Defect], list[str]]:
    """The days that cannot be read; and how many rows are outside the period, or have no day, in a sentence."""
    ((dated, undated),) = db.run("SELECT count(day), count(*) - count(day) FROM every_row WHERE NOT inside")
    ((kept,),) = db.run("SELECT count(*) FROM every_row WHERE inside")
    said = f"{dated:,} rows are outside the period, and {undated:,} have no date: they are left out, not looked at."
    if kept < dated + undated:
        said += " These are most of the rows: is this the file of another day, or the wrong column?"
    return [*_counted(db, column, UNREADABLE, "inside IS NULL", "day", "every_row")], [said]


def _repeated(db: Session, records: Records) -> Iterator[str]:
    """How many rows repeat another one, as those of a file that is there twice do."""
    ((rows,),) = db.run("SELECT count(*) - count(DISTINCT whole) FROM placed")
    yield f"{rows:,} rows repeat another one in all columns (but nested ones)."
    for column, ours in zip((each for each in records.wanted if each.use in _IDS), id_columns(records), strict=True):
        if column.use == "person":
            ((rows,),) = db.run(f"SELECT count({ours}) - count(DISTINCT {ours}) FROM placed")
            yield f"{rows:,} rows repeat the id of another one ({column.name})."


def _of_codes(db: Session, k: int, name: str, labels: pa.ChunkedArray, *, may_be_null: bool) -> Iterator[Defect]:
    """The labels of a column of a path that are none of its level, by what distinguishes them from one."""
    known_labels = labels.cast(pa.large_string()).unique()
    db.register(f"known{k}", pa.table({"label": known_labels}))
    forms = [pc.utf8_normalize(known_labels, form) for form in ("NFC", "NFD")]
    db.register(f"forms{k}", pa.table({"label": pa.chunked_array(forms).unique()}))
    bare = _BARE.format("label")

    def known(text: str, of_known: str = "label") -> str:
        return f"{text} IN (SELECT {of_known} FROM known{k})"

    null = "NULL" if may_be_null else f"'{NULL}'"
    kinds = f"""CASE WHEN label IS NULL THEN {null} WHEN label = '' AND NOT {known("label")} THEN '{EMPTY}'
        WHEN {known("label")} THEN NULL
        WHEN label IN (SELECT label FROM forms{k}) THEN '{FORM}'
        WHEN {known(f"trim(label, {_SPACES})")} THEN '{PADDED}'
        WHEN {known("lower(label)", "lower(label)")} THEN '{CASE}'
        WHEN {known("ltrim(label, '0')", "ltrim(label, '0')")} THEN '{ZEROS}'
        WHEN {known("regexp_replace(label, '[.]0+$', '')")} THEN '{POINT}'
        WHEN {known(bare, bare)} THEN '{SEVERAL}'
        ELSE '{UNKNOWN}' END"""
    db.make(
        f"codes{k}",
        f"SELECT *, {kinds} AS what FROM "
        f"(SELECT CAST(k{k} AS VARCHAR) AS label, count(*) AS n FROM placed GROUP BY label) AS grouped",
    )
    each = f"SELECT what, sum(n) AS n FROM codes{k} WHERE what IS NOT NULL GROUP BY what"
    for what, rows in db.run(f"{each} ORDER BY n DESC, what"):
        values = db.run(
            f"SELECT label, n FROM codes{k} WHERE what = $what AND label <> '' ORDER BY n DESC, label LIMIT {SHOWN}",
            what=what,
        )
        yield _defect(name, what, rows, values)


def _of_paths(
    db: Session, path: range, names: Sequence[str], leaf: str, may_be_null: Sequence[bool]
) -> Iterator[Defect]:
    """Paths outside the hierarchy of which every label is one of its level, or null where another path has null."""
    if len(path) < 2:
        return
    labels = [f"CAST(k{k} AS VARCHAR)" for k in path]
    known = [
        f"({label} IN (SELECT label FROM known{k})" + (f" OR {label} IS NULL)" if null else ")")
        for label, k, null in zip(labels, path, may_be_null, strict=True)
    ]
    apart = " AND ".join([f"{leaf} IS NULL", *known])
    yield from _counted(db, ", ".join(names), APART, apart, f"concat_ws(' > ', {', '.join(labels)})")


def _of_ids(db: Session, records: Records, *, most: int | None, in_one_leaf: bool) -> Iterator[Defect]:
    """Ids that are missing or written in several ways, people with too many rows, groups in several leaves."""
    wanted = [column for column in records.wanted if column.use in _IDS]
    for column, ours in zip(wanted, id_columns(records), strict=True):
        text = f"CAST({ours} AS VARCHAR)"
        if column.use != "household":  # of a person who lives in none it is null
            yield from _counted(db, column.name, NO_ID, f"{ours} IS NULL")
        bare = _BARE.format(text)
        again = f"SELECT {bare} FROM placed WHERE {ours} IS NOT NULL GROUP BY {bare} HAVING count(DISTINCT {text}) > 1"
        yield from _counted(db, column.name, SPELLED, f"{bare} IN ({again})", text)
        if column.use == "person" and most is not None:
            many = f"SELECT {text} FROM placed WHERE {ours} IS NOT NULL GROUP BY {text} HAVING count(*) > {most}"
            yield from _counted(db, column.name, REPEATED.format(most), f"{text} IN ({many})", text)
        if column.use != "person" and in_one_leaf:
            several = f"SELECT {ours} FROM placed GROUP BY {ours} HAVING min(leaf0) <> max(leaf0)"
            yield from _counted(db, column.name, SCATTERED, f"{ours} IN ({several})", text)


def _counted(
    db: Session, column: str, what: str, condition: str, value: str = "", table: str = "placed"
) -> Iterator[Defect]:
    """The defect that rows have which meet a condition, with their most frequent values; nothing where none does."""
    ((rows,),) = db.run(f"SELECT count(*) FROM {table} WHERE {condition}")
    if rows:
        grouped = f"SELECT {value} AS label, count(*) AS n FROM {table} WHERE {condition} GROUP BY label"
        values = db.run(f"{grouped} ORDER BY n DESC, label LIMIT {SHOWN}") if value else []
        yield _defect(column, what, rows, values)


def _defect(column: str, what: str, rows: Any, values: Sequence[tuple[Any, ...]]) -> Defect:
    return Defect(column, what, int(rows), tuple((str(label), int(n)) for label, n in values))
