"""Types of columns in messages. The fields of a nested type may be values: pandas makes them of a dictionary's keys."""

from __future__ import annotations

import pyarrow as pa

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
