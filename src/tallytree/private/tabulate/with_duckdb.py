"""Tabulation in SQL, with DuckDB: records are grouped where they are and never loaded into Python row by row.

One pass over the records groups them into a temporary table; every check, and the join with the hierarchy, then works
on the grouped rows. Columns are addressed by position and renamed (k0, k1, … the paths; g the group, or the person
where there is no group; p the person beside a group; v0, v1 the numbers), so no name given by a user is part of a
statement, and values are always parameters.

What DuckDB says when it fails may quote a record, so its exceptions end here: see `Session.run`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import numpy as np
import pyarrow as pa

from tallytree.compute.arrays import IntArray
from tallytree.compute.spill_folders import spill_folder
from tallytree.private.core_dumps import core_dumps_disabled
from tallytree.private.tabulate.contribution_bound import Cells, ContributionBound, count_people, keep_bounded
from tallytree.private.tabulate.key_types import hint_on_types
from tallytree.private.tabulate.leaf_statistics import MAX_TOTAL, LeafCounts, LeafGroups
from tallytree.private.tabulate.records import (
    LeafKey,
    Records,
    Wanted,
    enumerate_names,
    is_narrow_decimal,
    key_types,
    named,
)
from tallytree.sources.text_columns import is_text_type
from tallytree.stages import observed, reading

_T = TypeVar("_T")

_EXACT_FLOATS = 2**53
"""Below this every integer has an exact float."""


class Session:
    """A DuckDB connection for one tabulation.

    Args:
        connection: its connection.
        argument: the name of the table of records in messages.
    """

    def __init__(self, connection: Any, argument: str) -> None:
        self._connection = connection
        self._argument = argument

    def register(self, name: str, table: Any) -> None:
        """Let SQL read an Arrow table or stream under a name of ours."""
        self._shield(lambda: self._connection.register(name, table))

    def run(self, sql: str, **parameters: Any) -> Any:
        """Run a statement and fetch the rows that it returns.

        Raises:
            MemoryError: memory or room for temporary files ran out.
            OSError: a file cannot be read.
            ValueError: anything else that the engine refuses.
        """
        return self._shield(lambda: self._connection.execute(sql, parameters).fetchall())

    def arrays(self, sql: str, **parameters: Any) -> list[Any]:
        """Run a query and fetch its columns as arrays."""
        return list(self._shield(lambda: self._connection.execute(sql, parameters).fetchnumpy()).values())

    def _shield(self, work: Callable[[], _T]) -> _T:
        try:
            return work()
        except Exception as error:  # noqa: BLE001 (user's streams raise whatever they like)
            refusal = _refusal(error, self._argument)
        # Raised out here, so that not even `__context__` holds the original, whose message may quote a record.
        raise refusal


def _refusal(error: Exception, argument: str) -> BaseException:
    if isinstance(error, duckdb.InterruptException) or (
        isinstance(error, RuntimeError) and str(error) == "Query interrupted"  # what DuckDB makes of Ctrl-C
    ):
        return KeyboardInterrupt()
    if isinstance(error, duckdb.OutOfMemoryException | MemoryError):
        return MemoryError(
            f"{argument}: memory ran out while the records were grouped; give tt.engines.Local a larger memory_limit, "
            "fewer threads, or a temp_directory with more room"
        )
    if isinstance(error, duckdb.IOException | OSError):
        return OSError(f"{argument}: a file cannot be read, or a temporary one not be written; is the disk full?")
    return ValueError(
        f"{argument}: the records cannot be read ({type(error).__name__}); what the reader said is withheld because it "
        "may quote a record. Is every file complete, its text UTF-8, and its CSV quoted as in RFC 4180, with as many "
        "cells in every row as in the header?"
    )


@contextmanager
def session(
    argument: str, *, memory_limit: str | None, threads: int | None, temp_directory: str | None
) -> Iterator[Session]:
    """A session whose spilled rows only this user can read, and which are removed at the end, also after an error.

    Spilled rows that dead runs left in the same place are removed first: see `tallytree.compute.spill_folders`.

    DuckDB could encrypt them, but only with an extension that has to be downloaded.

    Args:
        argument: the name of the table of records in messages.
        memory_limit: as DuckDB writes it, e.g. `"4GB"`; None: 80 % of the machine's.
        threads: None: one per core.
        temp_directory: where the folder for spilled rows is made; None: the system's place.
    """
    with spill_folder(temp_directory) as folder, core_dumps_disabled():
        settings: dict[str, Any] = {
            "temp_directory": str(folder),
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "allow_persistent_secrets": "false",
            "python_enable_replacements": "false",
            "preserve_insertion_order": "false",
        }
        if memory_limit is not None:
            settings["memory_limit"] = memory_limit
        if threads is not None:
            settings["threads"] = threads
        with closing(duckdb.connect(":memory:", config=settings)) as connection:
            connection.execute("SET enable_progress_bar = false")  # this one cannot be set while connecting
            if observed():  # DuckDB counts what it has read only where it believes that a bar is drawn
                connection.execute("SET enable_progress_bar = true")
                connection.execute("SET enable_progress_bar_print = false")
            connection.execute("SET lock_configuration = true")
            with reading(connection.query_progress):
                yield Session(connection, argument)


def count_records(
    db: Session, records: Records, keys: Sequence[LeafKey], drop_unknown: bool, bound: ContributionBound | None = None
) -> LeafCounts:
    """Records per combination of leaves; where a column of numbers follows the keys', its sum.

    With a bound, of every person only the records that count; those outside the hierarchy are left out before.
    """
    numbers = [column for column in records.wanted if column.use == "number"]
    amount = "sum(v0)" if numbers else "count(*)"
    person = "" if bound is None else "g"
    _group(db, records, extra=person, amount=amount, groups_by=person)
    _match(db, records, keys, drop_unknown, kept=[person] if person else [])
    columns = [f"leaf{i}" for i in range(len(keys))]
    people = None
    if bound is not None:
        cells = Cells.of_records(columns)
        people = count_people(db, bound, cells)
        keep_bounded(db, bound, cells)
    _refuse_large_total(db, records, numbers)
    *parts, counts = _result(db, columns)
    return LeafCounts(tuple(parts), counts, people)


def group_rows(
    db: Session, records: Records, key: LeafKey, smallest: int, largest: int, drop_unknown: bool
) -> LeafGroups:
    """Groups per leaf and clamped size, from rows that state (leaf, size, groups)."""
    clamped = "greatest(least(v0, $largest), $smallest) AS size"
    _group(db, records, extra=clamped, amount="sum(v1)", groups_by="size", smallest=smallest, largest=largest)
    _match(db, records, [key], drop_unknown, kept=("size",))
    _refuse_large_total(db, records, records.wanted[-1:])
    return LeafGroups(*_result(db, ["leaf0", "size"]))


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
    people = None
    if bound is not None:
        people = _group_bounded(db, records, key, max_quantity, drop_unknown, bound)
    else:
        if any(column.use == "number" for column in records.wanted):
            _group(db, records, extra="g", amount="sum(least(v0, $most))", groups_by="g", most=max_quantity)
        else:
            _group(db, records, extra="g", amount="count(*)", groups_by="g")
        _match(db, records, [key], drop_unknown, kept=("g",))
    leaves, sizes, groups, spans = db.arrays(
        """
        WITH entire_group AS (
            SELECT min(leaf0) AS leaf, max(leaf0) AS other, sum(amount) AS members
            FROM matched WHERE leaf0 IS NOT NULL GROUP BY g
        )
        SELECT leaf, CAST(greatest(least(members, $largest), $smallest) AS BIGINT) AS size, count(*),
            bool_or(leaf <> other)
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
    """`matched` has every group of every leaf, with the amounts of the memberships that count; 0 where none does.

    Every group keeps a row in each of its leaves: whether one has several does not depend on which memberships count.

    Returns:
        How many people have how many memberships, where that is asked for.
    """
    has_quantity = any(column.use == "number" for column in records.wanted)
    most = {"most": max_quantity} if has_quantity else {}
    quantity = "least(v0, $most) AS q" if has_quantity else "1 AS q"
    _group(db, records, extra=f"g, p, {quantity}", amount="count(*)", groups_by="g, p, q", **most)
    _match(db, records, [key], drop_unknown, kept=("g", "p", "q"))
    db.run("CREATE TEMP TABLE every_group AS SELECT DISTINCT leaf0, g FROM matched WHERE leaf0 IS NOT NULL")
    cells = Cells.of_memberships()
    people = count_people(db, bound, cells)
    keep_bounded(db, bound, cells)
    db.run("ALTER TABLE matched RENAME TO counting")
    db.run(
        """
        CREATE TEMP TABLE matched AS
        SELECT leaf0, g, amount * q AS amount FROM counting UNION ALL SELECT leaf0, g, 0 FROM every_group
        """
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
    source, files = _source(db, records)
    db.run(
        f"CREATE TEMP TABLE grouped AS SELECT {_listed(columns)} FROM ({source}) GROUP BY {_listed(distinct)}",
        **files,
        **parameters,
    )
    nameless = [f"{name} IS NULL" for name in [*path, *_ids(records)]]
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


def _source(db: Session, records: Records) -> tuple[str, dict[str, list[str]]]:
    """A query that yields the wanted columns under our names, and its parameters."""
    arrow = records.arrow()
    if arrow is not None:
        db.register("records", arrow)
        return f"SELECT {_renamed(records, range(len(records.wanted)), 0)} FROM records", {}
    queries, files = [], {}
    for i, layout in enumerate(records.layouts):
        names = _listed([name for name, _ in enumerate_names(range(layout.width))])
        queries.append(
            f"SELECT {_renamed(records, layout.positions, i)} "
            f"FROM read_parquet($files{i}, hive_partitioning = false) AS file({names})"
        )
        files[f"files{i}"] = [_literal_path(path) for path in layout.paths]
    return " UNION ALL ".join(queries), files


def _renamed(records: Records, positions: Sequence[int], layout: int) -> str:
    """Column by column: `c5 AS k0`, numbers validated."""
    columns, path, numbers = [], 0, 0
    for column, position, kind in zip(records.wanted, positions, records.layouts[layout].types, strict=True):
        value = f"c{position}"
        if column.use == "key":
            columns.append(f"{value} AS k{path}")
            path += 1
        elif column.use == "group":
            # An empty text is no id, in no format: a CSV file cannot tell it from a null.
            texts = is_text_type(kind.value_type if pa.types.is_dictionary(kind) else kind)
            columns.append(f"{_text_id(value) if texts else value} AS g")
        elif column.use == "person":
            name = _ids(records)[-1]
            # Integers stay: they are quicker to group, and are united with another file's text as text. An empty text
            # is no id, in no format: all who have none would be one person.
            columns.append(f"{value if _is_integer(kind) else _text_id(value)} AS {name}")
        else:
            columns.append(f"{_integer(value, kind)} AS v{numbers}")
            numbers += 1
    return _listed(columns)


def _ids(records: Records) -> list[str]:
    """Our names of the columns with ids, in their order: the group is `g`, and the person where there is no group."""
    uses = [column.use for column in records.wanted if column.use in ("group", "person")]
    return ["g", "p"][: len(uses)]


def _text_id(value: str) -> str:
    return f"nullif(CAST({value} AS VARCHAR), '')"


def _is_integer(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind.value_type if pa.types.is_dictionary(kind) else kind))


