"""Checks of single arguments, whose messages name the argument, the value and the remedy."""

from __future__ import annotations

import importlib.util
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tallytree.support.machine import LEAST, memory_bytes


def require_packages(argument: str, what: str, packages: Iterable[str] | Mapping[str, str], extra: str) -> None:
    """Refuse what this installation cannot do, before anything is read or spent.

    Args:
        argument: its name.
        what: what needs the packages, as the message shows it.
        packages: the modules; where a package has another name than its module, module → package.
        extra: the extra that has them.

    Raises:
        ModuleNotFoundError: one of the packages is not installed.
    """
    for module in packages:
        if importlib.util.find_spec(module) is None:
            raise missing(argument, what, packages[module] if isinstance(packages, Mapping) else module, extra)


def missing(argument: str, what: str, package: str, extra: str) -> ModuleNotFoundError:
    """The error that says which package of which extra is not installed: see `require_packages`."""
    return ModuleNotFoundError(
        f'{argument}: {what} needs {package}, which is not installed: pip install "tallytree[{extra}]"'
    )


def safe_text(value: object) -> str:
    """A value as a message may show it: a number, None or True as it is written, of everything else its type alone.

    Where an argument is of the wrong kind, it may be a private column, or a value of one, given in place of its name.
    """
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, int):
        return repr(value) if value.bit_length() <= 128 else "an integer of more than 38 digits"
    if isinstance(value, float):
        return repr(float(value))
    return type(value).__name__


def integer(value: Any, argument: str, *, least: int | None = None, most: int | None = None) -> int:
    """The value, if it is an integer within bounds.

    Raises:
        TypeError: not an integer (a bool is none).
        ValueError: out of bounds.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{argument}: {safe_text(value)} must be an integer")
    try:
        number = operator.index(value)
    except TypeError:  # an array of several, or of text
        number = None
    if number is None:
        raise TypeError(f"{argument}: {safe_text(value)} must be an integer")
    if least is not None and number < least:
        raise ValueError(f"{argument}: {safe_text(number)} must be at least {least}")
    if most is not None and number > most:
        raise ValueError(f"{argument}: {safe_text(number)} must be at most {most}")
    return number


def text(value: object, argument: str, wanted: str = "text") -> str:
    """The value, if it is text that can be written to a file.

    Raises:
        TypeError: it is no text; the message shows the type only, since it may be a private column.
        ValueError: it has a NUL character, or half a surrogate pair.
    """
    if not isinstance(value, str):
        raise TypeError(f"{argument}: {type(value).__name__} must be {wanted}")
    if "\0" in value:
        raise ValueError(f"{argument}: {value[:200]!r} has a NUL character; take it out")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError(f"{argument}: {value[:200]!r} cannot be written as UTF-8 (it has a lone surrogate); rename it")
    return value


def path_text(value: object, argument: str, wanted: str = "a path") -> str:
    """The path as text, if it can be that of a file.

    Raises:
        TypeError: no path (one in bytes is none); the message shows the type only.
        ValueError: it has a NUL character, or bytes that are not UTF-8.
    """
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{argument}: {type(value).__name__} must be {wanted}")
    return text(os.fspath(value), argument, wanted)


def memory_text(value: object, argument: str, least: int = LEAST) -> str:
    """The amount of memory as given, if it is one, such as `"4GB"`; see `tallytree.support.machine`.

    Raises:
        TypeError: not text.
        ValueError: no number with a unit, or out of range.
    """
    if not isinstance(value, str):
        raise TypeError(f"{argument}: {safe_text(value)} must be text such as '4GB'")
    memory_bytes(value, argument, least)
    return value


def choice(value: object, argument: str, known: Sequence[str]) -> None:
    """Refuse a value that is none of those known.

    Raises:
        ValueError: it is other text.
        TypeError: it is no text; of such a value the message shows the type only, since it may be a private column.
    """
    names = [f'"{name}"' for name in known]
    listed = " or ".join(each for each in (", ".join(names[:-1]), names[-1]) if each)
    if not isinstance(value, str):
        raise TypeError(f"{argument}: {safe_text(value)} must be {listed}")
    if value not in known:
        raise ValueError(f"{argument}: {value!r} is not known; choose {listed}")


def flag(value: object, argument: str) -> None:
    """Refuse what is neither True nor False.

    Raises:
        TypeError: it is neither.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{argument}: {safe_text(value)} must be True or False")


def column(name: object, argument: str) -> None:
    """Refuse what is no name of a column; None, for no column, is accepted.

    Raises:
        TypeError, ValueError: see `text`.
    """
    if name is not None:
        text(name, argument, "the name of a column")
