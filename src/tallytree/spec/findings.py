"""From pydantic's findings to one message."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from tallytree.errors import SpecError
from tallytree.spec.document import Document, KeyPath
from tallytree.spec.models import SPECS
from tallytree.spec.scalars import shown
from tallytree.spec.sections import best_fit
from tallytree.spec.wording import closest

_IN_WORDS = 50
"""How many findings of one line are put into words, to choose among them."""


def explained(document: Document, statistic: str, errors: Sequence[ErrorDetails]) -> SpecError:
    """One error for all findings: the first one in full, unknown keys before what may be missing because of them."""
    ranked = sorted(errors, key=lambda error: _order(document, error))
    least = _order(document, ranked[0])
    # Of several in one line the first in the alphabet. There may be thousands, so only some are put into words.
    candidates = islice((error for error in ranked if _order(document, error) == least), _IN_WORDS)
    first, chosen = min(
        ((str(document.error(error["loc"], _finding(document, statistic, error))), error) for error in candidates),
        key=lambda each: each[0],
    )
    others = (str(error["loc"][-1]) for error in ranked if error is not chosen)
    more = sum(not first.endswith(f"did you mean {key}?") for key in others)
    return SpecError(f"{first} (and {more} more)" if more else first)


def _order(document: Document, error: ErrorDetails) -> tuple[int, int]:
    rank = {"extra_forbidden": 0, "missing": 2}.get(error["type"], 1)
    return rank, document.lines.get(error["loc"]) or 0


def _finding(document: Document, statistic: str, error: ErrorDetails) -> str:
    kind, path = error["type"], error["loc"]
    if kind == "extra_forbidden":
        return _unknown_key(document, statistic, path)
    if kind == "missing":
        given = "has no value" if path in document.lines else "is missing"
        return f"{given}; {_description(document, statistic, path)}"
    if kind == "value_error":
        return str(error["ctx"]["error"])
    if kind in ("dict_type", "model_type"):
        return f"{shown(error['input'])} must be a mapping; {_description(document, statistic, path)}"
    return error["msg"]


def _unknown_key(document: Document, statistic: str, path: KeyPath) -> str:
    key = str(path[-1])
    fields = _fields_at(document, statistic, path[:-1])
    top = len(path) == 1
    # A key of a section or of another statistic, letter for letter, is likelier than one that is only much like it.
    inside = [
        f"{name}.{key}"
        for name, field in fields.items()
        if top and any(key in section.model_fields for section in _sections(field.annotation))
    ]
    other = next((name for name, spec in SPECS.items() if top and key in spec.model_fields), None)
    if other and not inside:
        own = SPECS[statistic]
        required = (name for name in own.table_keys if own.model_fields[name].is_required())
        needed = next((name for name in required if name not in document.data), None)
        hint = "leave it out" if needed is None else f"use {needed}"
        return f"is a key for {other}, not for {statistic}; {hint}"
    near = inside[0] if inside else closest(key, fields)
    if near:
        return f"unknown key; did you mean {near}?"
    if path[:-1] == ("mechanism",):
        return f"unknown key; options of a mechanism go under options: {{name: …, options: {{{key}: …}}}}"
    return f"unknown key; the keys here are {', '.join(fields)}"


def _description(document: Document, statistic: str, path: KeyPath) -> str | None:
    """What the key at a path wants; of a key that a user names, what the mapping around it wants."""
    field = _fields_at(document, statistic, path[:-1]).get(str(path[-1]))
    return _description(document, statistic, path[:-1]) if field is None else field.description


def _fields_at(document: Document, statistic: str, path: KeyPath) -> dict[str, FieldInfo]:
    """The keys that the mapping at a path may have; none where a user names them."""
    data: Any = document.data
    annotation: Any = SPECS[statistic]
    for key in path:
        data = data[key]
        if get_origin(annotation) is dict:
            annotation = get_args(annotation)[1]
        else:
            annotation = _sections(annotation)[0].model_fields[str(key)].annotation
        sections = _sections(annotation)
        if len(sections) > 1:
            annotation = best_fit(data, sections)
    sections = _sections(annotation)
    return {} if get_origin(annotation) is dict or not sections else sections[0].model_fields


def _sections(annotation: Any) -> list[type[BaseModel]]:
    """The models among the kinds of value that a key may have."""
    kinds = (annotation, *get_args(annotation))
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
