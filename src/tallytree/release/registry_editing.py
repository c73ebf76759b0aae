"""Changes to deployment.yaml that leave all else in the file, such as comments, as it is."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from tallytree.release.registry_schema import composed, keys_of_values, near_names, schema_of


def given_values(changes: Sequence[str]) -> dict[str, Any]:
    """Values by dotted key, of texts such as `deployment.basic.name=Households 2026`.

    A key of a list may be given several times, once for each item.

    Raises:
        ValueError: one has no `=`, a key that is not known, or a value of another kind than the key takes.
    """
    found: dict[str, Any] = {}
    for each in changes:
        key, sign, text = each.partition("=")
        key = key.strip()
        if not sign or not key:
            raise ValueError(f"set: {each[:80]!r} must be KEY=VALUE, such as deployment.basic.name=Households")
        schema = schema_of(key)
        if schema is None or "properties" in schema:
            raise ValueError(f"set: the key {key[:120]!r} is not known; {_near_key(key)}")
        if schema.get("type") == "array":
            found.setdefault(key, []).append(text)
        elif key in found:
            raise ValueError(f"set: {key!r} is given twice; give it once")
        else:
            found[key] = _value(text, schema, key)
    return found


def _near_key(key: str) -> str:
    known = keys_of_values()
    same_end = [each for each in known if each.endswith(f".{key}")]
    if same_end:
        return f"did you mean {' or '.join(same_end)}?"
    last = {each.rsplit(".", 1)[-1]: each for each in known}
    hint = near_names(key, known) if "." in key else near_names(key, [*last])
    return hint if hint.startswith("did") else "docs/how-to/registry.md names the keys"


def _value(text: str, schema: Mapping[str, Any], key: str) -> Any:
    kinds = schema.get("type", "string")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    for kind, make in (("integer", int), ("number", float)):
        if kind in kinds:
            try:
                if text.isascii():  # Python takes digits of other scripts, too
                    return make(text)
            except ValueError:
                pass
            if "string" not in kinds:
                raise ValueError(f"set: {key}={text[:80]!r} must be {kind}; give a number")
    return text


def with_values(text: str, values: Mapping[str, Any]) -> str:
    """The text of an entry with other values.

    Args:
        text: of deployment.yaml.
        values: text, numbers or lists of text by dotted key, as `given_values` returns them.

    Raises:
        ValueError: the text is no YAML; or it is laid out so that the value cannot be changed without changing more.
    """
    for key, value in values.items():
        text = _with_value(text, key.split("."), value)
    return text


def _with_value(text: str, path: list[str], value: Any) -> str:
    mapping = composed(text)
    wanted = _changed(yaml.safe_load(text), path, value)
    for position, name in enumerate(path):
        entry = next((pair for pair in mapping.value if pair[0].value == name), None)
        rest = path[position + 1 :]
        if entry is None:
            made = _with_new_key(text, mapping, name, _nested(rest, value))
            break
        if not rest or not isinstance(entry[1], yaml.MappingNode):
            made = _with_other_value(text, entry[0], entry[1], _nested(rest, value))
            break
        mapping = entry[1]
    if not _says(made, wanted):
        raise ValueError(
            f"set: {'.'.join(path)} cannot be set without changing other lines of deployment.yaml; edit the file"
        )
    return made


def _changed(entry: Any, path: list[str], value: Any) -> Any:
    changed = copy.deepcopy(entry)
    at = changed
    for name in path[:-1]:
        if not isinstance(at.get(name), dict):
            at[name] = {}
        at = at[name]
    at[path[-1]] = value
    return changed


def _says(text: str, wanted: Any) -> bool:
    try:
        return bool(yaml.safe_load(text) == wanted)
    except yaml.YAMLError:
        return False


def _nested(path: list[str], value: Any) -> Any:
    for name in reversed(path):
        value = {name: value}
    return value


def _shown(value: Any) -> str:
    """A value on one line; text in double quotes, which hold any character."""
    if isinstance(value, str):
        return str(yaml.safe_dump(value, default_style='"', allow_unicode=True, width=10**9)).rstrip("\n")
    flow = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**9, sort_keys=False)
    return str(flow).removesuffix("...\n").rstrip("\n")


def _with_other_value(text: str, name: yaml.Node, old: yaml.Node, value: Any) -> str:
    begin, end = name.end_mark.index, _end(old)
    line_ends = "\n" if text[:end].endswith("\n") else ""
    return f"{text[:begin]}: {_shown(value)}{line_ends}{text[end:]}"


def _with_new_key(text: str, mapping: yaml.MappingNode, name: str, value: Any) -> str:
    end = _end(mapping)
    before = text[:end] if text[:end].endswith("\n") else text[:end] + _rest_of_line(text, end)
    after = text[len(before) :]
    before += "" if before.endswith("\n") else "\n"
    return f"{before}{' ' * mapping.start_mark.column}{name}: {_shown(value)}\n{after}"


def _rest_of_line(text: str, start: int) -> str:
    """What follows on the line, such as a comment, with its end."""
    end = text.find("\n", start)
    return text[start:] if end < 0 else text[start : end + 1]


def _end(node: yaml.Node) -> int:
    """Where a node ends; that of a block is where its last item ends, before comments that follow."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)
