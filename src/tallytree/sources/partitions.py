"""Hive partitions: columns that are in the names of folders (`year=2026/month=01/`), as Spark and Arrow write them.

Their values are text, letter for letter, as the cells of a CSV file are: a folder `month=01` is "01".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from tallytree.sources.failures import SourceError, Withheld

Values: TypeAlias = tuple[tuple[str, str | None], ...]
"""The partition columns of a file, each with its value in every row of the file; None is a null."""

NULL = "__HIVE_DEFAULT_PARTITION__"
"""The value by which Hive and Spark write a null."""

MARK = {b"tallytree": b"partition"}
"""The metadata of a field that is in the names of folders and not in the file."""

_FOLDER = re.compile(r"([^=]+)=(.*)", re.DOTALL)
_NO_FOLDER = ("", ".")
"""Parts of a path that lead to no other folder."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")


def path_in_messages(path: str, given: str) -> str:
    """The path of a file of a private table, as messages show it: `people/home=…/part-0.parquet`.

    The value of a partition column may be that of a person. What the user typed is shown as it is.

    Args:
        path: the file's.
        given: the path, folder or pattern by which it was found.
    """
    if "=" not in path:
        return path
    typed = [part for part in given.split("/") if part not in _NO_FOLDER]
    typed.reverse()
    shown = []
    for part in path.split("/"):
        if part in _NO_FOLDER:
            shown.append(part)
        elif typed and part == typed[-1]:
            shown.append(typed.pop())
        else:
            typed.clear()  # from here on, a pattern or a folder says what there is
            match = _FOLDER.fullmatch(part)
            shown.append(f"{match[1]}=…" if match else part)
    return "/".join(shown)


def values_in(path: str, wanted: Sequence[str] | None, named: str, argument: str) -> Values:
    """The partition columns in the folders of a file.

    Args:
        path: the file's.
        wanted: the columns that there must be; None: all that there are.
        named: the file, as messages name it.
        argument: the table's name in messages.

    Raises:
        ValueError: a wanted one is not there, or a column is there twice with two values; what is percent-encoded is
            not UTF-8.
    """
    found: dict[str, str | None] = {}
    for folder in path.split("/")[:-1]:
        match = _FOLDER.fullmatch(folder)
        if match is None or wanted == ():
            continue
        name, value = (_decoded(part, named, argument) for part in match.groups())
        written = None if value == NULL else value
        if found.setdefault(name, written) != written:
            raise ValueError(f"{argument}: {named!r} has two values of the partition column {name!r}; rename a folder")
    if wanted is None:
        return tuple(found.items())
    for name in wanted:
        if name not in found:
            raise ValueError(
                f"{argument}: {named!r} is in no folder of the partition column {name!r}, such as '{name}=…'; give the "
                "columns that are in the names of folders"
            )
    return tuple((name, found[name]) for name in wanted)


def _decoded(text: str, named: str, argument: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        pass
    raise ValueError(f"{argument}: a folder of {named!r} has percent-encoded text that is not UTF-8; rename it")


def with_partitions(schema: pa.Schema, values: Values) -> pa.Schema:
    """The schema of a file and, after its own, the partition columns that it does not have itself."""
    for name, _ in values:
        if name not in schema.names:
            schema = schema.append(pa.field(name, pa.string(), metadata=MARK))
    return schema


def is_partition(field: pa.Field) -> bool:
    """Whether a column is in the names of folders, not in the file."""
    return bool(field.metadata) and b"tallytree" in field.metadata


def in_the_files_form(value: str | None, kind: pa.DataType) -> str | None:
    """The value as a column of that type writes it: 01 is 1 among integers."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if value is not None and pa.types.is_integer(kind) and _INTEGER.fullmatch(value):
        return str(int(value))
    return value


def disagreement(named: str, column: str, argument: str) -> SourceError:
    """The error of a file that has a partition column itself, with other values; no value is shown.

    Args:
        named: the file, as messages name it.
        column: the partition column.
        argument: the table's name in messages.
    """
    return SourceError(
        f"{argument}: {named!r} has the column {column!r} itself, with other values than its folder's name says; "
        f"correct one of them, or give partitions=() to read what the files have"
    )


def require_agreement(values: pa.Array, value: str | None, named: str, column: str, argument: str) -> None:
    """Refuse values in a file that are not its folder's; see `disagreement`.

    Raises:
        SourceError: there are such.
    """
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    expected = in_the_files_form(value, kind)
    agrees = False  # also where this type has no text
    with Withheld(pa.ArrowException):
        text: Any = values.cast(kind).cast(pa.string())
        same = text.is_null() if expected is None else pc.fill_null(pc.equal(text, expected), False)
        agrees = pc.all(same, min_count=0).as_py()
    if not agrees:
        raise disagreement(named, column, argument)
