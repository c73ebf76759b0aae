"""A spec that is given as a Python mapping: the same document as its YAML would be, without lines."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from numbers import Integral
from typing import Any

import numpy as np

from tallytree.errors import SpecError
from tallytree.spec.document import MAX_DEPTH, MAX_ENTRIES, Document, KeyPath
from tallytree.spec.scalars import Plain

NAME = "spec"
"""What a spec without a file is called in messages. Its paths are relative to the folder of that name's file: `.`."""


def document_of(given: Mapping[str, Any]) -> Document:
    """The document of a mapping; keys whose value is None are left out, as keys without a value are in YAML.

    Raises:
        SpecError: a key that is not text, a value that no spec can hold, or too many of them.
    """
    lines: dict[KeyPath, int | None] = {}
    return Document(NAME, _plain(given, (), lines), lines)


def plain_value(value: object, path: KeyPath) -> Any:
    """A Python value as the reader of YAML would give it. A float is the decimal number that its shortest form writes.

    Raises:
        SpecError: no spec can hold it.
    """
    return _plain(value, path, {})


def _plain(value: object, path: KeyPath, lines: dict[KeyPath, int | None]) -> Any:
    match value:
        case None:
            return Plain("", "empty value")
        case bool():
            return Plain(str(value).lower(), "boolean")
        case str():
            return value
        case Decimal():
            return Plain(str(value), "number")
        case Integral():
            return Plain(str(int(value)), "number")
        case date():
            return Plain(value.isoformat(), "date")
        case os.PathLike() if isinstance(os.fspath(value), str):
            return os.fspath(value)
        case Mapping():
            return _mapping(value, path, lines)
        case list() | tuple():
            return [_entry(item, (*path, i), lines) for i, item in enumerate(value)]
        case float() | np.floating():
            return Plain(str(value), "number")
    raise _error(
        path,
        f"{type(value).__name__} is given; a spec holds text, paths, numbers (int, float, Decimal), true or false, "
        "lists and mappings",
    )


def _mapping(given: Mapping[Any, Any], path: KeyPath, lines: dict[KeyPath, int | None]) -> dict[str, Any]:
    data = {}
    for key, value in given.items():
        if not isinstance(key, str):
            raise _error(path, f"a key is of type {type(key).__name__}; keys must be text")
        read = _entry(value, (*path, key), lines)
        if not (isinstance(read, Plain) and read.kind == "empty value"):
            data[key] = read
    return data


def _entry(value: object, path: KeyPath, lines: dict[KeyPath, int | None]) -> Any:
    lines[path] = None
    if len(lines) > MAX_ENTRIES or len(path) > MAX_DEPTH:
        raise _error(path[:1], "has too many entries for a spec; does a mapping hold itself?")
    return _plain(value, path, lines)


def _error(path: KeyPath, message: str) -> SpecError:
    return Document(NAME, {}, {}).error(path, message)
