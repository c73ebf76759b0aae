"""`${NAME}` in the texts of a spec, where the spec declares NAME under `variables`.

A value comes from the changes (`--set variables.NAME=…`), else from the environment variable of that name, else from
the default that the spec declares. It becomes a part of one text: it is never read as YAML, and a `${…}` in it stays as
it is. Keys are not substituted. `$${NAME}` stands for the text `${NAME}` itself.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from tallytree.spec.changes import VARIABLES
from tallytree.spec.document import Document, KeyPath
from tallytree.spec.scalars import Plain, shown
from tallytree.spec.wording import closest

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"(\$?)\$\{([^}]*)\}")


def substituted(document: Document, given: Mapping[str, str], environment: Mapping[str, str]) -> Document:
    """The document without its section `variables`, its texts with the values of variables.

    Args:
        document: as it was read, and changed.
        given: values that go before all others.
        environment: the environment; only declared names are looked up in it.

    Raises:
        SpecError: the section is wrong; a text names what is not declared, or what has no value.
    """
    values = _Values(document, given, environment)
    data = {key: values.within(value, (key,)) for key, value in document.data.items() if key != VARIABLES}
    return dataclasses.replace(document, data=data, written=values.written)


class _Values:
    """The values of the declared variables, and which texts have one of the environment.

    Attributes:
        written: as they are written, the texts that have a value of the environment.
    """

    def __init__(self, document: Document, given: Mapping[str, str], environment: Mapping[str, str]) -> None:
        self._document = document
        self._defaults = _declared(document)
        self._given = given
        self._environment = environment
        self.written: dict[KeyPath, str] = {}
        for name in given:
            if name not in self._defaults:
                near = closest(name, self._defaults)
                guess = f"did you mean {near}?" if near else "declare it under variables"
                raise document.error((VARIABLES, name), f"is given, but the spec does not declare it; {guess}")

    def within(self, value: Any, path: KeyPath) -> Any:
        """The value with variables in all of its texts."""
        if isinstance(value, dict):
            return {key: self.within(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.within(item, (*path, i)) for i, item in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        return _REFERENCE.sub(lambda found: self._replaced(found, value, path), value)

    def _replaced(self, found: re.Match[str], text: str, path: KeyPath) -> str:
        escaped, name = found.groups()
        if escaped:
            return found[0][1:]
        if name not in self._defaults:
            near = closest(name, self._defaults)
            guess = f"did you mean ${{{near}}}?" if near else f"add variables: [{name}]"
            raise self._document.error(
                path, f"${{{name}}} is not declared under variables; {guess} (to write this text itself: $${{{name}}})"
            )
        if name in self._given:
            value: str | None = self._given[name]
        elif name in self._environment:
            value = self._environment[name]
            self.written[path] = text
        else:
            value = self._defaults[name]
        if not value:
            raise self._document.error(
                (VARIABLES, name),
                f"{'has no value' if value is None else 'is empty'}; give --set {VARIABLES}.{name}=…, or set the "
                f"environment variable {name}, or declare a default: {VARIABLES}: {{{name}: {{default: …}}}}",
            )
        return value


def _declared(document: Document) -> dict[str, str | None]:
    """The declared names, each with its default."""
    section = document.data.get(VARIABLES, {})
    if isinstance(section, list):
        names: dict[str, str | None] = {item if isinstance(item, str) else shown(item): None for item in section}
    elif isinstance(section, dict):
        # A name without a value is left out of the data, but not of the lines.
        names = {str(path[1]): None for path in document.lines if path[0] == VARIABLES and len(path) == 2}
        names |= {name: _default(document, name, section[name]) for name in section}
    else:
        raise document.error(
            (VARIABLES,), f"{shown(section)} must be a list of names, or a mapping such as {{DATE: {{default: today}}}}"
        )
    for name in names:
        if not _NAME.fullmatch(name):
            raise document.error((VARIABLES,), f"{name!r} is no name; use letters, digits and _, as in DATE_1")
    return names


def _default(document: Document, name: str, given: Any) -> str | None:
    if not isinstance(given, dict) or set(given) - {"default"}:
        raise document.error(
            (VARIABLES, name), f"{shown(given)} must be a mapping such as {{default: 2026-11-22}}, or nothing"
        )
    value = given.get("default")
    if value is None:
        return None
    text = value.text if isinstance(value, Plain) else value
    if not isinstance(text, str):
        raise document.error((VARIABLES, name, "default"), f"{shown(value)} is given where text is wanted")
    return text