def _integer(value: str, kind: pa.DataType) -> str:
    """The number as BIGINT, and NULL for everything that is not an integer from 0 to 2^62.

    DuckDB's own casts round ('3.5' becomes 4), so a value is cast only after the test that it is an integer.
    """
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_floating(kind):
        test = f"{value} >= 0 AND {value} < {_EXACT_FLOATS} AND {value} = trunc({value})"
    elif is_text_type(kind) or is_narrow_decimal(kind):
        # Decimals are written out exactly, digit by digit.
        test = f"regexp_full_match(CAST({value} AS VARCHAR), '\\+?[0-9]+(\\.0*)?')"
        value = f"split_part(CAST({value} AS VARCHAR), '.', 1)"
    else:
        test = f"{value} >= 0"
    number = f"TRY_CAST({value} AS BIGINT)"
    return f"CASE WHEN {test} AND {number} <= {MAX_TOTAL} THEN {number} END"


def _literal_path(path: str) -> str:
    """A path that DuckDB's globbing takes for what it is (and for a file's, not an address's)."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in str(Path(path).absolute()))


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
    db.run(f"CREATE TEMP TABLE matched AS SELECT {_listed([*leaves, *kept, 'amount'])} FROM grouped {' '.join(joins)}")
    if not drop_unknown:
        _refuse_unknown(db, records, keys)
    db.run("DROP TABLE grouped")


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
            texts = _listed([f"CAST(k{k} AS VARCHAR)" for k in path])
            outside = f"grouped ANTI JOIN leaves{i} ON {_same_path(i, path)}"
            labels = db.run(f"SELECT {texts} FROM {outside} ORDER BY ALL LIMIT 1")[0]
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


def _refuse_large_total(db: Session, records: Records, numbers: Sequence[Wanted]) -> None:
    (too_large,) = db.run(
        f"SELECT coalesce(sum(amount), 0) > {MAX_TOTAL} FROM matched WHERE {_known(len(records.keys))}"
    )[0]
    if too_large:
        column = "".join(f"column {column.name!r} {named(column)}" for column in numbers)
        raise ValueError(f"{records.argument}: {column}adds up to more than 2^62; use a coarser unit")


def _result(db: Session, columns: Sequence[str]) -> list[IntArray]:
    """The rows of `matched` inside the hierarchy that have an amount, in order."""
    known = _known(sum(column.startswith("leaf") for column in columns))
    return db.arrays(
        f"SELECT {_listed(columns)}, CAST(amount AS BIGINT) AS amount FROM matched "
        f"WHERE {known} AND amount > 0 ORDER BY {_listed(columns)}"
    )


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(column for column in columns if column)
