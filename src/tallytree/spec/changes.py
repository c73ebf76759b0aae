"""Keys of a spec that are given beside it: `--set budget.epsilon=0.5`, or `changes=` in Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tallytree.errors import SpecError
from tallytree.spec.document import MAX_DEPTH, Document, KeyPath, read_scalar
from tallytree.spec.plain_values import plain_value
from tallytree.spec.scalars import Plain, shown

Changes: TypeAlias = Mapping[str, Any] | Sequence[str]
"""Dotted keys with Python values; or texts KEY=VALUE, whose values are read as those of a YAML spec."""

VARIABLES = "variables"


def changed(document: Document, changes: Changes) -> tuple[Document, Mapping[str, str]]:
    """The document with these keys in place of its own, and the values that the changes give to variables.

    A key without a value is as good as not given, as in the spec.

    Raises:
        SpecError: a value is no scalar, or a key lies in something that is no mapping.
        ValueError, TypeError: `changes` are not of this form; a key is given twice.
    """
    label = "changes" if isinstance(changes, Mapping) else "--set"
    variables: dict[str, str] = {}
    for path, value in _read(document, changes).items():
        if path[0] == VARIABLES:
            variables[_variable(document, path)] = _text(document, label, path, value)
        else:
            document = _with(document, label, path, value)
    return document, variables


def _read(document: Document, changes: Changes) -> dict[KeyPath, Any]:
    """Key path and value of every change."""
    if isinstance(changes, Mapping):
        return {_path(key, "changes"): plain_value(value, (key,)) for key, value in changes.items()}
    if isinstance(changes, str) or not isinstance(changes, Sequence):
        raise TypeError(f"changes: {type(changes).__name__} must be a mapping of dotted keys, or a list of KEY=VALUE")
    found: dict[KeyPath, Any] = {}
    for text in changes:
        if not isinstance(text, str) or "=" not in text:
            raise ValueError("set: each must be KEY=VALUE, such as budget.epsilon=0.5")
        key, _, written = text.partition("=")
        path = _path(key, "set")
        if path in found:
            raise ValueError(f"set: {key} is given twice; keep one")
        found[path] = read_scalar(written, f"{document.name}, --set {key}")
    return found


def _path(key: object, argument: str) -> KeyPath:
    path = tuple(key.strip().split(".")) if isinstance(key, str) else ()
    if not path or "" in path or len(path) > MAX_DEPTH:
        given = repr(key) if isinstance(key, str) else type(key).__name__
        raise ValueError(f"{argument}: {given} is no key of a spec; give one such as budget.epsilon")
    return path


def _with(document: Document, label: str, path: KeyPath, value: Any) -> Document:
    """The document with one key changed."""
    data = dict(document.data)
    inside = data
    for depth, key in enumerate(path[:-1], 1):
        below = inside.get(str(key), {})
        if not isinstance(below, dict):
            raise _refusal(document, label, path, f"{'.'.join(map(str, path[:depth]))} is {shown(below)}, no mapping")
        inside[str(key)] = inside = dict(below)
    inside.pop(str(path[-1]), None)
    if not (isinstance(value, Plain) and value.kind == "empty value"):
        inside[str(path[-1])] = value
    lines = {at: line for at, line in document.lines.items() if at[: len(path)] != path}
    return dataclasses.replace(document, data=data, lines={**lines, path: None}, given={**document.given, path: label})


def _variable(document: Document, path: KeyPath) -> str:
    if len(path) != 2:
        raise ValueError(f"set: {'.'.join(map(str, path))} is no variable; give one such as variables.DATE=2026-11-22")
    return str(path[1])


def _text(document: Document, label: str, path: KeyPath, value: Any) -> str:
    """The value of a variable, which is text however it is written."""
    text = value.text if isinstance(value, Plain) else value
    if not isinstance(text, str):
        raise _refusal(document, label, path, f"{shown(value)} is given where text is wanted")
    return text


def _refusal(document: Document, label: str, path: KeyPath, message: str) -> SpecError:
    return SpecError(f"{document.name}, {label} {'.'.join(map(str, path))}: {message}")
