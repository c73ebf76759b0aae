"""Checks of single arguments, whose messages name the argument, the value and the remedy."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
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
