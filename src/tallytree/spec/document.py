"""The document: YAML with the line of every key."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import yaml

from tallytree.errors import SpecError
from tallytree.spec.scalars import NUMBER, Plain
from tallytree.support.validate import path_text

KeyPath: TypeAlias = tuple[str | int, ...]

MAX_FILE = 200_000
"""Bytes. A data file that is given as the spec is refused at once; of the largest spec, reading takes seconds."""

MAX_ENTRIES = 20_000
"""Keys and list items, aliases followed; bounds what a few nested aliases can grow into."""

MAX_DEPTH = 20
"""Keys and list items inside one another; bounds an alias that repeats itself."""

_KINDS: dict[str, Literal["number", "boolean", "date", "empty value"]] = {
    "int": "number",
    "float": "number",
    "bool": "boolean",
    "timestamp": "date",
    "null": "empty value",
}
"""What YAML's tags are called in messages."""


@dataclass(frozen=True, eq=False)
class Document:
    """A parsed spec.

    Attributes:
        name: the file's path as it was given.
        data: mappings, lists, strings and `Plain` scalars; keys without a value are left out.
        lines: the line of every key and list item, those without a value included; None where it is in no file.
        given: by what a key was given that is not the file's, such as `--set`.
        written: as they are written, the texts in which a variable has a value of the environment.
    """

    name: str
    data: Mapping[str, Any]
    lines: Mapping[KeyPath, int | None]
    given: Mapping[KeyPath, str] = field(default_factory=dict)
    written: Mapping[KeyPath, str] = field(default_factory=dict)

    def error(self, path: KeyPath, message: str) -> SpecError:
        """An error at a key; the line is that of the nearest enclosing key that is there."""
        return SpecError(f"{self.place(path)}: {message}")

    def place(self, path: KeyPath) -> str:
        """File, line and dotted key."""
        near = path
        while near and near not in self.lines:
            near = near[:-1]
        if near in self.given:
            return f"{self.name}, {self.given[near]} {'.'.join(map(str, path))}"
        return _place(self.name, self.lines[near] if near else None, path)


def _place(name: str, line: int | None, path: KeyPath) -> str:
    dotted = ".".join(part for part in path if isinstance(part, str))
    return ", ".join([name, *([] if line is None else [f"line {line}"]), *([dotted] if dotted else [])])


def read_document(path: str | os.PathLike[str]) -> Document:
    """Read a YAML file and find the line of every key.

    Raises:
        SpecError: no such file, not UTF-8, not YAML, a key given twice, or no mapping at the top.
    """
    name = path_text(path, "spec", "the path of a YAML file, or a mapping of keys")
    text = _read_text(name)
    try:
        node = _compose(text)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(name, text, error) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise SpecError(f"{name}, line {line}: character U+{error.character:04X} is not allowed in YAML") from None
    except RecursionError:
        raise SpecError(f"{name}: lists and mappings are nested too deeply for a spec") from None
    if node is None:
        raise SpecError(f"{name}: is empty; it needs at least statistic, a table, its hierarchy and a budget")
    if not isinstance(node, yaml.MappingNode):
        kind = "a list" if isinstance(node, yaml.SequenceNode) else "a single value"
        raise SpecError(f"{name}, line {_line(node)}: is {kind}; a spec is a mapping, with lines such as budget: ...")
    reader = _Reader(name)
    return Document(name, reader.value(node, ()), reader.lines)


def read_scalar(text: str, place: str) -> str | Plain:
    """One value, read as a value of a spec is; but a date is text, since a shell takes quotes away.

    Args:
        text: YAML.
        place: where it is written, for messages.

    Raises:
        SpecError: it is no single value, or not YAML.
    """
    try:
        node = _compose(text)
    except (yaml.YAMLError, RecursionError):
        raise SpecError(f"{place}: the value is not valid YAML; put it in quotes") from None
    if node is None:
        return Plain("", "empty value")
    if not isinstance(node, yaml.ScalarNode):
        raise SpecError(f"{place}: a list or a mapping is given; give one value, or write it in the spec")
    value = _Reader(place).scalar(node, ())
    return value.text if isinstance(value, Plain) and value.kind == "date" else value


def read_yaml(name: str) -> tuple[str, yaml.Node]:
    """The text of a spec that was read before, and its node, with the places of all nodes in the text."""
    text = _read_text(name)
    node = _compose(text)
    if node is None:
        raise SpecError(f"{name}: is empty")
    return text, node


