"""The records of a table: which of its columns are wanted, of what kind, and where they stand. Reads schemas only.

**Key columns whose type cannot meet the hierarchy's labels**: 1 and 01 are two labels, and an integer is never 01. The
types of columns and the hierarchy are public, so all that is said of them shows nothing of a record.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from tallytree.accounting.periods import Period
from tallytree.sources.column_types import is_text_type, type_in_messages
from tallytree.sources.failures import SourceError
from tallytree.sources.locate import Files, Scan, Source, locate
from tallytree.sources.partitions import is_partition
from tallytree.sources.reading import file_batches, require_columns, schemas
from tallytree.trees.leaf_keys import LeafKey

CANONICAL = r"^(0|-?[1-9][0-9]*)$"


def require_types_that_meet(
    columns: Sequence[str], types: Sequence[pa.DataType], hierarchy: Any, where: str, *, drop_unknown: bool
) -> None:
    """Refuse, where records outside the hierarchy are dropped, key columns whose records it would lose by their type.

    Args:
        columns: the records' columns, down to the leaves.
        types: theirs.
        hierarchy: the public tree.
        where: the table in messages.
        drop_unknown: whether a record outside the hierarchy is left out; otherwise it is an error, and is noticed.

    Raises:
        TypeError: integers, where some labels are not how an integer is written.
    """
    if not drop_unknown:
        return
    for column, kind, level, labels in _levels(columns, types, hierarchy):
        if _is_whole(kind):
            strange = _not_canonical(labels)
            if strange is not None:
                raise TypeError(
                    f"{where}: column {column!r} holds {kind}, but the hierarchy has the label {strange!r} at "
                    f"{level!r}, which no integer is written as; such records would be dropped without a word. Read "
                    "the column as text, as the hierarchy's table has it"
                )
        elif is_text_type(kind) and level in hierarchy.integer_columns:
            warnings.warn(
                f"{where}: column {column!r} holds text, but the hierarchy's table has integers at {level!r}; records "
                "whose code is written in another way than an integer (such as 01) are dropped. Read both as text",
                stacklevel=2,
            )


def hint_on_types(columns: Sequence[str], types: Sequence[pa.DataType], hierarchy: Any) -> str:
    """What of the types may put a record outside the hierarchy, as the rest of a message; mostly nothing."""
    for column, kind, level, labels in _levels(columns, types, hierarchy):
        zeros = _with_lost_zeros(labels)
        if _is_whole(kind) and (strange := zeros or _not_canonical(labels)) is not None:
            remedy = "read the column as text, so that codes keep their leading zeros"
            return (
                f". Column {column!r} holds {kind}, but the hierarchy has labels such as {strange!r} at {level!r}; "
                f"{remedy if zeros else 'give the records a column with these labels'}"
            )
        if is_text_type(kind) and zeros is not None:
            return (
                f". The hierarchy has labels with leading zeros at {level!r}, such as {zeros!r}; `tallytree lint` says "
                "whether the records have lost theirs"
            )
        if is_text_type(kind) and len(labels) and _not_canonical(labels) is None:
            return (
                f". The hierarchy's labels at {level!r} are numbers without leading zeros; if codes have them, read "
                "the hierarchy's table as text too (01 and 1 are two labels)"
            )
    return ""


def _with_lost_zeros(labels: pa.Array) -> str | None:
    """The first label of digits that begins with 0 and is not 0 itself; None without one."""
    padded = labels.filter(pc.match_substring_regex(labels, "^0[0-9]+$"))
    return padded[0].as_py() if len(padded) else None


def _levels(
    columns: Sequence[str], types: Sequence[pa.DataType], hierarchy: Any
) -> Iterator[tuple[str, pa.DataType, str, pa.Array]]:
    """Column, type, level and labels of every level that records are matched at."""
    number = len(columns)
    if number == 0:
        return
    depths = range(len(hierarchy.levels) - number, len(hierarchy.levels))
    for column, kind, level, depth in zip(columns, types, hierarchy.columns[-number:], depths, strict=True):
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        yield column, plain, level, hierarchy.own_labels(depth)


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def _not_canonical(labels: pa.Array) -> str | None:
    """The first label that is not how an integer is written; None if all are."""
    canonical = pc.match_substring_regex(labels, CANONICAL)
    place = pc.index(canonical, False).as_py()
    return None if place < 0 else str(labels[place].as_py())


PUBLIC_TABLES = frozenset({"public_groups", "public_totals"})
"""Arguments with tables that are counted as records are, and are public."""

Use = Literal["key", "group", "household", "person", "number", "period", "rest"]
"""What a column is used for: part of a path, the identity of a group, of a household (null: in none) or of a person, an
integer ≥ 0, when it was, or (for defects) whether a row repeats another."""

Unreadable = Literal["left out", "refused", "shown"]
"""What becomes of a record with a text that names no day; `"shown"`, for defects, keeps all records."""


@dataclass(frozen=True)
class Wanted:
    """A column, named `name` in the records, and what it is used for; `argument` named it (`count="trips"`).

    Of the column that says when a record was, `days` are those whose records are kept.
    """

    name: str
    use: Use
    argument: str = ""
    days: Period | None = None
    unreadable: Unreadable = "left out"


@dataclass(frozen=True)
class ColumnLayout:
    """Files of one schema (none for a table that is in none): where in it the wanted columns stand, and their types.

    Attributes:
        paths: the files.
        width: how many columns they themselves have; those in the names of their folders follow.
        positions: where the wanted columns stand.
        types: theirs.
    """

    paths: tuple[str, ...]
    width: int
    positions: tuple[int, ...]
    types: tuple[pa.DataType, ...]


@dataclass(frozen=True, repr=False)
class Records:
    """Records whose wanted columns exist and have usable types; no row has been read yet.

    Attributes:
        source: files, a table or a stream.
        keys: per `LeafKey`, the columns to match.
        wanted: all wanted columns: those of the keys, in their order, then the others.
        layouts: where they stand, for each distinct schema among the files.
        argument: the table's name in messages.
        failures: why a stream of these could not be read to its end.
    """

    source: Source
    keys: tuple[tuple[str, ...], ...]
    wanted: tuple[Wanted, ...]
    layouts: tuple[ColumnLayout, ...]
    argument: str
    failures: list[SourceError] = field(default_factory=list, init=False, compare=False)

    @property
    def is_public(self) -> bool:
        """Whether they are a public table, which a message may quote: its argument says so."""
        return self.argument in PUBLIC_TABLES

    @property
    def local_parquet(self) -> bool:
        """Whether the rows are in Parquet files of this machine, which an engine may read itself."""
        return isinstance(self.source, Files) and self.source.format == "parquet" and self.source.place is None

    def streams(self) -> list[pa.Table | pa.RecordBatchReader]:
        """Per layout, the wanted columns in their order, named c0, c1, …; each stream is read once.

        What fails in a stream in words of ours is kept in `failures`: the engine that reads it may say it in its own.
        """
        return [self._stream(layout) for layout in self.layouts]

    def _stream(self, layout: ColumnLayout) -> pa.Table | pa.RecordBatchReader:
        if isinstance(self.source, pa.Table):
            columns = [self.source.column(position) for position in layout.positions]
            return pa.table(dict(enumerate_names(columns)))
        schema = pa.schema(enumerate_names(layout.types))
        rows = self._kept(self._rows(layout))
        arrays = (pa.RecordBatch.from_arrays(columns, schema=schema) for columns in rows)
        return pa.RecordBatchReader.from_batches(schema, arrays)

    def _rows(self, layout: ColumnLayout) -> Iterator[list[pa.Array]]:
        """The columns of batch after batch."""
        names = [column.name for column in self.wanted]
        distinct = list(dict.fromkeys(names))
        if isinstance(self.source, pa.RecordBatchReader):
            for batch in self.source:
                yield [batch.column(position) for position in layout.positions]
            return
        source, argument = self.source, self.argument
        for path in layout.paths or ("",):
            with closing(
                file_batches(source, path, distinct, argument)
                if isinstance(source, Files)
                else source.batches(distinct, argument)
            ) as batches:
                for batch in batches:
                    yield [batch.column(name) for name in names]

    def _kept(self, rows: Iterator[list[pa.Array]]) -> Iterator[list[pa.Array]]:
        try:
            yield from rows
        except SourceError as failure:
            self.failures.append(failure)
            raise


def enumerate_names(items: Sequence[Any]) -> list[tuple[str, Any]]:
    """Each item with the name of its place: c0, c1 and so on."""
    return [(f"c{place}", item) for place, item in enumerate(items)]


def check_records(
    table: Any, keys: Sequence[LeafKey], others: Sequence[Wanted], argument: str, *, drop_unknown: bool = False
) -> Records:
    """Find the wanted columns and check their types; no row is read.

    Args:
        table: any table (see `tallytree.sources.locate.locate`).
        keys: the columns of the paths.
        others: further columns.
        argument: the table's name in messages.
        drop_unknown: whether records outside the hierarchy will be left out.

    Raises:
        ValueError: a column is missing, or twice there; a file cannot be read.
        TypeError: a column has a type that its use does not allow, or `table` is not a table; records would be left
            out because of their column's type (see `require_types_that_meet`).
    """
    named = {column.name for column in others}.union(*((key.code,) if key.code else key.columns for key in keys))
    source = locate(table, argument, named, public=argument in PUBLIC_TABLES)
    try:
        return located_records(source, schemas(source, argument), keys, others, argument, drop_unknown=drop_unknown)
    except (TypeError, ValueError):
        close(source, table)
        raise


def with_every_column(records: Records, keys: Sequence[LeafKey], others: Sequence[Wanted]) -> Records:
    """The same, and all columns that the files have themselves, of types that every reader knows."""
    found = schemas(records.source, records.argument)
    folders = {name for values in getattr(records.source, "partitions", ()) for name, _ in values}
    plain = (
        {each.name for each in schema if _is_plain(_value_type(each.type)) and schema.names.count(each.name) == 1}
        for _, schema in found
    )
    rest = [Wanted(name, "rest") for name in sorted(set.intersection(*plain) - folders)]
    return located_records(records.source, found, keys, [*others, *rest], records.argument)


def located_records(
    source: Any,
    distinct: Sequence[tuple[tuple[str, ...], pa.Schema]],
    keys: Sequence[LeafKey],
    others: Sequence[Wanted],
    argument: str,
    *,
    drop_unknown: bool = False,
) -> Records:
    """As `check_records`, of a table that an engine found itself.

    Args:
        source: the table.
        distinct: its schemas, each with the files that have it: see `tallytree.sources.reading.schemas`.
        keys: the columns of the paths.
        others: further columns.
        argument: the table's name in messages.
        drop_unknown: whether records outside the hierarchy will be left out.
    """
    present = tuple(key.present(distinct[0][1].names) for key in keys)
    _refuse_one_code_of_several(keys, distinct[0][1].names)
    wanted = (*(Wanted(name, "key") for names in present for name in names), *others)
    layouts = tuple(_layout(source, paths, schema, wanted, argument) for paths, schema in distinct)
    for layout in layouts:
        for key, columns, types in key_types(keys, present, layout):
            where = table_in_messages(argument, source, layout.paths)
            unnoticed = drop_unknown or key.other is not None or key.hierarchy.unknown_from is not None
            require_types_that_meet(columns, types, key.hierarchy, where, drop_unknown=unnoticed)
    return Records(source, present, wanted, layouts, argument)


def _refuse_one_code_of_several(keys: Sequence[LeafKey], names: Sequence[str]) -> None:
    """Refuse records that have the code of a leaf in place of a path, where `leaf` says so of another attribute only.

    Raises:
        ValueError: naming the columns of the hierarchy, which is public.
    """
    for key in keys:
        missing = [column for column in key.present(names) if column not in names]
        if missing and key.columns[-1] in names and any(other.code is not None for other in keys):
            raise ValueError(
                f"leaf: the records have {key.columns[-1]!r} without {', '.join(map(repr, missing))}; where they have "
                "codes in place of the columns of several attributes, give leaf as a mapping from each of these "
                f"attributes to its column, such as {{…: {key.columns[-1]!r}}}"
            )


def close(source: Source, table: Any) -> None:
    """Stop a stream that was opened on `table`, so that the table's connection is free again."""
    if isinstance(source, pa.RecordBatchReader) and source is not table:
        source.close()


