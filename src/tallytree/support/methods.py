"""Methods of `Release` whose functions lie on floors above it, such as `total`, `share` and `plot`.

A module above registers its function here. `tallytree/__init__.py`, which Python runs before any module of the package,
says which module that is; it is imported when the method is first called.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

MODULES: dict[str, str] = {}
"""By method the module that registers it."""
_FUNCTIONS: dict[str, Callable[..., Any]] = {}


def method_of_release(name: str) -> Callable[[Function], Function]:
    """Register what a method of `Release` does; the function gets the release first."""

    def registered(function: Function) -> Function:
        _FUNCTIONS[name] = function
        return function

    return registered


def registered_method(name: str) -> Callable[..., Any]:
    """The function of a method."""
    if name not in _FUNCTIONS:
        importlib.import_module(MODULES[name])
    return _FUNCTIONS[name]