def _read_text(name: str) -> str:
    path = Path(name)
    if not os.path.exists(name):  # noqa: PTH110 (Path.exists raises an error for a name that is too long)
        raise SpecError(f"{name[:200]}: no such file; give the path of a YAML spec")
    if not path.is_file():
        raise SpecError(f"{name}: is not a spec; give the path of a YAML file")
    if path.stat().st_size > MAX_FILE:
        raise SpecError(f"{name}: is not a spec; give the path of a YAML file of at most {MAX_FILE:,} bytes")
    raw = path.read_bytes()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        byte = raw[error.start]
    raise SpecError(f"{name}, line {line}: byte 0x{byte:02x} is not UTF-8; save the file as UTF-8")


def _compose(text: str) -> yaml.Node | None:
    loader = yaml.SafeLoader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


def _syntax_error(name: str, text: str, error: yaml.MarkedYAMLError) -> SpecError:
    line = error.problem_mark.line if error.problem_mark else 0
    lines = text.splitlines()
    written = lines[min(line, len(lines) - 1)]
    problem = str(error.problem)
    if "\t" in written[: len(written) - len(written.lstrip())] or "'\\t'" in problem:
        remedy = "indent with spaces, not with tabs"
    elif "mapping values are not allowed" in problem:
        remedy = "check the indentation, and quote text that has a colon in it"
    elif "single document" in str(error.context):
        remedy = "one file is one spec; take the second document (after ---) out"
    else:
        remedy = "check brackets, quotes and indentation"
    return SpecError(f"{name}, line {line + 1}: not valid YAML ({problem}); {remedy}")


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


class _Reader:
    """Turns YAML nodes into plain data, and notes the lines of keys on the way."""

    def __init__(self, name: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._name = name

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._entry(item, item, (*path, i)) for i, item in enumerate(node.value)]
        return self.scalar(cast(yaml.ScalarNode, node), path)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        data: dict[str, Any] = {}
        before: yaml.Node | None = None
        for key_node, value_node in node.value:
            self._refuse_decimal_comma(before, key_node, value_node, path)
            before = value_node
            key = self._key(key_node, path)
            here = (*path, key)
            if here in self.lines:
                raise self._error(key_node, here, f"is given twice (first in line {self.lines[here]}); keep one")
            value = self._entry(key_node, value_node, here)
            if not (isinstance(value, Plain) and value.kind == "empty value"):
                data[key] = value
        return data

    def _entry(self, place: yaml.Node, node: yaml.Node, path: KeyPath) -> Any:
        self.lines[path] = _line(place)
        if len(self.lines) > MAX_ENTRIES or len(path) > MAX_DEPTH:
            raise self._error(place, path, "too many entries for a spec; does an alias repeat itself?")
        return self.value(node, path)

    def _refuse_decimal_comma(self, before: yaml.Node | None, key: yaml.Node, value: yaml.Node, path: KeyPath) -> None:
        """Refuse `{epsilon: 0,5}`, which YAML reads as `{epsilon: 0, 5: }`.

        Raises:
            SpecError: naming both halves.
        """
        digits = [each.value for each in (before, key) if isinstance(each, yaml.ScalarNode) and each.value.isdigit()]
        if len(digits) == 2 and value.value == "":
            whole, rest = digits
            raise self._error(key, path, f"{whole},{rest} has a comma; write it with a point: {whole}.{rest}")

    def _key(self, node: yaml.Node, path: KeyPath) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self._error(node, path, "a key must be text, not a list or a mapping")
        if node.tag == "tag:yaml.org,2002:merge":
            raise self._error(
                node, path, "<< is not supported; write the keys out, or use an alias for all of the mapping"
            )
        key = self.scalar(node, path)
        if isinstance(key, Plain):
            raise self._error(node, path, f"the key {key.where_text_is_wanted()}")
        return key

    def scalar(self, node: yaml.ScalarNode, path: KeyPath) -> str | Plain:
        """A single value, as it is written."""
        tag = node.tag.removeprefix("tag:yaml.org,2002:")
        if tag in _KINDS:
            return Plain(node.value, _KINDS[tag])
        if tag == "str" and node.style is None and NUMBER.fullmatch(node.value):
            return Plain(node.value, "number")
        if tag not in ("str", "value"):
            raise self._error(node, path, f"the tag {node.tag} is not supported; leave it out")
        return str(node.value)

    def _error(self, node: yaml.Node, path: KeyPath, message: str) -> SpecError:
        return SpecError(f"{_place(self._name, _line(node), path)}: {message}")
