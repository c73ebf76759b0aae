"""Key columns whose type cannot meet the hierarchy's labels: 1 and 01 are two labels, and an integer is never 01.

The types of columns and the hierarchy are public, so all that is said here shows nothing of a record.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tallytree.sources.text_columns import is_text_type

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
    for column, kind, level, labels in zip(
        columns, types, hierarchy.columns[-number:], hierarchy.labels[-number:], strict=True
    ):
        yield column, kind.value_type if pa.types.is_dictionary(kind) else kind, level, labels


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def _not_canonical(labels: pa.Array) -> str | None:
    """The first label that is not how an integer is written; None if all are."""
    canonical = pc.match_substring_regex(labels, CANONICAL)
    place = pc.index(canonical, False).as_py()
    return None if place < 0 else str(labels[place].as_py())
