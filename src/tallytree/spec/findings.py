"""From pydantic's findings to one message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from tallytree.errors import SpecError
from tallytree.spec.document import Document, KeyPath
from tallytree.spec.scalars import shown
from tallytree.spec.statistics import SPECS
from tallytree.spec.wording import closest


def explained(document: Document, statistic: str, errors: Sequence[ErrorDetails]) -> SpecError:
    """One error for all findings: the first one whole, unknown keys before what may be missing because of them."""
    found: list[tuple[int, int, str, str]] = []
    for error in errors:
        path = error["loc"]
        rank = {"extra_forbidden": 0, "missing": 2}.get(error["type"], 1)
        message = _finding(statistic, error, given=path in document.lines)
        found.append((rank, document.lines.get(path, 0), str(document.error(path, message)), str(path[-1])))
    (_, _, first, _), *others = sorted(found)
    more = sum(not first.endswith(f"did you mean {key}?") for _, _, _, key in others)
    return SpecError(f"{first} (and {more} more)" if more else first)


def _finding(statistic: str, error: ErrorDetails, *, given: bool) -> str:
    kind, path = error["type"], error["loc"]
    if kind == "extra_forbidden":
        return _unknown_key(statistic, path)
    if kind == "missing":
        return f"{'has no value' if given else 'is missing'}; {_description(statistic, path)}"
    if kind == "value_error":
        return str(error["ctx"]["error"])
    if kind in ("dict_type", "model_type"):
        return f"{shown(error['input'])} must be a mapping; {_description(statistic, path)}"
    return error["msg"]


def _unknown_key(statistic: str, path: KeyPath) -> str:
    key = str(path[-1])
    model = _section_at(statistic, path[:-1])
    top = len(path) == 1
    # A key of a section, letter for letter, is likelier than one that is only written much like it.
    inside = [f"{name}.{key}" for name, section in _sections(model).items() if top and key in section.model_fields]
    near = inside[0] if inside else closest(key, model.model_fields)
    if near:
        return f"unknown key; did you mean {near}?"
    if top:
        other = next((name for name, spec in SPECS.items() if key in spec.model_fields), None)
        if other:
            return f"is a key for {other}, not for {statistic}"
    return f"unknown key; the keys here are {', '.join(model.model_fields)}"


def _description(statistic: str, path: KeyPath) -> str | None:
    """What the key at a path wants."""
    return _section_at(statistic, path[:-1]).model_fields[str(path[-1])].description


def _section_at(statistic: str, path: KeyPath) -> type[BaseModel]:
    model: type[BaseModel] = SPECS[statistic]
    for key in path:
        model = _sections(model)[str(key)]
    return model


def _sections(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """The keys whose values are mappings with keys of their own."""
    return {
        key: kind
        for key, field in model.model_fields.items()
        for kind in (field.annotation, *get_args(field.annotation))
        if isinstance(kind, type) and issubclass(kind, BaseModel)
    }
