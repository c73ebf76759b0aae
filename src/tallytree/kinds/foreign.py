"""Mechanisms from outside: which classes are, how a text names one, and when its code is imported.

Code from outside is imported where somebody asks for it, and nowhere else: by an entry point that is installed in the
group `GROUP` and that a spec names, or by `module:Class` where the caller allows code. What is only read (a release, a
report, an export) finds a class if its module is imported already, and imports nothing.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib.metadata import entry_points
from typing import Any, TypeVar, cast

from tallytree.kinds.mechanism import Mechanism
from tallytree.support.validate import safe_text

NOT_ALLOWED = (
    "is code from outside, which runs beside the private data and is not audited by tallytree; read it, and allow it "
    "with --allow-code (in Python allow_code=True)"
)
GROUP = "tallytree.mechanisms"
"""The group of entry points that packages offer mechanisms in."""
CODE = re.compile(r"(?P<module>\w+(?:\.\w+)*):(?P<name>\w+(?:\.\w+)*)")
"""How a text names code."""

M = TypeVar("M", bound=Mechanism)


def is_foreign(mechanism: object) -> bool:
    """Whether a mechanism is not one of this library's: its class is not found where it says that it is from."""
    kind = type(mechanism)
    module = sys.modules.get(kind.__module__) if kind.__module__.startswith("tallytree.") else None
    return isinstance(mechanism, Mechanism) and getattr(module, kind.__name__, None) is not kind


def code_of(kind: type) -> str:
    """How a statement and a spec name the code of a class: `module:Class`."""
    return f"{kind.__module__}:{kind.__qualname__}"


def is_code(name: str) -> bool:
    """Whether a text names code, and not a mechanism of this library or an entry point."""
    return ":" in name


def installed() -> list[str]:
    """The names of the installed entry points, sorted; none is imported, so it is not known which kinds they are."""
    return sorted({each.name for each in entry_points(group=GROUP)})


def installed_class(name: str, base: type[M]) -> type[M] | None:
    """The class of the installed entry point with a name, which is imported; None where there is none.

    Raises:
        ValueError: several packages offer the name, the import fails, or it is no mechanism of this kind.
    """
    offered = {each.value for each in entry_points(group=GROUP) if each.name == name}
    if len(offered) > 1:
        raise ValueError(
            f"mechanism: several installed packages offer {name!r}, as {', '.join(sorted(offered))}; keep one of them"
        )
    return imported_class(offered.pop(), base) if offered else None


def imported_class(code: str, base: type[M]) -> type[M]:
    """The class that `module:Class` names; the module is imported, which runs its code.

    Raises:
        ValueError: the import fails, or it is no mechanism of this kind.
    """
    found = CODE.fullmatch(code)
    if found is None:
        raise ValueError(f"mechanism: {code[:200]!r} must be module:Class, such as my_package.uniform:Uniform")
    try:
        named: Any = importlib.import_module(found["module"])
        for part in found["name"].split("."):
            named = getattr(named, part)
    except (Exception, SystemExit) as error:  # any code may run; no private row is read yet, so its message holds none
        raise ValueError(
            f"mechanism: {code!r} cannot be imported ({type(error).__name__}: {error}); install its package, or put "
            "its folder on PYTHONPATH"
        ) from error
    return _checked(named, code, base)


def made_by(kind: type[M], options: Mapping[str, Any]) -> M:
    """A mechanism from outside with options.

    Raises:
        ValueError: the class refuses them.
    """
    try:
        return kind(**options)
    except (Exception, SystemExit) as error:  # any code may run; no private row is read yet
        raise ValueError(
            f"mechanism: {code_of(kind)!r} does not take the options {', '.join(options) or 'none'} "
            f"({type(error).__name__}: {error}); correct them"
        ) from error


def known_class(code: str, base: type[M]) -> type[M] | None:
    """The class that a statement names, without an import of what it names; None where it is not known here.

    It is known where its module is imported already, or where an installed entry point is it.

    Raises:
        ValueError: the entry point cannot be imported, or it is no mechanism of this kind.
    """
    if any(each.value == code for each in entry_points(group=GROUP)):
        return imported_class(code, base)
    module, _, name = code.partition(":")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return None if found is None else _checked(found, code, base)


def named_mechanism(name: str, options: Mapping[str, Any], *, allow_code: bool) -> Mechanism | None:
    """A mechanism from outside of any kind, by the name of an entry point or as `module:Class`; None for other names.

    Raises:
        ValueError: it is code that is not allowed, the import fails, or it is no mechanism that takes the options.
    """
    if is_code(name) and not allow_code:
        raise ValueError(f"mechanism: {name[:200]!r} {NOT_ALLOWED}")
    found = imported_class(name, Mechanism) if is_code(name) else installed_class(name, Mechanism)
    return None if found is None else made_by(found, options)


def import_code(statement: Mapping[str, Any]) -> None:
    """Import the mechanism of a release, where somebody allowed its code; nothing for one of this library.

    Raises:
        ValueError: the import fails, or it is no mechanism.
    """
    code = statement["mechanism"].get("code")
    if code is not None:
        imported_class(str(code), Mechanism)


def check_foreign(mechanism: Any) -> None:
    """Refuse a mechanism from outside that could not be published or repeated.

    Raises:
        TypeError: it can be changed, or has options that JSON cannot hold.
    """
    if not is_foreign(mechanism):
        return
    name = type(mechanism).__name__
    if not type(mechanism).__dataclass_params__.frozen:
        raise TypeError(f"mechanism: {name} can be changed after it is made; write @dataclass(frozen=True) above it")
    for field in fields(mechanism):
        value = getattr(mechanism, field.name)
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise TypeError(
                f"mechanism: the option {field.name!r} of {name} is {type(value).__name__}, and options are published "
                "as JSON; give a finite number, a text, true or false, or a list or mapping of these"
            ) from None


def refuse_in_bands(mechanism: Mechanism) -> None:
    """Refuse a mechanism from outside with `memory`: only in memory are its answers held back and its results checked.

    Raises:
        ValueError: it is one.
    """
    if is_foreign(mechanism):
        raise ValueError(
            f"memory: {type(mechanism).__name__} is code from outside, which works on the whole tree in memory; leave "
            "memory out"
        )


def _checked(found: Any, code: str, base: type[M]) -> type[M]:
    fits: bool = isinstance(found, type) and is_dataclass(found) and issubclass(found, base)
    if not fits:
        raise ValueError(
            f"mechanism: {code!r} is {safe_text(found)}; it must be a frozen dataclass whose base is "
            f"tallytree.mechanisms.{'…Mechanism' if base is Mechanism else base.__name__}"
        )
    return cast(type[M], found)