def key_types(
    keys: Sequence[LeafKey], present: Sequence[tuple[str, ...]], layout: ColumnLayout
) -> Iterator[tuple[LeafKey, tuple[str, ...], tuple[pa.DataType, ...]]]:
    """Each key with the columns to match and their types in some files."""
    first = 0
    for key, columns in zip(keys, present, strict=True):
        yield key, columns, layout.types[first : first + len(columns)]
        first += len(columns)


def table_in_messages(argument: str, source: Any, paths: Sequence[str]) -> str:
    """The argument, and the first of some of its files where it is in files."""
    return f"{argument} ({source.named(paths[0])!r})" if isinstance(source, Files) and paths else argument


def _layout(
    source: Source, paths: tuple[str, ...], schema: pa.Schema, wanted: Sequence[Wanted], argument: str
) -> ColumnLayout:
    where = table_in_messages(argument, source, paths)
    require_columns(schema.names, [column.name for column in wanted], where, public=argument in PUBLIC_TABLES)
    positions = tuple(schema.names.index(column.name) for column in wanted)
    types = tuple(_value_type(schema.field(position).type) for position in positions)
    text = (isinstance(source, Files) and source.format == "csv") or (
        isinstance(source, Scan) and source.numbers_are_text
    )
    for column, position, kind in zip(wanted, positions, types, strict=True):
        _require_type(column, kind, text or is_partition(schema.field(position)), where)
    width = sum(not is_partition(field) for field in schema)
    return ColumnLayout(paths, width, positions, tuple(schema.field(position).type for position in positions))


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _require_type(column: Wanted, kind: pa.DataType, numbers_are_text: bool, where: str) -> None:
    fits, remedy = _FITTING_TYPES.get(column.use, (lambda kind: True, ""))
    if not fits(kind) and not (column.use == "number" and numbers_are_text and is_text_type(kind)):
        raise TypeError(f"{where}: column {column.name!r} {named(column)}holds {type_in_messages(kind)}; {remedy}")


