"""Entries for OpenDP's registry of deployments, checked against its schema.

The schema is a part of the package. What is checked is what it uses: types, fixed values, required keys, no others, and
days. Messages name the line and the key, and for an unknown key the known ones that look like it.
"""

from __future__ import annotations

import datetime
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import yaml

from tallytree.release.registry_entry import TO_BE_FILLED

_TAG = "tag:yaml.org,2002:"
_NUMBERS = (f"{_TAG}int", f"{_TAG}float")
_TYPES = {
    "string": ("text; put it in quotes", (f"{_TAG}str",)),
    "number": ("a number", _NUMBERS),
    "integer": ("an integer", _NUMBERS[:1]),
    "object": ("a mapping of keys to values", (f"{_TAG}map",)),
    "array": ("a list", (f"{_TAG}seq",)),
}


@dataclass
class CheckedEntry:
    """What there is to say about an entry.

    Attributes:
        wrong: sentences about what the schema refuses.
        unfilled: dotted keys that the publisher is to fill, with the text that says with what.
        absent: dotted keys that may be added.
        values: the scalar values by dotted key, as text.
    """

    wrong: list[str] = field(default_factory=list)
    unfilled: dict[str, str] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)


@cache
def registry_schema() -> dict[str, Any]:
    """The schema of an entry, without its descriptions."""
    text = resources.files(__package__).joinpath("opendp_deployments_schema.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))


def schema_of(key: str) -> Mapping[str, Any] | None:
    """The part of the schema that is about a dotted key; None where there is no such key."""
    part: Any = registry_schema()
    for name in key.split("."):
        part = part.get("properties", {}).get(name)
        if part is None:
            return None
    return dict(part)


def keys_of_values() -> list[str]:
    """The dotted keys of all values, in the order of the schema."""
    return [key for key, _ in _values_of(registry_schema(), "")]


def _values_of(schema: Mapping[str, Any], above: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, part in schema["properties"].items():
        if "properties" in part:
            yield from _values_of(part, f"{above}{name}.")
        else:
            yield f"{above}{name}", part


def near_names(name: str, known: list[str]) -> str:
    """What follows in a message about an unknown name: those that look like it, or all of a few."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"known are {', '.join(known)}"


def checked_entry(text: str) -> CheckedEntry:
    """Check the text of an entry.

    Raises:
        ValueError: it is no YAML, or no mapping.
    """
    checked = CheckedEntry()
    node = composed(text)
    _check(node, registry_schema(), "", checked)
    given = set(checked.values) | set(checked.unfilled)
    checked.absent = [key for key in keys_of_values() if key not in given and not _lists(given, key)]
    return checked


def _lists(given: set[str], key: str) -> bool:
    return any(each.startswith(f"{key}[") for each in given)


def composed(text: str) -> yaml.MappingNode:
    """The nodes of an entry, which know their lines.

    Raises:
        ValueError: it is no YAML, or no mapping.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark else ""
        why = getattr(error, "problem", None) or "it cannot be read"
        raise ValueError(f"entry: it is no YAML{line}: {why}; correct the line, or take the file out of DIR") from None
    if not isinstance(node, yaml.MappingNode):
        raise ValueError("entry: it must be a mapping of keys to values, as tallytree writes deployment.yaml")
    _refuse_circles(node, set(), set())
    return node


def _refuse_circles(node: yaml.Node, above: set[int], checked: set[int]) -> None:
    """Refuse an alias to what it is a part of.

    Raises:
        ValueError: there is one.
    """
    if id(node) in above:
        line = node.start_mark.line + 1
        raise ValueError(f"entry: what begins at line {line} has an alias to itself; write the value in its place")
    if id(node) in checked or not isinstance(node, yaml.CollectionNode):
        return
    checked.add(id(node))
    for child in node.value:
        for each in child if isinstance(child, tuple) else (child,):
            _refuse_circles(each, above | {id(node)}, checked)


def _check(node: yaml.Node, schema: Mapping[str, Any], key: str, checked: CheckedEntry) -> None:
    where = f"line {node.start_mark.line + 1}: {key or 'the entry'}"
    kinds = schema.get("type")
    if kinds is not None:
        wanted = [_TYPES[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds)]
        if not any(node.tag in tags for _, tags in wanted):
            checked.wrong.append(f"{where} must be {' or '.join(name for name, _ in wanted)}")
            return
    if isinstance(node, yaml.MappingNode) and "properties" in schema:
        _check_keys(node, schema, key, checked)
    elif isinstance(node, yaml.SequenceNode) and "items" in schema:
        if len(node.value) < schema.get("minItems", 0):
            checked.wrong.append(f"{where} must have at least one item")
        for position, item in enumerate(node.value):
            _check(item, schema["items"], f"{key}[{position}]", checked)
    elif isinstance(node, yaml.ScalarNode):
        _check_value(node.value, schema, key, where, checked)


def _check_value(value: str, schema: Mapping[str, Any], key: str, where: str, checked: CheckedEntry) -> None:
    if TO_BE_FILLED in value:
        checked.unfilled[key] = value[value.index(TO_BE_FILLED) + len(TO_BE_FILLED) :].removeprefix(": ").strip()
        return
    checked.values[key] = value
    known = [str(each) for each in schema.get("enum", ())]
    if known and value not in known:
        checked.wrong.append(f"{where}: {value[:80]!r} must be one of {', '.join(known)}")
    if schema.get("format") == "date" and not _is_day(value):
        checked.wrong.append(f"{where}: {value[:80]!r} must be a day, as YYYY-MM-DD")


def _check_keys(node: yaml.MappingNode, schema: Mapping[str, Any], above: str, checked: CheckedEntry) -> None:
    known = schema["properties"]
    seen: set[str] = set()
    for name_node, value in node.value:
        name = str(name_node.value) if isinstance(name_node, yaml.ScalarNode) else "a key that is no text"
        key = f"{above}.{name}" if above else name
        line = f"line {name_node.start_mark.line + 1}"
        if name not in known:
            checked.wrong.append(f"{line}: the key {key[:120]!r} is not known; {near_names(name, [*known])}")
        elif name in seen:
            checked.wrong.append(f"{line}: the key {key!r} is there twice; keep one")
        else:
            seen.add(name)
            _check(value, known[name], key, checked)
    for name in schema.get("required", ()):
        if name not in seen:
            line = f"line {node.start_mark.line + 1}"
            checked.wrong.append(f"{line}: {above or 'the entry'} has no {name!r}, which it must have")


def _is_day(value: str) -> bool:
    try:
        return datetime.date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False
