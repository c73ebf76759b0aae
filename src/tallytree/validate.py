"""Checks of single arguments, whose messages name the argument, the value and the remedy."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from typing import Any


def require_packages(argument: str, choice: str, packages: Iterable[str]) -> None:
    """Refuse a choice of the papers' own solvers that this installation cannot keep, before anything is spent.

    Raises:
        ModuleNotFoundError: one of its packages is not installed.
    """
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise ModuleNotFoundError(
                f'{argument}: {choice!r} needs {package}, which is not installed: pip install "tallytree[papers]"'
            )


def integer(value: Any, argument: str, *, least: int | None = None, most: int | None = None) -> int:
    """The value, if it is an integer within bounds.

    Raises:
        TypeError: not an integer (a bool is none).
        ValueError: out of bounds.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{argument}: {value!r} must be an integer")
    number = int(value)
    if least is not None and number < least:
        raise ValueError(f"{argument}: {number} must be at least {least}")
    if most is not None and number > most:
        raise ValueError(f"{argument}: {number} must be at most {most}")
    return number


def choice(value: object, argument: str, known: Sequence[str]) -> None:
    """Refuse a value that is none of those known.

    Raises:
        ValueError: it is other text.
        TypeError: it is no text; of such a value the message shows the type only, since it may be a private column.
    """
    names = [f'"{name}"' for name in known]
    listed = f"{', '.join(names[:-1])} or {names[-1]}"
    if not isinstance(value, str):
        raise TypeError(f"{argument}: {type(value).__name__} must be {listed}")
    if value not in known:
        raise ValueError(f"{argument}: {value!r} is not known; choose {listed}")


def column(name: object, argument: str) -> None:
    """Refuse what is no name of a column; None, for no column, is accepted.

    Raises:
        TypeError: it is no text; the message shows the type only, since it may be a private column itself.
    """
    if name is not None and not isinstance(name, str):
        raise TypeError(f"{argument}: {type(name).__name__} must be the name of a column")