def named(column: Wanted) -> str:
    """The argument that named the column, in brackets, for a message."""
    return f"({column.argument}) " if column.argument else ""


def _is_text_or_integer(kind: pa.DataType) -> bool:
    # A column without any value has Arrow's type null: it is as good as an empty one. DuckDB's 128-bit integers come as
    # decimals without places.
    no_places = is_narrow_decimal(kind) and kind.scale == 0
    return is_text_type(kind) or bool(pa.types.is_integer(kind)) or bool(pa.types.is_null(kind)) or no_places


def _is_identity(kind: pa.DataType) -> bool:
    # Not floats: rounding, −0 and NaN make them poor identities.
    types = pa.types
    exact = types.is_date(kind) or types.is_time(kind) or types.is_timestamp(kind)
    binary = types.is_binary(kind) or types.is_large_binary(kind)
    return _is_text_or_integer(kind) or bool(exact or binary or _is_uuid(kind)) or is_narrow_decimal(kind)


def _is_plain(kind: pa.DataType) -> bool:
    return _is_identity(kind) or is_number(kind) or bool(pa.types.is_boolean(kind))


def _is_day_or_moment(kind: pa.DataType) -> bool:
    types = pa.types
    moment = types.is_timestamp(kind) and kind.tz in (None, "UTC", "Etc/UTC", "+00:00")
    return bool(types.is_date(kind) or moment or types.is_null(kind))


