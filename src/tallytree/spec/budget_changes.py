"""A spec with another budget: as a mapping for `load_spec`, and as YAML in which only the amount is changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

from tallytree.errors import SpecError
from tallytree.sources.kinds import TABLE_SOURCES
from tallytree.spec.document import Document, KeyPath, read_yaml
from tallytree.spec.scalars import Plain
from tallytree.spec.table_values import plain_table

FOLDER_KEYS = ("temp_directory", "ledger", "secret")
"""Keys whose values are paths, relative to the spec's folder."""

TABLE_KEYS = ("path",)
"""Keys in sections whose values are tables; those of the statistic are beside them."""


def decimal_text(amount: Fraction) -> str:
    """An amount in decimal digits, exactly.

    Raises:
        ValueError: it has no finite decimal form.
    """
    digits = Decimal(amount.numerator) / Decimal(amount.denominator)
    if Fraction(digits) != amount:
        raise ValueError(f"budget: {amount} has no finite decimal form; give a decimal number")
    return f"{digits.normalize():f}" if abs(digits.adjusted()) < 7 else f"{digits.normalize()}"


def plain_mapping(document: Document, tables: tuple[str, ...]) -> dict[str, Any]:
    """The spec as Python values, whose paths do not depend on the working directory where it is from a file."""
    folder = Path(document.name).parent if Path(document.name).is_file() else None
    mapping: dict[str, Any] = _python(document.data, (*TABLE_KEYS, *tables), folder)
    mapping.pop("variables", None)
    return mapping


def with_budget(spec: dict[str, Any], name: str, amount: Fraction) -> dict[str, Any]:
    """A spec as Python values with another ε (or ρ)."""
    return {**spec, "budget": {**spec["budget"], name: Decimal(decimal_text(amount))}}


def rewritten(name: str, path: KeyPath, value: str) -> str:
    """The text of a YAML file with another value of one key; all else stays as it is written, comments too.

    Raises:
        SpecError: the file has no such key.
    """
    return _rewritten(name, *read_yaml(name), path, value)


def with_precision(text: str, precision: Mapping[str, float]) -> str:
    """The text of a YAML spec with other wishes under `precision`, which need not be there."""
    value = json.dumps(dict(precision), ensure_ascii=False)
    node = yaml.compose(text)
    assert isinstance(node, yaml.MappingNode)  # noqa: S101  (a spec was read from it)
    if any(key.value == "precision" for key, _ in node.value):
        return _rewritten("spec", text, node, ("precision",), value)
    if node.flow_style:
        end = node.end_mark.index - 1
        return f"{text[:end].rstrip().removesuffix(',')}, precision: {value}{text[end:]}"
    end = node.end_mark.index
    before = text[:end] if text[:end].endswith("\n") else text[:end] + "\n"
    return f"{before}precision: {value}\n{text[end:]}"


def _rewritten(name: str, text: str, node: yaml.Node, path: KeyPath, value: str) -> str:
    for key in path:
        found = {each.value: below for each, below in node.value} if isinstance(node, yaml.MappingNode) else {}
        if key not in found:
            raise SpecError(
                f"{name}: it has no key {'.'.join(map(str, path))} of its own; write the budget in the spec"
            )
        node = found[key]
    # A mapping over several lines ends where the next key begins, after comments; its last value ends before them.
    last = node.value[-1][1] if isinstance(node, yaml.MappingNode) and not node.flow_style else node
    start = node.start_mark.index
    gap = " " if text[:start].endswith(":") else ""  # a key without a value
    return text[:start] + gap + value + text[last.end_mark.index :]


def _python(value: Any, tables: tuple[str, ...], folder: Path | None, key: str = "") -> Any:
    def path(written: str) -> str:
        return written if folder is None else str((folder / written).absolute())

    if key in tables or (isinstance(value, dict) and "path" not in value and TABLE_SOURCES.keys() & value.keys()):
        return plain_table(value, path)
    if isinstance(value, dict):
        return {name: _python(each, tables, folder, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_python(each, tables, folder) for each in value]
    if isinstance(value, Plain):
        return value.text.lower() == "true" if value.kind == "boolean" else _number(value.text)
    return path(value) if key in FOLDER_KEYS else value


def _number(text: str) -> int | Decimal | str:
    try:
        number = Decimal(text.replace("_", ""))
    except ArithmeticError:
        return text
    return int(number) if number == number.to_integral_value() and abs(number) < 10**15 else number
