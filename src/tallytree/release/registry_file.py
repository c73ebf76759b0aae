"""deployment.yaml in the folder of a release: completed, checked against the schema of OpenDP's registry, and written.

The schema is a part of the package; `jsonschema` checks it. Messages name the line and the key, and for an unknown key
known ones. `ruamel.yaml` changes values and leaves the others, and comments, as they are. Both are in the extra
`registry`.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import resources
from io import StringIO
from pathlib import Path
from typing import Any

import yaml

from tallytree.release.files import free_file
from tallytree.release.registry_entry import REGISTRY_FILE, TO_BE_FILLED, registry_entry, stated_facts
from tallytree.release.release import Release
from tallytree.support.validate import require_packages
from tallytree.support.whole_files import write_whole

PACKAGES = {"jsonschema": "jsonschema", "ruamel": "ruamel.yaml"}
"""Modules of the extra `registry`, and the packages that have them."""
_TYPES = {
    "string": "text; put it in quotes",
    "number": "a number",
    "integer": "an integer",
    "object": "a mapping of keys to values",
    "array": "a list",
}


@dataclass(frozen=True)
class CompletedEntry:
    """A valid entry, and what there is to say about it.

    Attributes:
        path: of the file that holds it.
        filled: how many keys have a value.
        unfilled: dotted keys that are still to be filled, with the text that says with what.
        disagreements: sentences about values that differ from those of the privacy statement.
        choices: dotted keys that may be added and take fixed values, with these.
    """

    path: Path
    filled: int
    unfilled: dict[str, str]
    disagreements: list[str]
    choices: dict[str, list[str]]


def completed_entry(
    release: Release,
    folder: str | os.PathLike[str],
    changes: Sequence[str] = (),
    *,
    out: str | os.PathLike[str] | None = None,
    require_complete: bool = False,
) -> CompletedEntry:
    """Change the entry of a saved release as asked, check it, and write it where it has changed.

    Args:
        release: as loaded from the folder.
        folder: of the release; without a deployment.yaml, one is made.
        changes: `KEY=VALUE` each, see `given_values`.
        out: the file to make in place of changing the folder's.
        require_complete: refuse an entry of which something is still to be filled.

    Raises:
        ValueError: the release is not private; a change names no key; or the schema refuses the entry. Nothing is then
            written.
        FileExistsError: `out` exists.
        ModuleNotFoundError: the extra `registry` is not installed.
    """
    require_packages("registry", "an entry", PACKAGES, "registry")
    fresh = registry_entry(release.statement)
    values = given_values(changes)
    target = Path(os.path.abspath(folder)) / REGISTRY_FILE  # noqa: PTH100
    there = os.path.lexists(target)
    earlier = _read(target) if there else fresh
    path = target if out is None else free_file(out)
    text = with_values(earlier, values)
    stated, wrong = checked_entry(text)
    if wrong:
        more = f"; and {len(wrong) - 8} others" if len(wrong) > 8 else ""
        raise ValueError(f"entry: {str(target)!r} is not valid: {'; '.join(wrong[:8])}{more}")
    texts = {key: " ".join(value) if isinstance(value, list) else str(value) for key, value in stated.items()}
    unfilled = {key: each.partition(f"{TO_BE_FILLED}: ")[2] for key, each in texts.items() if TO_BE_FILLED in each}
    if require_complete and unfilled:
        raise ValueError(
            f"entry: {len(unfilled)} keys are still to be filled: {', '.join(unfilled)}; edit {str(target)!r} or give "
            "them by --set"
        )
    if text != earlier or path != target or not there:
        write_whole(path, text)
    disagreements = [
        f"entry: {key} is {stated[key]}, but the release's privacy statement says {value}"
        for key, value in stated_facts(release.statement).items()
        if stated.get(key, value) != value
    ]
    choices = {key: part["enum"] for key, part in schemas_by_key().items() if "enum" in part and key not in stated}
    return CompletedEntry(path, len(stated) - len(unfilled), unfilled, disagreements, choices)


@cache
def registry_schema() -> dict[str, Any]:
    """The schema of an entry, without its descriptions."""
    text = resources.files(__package__).joinpath("opendp_deployments_schema.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))


@cache
def schemas_by_key() -> dict[str, Mapping[str, Any]]:
    """The part of the schema about each value, by dotted key, in its order."""
    return {key: part for key, part, _ in _values(registry_schema(), {}, "")}


def _values(schema: Mapping[str, Any], entry: Any, above: str) -> Iterator[tuple[str, Mapping[str, Any], Any]]:
    """The dotted key, the schema and the value of each value that the schema knows; None where an entry has none."""
    for name, part in schema["properties"].items():
        value = entry.get(name) if isinstance(entry, dict) else None
        if "properties" in part:
            yield from _values(part, value, f"{above}{name}.")
        else:
            yield f"{above}{name}", part, value


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
        if key not in schemas_by_key():
            raise ValueError(f"set: the key {key[:120]!r} is not known; {_near(key, schemas_by_key())}")
        kinds = schemas_by_key()[key].get("type", "string")
        if kinds == "array":
            found.setdefault(key, []).append(text)
        elif key in found:
            raise ValueError(f"set: {key!r} is given twice; give it once")
        else:
            found[key] = _value(text, kinds, key)
    return found


def _value(text: str, kinds: str | Sequence[str], key: str) -> Any:
    number = int if "integer" in kinds else float if "number" in kinds else str
    with suppress(ValueError):
        if number is str or text.isascii():  # Python takes digits of other scripts, too
            return number(text)
    if "string" in kinds:
        return text
    raise ValueError(f"set: {key}={text[:80]!r} must be {kinds}; give a number")


def _near(name: str, known: Iterable[str]) -> str:
    """What follows in a message about an unknown name: those known whose last part is most like its own, or all."""
    last = {each: each.rpartition(".")[2] for each in known}
    near = difflib.get_close_matches(name.rpartition(".")[2], [*last.values()], n=1)
    if near:
        return f"did you mean {' or '.join(each for each in last if last[each] == near[0])}?"
    return f"known are {', '.join(last)}"


def with_values(text: str, values: Mapping[str, Any]) -> str:
    """The text of an entry with other values; all others, and comments, stay.

    Args:
        text: of deployment.yaml.
        values: text, numbers or lists of text by dotted key, as `given_values` returns them.

    Raises:
        ValueError: the text is no YAML, or no mapping.
    """
    if not values:
        return text
    from ruamel.yaml.comments import CommentedSeq
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    editor = _editor()
    _, entry = _parsed(text)
    for key, value in values.items():
        *above, last = key.split(".")
        at = entry
        for name in above:
            if not isinstance(at.get(name), dict):
                at[name] = {}
            at = at[name]
        if isinstance(value, str):
            at[last] = DoubleQuotedScalarString(value)
        elif isinstance(value, list):
            new, old = CommentedSeq(map(DoubleQuotedScalarString, value)), at.get(last)
            if isinstance(old, CommentedSeq) and len(old) - 1 in old.ca.items:  # comments after the last item
                new.ca.items[len(new) - 1] = old.ca.items[len(old) - 1]
            at[last] = new
        else:
            at[last] = editor.load(yaml.safe_dump(value))  # a number, as every reader of YAML takes it for one
    made = StringIO()
    editor.dump(entry, made)
    return made.getvalue()


def _editor() -> Any:
    from ruamel.yaml import YAML

    editor = YAML()
    editor.preserve_quotes = True
    editor.width = 110  # as `registry_entry` has it
    return editor


MOST_VALUES = 10_000
"""An entry has some hundred; nested aliases can stand for any number."""


def _parsed(text: str) -> tuple[dict[str, Any], Any]:
    """An entry, and the same with comments and the lines of its keys.

    Raises:
        ValueError: it is no YAML, or no mapping.
    """
    from ruamel.yaml.error import YAMLError

    try:
        entry, with_lines = yaml.safe_load(text), _editor().load(text)
    except (yaml.YAMLError, YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark else ""
        why = getattr(error, "problem", None) or "it cannot be read"
        raise ValueError(f"entry: it is no YAML{line}: {why}; correct the line, or take the file out of DIR") from None
    if not isinstance(entry, dict):
        raise ValueError("entry: it must be a mapping of keys to values, as tallytree writes deployment.yaml")
    if _written_out(entry, {}) > MOST_VALUES:
        raise ValueError(f"entry: its aliases stand for more than {MOST_VALUES:,} values; write values in their place")
    return entry, with_lines


def _written_out(value: Any, known: dict[int, float]) -> float:
    """How many values there are with every alias written out; infinite where one stands for itself."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        known[id(value)] = math.inf  # what lies below may be the value itself
        below = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_written_out(each, known) for each in below)
    return known[id(value)]


