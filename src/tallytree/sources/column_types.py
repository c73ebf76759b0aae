"""Types of columns: those of text, which the keys of tables are, and how messages name a type.

The fields of a nested type may be values: pandas makes them of a dictionary's keys.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NOT_READ = pa.struct([])
"""In place of the type of a column that is not asked for and is not converted: no use allows it."""


def type_in_messages(kind: pa.DataType) -> str:
    """The type as Arrow writes it; of a nested type its kind alone, such as "a struct", and no name of a field."""
    nested = _nested_kind(kind)
    return str(kind) if nested is None else nested


def _nested_kind(kind: pa.DataType) -> str | None:
    """What kind of nested type it is, or the values of its dictionary are; None of a flat type."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _nested_kind(kind.storage_type)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _nested_kind(kind.value_type)
    if types.is_map(kind):
        return "a map"
    if types.is_struct(kind):
        return "a struct"
    if types.is_union(kind):
        return "a union"
    return "a list" if types.is_nested(kind) else None


def text_column(table: pa.Table, column: str, argument: str, remedy: str = "drop or fill those rows") -> pa.Array:
    """A key column as one array of strings: text as it is, integers as decimal text.

    Args:
        table: has the column.
        column: its name.
        argument: the table's name in messages.
        remedy: what to do about null keys.

    Raises:
        ValueError: a key is null (or an empty CSV cell), or text is not UTF-8.
        TypeError: the column holds neither text nor integers.
    """
    values = table.column(column)
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if not is_text_type(kind) and not pa.types.is_integer(kind):
        raise TypeError(
            f"{argument}: column {column!r} holds {type_in_messages(kind)}; keys must be strings or integers (cast the "
            "column first)"
        )
    try:
        values.validate(full=True)  # a library can hand over text that is not UTF-8, which no file could hold
        text = pa.concat_arrays(values.cast(kind).cast(pa.large_string()).chunks or [pa.array([], pa.large_string())])
        sound = True
    except pa.ArrowInvalid:
        sound = False
    if not sound:
        raise ValueError(f"{argument}: column {column!r} has text that is not UTF-8; decode it from its own encoding")
    if text.null_count:
        raise ValueError(f"{argument}: column {column!r} has null keys (or empty cells); {remedy}")
    return text


def text_or_null(table: pa.Table, column: str, argument: str) -> pa.ChunkedArray:
    """A key column as strings, as `text_column` makes them; nulls stay."""
    if pa.types.is_null(table.schema.field(column).type):
        return pa.chunked_array([pa.nulls(table.num_rows, pa.large_string())])
    there = pc.is_valid(table.column(column))
    labels = text_column(table.filter(there), column, argument)
    places = np.cumsum(there.to_numpy(zero_copy_only=False)) - 1
    return pa.chunked_array([labels.take(pc.if_else(there, pa.array(places), None).combine_chunks())])


def is_integer_column(table: pa.Table, column: str) -> bool:
    """Whether a column holds integers."""
    kind = table.schema.field(column).type
    return bool(pa.types.is_integer(kind.value_type if pa.types.is_dictionary(kind) else kind))


def is_text_type(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