def _is_uuid(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and bool(kind.extension_name == "arrow.uuid")


def is_number(kind: pa.DataType) -> bool:
    """Whether an Arrow type can hold integers exactly (booleans are not numbers here)."""
    types = pa.types
    floating = types.is_float32(kind) or types.is_float64(kind)
    return bool(types.is_integer(kind) or floating or types.is_null(kind)) or is_narrow_decimal(kind)


def is_narrow_decimal(kind: pa.DataType) -> bool:
    """Whether an Arrow type is a decimal that DuckDB knows too (at most 128 bits)."""
    return bool(pa.types.is_decimal(kind)) and kind.bit_width <= 128


_FITTING_TYPES: dict[str, tuple[Callable[[pa.DataType], bool], str]] = {
    "key": (_is_text_or_integer, "keys must be strings or integers (cast the column first)"),
    "group": (_is_identity, "a group's id must be text or an integer (cast the column first)"),
    "household": (
        _is_identity,
        "a household's id must be text or an integer (cast the column first; in pandas, integers with nulls are Int64)",
    ),
    "person": (
        lambda kind: _is_text_or_integer(kind) or _is_uuid(kind),
        "ids must be text or integers (cast the column first)",
    ),
    "number": (is_number, "it must hold integers (cast the column first)"),
    "period": (
        lambda kind: is_text_type(kind) or _is_day_or_moment(kind),
        "it must hold dates, timestamps without a time zone or in UTC, or text such as 2026-03-04, 2026-03 or 2026-W10 "
        "(cast the column to dates first)",
    ),
}
"""Which types a use allows, and what to do about others; `"rest"` allows all."""