def checked_entry(text: str) -> tuple[dict[str, Any], list[str]]:
    """The values in the text of an entry by dotted key, and sentences about what the schema refuses.

    Raises:
        ValueError: it is no YAML, or no mapping.
    """
    from jsonschema import Draft202012Validator, FormatChecker

    entry, with_lines = _parsed(text)
    found = Draft202012Validator(registry_schema(), format_checker=FormatChecker()).iter_errors(entry)
    wrong = sorted({(_line(with_lines, [*error.path, *more]), said) for error in found for more, said in _said(error)})
    values = {key: value for key, _, value in _values(registry_schema(), entry, "") if value is not None}
    return values, [f"line {line}: {said}" for line, said in wrong]


def _line(entry: Any, path: Sequence[str | int]) -> int:
    """The line of a key; where it is not known, as of a key that an alias brings in, that of the mapping it is in."""
    line = 0
    with suppress(KeyError, TypeError, AttributeError):
        for name in path:
            line, entry = entry.lc.data[name][0], entry[name]
    return int(line) + 1


def _said(error: Any) -> Iterator[tuple[list[Any], str]]:
    """What an error of `jsonschema` is in our words, with a key below its own that it is about."""
    value, rule = error.instance, error.validator_value
    key = ".".join(map(str, error.path)) or "the entry"
    shown = repr(str(value)[:80])
    match error.validator:
        case "type":
            kinds = [rule] if isinstance(rule, str) else rule
            yield [], f"{key} must be {' or '.join(_TYPES[kind] for kind in kinds)}"
        case "required":
            yield from (([], f"{key} has no {name!r}, which it must have") for name in rule if name not in value)
        case "additionalProperties":
            known = error.schema["properties"]
            for name in (each for each in value if each not in known):
                path = f"{key}.{name}" if error.path else str(name)
                yield [name], f"the key {path[:120]!r} is not known; {_near(str(name), known)}"
        case "minItems":
            yield [], f"{key} must have at least one item"
        case _ if TO_BE_FILLED in shown:
            return
        case "enum":
            yield [], f"{key}: {shown} must be one of {', '.join(map(str, rule))}"
        case "format":
            yield [], f"{key}: {shown} must be a day, as YYYY-MM-DD"


def _read(path: Path) -> str:
    if not path.is_file():  # a named pipe would be waited for
        raise ValueError(f"entry: {str(path)!r} is no file; move it away")
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"entry: {str(path)!r} is not UTF-8 text; save it as UTF-8") from None
